"""Rows of one candidate each, as lists: those of one id that follow each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits, more
from .columns import OF_LIST

NumberedRow = tuple[int, dict[str, Any]]  # the number of a row, from 1, and its values by key


def as_lists(rows: Iterable[NumberedRow], name: str) -> Iterator[NumberedRow]:
    """The lists in rows of candidates, each with the number of its first row.

    Raises:
        InputError: a list has more candidates or bytes than are read; the file is to be refused.
    """
    group: list[NumberedRow] = []
    num_bytes = 0
    for number, row in rows:
        if group and (row.get("id") != group[0][1].get("id") or row.get("id") is None):
            yield _list(group)
            group, num_bytes = [], 0
        group.append((number, row))
        num_bytes += len(json.dumps(row, ensure_ascii=False))
        most, most_bytes = limits().candidates, limits().line_bytes
        if len(group) > most or num_bytes > most_bytes:
            problem = f"a list of more than {most} candidates or {most_bytes} bytes"
            where = f"{name}:{group[0][0]}"
            raise InputError(problem, where=where, fix=more("candidates"))
    if group:
        yield _list(group)


def _list(group: list[NumberedRow]) -> NumberedRow:
    """A list of its rows."""
    first, head = group[0]
    made: dict[str, Any] = {}
    for key in OF_LIST:
        values = {number: row.get(key) for number, row in group}
        if any(value != head.get(key) for value in values.values()):
            # an object in place of the value: the reader of lists says what it found
            made[key] = {f"row {number}": value for number, value in values.items()}
        elif key in head:
            made[key] = head[key]
    made["candidates"] = [
        {key: value for key, value in row.items() if key not in OF_LIST} for _, row in group
    ]
    return first, made
