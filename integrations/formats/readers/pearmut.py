"""Annotations of Pearmut, the tool of WMT26: the log of a campaign, or the JSON file of several.

    {"user_id": "u", "item_i": 0, "item": [{"item_id": "d:0", "src": "s", "tgt": {"A": "t"}}],
     "annotation": [{"A": {"score": 80, "error_spans": [{"start_i": 0, "end_i": 3, "severity": "minor"}]}}]}
is a line of ``data/annotations/CAMPAIGN.jsonl``: a document, each item with what one annotator said of the texts that
were shown. ``annotations.json``, which the tool exports and WMT26 released, is {CAMPAIGN: [such objects]}; a campaign
is a language pair. Places are those of JavaScript, in UTF-16. A ``__RESET__`` takes back what its user said before it.
Tutorials, attention checks and skipped items are left out, and counted. As judgements, annotations are put into
documents that are there.

    {"campaign_id", "info": {"assignment": "task-based", "protocol", "users", ...}, "data": [documents of a user, ...]}
is a campaign, which ``pearmut add`` loads. A document is a list of items, the segments that stand in one document of
the systems file, in order. With one system at a time (ESA) every document comes once for each system; contrastive
(cESA), all systems stand side by side. Systems have the names of `blinded`, the same everywhere, and every user an
order of documents of their own. Items have the ids of segments, so that annotations come back.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits, more
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite
from ....rerank.selection.system_scores import TextRating
from ...files.entries import in_line
from ..documents import DocumentRows, Row
from ..format_table import DocumentFormat, Format, ListOptions
from ..human_scores import JudgedRow, blinded
from ..rated_texts import (
    REPEATED,
    GatheredText,
    GatheredTexts,
    Notes,
    SpanReading,
    rating_number,
    span_object,
    the_pair,
)
from .systems import lists_of_documents
from .wmt_jsonl import written_span

if TYPE_CHECKING:
    from ....rerank.training.segments_to_judge import Proposal

DIMENSION = "esa"
RESET = "__RESET__"
LONGEST_PAUSE = 61  # seconds between two actions that count as work, as the tool counts
_NOT_JUDGED = ("welcome_", "random_", "goodbye_")  # places of forms, tutorials and checks
_CHUNK = 1 << 20


class Annotation(NamedTuple):
    """What a user said of one text.

    Args:
        where: file and line, or file and campaign.
        campaign: "" where the file names none.
        item: its id.
        of_text: the text with its place and rating.
    """

    where: str
    campaign: str
    item: str
    of_text: GatheredText


def read_annotations(path: str, notes: Notes) -> list[Annotation]:
    """All that counts in a file, plain (a log may be gzip).

    Raises:
        InputError: a line or object that is no annotation; says where.
    """
    spans = SpanReading(behind_is_missing=True)
    by_user: dict[tuple[str, str], list[Annotation]] = {}
    texts: dict[str, str] = {}  # every text once, though many annotations repeat it
    for where, campaign, record in _records(path):
        try:
            user, judged = _judged(record, where, campaign, spans, notes, texts)
        except InputError as error:
            raise error.inside(where) from None
        if judged is None:
            taken_back = by_user.pop((campaign, user), [])
            notes.counts["ratings were taken back by a reset"] += len(taken_back)
        else:
            by_user.setdefault((campaign, user), []).extend(judged)
    notes.counts.update(spans.take())
    return [one for of_user in by_user.values() for one in of_user]


def _records(path: str) -> Iterator[tuple[str, str, Any]]:
    """Every object of a file, with its place and campaign."""
    source = LineSource(path)
    if os.path.isfile(path) and _is_export(path):
        source.close()
        for campaign, number, record in _exported(path):
            yield f"{path}: {campaign:.80} {number}", campaign, record
        return
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            yield f"{source.name}:{number}", "", parse_json(line)


_EXPORT = re.compile(rb'\s*\{\s*(?:"[^"\\]{0,400}"\s*:\s*\[|\})')


def _is_export(path: str) -> bool:
    with open(path, "rb") as file:
        return _EXPORT.match(file.read(4096)) is not None and not _is_log(path)


def _is_log(path: str) -> bool:
    """Whether the first line is an annotation, whose first key may hold a list."""
    with open(path, "rb") as file:
        first = file.readline(limits().line_bytes)
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "annotation" in value


def _exported(path: str) -> Iterator[tuple[str, int, Any]]:
    """The objects of an export, one at a time: campaign, number from 1, object."""
    with open(path, encoding="utf-8") as file:
        stream = _JsonStream(file.read, path)
        stream.expect("{")
        while not stream.skip("}"):
            campaign = stream.value()
            if not isinstance(campaign, str):
                raise InputError(f"found {excerpt(campaign)}, expected a campaign", where=path)
            stream.expect(":")
            stream.expect("[")
            number = 0
            while not stream.skip("]"):
                number += 1
                yield campaign, number, stream.value()
                stream.skip(",")
            stream.skip(",")


class _JsonStream:
    """The values of a large JSON text, a piece at a time in memory."""

    def __init__(self, read: Any, path: str) -> None:
        self._read, self._path = read, path
        self._text, self._decoder = "", json.JSONDecoder()

    def skip(self, mark: str) -> bool:
        """Goes past a mark if it comes next; says whether."""
        self._fill()
        if not self._text.startswith(mark):
            return False
        self._text = self._text[len(mark) :]
        return True

    def expect(self, mark: str) -> None:
        """Goes past a mark; raises InputError if another comes."""
        if not self.skip(mark):
            start = excerpt(self._text[:20])
            problem = f"found {start}, expected {mark!r}" if self._text else "ends too early"
            raise InputError(problem, where=self._path, fix="Export the annotations again")

    def value(self) -> Any:
        """The next value."""
        self._fill()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text)
            except RecursionError:
                raise InputError("nested too deeply", where=self._path) from None
            except ValueError as error:
                added = self._more()
                if not added:
                    problem = f"no JSON: {excerpt(str(error))}"
                    raise InputError(problem, where=self._path) from None
                continue
            self._text = self._text[end:]
            return value

    def _fill(self) -> None:
        """Removes white space, and reads on where nothing is left."""
        self._text = self._text.lstrip()
        while not self._text and self._more():
            self._text = self._text.lstrip()

    def _more(self) -> bool:
        if len(self._text) > limits().line_bytes:
            problem = f"a value of more than {limits().line_bytes} characters"
            raise InputError(problem, where=self._path, fix=more("line_bytes"))
        try:
            added = self._read(_CHUNK)
        except UnicodeDecodeError:
            raise InputError("not UTF-8 text", where=self._path, fix="Convert it") from None
        self._text += added
        return bool(added)


def _judged(
    record: Any,
    where: str,
    campaign: str,
    spans: SpanReading,
    notes: Notes,
    texts: dict[str, str],
) -> tuple[str, list[Annotation] | None]:
    """The user of a record and what it says; None for a reset."""
    if not isinstance(record, Mapping) or "annotation" not in record:
        fix = "Give data/annotations/CAMPAIGN.jsonl of Pearmut, or its annotations.json"
        raise InputError(f"found {excerpt(record)}, expected an annotation", fix=fix)
    user = record.get("user_id")
    if not isinstance(user, str) or not user:
        raise InputError(f"found {excerpt(user)}, expected a name", where="user_id")
    if record["annotation"] == RESET:
        return user, None
    items, annotations = record.get("item"), record["annotation"]
    if not isinstance(items, list) or not isinstance(annotations, list):
        raise InputError("no list of items and one of their annotations", where="item")
    if len(items) != len(annotations):
        raise InputError(f"{len(annotations)} annotations of {len(items)} items", where="item")
    place = record.get("item_i")
    if isinstance(place, str) and place.startswith(_NOT_JUDGED):
        notes.counts["tutorials, checks and forms were left out"] += 1
        return user, []
    said_of_texts = _of_document(items, annotations, notes)
    seconds = _seconds(record.get("actions"), len(said_of_texts))
    judged = []
    for number, item, system, said in said_of_texts:
        text = texts.setdefault(str(item["tgt"][system]), str(item["tgt"][system]))
        rating = _rating(user, said, text, seconds, spans)
        document, order, domain = _place(str(item["item_id"]), items, number)
        one = GatheredText(
            pair_of(campaign),
            document,
            (order, ""),
            system,
            text,
            _source(item, texts),
            domain,
            rating,
        )
        judged.append(Annotation(where, campaign, str(item["item_id"]), one))
    return user, judged


def _source(item: Mapping[str, Any], texts: dict[str, str]) -> str | None:
    """The source of an item as text; of one that is shown as a picture or video, what stands for it."""
    source = item.get("src_text", item.get("src"))
    return texts.setdefault(source, source) if isinstance(source, str) else None


def _of_document(
    items: Sequence[Any], annotations: Sequence[Any], notes: Notes
) -> list[tuple[int, Mapping[str, Any], str, Mapping[str, Any]]]:
    """What was said of every text of a document: number of the item, item, system, annotation."""
    said_of_texts = []
    for number, (item, annotation) in enumerate(zip(items, annotations, strict=True)):
        if not isinstance(item, Mapping) or not isinstance(item.get("tgt"), Mapping):
            raise InputError(
                f"said_of_texts {excerpt(item)}, expected texts by system", where="item.tgt"
            )
        name = item.get("item_id")
        if not isinstance(name, str) or _is_check(name):
            notes.counts["tutorials, checks and forms were left out"] += 1
        elif not isinstance(annotation, Mapping):
            notes.counts["items were skipped"] += 1
        else:
            for system, said in annotation.items():
                if system not in item["tgt"] or not isinstance(said, Mapping):
                    problem = f"said_of_texts {excerpt(said)} of {system!r:.80}"
                    raise InputError(problem, where="annotation", fix="Expected score of a text")
                said_of_texts.append((number, item, system, said))
    return said_of_texts


def _is_check(item: str) -> bool:
    return item.startswith("attention_check_") or "_#_tutorial_#_" in item


def _rating(
    user: str, said: Mapping[str, Any], text: str, seconds: float | None, spans: SpanReading
) -> TextRating | None:
    """A rating; None where there is neither score nor span."""
    score = rating_number(said.get("score"), "annotation.score")
    if score is None and isinstance(said.get("sliders"), Mapping):
        values = [rating_number(value, "annotation.sliders") for value in said["sliders"].values()]
        known = [value for value in values if value is not None]
        score = sum(known) / len(known) if known else None
    marked = said.get("error_spans")
    if isinstance(marked, list) and len(text) != _utf16_length(text):
        marked = [_in_code_points(span, text) for span in marked]
    read = spans.spans(marked, text, "annotation.error_spans")
    return None if score is None and not read else TextRating(user, score, read, seconds)


def _utf16_length(text: str) -> int:
    return len(text) + sum(ord(letter) > 0xFFFF for letter in text)


def _in_code_points(span: Any, text: str) -> Any:
    """A span whose places are of UTF-16, in characters of Python."""
    if not isinstance(span, Mapping):
        return span
    places: list[int] = []
    for i, letter in enumerate(text):
        places += [i] * (1 + (ord(letter) > 0xFFFF))
    moved = {}
    for key in ("start_i", "end_i"):
        place = span.get(key)
        if isinstance(place, int) and not isinstance(place, bool) and place >= 0:
            behind = len(text) + place - len(places)
            moved[key] = places[place] if place < len(places) else behind
    return {**span, **moved}


def _seconds(actions: Any, texts: int) -> float | None:
    """The time that a text took, on average over those of a document."""
    if not isinstance(actions, list) or not texts:
        return None
    times = [
        time
        for action in actions
        if isinstance(action, Mapping) and (time := finite(action.get("time"))) is not None
    ]
    if len(times) < 2:
        return None
    return sum(min(max(b - a, 0.0), LONGEST_PAUSE) for a, b in pairwise(times)) / texts


_ITEM = re.compile(r"(.+?)(?:_###_|_#_|:)(\d{1,9})", re.DOTALL)


def _place(item: str, items: Sequence[Any], number: int) -> tuple[str, int, str | None]:
    """The document of an item, its number there, and its domain where the id has one.

    >>> _place("news_###_abc_###_2", [], 0), _place("d7:3", [], 0)
    (('news_###_abc', 2, 'news'), ('d7', 3, None))
    """
    match = _ITEM.fullmatch(item)
    if match is None:
        first = items[0].get("item_id") if isinstance(items[0], Mapping) else None
        return str(first or item), number, None
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
    for judged in read_annotations(path, notes):
        try:
            texts.add(judged.of_text)
        except InputError as error:
            raise error.inside(judged.where) from None
    pairs = texts.pairs
    if not pairs:
        raise InputError("no annotations", where=path, fix="Annotate something first")
    pair = the_pair(pairs, language_pair, path)
    yield from texts.rows(pair, DIMENSION)
    others = sum(pairs.values()) - pairs[pair]
    notes.warn(*([f"{others} segments of other language pairs are left out"] if others else []))


def read_judged_by_pearmut(path: str) -> list[JudgedRow]:
    """The judgements of a file of annotations, errors and warnings as `read_annotations`."""
    notes = Notes(path)
    rows: dict[tuple[str, str, str], JudgedRow] = {}
    for judged in read_annotations(path, notes):
        one = judged.of_text
        if one.rating is None:
            continue
        place = (one.rating.rater, judged.item, one.system)
        notes.counts[REPEATED] += place in rows
        scores = {} if one.rating.score is None else {one.system: one.rating.score}
        spans = one.rating.spans
        errors = (
            {} if spans is None else {one.system: [written_span(span_object(s)) for s in spans]}
        )
        rows[place] = JudgedRow(
            judged.where,
            judged.item,
            one.rating.rater,
            scores,
            errors,
            one.rating.seconds,
            texts={one.system: one.text},
        )
    notes.warn()
    return list(rows.values())


Item = dict[str, Any]


@dataclass(frozen=True)
class CampaignStyle:
    """How a campaign is annotated.

    Args:
        annotators: how many; each sees every text.
        contrastive: all systems of a segment side by side.
    """

    annotators: int = 1
    contrastive: bool = False


def campaign_of(proposals: Sequence[Proposal], name: str, style: CampaignStyle) -> dict[str, Any]:
    """The campaign of segments.

    Raises:
        InputError: there is nothing to judge.
    """
    if not proposals:
        raise InputError("nothing is left to judge", where="campaign", fix="Judge other documents")
    documents = _contrastive(proposals) if style.contrastive else _one_at_a_time(proposals)
    data = []
    for number in range(style.annotators):
        own = list(documents)
        random.Random(number).shuffle(own)
        data.append(own)
    users = [f"annotator-{number + 1}" for number in range(style.annotators)]
    info = {
        "assignment": "task-based",
        "protocol": "cESA" if style.contrastive else "ESA",
        "users": users,
        "shuffle": True,
        "seed": 0,
    }
    return {"campaign_id": name, "info": info, "data": data}


def _of_documents(proposals: Sequence[Proposal]) -> list[list[Proposal]]:
    """The segments of every document together, in order."""
    by_document: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_document.setdefault(proposal.document.id, []).append(proposal)
    return [sorted(own, key=lambda one: one.segment) for own in by_document.values()]


def _contrastive(proposals: Sequence[Proposal]) -> list[list[Item]]:
    return [
        [_item(one, list(one.document.systems)) for one in own] for own in _of_documents(proposals)
    ]


def _one_at_a_time(proposals: Sequence[Proposal]) -> list[list[Item]]:
    documents = []
    for own in _of_documents(proposals):
        for system in own[0].document.systems:
            documents.append([_item(one, [system]) for one in own])
    return documents


def _item(proposal: Proposal, systems: Sequence[str]) -> Item:
    document, i = proposal.document, proposal.segment
    item: Item = {"item_id": proposal.id}
    if document.source is not None:
        item["src"] = document.source[i]
    item["tgt"] = {blinded(system): document.systems[system][i] for system in systems}
    return item


def _open(path: str | Path, options: ListOptions) -> DocumentRows:
    return DocumentRows(str(path), read_pearmut(str(path), options.language_pair))


FORMATS = (
    Format(
        "pearmut",
        "annotations of Pearmut",
        lists_of_documents(_open),
        frozenset({"human", "as_systems", "language_pair"}),
        keys=("annotation",),
        first_line=re.compile(rb'\s*\{\s*"[^"\\]{0,400}"\s*:\s*\[\s*\{[\s\S]{0,200}"'),
        documents=DocumentFormat(_open),
        example=(
            '{"user_id": "u", "item_i": 0, "item": [{"item_id": "d:0", "src": "s", "tgt": {"A": "a text"}}], '
            '"annotation": [{"A": {"score": 80, "error_spans": []}}]}\n'
        ),
    ),
)
