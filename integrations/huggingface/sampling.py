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
    "epsilon": 0.02,  # the least probability of a token (Hewitt et al. 2022; Freitag et al. 2023 for MBR)
    "nucleus": 0.9,  # the probability that the most probable tokens hold together (Holtzman et al. 2020)
    "typical": 0.9,  # the probability that the most typical tokens hold together (Meister et al. 2023)
    "ancestral": None,  # every token
    "beam": None,
}
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together


def cutoff_of(method: Method, cutoff: float | None, where: str) -> float | None:
    """The cutoff in force; raises InputError for one that the method does not have."""
    if cutoff is None or CUTOFFS[method] is not None:
        return CUTOFFS[method] if cutoff is None else cutoff
    raise InputError(f"{method} has no cutoff, found {cutoff}", where=where, fix="Leave it out")


def warpers(method: Method, cutoff: float | None, temperature: float) -> list[Any]:
    """The processors of transformers that make logits into those that are drawn from; temperature comes first."""
    from transformers.generation import logits_process as cuts

    found: list[Any] = [] if temperature == 1 else [cuts.TemperatureLogitsWarper(temperature)]
    kinds = {
        "epsilon": cuts.EpsilonLogitsWarper,
        "nucleus": cuts.TopPLogitsWarper,
        "typical": cuts.TypicalLogitsWarper,
    }
    return found if cutoff is None else [*found, kinds[method](cutoff)]


def uniforms(seed: int, pool: str, ids: Sequence[int], number: int, steps: int) -> FloatArray:
    """The chance of one candidate: uniform numbers in [0, 1), one per token, [steps]; fewer are the first of more."""
    text = f"{seed}|{pool}|{' '.join(map(str, ids))}"
    key = np.frombuffer(blake2b(text.encode(), digest_size=16).digest(), "<u8")
    bits = np.random.Philox(key=key, counter=np.array([0, 0, 0, number], np.uint64))
    return np.random.Generator(bits).random(steps)


def drawing(chance: FloatArray, cuts: Sequence[Any]) -> Any:
    """A processor for greedy search that draws instead: it leaves one token, which chance [rows, steps] names."""
    import torch
    from transformers import LogitsProcessor

    class Drawing(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            for cut in cuts:
                scores = cut(input_ids, scores)
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u)
            return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    return Drawing()


def drawn(scores: Any, u: Any) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0."""
    import torch

    found = []
    rows = max(1, CELLS // scores.shape[1])
    for part, chance in zip(scores.split(rows), u.split(rows), strict=True):
        mass = part.double().softmax(dim=1).cumsum(dim=1)
        total = mass[:, -1:]
        wanted = torch.minimum(
            chance[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        found.append(torch.searchsorted(mass, wanted, right=True)[:, 0])
    return torch.cat(found)
