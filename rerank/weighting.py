"""How much each candidate counts as a pseudo-reference: alike, by its probability, or by a field of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from ..metrics.errors import InputError, excerpt
from ..metrics.representations import FloatArray
from ..metrics.text.texts import Text
from .lists import Candidate


def checked_weights(weights: str) -> str:
    """A setting `weights` that exists; InputError for another."""
    is_field = weights.startswith("field:") and weights != "field:"
    if weights not in ("uniform", "logprob") and not is_field:
        fix = '"uniform", "logprob" or "field:NAME"'
        raise InputError(f"found {weights!r}", where="weights", fix=fix)
    return weights


def candidate_weights(
    candidates: Sequence[Candidate], weights: str, temperature: float, where: str
) -> FloatArray:
    """The weight of every candidate as a pseudo-reference, [N].

    "uniform": 1 each. "logprob": exp(logprob / temperature), once per distinct (text, logprob), so that a list of
    samples is not counted twice. "field:NAME": that field of the candidate.

    Raises:
        InputError: a candidate lacks the number, it is negative, or all weights are 0.
    """
    if weights == "uniform":
        return np.ones(len(candidates))
    if weights == "logprob":
        values = _logprob_weights(candidates, temperature, where)
    else:
        values = _field_weights(candidates, weights.removeprefix("field:"), where)
    if not values.sum() > 0:
        raise InputError(f"all {weights} weights are 0", where=where, fix='Use weights="uniform"')
    return values


def _logprob_weights(candidates: Sequence[Candidate], temperature: float, where: str) -> FloatArray:
    """exp(logprob / temperature) relative to the most probable, 0 for repeated samples, [N]."""
    for i, candidate in enumerate(candidates):
        if candidate.logprob is None:
            fix = 'Give it, or use weights="uniform"'
            raise InputError("no logprob", where=f"{where}[{i}]", fix=fix)
    logprobs = np.array([candidate.logprob for candidate in candidates])
    seen: set[tuple[Text, float | None]] = set()
    is_new = np.ones(len(candidates), bool)
    for i, candidate in enumerate(candidates):
        sample = (candidate.text, candidate.logprob)
        is_new[i] = sample not in seen
        seen.add(sample)
    best = logprobs.max()
    if isfinite(best):
        relative = logprobs - best
    else:
        relative = np.where(logprobs == best, -np.inf, logprobs)
    return np.where(is_new, np.exp(relative / temperature), 0.0)


def _field_weights(candidates: Sequence[Candidate], name: str, where: str) -> FloatArray:
    """A field of every candidate, which may not be negative, [N]."""
    values = [
        number_field(candidate, name, f"{where}[{i}]") for i, candidate in enumerate(candidates)
    ]
    if min(values) < 0:
        at = int(np.argmin(values))
        problem = f"weight {values[at]} is negative"
        raise InputError(problem, where=f"{where}[{at}].{name}", fix="Weights are >= 0")
    return np.array(values)


def number_field(candidate: Candidate, name: str, where: str) -> float:
    """A candidate's field as a finite number; InputError if it is missing or none."""
    value = candidate.fields.get(name)
    number = finite(value)
    if number is None:
        shown = excerpt(value) if name in candidate.fields else "nothing"
        raise InputError(f"found {shown}, expected a finite number", where=f"{where}.{name}")
    return number


def finite(value: object) -> float | None:
    """A value as a finite float; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None
