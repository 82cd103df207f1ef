"""stdin, stdout and stderr of a command, also where the shell has closed them or nobody reads what is said."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from io import BufferedIOBase, TextIOWrapper
from threading import current_thread
from typing import Any, TextIO

from ...printable import printable

# for what is closed: a file that refuses to be read, one that refuses to be written, one that takes all
_STANDINS = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))


class _Said(TextIOWrapper):
    """stderr whose reader may be gone: a message that cannot be shown ends no run."""

    def write(self, text: str) -> int:
        """Writes what can be written."""
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes what can be flushed."""
        with suppress(OSError):
            super().flush()


class _Terminal(BufferedIOBase):
    """The bytes of a stdout that is a terminal: no text in rows or tables moves its cursor or ends a title."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Writes text in UTF-8, control characters as their escapes."""
        shown = printable(bytes(data).decode("utf-8", "surrogateescape"), keep="\n\t")
        self._raw.write(shown.encode("utf-8", "surrogateescape"))
        return len(data)

    def flush(self) -> None:
        """Flushes the terminal."""
        self._raw.flush()

    def fileno(self) -> int:
        """The number of the terminal."""
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        """It is one."""
        return True


class _BytesOfText(BufferedIOBase):
    """The bytes of a stream that takes text alone."""

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Writes text in UTF-8."""
        self._text.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)

    def flush(self) -> None:
        """Flushes the text."""
        self._text.flush()

    def isatty(self) -> bool:
        """Whether the text is shown on a terminal."""
        return self._text.isatty()


class _WithoutThreads:
    """A stdout on which some threads of libraries write nothing: they write on stderr."""

    def __init__(self, stdout: Any, threads: str) -> None:
        self._stdout = stdout
        self._threads = threads

    def write(self, text: str) -> int:
        """Writes text where the thread's text belongs."""
        is_theirs = current_thread().name.startswith(self._threads)
        return int((sys.stderr if is_theirs else self._stdout).write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


@contextmanager
def stdout_without(threads: str) -> Iterator[None]:
    """Sends what threads whose names begin so print to stderr, away from the rows of a command."""
    replacement: Any = _WithoutThreads(sys.stdout, threads)
    with redirect_stdout(replacement):
        yield


@contextmanager
def streams_with_bytes() -> Iterator[None]:
    """Rows can be written as bytes inside, also where stdout or stderr takes text alone, as io.StringIO does."""
    with ExitStack() as stack:
        if not hasattr(sys.stdout, "buffer"):
            stack.enter_context(redirect_stdout(stack.enter_context(_with_bytes(sys.stdout))))
        if not hasattr(sys.stderr, "buffer"):
            stack.enter_context(redirect_stderr(stack.enter_context(_with_bytes(sys.stderr))))
        yield


@contextmanager
def _with_bytes(text: TextIO) -> Iterator[TextIOWrapper]:
    """A stream of text as one of bytes, whose end does not close it."""
    raw: Any = _BytesOfText(text)
    stream = TextIOWrapper(raw, "utf-8", "backslashreplace", newline="", write_through=True)
    try:
        yield stream
    finally:
        stream.detach()


def show_warning(message: Warning | str, *place: object, **more: object) -> None:
    """A warning in a line of its own on stderr, as messages are, in place of Python's with the place in the code."""
    print(printable(f"discorank: warning: {message}"), file=sys.stderr)


def repair() -> None:
    """Puts stand-ins for streams that are closed, so that no file of the run takes their place.

    Reading a closed stdin, or writing to a closed stdout, is then an OSError; what is said to a closed stderr is lost.
    """
    for number, flags in _STANDINS:
        _open_standin(number, flags)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if type(sys.stderr) is TextIOWrapper:
        encoding, errors = sys.stderr.encoding, "backslashreplace"
        sys.stderr = _Said(sys.stderr.detach(), encoding, errors, line_buffering=True)
    if isinstance(sys.stdout, TextIOWrapper):  # a table on a terminal that has not all letters
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.isatty():
        terminal: Any = _Terminal(sys.stdout.detach())
        sys.stdout = TextIOWrapper(terminal, "utf-8", "backslashreplace", line_buffering=True)


def _open_standin(number: int, flags: int) -> None:
    """Has a file descriptor that is closed stand for no device."""
    try:
        os.fstat(number)
    except OSError:
        standin = os.open(os.devnull, flags)
        if standin != number:
            os.dup2(standin, number)
            os.close(standin)


def silence_stdout() -> None:
    """Throws away what is buffered for a stdout that takes nothing."""
    with suppress(OSError, ValueError):
        standin = os.open(os.devnull, os.O_WRONLY)
        os.dup2(standin, sys.stdout.fileno())
        os.close(standin)
