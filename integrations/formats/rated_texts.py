"""Ratings of annotators in a systems file, and rated texts, segment by segment, as its rows.

    "ratings": {"esa": {"A": [[{"rater": "anna", "score": 80, "spans": [{"start": 0, "end": 4, "severity": "major"}]},
                               null], null]}}
is dimension -> system or reference -> a list per segment: its ratings in the order of waves, null where a wave lacks
one, or null for none. ``start`` and ``end`` count characters, the end is behind the last one; both null: missing text.
``category``, ``in_source`` and ``seconds`` may be there. A dimension that ``human`` lacks has its means as scores.

A row has every system of its language pair: a text that is not there is an empty one, which ``not_supplied`` names.
Lines that stand in any order are gathered first. What was left out, or taken for something else, is counted and warned
of when all is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from warnings import warn

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.limits import limits
from ...rerank.lists import finite
from ...rerank.selection.ratings import mean_scores
from ...rerank.selection.system_scores import RatedSpan, RatedTexts, TextRating
from .documents import Row

RatingsByDimension = dict[str, dict[str, RatedTexts]]


def rating_number(value: Any, where: str) -> float | None:
    """A finite number, or None for null; raises InputError for anything else."""
    if value is None:
        return None
    number = finite(value)
    if number is None:
        raise InputError(f"found {excerpt(value)}, expected a number", where=where)
    return number


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


def _rating(value: Any, length: int, where: str) -> TextRating | None:
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
    return TextRating(rater, score, read, rating_number(given.get("seconds"), f"{where}.seconds"))


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


def rating_object(rating: TextRating | None) -> dict[str, Any] | None:
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


SegmentKey = tuple[int, str]  # by which segments of a document are in order


class LeftOutWarning(UserWarning):
    """Something of a file was left out, or changed; says what and how many."""


@dataclass
class RatedSegment:
    """A segment with all of its texts and ratings."""

    source: str | None = None
    references: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    ratings: dict[str, list[TextRating | None]] = field(
        default_factory=dict
    )  # in the order of waves
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # metric -> system


class Notes:
    """What is said of a file at its end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.counts = Counter[str]()  # of sentences that begin with a number

    def warn(self, *sentences: str) -> None:
        """Warns of what was counted, and of further sentences."""
        counted = [f"{number} {what}" for what, number in self.counts.items() if number]
        if notes := [*counted, *sentences]:
            warn(f"{self._name}: {'; '.join(notes)}", LeftOutWarning, stacklevel=2)


def the_pair(pairs: Mapping[str, int], given: str | None, where: str) -> str:
    """The language pair that is read, of those there are with their segments.

    ``en-cs`` names ``en-cs_CZ`` where no other pair begins so.

    Raises:
        InputError: several and none is given, or there is none of that name.
    """
    listed = ", ".join(f"{pair or 'none named'} ({n})" for pair, n in sorted(pairs.items()))
    if given is None:
        if len(pairs) > 1:
            fix = f"Name one, such as --language-pair {min(filter(None, pairs))}"
            raise InputError(f"language pairs and their segments: {listed}", where=where, fix=fix)
        return next(iter(pairs))
    if given in pairs:
        return given
    if set(pairs) == {""}:  # a file that names no pair is all of the one
        return ""
    longer = [pair for pair in pairs if pair.startswith((f"{given}_", f"{given}-"))]
    if len(longer) == 1:
        return longer[0]
    raise InputError(
        f"no segments of {given!r:.40}", where=where, fix=f"Pairs and their segments: {listed}"
    )


def rated_row(
    head: Mapping[str, Any],
    segments: Sequence[RatedSegment],
    systems: Iterable[str],
    dimension: str | None,
) -> Row:
    """The row of a document.

    Args:
        head: its id and other keys of its own.
        segments: at least one, in order.
        systems: all of the language pair.
        dimension: of the ratings; None where nobody rated anything.
    """
    row: Row = dict(head)
    limits().check("sentences", len(segments), f"document {head['id']!r:.80}")
    names = list(systems)
    if any(segment.source is not None for segment in segments):
        row["source"] = [segment.source or "" for segment in segments]
    references = dict.fromkeys(name for segment in segments for name in segment.references)
    row["references"] = {
        name: [segment.references.get(name, "") for segment in segments] for name in references
    }
    row["systems"] = {
        name: [segment.systems.get(name, "") for segment in segments] for name in names
    }
    if lacking := _lacking(segments, names, references):
        row["not_supplied"] = lacking
    by_system = _ratings(segments, [*names, *references])
    if by_system:
        row["ratings"] = {dimension: by_system}
    elif dimension is not None:
        row["human"] = {dimension: dict.fromkeys([*names, *references])}
    if metrics := _metrics(segments, names):
        row["metrics"] = metrics
    return row


def _lacking(
    segments: Sequence[RatedSegment], systems: Iterable[str], references: Iterable[str]
) -> dict[str, list[int]]:
    """The segments of which a system or reference has no text."""
    lacking = {
        name: [i for i, segment in enumerate(segments) if name not in segment.systems]
        for name in systems
    }
    for name in references:
        lacking[name] = [i for i, segment in enumerate(segments) if name not in segment.references]
    return {name: numbers for name, numbers in lacking.items() if numbers}


def _ratings(segments: Sequence[RatedSegment], names: Iterable[str]) -> dict[str, list[Any]]:
    """The ratings in their JSON form, of those that were rated."""
    by_system = {}
    for name in names:
        column = [segment.ratings.get(name) for segment in segments]
        if any(ratings and any(ratings) for ratings in column):
            by_system[name] = [
                [rating_object(rating) for rating in ratings] if ratings else None
                for ratings in column
            ]
    return by_system


def _metrics(segments: Sequence[RatedSegment], names: Sequence[str]) -> dict[str, Any]:
    """Scores of metrics by name and system, None where one is missing."""
    metrics = dict.fromkeys(name for segment in segments for name in segment.metrics)
    return {
        metric: {
            name: [segment.metrics.get(metric, {}).get(name) for segment in segments]
            for name in names
        }
        for metric in metrics
    }


@dataclass
class _GatheredDocument:
    domain: str | None
    segments: dict[SegmentKey, RatedSegment] = field(default_factory=dict)


@dataclass(frozen=True)
class GatheredText:
    """A text with what one annotator said of it.

    Args:
        pair: the language pair, "" where none is named.
        document: its id.
        segment: by which segments of a document are in order.
        system: whose text it is.
        text: None where it is not in the line.
        rating: None where nobody rated it.
    """

    pair: str
    document: str
    segment: SegmentKey
    system: str
    text: str
    source: str | None = None
    domain: str | None = None
    rating: TextRating | None = None


class GatheredTexts:
    """Rated texts that stand in any order; all of them are in memory."""

    def __init__(self, notes: Notes) -> None:
        self._documents: dict[tuple[str, str], _GatheredDocument] = {}
        self._systems: dict[str, dict[str, None]] = {}
        self._notes = notes
        self._count = 0

    def add(self, one: GatheredText) -> None:
        """Takes a text.

        Raises:
            InputError: the system, or the source, had another text in this segment before.
        """
        document = self._documents.setdefault(
            (one.pair, one.document), _GatheredDocument(one.domain)
        )
        segment = document.segments.get(one.segment)
        if segment is None:
            self._count += 1
            limits().check("segments", self._count, "ratings")
            segment = document.segments[one.segment] = RatedSegment(one.source)
        if not same_text(one.source or "", segment.source or ""):
            problem = "another source than in an earlier line of this segment"
            raise InputError(problem, where=f"document {one.document!r:.80}")
        own = segment.references if is_reference(one.system) else segment.systems
        if not same_text(own.setdefault(one.system, one.text), one.text):
            problem = f"another text of {one.system!r:.80} than in an earlier line of this segment"
            raise InputError(problem, where=f"document {one.document!r:.80}")
        if own is segment.systems:
            self._systems.setdefault(one.pair, {})[one.system] = None
            limits().check("systems", len(self._systems[one.pair]), "systems")
        if one.rating is not None:
            self._rate(segment.ratings.setdefault(one.system, []), one.rating)

    def _rate(self, ratings: list[TextRating | None], rating: TextRating) -> None:
        """Adds a rating; a later one of the same annotator takes the place of the earlier."""
        for n, earlier in enumerate(ratings):
            if earlier is not None and earlier.rater == rating.rater:
                ratings[n] = rating
                self._notes.counts[REPEATED] += 1
                return
        ratings.append(rating)

    @property
    def pairs(self) -> dict[str, int]:
        """Language pairs with their segments."""
        counts = Counter[str]()
        for (pair, _), document in self._documents.items():
            counts[pair] += len(document.segments)
        return dict(counts)

    def rows(self, pair: str, dimension: str | None) -> Iterator[Row]:
        """The documents of a language pair.

        Raises:
            InputError: it has references alone.
        """
        systems = list(self._systems.get(pair, ()))
        if not systems:
            raise InputError("no systems", where=f"pair {pair!r:.40}", fix="Give at least one")
        for (of_pair, name), document in self._documents.items():
            if of_pair != pair:
                continue
            head = {"id": name, "domain": document.domain, "language_pair": pair or None}
            ordered = [document.segments[key] for key in sorted(document.segments)]
            row = rated_row(
                {key: value for key, value in head.items() if value is not None},
                ordered,
                systems,
                dimension,
            )
            count_doubtful(row, self._notes)
            yield row


def same_text(text: str, other: str) -> bool:
    """Whether two texts differ in white space alone."""
    return text == other or text.split() == other.split()


REPEATED = "ratings were given again by the same annotator: the last one counts"


OUT_OF_RANGE = "scores of esa are outside of 0 to 100, and count as they are"


def count_doubtful(row: Row, notes: Notes) -> None:
    """Counts the texts that a row lacks, and direct assessments outside of their range."""
    for name, numbers in row.get("not_supplied", {}).items():
        notes.counts[f"texts of {name} are not there, and count as empty"] += len(numbers)
    of_systems = row.get("ratings", {}).get("esa", {}).values()
    ratings = chain.from_iterable(filter(None, chain.from_iterable(of_systems)))
    scores = [rating["score"] for rating in ratings if rating and rating["score"] is not None]
    notes.counts[OUT_OF_RANGE] += sum(not 0 <= score <= 100 for score in scores)


def is_reference(name: str) -> bool:
    """Whether a name among systems is that of a reference, as WMT names them.

    >>> is_reference("refA"), is_reference("Reference-MT")
    (True, False)
    """
    return len(name) == 4 and name.startswith("ref") and name[3].isalpha() and name[3].isupper()
