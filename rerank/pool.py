"""The texts that stand in for references of one list, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from ..metrics.errors import InputError
from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Text
from .lists import Candidate, CandidateList, Distinct, number_field

# weights whose largest is outside are scaled, so that no sum overflows or vanishes
SMALL, LARGE = 1e-150, 1e150


class Weigh(Protocol):
    """Weights of pseudo-references, [N]."""

    def __call__(self, candidates: Sequence[Candidate], *, where: str) -> FloatArray:
        """The weight of each candidate; `where` names their place in messages."""


class PseudoReferences(NamedTuple):
    """Distinct pseudo-references; no texts where they are the hypotheses themselves."""

    texts: tuple[Text, ...]
    weights: FloatArray  # [R], summed over the copies of each text
    # [H] weight of one copy of each hypothesis, where it is its own pseudo-reference
    own: FloatArray | None = None


def pseudo_references(
    record: CandidateList, distinct: Distinct, kept: IntArray, weigh: Weigh
) -> PseudoReferences:
    """The pseudo-references that a list brings, or else those of its distinct candidates that are kept.

    Raises:
        InputError: weights are missing or all 0.
    """
    if record.pseudo_references:
        pool = Distinct(record.pseudo_references)
        weights = weigh(record.pseudo_references, where="pseudo_references")
        return PseudoReferences(pool.texts, pool.pooled(weights))
    weights = weigh(record.candidates, where="candidates")
    pooled = distinct.pooled(weights)[kept]
    if not pooled.sum() > 0:
        problem = "all weights of the shortlisted candidates are 0"
        raise InputError(problem, where="candidates", fix="Raise top_k")
    first_copies = distinct.first[kept]
    return PseudoReferences((), pooled, weights[first_copies])


def human_references(record: CandidateList) -> PseudoReferences:
    """The human references, against which an oracle decides; all count alike.

    Raises:
        InputError: there are none.
    """
    if not record.references:
        fix = "An oracle decides against references"
        raise InputError("no references", where="references", fix=fix)
    pool = Distinct([Candidate(text) for text in record.references])
    return PseudoReferences(pool.texts, pool.pooled(np.ones(len(record.references))))


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
    largest = max(values)
    if largest and not SMALL <= largest <= LARGE:  # sums of theirs, or of utilities times them
        return np.array(values) / largest
    return np.array(values)
