"""Rated texts, segment by segment, as rows of a systems file; lines that stand in any order are gathered first.

A document has every system of its language pair: a text that is not there is an empty one in the row, which
``not_supplied`` names. What was left out, or taken for something else, is counted and warned of when all is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from warnings import warn

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits
from ...rerank.selection.system_scores import Rating
from .documents import Row
from .ratings import rating_object

SegmentKey = tuple[int, str]  # by which segments of a document are in order


class LeftOutWarning(UserWarning):
    """Something of a file was left out, or changed; says what and how many."""


@dataclass
class RatedSegment:
    """A segment with all of its texts and ratings."""

    source: str | None = None
    references: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    ratings: dict[str, list[Rating | None]] = field(default_factory=dict)  # in the order of waves
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
    found = ", ".join(f"{pair or 'none named'} ({n})" for pair, n in sorted(pairs.items()))
    if given is None:
        if len(pairs) > 1:
            fix = f"Name one, such as --language-pair {min(filter(None, pairs))}"
            raise InputError(f"language pairs and their segments: {found}", where=where, fix=fix)
        return next(iter(pairs))
    if given in pairs:
        return given
    longer = [pair for pair in pairs if pair.startswith((f"{given}_", f"{given}-"))]
    if len(longer) == 1:
        return longer[0]
    raise InputError(
        f"no segments of {given!r:.40}", where=where, fix=f"Pairs and their segments: {found}"
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
class RatedText:
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
    rating: Rating | None = None


class GatheredTexts:
    """Rated texts that stand in any order; all of them are in memory."""

    def __init__(self, notes: Notes) -> None:
        self._documents: dict[tuple[str, str], _GatheredDocument] = {}
        self._systems: dict[str, dict[str, None]] = {}
        self._notes = notes
        self._count = 0

    def add(self, one: RatedText) -> None:
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

    def _rate(self, ratings: list[Rating | None], rating: Rating) -> None:
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
            count_missing(row, self._notes)
            yield row


def same_text(text: str, other: str) -> bool:
    """Whether two texts differ in white space alone."""
    return text == other or text.split() == other.split()


REPEATED = "ratings were given again by the same annotator: the last one counts"


def count_missing(row: Row, notes: Notes) -> None:
    """Counts the texts that a row lacks."""
    for name, numbers in row.get("not_supplied", {}).items():
        notes.counts[f"texts of {name} are not there, and count as empty"] += len(numbers)


def is_reference(name: str) -> bool:
    """Whether a name among systems is that of a reference, as WMT names them.

    >>> is_reference("refA"), is_reference("Reference-MT")
    (True, False)
    """
    return len(name) == 4 and name.startswith("ref") and name[3].isalpha() and name[3].isupper()
