"""A command's stdin, stdout and stderr, and the signals that ask it to stop.

Streams work also where the shell has closed them or nobody reads what is said. SIGINT, SIGTERM and SIGHUP are one
exception, once, wherever they come. The first is recorded and raised as a KeyboardInterrupt, which passes every
`except Exception`; should a library turn it into something else, or lose it, the record tells. Those that come while
the command ends change nothing, unless it takes long. A signal that was ignored at the start, as nohup has it, stays
ignored.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import BufferedIOBase, TextIOWrapper
from threading import current_thread
from time import monotonic
from types import FrameType
from typing import Any, TextIO

from ...metrics.storage.stop_signals import heeded, put_back
from ...printable import printable

# for what is closed: a file that refuses to be read, one that refuses to be written, one that takes all
_STANDINS = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))

PATIENCE_SECONDS = 10.0  # in which a further signal does not disturb the ending
AGAIN_SECONDS = 0.05  # until a signal is sent again whose exception was lost


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


class _Sink(BufferedIOBase):
    """The bytes of a stream, which a function writes.

    Args:
        stream: the terminal, or a stream that takes text alone.
        take: writes bytes to it.
    """

    def __init__(self, stream: Any, take: Callable[[bytes], object]) -> None:
        self._stream, self._take = stream, take

    def writable(self) -> bool:
        """Bytes can be written."""
        return True

    def write(self, data: Any) -> int:
        """Writes bytes of UTF-8."""
        self._take(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Flushes the stream."""
        self._stream.flush()

    def fileno(self) -> int:
        """The descriptor of the stream; raises OSError if it has none."""
        return int(self._stream.fileno())

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return bool(self._stream.isatty())


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
        for text, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if hasattr(text, "buffer"):
                continue
            raw: Any = _Sink(text, partial(_write_text, text))
            stream = TextIOWrapper(raw, "utf-8", "backslashreplace", newline="", write_through=True)
            stack.callback(stream.detach)  # or its end would close the sink
            stack.enter_context(redirect(stream))
        yield


def _write_text(stream: TextIO, data: bytes) -> None:
    stream.write(data.decode("utf-8", "backslashreplace"))


def _write_shown(terminal: Any, data: bytes) -> None:
    """Writes to a terminal, so that no text in rows or tables moves its cursor or ends a title."""
    shown = printable(data.decode("utf-8", "surrogateescape"), keep="\n\t")
    terminal.write(shown.encode("utf-8", "surrogateescape"))


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
        terminal = sys.stdout.detach()
        shown: Any = _Sink(terminal, partial(_write_shown, terminal))
        sys.stdout = TextIOWrapper(shown, "utf-8", "backslashreplace", line_buffering=True)


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


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP; what saves and cleans up at Ctrl-C does so here."""


class Stop:
    """The signal that a command was stopped by, if it was.

    Attributes:
        number: that of the first signal; None if there was none.
        ended: whether nothing more is to be disturbed.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.raised_at = 0.0
        self.ended = False

    def exit_code(self, error: KeyboardInterrupt) -> int:
        """128 and the number of the signal, as in shells: 130, 143, 129."""
        raised_by = signal.SIGTERM if isinstance(error, TerminatedError) else signal.SIGINT
        return 128 + (self.number or raised_by)

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal.

        Raises:
            KeyboardInterrupt: it is the first, or the command has been ending for long.
        """
        is_first = self.number is None
        if self.ended or not (is_first or monotonic() - self.raised_at > PATIENCE_SECONDS):
            return
        self.number = self.number or number
        self.raised_at = monotonic()
        raise KeyboardInterrupt if self.number == signal.SIGINT else TerminatedError

    def lost(self, unraisable: Any) -> None:
        """Takes note of an exception that nobody could catch, such as one in a destructor; a stop is sent again."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt) or self.number is None:
            sys.__unraisablehook__(unraisable)
            return
        number, self.number = self.number, None
        timer = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()


@contextmanager
def stoppable(is_program: bool) -> Iterator[Stop]:
    """Handles the signals within the block; behind it those of a program that ends are ignored.

    Args:
        is_program: whether nothing follows but the end of the process; otherwise the handlers before are put back.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread can have handlers
        return
    handlers = {number: signal.getsignal(number) for number in heeded()}
    hook, sys.unraisablehook = sys.unraisablehook, stop.lost
    for number in handlers:
        signal.signal(number, stop.take)
    try:
        yield stop
    finally:
        stop.ended = True
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            put_back(number, signal.SIG_IGN if is_program else handler)
