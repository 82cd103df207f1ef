"""Tables of ratings, TSV or CSV with a head: MQM as WMT's annotations have it, an error per line, or a score per line.

    system  doc  seg_id  rater  source  target  category  severity        MQM
    system  doc  seg_id  rater  source  target  score                     ESA

Columns may have the names of other years (``docSegId``, ``globalSegId``, ``doc_id``), stand in any order, and be
accompanied by others, such as ``lp`` and ``domain``. In ``target`` and ``source`` <v>...</v> marks the error. A score
is ``mqm``, by the weights below, or ``esa``. Lines stand in any order and are all in memory.

An error counts as the longest entry of the weights that it has: SEVERITY/CATEGORY/SUBCATEGORY, SEVERITY/CATEGORY or
SEVERITY, where ``*`` stands for every severity and gives way to a severity of the same length; case does not matter.
What has no entry counts 0, with a warning unless it is neutral. The score of a text is minus the sum over its errors,
so that 0 is best, as WMT and mt-metrics-eval have it.

Appraise writes CSV without a head and without texts, as WMT24 and WMT25 exported it: annotator, system, segment, kind,
two languages, score, document, a flag, spans, start and end. These are judgements of documents that are there. A
segment is named by its id, PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT, or by its line among all segments of the language pair,
from 0; the document is checked. Of several ratings of a text by one annotator the last counts. Quality control (kind
BAD; documents #bad, #dup and #incomplete; tutorials) is left out as the organisers do, and counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import finite_of
from ...files.entries import in_line
from ..format_table import Row
from ..readers.systems import format_of_documents
from .rated_rows import (
    REPEATED,
    GatheredTexts,
    Judgement,
    Notes,
    RatedOutput,
    SegmentKey,
    rating_of,
    same_text,
    span_of,
    spans_of_tool,
)
from .wmt_jsonl import place_of, whole_number

# Freitag et al. 2021, and what the organisers of WMT24 take for categories of their own
WMT_WEIGHTS: Mapping[str, float] = {
    "critical": 5.0,
    "major": 5.0,
    "minor": 1.0,
    "minor/fluency/punctuation": 0.1,
    "*/non-translation!": 25.0,
    "*/source issue": 0.0,
    "*/source error": 0.0,
    "*/reinterpretation": 0.0,
}


def read_mqm_weights(given: Iterable[str]) -> dict[str, float]:
    """The task's weights, changed by entries such as ``major=10`` or ``minor/style=0``.

    Raises:
        InputError: an entry without a number.

    >>> read_mqm_weights(["Major=10"])["major"]
    10.0
    """
    weights = dict(WMT_WEIGHTS)
    for entry in given:
        name, mark, number = entry.rpartition("=")
        weight = finite_of(number)
        if not mark or not name.strip() or weight is None:
            raise InputError(
                f"found {excerpt(entry)}",
                where="--mqm-weights",
                fix="Expected SEVERITY=NUMBER or SEVERITY/CATEGORY=NUMBER, such as major=10",
            )
        weights[name.strip().lower()] = weight
    return weights


def weight_of(severity: str, category: str, weights: Mapping[str, float]) -> float | None:
    """What one error counts; None where no entry has it.

    >>> weight_of("Minor", "Fluency/Punctuation", WMT_WEIGHTS), weight_of("Major", "Non-translation!", WMT_WEIGHTS)
    (0.1, 25.0)
    """
    parts = [part.strip().lower() for part in category.split("/") if part.strip()]
    for length in range(len(parts), -1, -1):
        for first in (severity.strip().lower(), "*"):
            name = "/".join([first, *parts[:length]])
            if name in weights:
                return weights[name]
    return None


_NAMES = {  # names of a column
    "system": ("system", "system_id"),
    "document": ("doc", "doc_name", "document", "document_id", "doc_id"),
    "segment": ("globalSegId", "seg_id", "segment_id", "docSegId", "seg"),
    "rater": ("rater", "annotator", "user_id"),
    "source": ("source", "src"),
    "target": ("target", "tgt", "hypothesis"),
    "category": ("category",),
    "severity": ("severity",),
    "score": ("score", "overall", "esa_score"),
    "pair": ("lp", "langs", "language_pair"),
    "domain": ("domain", "domain_name"),
}
_NEEDED = ("system", "document", "segment", "target")
_HEAD = "Expected a head such as system, doc, seg_id, rater, source, target, category, severity"
_NO_ERROR = frozenset({"no-error", "no error", "none", ""})
_Key = tuple[str, str, SegmentKey, str, str]  # pair, document, segment, system, rater


@dataclass
class _RatedTarget:
    """The lines of one annotator on one text."""

    text: str
    source: str
    domain: str | None
    weight: float = 0.0
    spans: list[dict[str, Any]] = field(default_factory=list)
    score: float | None = None


def read_rating_table(
    path: str,
    language_pair: str | None = None,
    weights: tuple[str, ...] = (),
    references: tuple[str, ...] = (),
) -> Iterator[Row]:
    """The documents of a table, plain or gzip, as rows, with references from files of lines.

    Raises:
        InputError: a head without needed columns, a line of another length, or two texts of one system in a segment.

    Warns:
        LeftOutWarning: something was left out.
    """
    of_errors = read_mqm_weights(weights)
    source = LineSource(path)
    notes = Notes(source.name)
    targets: dict[_Key, _RatedTarget] = {}
    is_mqm = False
    for number, line in _table_lines(source):
        with in_line(source, number):
            is_mqm = "severity" in line
            _add(targets, line, of_errors, notes)
    if not targets:
        raise InputError("no lines below the head", where=path)
    texts = GatheredTexts(notes)
    for (pair, document, segment, system, rater), one in targets.items():
        rating = None
        if is_mqm:
            rating = rating_of(rater, -one.weight or 0.0, one.spans)
        elif one.score is not None:
            rating = rating_of(rater, one.score)
        own = (one.text, one.source or None, one.domain, rating)
        try:
            texts.add(RatedOutput(pair, document, segment, system, *own))
        except InputError as error:
            raise error.inside(path) from None
    yield from texts.rows(language_pair, "mqm" if is_mqm else "esa", references)


def _table_lines(source: LineSource) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of every line by the names of `_NAMES`."""
    columns: dict[str, int] = {}
    width, is_tsv = 0, True
    for number, line in source:
        text = line.decode()
        is_tsv = is_tsv if columns else "\t" in text
        if columns and not text.strip():
            continue
        with in_line(source, number):
            cells = text.split("\t") if is_tsv else _csv_cells(text)
            if not columns:
                columns, width = _columns(cells), len(cells)
                continue
            if len(cells) != width:
                raise InputError(f"{len(cells)} cells, the head has {width}")
        yield number, {name: cells[place] for name, place in columns.items()}


def _csv_cells(text: str) -> list[str]:
    try:
        return next(csv.reader(StringIO(text), strict=True), [])
    except csv.Error as error:
        raise InputError(f"not a line of CSV: {error}") from None


def _columns(head: list[str]) -> dict[str, int]:
    """The place of every column that is known."""
    columns = {}
    for name, names in _NAMES.items():
        known = next((one for one in names if one in head), None)
        if known is not None:
            columns[name] = head.index(known)
    lacking = [_NAMES[name][0] for name in _NEEDED if name not in columns]
    if not {"severity", "score"} & set(columns):
        lacking.append("severity or score")
    if lacking:
        problem = f"no column {', '.join(lacking)} in {excerpt(', '.join(head))}"
        raise InputError(problem, fix=_HEAD)
    return columns


def _add(
    targets: dict[_Key, _RatedTarget],
    line: Mapping[str, str],
    weights: Mapping[str, float],
    notes: Notes,
) -> None:
    """Takes a line."""
    text, spans = _unmarked(line["target"])
    source, source_spans = _unmarked(line.get("source", ""))
    segment = line["segment"].strip()
    order = (whole_number(segment) or 0, segment)
    rater = line.get("rater", "").strip() or "unknown"
    key = (line.get("pair", ""), line["document"], order, line["system"], rater)
    one = targets.setdefault(key, _RatedTarget(text, source, line.get("domain")))
    if not same_text(one.text, text):
        raise InputError(f"another text of {line['system']!r:.80} than in an earlier line")
    if "severity" not in line:
        if one.score is not None:
            notes.counts["lines say again what an annotator had scored: the last one counts"] += 1
        score = line["score"].strip()
        is_empty = score.lower() in ("", "none", "nan")
        one.score = None if is_empty else _number(score, "score")
        return
    severity, category = line["severity"].strip(), line.get("category", "").strip()
    if severity.lower() in _NO_ERROR or category.lower() in _NO_ERROR - {""}:
        return
    weight = weight_of(severity, category, weights)
    if weight is None and severity.lower() != "neutral":
        notes.counts[f"errors of severity {severity!r:.40} have no weight, and count 0"] += 1
    one.weight += weight or 0.0
    end = len(one.text)  # where lines differ in white space
    places: list[tuple[int | None, int | None, bool]] = [
        (min(start, end), min(stop, end), False) for start, stop in spans
    ]
    places += [(start, stop, True) for start, stop in source_spans]
    for place in places or [(None, None, False)]:
        one.spans.append(span_of(place[0], place[1], severity, category, place[2]))


_MARK = re.compile("</?v>")


def _unmarked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without its marks, and what they mark.

    >>> _unmarked("a <v>b c</v> d")
    ('a b c d', [(2, 5)])
    """
    plain, spans, start, at = [], [], None, 0
    length = 0
    for mark in _MARK.finditer(text):
        piece = text[at : mark.start()]
        plain.append(piece)
        length, at = length + len(piece), mark.end()
        if mark[0] == "<v>":
            start = length
        elif start is not None:
            spans.append((start, length))
            start = None
    plain.append(text[at:])
    return "".join(plain), spans


_CELLS = 12  # of a line of Appraise
_CONTROL = ("#bad", "#dup", "#incomplete")


def is_appraise(line: bytes) -> bool:
    """Whether a line is one that Appraise exports."""
    try:
        cells = _csv_cells(line.decode())
    except InputError:
        return False
    return len(cells) == _CELLS and cells[8] in ("True", "False") and cells[9].startswith("[")


def read_appraise(path: str) -> list[Judgement]:
    """The judgements of a CSV file of Appraise.

    Raises:
        InputError: a line of another form; with file and line.

    Warns:
        LeftOutWarning: something was left out.
    """
    notes = Notes(path)
    last: dict[tuple[str, str, str], tuple[float, Judgement]] = {}
    source = LineSource(path)
    for number, line in source:
        with in_line(source, number):
            cells = _csv_cells(line.decode())
            if len(cells) != _CELLS:
                problem = f"{len(cells)} cells, expected {_CELLS} as in the first line"
                raise InputError(problem)
            rater, system, segment, kind, _, _, score, document, _, errors, start, end = cells
            if reason := _control(kind, system, segment, document):
                notes.counts[f"lines of {reason} are left out"] += 1
                continue
            began, ended = _number(start, "time"), _number(end, "time")
            spans = spans_of_tool(parse_json(errors.encode()), "errors", notes)
            rating = rating_of(rater, _number(score, "score"), spans, abs(ended - began))
            of_segment, line_number = _named(segment, document)
            where = f"{path}:{number}"
            judgement = Judgement(where, of_segment, system, rating, line_number)
        earlier = last.get((rater, system, segment))
        notes.counts[REPEATED] += earlier is not None
        if earlier is None or ended >= earlier[0]:
            last[rater, system, segment] = ended, judgement
    notes.warn()
    return [judgement for _, judgement in last.values()]


def _control(kind: str, system: str, segment: str, document: str) -> str | None:
    """Why a line does not count, None where it does."""
    if "tutorial" in f"{system} {segment} {document}":
        return "tutorials"
    marks = [mark for mark in _CONTROL if mark in f"{document} {segment}"]
    if kind != "TGT":
        return f"quality control ({kind:.20})"
    return f"quality control ({marks[0]})" if marks else None


def _named(segment: str, document: str) -> tuple[str, int | None]:
    """The id of a segment; or that of its document, and its line."""
    line = whole_number(segment)
    if line is not None:
        return document, line
    place = place_of({"doc_id": segment}, 1)
    if place.number is None:
        fix = "Expected a number, or PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT"
        raise InputError(f"found {excerpt(segment)}", where="segment", fix=fix)
    return f"{place.document}:{place.number}", None


def _number(text: str, where: str) -> float:
    """The number of a cell; raises InputError for anything else."""
    number = finite_of(text)
    if number is None:
        raise InputError(f"found {excerpt(text)}, expected a number", where=where)
    return number


_NAME = rb'"?(?:' + "|".join(n for names in _NAMES.values() for n in names).encode() + rb')"?'
FORMATS = (
    format_of_documents(
        "rating-table",
        "a table of ratings with a head, as MQM annotations of WMT",
        lambda path, options: read_rating_table(
            path, options.language_pair, options.mqm_weights, options.references
        ),
        options=("language_pair", "mqm_weights", "references"),
        first_line=re.compile(
            rb"(?=.*\bsystem)(?=.*\b(?:target|tgt|hypothesis)\b)(?:" + _NAME + rb"[\t,]){3,}"
        ),
        example=(
            "system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
            "A\td\t1\tr\ts\ta <v>text</v>\tAccuracy/Mistranslation\tMajor\n"
        ),
    ),
)
