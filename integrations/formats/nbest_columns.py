"""N-best lists as lines of columns between ``|||``, the first of them an id, the lines of one id adjacent.

What the other columns hold is for the formats to say; a bad line spoils the list of its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import Candidate, CandidateList
from ...rerank.runs.entry import Entry
from ..files.entries import ListEntry, list_entry, placed
from ..files.list_lines import ListLines

ReadCandidate = Callable[[Sequence[str]], Candidate]  # the candidate of the columns after the id
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NAMED = re.compile(r"([^=\s]+)=(\S*)|(\S+):")
_TAKEN = frozenset({"text", "roles", "foci", "rst", "columns"})
MODEL = re.compile(r"F\d+")  # the log-probability of a model of Marian
LOGPROB = "logprob"  # a feature of this name is the log-probability, and no field


def read_columns(
    source: LineSource,
    shape: str,
    format: str,
    min_columns: int,
    read: ReadCandidate,
) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id.

    Args:
        source: the file.
        shape, format: what a line looks like, and the format's name, for errors.
        min_columns: how many columns a line must have, with the id.
        read: makes a candidate of the columns after the id.

    Raises:
        InputError: the first line has no ``|||``, or a list is larger than any real one.
    """
    row_format = _RowFormat(source.name, shape, min_columns, read)
    block = ListLines(source.name)
    block_id = ""
    for number, line in without_trailing_blanks(source):
        id_end = line.find(b"|||")
        if id_end < 0 and not block.lines:
            raise source.refusal(
                number,
                f"no ||| in {line[:40]!r}, expected {shape}",
                f"Is it a {format} n-best list?",
            )
        line_id = block_id if id_end < 0 else line[:id_end].decode().strip()
        if block.lines and line_id != block_id:
            yield _entry(block, block_id, row_format)
            block = ListLines(source.name)
        block_id = line_id
        block.add((number, line))
    if block.lines:
        yield _entry(block, block_id, row_format)


class _RowFormat(NamedTuple):
    """How the lines of a file are read; the arguments of `read_columns`."""

    name: str
    shape: str
    min_columns: int
    read: ReadCandidate


def _entry(block: ListLines, list_id: str, row_format: _RowFormat) -> ListEntry:
    """The list of a block of lines, or the error in the first bad line."""
    candidates: list[Candidate] = []
    for number, line in block.lines:
        columns = [column.strip() for column in line.decode().split("|||")]
        try:
            candidates.append(_candidate(columns, row_format))
        except InputError as error:
            advised = InputError(
                error.problem,
                where=error.where,
                fix=error.fix or f"The list {list_id!r:.80} is left out",
            )
            in_file = placed(advised, f"{row_format.name}:{number}")
            return Entry(None, in_file, block.first, block.raw, list_id or None)
    return list_entry(CandidateList(list_id, tuple(candidates)), block.first, block.raw)


def _candidate(columns: Sequence[str], row_format: _RowFormat) -> Candidate:
    """The candidate of a line, split into columns; the first is the id."""
    if len(columns) < row_format.min_columns:
        problem = f"{len(columns)} columns, expected {row_format.shape}"
        raise InputError(problem, fix="Is there a line break within a text?")
    list_id, *rest = columns
    if not list_id:
        raise InputError("found nothing, expected an id", where="id")
    return row_format.read(rest)


def without_logprob(values: dict[str, Any]) -> tuple[float | None, dict[str, Any]]:
    """The feature ``logprob``, if there is one, and the others.

    Raises:
        InputError: it has several values.
    """
    rest = dict(values)
    logprob = rest.pop(LOGPROB, None)
    if isinstance(logprob, list):
        raise InputError(f"found {len(logprob)} values, expected one", where=LOGPROB)
    return logprob, rest


def features(column: str) -> dict[str, Any]:
    """Numbers by name, several values a list, those before any name ``features``.

    Raises:
        InputError: a value is no number, or a name has none, or it is taken.
    """
    values_of: dict[str, list[float]] = {}
    name = "features"
    for token in column.split():
        value = token
        if named := _NAMED.fullmatch(token):
            name = named[1] or named[3]
            value = named[2] or ""
            if name in values_of or name in _TAKEN:
                fix = "The name is taken: rename the feature"
                raise InputError(f"a feature named {name!r:.80}", fix=fix)
            values_of[name] = []
        if value:
            values_of.setdefault(name, []).append(finite_number(value, name))
    named_values: dict[str, Any] = {}
    for name, values in values_of.items():
        if not values:
            raise InputError("no value", where=name)
        named_values[name] = values[0] if len(values) == 1 else values
    return named_values


def finite_number(text: str, where: str) -> float:
    """The number that a text is; raises InputError where it is none, or is not finite."""
    number = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not isfinite(number):
        raise InputError(f"found {text!r:.40}, expected a finite number", where=where)
    return number
