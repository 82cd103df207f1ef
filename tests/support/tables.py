"""Tables read in this process, for tests of many files: what `table_process` says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from discorank.integrations.arrow.arrow_source import ROW
from discorank.integrations.arrow.columns import ColumnNames
from discorank.integrations.arrow.table_process import table_lines
from discorank.integrations.files.entries import ListEntry
from discorank.integrations.formats.readers.jsonl import entry_of_line


def entries_in_process(path: Path, columns: Sequence[str] = ()) -> Iterator[ListEntry]:
    """The lists of a file that is no stranger's."""
    for said in table_lines(str(path), ColumnNames.read(columns), "list"):
        if said[:1] == ROW:
            number, _, line = said[1:-1].partition(b" ")
            yield entry_of_line(str(path), int(number), line)
