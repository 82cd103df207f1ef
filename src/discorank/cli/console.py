"""What a command says while it works: progress on stderr, data on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Progress:
    """A progress bar with rate and time left; its total is estimated from the share of the input that is read.

    Args:
        unit: what is counted.
        fraction: the share of the input consumed so far, None where it is not known.
        quiet: show nothing.
    """

    def __init__(self, unit: str, fraction: Callable[[], float | None], quiet: bool) -> None:
        from tqdm import tqdm

        self.fraction = fraction
        interval = 0.2 if sys.stderr.isatty() else 10.0
        self.bar = tqdm(
            unit=f" {unit}", disable=quiet, mininterval=interval, delay=0.5, file=sys.stderr, dynamic_ncols=True
        )

    def __call__(self, done: int) -> None:
        """Shows that `done` are done."""
        if not self.bar.n:
            self.bar.initial = self.bar.n = done - 1  # what an earlier run did is not this run's speed
        share = self.fraction()
        if share:
            self.bar.total = max(done, round(done / share))
        self.bar.update(done - self.bar.n)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.bar.n:
            self.bar.total = self.bar.n
        self.bar.close()


class Counted(Progress):
    """Progress towards a known number.

    Args:
        unit: what is counted.
        total: how many there are.
        quiet: show nothing.
    """

    def __init__(self, unit: str, total: int, quiet: bool) -> None:
        self.done, self.whole = 0, total
        super().__init__(unit, lambda: self.done / self.whole if self.done else None, quiet)

    def more(self, n: int) -> None:
        """Shows that n more are done."""
        self.done = min(self.whole, self.done + n)
        self(self.done)


def say(text: str, quiet: bool = False) -> None:
    """Tells people something, on stderr."""
    if not quiet:
        print(text, file=sys.stderr)


def table(rows: list[list[str]]) -> str:
    """Rows in aligned columns; the first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
