"""JSON lines of WMT test sets, with texts of systems and, since 2024, ratings of them.

    a segment per line   the keys of WMT24++ (``document_id``, ``source``, ``target``, ``original_target``, ``domain``,
                         ``lp``), or of WMT25 (``doc_id``, ``src_text``, ``tgt_text`` by system, ``refs`` by name,
                         ``scores`` by system: {human0, errors0, annotator0, times0, human1, ...}, or a list of
                         {score, errors, annotator, times}, one per wave; other numbers are scores of metrics)
    a text per line      ``wmt24_esa.jsonl``: ``langs``, ``doc_id``, ``line_id``, ``system``, ``src``, ``tgt``,
                         ``esa_score``, ``esa_spans``, ``annotator``, ``times``, in any order
Document ids are those of the organisers: PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT, and the like of six parts with ``_###_``,
are split, so that a document is resampled as one. Scores are ``esa``, or ``mqm`` where a language
pair has scores below 0 or errors with categories. A file with a segment per line is read twice, in flat memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite, finite_of
from ....rerank.runs.row_forms import as_line
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
    rated_row,
    rating_object,
    span_of_tool,
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
    with _readable_twice(path) as file:
        survey = _survey(file, path)
        if survey.is_by_text:
            yield from _gathered(file, path, language_pair)
        elif survey.segments:
            pair = the_pair(survey.segments, language_pair, path)
            yield from _Documents(file, path, pair, survey).rows()


@contextmanager
def _readable_twice(path: str) -> Iterator[str]:
    """The path of a file that can be read twice: of standard input or a pipe, a copy."""
    if path != "-" and (Path(path).is_file() or not Path(path).exists()):
        yield path
        return
    with TemporaryDirectory(prefix="discorank-") as folder:
        copy = Path(folder) / "lines"
        with copy.open("wb") as file:
            file.writelines(line + b"\n" for _, line in LineSource(path))
        yield str(copy)


def _segments(file: str, name: str) -> Iterator[tuple[LineSource, int, dict[str, Any]]]:
    """The object on every line of a file, under the name that the user gave."""
    source = LineSource(file)
    source.name = "stdin" if name == "-" else name
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            segment = json_object(line)
        yield source, number, segment


@dataclass
class _Survey:
    """What the first reading finds, by language pair."""

    is_by_text: bool = False
    segments: Counter[str] = field(default_factory=Counter)
    systems: dict[str, dict[str, None]] = field(default_factory=dict)
    has_mqm: set[str] = field(default_factory=set)
    waves: set[int] = field(default_factory=set)


def _survey(file: str, name: str) -> _Survey:
    """Reads which systems, waves and kinds of scores there are."""
    survey = _Survey()
    for source, number, segment in _segments(file, name):
        if number == 1 and _is_by_text(segment):
            survey.is_by_text = True
            source.close()
            break
        with in_line(source, number):
            pair = place_of(segment, number).pair
            survey.segments[pair] += 1
            systems = survey.systems.setdefault(pair, {})
            systems |= dict.fromkeys(one for one in _outputs(segment) if not is_reference(one))
            limits().check("systems", len(systems), "systems")
            for system, given in _by_system(segment).items():
                for wave, values in _waves(given).items():
                    survey.waves.add(wave)
                    score = _number(values.get("score"), f"scores.{system:.80}")
                    errors = values.get("errors")
                    if (score is not None and score < 0) or _has_category(errors):
                        survey.has_mqm.add(pair)
    return survey


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


class _Documents:
    """The documents of a language pair, in the second reading."""

    def __init__(self, file: str, name: str, pair: str, survey: _Survey) -> None:
        self._file, self._name, self._pair, self._survey = file, name, pair, survey
        self._waves = sorted(survey.waves)
        self._notes = Notes(name)

    def rows(self) -> Iterator[Row]:
        """The rows; errors name the line."""
        head: Row = {}
        segments: list[tuple[int | None, RatedSegment]] = []
        for source, number, given in _segments(self._file, self._name):
            with in_line(source, number):
                place = place_of(given, number)
                if place.pair != self._pair:
                    continue
                if segments and head["id"] != place.document:
                    yield self._row(head, segments)
                    segments = []
                head = head if segments else _head(given, place)
                segments.append((place.number, self._segment(given)))
        if segments:
            with in_line(source, number):
                yield self._row(head, segments)
        self._notes.count_other_pairs(self._survey.segments, self._pair)
        self._notes.warn()

    def _segment(self, given: Mapping[str, Any]) -> RatedSegment:
        source = _text(given, _SOURCE_KEYS)
        if source is None:
            raise InputError("no source", fix=f"Expected one of {', '.join(_SOURCE_KEYS)}")
        segment = RatedSegment(source, _references(given))
        for name, text in _outputs(given).items():
            if not is_reference(name):
                segment.systems[name] = text
            elif segment.references.setdefault(name, text) != text:
                what = f"texts of {name} are not those among refs, which count"
                self._notes.counts[what] += 1
        for system, value in _by_system(given).items():
            rated = segment.systems.get(system, segment.references.get(system))
            if rated is None:
                what = f"ratings of {system} are of texts that are not there"
                self._notes.counts[what] += sum(map(bool, _waves(value).values()))
            else:
                self._rate(segment, system, value, rated)
        return segment

    def _rate(self, segment: RatedSegment, system: str, given: Any, text: str) -> None:
        """Adds the ratings of a text, and scores of metrics among them."""
        ratings: list[Rating | None] = [None] * len(self._waves)
        for wave, values in _waves(given).items():
            rater, where = UNKNOWN_RATER.format(wave), f"scores.{system}"
            rating = _rating_of(values, text, self._notes, rater, where)
            ratings[self._waves.index(wave)] = rating
        if any(ratings):
            segment.ratings[system] = ratings
        for name, value in given.items() if isinstance(given, Mapping) else ():
            number = finite(value)
            if number is not None and not _WAVE.fullmatch(name):
                segment.metrics.setdefault(name, {})[system] = number
            elif number is None and not _WAVE.fullmatch(name):
                self._notes.counts[f"values under scores.SYSTEM.{name:.40} are no numbers"] += 1

    def _row(self, head: Row, segments: list[tuple[int | None, RatedSegment]]) -> Row:
        """The row of a document; raises InputError for a segment that comes twice."""
        numbers = [number for number, _ in segments if number is not None]
        if len(numbers) == len(segments):
            number, count = Counter(numbers).most_common(1)[0]
            if count > 1:
                where = f"document {head['id']!r:.80}"
                raise InputError(f"segment {number} comes twice", where=where)
            segments = sorted(segments, key=lambda one: one[0] or 0)
        systems = self._survey.systems.get(self._pair, ())
        dimension = "mqm" if self._pair in self._survey.has_mqm else "esa"
        rated = dimension if self._waves else None
        return rated_row(head, [one for _, one in segments], systems, rated, self._notes)


def _head(segment: Mapping[str, Any], place: Place) -> Row:
    """The keys of a document."""
    head: Row = {"id": place.document}
    for key, name in _DOCUMENT_FIELDS.items():
        if isinstance(segment.get(key), str):
            head[name] = segment[key]
    if place.domain is not None:
        head["domain"] = place.domain
    return head | ({"language_pair": place.pair} if place.pair else {})


def _rating_of(
    values: Mapping[str, Any], text: str, notes: Notes, unnamed: str, where: str
) -> Rating | None:
    """A rating from score, errors, annotator and times; None where it says nothing."""
    score = _number(values.get("score"), f"{where}.score")
    spans = spans_of_tool(values.get("errors"), text, f"{where}.errors", notes)
    if score is None and not spans:
        return None
    rater = typed(str | None, values.get("annotator"), f"{where}.annotator") or unnamed
    return rating_object(rater, score, spans, _seconds(values.get("times")))


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


def _gathered(file: str, name: str, language_pair: str | None) -> Iterator[Row]:
    """The documents of a file with a text per line."""
    notes = Notes(name)
    texts = GatheredTexts(notes)
    has_mqm: set[str] = set()
    for source, number, line in _segments(file, name):
        with in_line(source, number):
            if not _is_by_text(line):
                fix = "Expected system and tgt, as in the first line"
                raise InputError("no text of one system", fix=fix)
            place, text = place_of(line, number), _text(line, _TEXT_KEYS) or ""
            kinds = [k for k in ("mqm", "esa") if f"{k}_score" in line or f"{k}_spans" in line]
            mark = f"{kinds[0]}_" if kinds else ""
            values = {**line}
            values["score"] = line.get(f"{mark}score", line.get("human"))
            values["errors"] = line.get(f"{mark}spans", line.get("errors"))
            rating = _rating_of(values, text, notes, "unknown", "line")
            segment = (_segment_number(line, place, number), "")
            own = (line["system"], text, _text(line, _SOURCE_KEYS), place.domain, rating)
            texts.add(GatheredText(place.pair, place.document, segment, *own))
            if kinds[:1] == ["mqm"]:
                has_mqm.add(place.pair)
    pair = the_pair(texts.pairs, language_pair, name)
    yield from texts.rows(pair, "mqm" if pair in has_mqm else "esa")


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
