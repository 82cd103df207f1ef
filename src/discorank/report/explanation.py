"""Why a list's candidates rank as they do: the texts that agree with each, and what the metrics say, as JSON data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..metrics.base import Metric
from ..metrics.representations import FloatArray
from ..metrics.text.texts import Context, Text
from ..rerank.choice import Ranking
from ..rerank.distinct import Distinct
from ..rerank.lists import CandidateList
from .marked_errors import marked_errors

NEAREST = 3  # texts that are named


def explanation(
    ranking: Ranking,
    record: CandidateList,
    metrics: Sequence[Metric] = (),
    reasons: int | None = None,
    context: Context | None = None,
) -> dict[str, Any]:
    """The places of a ranking, each with the pseudo-references that agree most with it and what the metrics say of the
    first of these, as JSON data; errors that they mark also by their place in the whole text. Without the context in
    which the list was decided, metrics that read context say nothing. With `reasons`, they speak of that many places
    only.
    """
    distinct = Distinct(record.candidates)
    pool = Distinct(record.pseudo_references) if record.pseudo_references else distinct
    matrix = ranking.matrix  # [distinct candidates, distinct pseudo-references]
    if matrix is not None and matrix.shape != (len(distinct), len(pool)):
        matrix = None
    compared = _compared(ranking, distinct, pool)
    places = []
    for rank, place in enumerate(ranking.ranking):
        number = int(distinct.of[place.index])
        speaking = metrics if reasons is None or rank < reasons else ()
        agreeing: list[tuple[Text, float]] = []
        if matrix is not None:
            utilities = matrix[number]
            agreeing = _agreeing(utilities, pool.texts, place.text)
        nearest = [text for text, _ in agreeing[:1]]
        why = _why(speaking, place.text, nearest, record.source, context)
        errors = _errors(place.text, why)
        places.append(
            {
                "index": place.index,
                "count": place.count,
                "utility": place.utility,
                **({"compared": len(compared[number])} if compared else {}),
                "text": str(place.text),
                "agreeing": [{"text": str(text), "utility": utility} for text, utility in agreeing],
                "why": why,
                **({"errors": errors} if errors else {}),
            }
        )
    odd = _not_finite(ranking, distinct, pool)
    return {
        "id": ranking.id,
        "source": None if record.source is None else str(record.source),
        "candidates": len(record.candidates),
        "distinct": len(distinct),
        "gap": ranking.gap,
        "flags": list(ranking.flags),
        **_budget(ranking, compared),
        "ranking": places,
        **({"not_finite": odd} if odd else {}),
    }


def _compared(ranking: Ranking, distinct: Distinct, pool: Distinct) -> list[list[int]]:
    """With which of the distinct pseudo-references each distinct candidate was compared under a budget.

    Empty without a budget, and where a shortlist left candidates out.
    """
    spent = ranking.budget
    if spent is None or spent.computed.shape != (len(distinct), len(pool)):
        return []
    return [np.flatnonzero(row).tolist() for row in spent.computed]


def _budget(ranking: Ranking, compared: list[list[int]]) -> dict[str, Any]:
    """What was computed under a budget, pair by pair; nothing without one."""
    if ranking.budget is None:
        return {}
    return {"budget": {**ranking.budget.as_json(), **({"compared": compared} if compared else {})}}


def _not_finite(ranking: Ranking, distinct: Distinct, pool: Distinct) -> list[dict[str, Any]]:
    """The candidates of whom a pair has no finite value, each with what it has and against which texts."""
    matrix = ranking.matrix  # [distinct candidates, distinct pseudo-references], or one column
    if matrix is None or len(matrix) != len(distinct):
        return []
    candidates = []
    is_odd = ~np.isfinite(matrix)
    if ranking.budget is not None:
        is_odd &= ranking.budget.computed
    for number in np.flatnonzero(is_odd.any(axis=1)).tolist():
        pairs = []
        for column in np.flatnonzero(is_odd[number]).tolist():
            text = str(pool.texts[column]) if matrix.shape[1] == len(pool) else None
            pairs.append({"text": text, "utility": str(matrix[number, column])})
        index = int(distinct.first[number])
        candidates.append({"index": index, "text": str(distinct.texts[number]), "pairs": pairs})
    return candidates


def _agreeing(
    utilities: FloatArray,  # [texts]
    texts: Sequence[Text],
    chosen: Text,
) -> list[tuple[Text, float]]:
    """The `NEAREST` texts other than the chosen one, with their finite utilities, the highest first."""
    is_finite = np.isfinite(utilities)
    by_utility = np.argsort(-utilities, kind="stable").tolist()
    order = [i for i in by_utility if is_finite[i] and texts[i] != chosen]
    return [(texts[i], float(utilities[i])) for i in order[:NEAREST]]


def _why(
    metrics: Sequence[Metric],
    text: Text,
    nearest: Sequence[Text],
    source: Text | None,
    context: Context | None,
) -> dict[str, Any]:
    """What each metric says of a text against the one that agrees most with it, by its signature."""
    reasons = {}
    for metric in metrics:
        width = metric.reads.context
        knows_context = not width or context is not None
        if knows_context and (nearest or not metric.info.needs_references):
            before = None if context is None else context.last(width)
            reasons[metric.signature()] = metric.explain(text, nearest, source, before)[0]
    return {name: reason for name, reason in reasons.items() if reason}


def _errors(text: Text, why: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The errors in a text of every metric that marks some, by its signature."""
    marked = {name: marked_errors(text, reason) for name, reason in why.items()}
    return {
        name: [error._asdict() for error in errors]
        for name, errors in marked.items()
        if errors is not None
    }
