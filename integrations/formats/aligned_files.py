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
from ...metrics.text.line_source import LineSource
from ...rerank.lists import CandidateList
from ..files.entries import Entry, bad


def attached(
    entries: Iterator[Entry], name: str, files: Mapping[str, LineSource], every_line: bool = True
) -> Iterator[Entry]:
    """The entries with ``source`` or ``document`` from `files`; an error entry where an id is no number or goes back.

    Args:
        entries: lists by ascending id.
        name: their file, for errors.
        files: ``source`` and ``document``, whichever are given.
        every_line: whether lines after the last list are an error.

    Raises:
        InputError: a file ends before the lists do, or goes on after them.
    """
    lines = _Lines(files, name)
    for entry in entries:
        if entry.record is None:
            yield entry
            continue
        try:
            number = _number(entry.record.id, lines.reached)
        except InputError as error:
            yield bad(error, name, entry.line, entry.raw, entry.id)
            continue
        found = lines.at(number)
        raw = entry.raw + b"".join(value + b"\n" for value in found.values())
        try:
            record = _with(
                entry.record, number, {column: value.decode() for column, value in found.items()}
            )
        except InputError as error:
            yield bad(error, name, entry.line, raw, entry.id)
        else:
            yield replace(entry, record=record, raw=raw)
    if every_line:
        lines.finish()


class _Lines:
    """The files, read forward together."""

    def __init__(self, files: Mapping[str, LineSource], name: str) -> None:
        self._files, self._name = files, name
        self._lines = {column: iter(file) for column, file in files.items()}
        self.reached = -1

    def at(self, number: int) -> dict[str, bytes]:
        """The line of every file at a number beyond those before."""
        skipped = number - self.reached - 1
        found = {}
        for column, lines in self._lines.items():
            line = next(islice(lines, skipped, None), None)
            if line is None:
                fix = "Is it the right file?"
                raise self._files[column].refusal(
                    0, f"no line for the list {number} of {self._name}", fix
                )
            found[column] = line[1]
        self.reached = number
        return found

    def finish(self) -> None:
        """Raises InputError if a file goes on."""
        for column, lines in self._lines.items():
            if next(lines, None) is not None:
                found = (
                    f"more lines than {self._name} has lists, the last of which is {self.reached}"
                )
                raise self._files[column].refusal(0, found, "Is a file cut off?")


def _number(identity: str, reached: int) -> int:
    if not (identity.isascii() and identity.isdigit()) or len(identity) > 18:
        raise InputError(
            f"{identity!r:.40} is no line number",
            where="id",
            fix="Sources and documents go by line number",
        )
    number = int(identity)
    if number <= reached:
        raise InputError(
            f"{number} after {reached}, expected a larger one",
            where="id",
            fix="Sort the lists by id",
        )
    return number


def _with(record: CandidateList, number: int, found: Mapping[str, str]) -> CandidateList:
    changes: dict[str, Any] = dict(found)
    if "document" in found:
        changes["position"] = number
        if not found["document"].strip():
            raise InputError(
                "an empty line", where="document", fix="Give every list the id of its document"
            )
    return replace(record, **changes)
