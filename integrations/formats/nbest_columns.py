"""N-best lists as lines of columns between ``|||``, the first of them an id, the lines of one id adjacent.

What the other columns hold is for the formats to say; a bad line spoils the list of its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

from ...metrics.errors import InputError
from ...metrics.text.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import Candidate, CandidateList
from ..files.entries import Entry, good
from ..files.list_lines import ListLines

Reading = Callable[[Sequence[str]], Candidate]  # the candidate of the columns after the id
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NAMED = re.compile(r"([^=\s]+)=(\S*)|(\S+):")
_TAKEN = frozenset({"text", "logprob", "roles", "foci", "rst", "columns"})


def read_columns(
    source: LineSource, shape: str, format: str, least: int, read: Reading
) -> Iterator[Entry]:
    """One entry per run of lines with the same id.

    Args:
        source: the file.
        shape, format: what a line looks like, and the format's name, for errors.
        least: how many columns a line has at the least, with the id.
        read: makes a candidate of the columns after the id.

    Raises:
        InputError: the first line has no ``|||``, or a list is larger than any real one.
    """
    current, block = "", ListLines(source.name)
    for number, line in without_trailing_blanks(source):
        mark = line.find(b"|||")
        if mark < 0 and not block.lines:
            raise source.refusal(
                number,
                f"no ||| in {line[:40]!r}, expected {shape}",
                f"Is it a {format} n-best list?",
            )
        identity = current if mark < 0 else line[:mark].decode().strip()
        if block.lines and identity != current:
            yield _entry(source.name, current, block, shape, least, read)
            block = ListLines(source.name)
        current = identity
        block.add((number, line))
    if block.lines:
        yield _entry(source.name, current, block, shape, least, read)


def _entry(
    name: str, identity: str, block: ListLines, shape: str, least: int, read: Reading
) -> Entry:
    candidates: list[Candidate] = []
    for number, line in block.lines:
        columns = [column.strip() for column in line.decode().split("|||")]
        try:
            if len(columns) < least:
                fix = "Is there a line break within a text?"
                raise InputError(f"{len(columns)} columns, expected {shape}", fix=fix)
            if not identity:
                raise InputError("found nothing, expected an id", where="id")
            candidates.append(read(columns[1:]))
        except InputError as error:
            fix = error.fix or f"The list {identity!r:.80} is left out"
            where = f"{name}:{number}" + (f": {error.where}" if error.where else "")
            placed = InputError(error.problem, where=where, fix=fix)
            return Entry(None, placed, block.first, block.raw, identity or None)
    return good(CandidateList(identity, tuple(candidates)), block.first, block.raw)


def features(column: str) -> dict[str, Any]:
    """Numbers by name, several values a list, those before any name ``features``.

    Raises:
        InputError: a value is no number, or a name has none, or it is taken.
    """
    found: dict[str, list[float]] = {}
    name = "features"
    for token in column.split():
        value = token
        if named := _NAMED.fullmatch(token):
            name, value = named[1] or named[3], named[2] or ""
            if name in found or name in _TAKEN:
                raise InputError(
                    f"a feature named {name!r:.80}", fix="The name is taken: rename the feature"
                )
            found[name] = []
        if value:
            found.setdefault(name, []).append(finite_number(value, name))
    if empty := [name for name, values in found.items() if not values]:
        raise InputError("no value", where=empty[0])
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def finite_number(text: str, where: str) -> float:
    """The number that a text is; raises InputError where it is none, or is not finite."""
    number = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not isfinite(number):
        raise InputError(f"found {text!r:.40}, expected a finite number", where=where)
    return number
