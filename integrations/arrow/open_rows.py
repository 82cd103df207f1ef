"""Opens what has a record on every line or row: JSON lines, or by its ending CSV, TSV, a Parquet or Arrow file.

The first line of CSV and TSV names the columns, of which ``--columns`` says which keys they are (`columns`). Cells are
texts; where a key takes numbers they are read as such, an array of JSON stands for several texts, and an empty cell
for nothing. CSV has quotes as in RFC 4180; in TSV a quote is a character like any other.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.limits import limits, more
from ...metrics.storage.line_source import Line, LineSource, without_trailing_blanks
from ...rerank.runs.run_file import is_table
from .columns import ColumnNames, FittedColumns, NumberedRow, RowKind, as_lists

if TYPE_CHECKING:
    from .arrow_source import ArrowSource

    RowSource: TypeAlias = "LineSource | ArrowSource | TextTable"

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# keys whose values are texts, whatever they look like
_TEXTS = frozenset({"id", "source", "document", "text", "hypothesis", "system", "rater", "prompt"})
_SEVERAL = frozenset({"candidates", "references", "pseudo_references", "responses"})
_KEPT_EMPTY = frozenset({"text", "hypothesis"})


def open_rows(
    path: str | Path,
    columns: Sequence[str] = (),
    kind: RowKind | None = None,
    refuse: Callable[[LineSource, int, bytes], object] = lambda *first: None,
) -> RowSource:
    """The lines of a file.

    Args:
        path: a file; ``-`` is standard input.
        columns: which columns, or keys of JSON lines, are which keys, as `ColumnNames` has them.
        kind: what the rows of a table are, where they must have certain columns.
        refuse: raises InputError for the first line of CSV and TSV of a format of its own.

    Raises:
        InputError: it cannot be opened; columns are not there.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    if is_table(path):
        from .arrow_source import ArrowSource

        return ArrowSource(path, columns, kind)
    if columns or _ending(path) in _DELIMITERS:
        return TextTable(path, columns, kind, refuse)
    return LineSource(path)


def _ending(path: str | Path) -> str:
    return Path(str(path).lower().removesuffix(".gz")).suffix


class TextTable:
    """The rows of a file as lines of JSON; a single pass.

    Args:
        path: a file of CSV or TSV, by its ending, or of JSON lines.
        columns: which columns are which keys, as `ColumnNames` has them.
        kind: what rows are, where they must have certain columns.
        refuse: raises InputError for a first line that shows a format of its own.

    Raises:
        InputError: it cannot be opened. Iterating raises it where the file must be refused whole.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str] = (),
        kind: RowKind | None = None,
        refuse: Callable[[LineSource, int, bytes], object] = lambda *first: None,
    ) -> None:
        self._names = ColumnNames.read(columns)
        self._kind, self._refuse = kind, refuse
        self._delimiter = _DELIMITERS.get(_ending(path))
        self._source = LineSource(path)
        self.name = self._source.name

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once."""
        rows = self._objects() if self._delimiter is None else self._cells(self._delimiter)
        for number, row in rows:
            line = json.dumps(row, ensure_ascii=False).encode()
            if len(line) > limits().line_bytes:
                raise self.refusal(number, "a row that is too long", more("line_bytes"))
            yield number, line

    def fraction(self) -> float | None:
        """The share of the file read so far."""
        return self._source.fraction()

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""
        return self._source.refusal(line, problem, fix)

    def _objects(self) -> Iterator[NumberedRow]:
        """The rows of JSON lines."""
        fitted: dict[tuple[str, ...], FittedColumns] = {}
        is_flat = False

        def rows() -> Iterator[NumberedRow]:
            nonlocal is_flat
            for number, line in without_trailing_blanks(self._source):
                row = parse_json(line) if line.lstrip().startswith(b"{") else None
                if not isinstance(row, dict):
                    problem = f"found {line[:40].decode(errors='ignore')!r}, expected an object"
                    raise self.refusal(number, problem, "Write one object per line")
                keys = tuple(row)
                if keys not in fitted:
                    place = f"{self.name}:{number}"
                    # a key that is left out need not stand in every object
                    left_out = self._names.left_out & set(keys)
                    names = replace(self._names, left_out=left_out)
                    fitted[keys] = names.fitted(keys, place, self._kind)
                is_flat = fitted[keys].is_flat
                yield number, fitted[keys].keyed(row, number)

        return _grouped(rows(), lambda: is_flat, self.name)

    def _cells(self, delimiter: str) -> Iterator[NumberedRow]:
        """The rows of CSV or TSV."""
        rows = self._split(delimiter)
        number, head = next(rows, (0, []))
        if not any(head):
            raise self.refusal(0, "no line with the names of columns")
        repeated = [column for i, column in enumerate(head) if column in head[:i]]
        if repeated:
            fix = "Give every column its own name"
            raise self.refusal(number, f"two columns are called {repeated[0]!r:.80}", fix)
        fitted = self._names.fitted(head, self.name, self._kind)

        def keyed() -> Iterator[NumberedRow]:
            for number, cells in rows:
                if len(cells) != len(head):
                    problem = f"{len(cells)} cells, the first line names {len(head)} columns"
                    fix = "Put texts with separators or line breaks into quotes, in CSV"
                    raise self.refusal(number, problem, fix)
                row: dict[str, Any] = dict(zip(head, cells, strict=True))
                for column, key in fitted.key_of.items():
                    row[column] = self._value(row[column], key, number)
                yield number, fitted.keyed(row, number)

        return _grouped(keyed(), lambda: fitted.is_flat, self.name)

    def _split(self, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        """The cells of every row, with the number of its first line."""
        lines = self._lines()
        if delimiter == "\t":
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line.rstrip("\n").split("\t")
            return
        reader = csv.reader(lines, strict=True)
        while True:
            start = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                fix = "Quote texts, and double the quotes in them"
                raise self.refusal(start, f"no CSV: {error}", fix) from None
            if cells is None:
                return
            if cells:
                yield start, cells

    def _lines(self) -> Iterator[str]:
        """The lines with their ends."""
        for number, line in self._source:
            if number == 1:
                self._refuse(self._source, number, line)
            yield line.decode() + "\n"

    def _value(self, cell: str, key: str, number: int) -> Any:
        """The value of a cell as its key takes it; None where it is empty."""
        if not cell and key not in _KEPT_EMPTY:
            return None
        if key in _SEVERAL and cell.startswith("["):
            try:
                return parse_json(cell.encode())
            except InputError:
                problem = f"found {excerpt(cell)} in the column of {key}, expected an array of JSON"
                raise self.refusal(number, problem, 'Write ["a text", "another"]') from None
        if key not in _TEXTS and key not in _SEVERAL and _NUMBER.fullmatch(cell):
            return self._number(cell, key, number)
        return cell

    def _number(self, cell: str, key: str, number: int) -> float | int:
        try:
            return float(cell) if re.search(r"[.eE]", cell) else int(cell)
        except ValueError:  # Python bounds the digits that it converts
            problem = f"found {excerpt(cell)} in the column of {key}, a number with too many digits"
            raise self.refusal(
                number, problem, "Write it as 1e30, or leave the column out"
            ) from None


def _grouped(
    rows: Iterator[NumberedRow], is_flat: Callable[[], bool], name: str
) -> Iterator[NumberedRow]:
    """The rows, or the lists in them where each is a candidate, which the first shows."""
    first = list(islice(rows, 1))
    everything = chain(first, rows)
    yield from as_lists(everything, name) if is_flat() else everything
