"""Test sets as sacrebleu keeps them: files ``SET.PAIR.FIELD`` of one line per segment, given as the path of ``.src``.

Fields are ``src``, ``ref`` or ``ref-A``, ``docid``, ``domain``, ``origlang``; every other one is the output of a
system. Without ``docid`` every segment is a document of its own. Only local files are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from .document_rows import Row, segments_of, texts_of

_OF_DOCUMENT = ("domain", "origlang")
_NOT_SYSTEMS = frozenset({"src", "docid", *_OF_DOCUMENT})


def read_sacrebleu(path: str) -> Iterator[Row]:
    """The documents of a test set as rows, with every field that stands beside the source.

    Raises:
        InputError: the path is no ``.src`` file, a file is shorter or longer, or a document comes back after another.
    """
    fields = _fields(path)
    columns: dict[str, Iterator[str]] = {
        field: (line.decode() for _, line in LineSource(file)) for field, file in fields
    }
    row: Row | None = None
    for number, lines in enumerate(_together(columns, dict(fields)), 1):
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


def _together(columns: dict[str, Iterator[str]], files: dict[str, str]) -> Iterator[dict[str, str]]:
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
