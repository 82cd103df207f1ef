"""Judgements of several raters, and preferences, as one score of every text.

Raters are more or less strict. Where lower is better and no score is negative (errors), strictness is a factor,
    y_isr = f_r v_is,     v_is = sum_r y_isr / sum_r f_r,     f_r = (sum_is y_isr + P y) / (sum_is v_is + P y)
else what a rater adds,
    y_isr = v_is + c_r,   v_is = mean_r (y_isr - c_r),        c_r = sum_is (y_isr - v_is) / (n_r + P)
for text s of segment i, over the raters and texts that were judged, in turns until nothing changes; y is the mean
score. Both are likelihoods (Poisson, normal), drawn to raters alike as if that had been seen on P texts: raters are
told apart where they judged the same texts, or are joined by others. Scores keep their mean over all judgements.

Of preferences, v_i is the least-squares solution of v_worse - v_better = 1 over the compared pairs of a segment, 0 for
ties, its mean 0 (Massey 1997): lower is better. Groups of texts that no comparison joins are taken to be as good as
each other on average. Texts that nobody compared have no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from ...metrics.storage.limits import limits
from ..selection.document_outputs import DocumentOutputs, Judgements, Rankings

_ScoredText = tuple[DocumentOutputs, str, int]  # document, system, segment
PSEUDO_TEXTS = 5.0  # P
STEPS, SMALLEST = 1000, 1e-9  # of turns; a change that is none
PREFERENCES = "preferences"


class Raters(NamedTuple):
    """How strict raters are.

    Args:
        effects: by name; factors, or what they add.
        are_factors: which of the two.
    """

    effects: Mapping[str, float]
    are_factors: bool


def with_one_score(
    documents: Sequence[DocumentOutputs],
    dimensions: Sequence[str],
    lower: bool,
    name: str,
) -> tuple[list[DocumentOutputs], Raters]:
    """The documents with one dimension `name` in place of those of several raters, and how strict these are.

    Raises:
        InputError: nobody judged anything, or too many raters.
    """
    limits().check("systems", len(dimensions), "raters")  # of whom there may be as many
    is_whole = _only_of_documents(documents, dimensions)
    texts = _texts_of(documents, is_whole)
    y = np.array([[_score_of(*text, dimension) for text in texts] for dimension in dimensions])
    if np.isnan(y).all():
        raise InputError("no score", where="human", fix="Name the keys that hold scores")
    are_factors = lower and float(np.nanmin(y)) >= 0
    values, effects = (without_factors if are_factors else without_shifts)(y)
    judged = _with_scores(documents, texts, values, name, is_whole)
    by_name = dict(zip(dimensions, effects.tolist(), strict=True))
    return judged, Raters(by_name, are_factors)


def without_factors(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """v [n], nan where nobody judged, and f [R] from scores [R, n]."""
    known = ~np.isnan(y)
    scores = np.where(known, y, 0.0)
    belief = PSEUDO_TEXTS * float(y[known].mean())
    factors = np.ones(len(y))
    for _ in range(STEPS):
        strictness = known.T @ factors  # of all who judged a text, [n]
        values = scores.sum(axis=0) / np.where(strictness > 0, strictness, 1.0)
        expected = known @ values + belief
        new = (scores.sum(axis=1) + belief) / np.where(expected > 0, expected, 1.0)
        new = np.where(expected > 0, new, 1.0)
        new *= known.sum() / (known.sum(axis=1) @ new)
        change = float(np.abs(new - factors).max())
        factors = new
        if change < SMALLEST:
            break
    return np.where(known.any(axis=0), values, np.nan), factors


def without_shifts(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """v [n], nan where nobody judged, and c [R] from scores [R, n]."""
    known = ~np.isnan(y)
    scores = np.where(known, y, 0.0)
    counts = known.sum(axis=0)
    shifts = np.zeros(len(y))
    for _ in range(STEPS):
        values = (scores.sum(axis=0) - known.T @ shifts) / np.maximum(counts, 1)
        left = np.where(known, scores - values, 0.0).sum(axis=1)
        new = left / (known.sum(axis=1) + PSEUDO_TEXTS)
        new -= (known.sum(axis=1) @ new) / known.sum()
        change = float(np.abs(new - shifts).max())
        shifts = new
        if change < SMALLEST * (1 + float(np.abs(scores).max())):
            break
    return np.where(counts > 0, values, np.nan), shifts


def with_preferences(
    documents: Sequence[DocumentOutputs], rankings: Rankings
) -> list[DocumentOutputs]:
    """The documents with scores made of rankings of their segments, under `PREFERENCES`; lower is better.

    Args:
        documents: all with the same systems.
        rankings: of systems by the id of a list, ``d7:3``, or of a document of one whole text; rank 1 is the best.

    Raises:
        InputError: a ranking is of no segment, or of an unknown system.
    """
    left = set(rankings)
    judged = []
    for document in documents:
        rows = []
        for i in range(document.segments):
            name = document.id if document.whole else f"{document.id}:{i}"
            left.discard(name)
            rows.append(preference_scores(tuple(document.systems), rankings.get(name, ()), name))
        by_system: dict[str, list[float | None]] = {}
        for s, system in enumerate(document.systems):
            values = [row[s] for row in rows]
            by_system[system] = [None if np.isnan(value) else float(value) for value in values]
        human = {PREFERENCES: _judgements_of(by_system, document.whole)}
        judged.append(replace(document, human=human))
    if left:
        problem = f"{min(left)!r:.80} is no segment"
        fix = "Expected the id of a document and the number of its segment, such as d7:3"
        raise InputError(problem, where="rankings", fix=fix)
    return judged


def preference_scores(
    systems: Sequence[str], rankings: Sequence[Mapping[str, float]], name: str
) -> FloatArray:
    """v of every system, [S], nan where nobody compared it; raises InputError for an unknown system."""
    if not rankings:
        return np.full(len(systems), np.nan)
    number = {system: s for s, system in enumerate(systems)}
    laplacian = np.zeros((len(systems), len(systems)))
    lost = np.zeros(len(systems))
    for ranks in rankings:
        unknown = ranks.keys() - number.keys()
        if unknown:
            problem = f"ranks {min(unknown)!r:.80}, which is no system"
            fix = f"Its systems: {', '.join(systems)}"
            raise InputError(problem, where=f"rankings of {name:.80}", fix=fix)
        own = np.array([number[system] for system in ranks], int)
        values = np.array(list(ranks.values()))
        # every two systems are compared once
        lost[own] += np.sign(values[:, None] - values).sum(axis=1)
        laplacian[np.ix_(own, own)] -= 1.0
        laplacian[own, own] += len(own)
    compared = laplacian.diagonal() > 0
    scores = np.linalg.pinv(laplacian, hermitian=True) @ lost
    return np.where(compared, scores, np.nan)


def _only_of_documents(documents: Sequence[DocumentOutputs], dimensions: Sequence[str]) -> bool:
    """Whether every score of some dimensions is of a whole document."""
    return not any(
        isinstance(own, tuple)
        for document in documents
        for dimension in dimensions
        for own in document.human.get(dimension, {}).values()
    )


def _texts_of(documents: Sequence[DocumentOutputs], is_whole: bool) -> list[_ScoredText]:
    """(document, system, segment) of every text; one segment of whole documents."""
    texts = []
    for document in documents:
        for system in document.systems:
            segments = range(1 if is_whole else document.segments)
            texts += [(document, system, i) for i in segments]
    return texts


def _score_of(document: DocumentOutputs, system: str, segment: int, dimension: str) -> float:
    """What a rater gave a text, nan for nothing; a score of a document stands at its segments."""
    own = document.human.get(dimension, {}).get(system)
    value = own[segment] if isinstance(own, tuple) else own
    return np.nan if value is None else float(value)


def _judgements_of(
    scores: Mapping[str, Sequence[float | None]], is_whole: bool
) -> dict[str, Judgements]:
    """Scores by system as a document has them, without the systems that nobody judged."""
    by_system: dict[str, Judgements] = {}
    for system, own in scores.items():
        if all(score is None for score in own):
            continue
        only = own[0]
        by_system[system] = only if is_whole and only is not None else tuple(own)
    return by_system


def _with_scores(
    documents: Sequence[DocumentOutputs],
    texts: Sequence[_ScoredText],
    values: FloatArray,
    name: str,
    is_whole: bool,
) -> list[DocumentOutputs]:
    """The documents with one dimension `name`, of the values [n] of their texts; nan is no score."""
    scores: list[dict[str, list[float | None]]] = [{} for _ in documents]
    numbers = {id(document): d for d, document in enumerate(documents)}
    for (document, system, _), value in zip(texts, values.tolist(), strict=True):
        score = None if np.isnan(value) else value
        scores[numbers[id(document)]].setdefault(system, []).append(score)
    return [
        replace(document, human={name: _judgements_of(own, is_whole)})
        for document, own in zip(documents, scores, strict=True)
    ]
