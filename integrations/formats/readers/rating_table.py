"""Tables of ratings, TSV or CSV with a head: MQM as WMT's annotations have it, an error per line, or a score per line.

    system  doc  seg_id  rater  source  target  category  severity        MQM
    system  doc  seg_id  rater  source  target  score                     ESA

Columns may have the names of other years (``docSegId``, ``globalSegId``, ``doc_id``), stand in any order, and be
accompanied by others, such as ``lp`` and ``domain``. In ``target`` and ``source`` <v>...</v> marks the error. A score
is ``mqm``, by the weights of `mqm_weights`, or ``esa``. Lines stand in any order and are all in memory.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.line_source import LineSource
from ....rerank.selection.marked_spans import RatedSpan
from ....rerank.selection.system_scores import Rating
from ...files.entries import in_line
from ..documents import DocumentRows, Row
from ..format_table import DocumentFormat, Format, ListOptions
from ..mqm_weights import read_mqm_weights, weight_of
from ..rated_rows import GatheredTexts, Notes, RatedText, SegmentKey, same_text, the_pair
from .systems import lists_of_documents

_NAMES = {  # other names of a column
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


@dataclass
class _RatedTarget:
    """What the lines of one annotator say of one text."""

    text: str
    source: str
    weight: float = 0.0
    spans: list[RatedSpan] = field(default_factory=list)
    score: float | None = None
    domain: str | None = None


_Key = tuple[str, str, SegmentKey, str, str]  # pair, document, segment, system, rater


def read_rating_table(
    path: str, language_pair: str | None = None, weights: tuple[str, ...] = ()
) -> Iterator[Row]:
    """The documents of a table, plain or gzip, as rows.

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
    texts = GatheredTexts(notes)
    for (pair, document, segment, system, rater), one in targets.items():
        score = -one.weight if is_mqm else one.score
        rating = Rating(rater, score or 0.0, tuple(one.spans)) if is_mqm else None
        if not is_mqm and score is not None:
            rating = Rating(rater, score)
        texts.add(
            RatedText(
                pair, document, segment, system, one.text, one.source or None, one.domain, rating
            )
        )
    pairs = texts.pairs
    if not pairs:
        raise InputError("no lines below the head", where=path)
    pair = the_pair(pairs, language_pair, path)
    yield from texts.rows(pair, "mqm" if is_mqm else "esa")
    others = sum(pairs.values()) - pairs[pair]
    notes.warn(*([f"{others} segments of other language pairs are left out"] if others else []))


def _table_lines(source: LineSource) -> Iterator[tuple[int, dict[str, str]]]:
    """Every line by the names of `_NAMES`."""
    columns: dict[str, int] = {}
    width, is_tsv = 0, True
    for number, line in source:
        text = line.decode()
        if not columns:
            is_tsv = "\t" in text
            head = _cells(text, is_tsv, source, number)
            columns, width = _columns(head, source.name), len(head)
            continue
        if not text.strip():
            continue
        cells = _cells(text, is_tsv, source, number)
        if len(cells) != width:
            raise source.refusal(number, f"{len(cells)} cells, the head has {width}")
        yield number, {name: cells[place] for name, place in columns.items()}


def _cells(text: str, is_tsv: bool, source: LineSource, number: int) -> list[str]:
    """The cells of a line; those of a TSV have no quotes."""
    if is_tsv:
        return text.split("\t")
    try:
        return next(csv.reader(StringIO(text), strict=True), [])
    except csv.Error as error:
        raise source.refusal(number, f"no line of CSV: {error}") from None


def _columns(head: list[str], path: str) -> dict[str, int]:
    """The place of every column that is known."""
    columns = {}
    for name, names in _NAMES.items():
        found = next((one for one in names if one in head), None)
        if found is not None:
            columns[name] = head.index(found)
    lacking = [_NAMES[name][0] for name in _NEEDED if name not in columns]
    if not {"severity", "score"} & set(columns):
        lacking.append("severity or score")
    if lacking:
        problem = f"no column {', '.join(lacking)} in {excerpt(', '.join(head))}"
        raise InputError(problem, where=f"{path}:1", fix=_HEAD)
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
    order = int(segment) if segment.isascii() and segment.isdigit() and len(segment) < 19 else 0
    rater = line.get("rater", "").strip() or "unknown"
    key = (line.get("pair", ""), line["document"], (order, segment), line["system"], rater)
    one = targets.setdefault(key, _RatedTarget(text, source, domain=line.get("domain")))
    if not same_text(one.text, text):
        raise InputError(f"another text of {line['system']!r:.80} than in an earlier line")
    if "severity" in line:
        end = len(one.text)  # where lines differ in white space
        marked = [(min(start, end), min(stop, end), False) for start, stop in spans]
        _add_error(one, line, marked, source_spans, weights)
    else:
        if one.score is not None:
            notes.counts["lines say again what an annotator had scored: the last one counts"] += 1
        one.score = _score(line["score"])


def _add_error(
    one: _RatedTarget,
    line: Mapping[str, str],
    spans: list[tuple[int, int, bool]],
    source_spans: list[tuple[int, int]],
    weights: Mapping[str, float],
) -> None:
    """Adds the error of a line, if it has one."""
    severity, category = line["severity"].strip(), line.get("category", "").strip()
    if severity.lower() in _NO_ERROR or category.lower() in _NO_ERROR - {""}:
        return
    one.weight += weight_of(severity, category, weights)
    about = (severity.lower(), category or None)
    places = spans + [(start, end, True) for start, end in source_spans]
    if not places:
        one.spans.append(RatedSpan(None, None, *about))
    one.spans += [RatedSpan(start, end, *about, in_source) for start, end, in_source in places]


def _score(text: str) -> float | None:
    """A score; None of an empty cell, None and nan."""
    if text.strip().lower() in ("", "none", "nan"):
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"found {excerpt(text)}, expected a number", where="score") from None


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


def _open(path: str | Path, options: ListOptions) -> DocumentRows:
    rows = read_rating_table(str(path), options.language_pair, options.mqm_weights)
    return DocumentRows(str(path), rows)


_NAME = rb'"?(?:' + "|".join(n for names in _NAMES.values() for n in names).encode() + rb')"?'

FORMATS = (
    Format(
        "rating-table",
        "a table of ratings with a head, as MQM annotations of WMT",
        lists_of_documents(_open),
        frozenset({"human", "as_systems", "language_pair", "mqm_weights"}),
        first_line=re.compile(
            rb"(?=.*\bsystem)(?=.*\b(?:target|tgt|hypothesis)\b)(?:" + _NAME + rb"[\t,]){3,}"
        ),
        documents=DocumentFormat(_open),
        example=(
            "system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
            "A\td\t1\tr\ts\ta <v>text</v>\tAccuracy/Mistranslation\tMajor\n"
        ),
    ),
)
