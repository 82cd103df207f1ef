"""How candidates are drawn from a model: which tokens may come, and chance that depends on nothing but the input.

    next = the token at which the cumulated probability passes u,    u uniform in [0, 1)
The model's logits are divided by the temperature, the method cuts off the improbable tokens, the rest is drawn from
exactly. The numbers u are a function of the seed, the tokens of the input, the pool and the number of the candidate. So
the candidates of an input depend neither on its batch nor on what was drawn before, and 16 candidates are the first of
64. torch's own random state is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
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
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together


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


def warpers(method: Method, cutoff: float | None, temperature: float) -> list[Any]:
    """The processors of transformers that make logits into those that are drawn from; temperature comes first."""
    from transformers.generation import logits_process as processors

    kinds = {
        "epsilon": processors.EpsilonLogitsWarper,
        "nucleus": processors.TopPLogitsWarper,
        "typical": processors.TypicalLogitsWarper,
    }
    chain: list[Any] = []
    if temperature != 1:
        chain.append(processors.TemperatureLogitsWarper(temperature))
    if cutoff is not None:
        chain.append(kinds[method](cutoff))
    return chain


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


def drawing(chance: FloatArray, cuts: Sequence[Any]) -> Any:
    """A processor that makes greedy search draw: it leaves one token in each row.

    Args:
        chance: the uniform numbers [rows, steps].
        cuts: the processors that come before, as `warpers` gives them.
    """
    import torch
    from transformers import LogitsProcessor

    class DrawingProcessor(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere."""
            for cut in cuts:
                scores = cut(input_ids, scores)
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u)
            nothing = torch.full_like(scores, -torch.inf)
            return nothing.scatter_(1, tokens[:, None], 0.0)

    return DrawingProcessor()


def drawn(scores: Any, u: Any) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0."""
    import torch

    tokens = []
    rows_at_once = max(1, CELLS // scores.shape[1])
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        # cumulated probabilities [rows, vocabulary], and their sums [rows, 1]: 1 but for rounding
        cumulated = logits.double().softmax(dim=1).cumsum(dim=1)
        total = cumulated[:, -1:]
        # chance as a part of the sum [rows, 1], below the sum even where rounding would reach it
        below_total = torch.nextafter(total, torch.zeros_like(total))
        target = torch.minimum(chance[:, None] * total, below_total)
        # the first token whose cumulated probability passes it
        tokens.append(torch.searchsorted(cumulated, target, right=True)[:, 0])
    return torch.cat(tokens)
