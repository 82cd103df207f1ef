"""Rated texts, segment by segment, as rows of a systems file.

A row has every system of its language pair: a text that is missing is an empty one, which ``not_supplied`` names. Its
ratings have the form of `ratings` in `readers.systems`. Lines in any order are gathered first. What was left out, or
taken for something else, is counted, and a warning at the end says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import without_trailing_blanks
from ...files.entries import TextLines, typed
from ..format_table import Row

REPEATED = "ratings were given again by the same annotator: the last one counts"
OUT_OF_RANGE = "scores of esa are outside of 0 to 100, and count as they are"
_CUT = "spans end behind their text, and were cut there"
_NOWHERE = "spans have no place in their text, and were left out"
SegmentKey = tuple[int, str]  # by which segments of a document are in order
Rating = dict[str, Any]  # in the JSON form of the systems file


class LeftOutWarning(UserWarning):
    """Something of a file was left out, or changed; says what and how many."""


class Notes:
    """Counts of what was left out of a file, or changed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = Counter[str]()  # of sentences that begin with a number

    def warn(self) -> None:
        """Warns of what was counted."""
        if notes := [f"{number} {what}" for what, number in self.counts.items() if number]:
            warn(f"{self.name}: {'; '.join(notes)}", LeftOutWarning, stacklevel=2)

    def count_other_pairs(self, pairs: Mapping[str, int], pair: str) -> None:
        """Counts the segments of other language pairs."""
        others = sum(pairs.values()) - pairs[pair]
        self.counts["segments of other language pairs are left out"] += others


def spans_of_tool(
    given: Any, text: str, where: str, notes: Notes, behind_is_missing: bool = False
) -> list[dict[str, Any]] | None:
    """The spans of a text in the JSON form of the systems file, from that of annotation tools; None for null.

    Spans that end behind the text are cut there, those without a place are left out; both are counted.

    Args:
        given: the spans.
        text: the text.
        where: their place, for errors.
        notes: counts what is changed.
        behind_is_missing: a span behind the text stands for missing text.

    Raises:
        InputError: they are not spans.
    """
    if given is None:
        return None
    spans = []
    for n, span in enumerate(typed(list[Any], given, where)):
        # many are read, by hand
        if not isinstance(span, Mapping) or not isinstance(span.get("severity"), str | None):
            problem = f"found {excerpt(span)}, expected a span with a severity"
            raise InputError(problem, where=f"{where}[{n}]")
        start: Any = span.get("start_i")
        end: Any = span.get("end_i")
        has_place = type(start) is int and type(end) is int and 0 <= start <= end
        is_behind = has_place and start >= len(text)
        if start in ("missing", "[missing]") or (is_behind and behind_is_missing):
            place: dict[str, int | None] = {"start": None, "end": None}
        elif not has_place or is_behind:
            notes.counts[_NOWHERE] += 1
            continue
        else:
            notes.counts[_CUT] += end >= len(text)
            place = {"start": start, "end": min(end + 1, len(text))}
        category = span.get("category") or span.get("error_type")
        spans.append(span_object(place, span.get("severity"), category))
    return spans


def span_object(
    place: Mapping[str, int | None], severity: str | None, category: Any, in_source: bool = False
) -> dict[str, Any]:
    """A span in the JSON form of the systems file."""
    span = {**place, "severity": severity.lower() if severity else severity}
    if isinstance(category, str) and category:
        span["category"] = category
    return span | ({"in_source": True} if in_source else {})


def rating_object(
    rater: str,
    score: float | None,
    spans: list[dict[str, Any]] | None = None,
    seconds: float | None = None,
) -> Rating:
    """A rating in the JSON form of the systems file."""
    rating: Rating = {"rater": rater, "score": score}
    if spans is not None:
        rating["spans"] = spans
    if seconds is not None:
        rating["seconds"] = seconds
    return rating


def span_of_tool(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span in the form of annotation tools."""
    missing = span["start"] is None
    place = {
        "start_i": "missing" if missing else span["start"],
        "end_i": "missing" if missing else span["end"] - 1,
    }
    return place | {key: value for key, value in span.items() if key not in ("start", "end")}


@dataclass
class RatedSegment:
    """A segment with all of its texts and ratings."""

    source: str | None = None
    references: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    # system -> wave, or which annotator
    ratings: dict[str, dict[int, Rating | None]] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # metric -> system


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
    fix = f"Pairs and their segments: {listed}"
    raise InputError(f"no segments of {given!r:.40}", where=where, fix=fix)


def rated_row(
    head: Mapping[str, Any],
    segments: Sequence[RatedSegment],
    systems: Iterable[str],
    dimension: str | None,
    notes: Notes,
    waves: Sequence[int] = (),
) -> Row:
    """The row of a document; what is doubtful in it is counted.

    Args:
        head: its id and other keys of its own.
        segments: at least one, in order.
        systems: all of the language pair.
        dimension: of the ratings; None where nobody rated anything.
        notes: counts texts that are missing, and direct assessments outside of their range.
        waves: of the language pair, which all ratings have; annotators have none.
    """
    limits().check("entries", len(segments), f"document {head['id']!r:.80}", what="sentences")
    row: Row = dict(head)
    if any(segment.source is not None for segment in segments):
        row["source"] = [segment.source or "" for segment in segments]
    names = {
        "references": list(dict.fromkeys(chain.from_iterable(s.references for s in segments))),
        "systems": list(systems),
    }
    lacking: dict[str, list[int]] = {}
    for key, own in names.items():
        tables: list[dict[str, str]] = [getattr(segment, key) for segment in segments]
        row[key] = {name: [table.get(name, "") for table in tables] for name in own}
        for name in own:
            if numbers := [i for i, table in enumerate(tables) if name not in table]:
                lacking[name] = numbers
                notes.counts[f"texts of {name} are not there, and count as empty"] += len(numbers)
    if lacking:
        row["not_supplied"] = lacking
    _add_ratings(row, segments, dimension, notes, waves)
    metrics = dict.fromkeys(chain.from_iterable(segment.metrics for segment in segments))
    if metrics:
        row["metrics"] = {
            metric: {
                name: [segment.metrics.get(metric, {}).get(name) for segment in segments]
                for name in names["systems"]
            }
            for metric in metrics
        }
    return row


def _add_ratings(
    row: Row,
    segments: Sequence[RatedSegment],
    dimension: str | None,
    notes: Notes,
    waves: Sequence[int],
) -> None:
    """Adds the ratings of all segments to a row, or says that nobody rated them."""
    names = [*row["systems"], *row["references"]]
    by_system: dict[str, list[Any]] = {}
    for name in names:
        rated = [segment.ratings.get(name, {}) for segment in segments]
        lists = [[own.get(w) for w in waves] if waves else [*own.values()] for own in rated]
        if any(any(own) for own in lists):
            by_system[name] = [own if any(own) else None for own in lists]
    if by_system:
        row["ratings"] = {dimension: by_system}
    elif dimension is not None:
        row["human"] = {dimension: dict.fromkeys(names)}
    if dimension == "esa":
        ratings = chain.from_iterable(filter(None, chain.from_iterable(by_system.values())))
        scores = [one["score"] for one in ratings if one and one["score"] is not None]
        notes.counts[OUT_OF_RANGE] += sum(not 0 <= score <= 100 for score in scores)


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The judgement of one rater on one segment or document.

    Args:
        where: file and line.
        id: of the segment or document.
        rater: None for those of the systems file.
        scores: by system.
        errors: spans as annotation tools write them, by system; of a system without, none were asked for.
        seconds: that the rating took.
        line: of the segment among those of all documents, where it has no id; `id` is its document then.
        texts: what was judged, by system, where the judgements say it.
    """

    where: str
    id: str
    rater: str | None
    scores: Mapping[str, float]
    errors: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    line: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


class GatheredText(NamedTuple):
    """A text with what one annotator said of it.

    Args:
        pair: the language pair, "" where none is named.
        document: its id.
        segment: by which segments of a document are in order.
        system: whose text it is.
        text: the text.
        source: of the segment, where it is known.
        domain: of the document, where it is known.
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
        # by language pair and document
        self._segments: dict[tuple[str, str], dict[SegmentKey, RatedSegment]] = {}
        self._heads: dict[tuple[str, str], Row] = {}
        # by language pair
        self._systems: dict[str, dict[str, None]] = {}
        self.waves: dict[str, set[int]] = {}
        self._notes = notes
        self._count = 0

    def new_segment(self, pair: str, key: SegmentKey, head: Row) -> RatedSegment:
        """An empty segment of a document with these keys of its own; raises InputError where it is there already."""
        document = (pair, head["id"])
        self._heads.setdefault(document, head)
        segments = self._segments.setdefault(document, {})
        if key in segments:
            where = f"document {head['id']!r:.80}"
            raise InputError(f"segment {key[0]} comes twice", where=where)
        self._count += 1
        limits().check("rows", self._count, "ratings", what="segments")
        segments[key] = RatedSegment()
        return segments[key]

    def note_system(self, pair: str, system: str) -> None:
        """A language pair has a system."""
        systems = self._systems.setdefault(pair, {})
        systems[system] = None
        limits().check("systems", len(systems), "systems")

    def add(self, one: GatheredText) -> None:
        """Takes a text.

        Raises:
            InputError: the system, or the source, had another text in this segment before.
        """
        segment = self._segments.get((one.pair, one.document), {}).get(one.segment)
        if segment is None:
            head = {"id": one.document, "domain": one.domain, "language_pair": one.pair or None}
            head = {key: value for key, value in head.items() if value is not None}
            segment = self.new_segment(one.pair, one.segment, head)
            segment.source = one.source
        own = segment.references if is_reference(one.system) else segment.systems
        for what, before, now in (
            ("source", segment.source or "", one.source or ""),
            (f"text of {one.system!r:.80}", own.setdefault(one.system, one.text), one.text),
        ):
            if not same_text(before, now):
                problem = f"another {what} than in an earlier line of this segment"
                raise InputError(problem, where=f"document {one.document!r:.80}")
        if own is segment.systems:
            self.note_system(one.pair, one.system)
        if one.rating is not None:
            self._rate(segment.ratings.setdefault(one.system, {}), one.rating)

    def _rate(self, ratings: dict[int, Rating | None], rating: Rating) -> None:
        """Adds a rating; a later one of the same annotator takes the place of the earlier."""
        for n, earlier in ratings.items():
            if earlier is not None and earlier["rater"] == rating["rater"]:
                ratings[n] = rating
                self._notes.counts[REPEATED] += 1
                return
        ratings[len(ratings)] = rating

    @property
    def pairs(self) -> dict[str, int]:
        """Language pairs with their segments."""
        counts = Counter[str]()
        for (pair, _), segments in self._segments.items():
            counts[pair] += len(segments)
        return dict(counts)

    def segment_numbers(self, pair: str) -> list[int]:
        """The number that names each segment of a language pair, in the order of `rows`; 0 where it is not a number."""
        numbers: list[int] = []
        for (of_pair, _), segments in self._segments.items():
            if of_pair == pair:
                numbers += [number for number, _ in sorted(segments)]
        return numbers

    def rows(
        self,
        language_pair: str | None,
        dimension_of: Callable[[str], str | None],
        others: Mapping[str, int] | None = None,
    ) -> Iterator[Row]:
        """The documents of a language pair, and at the end a warning of what was left out.

        Args:
            language_pair: as `the_pair` takes it.
            dimension_of: the dimension of the ratings of a language pair; None where nobody rated anything.
            others: language pairs that were left out, with their segments.

        Raises:
            InputError: as `the_pair`.
        """
        name, pairs = self._notes.name, {**self.pairs, **(others or {})}
        if not pairs:
            return
        pair = the_pair(pairs, language_pair, name)
        waves = sorted(self.waves.get(pair, ()))
        for (of_pair, document), segments in self._segments.items():
            if of_pair == pair:
                ordered = [segments[key] for key in sorted(segments)]
                head = self._heads[pair, document]
                own = (self._systems.get(pair, ()), dimension_of(pair), self._notes, waves)
                yield rated_row(head, ordered, *own)
        self._notes.count_other_pairs(pairs, pair)
        self._notes.warn()


def with_reference_files(
    rows: Iterable[Row], numbers: Sequence[int], paths: Sequence[str]
) -> Iterator[Row]:
    """Add references from files of lines to documents.

    Line n belongs to the segment with the number n where numbers are unique in the whole table, as in the MQM tables of
    WMT; else to the n-th segment.

    Args:
        rows: the documents.
        numbers: the number of each of their segments, as `GatheredTexts.segment_numbers` has them.
        paths: the files; a reference has the name of its file.

    Raises:
        InputError: a file of JSON, or with another number of lines.
    """
    references: dict[str, list[str]] = {}
    for path in paths:
        name = Path(path.removesuffix(".gz")).stem
        if name in references:
            raise InputError(f"two files are named {name!r}", where=path, fix="Rename one")
        references[name] = _lines_of_segments(path, numbers)
    start = 0
    for row in rows:
        stop = start + len(next(iter(row["systems"].values())))
        own = {name: lines[start:stop] for name, lines in references.items()}
        yield {**row, "references": {**row.get("references", {}), **own}}
        start = stop


def _lines_of_segments(path: str, numbers: Sequence[int]) -> list[str]:
    """The line of each segment."""
    with closing(TextLines(path)) as source:
        lines = [line.decode() for _, line in without_trailing_blanks(source)]
    are_global = len(set(numbers)) == len(numbers) and min(numbers) > 0
    if are_global and max(numbers) <= len(lines):
        return [lines[number - 1] for number in numbers]
    if len(lines) == len(numbers):
        return lines
    expected = f"{len(numbers)} of the segments"
    if are_global:
        expected += f", or one for each number up to {max(numbers)}"
    fix = "Give the references of the same test set, a line per segment"
    raise InputError(f"found {len(lines)} lines, expected {expected}", where=path, fix=fix)


def same_text(text: str, other: str) -> bool:
    """Whether two texts differ in white space alone."""
    return text == other or text.split() == other.split()


def is_reference(name: str) -> bool:
    """Whether a name among systems is that of a reference, as WMT names them.

    >>> is_reference("refA"), is_reference("Reference-MT")
    (True, False)
    """
    return len(name) == 4 and name.startswith("ref") and name[3].isalpha() and name[3].isupper()
