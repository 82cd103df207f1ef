"""A Parquet or Arrow file as lines of JSON, one for every row, so that what reads JSON lines reads it.

The rows are read by another process, `table_process`, so that no file can end this one or take its memory.
The number of a line is that of its row, from 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from signal import Signals
from typing import IO, Any
from weakref import finalize

from ...metrics.errors import InputError
from ...metrics.optional_packages import require
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import Line
from .columns import ColumnNames, RowKind

PROGRAM = f"{__package__}.table_process"
# the beginnings of lines of the process
OPENED, ROW, ERROR, FAILURE, END = b"o", b"r", b"e", b"x", b"z"
_HEAD_BYTES = 1 << 16  # of a line, beside the row in it


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
        self._fraction = 0.0
        self._process = _started(self.name, columns, kind)
        self._end = finalize(self, _ended, self._process)
        try:
            self._message()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once."""
        try:
            while (message := self._message())[:1] == ROW:
                number, fraction, line = message[1:-1].split(b" ", 2)
                self._fraction = float(fraction)
                yield int(number), line
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
        where = f"{self.name}:{line}" if line else self.name
        return InputError(problem, where=where, fix=fix)

    def _message(self) -> bytes:
        """The next line of the process.

        Raises:
            InputError: the file must be refused, or has ended the process.
        """
        output: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        message = output.readline(limits().line_bytes + _HEAD_BYTES)
        if message[:1] == ERROR:
            problem, where, fix = json.loads(message[1:])
            raise InputError(problem, where=where, fix=fix)
        if message[:1] == FAILURE:
            raise RuntimeError(json.loads(message[1:]))
        if not message.endswith(b"\n"):
            code = self._process.wait()
            if code in (0, 1):  # an error of ours
                raise RuntimeError(f"the process that reads {self.name} ended with {code}")
            names = {-signal: signal.name for signal in Signals}
            problem = f"it ended the process that reads it ({names.get(code, -code)})"
            raise self.refusal(
                0, problem, "Is it whole, and not encrypted? Copy it or write it again"
            )
        return message


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
