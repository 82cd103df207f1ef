"""How candidates are drawn from a model: methods and their cutoffs, and chance that depends on nothing but the input.

    next = the token at which the cumulated probability passes u,    u uniform in [0, 1)
The model's logits are divided by the temperature, the method cuts off the improbable tokens, the rest is drawn from
exactly. The numbers u are a function of the seed, the tokens of the input, the pool and the number of the candidate. So
the candidates of an input depend neither on its batch nor on what was drawn before, and 16 candidates are the first of
64. torch's own random state is not touched. A token is drawn by the fastest way that is sure of it: over float32
probabilities, then over double ones, then plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from .block_weights import Scratch
from .kept_tokens import drawn_above, drawn_among
from .token_draws import Method, drawn_by_blocks, drawn_plainly

CUTOFFS: dict[str, float | None] = {
    # the least probability of a token (Hewitt et al. 2022; Freitag et al. 2023 for MBR)
    "epsilon": 0.02,
    # the probability that the most probable tokens hold together (Holtzman et al. 2020)
    "nucleus": 0.9,
    # the probability that the most typical tokens hold together (Meister et al. 2023)
    "typical": 0.9,
    # every token
    "ancestral": None,
    "beam": None,
}
FAST_CELLS = 1 << 24  # logits drawn from together
# of the methods that are drawn from otherwise than by an earlier version of the same number
DRAWING_VERSIONS: dict[str, int] = {"nucleus": 2, "typical": 2}


def cutoff_of(method: Method, cutoff: float | None, where: str) -> float | None:
    """The cutoff in force; raises InputError for one that the method does not have."""
    default = CUTOFFS[method]
    if cutoff is None:
        return default
    if default is None:
        raise InputError(
            f"{method} has no cutoff, found {cutoff}",
            where=where,
            fix="Leave it out",
        )
    return cutoff


def uniforms(
    seed: int,
    pool: str,
    ids: Sequence[int],
    number: int,
    steps: int,
) -> FloatArray:
    """The chance of one candidate: uniform numbers in [0, 1), one per token, [steps]; fewer are the first of more."""
    tokens = " ".join(map(str, ids))
    digest = blake2b(f"{seed}|{pool}|{tokens}".encode(), digest_size=16).digest()
    # a stream for each input (the key), and a far place in it for each candidate (the counter's highest word)
    key = np.frombuffer(digest, "<u8")  # [2]
    counter = np.array([0, 0, 0, number], np.uint64)
    stream = np.random.Philox(key=key, counter=counter)
    return np.random.Generator(stream).random(steps)


def drawing(chance: FloatArray, method: Method, cutoff: float | None, temperature: float) -> Any:
    """A processor that makes greedy search draw: it leaves one token in each row.

    Args:
        chance: the uniform numbers [rows, steps].
        method: which tokens may come.
        cutoff: the method's.
        temperature: divides the logits first.
    """
    import torch
    from transformers import LogitsProcessor

    class DrawingProcessor(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0
        one_hot: Any = None  # what was returned
        last: Any = None  # the tokens in it
        scratch = Scratch()

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere; overwrites those it returned before."""
            if temperature != 1:
                scores = scores / temperature
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u, method, cutoff, self.scratch)[:, None]
            if self.one_hot is None:
                self.one_hot = torch.full_like(scores, -torch.inf)
            else:
                self.one_hot.scatter_(1, self.last, -torch.inf)
            self.last = tokens
            return self.one_hot.scatter_(1, tokens, 0.0)

    return DrawingProcessor()


def drawn(
    scores: Any,
    u: Any,
    method: Method = "ancestral",
    cutoff: float | None = None,
    scratch: Scratch | None = None,
) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0.

    They are those of `drawn_plainly`: what is faster here draws where rounding cannot matter.

    scratch: memory that is used again where there are many steps.
    """
    import torch

    tokens = []
    rows_at_once = max(1, FAST_CELLS // scores.shape[1])
    ways = _ways(method, cutoff, scratch or Scratch())
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        chunk = torch.full_like(chance, -1, dtype=torch.int64)
        for way in ways:
            unsure = (chunk < 0).nonzero()[:, 0]
            if len(unsure) == len(chunk):
                chunk = way(logits, chance)
            elif len(unsure):
                chunk[unsure] = way(logits[unsure], chance[unsure])
        tokens.append(chunk)
    return torch.cat(tokens)


def _ways(
    method: Method, cutoff: float | None, scratch: Scratch
) -> list[Callable[[Any, Any], Any]]:
    """The ways to draw, from the fastest to the plain one; each gives -1 where it is not sure."""
    plainly = partial(drawn_plainly, method=method, cutoff=cutoff)
    if method == "epsilon" and cutoff is not None:
        return [partial(drawn_above, epsilon=cutoff, scratch=scratch), plainly]
    if cutoff is None:
        by_sums = partial(drawn_by_blocks)
    else:
        by_sums = partial(drawn_among, method=method, cutoff=cutoff)
    by_sums = partial(by_sums, scratch=scratch)
    return [partial(by_sums, precise=False), partial(by_sums, precise=True), plainly]
