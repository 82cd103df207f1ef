"""How candidates are drawn from a model: methods and their cutoffs, and chance that depends on nothing but the input.

    next = the token at which the cumulated probability passes u,    u uniform in [0, 1)
The model's logits are divided by the temperature, the method cuts off the improbable tokens, the rest is drawn from
exactly. The numbers u are a function of the seed, the tokens of the input, the pool and the number of the candidate. So
the candidates of an input depend neither on its batch nor on what was drawn before, and 16 candidates are the first of
64. torch's own random state is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from .token_draws import Method, drawn

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

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere; overwrites those it returned before."""
            if temperature != 1:
                scores = scores / temperature
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u, method, cutoff)[:, None]
            if self.one_hot is None:
                self.one_hot = torch.full_like(scores, -torch.inf)
            else:
                self.one_hot.scatter_(1, self.last, -torch.inf)
            self.last = tokens
            return self.one_hot.scatter_(1, tokens, 0.0)

    return DrawingProcessor()
