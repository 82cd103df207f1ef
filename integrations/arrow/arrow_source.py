"""A Parquet or Arrow file as lines of JSON, one for every row, so that what reads JSON lines reads it.

The number of a line is that of its row, from 1. Errors name the row group and the row in it as well, by `place`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import Line
from ...rerank.runs.entry import Entry
from ..files.entries import placed
from .array_values import UnreadableTypeError, check_type
from .batch_rows import rows_of, too_long
from .columns import ColumnNames, FittedColumns, RowKind
from .flat_rows import NumberedRow, as_lists
from .record_batches import open_table, our_errors

T = TypeVar("T")


class ArrowSource:
    """The rows of a file as lines of JSON; a single pass.

    Args:
        path: the file.
        names: which columns are which keys.
        kind: what rows are, where they must have certain columns.

    Raises:
        InputError: it cannot be opened, or has other columns. Iterating raises it where the file must be refused whole.
        ModelLoadError: pyarrow is not installed.
    """

    def __init__(self, path: str | Path, names: ColumnNames, kind: RowKind | None = None) -> None:
        self.name = str(path)
        self._table = open_table(path)
        try:
            with our_errors(self.name):
                self._columns = self._fitted(names, kind)
        except BaseException:
            self._table.close()
            raise
        self._group_starts: list[int] = []  # the number of the first row of each that has one
        self._groups: list[int] = []

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once."""
        rows: Iterable[NumberedRow] = self._rows()
        if self._columns.is_flat:
            rows = as_lists(rows, self.name)
        try:
            for number, row in rows:
                line = json.dumps(row, ensure_ascii=False).encode()
                if len(line) > limits().line_bytes:
                    raise too_long(self.place(number))
                yield number, line
        finally:
            self.close()

    def fraction(self) -> float | None:
        """The share of the file read so far."""
        return self._table.fraction()

    def close(self) -> None:
        """Closes the file; also done at its end."""
        self._table.close()

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""
        where = self.place(line) if line else self.name
        return InputError(problem, where=where, fix=fix)

    def place(self, number: int) -> str:
        """Where a row that was read stands: the file, its number, the row group and the row there, from 0."""
        i = bisect_right(self._group_starts, number) - 1
        if i < 0:
            return f"{self.name}:{number}"
        row = number - self._group_starts[i]
        return f"{self.name}:{number}: row group {self._groups[i]}, row {row}"

    def placed(self, entries: Iterable[Entry[T]]) -> Iterator[Entry[T]]:
        """The entries that a reader made of the lines, errors with row group and row."""
        for entry in entries:
            error = entry.error
            if error is None:
                yield entry
                continue
            rest = error.where.removeprefix(f"{self.name}:{entry.line}").removeprefix(": ")
            plain = InputError(error.problem, where=rest, fix=error.fix)
            moved = placed(plain, self.place(entry.line))
            yield Entry(None, moved, entry.line, entry.raw, entry.id)

    def _fitted(self, names: ColumnNames, kind: RowKind | None) -> FittedColumns:
        """The columns that are read, all of types that are read."""
        schema = self._table.schema
        columns = list(schema.names)
        repeated = [column for i, column in enumerate(columns) if column in columns[:i]]
        if repeated:
            problem = f"two columns are called {repeated[0]!r:.80}"
            raise InputError(problem, where=self.name, fix="Give every column its own name")
        fitted = names.fitted(columns, self.name, kind)
        for column in fitted.read:
            where = f"{self.name}, column {column!r:.80}"
            try:
                check_type(schema.field(column).type, where)
            except UnreadableTypeError as error:
                fix = f"Leave it out, --columns ={column:.80}, or write it as text"
                raise InputError(error.problem, where=error.where, fix=fix) from None
        if not fitted.read:
            raise InputError("no column is read", where=self.name, fix="Name one with --columns")
        return fitted

    def _rows(self) -> Iterator[NumberedRow]:
        """Every row by its keys."""
        number = 1
        for batch in self._table.batches(self._columns.read):
            if not len(batch.rows):
                continue
            if self._groups[-1:] != [batch.group]:
                self._group_starts.append(number)
                self._groups.append(batch.group)
            for at, row in rows_of(batch.rows, number, self.place):
                yield at, self._columns.keyed(row, at)
            number += len(batch.rows)
