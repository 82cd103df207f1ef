"""JSON lines of WMT test sets, with texts of systems and, since 2024, what people said of them.

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
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import finite, finite_of
from ....rerank.runs.resumable import as_line
from ....rerank.selection.system_scores import TextRating
from ...files.entries import in_line, json_object
from ..documents import DocumentRows, Row, segments_of, texts_of
from ..format_table import DocumentFormat, Format, ListOptions
from ..rated_texts import (
    GatheredText,
    GatheredTexts,
    Notes,
    RatedSegment,
    SpanReading,
    count_doubtful,
    is_reference,
    rated_row,
    rating_number,
    rating_text,
    the_pair,
)
from .systems import lists_of_documents

_DOCUMENT_KEYS = ("doc_id", "document_id", "docid")
_SOURCE_KEYS = ("source", "src_text", "src")
_REFERENCE_KEYS = {"target": "refA", "original_target": "original", "ref": "ref"}
_OUTPUT_KEYS = ("tgt_text", "outputs", "hypotheses")
_TEXT_KEYS = ("tgt", "hypothesis")  # of a text per line
_DOCUMENT_FIELDS = {  # texts that hold for the document, as the row has them
    "domain": "domain",
    "lp": "language_pair",
    "collection_id": "collection",
    "dataset_id": "test_set",
    "src_lang": "source_language",
    "tgt_lang": "target_language",
}
_PAIR = re.compile(r"[a-z]{2,3}-[a-z]{2,3}(_\w+)*")
UNKNOWN_RATER = "wave{}"  # of a rating that names nobody


class Place(NamedTuple):
    """Where a segment stands: its document, language pair, domain and number, as far as they are known."""

    document: str
    pair: str
    domain: str | None
    number: int | None


def place_of(segment: Mapping[str, Any], line: int) -> Place:
    """The place of a segment, from its id and the keys beside it; without an id every line is a document."""
    name = _text(segment, _DOCUMENT_KEYS) or f"{line}"
    document, pair, domain, number = _parts_of(name)
    for key in ("lp", "langs"):
        if isinstance(segment.get(key), str):
            pair = segment[key]
    languages = segment.get("src_lang"), segment.get("tgt_lang")
    if not pair and all(isinstance(one, str) for one in languages):
        pair = f"{languages[0]}-{languages[1]}"
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
    if "_###_" in name:
        parts, mark, least = name.split("_###_"), "_###_", 6
        pair = f"{parts[2]}-{parts[3]}" if len(parts) >= 5 else ""
        domain = parts[1] if pair else None
    else:
        parts, mark, least = name.split("_#_"), "_#_", 4
        pair = parts[0] if len(parts) >= 3 and _PAIR.fullmatch(parts[0]) else ""
        domain = parts[1] if pair else None
    last = parts[-1]
    has_number = (len(parts) >= least or len(parts) == 2) and last.isascii() and last.isdigit()
    if not has_number or len(last) > 18:
        return Place(name, pair, domain, None)
    return Place(mark.join(parts[:-1]), pair, domain, int(last))


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
            yield from _documents(file, path, pair, survey)


@contextmanager
def _readable_twice(path: str) -> Iterator[str]:
    """The path of a file that can be read twice: of standard input or a pipe, a copy."""
    if path != "-" and (Path(path).is_file() or not Path(path).exists()):
        yield path
        return
    source = LineSource(path)
    with TemporaryDirectory(prefix="discorank-") as folder:
        copy = Path(folder) / "lines"
        with copy.open("wb") as file:
            for _, line in source:
                file.write(line + b"\n")
        yield str(copy)
        shutil.rmtree(folder, ignore_errors=True)


def _lines(file: str, name: str) -> LineSource:
    """The lines of a file, under the name that the user gave."""
    source = LineSource(file)
    source.name = "stdin" if name == "-" else name
    return source


@dataclass
class _Survey:
    """What the first reading finds, by language pair."""

    is_by_text: bool = False
    segments: Counter[str] = field(default_factory=Counter)
    systems: dict[str, dict[str, None]] = field(default_factory=dict)
    has_mqm: set[str] = field(default_factory=set)
    waves: set[int] = field(default_factory=set)

    def dimension(self, pair: str) -> str | None:
        """The dimension of the ratings of a pair; None where the file has none."""
        if not self.waves:
            return None
        return "mqm" if pair in self.has_mqm else "esa"


def _survey(file: str, name: str) -> _Survey:
    """Reads which systems, waves and kinds of scores there are."""
    survey = _Survey()
    source = _lines(file, name)
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            segment = json_object(line)
            if number == 1 and _is_by_text(segment):
                survey.is_by_text = True
                break
            place = place_of(segment, number)
            survey.segments[place.pair] += 1
            systems = survey.systems.setdefault(place.pair, {})
            for system in _outputs(segment):
                if not is_reference(system):
                    systems[system] = None
            limits().check("systems", len(systems), "systems")
            for system, given in _by_system(segment).items():
                _survey_scores(given, f"scores.{system:.80}", place.pair, survey)
    source.close()
    return survey


def _is_by_text(segment: Mapping[str, Any]) -> bool:
    """Whether a line is of one system's text."""
    has_text = any(isinstance(segment.get(key), str) for key in _TEXT_KEYS)
    return has_text and isinstance(segment.get("system"), str)


def _survey_scores(given: Any, where: str, pair: str, survey: _Survey) -> None:
    """Looks at the scores of one text."""
    for wave, values in _waves(given).items():
        survey.waves.add(wave)
        score = _number(values.get("score"), where)
        errors = values.get("errors")
        is_below = score is not None and score < 0
        if is_below or (isinstance(errors, list) and any(map(_has_category, errors))):
            survey.has_mqm.add(pair)


def _has_category(error: Any) -> bool:
    return isinstance(error, Mapping) and isinstance(error.get("category"), str)


_WAVE = re.compile(r"(human|score|errors|annotator|times)(\d{0,3})")
_WAVE_KEYS = {"human": "score"}


def _waves(given: Any) -> dict[int, dict[str, Any]]:
    """What each wave says of a text: score, errors, annotator, times."""
    if isinstance(given, list):
        return {wave: _one(value) for wave, value in enumerate(given) if value is not None}
    if not isinstance(given, Mapping):
        return {0: {"score": given}}
    waves: dict[int, dict[str, Any]] = {}
    for key, value in given.items():
        if match := _WAVE.fullmatch(key):
            name = _WAVE_KEYS.get(match[1], match[1])
            waves.setdefault(int(match[2] or 0), {})[name] = value
    return waves


def _one(value: Any) -> dict[str, Any]:
    """A rating of a list, with the names of `_waves`."""
    if not isinstance(value, Mapping):
        return {"score": value}
    return {_WAVE_KEYS.get(str(key), str(key)): inner for key, inner in value.items()}


def _documents(file: str, name: str, pair: str, survey: _Survey) -> Iterator[Row]:
    """The documents of a pair."""
    source = _lines(file, name)
    reading = _Segments(Notes(name), sorted(survey.waves))
    systems = list(survey.systems.get(pair, ()))
    dimension = survey.dimension(pair)
    head: Row = {}
    segments: list[tuple[int | None, RatedSegment]] = []
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            segment = json_object(line)
            place = place_of(segment, number)
            if place.pair != pair:
                continue
            if head.get("id") != place.document:
                if segments:
                    yield reading.row(head, segments, systems, dimension)
                head, segments = _head(segment, place), []
            segments.append((place.number, reading.segment(segment)))
    if segments:
        with in_line(source, number):
            yield reading.row(head, segments, systems, dimension)
    others = sum(survey.segments.values()) - survey.segments[pair]
    reading.notes.warn(
        *([f"{others} segments of other language pairs are left out"] if others else [])
    )


def _head(segment: Mapping[str, Any], place: Place) -> Row:
    """The keys of a document."""
    head: Row = {"id": place.document}
    for key, name in _DOCUMENT_FIELDS.items():
        if isinstance(segment.get(key), str):
            head[name] = segment[key]
    if place.domain is not None:
        head["domain"] = place.domain
    if place.pair:
        head["language_pair"] = place.pair
    return head


class _Segments:
    """Reads segments, and counts what is left out.

    Args:
        notes: where that is said.
        waves: the numbers of all waves of the file.
    """

    def __init__(self, notes: Notes, waves: list[int]) -> None:
        self.notes = notes
        self._place_of = {wave: place for place, wave in enumerate(waves)}
        self._spans = SpanReading()

    def segment(self, given: Mapping[str, Any]) -> RatedSegment:
        """A segment; raises InputError for what is none."""
        source = _text(given, _SOURCE_KEYS)
        if source is None:
            raise InputError("no source", fix=f"Expected one of {', '.join(_SOURCE_KEYS)}")
        segment = RatedSegment(source, _references(given))
        for name, text in _outputs(given).items():
            if not is_reference(name):
                segment.systems[name] = text
            elif segment.references.setdefault(name, text) != text:
                self.notes.counts[f"texts of {name} are not those among refs, which count"] += 1
        for system, value in _by_system(given).items():
            rated = segment.systems.get(system, segment.references.get(system))
            if rated is None:
                count = sum(bool(wave) for wave in _waves(value).values())
                self.notes.counts[f"ratings of {system} are of texts that are not there"] += count
                continue
            self._rate(segment, system, value, rated)
        return segment

    def _rate(self, segment: RatedSegment, system: str, given: Any, text: str) -> None:
        """The ratings of a text, and scores of metrics among them."""
        where = f"scores.{system}"
        ratings: list[TextRating | None] = [None] * len(self._place_of)
        for wave, values in _waves(given).items():
            rating = rating_of(values, text, self._spans, UNKNOWN_RATER.format(wave), where)
            ratings[self._place_of[wave]] = rating
        if any(ratings):
            segment.ratings[system] = ratings
        if isinstance(given, Mapping):
            for name, value in given.items():
                if not _WAVE.fullmatch(name):
                    self._metric(segment, system, name, value)

    def _metric(self, segment: RatedSegment, system: str, name: str, value: Any) -> None:
        """A score of a metric among ratings; anything else is left out."""
        number = finite(value)
        if number is not None:
            segment.metrics.setdefault(name, {})[system] = number
        else:
            self.notes.counts[f"values under scores.SYSTEM.{name:.40} are no numbers"] += 1

    def row(
        self,
        head: Row,
        segments: list[tuple[int | None, RatedSegment]],
        systems: list[str],
        dimension: str | None,
    ) -> Row:
        """The row of a document; raises InputError for a segment that comes twice."""
        numbers = [number for number, _ in segments if number is not None]
        if len(numbers) == len(segments):
            if len(set(numbers)) < len(numbers):
                twice = next(n for n, count in Counter(numbers).items() if count > 1)
                problem = f"segment {twice} comes twice"
                raise InputError(problem, where=f"document {head['id']!r:.80}")
            segments = sorted(segments, key=lambda one: one[0] or 0)
        row = rated_row(head, [segment for _, segment in segments], systems, dimension)
        count_doubtful(row, self.notes)
        self.notes.counts.update(self._spans.take())
        return row


def rating_of(
    values: Mapping[str, Any], text: str, reading: SpanReading, unnamed: str, where: str
) -> TextRating | None:
    """A rating from score, errors, annotator and times; None where it says nothing."""
    score = _number(values.get("score"), f"{where}.score")
    spans = reading.spans(values.get("errors"), text, f"{where}.errors")
    if score is None and not spans:
        return None
    rater = rating_text(values.get("annotator"), f"{where}.annotator") or unnamed
    return TextRating(rater, score, spans, _seconds(values.get("times")))


def _number(value: Any, where: str) -> float | None:
    """A score; a text of a number is one, NaN is none."""
    if isinstance(value, str):
        value = nan if value.strip().lower() == "nan" else _number_or_text(value)
    if isinstance(value, float) and isnan(value):
        return None
    return rating_number(value, where)


def _number_or_text(text: str) -> float | str:
    number = finite_of(text)
    return text if number is None else number


def _seconds(times: Any) -> float | None:
    """How long a rating took, from its two times."""
    if not isinstance(times, list) or len(times) != 2:
        return None
    try:
        first, last = (_number(time, "times") for time in times)
    except InputError:
        return None
    return None if first is None or last is None else abs(last - first)


def _gathered(file: str, name: str, language_pair: str | None) -> Iterator[Row]:
    """The documents of a file with a text per line."""
    source = _lines(file, name)
    notes, reading = Notes(name), SpanReading()
    texts = GatheredTexts(notes)
    has_mqm: set[str] = set()
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            one, is_mqm = _rated_text(json_object(line), number, reading)
            texts.add(one)
            if is_mqm:
                has_mqm.add(one.pair)
    pairs = texts.pairs
    pair = the_pair(pairs, language_pair, name)
    yield from texts.rows(pair, "mqm" if pair in has_mqm else "esa")
    others = sum(pairs.values()) - pairs[pair]
    other_notes = [f"{others} segments of other language pairs are left out"] if others else []
    notes.counts.update(reading.take())
    notes.warn(*other_notes)


def _rated_text(
    line: Mapping[str, Any], number: int, reading: SpanReading
) -> tuple[GatheredText, bool]:
    """A line of one text, and whether it is of MQM."""
    if not _is_by_text(line):
        fix = "Expected system and tgt, as in the first line"
        raise InputError("no text of one system", fix=fix)
    place = place_of(line, number)
    text = _text(line, _TEXT_KEYS) or ""
    kind = next((k for k in ("mqm", "esa") if f"{k}_score" in line or f"{k}_spans" in line), "")
    mark = f"{kind}_" if kind else ""
    values = {
        "score": line.get(f"{mark}score", line.get("human")),
        "errors": line.get(f"{mark}spans", line.get("errors")),
        "annotator": line.get("annotator"),
        "times": line.get("times"),
    }
    rating = rating_of(values, text, reading, "unknown", "line")
    segment = place.number if place.number is not None else _line_id(line, number)
    source = _text(line, _SOURCE_KEYS)
    one = GatheredText(
        place.pair,
        place.document,
        (segment, ""),
        str(line["system"]),
        text,
        source,
        place.domain,
        rating,
    )
    return one, kind == "mqm"


def _line_id(line: Mapping[str, Any], number: int) -> int:
    """By what segments of a document are in order."""
    for key in ("line_id", "segment_id", "seg_id"):
        value = line.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
    return number


def _text(segment: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The text under the first of some keys that is there."""
    for key in keys:
        if key in segment:
            if not isinstance(segment[key], str):
                raise InputError(f"found {excerpt(segment[key])}, expected a text", where=key)
            return str(segment[key])
    return None


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


def _by_system(segment: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands under scores."""
    scores = segment.get("scores")
    if scores is None:
        return {}
    if not isinstance(scores, Mapping):
        raise InputError(f"found {excerpt(scores)}, expected scores by system", where="scores")
    return scores


def _by_name(segment: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = segment.get(key)
    if value is None:
        return {}
    if isinstance(value, str):
        system = segment.get("system")
        return {system if isinstance(system, str) and system else "hypothesis": value}
    if not isinstance(value, dict):
        raise InputError(f"found {excerpt(value)}, expected texts by name", where=key)
    limits().check("systems", len(value), key)
    if "" in value:
        raise InputError("a text without a name", where=key, fix="Name every system and reference")
    return value


def _text_of(value: Any, where: str) -> str:
    """A text, or that of an object with ``ref`` or ``text``."""
    if isinstance(value, dict):
        value = value.get("ref", value.get("text"))
    if not isinstance(value, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=where)
    return value


def written_wmt_jsonl(rows: Iterator[Row]) -> Iterator[bytes]:
    """A line per segment, with the keys of WMT25, ratings under ``scores``.

    Raises:
        InputError: a text is missing, or ratings are of several dimensions.
    """
    for row in rows:
        own = {key: row[name] for key, name in _DOCUMENT_FIELDS.items() if name in row}
        references, systems = texts_of(row, "references"), texts_of(row, "systems")
        lacking = row.get("not_supplied") or {}
        ratings, metrics = _dimension_of(row), row.get("metrics") or {}
        for i, source in enumerate(segments_of(row.get("source"), "source")):
            line: Row = {**own, "doc_id": row["id"], "segment_id": i + 1, "src_text": source}
            line["refs"] = {
                name: {"ref": texts[i]}
                for name, texts in references.items()
                if i not in lacking.get(name, ())
            }
            line["tgt_text"] = {
                name: texts[i] for name, texts in systems.items() if i not in lacking.get(name, ())
            }
            scores = _written_scores(ratings, i)
            for metric, by_system in metrics.items():
                for name, values in by_system.items():
                    if values[i] is not None:
                        scores.setdefault(name, {})[metric] = values[i]
            if scores:
                line["scores"] = scores
            yield as_line(line)


def _dimension_of(row: Row) -> Mapping[str, Any]:
    """The ratings of the only dimension by system."""
    by_dimension = row.get("ratings") or {}
    if len(by_dimension) > 1:
        raise InputError(
            f"ratings of {', '.join(by_dimension)}",
            where=f"document {row['id']!r:.80}",
            fix="Leave one: lines of WMT name no dimension",
        )
    return next(iter(by_dimension.values()), {})


def _written_scores(ratings: Mapping[str, Any], i: int) -> dict[str, dict[str, Any]]:
    """What stands under scores of a segment: the ratings of every wave."""
    scores: dict[str, dict[str, Any]] = {}
    for system, texts in ratings.items():
        for wave, rating in enumerate(texts[i] or ()):
            if rating is None:
                continue
            own = scores.setdefault(system, {})
            if rating.get("score") is not None:
                own[f"human{wave}"] = rating["score"]
            if rating.get("spans") is not None:
                own[f"errors{wave}"] = [written_span(span) for span in rating["spans"]]
            own[f"annotator{wave}"] = rating["rater"]
            if rating.get("seconds") is not None:
                own[f"times{wave}"] = [0.0, rating["seconds"]]
    return scores


def written_span(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span as annotation tools write it."""
    if span["start"] is None:
        place = {"start_i": "missing", "end_i": "missing"}
    else:
        place = {"start_i": span["start"], "end_i": span["end"] - 1}
    rest = {key: value for key, value in span.items() if key not in ("start", "end")}
    return {**place, **rest}


def _open(path: str | Path, options: ListOptions) -> DocumentRows:
    return DocumentRows(str(path), read_wmt_jsonl(str(path), options.language_pair))


FORMATS = (
    Format(
        "wmt-jsonl",
        "JSON lines of a WMT test set",
        lists_of_documents(_open),
        frozenset({"human", "as_systems", "language_pair"}),
        keys=("src_text", "tgt_text", "esa_score", "esa_spans"),
        documents=DocumentFormat(
            _open,
            lines=written_wmt_jsonl,
            holds=frozenset({"ratings", "metrics", "not_supplied"}),
        ),
        example='{"doc_id": "d", "src_text": "s", "refs": {"refA": "r"}, "tgt_text": {"A": "a text"}}\n',
    ),
)
