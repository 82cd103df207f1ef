"""Data inside the page: JSON that no text in it can end, and the texts and scores that the document browser shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..rerank.selection.comparison_folder import KeptComparison, KeptDocument

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


def documents(found: KeptComparison, shown: Sequence[str], score: str) -> dict[str, Any]:
    """What the document browser needs, every text once.

    Args:
        found: the comparison.
        shown: the systems shown at first.
        score: the metric shown at first.
    """
    human = [
        {"name": one.scores.name, "higher": one.scores.higher_is_better} for one in found.human
    ]
    return {
        "systems": found.systems,
        "metrics": [{"name": one.name, "higher": one.higher_is_better} for one in found.metrics],
        "human": human,
        "references": list(
            dict.fromkeys(name for document in found.documents for name in document.references)
        ),
        "shown": list(shown),
        "score": score,
        "documents": [_document(document, found) for document in found.documents],
    }


def _document(document: KeptDocument, found: KeptComparison) -> dict[str, Any]:
    names = [one.name for one in found.metrics]
    segments = [document.segments.get(name) for name in names]
    return {
        "id": document.id,
        "source": document.source,
        "references": document.references,
        "systems": [document.systems[name] for name in found.systems],
        "scores": [[rounded(x) for x in document.scores[name]] for name in names],
        "segments": [
            None if one is None else [[rounded(x) for x in row] for row in one] for one in segments
        ],
        "human": [
            _human(document.human.get(one.scores.name, {}), found.systems) for one in found.human
        ],
    }


def _human(
    given: Mapping[str, tuple[float | None, ...] | float], systems: Sequence[str]
) -> list[Any]:
    return [given.get(system) for system in systems]
