"""Rows that a command writes into one file: JSON lines, or a Parquet or Arrow file by its ending."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..rerank.runs.run_file import is_table
from ..rerank.runs.table_files import lines_of_table
from .running import complete_or_absent


@contextmanager
def complete_rows(path: str) -> Iterator[BinaryIO]:
    """A file for JSON lines; what is made of them takes its name only when it is complete.

    Raises:
        InputError: it cannot be written.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    with complete_or_absent(path, table=True) as draft:
        if is_table(path):
            with lines_of_table(Path(path), draft) as lines:
                yield lines
        else:
            yield draft
