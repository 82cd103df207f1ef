"""Ratings of annotators in a systems file: scores and marked spans of every text, under ``ratings``.

    "ratings": {"esa": {"A": [[{"rater": "anna", "score": 80, "spans": [{"start": 0, "end": 4, "severity": "major"}]},
                               null], null]}}
is dimension -> system or reference -> a list per segment: its ratings in the order of waves, null where a wave lacks
one, or null for none. ``start`` and ``end`` count characters, the end is behind the last one; both null: missing text.
``category``, ``in_source`` and ``seconds`` may be there. A dimension that ``human`` lacks has its means as scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.limits import limits
from ...rerank.selection.marked_spans import RatedSpan
from ...rerank.selection.ratings import mean_scores
from ...rerank.selection.system_scores import RatedTexts, Rating

RatingsByDimension = dict[str, dict[str, RatedTexts]]


def rating_number(value: Any, where: str) -> float | None:
    """A finite number, or None for null; raises InputError for anything else."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and isfinite(value)):
        raise InputError(f"found {excerpt(value)}, expected a number", where=where)
    return float(value)


def rating_text(value: Any, where: str) -> str | None:
    """A text, or None for null; raises InputError for anything else."""
    if not isinstance(value, str | None):
        raise InputError(f"found {excerpt(value)}, expected a text", where=where)
    return value


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"found {excerpt(value)}, expected an object", where=where)
    return value


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"found {excerpt(value)}, expected a list", where=where)
    return value


def read_ratings_of(
    document: Mapping[str, Any], texts: Mapping[str, Any], segments: int | None
) -> RatingsByDimension:
    """The ratings of a document.

    Args:
        document: a line of the systems file.
        texts: of systems and references by name.
        segments: how many there are; None for a whole text.

    Raises:
        InputError: a name is neither system nor reference, or something is of the wrong form; says where.
    """
    given = document.get("ratings")
    if given is None:
        return {}
    read: RatingsByDimension = {}
    for dimension, by_system in _mapping(given, "ratings").items():
        own = read.setdefault(dimension, {})
        for name, value in _mapping(by_system, f"ratings.{dimension}").items():
            where = f"ratings.{dimension}.{name}"
            if name not in texts:
                problem = "is neither a system nor a reference"
                raise InputError(problem, where=where, fix=f"All: {', '.join(texts)[:200]}")
            per_segment = texts[name] if segments is not None else [texts[name]]
            own[name] = _rated_texts(_list(value, where), per_segment, where)
    return read


def _rated_texts(value: Sequence[Any], texts: Any, where: str) -> RatedTexts:
    """The ratings of all segments of a system."""
    if len(value) != len(texts):
        raise InputError(f"{len(value)} segments, the text has {len(texts)}", where=where)
    rated = []
    for i, (given, text) in enumerate(zip(value, texts, strict=True)):
        ratings = [] if given is None else _list(given, f"{where}[{i}]")
        limits().check("systems", len(ratings), f"{where}[{i}]")
        length = len(text) if isinstance(text, str) else 0
        rated.append(
            tuple(_rating(one, length, f"{where}[{i}][{n}]") for n, one in enumerate(ratings))
        )
    return tuple(rated)


def _rating(value: Any, length: int, where: str) -> Rating | None:
    """A rating of a text of so many characters."""
    if value is None:
        return None
    given = _mapping(value, where)
    rater = given.get("rater")
    if not isinstance(rater, str) or not rater:
        raise InputError(f"found {excerpt(rater)}, expected a name", where=f"{where}.rater")
    spans = given.get("spans")
    read = None
    if spans is not None:
        of_list = enumerate(_list(spans, f"{where}.spans"))
        read = tuple(_span(span, length, f"{where}.spans[{n}]") for n, span in of_list)
    score = rating_number(given.get("score"), f"{where}.score")
    return Rating(rater, score, read, rating_number(given.get("seconds"), f"{where}.seconds"))


def _span(value: Any, length: int, where: str) -> RatedSpan:
    given = _mapping(value, where)
    start: Any = given.get("start")
    end: Any = given.get("end")
    in_source = bool(given.get("in_source", False))
    if (start, end) != (None, None):
        whole = all(isinstance(x, int) and not isinstance(x, bool) for x in (start, end))
        if not (whole and 0 <= start <= end and (in_source or end <= length)):
            problem = f"from {excerpt(start)} to {excerpt(end)} in a text of {length} characters"
            raise InputError(problem, where=where, fix="Both null: missing text")
    severity = rating_text(given.get("severity"), f"{where}.severity")
    category = rating_text(given.get("category"), f"{where}.category")
    return RatedSpan(start, end, severity, category, in_source)


def with_means(
    document: Mapping[str, Any],
    ratings: RatingsByDimension,
    names: Iterable[str],
    segments: int | None,
) -> Mapping[str, Any]:
    """The document whose ``human`` has the means of dimensions that it lacks; null for a system nobody rated."""
    human = document.get("human")
    if not ratings or not isinstance(human, Mapping | None):
        return document
    means: dict[str, Any] = {}
    for dimension, by_system in ratings.items():
        if dimension not in (human or {}):
            scores: dict[str, Any] = dict.fromkeys(names)
            for name, texts in by_system.items():
                own = mean_scores(texts)
                scores[name] = own[0] if segments is None else own
            means[dimension] = scores
    return {**document, "human": {**means, **(human or {})}}


def rating_object(rating: Rating | None) -> dict[str, Any] | None:
    """A rating in its JSON form."""
    if rating is None:
        return None
    row: dict[str, Any] = {"rater": rating.rater, "score": rating.score}
    if rating.spans is not None:
        row["spans"] = [span_object(span) for span in rating.spans]
    if rating.seconds is not None:
        row["seconds"] = rating.seconds
    return row


def span_object(span: RatedSpan) -> dict[str, Any]:
    """A span in its JSON form."""
    row: dict[str, Any] = {"start": span.start, "end": span.end, "severity": span.severity}
    if span.category is not None:
        row["category"] = span.category
    if span.in_source:
        row["in_source"] = True
    return row


class SpanReading:
    """Spans as annotation tools write them, ``start_i`` and ``end_i`` of the first and last character.

    Counts those that end behind their text, which are cut there, and those that have no place, which are left out.

    Args:
        behind_is_missing: a span behind the text stands for missing text.
    """

    def __init__(self, behind_is_missing: bool = False) -> None:
        self._behind_is_missing = behind_is_missing
        self.cut = 0
        self.left_out = 0

    def spans(self, given: Any, text: str, where: str) -> tuple[RatedSpan, ...] | None:
        """The spans of a text; None for null."""
        if given is None:
            return None
        read = []
        for n, span in enumerate(_list(given, where)):
            one = self._span(_mapping(span, f"{where}[{n}]"), text, f"{where}[{n}]")
            if one is not None:
                read.append(one)
        return tuple(read)

    def _span(self, span: Mapping[str, Any], text: str, where: str) -> RatedSpan | None:
        severity = rating_text(span.get("severity"), f"{where}.severity")
        category = span.get("category", span.get("error_type"))
        about = (
            severity.lower() if severity else severity,
            category if isinstance(category, str) and category else None,
        )
        start: Any = span.get("start_i")
        end: Any = span.get("end_i")
        if start == "missing" or start == "[missing]":
            return RatedSpan(None, None, *about)
        has_place = _is_place(start) and _is_place(end) and start <= end
        if has_place and start >= len(text) and self._behind_is_missing:
            return RatedSpan(None, None, *about)
        if not has_place or start >= len(text):
            self.left_out += 1
            return None
        self.cut += end >= len(text)
        return RatedSpan(start, min(end + 1, len(text)), *about)

    def take(self) -> dict[str, int]:
        """How often something was changed since this was last asked, by what is said of it."""
        counts = {
            "spans end behind their text, and were cut there": self.cut,
            "spans have no place in their text, and were left out": self.left_out,
        }
        self.cut = self.left_out = 0
        return counts


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
