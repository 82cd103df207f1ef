"""Rated texts, segment by segment, as rows of a systems file.

A row has every system of its language pair: a text that is missing is an empty one, which ``not_supplied`` names. Its
ratings have the form of `ratings` in `readers.systems`. A reader of one more file of ratings makes a `RatedOutput` of a
line and gathers them (`GatheredTexts`), or a `Judgement` where the texts are in another file. What was left out, or
taken for something else, is counted, and a warning at the end says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
Rating = dict[str, Any]  # these two in the JSON form of the systems file
Span = dict[str, Any]


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


class Judgement(NamedTuple):
    """The judgement of one annotator on a text that is in another file.

    Args:
        where: file and line.
        id: of the segment or document.
        system: whose text it is.
        rating: its rater is None for scores that join those of the systems file.
        line: of the segment among those of all documents, where it has no id; `id` is its document then.
        text: what was judged, where the judgement has it.
    """

    where: str
    id: str
    system: str
    rating: Rating
    line: int | None = None
    text: str | None = None


class RatedOutput(NamedTuple):
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


def spans_of_tool(given: Any, where: str, notes: Notes) -> list[Span] | None:
    """Spans in the JSON form of the systems file, from that of annotation tools; None for null.

    Spans without a place are left out and counted.

    Raises:
        InputError: they are not spans; names `where`.
    """
    if given is None:
        return None
    spans = []
    for n, span in enumerate(given if type(given) is list else typed(list[Any], given, where)):
        severity = span.get("severity") if isinstance(span, dict) else 0
        if not isinstance(severity, str | None):
            problem = f"found {excerpt(span)}, expected a span with a severity"
            raise InputError(problem, where=f"{where}[{n}]")
        start, end = span.get("start_i"), span.get("end_i")
        category = span.get("category") or span.get("error_type")
        if start in ("missing", "[missing]"):
            spans.append(span_of(None, None, severity, category))
        elif type(start) is int and type(end) is int and 0 <= start <= end:
            spans.append(span_of(start, end + 1, severity, category))
        else:
            notes.counts[_NOWHERE] += 1
    return spans


def span_of(
    start: int | None, end: int | None, severity: str | None, category: Any, in_source: bool = False
) -> Span:
    """A span in the JSON form of the systems file; `end` is behind its last character, None: missing text."""
    span: Span = {"start": start, "end": end, "severity": severity and severity.lower()}
    if isinstance(category, str) and category:
        span["category"] = category
    return span | ({"in_source": True} if in_source else {})


def spans_inside(
    spans: Iterable[Span] | None, text: str, notes: Notes, behind_is_missing: bool = False
) -> list[Span] | None:
    """The spans that a text can have: cut at its end, or left out behind it; both are counted.

    Args:
        spans: as `spans_of_tool` reads them.
        text: that they are of.
        notes: counts what is changed.
        behind_is_missing: a span behind the text stands for missing text.
    """
    if spans is None:
        return None
    inside = []
    for span in spans:
        start, end = span["start"], span["end"]
        if start is None or end <= len(text):
            inside.append(span)
        elif start < len(text):
            notes.counts[_CUT] += 1
            inside.append({**span, "end": len(text)})
        elif behind_is_missing:
            inside.append({**span, "start": None, "end": None})
        else:
            notes.counts[_NOWHERE] += 1
    return inside


def rating_of(
    rater: str | None,
    score: float | None,
    spans: list[Span] | None = None,
    seconds: float | None = None,
) -> Rating:
    """A rating in the JSON form of the systems file."""
    rating: Rating = {"rater": rater, "score": score}
    if spans is not None:
        rating["spans"] = spans
    if seconds is not None:
        rating["seconds"] = seconds
    return rating


@dataclass(slots=True)
class RatedSegment:
    """A segment with all of its texts and ratings."""

    source: str | None = None
    references: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    # system -> wave, or which annotator
    ratings: dict[str, dict[int, Rating | None]] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # metric -> system

    def add(self, one: RatedOutput, notes: Notes) -> None:
        """Take a text; of several ratings by one annotator the last counts.

        Raises:
            InputError: the system, or the source, had another text before.
        """
        own = self.references if is_reference(one.system) else self.systems
        for what, before, now in (
            ("source", self.source or "", one.source or ""),
            (f"text of {one.system!r:.80}", own.setdefault(one.system, one.text), one.text),
        ):
            if not same_text(before, now):
                problem = f"another {what} than in an earlier line of this segment"
                raise InputError(problem, where=f"document {one.document!r:.80}")
        if one.rating is None:
            return
        ratings = self.ratings.setdefault(one.system, {})
        raters = [earlier["rater"] for earlier in ratings.values() if earlier]
        is_repeated = one.rating["rater"] in raters
        notes.counts[REPEATED] += is_repeated
        ratings[raters.index(one.rating["rater"]) if is_repeated else len(ratings)] = one.rating


def the_pair(pairs: Mapping[str, int], given: str | None, notes: Notes) -> str:
    """The language pair that is read, of those there are with their segments; those of others are counted.

    ``en-cs`` names ``en-cs_CZ`` where no other pair begins so.

    Raises:
        InputError: several and none is given, or there is none of that name.
    """
    listed = ", ".join(f"{pair or 'none named'} ({n})" for pair, n in sorted(pairs.items()))
    longer = [pair for pair in pairs if pair.startswith((f"{given}_", f"{given}-"))]
    if given is None and len(pairs) > 1:
        fix = f"Name one, such as --language-pair {min(filter(None, pairs))}"
        problem = f"language pairs and their segments: {listed}"
        raise InputError(problem, where=notes.name, fix=fix)
    if given is None or set(pairs) == {""}:  # a file that names no pair is all of the one
        pair = next(iter(pairs))
    elif given in pairs:
        pair = given
    elif len(longer) == 1:
        pair = longer[0]
    else:
        fix = f"Pairs and their segments: {listed}"
        raise InputError(f"no segments of {given!r:.40}", where=notes.name, fix=fix)
    others = sum(pairs.values()) - pairs[pair]
    notes.counts["segments of other language pairs are left out"] += others
    return pair


def rated_row(
    head: Mapping[str, Any],
    segments: Sequence[RatedSegment],
    systems: Collection[str],
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
    lacking: dict[str, list[int]] = {}
    for key, names in (
        ("references", dict.fromkeys(chain.from_iterable(s.references for s in segments))),
        ("systems", systems),
    ):
        tables: list[dict[str, str]] = [getattr(segment, key) for segment in segments]
        row[key] = {name: [table.get(name, "") for table in tables] for name in names}
        for name in names:
            if numbers := [i for i, table in enumerate(tables) if name not in table]:
                lacking[name] = numbers
                notes.counts[f"texts of {name} are not there, and count as empty"] += len(numbers)
    if lacking:
        row["not_supplied"] = lacking
    if dimension is not None:
        _add_ratings(row, segments, dimension, notes, waves)
    if metrics := dict.fromkeys(chain.from_iterable(segment.metrics for segment in segments)):
        row["metrics"] = {
            metric: {
                name: [segment.metrics.get(metric, {}).get(name) for segment in segments]
                for name in row["systems"]
            }
            for metric in metrics
        }
    return row


def _add_ratings(
    row: Row,
    segments: Sequence[RatedSegment],
    dimension: str,
    notes: Notes,
    waves: Sequence[int],
) -> None:
    """Add the ratings of all segments to a row, or that nobody rated them."""
    names = [*row["systems"], *row["references"]]
    by_system: dict[str, list[Any]] = {}
    for name in names:
        rated = [segment.ratings.get(name, {}) for segment in segments]
        lists = [[own.get(w) for w in waves] if waves else [*own.values()] for own in rated]
        if any(any(own) for own in lists):
            by_system[name] = [own if any(own) else None for own in lists]
    if by_system:
        row["ratings"] = {dimension: by_system}
    else:
        row["human"] = {dimension: dict.fromkeys(names)}
    if dimension == "esa":
        ratings = chain.from_iterable(filter(None, chain.from_iterable(by_system.values())))
        scores = [one["score"] for one in ratings if one and one["score"] is not None]
        notes.counts[OUT_OF_RANGE] += sum(not 0 <= score <= 100 for score in scores)


class GatheredTexts:
    """Rated texts that come in any order; all of them are in memory."""

    def __init__(self, notes: Notes) -> None:
        # by language pair: the head and the segments of every document, and systems
        self._documents: dict[str, dict[str, tuple[Row, dict[SegmentKey, RatedSegment]]]] = {}
        self._systems: dict[str, dict[str, None]] = {}
        self._notes = notes
        self._count = 0

    def add(self, one: RatedOutput) -> None:
        """Take a text; errors as `RatedSegment.add`."""
        head: Row = {"id": one.document}
        head |= {} if one.domain is None else {"domain": one.domain}
        head |= {"language_pair": one.pair} if one.pair else {}
        documents = self._documents.setdefault(one.pair, {})
        _, segments = documents.setdefault(one.document, (head, {}))
        if one.segment not in segments:
            self._count += 1
            limits().check("rows", self._count, "ratings", what="segments")
            segments[one.segment] = RatedSegment(one.source)
        segments[one.segment].add(one, self._notes)
        systems = self._systems.setdefault(one.pair, {})
        if not is_reference(one.system):
            systems[one.system] = None
            limits().check("systems", len(systems), "systems")

    def rows(
        self, language_pair: str | None, dimension: str, references: Sequence[str] = ()
    ) -> Iterator[Row]:
        """The documents of a language pair, and at the end a warning of what was left out.

        Args:
            language_pair: as `the_pair` takes it.
            dimension: of the ratings.
            references: files of references for segments that have none, a line each; one has the name of its file.

        Raises:
            InputError: as `the_pair`, or a file with another number of lines.
        """
        sizes = {
            pair: sum(len(segments) for _, segments in documents.values())
            for pair, documents in self._documents.items()
        }
        pair = the_pair(sizes, language_pair, self._notes)
        documents = [(head, sorted(own.items())) for head, own in self._documents[pair].values()]
        numbers = [number for _, own in documents for (number, _), _ in own]
        columns = {name: iter(lines) for name, lines in _reference_lines(references, numbers)}
        for head, own in documents:
            segments = [segment for _, segment in own]
            for segment in segments:
                segment.references |= {name: next(lines) for name, lines in columns.items()}
            yield rated_row(head, segments, self._systems[pair], dimension, self._notes)
        self._notes.warn()


def _reference_lines(
    paths: Sequence[str], numbers: Sequence[int]
) -> Iterator[tuple[str, list[str]]]:
    """The name of every file, and its lines for segments of these numbers.

    Line n belongs to the segment with the number n where numbers are unique in the whole table, as in the MQM tables of
    WMT; else to the n-th segment.
    """
    names = [Path(path.removesuffix(".gz")).stem for path in paths]
    for path, name in zip(paths, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"two files are named {name!r}", where=path, fix="Rename one")
        with closing(TextLines(path)) as source:
            lines = [line.decode() for _, line in without_trailing_blanks(source)]
        are_global = len(set(numbers)) == len(numbers) and min(numbers) > 0
        if are_global and max(numbers) <= len(lines):
            yield name, [lines[number - 1] for number in numbers]
        elif len(lines) == len(numbers):
            yield name, lines
        else:
            expected = f"{len(numbers)} of the segments"
            if are_global:
                expected += f", or one for each number up to {max(numbers)}"
            fix = "Give the references of the same test set, a line per segment"
            problem = f"found {len(lines)} lines, expected {expected}"
            raise InputError(problem, where=path, fix=fix)


def same_text(text: str, other: str) -> bool:
    """Whether two texts differ in white space alone."""
    return text == other or text.split() == other.split()


def is_reference(name: str) -> bool:
    """Whether a name among systems is that of a reference, as WMT names them.

    >>> is_reference("refA"), is_reference("Reference-MT")
    (True, False)
    """
    return len(name) == 4 and name.startswith("ref") and name[3].isalpha() and name[3].isupper()
