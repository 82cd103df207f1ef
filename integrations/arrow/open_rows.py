"""Opens what has a record on every line or row: JSON lines, or a Parquet or Arrow file by its ending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource, NumberedLines
from ...rerank.runs.row_loop import Entry
from ...rerank.runs.run_file import is_table

if TYPE_CHECKING:
    from .arrow_source import ArrowSource
    from .columns import RowKind

    RowSource = LineSource | ArrowSource
T = TypeVar("T")


def open_rows(
    path: str | Path, columns: Sequence[str] = (), kind: RowKind | None = None
) -> RowSource:
    """The lines of a file.

    Args:
        path: a file; ``-`` is standard input.
        columns: which columns are which keys, as `ColumnNames` has them; of Parquet and Arrow files.
        kind: what the rows of a Parquet or Arrow file are, where they must have certain columns.

    Raises:
        InputError: it cannot be opened; columns are named of a text file, or are not there.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    if is_table(path):
        from .arrow_source import ArrowSource

        return ArrowSource(path, columns, kind)
    if columns:
        problem = "names columns of a file that has none"
        fix = "Leave it out, or give a file .parquet, .arrow, .arrows or .feather"
        raise InputError(problem, where="--columns", fix=fix)
    return LineSource(path)


def placed_entries(source: NumberedLines, entries: Iterable[Entry[T]]) -> Iterator[Entry[T]]:
    """The entries of a file, errors with row group and row where it has them."""
    if isinstance(source, LineSource):
        return iter(entries)
    from .arrow_source import ArrowSource

    return source.placed(entries) if isinstance(source, ArrowSource) else iter(entries)
