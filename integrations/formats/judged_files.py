"""Files of judgements, put into documents that are there: rows of `human_scores`, and what annotation tools write.

    a JSON row per segment   {"id": "d7:3", "mqm": {"A": 1.0}, "rater": "anna"}
    Pearmut                  the log of a campaign, or annotations.json; systems may be blinded
    Appraise                 CSV without a head, as WMT24 and WMT25 exported it: annotator, system, segment, kind, two
                             languages, score, document, a flag, spans, start and end
Appraise names a segment by its id, PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT, or by its line among all segments of the
language pair, from 0; the document is checked. Of several ratings of a text by one annotator the last counts. Quality
control (kind BAD; documents #bad, #dup and #incomplete; tutorials) is left out as the organisers do, and counted.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing
from io import StringIO

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ..files.entries import in_line
from .human_scores import JudgedRow, read_judged
from .open_lists import recognised_documents
from .rated_rows import REPEATED, Notes
from .ratings import span_object
from .readers.pearmut import read_annotations
from .readers.wmt_jsonl import place_of, written_span

_CELLS = 12  # of a line of Appraise
_CONTROL = ("#bad", "#dup", "#incomplete")


def read_judged_file(path: str, key: str) -> list[JudgedRow]:
    """The judgements of a file, whose scores stand under a key where they have one.

    Raises:
        InputError: it is of none of these forms; with file and line.

    Warns:
        LeftOutWarning: something was left out.
    """
    if recognised_documents(path) == "pearmut":
        return _of_pearmut(path)
    with closing(LineSource(path)) as source:
        first = next(iter(source), (0, b""))[1]
    if path != "-" and _is_appraise(first):
        return _of_appraise(path)
    return read_judged(LineSource(path), key)


def _of_pearmut(path: str) -> list[JudgedRow]:
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
            judged.where, judged.item, one.rating.rater, scores, errors, one.rating.seconds
        )
    notes.warn()
    return list(rows.values())


def _is_appraise(line: bytes) -> bool:
    cells = _csv_cells(line)
    return len(cells) == _CELLS and cells[8] in ("True", "False") and cells[9].startswith("[")


def _csv_cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader(StringIO(line.decode()), strict=True), [])
    except csv.Error:
        return []


def _of_appraise(path: str) -> list[JudgedRow]:
    notes = Notes(path)
    rows: dict[tuple[str, str, str], tuple[float, JudgedRow]] = {}
    for place, ended, row in _appraise_lines(path, notes):
        earlier = rows.get(place)
        notes.counts[REPEATED] += earlier is not None
        if earlier is None or ended >= earlier[0]:
            rows[place] = ended, row
    notes.warn()
    return [row for _, row in rows.values()]


def _appraise_lines(
    path: str, notes: Notes
) -> Iterator[tuple[tuple[str, str, str], float, JudgedRow]]:
    """Every line that counts: annotator, system and segment; when it ended; its judgement."""
    source = LineSource(path)
    for number, line in source:
        cells = _csv_cells(line)
        if len(cells) != _CELLS:
            raise source.refusal(
                number, f"{len(cells)} cells, expected {_CELLS} as in the first line"
            )
        rater, system, segment, kind, _, _, score, document, _, spans, start, end = cells
        if reason := _control(kind, system, segment, document):
            notes.counts[f"lines of {reason} are left out"] += 1
            continue
        with in_line(source, number):
            times = [_number(value, "time") for value in (start, end)]
            row = JudgedRow(
                f"{path}:{number}",
                document,
                rater,
                {system: _number(score, "score")},
                {system: parse_json(spans.encode())},
                abs(times[1] - times[0]),
            )
            yield (rater, system, segment), times[1], _placed(row, segment)


def _control(kind: str, system: str, segment: str, document: str) -> str | None:
    """Why a line does not count, None where it does."""
    if "tutorial" in system or "tutorial" in segment or "tutorial" in document:
        return "tutorials"
    marks = [mark for mark in _CONTROL if mark in document or mark in segment]
    if kind != "TGT":
        return f"quality control ({kind:.20})"
    return f"quality control ({marks[0]})" if marks else None


def _placed(row: JudgedRow, segment: str) -> JudgedRow:
    """The row with the id of its segment, or its line."""
    rest = (row.rater, row.scores, row.errors, row.seconds)
    if segment.isascii() and segment.isdigit() and len(segment) < 19:
        return JudgedRow(row.where, row.id, *rest, int(segment))
    place = place_of({"doc_id": segment}, 1)
    if place.number is None:
        fix = "Expected a number, or PAIR_#_DOMAIN_#_DOCUMENT_#_SEGMENT"
        raise InputError(f"found {excerpt(segment)}", where="segment", fix=fix)
    return JudgedRow(row.where, f"{place.document}:{place.number}", *rest)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"found {excerpt(text)}, expected a number", where=where) from None
