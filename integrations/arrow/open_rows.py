"""Opens what has a record on every line or row: JSON lines, or by its ending CSV, TSV, a Parquet or Arrow file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...metrics.storage.line_source import LineSource
from ...rerank.runs.run_file import is_table

if TYPE_CHECKING:
    from .arrow_source import ArrowSource
    from .columns import RowKind
    from .text_tables import TextTable

    RowSource = LineSource | ArrowSource | TextTable


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
    is_separated = str(path).lower().removesuffix(".gz").endswith((".csv", ".tsv"))
    if columns or is_separated:
        from .text_tables import TextTable

        return TextTable(path, columns, kind, refuse)
    return LineSource(path)
