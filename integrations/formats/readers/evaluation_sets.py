"""Test sets of sacrebleu, in the style of SummEval, and of mt-metrics-eval, as documents with outputs of systems.

    sacrebleu  files ``SET.PAIR.FIELD`` of one line per segment, given as the path of ``.src``; fields are ``src``,
               ``ref`` or ``ref-A``, ``docid``, ``domain``, ``origlang``, every other one is the output of a system
    summeval   a summary per line: ``id``, ``model_id``, ``decoded``; ``references`` (or ``reference``) and ``text``
               (the article) may be there
    mtme       a folder, as `mtme` reads it
Without ``docid`` every segment is a document of its own. ``expert_annotations`` and ``turker_annotations`` are lists
of objects of numbers: people's score of a dimension is the mean over annotators, of turkers under ``turker_NAME``.
Lines of one id need not stand together. Only local files are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, NumberedLines, without_trailing_blanks
from ....rerank.lists import finite
from ....rerank.runs.resumable import as_line
from ...files.entries import TextLines, in_line, json_object
from ..documents import DocumentRows, Row, segments_of, texts_of
from ..format_table import DocumentFormat, Format, ListOptions
from .systems import lists_of_documents

_OF_DOCUMENT = ("domain", "origlang")
_NOT_SYSTEMS = frozenset({"src", "docid", *_OF_DOCUMENT})


def read_sacrebleu(path: str) -> Iterator[Row]:
    """The documents of a test set as rows, with every field that stands beside the source.

    Raises:
        InputError: the path is no ``.src`` file, a file is shorter or longer, or a document comes back after another.
    """
    fields = _fields(path)
    with ExitStack() as opened:
        sources = {field: opened.enter_context(closing(TextLines(file))) for field, file in fields}
        columns = {
            field: (line.decode() for _, line in source) for field, source in sources.items()
        }
        yield from _documents(path, _together(columns, dict(fields)))


def _documents(path: str, segments: Iterator[dict[str, str]]) -> Iterator[Row]:
    """The documents of segments, given by their fields."""
    row: Row | None = None
    for number, lines in enumerate(segments, 1):
        document = lines.get("docid", f"{number}")
        if row is None or row["id"] != document:
            if row is not None:
                yield row
            row = _new_row(document, lines)
        _add(row, lines)
        limits().check("sentences", len(row["source"]), f"{path}:{number}")
    if row is not None:
        yield row


def _fields(path: str) -> list[tuple[str, str]]:
    """The fields of a test set, sorted, with their files."""
    source = Path(path)
    name = source.name.removesuffix(".src")
    if not name or name == source.name:
        raise InputError(
            "is no file of sources",
            where=path,
            fix="Give SET.PAIR.src, such as ~/.sacrebleu/wmt22/wmt22.en-de.src",
        )
    try:
        names = sorted(os.listdir(source.parent))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(source.parent)) from error
    beside = [(one.removeprefix(f"{name}."), one) for one in names if one.startswith(f"{name}.")]
    limits().check("systems", len(beside), path)
    fields = [
        (field, str(source.parent / one))
        for field, one in beside
        if field and (source.parent / one).is_file()
    ]
    if "src" not in dict(fields):
        raise InputError("is not there", where=path, fix="Give SET.PAIR.src")
    return fields


def _together(
    columns: Mapping[str, Iterator[str]], files: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Lines of all fields side by side."""
    number = 0
    while True:
        number += 1
        lines = {field: next(column, None) for field, column in columns.items()}
        there = [field for field, line in lines.items() if line is not None]
        if not there:
            return
        if len(there) < len(lines):
            short = next(field for field, line in lines.items() if line is None)
            raise InputError(
                f"{number - 1} lines, {files[there[0]]} has more",
                where=files[short],
                fix="Give a line per segment",
            )
        yield {field: line for field, line in lines.items() if line is not None}


def _new_row(document: str, lines: dict[str, str]) -> Row:
    row: Row = {"id": document}
    row |= {field: lines[field] for field in _OF_DOCUMENT if field in lines}
    row |= {"source": [], "references": {}, "systems": {}}
    return row


def _add(row: Row, lines: dict[str, str]) -> None:
    """Appends the texts of one more segment."""
    for field, line in lines.items():
        if field == "src":
            row["source"].append(line)
        elif match := re.fullmatch("ref(?:[-:](.*))?", field):
            translator = match[1]
            name = "ref" if translator is None else f"ref{translator}"
            row["references"].setdefault(name, []).append(line)
        elif field not in _NOT_SYSTEMS:
            row["systems"].setdefault(field, []).append(line)


def sacrebleu_columns(rows: Iterator[Row]) -> dict[str, list[str]]:
    """The lines of every field; white space in texts is collapsed, as sacrebleu does.

    Raises:
        InputError: documents have other systems or references than the first, or a name that no field can have.
    """
    columns: dict[str, list[str]] = {}
    first: dict[str, list[str]] | None = None
    for row in rows:
        texts = {f"{_field(name)}": value for name, value in texts_of(row, "references").items()}
        for name, value in texts_of(row, "systems").items():
            if name in _NOT_SYSTEMS or name.startswith("ref") or "/" in name:
                raise InputError(f"the system {name!r:.80} cannot name a field", where="systems")
            texts[name] = value
        texts["src"] = segments_of(row.get("source"), "source")
        of_document = {field: row[field] for field in _OF_DOCUMENT if field in row}
        for field, value in {**of_document, "docid": row["id"]}.items():
            texts[field] = [str(value)] * len(texts["src"])
        first = first or texts
        if set(texts) != set(first):
            raise InputError(
                f"fields {sorted(texts)}, the first document has {sorted(first)}",
                where=f"document {row['id']!r:.80}",
                fix="Give the same texts of every document",
            )
        for field, value in texts.items():
            columns.setdefault(field, []).extend(" ".join(text.split()) for text in value)
    return columns


def _field(reference: str) -> str:
    """The field of a reference: ref, ref-A of refA."""
    if reference == "ref":
        return reference
    name = reference.removeprefix("ref")
    if "/" in name or not name:
        raise InputError(f"the reference {reference!r:.80} cannot name a field", where="references")
    return f"ref-{name}"


_ANNOTATORS = {"expert_annotations": "", "turker_annotations": "turker_"}


def read_summeval(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, in order of appearance, as rows of whole texts.

    Raises:
        InputError: a line that is no such summary, or a second one of a system; names the line.
    """
    source = LineSource(path)
    rows: dict[str, Row] = {}
    for number, line in without_trailing_blanks(source):
        limits().check("segments", number, path)
        with in_line(source, number):
            _add_summary(rows, json_object(line))
    yield from rows.values()


def _add_summary(rows: dict[str, Row], value: dict[str, Any]) -> None:
    """Takes one summary."""
    document, system, text = (_needed(value, key) for key in ("id", "model_id", "decoded"))
    references = _references(value)
    article = value.get("text")
    if article is not None and not isinstance(article, str):
        raise InputError(f"found {excerpt(article)}, expected a text", where="text")
    row = rows.setdefault(document, {"id": document})
    if article is not None:
        _same(row, "source", article)
    if references is not None:
        _same(row, "references", references)
    systems = row.setdefault("systems", {})
    if system in systems:
        raise InputError(f"a second summary of {system!r:.80}", where=f"id {document!r:.80}")
    systems[system] = text
    limits().check("systems", len(systems), document)
    for dimension, score in _scores(value).items():
        row.setdefault("human", {}).setdefault(dimension, {})[system] = score


def _needed(value: dict[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise InputError(f"found {excerpt(value.get(key))}, expected a text", where=key)
    return str(value[key])


def _references(value: dict[str, Any]) -> dict[str, str] | None:
    """References by number."""
    given = value.get("references", value.get("reference"))
    texts = [given] if isinstance(given, str) else given
    if texts is None:
        return None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"found {excerpt(given)}, expected texts", where="references")
    limits().check("candidates", len(texts), "references")
    return {f"reference{number}": text for number, text in enumerate(texts, 1)}


def _same(row: Row, key: str, value: Any) -> None:
    """Keeps what all summaries of a document share."""
    if row.setdefault(key, value) != value:
        raise InputError(
            f"another {key} than in an earlier line",
            where=f"id {row['id']!r:.80}",
            fix="All summaries of a document share it",
        )


def _scores(value: dict[str, Any]) -> dict[str, float]:
    """Means of the annotations by dimension."""
    means = {}
    for key, prefix in _ANNOTATORS.items():
        annotations = value.get(key) or []
        if not isinstance(annotations, list):
            raise InputError(f"found {excerpt(annotations)}, expected a list", where=key)
        by_dimension: dict[str, list[float]] = {}
        for i, annotation in enumerate(annotations):
            if not isinstance(annotation, dict):
                raise InputError(f"found {excerpt(annotation)}", where=f"{key}[{i}]")
            for dimension, score in annotation.items():
                _check_score(score, f"{key}[{i}].{dimension}")
                by_dimension.setdefault(dimension, []).append(score)
        for dimension, scores in by_dimension.items():
            means[f"{prefix}{dimension}"] = sum(scores) / len(scores)
    return means


def _check_score(score: Any, where: str) -> None:
    if finite(score) is None:
        raise InputError(f"found {excerpt(score)}, expected a number", where=where)


def written_summeval(rows: Iterator[Row]) -> Iterator[bytes]:
    """A line per document and system; people's scores are those of one annotator.

    Raises:
        InputError: a document of several segments.
    """
    for row in rows:
        references = list((row.get("references") or {}).values())
        for system, text in row["systems"].items():
            texts = [text, *references]
            if not all(isinstance(each, str) for each in texts):
                raise InputError(
                    "a document of segments",
                    where=f"document {row['id']!r:.80}",
                    fix="Summaries are whole texts",
                )
            line: Row = {"id": row["id"], "model_id": system, "decoded": text}
            line["references"] = references
            if row.get("source") is not None:
                line["text"] = row["source"]
            yield as_line({**line, **_annotations(row, system)})


def _annotations(row: Row, system: str) -> Row:
    """People's scores of a system, as those of one annotator of each kind."""
    annotations: dict[str, dict[str, float]] = {key: {} for key in _ANNOTATORS}
    for dimension, scores in (row.get("human") or {}).items():
        if scores.get(system) is None:
            continue
        is_turker = dimension.startswith("turker_")
        key = "turker_annotations" if is_turker else "expert_annotations"
        annotations[key][dimension.removeprefix("turker_")] = scores[system]
    return {key: [scores] for key, scores in annotations.items() if scores}


def _open_mtme(path: str | Path, options: ListOptions) -> NumberedLines:
    from ..mtme.eval_set_rows import open_folder

    return open_folder(path, options)


def format_of_documents(
    name: str,
    title: str,
    read: Callable[[str], Iterator[Row]],
    *,
    example: str = "",
    **written: Any,
) -> Format:
    """A format of one file of documents, by what reads it, and how it is written, as `DocumentFormat` has it."""

    def open_rows(path: str | Path, options: ListOptions) -> DocumentRows:
        return DocumentRows(str(path), read(str(path)))

    return Format(
        name,
        title,
        lists_of_documents(open_rows),
        frozenset({"human", "as_systems"}),
        documents=DocumentFormat(open_rows, **written),
        example=example,
    )


FORMATS = (
    Format(
        "mtme",
        "the folder of a test set of mt-metrics-eval",
        lists_of_documents(_open_mtme),
        frozenset({"human", "as_systems", "language_pair"}),
        documents=DocumentFormat(_open_mtme),
    ),
    format_of_documents(
        "sacrebleu",
        "the sources SET.PAIR.src of a test set of sacrebleu",
        read_sacrebleu,
        files=sacrebleu_columns,
    ),
    format_of_documents(
        "summeval",
        "summaries in the style of SummEval",
        read_summeval,
        lines=written_summeval,
        holds=frozenset({"human"}),
        example='{"id": "d", "model_id": "A", "decoded": "a text", "references": ["r"]}\n',
    ),
)
