"""The program that reads a Parquet or Arrow file for `ArrowSource`, in a process of its own.

pyarrow can be made to end its process, to take memory without end, or to read what is not there, by a file made for
that. So no other process touches one: this one has a bound on its memory, and what it says are lines of JSON.

    column of a row group of Parquet, by its footer
                     unpacked bytes + 8 for every value <= max(memory_bytes, 400 * packed bytes)
    batch of rows    at most memory_bytes, unpacked
    row              at most line_bytes as JSON, of which every value takes two
    the process      2 * memory_bytes + 512 MiB over what it has at its start and what is mapped of the file

8 bytes are what a value costs at least when it is unpacked: two levels of nesting and a place in a dictionary. Where
memory cannot be bounded (Windows), the other bounds hold, and a file that ends this process ends no other. Of extension
types nothing is loaded, and maps are refused.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.storage.bounded_inflation import RATIO
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.limits import Limits, limits, more, set_limits
from ...rerank.runs.table_files import MARK
from .arrow_source import END, ERROR, FAILURE, OPENED, ROW
from .columns import ColumnNames, FittedColumns, NumberedRow, RowKind, as_lists

WRITE_AGAIN = "Is it whole? Copy it or write it again"
ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 4 << 20  # as the footer has them; how much is read at a time, no bound
DEPTH = 100
VALUE_BYTES = 8
SLACK_BYTES = 512 << 20
_BUFFER_BYTES = 1 << 16
_FILE, _STREAM, _PARQUET = b"ARROW1", b"\xff\xff\xff\xff", b"PAR1"
Place = Callable[[int], str]  # where a row stands, by its number
Read = Callable[[Any], Any]  # of a value that is not null
# batches (pyarrow.RecordBatch) of some columns, each with the share of the file that is read with it
ReadColumns = Callable[[Sequence[str]], Iterator[tuple[Any, float]]]


def _too_much(where: str) -> InputError:
    """The refusal of rows that take more memory than they may."""
    problem = f"rows of more than {limits().memory_bytes} bytes, unpacked"
    fix = f"Write smaller row groups or record batches. {more('memory_bytes')}"
    return InputError(problem, where=where, fix=fix)


def too_long(place: str) -> InputError:
    """The refusal of a row that has more bytes than are read."""
    problem = f"a row of more than {limits().line_bytes} bytes"
    return InputError(problem, where=place, fix=more("line_bytes"))


@contextmanager
def our_errors(where: str) -> Iterator[None]:
    """A pyarrow error as an InputError with its place."""
    import pyarrow as pa

    try:
        yield
    except DiscorankError:
        raise
    except MemoryError as error:
        raise _too_much(where) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        problem = f"cannot be read ({lines[0]:.200})"
        raise InputError(problem, where=where, fix=WRITE_AGAIN) from error


def rows_of(batch: Any, first: int, place: Place) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a batch by their columns, with their numbers; null is None, and left out of structs.

    Args:
        batch: a pyarrow.RecordBatch.
        first: the number of its first row.
        place: says where a row stands.

    Raises:
        InputError: offsets or texts are damaged, a row is too long, or a text that should be JSON is not; with its
            place.
    """
    with our_errors(place(first)):
        _check_whole(batch, first, place)
        # a few rows are converted together, large ones one by one
        is_small = max(batch.nbytes, _json_bytes(batch)) <= limits().line_bytes
    size = max(1, len(batch)) if is_small else 1
    for start in range(0, len(batch), size):
        piece, number = batch.slice(start, size), first + start
        if not is_small and _json_bytes(piece) > limits().line_bytes:
            raise too_long(place(number))
        with our_errors(place(number)):
            columns = list(map(_values, piece.columns, piece.schema))
        for i, row in enumerate(zip(*columns, strict=True)):
            yield number + i, dict(zip(piece.schema.names, row, strict=True))


def _check_whole(batch: Any, first: int, place: Place) -> None:
    """Raises InputError for the first row that is not as Arrow has it."""
    for rows in (batch, *(batch.slice(i, 1) for i in range(len(batch)))):
        try:
            rows.validate(full=True)
        except ValueError as error:
            reason = str(error).splitlines()[0][:200]
            if rows is not batch:
                break
        else:
            if rows is batch:
                return
            first += 1
    raise InputError(f"cannot be read ({reason})", where=place(first), fix=WRITE_AGAIN)


def _json_bytes(batch: Any) -> int:
    """How many bytes a batch has at least as JSON: two for every value, those inside others too."""
    return 2 * sum(map(_num_values, batch.columns))


def _num_values(array: Any) -> int:
    import pyarrow.types as kinds

    inside = array.flatten() if kinds.is_nested(array.type) else []
    return len(array) + sum(map(_num_values, inside if isinstance(inside, list) else [inside]))


def _values(column: Any, field: Any) -> list[Any]:
    """The values of a column as those of JSON."""
    return _read_all(column.to_pylist(), _reader(field))


def _reader(field: Any) -> Read | None:
    """How a value of a field becomes one of JSON, without nulls in objects; None where it is one."""
    import pyarrow.types as kinds

    if field.metadata and MARK.items() <= field.metadata.items():
        return lambda text: parse_json(str(text).encode()) if text else None
    kind = field.type
    if kinds.is_struct(kind):
        own = {kind.field(i).name: _reader(kind.field(i)) for i in range(kind.num_fields)}
        return lambda row: {
            key: value if (read := own[key]) is None else read(value)
            for key, value in row.items()
            if value is not None
        }
    if not any(is_kind(kind) for is_kind in _lists()):
        return None
    inside = _reader(kind.value_field)
    return None if inside is None else lambda items: _read_all(items, inside)


def _read_all(values: list[Any], read: Read | None) -> list[Any]:
    return values if read is None else [one if one is None else read(one) for one in values]


def check_type(type_: Any, where: str, depth: int = 0) -> None:
    """Raises InputError for a type that JSON has no word for; `where` is the column."""
    import pyarrow.types as kinds

    if depth > DEPTH:
        raise InputError(f"nested deeper than {DEPTH} levels", where=where)
    if kinds.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        if len({field.name for field in fields}) < len(fields):
            raise InputError("two fields of one name", where=where)
        for field in fields:
            check_type(field.type, f"{where}.{field.name}"[:200], depth + 1)
    elif any(is_kind(type_) for is_kind in (kinds.is_dictionary, *_lists())):
        check_type(type_.value_type, where, depth + 1)
    elif not any(is_kind(type_) for is_kind in _scalars()):
        problem = f"found the type {type_!s:.60}, expected text, numbers, lists or structs"
        raise InputError(problem, where=where)


def _lists() -> list[Callable[[Any], bool]]:
    import pyarrow.types as kinds

    return [kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list]


def _scalars() -> list[Callable[[Any], bool]]:
    import pyarrow.types as kinds

    texts = [kinds.is_string, kinds.is_large_string, kinds.is_string_view]
    return [*texts, kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_null]


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
    return _open_parquet(name) if is_parquet else _open_arrow(name, head.startswith(_FILE))


def _open_arrow(name: str, is_file: bool) -> tuple[Any, ReadColumns]:
    """An Arrow file (Feather) or stream."""
    import pyarrow as pa

    mapped = pa.memory_map(name)
    reader = pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)
    total = reader.num_record_batches if is_file else mapped.size()
    batches = map(reader.get_batch, range(total)) if is_file else iter(reader)

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        for group in count():
            batch = _next(batches, f"{name}, record batch {group}")
            if batch is None:
                return
            done = group if is_file else mapped.tell()
            rows = batch.select(list(columns))
            for start in range(0, len(rows), ROWS_AT_ONCE):
                yield rows.slice(start, ROWS_AT_ONCE), done / total

    return reader.schema, read


def _next(batches: Iterator[Any], where: str) -> Any:
    """The next batch, None at the end; raises InputError where it takes too much memory."""
    import pyarrow as pa

    allocated = pa.total_allocated_bytes()
    with our_errors(where):
        batch = next(batches, None)
    if pa.total_allocated_bytes() - allocated > limits().memory_bytes:
        raise _too_much(where)
    return batch


def _open_parquet(name: str) -> tuple[Any, ReadColumns]:
    """A Parquet file; each row group is checked by its footer before it is read."""
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(
        name,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        thrift_string_size_limit=limits().file_bytes,
        thrift_container_size_limit=limits().entries,
        page_checksum_verification=True,
    )

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        done_rows = 0
        for group in range(file.metadata.num_row_groups):
            where = f"{name}, row group {group}"
            with our_errors(where):
                num_bytes = _check_columns(file, group, columns, where)
                num_rows = file.metadata.row_group(group).num_rows
                at_once = min(BYTES_AT_ONCE, limits().memory_bytes // 4)
                row_bytes = max(1, num_bytes // max(1, num_rows))
                size = max(1, min(ROWS_AT_ONCE, at_once // row_bytes))
                batches = file.iter_batches(
                    size, row_groups=[group], columns=list(columns), use_threads=False
                )
            end = done_rows + num_rows
            while (batch := _next(batches, where)) is not None:
                names = batch.schema.names
                if sorted(names) != sorted(columns):
                    problem = f"columns whose names are alike ({', '.join(names)!s:.200})"
                    raise InputError(problem, where=where, fix="Give columns names without a dot")
                done_rows += len(batch)
                yield batch, min(1.0, done_rows / file.metadata.num_rows)
            if done_rows != end:
                problem = f"{done_rows - end} rows more than the footer says"
                raise InputError(problem, where=where, fix=WRITE_AGAIN)

    return file.schema_arrow, read


def _check_columns(file: Any, group: int, columns: Sequence[str], where: str) -> int:
    """The unpacked bytes of columns of a row group.

    Raises:
        InputError: they say more of themselves than is read, or are not those of the schema, by whose order pyarrow
            takes them.
    """
    metadata = file.metadata.row_group(group)
    total_bytes = 0
    for i in range(metadata.num_columns):
        column, path = metadata.column(i), file.schema.column(i).path
        place = f"{where}, column {path!r:.80}"
        if column.path_in_schema != path:
            problem = f"a column {column.path_in_schema!r:.80} where {path!r:.80} stands"
            raise InputError(problem, where=where, fix=WRITE_AGAIN)
        if not any(path == name or path.startswith(f"{name}.") for name in columns):
            continue
        if column.file_path:
            raise InputError("stands in another file", where=place, fix="Write all into one file")
        unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
        cost = unpacked + VALUE_BYTES * column.num_values
        if cost > max(limits().memory_bytes, RATIO * packed):
            problem = f"{cost} bytes unpacked of {packed} packed ones"
            fix = f"Write smaller row groups. {more('memory_bytes')}"
            raise InputError(problem, where=place, fix=fix)
        total_bytes += unpacked
    return total_bytes


def table_lines(name: str, names: ColumnNames, kind: RowKind | None) -> Iterator[bytes]:
    """The messages of this process on a table: that it is open, and its rows.

    Raises:
        InputError: it must be refused.
    """
    with our_errors(name):
        schema, read = open_table(name)
        columns = fitted_columns(schema, names, name, kind)
    yield OPENED + b"\n"
    fraction = 0.0

    def plain_rows() -> Iterator[NumberedRow]:
        nonlocal fraction
        number = 1
        for batch, fraction in read(columns.read):  # noqa: B007
            for at, row in rows_of(batch, number, lambda at: f"{name}:{at}"):
                yield at, columns.keyed(row, at)
            number += len(batch)

    rows: Iterable[NumberedRow] = plain_rows()
    if columns.is_flat:
        rows = as_lists(rows, name)
    for number, row in rows:
        line = json.dumps(row, ensure_ascii=False).encode()
        if len(line) > limits().line_bytes:
            raise too_long(f"{name}:{number}")
        yield b"%b%d %f %b\n" % (ROW, number, fraction, line)
    yield END + b"\n"


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
        except InputError as error:
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
    bound = used + os.path.getsize(name) + 2 * limits().memory_bytes + SLACK_BYTES
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
