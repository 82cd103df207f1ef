"""Annotations of Pearmut, the tool of WMT26: the log of a campaign, or the JSON file of several.

    {"user_id": "u", "item_i": 0, "item": [{"item_id": "d:0", "src": "s", "tgt": {"A": "t"}}],
     "annotation": [{"A": {"score": 80, "error_spans": [{"start_i": 0, "end_i": 3, "severity": "minor"}]}}]}
is a line of ``data/annotations/CAMPAIGN.jsonl``: a document, each item with what one annotator said of the texts that
were shown. ``annotations.json``, which the tool exports and WMT26 released, is {CAMPAIGN: [such objects]}; a campaign
is a language pair. Places are those of JavaScript, in UTF-16. A ``__RESET__`` takes back what its user said before it.
Tutorials, attention checks and skipped items are left out, and counted. As judgements, annotations are put into
documents that are there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from ....metrics.errors import InputError, excerpt
from ....metrics.spec.checked_settings import Field
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits, more
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite
from ...files.entries import Number, in_line, typed
from ..format_table import Row
from ..readers.systems import format_of_documents
from .rated_rows import (
    REPEATED,
    GatheredTexts,
    Judgement,
    Notes,
    RatedOutput,
    Rating,
    rating_of,
    spans_inside,
    spans_of_tool,
)

RESET = "__RESET__"
LONGEST_PAUSE = 61  # seconds between two actions that count as work, as the tool counts
_NOT_JUDGED = ("welcome_", "random_", "goodbye_")  # places of forms, tutorials and checks
_CHECKS = "tutorials, checks and forms were left out"
_CHUNK = 1 << 20
_ITEM = re.compile(r"(.+?)(?:_###_|_#_|:)(\d{1,9})", re.DOTALL)
_EXPORT = re.compile(rb'\s*\{\s*(?:"[^"\\]{0,400}"\s*:\s*\[|\})')


@dataclass(frozen=True)
class _Record:
    """A document with the annotations of one user, or a reset."""

    user_id: Annotated[str, Field(min_length=1)]
    annotation: Any
    item: list[Any] | None = None
    item_i: Any = None
    actions: Any = None


@dataclass(frozen=True)
class _Item:
    """The texts of a segment."""

    tgt: dict[str, str]
    item_id: Any = None
    src: Any = None
    src_text: Any = None

    @property
    def is_check(self) -> bool:
        """Whether it is a tutorial or an attention check."""
        name = self.item_id
        return (
            not isinstance(name, str)
            or name.startswith("attention_check_")
            or "_#_tutorial_#_" in name
        )


@dataclass(frozen=True)
class _Said:
    """The annotation of one text."""

    score: Number | None = None
    sliders: Any = None
    error_spans: Any = None


class Annotation(NamedTuple):
    """The annotation of one text.

    Args:
        where: file and line, or file and campaign.
        item: its id.
        of_text: the text with its place and rating.
    """

    where: str
    item: str
    of_text: RatedOutput


def read_annotations(path: str, notes: Notes) -> list[Annotation]:
    """All annotations that count in a file, plain (a log may be gzip).

    Raises:
        InputError: a line or object that is not an annotation; says where.
    """
    by_user: dict[tuple[str, str], list[Annotation]] = {}
    for where, campaign, value in _records(path):
        try:
            record: _Record = typed(_Record, value, fix="Give what Pearmut wrote or exported")
            own = by_user.setdefault((campaign, record.user_id), [])
            if record.annotation == RESET:
                notes.counts["ratings were taken back by a reset"] += len(own)
                own.clear()
            elif isinstance(record.item_i, str) and record.item_i.startswith(_NOT_JUDGED):
                notes.counts[_CHECKS] += 1
            else:
                for item, one in _judged(record, pair_of(campaign), notes):
                    own.append(Annotation(where, item, one))
        except InputError as error:
            raise error.inside(where) from None
    return [one for of_user in by_user.values() for one in of_user]


def _records(path: str) -> Iterator[tuple[str, str, Any]]:
    """Every object of a file, with its place and campaign."""
    if os.path.isfile(path) and _is_export(path):
        with open(path, encoding="utf-8") as file:
            for campaign, number, record in _JsonStream(file.read, path).records():
                yield f"{path}: {campaign:.80} {number}", campaign, record
        return
    source = LineSource(path)
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            value = parse_json(line)
        yield f"{source.name}:{number}", "", value


def _is_export(path: str) -> bool:
    """Whether a file is an export; the first line of a log may begin with a list under its first key, too."""
    with open(path, "rb") as file:
        first = file.readline(limits().line_bytes)
        file.seek(0)
        head = file.read(4096)
    try:
        is_log = "annotation" in json.loads(first)
    except (ValueError, RecursionError, TypeError):
        is_log = False
    return _EXPORT.match(head) is not None and not is_log


class _JsonStream:
    """The records of an export, {CAMPAIGN: [RECORD, ...]}, one at a time in memory."""

    def __init__(self, read: Any, path: str) -> None:
        self._read, self._path = read, path
        self._text, self._decoder = "", json.JSONDecoder()

    def records(self) -> Iterator[tuple[str, int, Any]]:
        """Campaign, number from 1, and object."""
        self._take("{")
        while not self._skip("}"):
            campaign = typed(str, self._value(), self._path)
            self._take(":")
            self._take("[")
            number = 0
            while not self._skip("]"):
                number += 1
                yield campaign, number, self._value()
                self._skip(",")
            self._skip(",")

    def _take(self, mark: str) -> None:
        if not self._skip(mark):
            start = f"found {excerpt(self._text[:20])}" if self._text else "ends too early"
            raise self._refusal(f"{start}, expected {mark!r}")

    def _skip(self, mark: str) -> bool:
        """Goes past a mark if it comes next; returns whether it does."""
        self._text = self._text.lstrip()
        while not self._text and self._has_more():
            self._text = self._text.lstrip()
        is_next = self._text.startswith(mark)
        self._text = self._text[len(mark) * is_next :]
        return is_next

    def _value(self) -> Any:
        """The next value."""
        self._skip("\n")
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text)
            except RecursionError:
                raise self._refusal("nested too deeply") from None
            except ValueError as error:
                if not self._has_more():
                    raise self._refusal(f"no JSON: {excerpt(str(error))}") from None
                continue
            self._text = self._text[end:]
            return value

    def _has_more(self) -> bool:
        """Reads on; returns whether there was more."""
        if len(self._text) > limits().line_bytes:
            problem = f"a value of more than {limits().line_bytes} characters"
            raise InputError(problem, where=self._path, fix=more("line_bytes"))
        try:
            added = self._read(_CHUNK)
        except UnicodeDecodeError:
            raise self._refusal("not UTF-8 text") from None
        self._text += added
        return bool(added)

    def _refusal(self, problem: str) -> InputError:
        return InputError(problem, where=self._path, fix="Export the annotations again")


def _judged(record: _Record, pair: str, notes: Notes) -> list[tuple[str, RatedOutput]]:
    """The id of the item and the rated text of every annotation of a record."""
    items, annotations = record.item or [], typed(list[Any], record.annotation, "annotation")
    if len(items) != len(annotations):
        raise InputError(f"{len(annotations)} annotations of {len(items)} items", where="item")
    said_of_texts: list[tuple[int, _Item, str, _Said]] = []
    for number, (given, annotation) in enumerate(zip(items, annotations, strict=True)):
        item: _Item = typed(_Item, given, f"item[{number}]")
        if item.is_check or not isinstance(annotation, Mapping):
            notes.counts[_CHECKS if item.is_check else "items were skipped"] += 1
            continue
        for system, said in typed(dict[str, _Said], annotation, "annotation").items():
            if system not in item.tgt:
                raise InputError(f"found {system!r:.80}, which has no text", where="annotation")
            said_of_texts.append((number, item, system, said))
    seconds = _seconds(record.actions, len(said_of_texts))
    judged = []
    for number, item, system, said in said_of_texts:
        text = item.tgt[system]
        rating = _rating(record.user_id, said, text, seconds, notes)
        document, order, domain = _place(item.item_id, items, number)
        # of a source that is a picture or video, what stands for it
        source = item.src if item.src_text is None else item.src_text
        source = source if isinstance(source, str) else None
        one = RatedOutput(pair, document, (order, ""), system, text, source, domain, rating)
        judged.append((item.item_id, one))
    return judged


def _rating(
    user: str, said: _Said, text: str, seconds: float | None, notes: Notes
) -> Rating | None:
    """A rating; None where there is neither score nor span."""
    score = said.score
    if score is None and isinstance(said.sliders, Mapping):
        values = typed(dict[str, Number | None], said.sliders, "annotation.sliders").values()
        known = [value for value in values if value is not None]
        score = sum(known) / len(known) if known else None
    marked = said.error_spans
    if isinstance(marked, list) and any(ord(letter) > 0xFFFF for letter in text):
        marked = [_in_code_points(span, text) for span in marked]
    spans = spans_of_tool(marked, "annotation.error_spans", notes)
    spans = spans_inside(spans, text, notes, behind_is_missing=True)
    return None if score is None and not spans else rating_of(user, score, spans, seconds)


def _in_code_points(span: Any, text: str) -> Any:
    """A span whose places are of UTF-16, in characters of Python."""
    if not isinstance(span, Mapping):
        return span
    # the character at every place
    places = [i for i, letter in enumerate(text) for _ in range(1 + (ord(letter) > 0xFFFF))]
    moved = {}
    for key in ("start_i", "end_i"):
        place = span.get(key)
        if type(place) is int and place >= 0:
            behind = len(text) + place - len(places)
            moved[key] = places[place] if place < len(places) else behind
    return {**span, **moved}


def _seconds(actions: Any, texts: int) -> float | None:
    """The time that a text took, on average over those of a document."""
    known = actions if isinstance(actions, list) else []
    given = [one.get("time") for one in known if isinstance(one, Mapping)]
    times = [time for time in map(finite, given) if time is not None]
    if len(times) < 2 or not texts:
        return None
    return sum(min(max(b - a, 0.0), LONGEST_PAUSE) for a, b in pairwise(times)) / texts


def _place(item: str, items: Sequence[Any], number: int) -> tuple[str, int, str | None]:
    """The document of an item, its number there, and its domain where the id has one.

    >>> _place("news_###_abc_###_2", [], 0), _place("d7:3", [], 0)
    (('news_###_abc', 2, 'news'), ('d7', 3, None))
    """
    match = _ITEM.fullmatch(item)
    if match is None:
        return str(items[0].get("item_id") or item), number, None
    parts = item.split("_###_")
    return match[1], int(match[2]), parts[0] if len(parts) >= 3 else None


def pair_of(campaign: str) -> str:
    """The language pair of a campaign of WMT26, else its name.

    >>> pair_of("ces_Latn---deu_Latn v3"), pair_of("demo")
    ('ces_Latn-deu_Latn', 'demo')
    """
    match = re.fullmatch(r"(\w+)---(\w+)(?: v\d+)?", campaign)
    return campaign if match is None else f"{match[1]}-{match[2]}"


def read_pearmut(path: str, language_pair: str | None = None) -> Iterator[Row]:
    """The documents of a file of annotations as rows.

    Warns:
        LeftOutWarning: something was left out.

    Raises:
        InputError: as `read_annotations`, two texts of a system in a segment, or several language pairs and none named.
    """
    notes = Notes("stdin" if path == "-" else path)
    texts = GatheredTexts(notes)
    annotations = read_annotations(path, notes)
    if not annotations:
        raise InputError("nothing was rated in it", where=path, fix="Annotate something first")
    for where, _, of_text in annotations:
        try:
            texts.add(of_text)
        except InputError as error:
            raise error.inside(where) from None
    yield from texts.rows(language_pair, "esa")


def read_judged_by_pearmut(path: str) -> list[Judgement]:
    """The judgements of a file of annotations, errors and warnings as `read_annotations`."""
    notes = Notes(path)
    last: dict[tuple[str, str, str], Judgement] = {}
    for where, item, one in read_annotations(path, notes):
        if one.rating is not None:
            key = one.rating["rater"], item, one.system
            notes.counts[REPEATED] += key in last
            last[key] = Judgement(where, item, one.system, one.rating, text=one.text)
    notes.warn()
    return list(last.values())


FORMATS = (
    format_of_documents(
        "pearmut",
        "annotations of Pearmut",
        lambda path, options: read_pearmut(path, options.language_pair),
        options=("language_pair",),
        keys=("annotation",),
        first_line=re.compile(rb'\s*\{\s*"[^"\\]{0,400}"\s*:\s*\[\s*\{[\s\S]{0,200}"'),
        example=(
            '{"user_id": "u", "item_i": 0, "item": [{"item_id": "d:0", "src": "s", "tgt": {"A": "a text"}}], '
            '"annotation": [{"A": {"score": 80, "error_spans": []}}]}\n'
        ),
    ),
)
