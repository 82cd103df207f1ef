"""Opens candidate lists and documents in any format by its name, with the same checks over all of them.

Sources and document ids may stand in files of one line per list, for formats whose ids are numbers of lines: the list
with id 7 gets the eighth line of each file. With documents, 7 is its position too, so that a list that is missing cuts
the context.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import Line, LineSource, NumberedLines
from ...rerank.lists import CandidateList
from ...rerank.runs.run_file import check_beside, is_table
from ..files.entries import (
    OWN_LIST_ID,
    ListEntry,
    RecordOrder,
    TextLines,
    error_entry,
    with_order_errors,
)
from .format_table import (
    Format,
    ListOptions,
    documents_of,
    format_of,
    format_of_object,
    format_of_text,
)
from .readers.jsonl import JsonEntries

_HEAD_BYTES = 1 << 16
MAX_DIGITS = 18  # of the number of a list


class Lists:
    """The entries of one file, in a single pass; a context manager that closes it.

    Args:
        sources: the files read, the one with the candidates first.
        entries: what a reader makes of them.
        lower: names of human scores of which lower ones are better.
    """

    def __init__(
        self, sources: Sequence[NumberedLines], entries: Iterator[ListEntry], lower: frozenset[str]
    ) -> None:
        self._sources = sources
        self.name = sources[0].name
        self.lower = lower
        self._entries = with_order_errors(entries, self.name, RecordOrder(OWN_LIST_ID))
        self._remarking = entries if isinstance(entries, JsonEntries) else None

    def __iter__(self) -> Iterator[ListEntry]:
        """The entries not yet read."""
        return self._entries

    def records(self) -> Iterator[CandidateList]:
        """The lists not yet read; raises the error of the first entry that has one."""
        for entry in self:
            if entry.error is not None:
                raise entry.error
            if entry.record is not None:
                yield entry.record

    def tell(self, on_remark: Callable[[str], object]) -> None:
        """Remarks on the input go there, and not to the log."""
        if self._remarking is not None:
            self._remarking.on_remark = on_remark

    def fraction(self) -> float | None:
        """The share of the file read so far, None where its end is not known."""
        return self._sources[0].fraction()

    def close(self) -> None:
        """Closes the files; also done at their end."""
        self._entries.close()
        for source in self._sources:
            source.close()

    def __enter__(self) -> Lists:
        """Itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Closes the files."""
        self.close()


def open_lists(
    path: str | Path, format: str = "jsonl", *, in_order: bool = True, **options: Any
) -> Lists:
    """The candidate lists in a file.

    Args:
        path: a file, plain or gzip; ``-`` is standard input.
        format: the name of a format.
        in_order: whether lists that are numbered must follow one another; a gap is an error entry.
        options: the fields of `ListOptions` by their names.

    Raises:
        InputError: the format or an option is not known, the file cannot be opened, or it is the output of a run and
            not what the run file beside it says. Iterating raises it where the file must be refused whole; a bad
            record is an error entry.
    """
    declared, given = format_of(format), ListOptions.of(**options)
    check_options(given, declared)
    names = (path, given.sources, given.documents, given.requests)
    if [str(name) for name in names].count("-") > 1:
        fix = "Give one of them as a file"
        raise InputError("standard input twice", where="sources", fix=fix)
    check_beside(path)
    opened, entries = declared.open(path, given)
    if declared.is_numbered and in_order:
        is_aligned = given.sources is not None or given.documents is not None
        entries = _with_gaps(entries, opened[0].name, 0 if is_aligned else None)
    aligned = {"source": given.sources, "document": given.documents}
    if declared.reads_sources:
        del aligned["source"]
    files = {column: TextLines(name) for column, name in aligned.items() if name is not None}
    if files:
        opened += files.values()
        entries = _with_aligned_lines(entries, opened[0].name, files, declared.every_line)
    return Lists(opened, entries, _lower(given.human))


def open_documents(path: str | Path, format: str = "systems", **options: Any) -> NumberedLines:
    """The documents in a file, or in a folder of mt-metrics-eval, as lines of a systems file.

    Raises:
        InputError: the format has no documents, or not these options; the file cannot be opened; iterating, as the
            reader of the format.
    """
    given = ListOptions.of(**options)
    format = recognised_documents(path, format)
    documents = documents_of(format)
    if not os.path.isdir(path):
        check_options(given, format_of(format))
    return documents.open(path, given)


def recognised_documents(path: str | Path, format: str = "systems") -> str:
    """The name of the format of documents: the one named; where that is ``systems``, the one that the file shows."""
    if format != "systems" or not os.path.isfile(path) or is_table(path):
        return format
    try:
        with closing(LineSource(path)) as source:
            first = next(iter(source), (0, b""))[1]
        row = parse_json(first) if first.lstrip().startswith(b"{") else None
    except (InputError, RecursionError):  # a line that is too long, or no JSON of one line
        with open(path, "rb") as file:
            first, row = file.read(_HEAD_BYTES), None
    shown = format_of_object(row) if isinstance(row, dict) else None
    shown = shown or format_of_text(first)
    return format if shown is None or shown.documents is None else shown.name


def check_options(options: ListOptions, format: Format) -> None:
    """Raises InputError for an option that is given and that the format does not have."""
    for name in options.given():
        if name not in format.options:
            raise InputError(
                f"not an option of the format {format.name!r}",
                where=name,
                fix=f"Its options: {', '.join(sorted(format.options)) or 'none'}",
            )


def _lower(human: Sequence[str]) -> frozenset[str]:
    """The names of those human scores of which lower ones are better."""
    if not human:
        return frozenset()
    from .human_scores import HumanKey  # not imported for lists without

    return frozenset(key.name for key in map(HumanKey.read, human) if key.lower)


def _with_gaps(
    entries: Iterator[ListEntry], name: str, expected: int | None
) -> Iterator[ListEntry]:
    """The entries of numbered lists, with an error entry in front of a list whose predecessors are missing.

    Args:
        entries: lists by ascending number; those with other ids are passed on.
        name: their file, for errors.
        expected: the number of the first; None where any may be first.
    """
    for entry in entries:
        number = _number(entry.id or "")
        if number is not None:
            if expected is not None and number > expected:
                is_one = number == expected + 1
                missing = (
                    f"list {expected} is" if is_one else f"lists {expected} to {number - 1} are"
                )
                problem = f"found {number}, expected {expected}: the {missing} missing"
                fix = "Is the file cut off, or numbered from 1?"
                error = InputError(problem, where="id", fix=fix)
                yield error_entry(error, name, entry.line, b"", str(expected))
            expected = max(number + 1, expected or 0)
        yield entry


def _number(list_id: str) -> int | None:
    """The number that an id is; None where it is none."""
    is_number = list_id.isascii() and list_id.isdigit() and len(list_id) <= MAX_DIGITS
    return int(list_id) if is_number else None


def _with_aligned_lines(
    entries: Iterator[ListEntry], name: str, files: Mapping[str, LineSource], every_line: bool
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
    lines = {column: iter(file) for column, file in files.items()}
    reached = -1
    for entry in entries:
        if entry.record is None:
            yield entry
            continue
        try:
            number = _line_number(entry.record.id, reached)
        except InputError as error:
            yield error_entry(error, name, entry.line, entry.raw, entry.id)
            continue
        values = {
            column: _next_line(of_file, number - reached - 1, number, files[column], name)
            for column, of_file in lines.items()
        }
        raw = entry.raw + b"".join(value + b"\n" for value in values.values())
        texts = {column: value.decode() for column, value in values.items()}
        reached = number
        try:
            yield replace(entry, record=_completed(entry.record, number, texts), raw=raw)
        except InputError as error:
            yield error_entry(error, name, entry.line, raw, entry.id)
    for column, of_file in lines.items() if every_line else ():
        if next(of_file, None) is not None:
            problem = f"more lines than {name} has lists, the last of which is {reached}"
            raise files[column].refusal(0, problem, "Is a file cut off?")


def _next_line(
    lines: Iterator[Line], skipped: int, number: int, file: LineSource, name: str
) -> bytes:
    """The line of the list of a number, after some that no list has; raises InputError where the file has ended."""
    line = next(islice(lines, skipped, None), None)
    if line is None:
        problem = f"no line for the list {number} of {name}"
        raise file.refusal(0, problem, "Is it the right file?")
    return line[1]


def _line_number(list_id: str, reached: int) -> int:
    """The line number that an id is; raises InputError unless it lies beyond the last one."""
    number = _number(list_id)
    if number is None:
        raise InputError(
            f"{list_id!r:.40} is no line number",
            where="id",
            fix="Sources and documents go by line number",
        )
    if number <= reached:
        raise InputError(
            f"{number} after {reached}, expected a larger one",
            where="id",
            fix="Sort the lists by id",
        )
    return number


def _completed(record: CandidateList, number: int, texts: Mapping[str, str]) -> CandidateList:
    """The list with its source or document; with a document, its line number is its position."""
    changes: dict[str, Any] = dict(texts)
    if "document" in texts:
        changes["position"] = number
        if not texts["document"].strip():
            fix = "Give every list the id of its document"
            raise InputError("an empty line", where="document", fix=fix)
    return replace(record, **changes)
