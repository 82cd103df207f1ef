"""JSON lines of WMT test sets, with texts of systems and, since 2024, ratings of them.

    a segment per line   the keys of WMT24++ (``document_id``, ``source``, ``target``, ``original_target``, ``domain``,
                         ``lp``), or of WMT25 (``doc_id``, ``src_text``, ``tgt_text`` by system, ``refs`` by name,
                         ``scores`` by system: {human0, errors0, annotator0, times0, human1, ...}, or a list of
                         {score, errors, annotator, times}, one per wave; other numbers are scores of metrics)
    a text per line      ``wmt24_esa.jsonl``: ``langs``, ``doc_id``, ``line_id``, ``system``, ``src``, ``tgt``,
                         ``esa_score``, ``esa_spans``, ``annotator``, ``times``, in any order
Document ids are those of the organisers: PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT, and the like of six parts with ``_###_``,
are split, so that a document is resampled as one. Scores are ``esa``, or ``mqm`` where a language
pair has scores below 0 or errors with categories. The lines of the language pair are gathered in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any, NamedTuple

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite, finite_of
from ....rerank.runs.resumable import as_line
from ...files.entries import Number, in_line, json_object, typed
from ..format_table import Row, segments_of, texts_of
from ..readers.systems import format_of_documents
from .rated_rows import (
    GatheredText,
    GatheredTexts,
    Notes,
    RatedSegment,
    Rating,
    is_reference,
    rating_object,
    span_of_tool,
    spans_of_tool,
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
    """The place of a segment, from its id and the keys beside it; without an id every line is a document."""
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
        InputError: a line that is no segment, a segment that comes twice, or several language pairs and none is
            named; names the line.

    Warns:
        LeftOutWarning: something is not there, or was left out.
    """
    yield from _Lines(path, language_pair).rows()


class _Lines:
    """The lines of a file, gathered by language pair.

    Args:
        path: the file.
        language_pair: the one that is read; all, of which there must be one, if not given.
    """

    def __init__(self, path: str, language_pair: str | None) -> None:
        self._source = LineSource(path)
        self._pair = language_pair
        self._is_by_text = False
        self._notes = Notes(self._source.name)
        self._texts = GatheredTexts(self._notes)
        self._has_mqm: set[str] = set()
        self._others = Counter[str]()  # segments of other language pairs

    def rows(self) -> Iterator[Row]:
        """The documents."""
        for number, line in without_trailing_blanks(self._source):
            with in_line(self._source, number):
                segment = json_object(line)
                self._is_by_text |= number == 1 and _is_by_text(segment)
                place = place_of(segment, number)
                if self._is_by_text:
                    self._add_text(segment, place, number)
                elif self._pair and place.pair and not place.pair.startswith(self._pair):
                    self._others[place.pair] += 1
                else:
                    self._add_segment(segment, place, number)
        yield from self._texts.rows(self._pair, self._dimension, self._others)

    def _dimension(self, pair: str) -> str | None:
        if not self._is_by_text and not self._texts.waves:
            return None
        return "mqm" if pair in self._has_mqm else "esa"

    def _add_segment(self, given: Mapping[str, Any], place: Place, number: int) -> None:
        """Takes a line with a segment and all of its texts."""
        source = _text(given, _SOURCE_KEYS)
        if source is None:
            raise InputError("no source", fix=f"Expected one of {', '.join(_SOURCE_KEYS)}")
        key = (number if place.number is None else place.number, "")
        segment = self._texts.new_segment(place.pair, key, _head(given, place))
        segment.source, segment.references = source, _references(given)
        for name, text in _outputs(given).items():
            if not is_reference(name):
                segment.systems[name] = text
                self._texts.note_system(place.pair, name)
            elif segment.references.setdefault(name, text) != text:
                what = f"texts of {name} are not those among refs, which count"
                self._notes.counts[what] += 1
        for system, value in _by_system(given).items():
            if system in segment.systems or system in segment.references:
                self._rate(segment, system, value, place.pair)
            else:
                what = f"ratings of {system} are of texts that are not there"
                self._notes.counts[what] += sum(map(bool, _waves(value).values()))

    def _rate(self, segment: RatedSegment, system: str, given: Any, pair: str) -> None:
        """Adds the ratings of a text, and scores of metrics among them."""
        text = segment.systems.get(system, segment.references.get(system, ""))
        for wave, values in _waves(given).items():
            rating = self._rating(values, text, UNKNOWN_RATER.format(wave), f"scores.{system}")
            segment.ratings.setdefault(system, {})[wave] = rating
            self._texts.waves.setdefault(pair, set()).add(wave)
            is_below = rating is not None and (rating["score"] or 0) < 0
            if is_below or _has_category(values.get("errors")):
                self._has_mqm.add(pair)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            number = finite(value)
            if not _WAVE.fullmatch(name) and number is not None:
                segment.metrics.setdefault(name, {})[system] = number
            elif not _WAVE.fullmatch(name):
                self._notes.counts[f"values under scores.SYSTEM.{name:.40} are no numbers"] += 1

    def _add_text(self, line: Mapping[str, Any], place: Place, number: int) -> None:
        """Takes a line with one text of a system."""
        if not _is_by_text(line):
            fix = "Expected system and tgt, as in the first line"
            raise InputError("no text of one system", fix=fix)
        text = _text(line, _TEXT_KEYS) or ""
        kinds = [k for k in ("mqm", "esa") if f"{k}_score" in line or f"{k}_spans" in line]
        mark = f"{kinds[0]}_" if kinds else ""
        values = {
            "score": line.get(f"{mark}score", line.get("human")),
            "errors": line.get(f"{mark}spans", line.get("errors")),
            "annotator": line.get("annotator"),
            "times": line.get("times"),
        }
        if kinds[:1] == ["mqm"]:
            self._has_mqm.add(place.pair)
        rating = self._rating(values, text, "unknown", "line")
        segment = (_segment_number(line, place, number), "")
        own = (line["system"], text, _text(line, _SOURCE_KEYS), place.domain, rating)
        self._texts.add(GatheredText(place.pair, place.document, segment, *own))

    def _rating(
        self, values: Mapping[str, Any], text: str, unnamed: str, where: str
    ) -> Rating | None:
        """A rating from score, errors, annotator and times; None where it says nothing."""
        score = _number(values.get("score"), f"{where}.score")
        errors = values.get("errors")
        spans = spans_of_tool(errors, text, f"{where}.errors", self._notes)
        if score is None and not spans:
            return None
        rater = typed(str | None, values.get("annotator"), f"{where}.annotator") or unnamed
        return rating_object(rater, score, spans, _seconds(values.get("times")))


def _is_by_text(segment: Mapping[str, Any]) -> bool:
    """Whether a line is of one system's text."""
    has_text = any(isinstance(segment.get(key), str) for key in _TEXT_KEYS)
    return has_text and isinstance(segment.get("system"), str)


def _has_category(errors: Any) -> bool:
    marked = errors if isinstance(errors, list) else []
    return any(isinstance(one, dict) and isinstance(one.get("category"), str) for one in marked)


def _waves(given: Any) -> dict[int, dict[str, Any]]:
    """The ratings of a text by wave: score, errors, annotator, times."""
    if isinstance(given, list):
        return {wave: _wave(value) for wave, value in enumerate(given) if value is not None}
    if not isinstance(given, Mapping):
        return {0: {"score": given}}
    waves: dict[int, dict[str, Any]] = {}
    for key, value in given.items():
        if match := _WAVE.fullmatch(key):
            name = "score" if match[1] == "human" else match[1]
            waves.setdefault(int(match[2] or 0), {})[name] = value
    return waves


def _wave(value: Any) -> dict[str, Any]:
    """A rating of a list, with the names of `_waves`."""
    if not isinstance(value, dict):
        return {"score": value}
    return {"score" if key == "human" else key: inner for key, inner in value.items()}


def _head(segment: Mapping[str, Any], place: Place) -> Row:
    """The keys of a document."""
    head: Row = {"id": place.document}
    for key, name in _DOCUMENT_FIELDS.items():
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
    if isinstance(value, float) and isnan(value):
        return None
    checked: float | None = typed(Number | None, value, where)
    return checked


def _seconds(times: Any) -> float | None:
    """How long a rating took, from its two times."""
    try:
        first, last = (_number(time, "times") for time in typed(list[Any], times))
    except ValueError:
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
    value = typed(dict[str, Any] | str | None, segment.get(key), key)
    if isinstance(value, str):
        system = segment.get("system")
        return {system if isinstance(system, str) and system else "hypothesis": value}
    by_name: dict[str, Any] = value or {}
    limits().check("systems", len(by_name), key)
    if "" in by_name:
        raise InputError("a text without a name", where=key, fix="Name every system and reference")
    return by_name


def _text_of(value: Any, where: str) -> str:
    """A text, or that of an object with ``ref`` or ``text``."""
    if isinstance(value, dict):
        value = value.get("ref", value.get("text"))
    text: str = typed(str, value, where)
    return text


def written_wmt_jsonl(rows: Iterator[Row]) -> Iterator[bytes]:
    """A line per segment, with the keys of WMT25, ratings under ``scores``.

    Raises:
        InputError: a text is missing, or ratings are of several dimensions.
    """
    for row in rows:
        own = {key: row[name] for key, name in _DOCUMENT_FIELDS.items() if name in row}
        references, systems = texts_of(row, "references"), texts_of(row, "systems")
        lacking = row.get("not_supplied") or {}
        ratings = row.get("ratings") or {}
        if len(ratings) > 1:
            where = f"document {row['id']!r:.80}"
            fix = "Leave one: lines of WMT name no dimension"
            raise InputError(f"ratings of {', '.join(ratings)}", where=where, fix=fix)
        for i, source in enumerate(segments_of(row.get("source"), "source")):
            line: Row = {**own, "doc_id": row["id"], "segment_id": i + 1, "src_text": source}
            there = {
                key: {
                    name: own[i] for name, own in by_name.items() if i not in lacking.get(name, ())
                }
                for key, by_name in (("refs", references), ("tgt_text", systems))
            }
            line["refs"] = {name: {"ref": text} for name, text in there["refs"].items()}
            line["tgt_text"] = there["tgt_text"]
            scores = _written_scores(row, i)
            yield as_line({**line, "scores": scores} if scores else line)


def _written_scores(row: Row, i: int) -> dict[str, dict[str, Any]]:
    """The ratings and scores of metrics of a segment by system."""
    scores: dict[str, dict[str, Any]] = {}
    for by_system in (row.get("ratings") or {}).values():
        for system, of_texts in by_system.items():
            if written := _written_waves(of_texts[i] or ()):
                scores[system] = written
    for metric, by_system in (row.get("metrics") or {}).items():
        for name, values in by_system.items():
            if values[i] is not None:
                scores.setdefault(name, {})[metric] = values[i]
    return scores


def _written_waves(ratings: Any) -> dict[str, Any]:
    """The ratings of a text, of every wave."""
    written: dict[str, Any] = {}
    for wave, rating in enumerate(ratings):
        if rating is None:
            continue
        if rating.get("score") is not None:
            written[f"human{wave}"] = rating["score"]
        if rating.get("spans") is not None:
            written[f"errors{wave}"] = [span_of_tool(span) for span in rating["spans"]]
        written[f"annotator{wave}"] = rating["rater"]
        if rating.get("seconds") is not None:
            written[f"times{wave}"] = [0.0, rating["seconds"]]
    return written


FORMATS = (
    format_of_documents(
        "wmt-jsonl",
        "JSON lines of a WMT test set",
        lambda path, options: read_wmt_jsonl(path, options.language_pair),
        options=("language_pair",),
        keys=("src_text", "tgt_text", "esa_score", "esa_spans"),
        lines=written_wmt_jsonl,
        holds=("ratings", "metrics", "not_supplied"),
        example='{"doc_id": "d", "src_text": "s", "refs": {"refA": "r"}, "tgt_text": {"A": "a text"}}\n',
    ),
)
