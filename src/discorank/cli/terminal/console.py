"""Output of a command while it works: progress on stderr, data on stdout."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO, cast

from ...printable import printable

if TYPE_CHECKING:
    from tqdm import tqdm

DELAY_SECONDS = 0.5  # before anything is shown
TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0  # between two looks of the progress
# what stands in front in a log and on a terminal, and behind it without and with estimates
LINE, BAR = "{n_fmt}/{total_fmt}{unit} ", "{l_bar}{bar}| {n_fmt}/{total_fmt} "
ELAPSED, ESTIMATED = "[{elapsed}{postfix}]", "[{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
_is_quiet = False  # of the command that runs
CONTROLS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # such as those that move the cursor between bars


class Watched(Protocol):
    """The work while progress is shown."""

    read: int  # how many of the units counted are read, which may be ahead of those done

    @property
    def seconds(self) -> float:
        """How long it has been at work, without what it took to start."""

    def note(self) -> str:
        """Figures beside the progress; asked for only when it is shown."""


class Progress:
    """A progress bar with rate and time left; its total is estimated from the share of the input that is read.

    Where stderr is no terminal, it prints a plain line every ten seconds instead. Rate and time left are averages of
    what was done after loading, and are not shown before the units that were in work together at first are done.

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
        self.unit, self.quiet = unit, is_quiet()
        self.fraction, self.watched = fraction, watched
        self.begun = time()
        self.is_terminal = sys.stderr.isatty()
        self.seconds = TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS
        self.head = BAR if self.is_terminal else LINE
        self.errors = 0
        self.first: int | None = None  # so many were done at the first call
        self.first_wave = 0  # so many units were read when the first was done

    @cached_property
    def bar(self) -> tqdm[Any]:
        """The progress bar, made when there is something to show: a short run does without it."""
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread, as every update is looked at
        bar = tqdm(
            unit=f" {self.unit}",
            disable=self.quiet,
            mininterval=self.seconds,
            miniters=1,
            delay=DELAY_SECONDS,
            file=sys.stderr if self.is_terminal else cast(TextIO, _Lines()),
            dynamic_ncols=self.is_terminal,
            bar_format=self.head + ELAPSED,
            smoothing=0,
        )
        bar.start_t = bar.last_print_t = self.begun
        if self.first is not None:
            self._begin(bar, self.first)
        return bar

    def _is_shown(self) -> bool:
        """Whether there is something to show by now."""
        if self.quiet:
            return False
        return "bar" in self.__dict__ or time() - self.begun >= DELAY_SECONDS

    def __call__(self, done: int, errors: int = 0) -> None:
        """Shows that `done` are done, of which some are errors."""
        is_first = self.first is None
        if self.first is None:
            self._note_first(done)
        if not self._is_shown():
            return
        if is_first and "bar" in self.__dict__:
            self._begin(self.bar, done)
        elif not is_first and done > self.first_wave:
            self.bar.bar_format = self.head + ESTIMATED
        self._estimate(done)
        self.errors = errors
        if not self.bar.disable and time() - self.bar.last_print_t >= self.seconds:
            self._note()
        self.bar.update(done - self.bar.n)

    def _estimate(self, done: int) -> None:
        """Sets the total by the share of the input that is read, where that is known."""
        share = self.fraction()
        num_read = self.watched.read if self.watched else done
        if share and num_read:
            self.bar.total = max(done, round(num_read / share))

    def _note_first(self, done: int) -> None:
        """Starts the clock: what an earlier run did is not this run's speed."""
        self.first = self.first_wave = done
        self.begun_first = time()
        if self.watched:
            self.first_wave = max(done, self.watched.read)
            self.begun_first -= self.watched.seconds

    def _begin(self, bar: tqdm[Any], first: int) -> None:
        """Has the bar begin where the clock did."""
        bar.n = first - 1
        # without a watch, how long the first one took with loading is not known
        bar.initial = bar.n if self.watched else first
        bar.start_t = self.begun_first

    def refresh(self) -> None:
        """Shows what the work has come to where none of the units was done for a while."""
        if (
            not self._is_shown()
            or self.bar.disable
            or time() - self.bar.last_print_t < self.seconds
        ):
            return
        self._estimate(int(self.bar.n))
        self._note()
        self.bar.refresh()
        self.bar.last_print_t = time()

    def _note(self) -> None:
        note = self.watched.note() if self.watched else ""
        errors = f"{self.errors} errors" if self.errors else ""
        self.bar.set_postfix_str(", ".join(filter(None, (note, errors))), refresh=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_shown():
            return
        if kind is None and self.bar.n:
            self.bar.total = self.bar.n
        if not self.bar.disable:
            self._note()
        self.bar.close()


class Counted(Progress):
    """Progress towards a known number.

    Args:
        unit: what is counted.
        total: how many there are.
    """

    def __init__(self, unit: str, total: int) -> None:
        self.done, self.whole = 0, total
        super().__init__(unit, lambda: self.done / self.whole if self.done else None)

    def more(self, n: int) -> None:
        """Shows that n more are done."""
        self.done = min(self.whole, self.done + n)
        self(self.done)


class _Lines:
    """stderr as tqdm may write to it, each state of the bar a line of its own."""

    def write(self, text: str) -> None:
        line = CONTROLS.sub("", text).strip("\r\n ")
        if line:
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()


def say(text: str) -> None:
    """Prints a message on stderr, unless the command is quiet."""
    if not is_quiet():
        complain(text)


def complain(text: str) -> None:
    """Prints a message on stderr, quiet or not."""
    print(printable(text, keep="\n"), file=sys.stderr)


def is_quiet() -> bool:
    """Whether nothing but errors is said."""
    return _is_quiet


def set_quiet(quiet: bool) -> None:
    """Says whether nothing but errors is said, until the command ends."""
    global _is_quiet
    _is_quiet = quiet


@contextmanager
def own_quiet() -> Iterator[None]:
    """Lets a command inside be quiet without its caller being so behind it."""
    before = _is_quiet
    try:
        yield
    finally:
        set_quiet(before)
