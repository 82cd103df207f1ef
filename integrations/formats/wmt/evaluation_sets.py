"""Test sets of sacrebleu, in the style of SummEval, and of mt-metrics-eval, as documents with outputs of systems.

    sacrebleu  files ``SET.PAIR.FIELD`` of one line per segment, given as the path of ``.src``; fields are ``src``,
               ``ref`` or ``ref-A``, ``docid``, ``domain``, ``origlang``, every other one is the output of a system
    summeval   a summary per line: ``id``, ``model_id``, ``decoded``; ``references`` (or ``reference``) and ``text``
               (the article) may be there
    mtme       a folder, as `eval_set_folder` reads it
Without ``docid`` every segment is a document of its own. ``expert_annotations`` and ``turker_annotations`` are lists
of objects of numbers: the human score of a dimension is the mean over annotators, of turkers under ``turker_NAME``.
Lines of one id need not stand together. Only local files are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ...files.entries import Number, TextLines, in_line, json_object, typed
from ..format_table import ListOptions, Row
from ..readers.systems import format_of_documents

_OF_DOCUMENT = ("domain", "origlang")
_NOT_SYSTEMS = frozenset({"src", "docid", *_OF_DOCUMENT})
_GIVE_SOURCES = "Give SET.PAIR.src, such as ~/.sacrebleu/wmt22/wmt22.en-de.src"
_ANNOTATORS = {"expert_annotations": "", "turker_annotations": "turker_"}


def read_sacrebleu(path: str) -> Iterator[Row]:
    """The documents of a test set as rows, with every field that stands beside the source.

    Raises:
        InputError: the path is no ``.src`` file, a file is shorter or longer, or a document comes back after another.
    """
    with ExitStack() as opened:
        sources = {field: TextLines(file) for field, file in _fields(path).items()}
        for source in sources.values():
            opened.enter_context(closing(source))
        row: Row = {}
        for number, lines in enumerate(zip_longest(*sources.values()), 1):
            if None in lines:
                short, *_ = [s for s, line in zip(sources.values(), lines, strict=True) if not line]
                longer, *_ = [s for s, line in zip(sources.values(), lines, strict=True) if line]
                problem = f"{number - 1} lines, {longer.name} has more"
                raise short.refusal(0, problem, "Give a line per segment")
            texts = {field: line[1].decode() for field, line in zip(sources, lines, strict=True)}
            document = texts.get("docid", f"{number}")
            if row.get("id") != document:
                if row:
                    yield row
                row = {"id": document}
                row |= {field: texts[field] for field in _OF_DOCUMENT if field in texts}
                row |= {"source": [], "references": {}, "systems": {}}
            _add(row, texts)
            limits().check("entries", len(row["source"]), f"{path}:{number}", what="sentences")
        if row:
            yield row


def _fields(path: str) -> dict[str, str]:
    """The files of a test set by their fields, sorted."""
    source = Path(path)
    name = source.name.removesuffix(".src")
    if not name or name == source.name or not source.is_file():
        raise InputError("is not a file of sources", where=path, fix=_GIVE_SOURCES)
    beside = [one for one in sorted(os.listdir(source.parent)) if one.startswith(f"{name}.")]
    limits().check("systems", len(beside), path)
    files = {one.removeprefix(f"{name}."): source.parent / one for one in beside}
    return {field: str(file) for field, file in files.items() if field and file.is_file()}


def _add(row: Row, texts: dict[str, str]) -> None:
    """Appends the texts of one more segment."""
    for field, text in texts.items():
        if field == "src":
            row["source"].append(text)
        elif match := re.fullmatch("ref(?:[-:](.*))?", field):
            row["references"].setdefault(f"ref{match[1] or ''}", []).append(text)
        elif field not in _NOT_SYSTEMS:
            row["systems"].setdefault(field, []).append(text)


@dataclass(frozen=True)
class _Summary:
    """A line in the style of SummEval."""

    id: str
    model_id: str
    decoded: str
    references: str | list[str] | None = None
    reference: str | list[str] | None = None
    text: str | None = None
    expert_annotations: list[dict[str, Number]] | None = None
    turker_annotations: list[dict[str, Number]] | None = None


def read_summeval(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, in order of appearance, as rows of whole texts.

    Raises:
        InputError: a line that is no such summary, or a second one of a system; names the line.
    """
    source = LineSource(path)
    rows: dict[str, Row] = {}
    for number, line in without_trailing_blanks(source):
        limits().check("rows", number, path, what="segments")
        with in_line(source, number):
            _add_summary(rows, typed(_Summary, json_object(line)))
    yield from rows.values()


def _add_summary(rows: dict[str, Row], summary: _Summary) -> None:
    """Takes one summary."""
    row = rows.setdefault(summary.id, {"id": summary.id})
    where = f"id {summary.id!r:.80}"
    given = summary.reference if summary.references is None else summary.references
    texts = [given] if isinstance(given, str) else given or []
    limits().check("candidates", len(texts), "references")
    references = {f"reference{number}": text for number, text in enumerate(texts, 1)}
    for key, value in (("source", summary.text), ("references", references or None)):
        if value is not None and row.setdefault(key, value) != value:
            fix = "All summaries of a document share it"
            raise InputError(f"another {key} than in an earlier line", where=where, fix=fix)
    systems = row.setdefault("systems", {})
    if summary.model_id in systems:
        raise InputError(f"a second summary of {summary.model_id!r:.80}", where=where)
    systems[summary.model_id] = summary.decoded
    limits().check("systems", len(systems), summary.id)
    scores: dict[str, list[float]] = {}
    for key, prefix in _ANNOTATORS.items():
        for annotation in getattr(summary, key) or ():
            for dimension, score in annotation.items():
                scores.setdefault(f"{prefix}{dimension}", []).append(score)
    for dimension, own in scores.items():
        human = row.setdefault("human", {}).setdefault(dimension, {})
        human[summary.model_id] = sum(own) / len(own)


def _read_folder(path: str, options: ListOptions) -> Iterator[Row]:
    from .eval_set_rows import rows_of_folder

    return rows_of_folder(path, options.language_pair)


FORMATS = (
    format_of_documents(
        "mtme",
        "the folder of a test set of mt-metrics-eval",
        _read_folder,
        options=("language_pair",),
    ),
    format_of_documents(
        "sacrebleu",
        "the sources SET.PAIR.src of a test set of sacrebleu",
        lambda path, options: read_sacrebleu(path),
    ),
    format_of_documents(
        "summeval",
        "summaries in the style of SummEval",
        lambda path, options: read_summeval(path),
        example='{"id": "d", "model_id": "A", "decoded": "a text", "references": ["r"]}\n',
    ),
)
