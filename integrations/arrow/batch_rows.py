"""The rows of a record batch as Python values, after it was seen that they are whole and not too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits, more
from .array_values import sizes, values
from .record_batches import our_errors

Place = Callable[[int], str]  # where a row stands, by its number
VALUE_BYTES = 32  # what a value takes while sizes are added up


def rows_of(batch: Any, first: int, place: Place) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a batch by their columns, with their numbers.

    Args:
        batch: a pyarrow.RecordBatch.
        first: the number of its first row.
        place: says where a row stands.

    Raises:
        InputError: offsets or texts are none, or a row is too long; with its place.
    """
    with our_errors(place(first)):
        _check_whole(batch, first, place)
    for start, piece in _pieces(batch, first, place):
        columns = _columns(piece, place(start))
        names = piece.schema.names
        for i, row in enumerate(zip(*columns, strict=True)):
            yield start + i, dict(zip(names, row, strict=True))


def too_long(place: str) -> InputError:
    """The refusal of a row that has more bytes than are read."""
    problem = f"a row of more than {limits().line_bytes} bytes"
    return InputError(problem, where=place, fix=more("line_bytes"))


def _pieces(batch: Any, first: int, place: Place) -> Iterator[tuple[int, Any]]:
    """Parts of a batch that fit into memory as values, none with a row that is too long."""
    bound = limits().line_bytes
    try:
        by_column = [sizes(column, limits().batch_bytes // VALUE_BYTES) for column in batch.columns]
        total = np.sum(by_column, axis=0)
    except OverflowError:
        total = np.array([bound + 1] * len(batch))
    if len(batch) == 1 and int(total[0]) > bound:
        raise too_long(place(first))
    if len(batch) == 1 or int(total.sum()) <= bound:
        yield first, batch
        return
    # the row before the half is refused before the one behind it is looked at
    half = len(batch) // 2
    yield from _pieces(batch.slice(0, half), first, place)
    yield from _pieces(batch.slice(half), first + half, place)


def _columns(batch: Any, place: str) -> list[list[Any]]:
    """The values of every column."""
    try:
        with our_errors(place):
            fields = enumerate(batch.schema)
            return [values(batch.column(i), field.metadata) for i, field in fields]
    except InputError as error:
        raise InputError(error.problem, where=error.where or place, fix=error.fix) from None


def _check_whole(batch: Any, first: int, place: Place) -> None:
    """Raises InputError for the first row that is not as Arrow has it."""
    try:
        batch.validate(full=True)
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        if "utf8" in reason.lower():
            problem = f"text that is not UTF-8 ({reason})"
            where = place(first + _first_damaged(batch))
            raise InputError(problem, where=where, fix="Save it as UTF-8") from error
        fix = "Is it whole? Copy it or write it again"
        raise InputError(f"cannot be read ({reason})", where=place(first), fix=fix) from error


def _first_damaged(batch: Any) -> int:
    """The first row, from 0, that is not as Arrow has it; 0 where none is so by itself."""
    for i in range(len(batch)):
        try:
            batch.slice(i, 1).validate(full=True)
        except ValueError:
            return i
    return 0
