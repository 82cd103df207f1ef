"""Entries of an input: each a record, or the error that stands in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ...metrics.errors import InputError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T_co]):
    """A record (a candidate list, the input of a generator), or why there is none.

    Args:
        record: the record; None for an error.
        error: why there is none, with file and line; None for a record.
        line: its first line in the file.
        raw: the bytes it consumed, each line closed by one ``\\n`` whatever its end was, for a rolling hash of the
            input. Of several records made from one line, the first has them all and the others none; empty lines at
            the end of a file belong to no entry.
        id: the record's id, for an error where it could be read.
    """

    record: T_co | None
    error: InputError | None
    line: int
    raw: bytes
    id: str | None = None
