"""JSON lines of WMT test sets, with texts of systems and, since 2024, ratings of them.

    a segment per line   the keys of WMT24++ (``document_id``, ``source``, ``target``, ``original_target``, ``domain``,
                         ``lp``), or of WMT25 (``doc_id``, ``src_text``, ``tgt_text`` by system, ``refs`` by name,
                         ``scores`` by system: {human0, errors0, annotator0, times0, human1, ...}, or a list of
                         {score, errors, annotator, times}, one per wave; other numbers are scores of metrics)
    a text per line      ``wmt24_esa.jsonl``: ``langs``, ``doc_id``, ``line_id``, ``system``, ``src``, ``tgt``,
                         ``esa_score``, ``esa_spans``, ``annotator``, ``times``, in any order
Document ids are those of the organisers: PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT, and the like of six parts with ``_###_``,
are split, so that a document is resampled as one. Scores are ``esa``, or ``mqm`` where a language pair has scores below
0 or errors with categories.

A row has all systems and waves of its language pair, which are known at the end of the file. So every line is kept as
its bytes, and parsed twice: for these, and then, document by document, for the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isnan
from typing import Any, NamedTuple

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite, finite_of
from ...files.entries import Number, in_line, json_object, typed
from ..format_table import Row
from ..readers.systems import format_of_documents
from .rated_rows import (
    Notes,
    RatedOutput,
    RatedSegment,
    Rating,
    is_reference,
    rated_row,
    rating_of,
    spans_inside,
    spans_of_tool,
    the_pair,
)

_DOCUMENT_KEYS = ("doc_id", "document_id", "docid")
_SOURCE_KEYS = ("source", "src_text", "src")
_REFERENCE_KEYS = {"target": "refA", "original_target": "original", "ref": "ref"}
_OUTPUT_KEYS = ("tgt_text", "outputs", "hypotheses")
_TEXT_KEYS = ("tgt", "hypothesis")  # of a text per line
_NUMBER_KEYS = ("line_id", "segment_id", "seg_id")
_DOCUMENT_FIELDS = {  # texts that hold for the document, as the row has them
    "domain": "domain",
    "lp": "language_pair",
    "collection_id": "collection",
    "dataset_id": "test_set",
    "src_lang": "source_language",
    "tgt_lang": "target_language",
}
_PAIR = re.compile(r"[a-z]{2,3}-[a-z]{2,3}(_\w+)*")
_WAVE = re.compile(r"(human|score|errors|annotator|times)(\d{0,3})")
UNKNOWN_RATER = "wave{}"  # of a rating that names nobody


class Place(NamedTuple):
    """Where a segment stands: its document, language pair, domain and number, as far as they are known."""

    document: str
    pair: str
    domain: str | None
    number: int | None


def place_of(segment: Mapping[str, Any], line: int) -> Place:
    """The place of a segment, from its id and other keys; without an id every line is a document."""
    document, pair, domain, number = _parts_of(_text(segment, _DOCUMENT_KEYS) or f"{line}")
    languages = segment.get("src_lang"), segment.get("tgt_lang")
    if not pair and all(isinstance(one, str) for one in languages):
        pair = f"{languages[0]}-{languages[1]}"
    for key in ("lp", "langs"):
        if isinstance(segment.get(key), str):
            pair = segment[key]
    if isinstance(segment.get("domain"), str):
        domain = segment["domain"]
    return Place(document, pair, domain, number)


def _parts_of(name: str) -> Place:
    """The parts of an id.

    >>> _parts_of("en-cs_CZ_#_news_#_abc_#_7")
    Place(document='en-cs_CZ_#_news_#_abc', pair='en-cs_CZ', domain='news', number=7)
    >>> _parts_of("WMT26_###_social_###_ces_Latn_###_deu_Latn_###_9_###_2").pair
    'ces_Latn-deu_Latn'
    >>> _parts_of("en-cs_CZ_#_social_#_112").number, _parts_of("test-en-news.1_#_12").number, _parts_of("d").pair
    (None, 12, '')
    """
    mark, least = ("_###_", 6) if "_###_" in name else ("_#_", 4)
    parts = name.split(mark)
    pair = ""
    if mark == "_###_":
        pair = f"{parts[2]}-{parts[3]}" if len(parts) >= 5 else ""
    elif len(parts) >= 3 and _PAIR.fullmatch(parts[0]):
        pair = parts[0]
    number = whole_number(parts[-1]) if len(parts) >= least or len(parts) == 2 else None
    document = name if number is None else mark.join(parts[:-1])
    return Place(document, pair, parts[1] if pair else None, number)


def whole_number(text: Any) -> int | None:
    """The whole number that digits make; None for anything else."""
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if is_number else None


def read_wmt_jsonl(path: str, language_pair: str | None = None) -> Iterator[Row]:
    """The documents of a file, plain or gzip, as rows.

    Raises:
        InputError: a line that is not a segment, a segment that comes twice, or several language pairs and none is
            named; names the line.

    Warns:
        LeftOutWarning: something is not there, or was left out.
    """
    source = LineSource(path)
    notes = Notes(source.name)
    pairs: dict[str, _LanguagePair] = {}
    others = Counter[str]()  # segments of language pairs that are not read
    is_by_text = False
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            given = json_object(line)
            is_by_text |= number == 1 and _is_by_text(given)
            if is_by_text != _is_by_text(given):
                fix = "Expected lines of one kind, a segment or a text of one system"
                raise InputError("no text of one system" if is_by_text else "no segment", fix=fix)
            place = place_of(given, number)
            if language_pair and place.pair and not place.pair.startswith(language_pair):
                others[place.pair] += 1
                continue
            limits().check("rows", number, "ratings", what="segments")
            own = pairs.setdefault(place.pair, _LanguagePair(is_by_text))
            own.survey(given, place, number, line)
    sizes = {name: own.size for name, own in pairs.items()} | others
    if sizes:
        pair = the_pair(sizes, language_pair, notes)
        if pair in pairs:
            yield from pairs[pair].rows(source, notes)
        notes.warn()


class _LanguagePair:
    """The lines of a language pair by document and segment, and what all of its rows have in common.

    Args:
        is_by_text: a line has one text of a segment.
    """

    def __init__(self, is_by_text: bool) -> None:
        self._is_by_text = is_by_text
        self._lines: dict[str, dict[int, list[tuple[int, bytes]]]] = {}
        self._systems: dict[str, None] = {}
        self._waves: set[int] = set()
        self._is_mqm = False

    @property
    def size(self) -> int:
        """The number of segments."""
        return sum(map(len, self._lines.values()))

    def survey(self, given: Mapping[str, Any], place: Place, number: int, line: bytes) -> None:
        """Keep a line, and note the systems, waves and kind of scores in it."""
        key = number if place.number is None else place.number
        if self._is_by_text:
            key = _segment_number(given, place, number)
            systems = [given["system"]]
            self._is_mqm |= "mqm_score" in given or "mqm_spans" in given
        else:
            if _text(given, _SOURCE_KEYS) is None:
                raise InputError("no source", fix=f"Expected one of {', '.join(_SOURCE_KEYS)}")
            systems = list(_outputs(given))
            texts = {*systems, *_references(given)}
            for system, value in _by_system(given).items():
                for wave, values in _waves(value).items() if system in texts else ():
                    self._waves.add(wave)
                    score = _number(values.get("score"), f"scores.{system}.score")
                    self._is_mqm |= (score or 0) < 0 or _has_category(values.get("errors"))
        lines = self._lines.setdefault(place.document, {}).setdefault(key, [])
        if lines and not self._is_by_text:
            where = f"document {place.document!r:.80}"
            raise InputError(f"segment {key} comes twice", where=where)
        lines.append((number, line))
        self._systems |= dict.fromkeys(name for name in systems if not is_reference(name))
        limits().check("systems", len(self._systems), "systems")

    def rows(self, source: LineSource, notes: Notes) -> Iterator[Row]:
        """The documents."""
        dimension = "mqm" if self._is_mqm else "esa"
        is_rated = self._is_by_text or bool(self._waves)
        for document in self._lines.values():
            head: Row = {}
            segments = []
            for _, lines in sorted(document.items()):
                segment = RatedSegment()
                for number, line in lines:
                    with in_line(source, number):
                        given = json_object(line)
                        place = place_of(given, number)
                        head = head or _head(given, place, self._is_by_text)
                        add = _add_text if self._is_by_text else _add_texts
                        add(segment, given, place, notes)
                segments.append(segment)
            own = (dimension if is_rated else None, notes, sorted(self._waves))
            yield rated_row(head, segments, self._systems, *own)


def _add_texts(segment: RatedSegment, given: Mapping[str, Any], place: Place, notes: Notes) -> None:
    """Add all texts of a segment, their ratings and their scores by metrics."""
    segment.source, segment.references = _text(given, _SOURCE_KEYS), _references(given)
    for name, text in _outputs(given).items():
        if not is_reference(name):
            segment.systems[name] = text
        elif segment.references.setdefault(name, text) != text:
            notes.counts[f"texts of {name} are not those among refs, which count"] += 1
    for system, value in _by_system(given).items():
        own_text = segment.systems.get(system, segment.references.get(system))
        if own_text is None:
            what = f"ratings of {system} are of texts that are not there"
            notes.counts[what] += sum(map(bool, _waves(value).values()))
            continue
        for wave, values in _waves(value).items():
            unnamed, where = UNKNOWN_RATER.format(wave), f"scores.{system}"
            rating = _rating(values, own_text, unnamed, where, notes)
            segment.ratings.setdefault(system, {})[wave] = rating
        if isinstance(value, Mapping):
            _add_metrics(segment, system, value, notes)


def _add_metrics(
    segment: RatedSegment, system: str, given: Mapping[str, Any], notes: Notes
) -> None:
    """Add the scores of metrics among the ratings of a text."""
    for name, score in given.items():
        number = finite(score)
        if _wave_of(name) is not None:
            continue
        if number is not None:
            segment.metrics.setdefault(name, {})[system] = number
        else:
            notes.counts[f"values under scores.SYSTEM.{name:.40} are no numbers"] += 1


def _add_text(segment: RatedSegment, given: Mapping[str, Any], place: Place, notes: Notes) -> None:
    """Add the one text of a line, with its rating."""
    text, source = _text(given, _TEXT_KEYS) or "", _text(given, _SOURCE_KEYS)
    kinds = [k for k in ("mqm_", "esa_") if f"{k}score" in given or f"{k}spans" in given]
    mark = kinds[0] if kinds else ""
    values = {
        "score": given.get(f"{mark}score", given.get("human")),
        "errors": given.get(f"{mark}spans", given.get("errors")),
        "annotator": given.get("annotator"),
        "times": given.get("times"),
    }
    rating = _rating(values, text, "unknown", "line", notes)
    if not (segment.systems or segment.references):
        segment.source = source
    own = (given["system"], text, source, place.domain, rating)
    segment.add(RatedOutput(place.pair, place.document, (0, ""), *own), notes)


def _rating(
    values: Mapping[str, Any], text: str, unnamed: str, where: str, notes: Notes
) -> Rating | None:
    """A rating from score, errors, annotator and times; None where it says nothing."""
    score = _number(values.get("score"), f"{where}.score")
    spans = spans_inside(spans_of_tool(values.get("errors"), f"{where}.errors", notes), text, notes)
    if score is None and not spans:
        return None
    rater = typed(str | None, values.get("annotator"), f"{where}.annotator") or unnamed
    return rating_of(rater, score, spans, _seconds(values.get("times")))


def _is_by_text(segment: Mapping[str, Any]) -> bool:
    """Whether a line is of one system's text."""
    has_text = any(isinstance(segment.get(key), str) for key in _TEXT_KEYS)
    return has_text and isinstance(segment.get("system"), str)


def _has_category(errors: Any) -> bool:
    marked = errors if isinstance(errors, list) else []
    return any(isinstance(one, dict) and isinstance(one.get("category"), str) for one in marked)


def _waves(given: Any) -> dict[int, dict[str, Any]]:
    """The ratings of a text by wave: score, errors, annotator, times."""
    waves: dict[int, dict[str, Any]] = {}
    if isinstance(given, list):
        for number, value in enumerate(given):
            if value is not None:
                own = value if isinstance(value, dict) else {"score": value}
                waves[number] = {"score" if k == "human" else k: v for k, v in own.items()}
    elif isinstance(given, Mapping):
        for key, value in given.items():
            if (place := _wave_of(key)) is not None:
                waves.setdefault(place[1], {})[place[0]] = value
    else:
        waves[0] = {"score": given}
    return waves


@lru_cache(maxsize=1024)
def _wave_of(key: str) -> tuple[str, int] | None:
    """The kind and the wave of a key such as ``errors1``; None for one of a metric."""
    match = _WAVE.fullmatch(key)
    if match is None:
        return None
    return "score" if match[1] == "human" else match[1], int(match[2] or 0)


def _head(segment: Mapping[str, Any], place: Place, is_by_text: bool) -> Row:
    """The keys of a document."""
    head: Row = {"id": place.document}
    for key, name in _DOCUMENT_FIELDS.items() if not is_by_text else ():
        if isinstance(segment.get(key), str):
            head[name] = segment[key]
    if place.domain is not None:
        head["domain"] = place.domain
    return head | ({"language_pair": place.pair} if place.pair else {})


def _number(value: Any, where: str) -> float | None:
    """A score; a text of a number is one, NaN is none."""
    if isinstance(value, str):
        number = finite_of(value)
        value = None if value.strip().lower() == "nan" else value if number is None else number
    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    known = finite(value)
    checked: float = typed(Number, value, where) if known is None else known
    return checked


def _seconds(times: Any) -> float | None:
    """How long a rating took, from its two times."""
    try:
        first, last = (_number(time, "times") for time in times)
    except (TypeError, ValueError):
        return None
    return None if first is None or last is None else abs(last - first)


def _segment_number(line: Mapping[str, Any], place: Place, number: int) -> int:
    """By what segments of a document are in order."""
    if place.number is not None:
        return place.number
    for value in map(line.get, _NUMBER_KEYS):
        known = value if type(value) is int else whole_number(value)
        if known is not None:
            return known
    return number


def _text(segment: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The text under the first of some keys that is there."""
    key = next((key for key in keys if key in segment), None)
    text: str | None = None if key is None else typed(str, segment[key], key)
    return text


def _references(segment: Mapping[str, Any]) -> dict[str, str]:
    """The references of a segment by name."""
    references = {}
    for key, name in _REFERENCE_KEYS.items():
        if segment.get(key) is not None:
            references[name] = _text_of(segment[key], key)
    for name, value in _by_name(segment, "refs").items():
        references[name] = _text_of(value, f"refs.{name}")
    return references


def _outputs(segment: Mapping[str, Any]) -> dict[str, str]:
    """The texts of systems by name; one that is null is none."""
    outputs = {}
    for key in _OUTPUT_KEYS:
        for name, value in _by_name(segment, key).items():
            if value is not None:
                outputs[name] = _text_of(value, f"{key}.{name}")
    return outputs


def _by_system(segment: Mapping[str, Any]) -> dict[str, Any]:
    """The ratings of a segment by system."""
    return typed(dict[str, Any] | None, segment.get("scores"), "scores") or {}


def _by_name(segment: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = segment.get(key)
    if isinstance(value, str):
        system = segment.get("system")
        return {system if isinstance(system, str) and system else "hypothesis": value}
    by_name: dict[str, Any] = {} if value is None else typed(dict[str, Any], value, key)
    limits().check("systems", len(by_name), key)
    if "" in by_name:
        raise InputError("a text without a name", where=key, fix="Name every system and reference")
    return by_name


def _text_of(value: Any, where: str) -> str:
    """A text, or that of an object with ``ref`` or ``text``."""
    if isinstance(value, dict):
        value = value.get("ref", value.get("text"))
    if isinstance(value, str):
        return value
    text: str = typed(str, value, where)
    return text


FORMATS = (
    format_of_documents(
        "wmt-jsonl",
        "JSON lines of a WMT test set",
        lambda path, options: read_wmt_jsonl(path, options.language_pair),
        options=("language_pair",),
        keys=("src_text", "tgt_text", "esa_score", "esa_spans"),
        example='{"doc_id": "d", "src_text": "s", "refs": {"refA": "r"}, "tgt_text": {"A": "a text"}}\n',
    ),
)
