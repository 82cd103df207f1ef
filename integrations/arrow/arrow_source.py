"""A Parquet or Arrow file as lines of JSON, one for every row, so that what reads JSON lines reads it.

The rows are read by another process, `table_process`, so that no file can end this one or take its memory.
The number of a line is that of its row, from 1. Errors name the row group and the row in it as well, by `place`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from signal import Signals
from typing import IO, Any, NoReturn, TypeVar
from weakref import finalize

from ...metrics.errors import InputError
from ...metrics.optional_packages import require
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import Line
from ...rerank.runs.resumable import Entry
from ..files.entries import placed
from .columns import ColumnNames, RowKind

T = TypeVar("T")
PROGRAM = f"{__package__}.table_process"
# what a line of the process begins with, and what follows
OPENED, ROW, GROUP, ERROR, FAILURE, END = b"o", b"r", b"g", b"e", b"x", b"z"
_HEAD_BYTES = 1 << 16  # of a line, beside the row in it


class RowPlaces:
    """Where the rows of a table stand, by their numbers.

    Args:
        name: of the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._starts: list[int] = []  # the number of the first row of each group that has one
        self._groups: list[int] = []

    def note(self, group: int, number: int) -> None:
        """The row of this number is of this group."""
        if self._groups[-1:] != [group]:
            self._starts.append(number)
            self._groups.append(group)

    def place(self, number: int) -> str:
        """Where a row stands: the file, its number, the row group and the row there, from 0."""
        i = bisect_right(self._starts, number) - 1
        if i < 0:
            return f"{self._name}:{number}"
        row = number - self._starts[i]
        return f"{self._name}:{number}: row group {self._groups[i]}, row {row}"


class ArrowSource:
    """The rows of a file as lines of JSON; a single pass.

    Args:
        path: the file.
        columns: which columns are which keys, as `ColumnNames` has them.
        kind: what rows are, where they must have certain columns.

    Raises:
        InputError: it cannot be opened, or has other columns. Iterating raises it where the file must be refused whole.
        ModelLoadError: pyarrow is not installed.
    """

    def __init__(
        self, path: str | Path, columns: Sequence[str] = (), kind: RowKind | None = None
    ) -> None:
        self.name = str(path)
        require(self.name, "pyarrow")
        check_regular(path, "Give a file that is there, no pipe, as its end is read first")
        ColumnNames.read(columns)
        self._places = RowPlaces(self.name)
        self._fraction = 0.0
        self._process = _started(self.name, columns, kind)
        self._end = finalize(self, _ended, self._process)
        self._answer(OPENED)

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once."""
        try:
            while (said := self._said())[:1] != END:
                if said[:1] == ROW:
                    number, _, line = said[1:-1].partition(b" ")
                    yield int(number), line
                elif said[:1] == GROUP:
                    group, start, fraction = said[1:].split()
                    self._places.note(int(group), int(start))
                    self._fraction = float(fraction)
            self._fraction = 1.0
        finally:
            self.close()

    def fraction(self) -> float | None:
        """The share of the file read so far."""
        return self._fraction

    def close(self) -> None:
        """Ends the process; also done at the end of the file."""
        self._end()

    @property
    def is_closed(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""
        where = self.place(line) if line else self.name
        return InputError(problem, where=where, fix=fix)

    def place(self, number: int) -> str:
        """Where a row that was read stands, as `RowPlaces` has it."""
        return self._places.place(number)

    def placed(self, entries: Iterable[Entry[T]]) -> Iterator[Entry[T]]:
        """The entries that a reader made of the lines, errors with row group and row."""
        for entry in entries:
            error = entry.error
            if error is None:
                yield entry
                continue
            rest = error.where.removeprefix(f"{self.name}:{entry.line}").removeprefix(": ")
            plain = InputError(error.problem, where=rest, fix=error.fix)
            moved = placed(plain, self.place(entry.line))
            yield Entry(None, moved, entry.line, entry.raw, entry.id)

    def _answer(self, expected: bytes) -> None:
        """Takes the first line; ends the process where it is an error."""
        try:
            if self._said()[:1] != expected:
                self._refuse_end()
        except BaseException:
            self.close()
            raise

    def _said(self) -> bytes:
        """The next line of the process.

        Raises:
            InputError: the file must be refused, or has ended the process.
        """
        output: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        said = output.readline(limits().line_bytes + _HEAD_BYTES)
        if said[:1] == ERROR:
            problem, where, fix = json.loads(said[1:])
            raise InputError(problem, where=where, fix=fix)
        if said[:1] == FAILURE:
            raise RuntimeError(json.loads(said[1:]))
        if not said.endswith(b"\n"):
            self._refuse_end()
        return said

    def _refuse_end(self) -> NoReturn:
        """Raises InputError for a file that has ended the process that reads it."""
        code = self._process.wait()
        if code in (0, 1):  # an error of ours
            raise RuntimeError(f"the process that reads {self.name} ended with {code}")
        names = {-signal: signal.name for signal in Signals}
        problem = f"it ended the process that reads it ({names.get(code, -code)})"
        fix = "Is it whole, and not encrypted? Copy it or write it again"
        raise InputError(problem, where=self.name, fix=fix)


def _started(name: str, columns: Sequence[str], kind: RowKind | None) -> subprocess.Popen[bytes]:
    """The process, which has been told what to read.

    It stands in a session of its own: a Ctrl-C of the terminal reaches this process alone, which ends it.
    """
    folders = [folder or os.getcwd() for folder in sys.path]
    own = {
        "PYTHONPATH": os.pathsep.join(folders),
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve more than they use
        "MALLOC_ARENA_MAX": "1",
        "ARROW_IO_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    process = subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, "-P", "-m", PROGRAM],
        env={**os.environ, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked: dict[str, Any] = {"name": os.fsencode(name).hex(), "columns": list(columns)}
    asked |= {"kind": kind, "limits": asdict(limits())}
    with suppress(OSError), process.stdin as stdin:  # type: ignore[union-attr]
        stdin.write(json.dumps(asked).encode())
    return process


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, if it has not ended."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
