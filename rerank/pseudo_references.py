"""The texts that stand in for references of one list, with their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..metrics.errors import InputError
from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Text
from .distinct import Distinct
from .lists import Candidate, CandidateList


class Weigh(Protocol):
    """Weights of pseudo-references, [N]."""

    def __call__(self, candidates: Sequence[Candidate], *, where: str) -> FloatArray:
        """The weight of each candidate; `where` names their place in messages."""


class PseudoReferences(NamedTuple):
    """Distinct pseudo-references; no texts where they are the hypotheses themselves."""

    texts: tuple[Text, ...]
    weights: FloatArray  # [R], summed over the copies of each text
    own: FloatArray | None = (
        None  # [H] weight of one copy of each hypothesis, where it is its own pseudo-reference
    )


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
