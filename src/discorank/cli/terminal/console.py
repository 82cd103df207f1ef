"""Output of a command while it works: progress and messages on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from time import time
from typing import Protocol, Self

from ...printable import printable

DELAY_SECONDS = 0.5  # before anything is shown
TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0  # between two states that are shown
CLEAR_LINE = "\r\x1b[K"
_is_quiet = False  # of the command that runs
_has_open_line = False  # whether the last line on the terminal is progress, which is written over


class Watched(Protocol):
    """The work while progress is shown."""

    read: int  # how many of the units counted are read, which may be ahead of those done

    @property
    def seconds(self) -> float:
        """How long it has been at work, without what it took to start."""

    def note(self) -> str:
        """Figures for the line of progress; asked for only when it is shown."""


class Progress:
    """Progress with rate and time left: one line that changes on a terminal, a line every ten seconds elsewhere.

    The total is estimated from the share of the input that is read. Rate and time left are averages of what was done
    after loading, and are not shown before the units that were in work together at first are done.

    Args:
        unit: what is counted.
        fraction: the share of the input consumed so far, None where it is not known.
        watched: what works, where it has notes to show.
    """

    def __init__(
        self,
        unit: str,
        fraction: Callable[[], float | None],
        watched: Watched | None = None,
    ) -> None:
        self.unit, self.fraction, self.watched = unit, fraction, watched
        self.is_terminal = sys.stderr.isatty()
        self.seconds = TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS
        self.created_at = self.begun = self.shown_at = time()
        self.first: int | None = None  # so many were done at the first call
        self.first_wave = 0  # so many units were read when the first was done
        self.done = self.errors = 0

    def __call__(self, done: int, errors: int = 0) -> None:
        """Shows that `done` are done, of which some are errors."""
        if self.first is None:
            self._start(done)
        self.done, self.errors = done, errors
        self.refresh()

    def _start(self, done: int) -> None:
        """Starts the clock: what an earlier run did is not this run's speed."""
        self.first = self.first_wave = done
        self.begun = time()
        if self.watched:
            self.first -= 1  # this one was done since the clock began
            self.first_wave = max(done, self.watched.read)
            self.begun -= self.watched.seconds

    def refresh(self) -> None:
        """Shows the state, if there is something to show and the last one is old enough."""
        now = time()
        is_late = now - self.created_at >= DELAY_SECONDS and now - self.shown_at >= self.seconds
        if is_late and not is_quiet():
            self._show(self.total())

    def total(self) -> int | None:
        """How many there are, by the share of the input that is read; None where that is not known."""
        share = self.fraction()
        num_read = self.watched.read if self.watched else self.done
        return max(self.done, round(num_read / share)) if share and num_read else None

    def _show(self, total: int | None, is_last: bool = False) -> None:
        """Writes the state."""
        global _has_open_line
        self.shown_at = time()
        line = f"{self.done}/{'?' if total is None else total} {self.unit} [{self._notes(total)}]"
        if not self.is_terminal:
            print(line, file=sys.stderr)
            return
        line = line[: get_terminal_size().columns - 1]
        print(f"{CLEAR_LINE}{line}", end="\n" if is_last else "", file=sys.stderr, flush=True)
        _has_open_line = not is_last

    def _notes(self, total: int | None) -> str:
        """The time, rate and time left, notes of what works, and how many errors there are."""
        elapsed = time() - self.begun
        notes = [_clock(elapsed)]
        num_timed = self.done - (self.first or 0)
        if self.done > self.first_wave and num_timed and elapsed > 0:
            rate = num_timed / elapsed
            left = "?" if total is None else _clock((total - self.done) / rate)
            notes = [f"{notes[0]}<{left}", f"{rate:.3g} {self.unit}/s"]
        if self.watched:
            notes.append(self.watched.note())
        if self.errors:
            notes.append(f"{self.errors} errors")
        return ", ".join(filter(None, notes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self.shown_at > self.created_at and not is_quiet():
            self._show(self.total() if kind else self.done, is_last=True)


class Counted(Progress):
    """Progress towards a known number.

    Args:
        unit: what is counted.
        total: how many there are.
    """

    def __init__(self, unit: str, total: int) -> None:
        super().__init__(unit, lambda: self.done / total if self.done else None)
        self.whole = total

    def more(self, n: int) -> None:
        """Shows that n more are done."""
        self(min(self.whole, self.done + n))


def _clock(seconds: float) -> str:
    """A time as minutes and seconds, with hours where there are any.

    >>> _clock(75.2), _clock(3600)
    ('01:15', '1:00:00')
    """
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def say(text: str) -> None:
    """Prints a message on stderr, unless the command is quiet."""
    if not is_quiet():
        complain(text)


def complain(text: str) -> None:
    """Prints a message on stderr, quiet or not."""
    global _has_open_line
    start, _has_open_line = CLEAR_LINE if _has_open_line else "", False
    print(start + printable(text, keep="\n"), file=sys.stderr)


def is_quiet() -> bool:
    """Whether nothing but errors is said."""
    return _is_quiet


def set_quiet(quiet: bool) -> None:
    """Says whether nothing but errors is said, until the command ends."""
    global _is_quiet
    _is_quiet = quiet


@contextmanager
def own_quiet() -> Iterator[None]:
    """Lets a command inside be quiet without its caller being so after it."""
    before = _is_quiet
    try:
        yield
    finally:
        set_quiet(before)
