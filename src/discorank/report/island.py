"""Data inside the page: JSON that no text in it can end, and the texts and scores that the document browser shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..rerank.selection.kept_comparison import KeptComparison, KeptDocument, KeptScores

_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def as_island(data: Any) -> str:
    """JSON for a ``<script type="application/json">``: no letter of it has a meaning in HTML.

    >>> as_island({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def rounded(value: float | None) -> float | None:
    """Four significant digits, as the page shows."""
    return None if value is None else float(f"{value:.4g}")


def documents(comparison: KeptComparison, shown: Sequence[str], score: str) -> dict[str, Any]:
    """What the document browser needs, every text once.

    Args:
        comparison: the comparison.
        shown: the systems shown at first.
        score: the metric shown at first.
    """
    judged = [human.scores for human in comparison.human]
    references = dict.fromkeys(
        name for document in comparison.documents for name in document.references
    )
    return {
        "systems": comparison.systems,
        "metrics": [_name_and_direction(scores) for scores in comparison.metrics],
        "human": [_name_and_direction(scores) for scores in judged],
        "references": list(references),
        "shown": list(shown),
        "score": score,
        "documents": [_document(document, comparison) for document in comparison.documents],
    }


def _name_and_direction(scores: KeptScores) -> dict[str, Any]:
    return {"name": scores.name, "higher": scores.higher_is_better}


def _document(document: KeptDocument, comparison: KeptComparison) -> dict[str, Any]:
    """The texts of a document, and their scores in the order of the metrics and of the systems."""
    metrics = [metric.name for metric in comparison.metrics]
    dimensions = [human.scores.name for human in comparison.human]
    return {
        "id": document.id,
        "source": document.source,
        "references": document.references,
        "systems": [document.systems[name] for name in comparison.systems],
        "scores": [_all_rounded(document.scores[name]) for name in metrics],
        "segments": [_segment_scores(document, name) for name in metrics],
        "human": [_human_scores(document, name, comparison.systems) for name in dimensions],
    }


def _segment_scores(document: KeptDocument, metric: str) -> list[list[float | None]] | None:
    """The scores of every system's segments, None for a metric of whole documents."""
    rows = document.segments.get(metric)
    return None if rows is None else [_all_rounded(row) for row in rows]


def _all_rounded(values: Sequence[float | None]) -> list[float | None]:
    return [rounded(value) for value in values]


def _human_scores(document: KeptDocument, dimension: str, systems: Sequence[str]) -> list[Any]:
    """People's scores of every system, None where there are none."""
    by_system = document.human.get(dimension, {})
    return [by_system.get(system) for system in systems]
