"""Sources and document ids from files with one line per list, for formats whose ids are the numbers of input lines.

The list with id 7 gets the eighth line of each file; with documents, 7 is its position too, so that a list that is
missing cuts the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import CandidateList
from ..files.entries import ListEntry, error_entry


def with_aligned_lines(
    entries: Iterator[ListEntry],
    name: str,
    files: Mapping[str, LineSource],
    every_line: bool = True,
) -> Iterator[ListEntry]:
    """The entries with ``source`` or ``document`` from `files`; an error entry where an id is no number or goes back.

    Args:
        entries: lists by ascending id.
        name: their file, for errors.
        files: ``source`` and ``document``, whichever are given.
        every_line: whether lines after the last list are an error.

    Raises:
        InputError: a file ends before the lists do, or goes on after them.
    """
    lines = _AlignedLines(files, name)
    for entry in entries:
        if entry.record is None:
            yield entry
            continue
        try:
            number = _line_number(entry.record.id, lines.reached)
        except InputError as error:
            yield error_entry(error, name, entry.line, entry.raw, entry.id)
            continue
        values = lines.at(number)
        raw = entry.raw + b"".join(value + b"\n" for value in values.values())
        texts = {column: value.decode() for column, value in values.items()}
        try:
            record = _completed(entry.record, number, texts)
        except InputError as error:
            yield error_entry(error, name, entry.line, raw, entry.id)
        else:
            yield replace(entry, record=record, raw=raw)
    if every_line:
        lines.finish()


class _AlignedLines:
    """The files, read forward together."""

    def __init__(self, files: Mapping[str, LineSource], name: str) -> None:
        self._files = files
        self._name = name
        self._lines = {column: iter(file) for column, file in files.items()}
        self.reached = -1

    def at(self, number: int) -> dict[str, bytes]:
        """The line of every file at a number beyond those before."""
        skipped = number - self.reached - 1
        values = {}
        for column, lines in self._lines.items():
            line = next(islice(lines, skipped, None), None)
            if line is None:
                raise self._files[column].refusal(
                    0,
                    f"no line for the list {number} of {self._name}",
                    "Is it the right file?",
                )
            _, values[column] = line
        self.reached = number
        return values

    def finish(self) -> None:
        """Raises InputError if a file goes on."""
        for column, lines in self._lines.items():
            if next(lines, None) is not None:
                problem = (
                    f"more lines than {self._name} has lists, the last of which is {self.reached}"
                )
                raise self._files[column].refusal(0, problem, "Is a file cut off?")


def _line_number(list_id: str, reached: int) -> int:
    """The line number that an id is; raises InputError unless it lies beyond the last one."""
    is_number = list_id.isascii() and list_id.isdigit()
    if not is_number or len(list_id) > 18:
        raise InputError(
            f"{list_id!r:.40} is no line number",
            where="id",
            fix="Sources and documents go by line number",
        )
    number = int(list_id)
    if number <= reached:
        raise InputError(
            f"{number} after {reached}, expected a larger one",
            where="id",
            fix="Sort the lists by id",
        )
    return number


def _completed(
    record: CandidateList,
    number: int,
    texts: Mapping[str, str],
) -> CandidateList:
    """The list with its source or document; with a document, its line number is its position."""
    changes: dict[str, Any] = dict(texts)
    if "document" in texts:
        changes["position"] = number
        if not texts["document"].strip():
            raise InputError(
                "an empty line",
                where="document",
                fix="Give every list the id of its document",
            )
    return replace(record, **changes)
