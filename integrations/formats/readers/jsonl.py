"""Candidate lists as JSON lines, one list per line: the native format.

A line that is no list is an error entry; a file whose first line is no JSON object is another format, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ....metrics.errors import LOG, InputError
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import Line, NumberedLines, without_trailing_blanks
from ....rerank.lists import read_list
from ...arrow.open_rows import open_rows
from ...files.entries import ListEntry, error_entry, list_entry
from ..format_table import (
    Format,
    ListOptions,
    OpenedFiles,
    format_of_object,
    format_of_text,
    is_eval_set_folder,
)


class JsonEntries:
    """The entries of a file, one per line but for empty lines at the end.

    Args:
        source: the file; iterating raises InputError where its first line shows another format.
    """

    def __init__(self, source: NumberedLines) -> None:
        self._entries = self._read(source)
        self.on_remark: Callable[[str], object] = LOG.info

    def _read(self, source: NumberedLines) -> Iterator[ListEntry]:
        """The entries; where the first line has no id, a remark says what is taken for it."""
        is_first = True
        for number, line in recognised_lines(source):
            if is_first and b'"id"' not in line:
                self.on_remark(f"{source.name}: lists without an id get the numbers of their lines")
            is_first = False
            yield entry_of_line(source.name, number, line)

    def __iter__(self) -> Iterator[ListEntry]:
        """Itself."""
        return self

    def __next__(self) -> ListEntry:
        """The next entry."""
        return next(self._entries)


def recognised_lines(source: NumberedLines) -> Iterator[Line]:
    """The lines but for empty ones at the end.

    Raises:
        InputError: the first line that is not empty shows another format.
    """
    is_recognised = False
    for number, line in without_trailing_blanks(source):
        if not is_recognised and line.strip():
            recognise(source, number, line)
            is_recognised = True
        yield number, line


def entry_of_line(name: str, number: int, line: bytes) -> ListEntry:
    """The entry of a line, whatever stands before and after it.

    Args:
        name: the file.
        number: of the line.
        line: the line.
    """
    data, raw = None, line + b"\n"
    try:
        data = object_of(line)
        return list_entry(read_list(data, number), number, raw)
    except RecursionError:
        error = InputError("nested too deeply", fix="A list is flat")
    except InputError as refusal:
        error = _advised(refusal, data)
    return error_entry(error, name, number, raw, id_of(data))


def object_of(line: bytes) -> Any:
    """The JSON value of a line; raises InputError for an empty one, too."""
    if not line.strip():
        raise InputError("empty line", fix="Write one object per line")
    return parse_json(line)


def id_of(data: Any) -> str | None:
    """The id in a JSON value, if it is an object that has one."""
    value = data.get("id") if isinstance(data, Mapping) else None
    value = str(value) if type(value) is int else value
    return value if isinstance(value, str) and value else None


def misspelt(key: str, data: Mapping[str, Any]) -> InputError | None:
    """The error for a key that is there under a name much like it; None where none is."""
    near = get_close_matches(key, [other for other in data if isinstance(other, str)], 1, 0.75)
    if not near:
        return None
    return InputError(f"not there, found the key {near[0]!r:.80}", where=key, fix="Rename it")


def _advised(error: InputError, data: Any) -> InputError:
    """The error, with advice for a misspelt key, a file of another format in JSON lines, and candidates elsewhere."""
    if not isinstance(data, Mapping) or "candidates" in data:
        return error
    if renamed := misspelt("candidates", data):
        return renamed
    fix = error.fix
    if format := format_of_object(data):
        fix = f"It looks like {format.title}: use --from {format.name}"
    else:
        for key, value in data.items():
            is_named = re.fullmatch(r"[\w.-]+", key) and key not in ("references", "source")
            if is_named and isinstance(value, list) and {type(one) for one in value} == {str}:
                fix = f"If {key!r} holds them: --columns candidates={key}"
                break
    return InputError(error.problem, where=error.where, fix=fix)


def refuse_format(source: NumberedLines, number: int, line: bytes) -> None:
    """Raises InputError if the first line of a table of text is that of a format of its own."""
    if format := format_of_text(line):
        problem = f"found {format.title}, expected columns of lists"
        raise source.refusal(number, problem, f"Use --from {format.name}")


def recognise(source: NumberedLines, number: int, line: bytes) -> None:
    """Raises InputError if the first line is that of another format."""
    start = line.lstrip()
    if start.startswith(b"{") and start.rstrip() != b"{":
        return
    if start.startswith(b"{"):
        kind, fix = "JSON over several lines", "Write one object per line: jq -c ."
    elif format := format_of_text(line):
        kind, fix = format.title, f"Use --from {format.name}"
    elif start.startswith(b"["):
        kind, fix = "a JSON array", "Write one object per line: jq -c '.[]'"
    else:
        kind, fix = "flat text", "Use --from flat with --num-candidates or --sources"
    shown = line[:40].decode(errors="ignore")
    problem = f"found {kind} ({shown!r}), expected a JSON object on each line"
    raise source.refusal(number, problem, fix)


def _open(path: str | Path, options: ListOptions) -> OpenedFiles:
    if is_eval_set_folder(path):
        problem = "is the folder of a test set of mt-metrics-eval"
        raise InputError(problem, where=str(path), fix="Add --from mtme")
    source = open_rows(path, options.columns, "list", refuse_format)
    return [source], JsonEntries(source)


FORMATS = (
    Format(
        "jsonl",
        "candidate lists",
        _open,
        frozenset({"columns"}),
        keys=("candidates",),
        example='{"id": "a", "candidates": ["a text", {"text": "another", "logprob": -1.5}]}\n',
    ),
)
