"""Rows of JSON lines as a Parquet or Arrow file, in bounded memory: they are read for their columns, and to be written.

The same rows give the same bytes, with the same version of pyarrow. Of Parquet, pages are packed with zstd and have
checksums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from ...metrics.errors import ResourceError
from ...metrics.optional_packages import require
from ...metrics.storage.atomic_files import complete_file
from .block_digests import BlockDigests
from .output_checks import digests_of
from .table_shapes import Shape

GROUP_BYTES = 4 << 20  # of the lines that make a row group
PIECE_BYTES = 1 << 18  # of the lines that are Python values at a time, some ten times as large
Row = dict[str, Any]


def write_table(lines: Path, table: Path) -> BlockDigests:
    """Writes the rows of a file as a table, which takes its name when it is complete; the digests of its bytes.

    Args:
        lines: JSON objects, one per line.
        table: a name ending in .parquet, .arrow, .feather, or .arrows for a stream.

    Raises:
        ResourceError: it cannot be written.
        ModelLoadError: pyarrow is not installed.
    """
    require(str(table), "pyarrow")
    real = Path(os.path.realpath(table))
    with complete_file(real) as draft, open(draft, "wb") as file, open(lines, "rb") as rows:
        write_rows(rows, file, table.suffix.lower())
    return digests_of(real, real.stat().st_size)


def write_rows(lines: BinaryIO, file: BinaryIO, ending: str) -> None:
    """Writes the rows of a file as a table into an open file; errors as `write_table`."""
    import pyarrow as pa

    shape = Shape()
    for rows, _ in pieces(lines):
        for row in rows:
            shape.note(row)
    schema = pa.schema([inner.field(name) for name, inner in shape.fields.items()])
    try:
        with _writer(file, schema, ending) as writer:
            group: list[Any] = []
            for rows, ends_group in pieces(lines):
                group.append(batch_of(rows, shape, schema))
                if ends_group:
                    writer.write_table(pa.Table.from_batches(group).combine_chunks())
                    group = []
    except pa.ArrowException as error:
        raise ResourceError(f"cannot be written ({error})", where=file.name) from error


def table_of(rows: Iterable[Row]) -> Any:
    """Rows as a pyarrow.Table."""
    import pyarrow as pa

    kept = list(rows)
    shape = Shape()
    for row in kept:
        shape.note(row)
    schema = pa.schema([inner.field(name) for name, inner in shape.fields.items()])
    return pa.Table.from_batches([batch_of(kept, shape, schema)], schema)


def batch_of(rows: list[Row], shape: Shape, schema: Any) -> Any:
    """Rows as a pyarrow.RecordBatch; halves of characters are written as their escapes, as in lines."""
    import pyarrow as pa

    changed = [shape.changed(row) for row in rows] if shape.needs_change else rows
    try:
        return pa.RecordBatch.from_pylist(changed, schema=schema)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([_escaped(row) for row in changed], schema=schema)


def pieces(lines: BinaryIO) -> Iterator[tuple[list[Row], bool]]:
    """The rows of a file, a part of a row group at a time, and whether the group ends with it."""
    rows: list[Row] = []
    piece_bytes = group_bytes = 0
    lines.seek(0)
    line = lines.readline()
    while line:
        rows.append(json.loads(line))
        piece_bytes += len(line)
        group_bytes += len(line)
        line = lines.readline()
        ends_group = group_bytes >= GROUP_BYTES or not line
        if ends_group or piece_bytes >= PIECE_BYTES:
            yield rows, ends_group
            rows, piece_bytes = [], 0
            group_bytes = 0 if ends_group else group_bytes


def _escaped(value: Any) -> Any:
    """The value with halves of characters written as their escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value


def _writer(file: BinaryIO, schema: Any, ending: str) -> AbstractContextManager[Any]:
    """What writes record batches in the form of an ending."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if ending == ".parquet":
        writer = parquet.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        return cast("AbstractContextManager[Any]", writer)
    if ending == ".arrows":
        return cast("AbstractContextManager[Any]", pa.ipc.new_stream(file, schema))
    return cast("AbstractContextManager[Any]", pa.ipc.new_file(file, schema))


@contextmanager
def lines_of_table(path: Path, draft: BinaryIO) -> Iterator[BinaryIO]:
    """A file for JSON lines, of which the draft of a table is made when the block ends well.

    Args:
        path: the table's name, for its ending and its folder, where the lines stand in a file without a name.
        draft: where the table is written.
    """
    require(str(path), "pyarrow")
    folder = os.path.dirname(os.path.realpath(path))
    with TemporaryFile(dir=folder) as lines:
        yield cast(BinaryIO, lines)
        write_rows(cast(BinaryIO, lines), draft, path.suffix.lower())
