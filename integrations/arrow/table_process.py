"""The program that reads a Parquet or Arrow file for `ArrowSource`, in a process of its own.

pyarrow can be made to end its process, to take memory without end, or to read what is not there, by a file made for
that. So no other process touches one: this one has a bound on its memory, and what it says are lines of JSON.

    batch of rows    at most batch_bytes, unpacked
    column of a row group of Parquet, by its footer
                     unpacked bytes + 8 for every value <= max(batch_bytes, 400 * packed bytes)
    the process      2 * batch_bytes + 512 MiB over what it has at its start and what is mapped of the file

8 bytes are what a value costs at least when it is unpacked: two levels of nesting and a place in a dictionary. Where
memory cannot be bounded (Windows), the other bounds hold, and a file that ends this process ends no other.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.bounded_inflation import RATIO
from ...metrics.storage.limits import Limits, limits, more, set_limits
from .array_values import (
    WRITE_AGAIN,
    MemoryBoundError,
    UnreadableTypeError,
    check_type,
    our_errors,
    rows_of,
    too_long,
)
from .arrow_source import END, ERROR, FAILURE, GROUP, OPENED, ROW, RowPlaces
from .columns import ColumnNames, FittedColumns, NumberedRow, RowKind, as_lists

ROWS_AT_ONCE = (1024, 64, 1)  # fewer where more take too much memory
BYTES_AT_ONCE = 4 << 20  # as the footer has them; how much is read at a time, no bound
SCHEMA_DEPTH = 100
VALUE_BYTES = 8
SLACK_BYTES = 512 << 20
_BUFFER_BYTES = 1 << 16
_FILE, _STREAM, _PARQUET = b"ARROW1", b"\xff\xff\xff\xff", b"PAR1"


class Batch(NamedTuple):
    """Some rows.

    Args:
        rows: a pyarrow.RecordBatch.
        group: the number of their row group or record batch, from 0.
        fraction: the share of the file that is read with them.
    """

    rows: Any
    group: int
    fraction: float


ReadColumns = Callable[[Sequence[str]], Iterator[Batch]]


def open_table(name: str) -> tuple[Any, ReadColumns]:
    """The pyarrow.Schema of a Parquet or Arrow file, by its ending, and what reads columns of it in batches.

    Raises:
        InputError: it is not what its ending says, or says of itself more than is read.
    """
    is_parquet = Path(name).suffix.lower() == ".parquet"
    with open(name, "rb") as file:
        head = file.read(len(_FILE))
    if not head.startswith(_PARQUET if is_parquet else (_FILE, _STREAM)):
        what = "a Parquet file" if is_parquet else "an Arrow file or stream"
        problem = f"found {head.decode('ascii', 'replace')!r} at its start, expected {what}"
        raise InputError(problem, where=name, fix="Give the file the ending of what it is")
    if not is_parquet:
        return _open_arrow(name, head.startswith(_FILE))
    table = _Parquet(name)
    return table.file.schema_arrow, table.batches


def _open_arrow(name: str, is_file: bool) -> tuple[Any, ReadColumns]:
    """An Arrow file (Feather) or stream."""
    import pyarrow as pa

    mapped = pa.memory_map(name)
    reader = pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)
    batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else iter(reader)

    def fraction(group: int) -> float:
        done, total = (
            (group, reader.num_record_batches) if is_file else (mapped.tell(), mapped.size())
        )
        return float(done / total)

    def read(columns: Sequence[str]) -> Iterator[Batch]:
        for group in count():
            batch = _next(batches, f"{name}, record batch {group}")
            if batch is None:
                return
            rows = batch.select(list(columns))
            for start in range(0, len(rows), ROWS_AT_ONCE[0]):
                yield Batch(rows.slice(start, ROWS_AT_ONCE[0]), group, fraction(group))

    return reader.schema, read


def _next(batches: Iterator[Any], where: str) -> Any:
    """The next batch, None at the end; raises InputError where it takes too much memory."""
    import pyarrow as pa

    allocated = pa.total_allocated_bytes()
    with our_errors(where):
        batch = next(batches, None)
    if pa.total_allocated_bytes() - allocated > limits().batch_bytes:
        raise MemoryBoundError(where)
    return batch


class _Parquet:
    """A Parquet file.

    Args:
        name: its path.
    """

    def __init__(self, name: str) -> None:
        import pyarrow.parquet as parquet

        bounds = {
            "thrift_string_size_limit": limits().json_bytes,
            "thrift_container_size_limit": limits().members,
            "page_checksum_verification": True,
        }
        if "schema_depth_limit" in inspect.signature(parquet.ParquetFile).parameters:
            bounds["schema_depth_limit"] = SCHEMA_DEPTH
        self._name = name
        self._done_rows = 0
        self.file = parquet.ParquetFile(name, buffer_size=_BUFFER_BYTES, pre_buffer=False, **bounds)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in order, of these columns."""
        for group in range(self.file.metadata.num_row_groups):
            where = f"{self._name}, row group {group}"
            with our_errors(where):
                metadata = self.file.metadata.row_group(group)
                num_bytes = self._check_columns(metadata, columns, where)
            row_bytes = max(1.0, num_bytes / max(1, metadata.num_rows))
            start = self._done_rows
            for most in ROWS_AT_ONCE:
                size = max(1, min(most, int(BYTES_AT_ONCE / row_bytes)))
                try:
                    yield from self._of_group(group, columns, size, self._done_rows - start)
                    break
                except MemoryBoundError:
                    if size == 1:
                        raise
            if self._done_rows - start != metadata.num_rows:
                problem = f"{self._done_rows - start} rows, the footer says {metadata.num_rows}"
                raise InputError(problem, where=where, fix=WRITE_AGAIN)

    def _of_group(
        self, group: int, columns: Sequence[str], size: int, skipped: int
    ) -> Iterator[Batch]:
        """The rows of a row group after some, so many at once."""
        where = f"{self._name}, row group {group}"
        with our_errors(where):
            batches = self.file.iter_batches(
                size, row_groups=[group], columns=list(columns), use_threads=False
            )
        while (batch := _next(batches, where)) is not None:
            names = batch.schema.names
            if sorted(names) != sorted(columns):
                problem = f"columns whose names are alike ({', '.join(names)!s:.200})"
                raise InputError(problem, where=where, fix="Give columns names without a dot")
            rows = batch.slice(min(skipped, len(batch)))
            skipped -= len(batch) - len(rows)
            self._done_rows += len(rows)
            yield Batch(rows, group, min(1.0, self._done_rows / self.file.metadata.num_rows))

    def _check_columns(self, metadata: Any, columns: Sequence[str], where: str) -> int:
        """The unpacked bytes of columns of a row group.

        Raises:
            InputError: they say more of themselves than is read, or are not those of the schema, by whose order pyarrow
                takes them.
        """
        total_bytes = 0
        for i in range(metadata.num_columns):
            column, path = metadata.column(i), self.file.schema.column(i).path
            if column.path_in_schema != path:
                problem = f"a column {column.path_in_schema!r:.80} where {path!r:.80} stands"
                raise InputError(problem, where=where, fix=WRITE_AGAIN)
            if not any(path == name or path.startswith(f"{name}.") for name in columns):
                continue
            if column.file_path:
                problem, fix = "stands in another file", "Write all into one file"
                raise InputError(problem, where=f"{where}, column {path!r:.80}", fix=fix)
            unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
            cost = unpacked + VALUE_BYTES * column.num_values
            if cost > max(limits().batch_bytes, RATIO * packed):
                problem = f"{cost} bytes unpacked of {packed} packed ones"
                fix = f"Write smaller row groups. {more('batch_bytes')}"
                raise InputError(problem, where=f"{where}, column {path!r:.80}", fix=fix)
            total_bytes += unpacked
        return total_bytes


def table_lines(name: str, names: ColumnNames, kind: RowKind | None) -> Iterator[bytes]:
    """Facts of a table for the other process: that it is open, its rows, and where groups of them begin.

    Raises:
        InputError: it must be refused.
    """
    with our_errors(name):
        schema, read = open_table(name)
        columns = fitted_columns(schema, names, name, kind)
    yield OPENED + b"\n"
    places = RowPlaces(name)
    marks: list[bytes] = []
    rows: Iterable[NumberedRow] = _rows(read, columns, places, marks)
    if columns.is_flat:
        rows = as_lists(rows, name)
    for number, row in rows:
        line = json.dumps(row, ensure_ascii=False).encode()
        if len(line) > limits().line_bytes:
            raise too_long(places.place(number))
        yield from marks
        marks.clear()
        yield b"%b%d %b\n" % (ROW, number, line)
    yield END + b"\n"


def _rows(
    read: ReadColumns, columns: FittedColumns, places: RowPlaces, marks: list[bytes]
) -> Iterator[NumberedRow]:
    """Every row by its keys; marks say which group begins with which row."""
    number = 1
    for batch in read(columns.read):
        if not len(batch.rows):
            continue
        places.note(batch.group, number)
        marks.append(b"%b%d %d %f\n" % (GROUP, batch.group, number, batch.fraction))
        with our_errors(places.place(number)):
            for at, row in rows_of(batch.rows, number, places.place):
                yield at, columns.keyed(row, at)
        number += len(batch.rows)


def fitted_columns(
    schema: Any, names: ColumnNames, where: str, kind: RowKind | None
) -> FittedColumns:
    """The columns of a schema that are read, all of types that are read."""
    columns = list(schema.names)
    repeated = [column for i, column in enumerate(columns) if column in columns[:i]]
    if repeated:
        problem = f"two columns are called {repeated[0]!r:.80}"
        raise InputError(problem, where=where, fix="Give every column its own name")
    fitted = names.fitted(columns, where, kind)
    for column in fitted.read:
        try:
            check_type(schema.field(column).type, f"{where}, column {column!r:.80}")
        except UnreadableTypeError as error:
            fix = f"Leave it out, --columns ={column:.80}, or write it as text"
            raise InputError(error.problem, where=error.where, fix=fix) from None
    if not fitted.read:
        raise InputError("no column is read", where=where, fix="Name one with --columns")
    return fitted


def bound_memory(name: str) -> None:
    """Bounds the memory of this process, where the system can (not on Windows, and macOS does not keep to it)."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    bound = used + os.path.getsize(name) + 2 * limits().batch_bytes + SLACK_BYTES
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def main() -> None:
    """Reads the table that stdin names, and writes its lines to stdout."""
    import pyarrow.parquet  # noqa: F401  before memory is bounded

    asked = json.load(sys.stdin)
    name = os.fsdecode(bytes.fromhex(asked["name"]))
    set_limits(Limits(**asked["limits"]))
    with suppress(BrokenPipeError), open(1, "wb", 1 << 16) as out:
        try:
            bound_memory(name)
            names = ColumnNames.read(asked["columns"])
            for line in table_lines(name, names, asked["kind"]):
                out.write(line)
        except BrokenPipeError:
            raise
        except InputError as error:
            out.write(ERROR + json.dumps([error.problem, error.where, error.fix]).encode() + b"\n")
        except Exception:
            out.write(FAILURE + json.dumps(traceback.format_exc()).encode() + b"\n")


if __name__ == "__main__":
    main()
