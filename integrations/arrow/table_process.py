"""The program that reads a Parquet or Arrow file for `ArrowSource`, in a process of its own.

pyarrow can be made to end its process, to take memory without end, or to read what is not there, by a file made for
that. So no other process touches one: this one has a bound on its memory, and what it says are lines of JSON.

    column of a row group of Parquet, by its footer
                     unpacked bytes + 8 for every value <= max(memory_bytes, 400 * packed bytes)
    batch of rows    at most memory_bytes, unpacked
    row              at most line_bytes as JSON, of which every value takes two
    the process      2 * memory_bytes + 512 MiB over what it has at its start and what is mapped of the file

8 bytes are what a value costs at least when it is unpacked: two levels of nesting and a place in a dictionary. Where
memory cannot be bounded (Windows), the other bounds hold, and a file that ends this process ends no other. Extension
types are read as what they are stored as: nothing they name is loaded.
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
from typing import Any, NamedTuple

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
Convert = Callable[[Any], Any]  # of a value that is not null


class UnreadableTypeError(InputError):
    """A column has a type that JSON has no word for."""


class MemoryBoundError(InputError):
    """Rows take more memory than they may."""

    def __init__(self, where: str) -> None:
        problem = f"rows of more than {limits().memory_bytes} bytes, unpacked"
        fix = f"Write smaller row groups or record batches. {more('memory_bytes')}"
        super().__init__(problem, where=where, fix=fix)


@contextmanager
def our_errors(where: str) -> Iterator[None]:
    """A pyarrow error as an InputError with its place."""
    import pyarrow as pa

    try:
        yield
    except DiscorankError:
        raise
    except MemoryError as error:
        raise MemoryBoundError(where) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"cannot be read ({lines[0]:.200})", where=where, fix=WRITE_AGAIN
        ) from error


def rows_of(batch: Any, first: int, place: Place) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a batch by their columns, with their numbers; null is None, and left out of structs.

    Args:
        batch: a pyarrow.RecordBatch.
        first: the number of its first row.
        place: says where a row stands.

    Raises:
        InputError: offsets or texts are none, a row is too long, a text that should be JSON is none, or a key of a map
            stands twice; with its place.
    """
    with our_errors(place(first)):
        _check_whole(batch, first, place)
        converters = list(map(_converter, batch.schema))
        # a few rows are converted together, large ones one by one
        is_small = max(batch.nbytes, 2 * _num_values(batch)) <= limits().line_bytes
    size = max(1, len(batch)) if is_small else 1
    for start in range(0, len(batch), size):
        piece, number = batch.slice(start, size), first + start
        if not is_small and 2 * _num_values(piece) > limits().line_bytes:
            raise too_long(place(number))
        columns = []
        with our_errors(place(number)):
            for column, convert in zip(piece.columns, converters, strict=True):
                columns.append(_converted(_stored(column).to_pylist(), convert))
        for i, row in enumerate(zip(*columns, strict=True)):
            yield number + i, dict(zip(piece.schema.names, row, strict=True))


def too_long(place: str) -> InputError:
    """The refusal of a row that has more bytes than are read."""
    problem = f"a row of more than {limits().line_bytes} bytes"
    return InputError(problem, where=place, fix=more("line_bytes"))


def _num_values(data: Any) -> int:
    """The number of values in a batch or an array, those inside others too."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if isinstance(data, pa.RecordBatch):
        return sum(map(_num_values, data.columns))
    array = _stored(data)
    inside: list[Any] = []
    if kinds.is_struct(array.type):
        inside = [array.field(i) for i in range(array.type.num_fields)]
    elif kinds.is_map(array.type) and len(array):
        start, stop = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        inside = [child.slice(start, stop - start) for child in (array.keys, array.items)]
    elif _is_list(array.type):
        inside = [array.flatten()]
    return len(array) + sum(map(_num_values, inside))


def _stored(array: Any) -> Any:
    """An array of an extension type as what it is stored as."""
    import pyarrow as pa

    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _converter(field: Any) -> Convert | None:
    """How values of a field become those of JSON; None where they are."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if field.metadata and MARK.items() <= field.metadata.items():
        return lambda text: parse_json(text.encode()) if text else None
    kind = storage_type(field.type)
    if kinds.is_dictionary(kind):
        return _converter(pa.field("", kind.value_type))
    if kinds.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        by_name = {one.name: _converter(one) for one in fields}
        return lambda row: _object(row.items(), by_name.get)
    if kinds.is_map(kind):
        of_items = _converter(kind.item_field)
        return lambda pairs: _object(pairs, lambda key: of_items)
    inside = _converter(kind.value_field) if _is_list(kind) else None
    return None if inside is None else lambda items: _converted(items, inside)


def _converted(values: list[Any], convert: Convert | None) -> list[Any]:
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _object(
    pairs: Iterable[tuple[str, Any]], converter_of: Callable[[str], Convert | None]
) -> dict[str, Any]:
    """An object of keys and values, but for those that are null; raises InputError for a key that stands twice."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise InputError("a key of a map stands twice", fix="Keep one of them")
        convert = converter_of(key)
        made[key] = value if value is None or convert is None else convert(value)
    return {key: value for key, value in made.items() if value is not None}


def _check_whole(batch: Any, first: int, place: Place) -> None:
    """Raises InputError for the first row that is not as Arrow has it."""
    try:
        batch.validate(full=True)
        return
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
    number = first
    if "utf8" in reason.lower():
        for number in range(first, first + len(batch)):
            try:
                batch.slice(number - first, 1).validate(full=True)
            except ValueError:
                break
        problem, fix = f"text that is not UTF-8 ({reason})", "Save it as UTF-8"
        raise InputError(problem, where=place(number), fix=fix)
    raise InputError(f"cannot be read ({reason})", where=place(first), fix=WRITE_AGAIN)


def check_type(type_: Any, where: str, depth: int = 0) -> None:
    """Raises UnreadableTypeError for a type that is not read; `where` is the column."""
    import pyarrow.types as kinds

    if depth > DEPTH:
        raise UnreadableTypeError(f"nested deeper than {DEPTH} levels", where=where)
    stored = storage_type(type_)
    if kinds.is_struct(stored):
        fields = [stored.field(i) for i in range(stored.num_fields)]
        if len({field.name for field in fields}) < len(fields):
            raise UnreadableTypeError("two fields of one name", where=where)
        for field in fields:
            check_type(field.type, f"{where}.{field.name}"[:200], depth + 1)
    elif kinds.is_map(stored) and not _is_text(storage_type(stored.key_type)):
        raise UnreadableTypeError(f"found keys of the type {stored.key_type}", where=where)
    elif kinds.is_dictionary(stored) or kinds.is_map(stored) or _is_list(stored):
        check_type(
            stored.item_type if kinds.is_map(stored) else stored.value_type, where, depth + 1
        )
    elif not (_is_text(stored) or _is_number(stored) or kinds.is_null(stored)):
        problem = f"found the type {stored!s:.60}, expected text, numbers, lists or structs"
        raise UnreadableTypeError(problem, where=where)


def storage_type(type_: Any) -> Any:
    """The storage type of an extension type; any other type is itself."""
    import pyarrow as pa

    while isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return type_


def _is_text(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(
        kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_)
    )


def _is_number(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_boolean(type_))


def _is_list(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(
        kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_)
    )


class Batch(NamedTuple):
    """Some rows.

    Args:
        rows: a pyarrow.RecordBatch.
        fraction: the share of the file that is read with them.
    """

    rows: Any
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
    total = reader.num_record_batches if is_file else mapped.size()
    batches = map(reader.get_batch, range(total)) if is_file else iter(reader)

    def read(columns: Sequence[str]) -> Iterator[Batch]:
        for group in count():
            batch = _next(batches, f"{name}, record batch {group}")
            if batch is None:
                return
            done = group if is_file else mapped.tell()
            rows = batch.select(list(columns))
            for start in range(0, len(rows), ROWS_AT_ONCE):
                yield Batch(rows.slice(start, ROWS_AT_ONCE), done / total)

    return reader.schema, read


def _next(batches: Iterator[Any], where: str) -> Any:
    """The next batch, None at the end; raises InputError where it takes too much memory."""
    import pyarrow as pa

    allocated = pa.total_allocated_bytes()
    with our_errors(where):
        batch = next(batches, None)
    if pa.total_allocated_bytes() - allocated > limits().memory_bytes:
        raise MemoryBoundError(where)
    return batch


class _Parquet:
    """A Parquet file.

    Args:
        name: its path.
    """

    def __init__(self, name: str) -> None:
        import pyarrow.parquet as parquet

        self._name = name
        self.file = parquet.ParquetFile(
            name,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            thrift_string_size_limit=limits().file_bytes,
            thrift_container_size_limit=limits().entries,
            page_checksum_verification=True,
        )

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in order, of these columns."""
        done_rows = 0
        for group in range(self.file.metadata.num_row_groups):
            where = f"{self._name}, row group {group}"
            with our_errors(where):
                metadata = self.file.metadata.row_group(group)
                num_bytes = self._check_columns(metadata, columns, where)
                at_once = min(BYTES_AT_ONCE, limits().memory_bytes // 4)
                row_bytes = max(1, num_bytes // max(1, metadata.num_rows))
                size = max(1, min(ROWS_AT_ONCE, at_once // row_bytes))
                batches = self.file.iter_batches(
                    size, row_groups=[group], columns=list(columns), use_threads=False
                )
            end = done_rows + metadata.num_rows
            while (batch := _next(batches, where)) is not None:
                names = batch.schema.names
                if sorted(names) != sorted(columns):
                    problem = f"columns whose names are alike ({', '.join(names)!s:.200})"
                    raise InputError(problem, where=where, fix="Give columns names without a dot")
                done_rows += len(batch)
                yield Batch(batch, min(1.0, done_rows / self.file.metadata.num_rows))
            if done_rows != end:
                problem = f"{done_rows - end} rows more than the footer says"
                raise InputError(problem, where=where, fix=WRITE_AGAIN)

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
            if cost > max(limits().memory_bytes, RATIO * packed):
                problem = f"{cost} bytes unpacked of {packed} packed ones"
                fix = f"Write smaller row groups. {more('memory_bytes')}"
                raise InputError(problem, where=f"{where}, column {path!r:.80}", fix=fix)
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
        for batch in read(columns.read):
            fraction = batch.fraction
            for at, row in rows_of(batch.rows, number, lambda at: f"{name}:{at}"):
                yield at, columns.keyed(row, at)
            number += len(batch.rows)

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
