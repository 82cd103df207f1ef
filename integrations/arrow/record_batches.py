"""Record batches of Parquet and Arrow files, one after another in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from ...metrics.errors import DiscorankError, InputError
from ...metrics.optional_packages import require
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.limits import limits, more
from . import ipc_checks, parquet_checks

ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 4 << 20  # as the footer has them; how much is read at a time, no bound
_BUFFER_BYTES = 1 << 16
_FIX = "Is it whole? Copy it or write it again"


class Batch(NamedTuple):
    """Some rows.

    Args:
        rows: a pyarrow.RecordBatch.
        group: the number of their row group or record batch, from 0.
    """

    rows: Any
    group: int


class TableFile(Protocol):
    """An open file of rows and columns."""

    schema: Any  # a pyarrow.Schema

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in order, of these columns."""

    def fraction(self) -> float | None:
        """The share of the file read so far."""

    def close(self) -> None:
        """Closes the file."""


def open_table(path: str | Path) -> TableFile:
    """A Parquet or Arrow file by its ending.

    Raises:
        InputError: it cannot be opened, is not what its ending says, or says of itself more than is read.
        ModelLoadError: pyarrow is not installed.
    """
    require(str(path), "pyarrow")
    check_regular(path, "Give a file that is there, no pipe, as its end is read first")
    return ParquetFile(path) if Path(path).suffix.lower() == ".parquet" else IpcFile(path)


class ParquetFile:
    """A Parquet file.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        import pyarrow.parquet as parquet

        self.name = str(path)
        self._file = _WatchedFile(path)
        try:
            self._chunks = parquet_checks.check_footer(self._file.raw, self.name)
            with our_errors(self.name):
                self._parquet = parquet.ParquetFile(
                    self._file,
                    buffer_size=_BUFFER_BYTES,
                    pre_buffer=False,
                    thrift_string_size_limit=limits().json_bytes,
                    thrift_container_size_limit=limits().members,
                )
                self.schema = self._parquet.schema_arrow
        except BaseException:
            self._file.close()
            raise
        self._done_rows = 0

    def fraction(self) -> float | None:
        """The share of the rows read so far."""
        total = self._parquet.metadata.num_rows
        return min(1.0, self._done_rows / total) if total > 0 else 1.0

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in order, of these columns."""
        for group in range(self._parquet.metadata.num_row_groups):
            yield from self._of_group(group, columns)

    def _of_group(self, group: int, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows of a row group, after its pages were checked."""
        metadata = self._parquet.metadata.row_group(group)
        where = f"{self.name}, row group {group}"
        rows = self._reader(group, columns, where)
        num_rows = 0
        while True:
            self._file.note_start(where)
            with our_errors(where):
                batch = next(rows, None)
            if batch is None:
                break
            _check_names(batch.schema.names, columns, where)
            num_rows += len(batch)
            self._done_rows += len(batch)
            yield Batch(batch, group)
        if num_rows != metadata.num_rows:
            problem = f"{num_rows} rows, the footer says {metadata.num_rows}"
            raise InputError(problem, where=where, fix=_FIX)

    def _reader(self, group: int, columns: Sequence[str], where: str) -> Iterator[Any]:
        """What reads a row group in batches."""
        import pyarrow.parquet as parquet

        metadata = self._parquet.metadata.row_group(group)
        chosen = [column for column in self._chunks[group] if _is_of(column.path, columns)]
        # texts of a dictionary stay there until it is known how long a row is
        in_dictionary = parquet_checks.check_pages(self._file.raw, where, chosen)
        total_bytes = sum(column.unpacked_bytes for column in chosen)
        row_bytes = max(1.0, total_bytes / max(1, metadata.num_rows))
        with our_errors(where):
            reader = parquet.ParquetFile(
                self._file,
                read_dictionary=in_dictionary,
                metadata=self._parquet.metadata,
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
            )
            batches: Iterator[Any] = reader.iter_batches(
                batch_size=max(1, min(ROWS_AT_ONCE, int(BYTES_AT_ONCE / row_bytes))),
                row_groups=[group],
                columns=list(columns),
                use_threads=False,
            )
        return batches

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class IpcFile:
    """An Arrow file (Feather) or stream.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        import pyarrow as pa

        self.name = str(path)
        self._file = open(path, "rb")  # noqa: SIM115  closed by close()
        self._size_bytes = os.fstat(self._file.fileno()).st_size
        self._done_bytes = 0
        try:
            self._check_start()
            # a schema that is no schema is refused by the first message
            self._checked = ipc_checks.check_messages(self._file, self.name)
            self._first = next(self._checked, None)
            with our_errors(self.name):
                # what is mapped counts as memory until the system takes it back
                is_packed = self._first is not None and self._first.is_packed
                opened = pa.OSFile(self.name) if is_packed else pa.memory_map(self.name)
                if self._starts_as_file:
                    opened.seek(ipc_checks.STREAM_START)
                self._stream = pa.ipc.open_stream(opened)
                self.schema = self._stream.schema
        except BaseException:
            self._file.close()
            raise

    def _check_start(self) -> None:
        """Raises InputError for a file that is neither an Arrow file nor a stream."""
        head = os.pread(self._file.fileno(), 8, 0)
        self._starts_as_file = head.startswith(ipc_checks.FILE_MAGIC)
        if not self._starts_as_file and head[:4] != b"\xff\xff\xff\xff":
            shown = head[:6].decode("ascii", "replace")
            problem = f"found {shown!r} at its start, expected an Arrow file or stream"
            raise InputError(problem, where=self.name, fix="Give the file the ending of what it is")

    def fraction(self) -> float | None:
        """The share of the file read so far."""
        return min(1.0, self._done_bytes / self._size_bytes) if self._size_bytes else 1.0

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in order, of these columns."""
        checked, group = self._first, 0
        while checked is not None:
            where = f"{self.name}, record batch {group}"
            with our_errors(where):
                batch = self._stream.read_next_batch().select(list(columns))
            for start in range(0, len(batch), ROWS_AT_ONCE):
                yield Batch(batch.slice(start, ROWS_AT_ONCE), group)
            self._done_bytes, group = checked.end, group + 1
            checked = next(self._checked, None)

    def close(self) -> None:
        """Closes the file; what was mapped stays until nothing reads it."""
        self._file.close()


class _WatchedFile:
    """A file that pyarrow reads, which stops it where it has unpacked too much since it began with a batch.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.raw: BinaryIO = open(path, "rb")  # noqa: SIM115  closed by close()
        self.note_start(str(path))

    def note_start(self, where: str) -> None:
        """A batch begins."""
        import pyarrow as pa

        self._where, self._bytes_at_start = where, pa.total_allocated_bytes()

    def read(self, size: int = -1) -> bytes:
        """The next bytes; raises InputError where too much was unpacked."""
        import pyarrow as pa

        used = pa.total_allocated_bytes() - self._bytes_at_start
        bound = limits().batch_bytes
        if used > bound:
            problem = f"rows of more than {bound} bytes, unpacked"
            raise InputError(problem, where=self._where, fix=more("batch_bytes"))
        return self.raw.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place."""
        return self.raw.seek(offset, whence)

    def tell(self) -> int:
        """The place."""
        return self.raw.tell()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self.raw.closed

    def readable(self) -> bool:
        """It is read."""
        return True

    def seekable(self) -> bool:
        """It has places."""
        return True

    def writable(self) -> bool:
        """It is not written."""
        return False

    def close(self) -> None:
        """Closes it."""
        with suppress(OSError):
            self.raw.close()


@contextmanager
def our_errors(where: str) -> Iterator[None]:
    """What pyarrow raises as an error of ours, with the place."""
    import pyarrow as pa

    try:
        yield
    except DiscorankError:
        raise
    except MemoryError as error:
        problem = "asks for more memory than there is"
        raise InputError(problem, where=where, fix=_FIX) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"cannot be read ({lines[0]:.200})", where=where, fix=_FIX) from error


def _is_of(path: str, columns: Sequence[str]) -> bool:
    """Whether a leaf belongs to one of the columns."""
    return any(path == column or path.startswith(f"{column}.") for column in columns)


def _check_names(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raises InputError where names with a dot made pyarrow read other columns."""
    if sorted(names) != sorted(columns):
        problem = f"columns whose names are alike ({', '.join(names)!s:.200})"
        raise InputError(problem, where=where, fix="Give columns names without a dot")
