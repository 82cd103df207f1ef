"""Batches over requests: outcomes that are waited for together, and the window in which a batch gathers.

While the engine works at a batch, what comes next waits. When it ends, its clients answer within moments, and whoever
began at once would begin with the first of them. So a batch waits for as many programs as the last one had, but for no
longer than a small share of the time that the last one took, from its end. A server that is idle, or has one client,
does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, Protocol

WINDOW_SHARE = 0.1  # of the time of a batch


class Awaited(Protocol):
    """Who waits for the outcome of a program, as `Future`."""

    def set_running_or_notify_cancel(self) -> bool:
        """Whether it is still waited for."""

    def cancelled(self) -> bool:
        """Whether it is waited for no more."""

    def set_result(self, result: Any) -> None:
        """Takes the result."""

    def set_exception(self, exception: BaseException | None) -> None:
        """Takes the error."""


class Gathered:
    """Outcomes of some programs, which come one by one, as one future [n].

    Args:
        num_outcomes: n; errors stand in their places.
    """

    def __init__(self, num_outcomes: int) -> None:
        self.future: Future[list[Any]] = Future()
        self._outcomes: list[Any] = [None] * num_outcomes
        self._missing = num_outcomes
        if not num_outcomes:
            self.future.set_result([])

    def put(self, place: int, outcome: Any) -> None:
        """Takes an outcome; with the last of them the future is done, unless nobody waits for it."""
        self._outcomes[place] = outcome
        self._missing -= 1
        if not self._missing and self.future.set_running_or_notify_cancel():
            self.future.set_result(self._outcomes)


class GatheredPlace:
    """One place of outcomes that are waited for together.

    Args:
        gathered: all of them.
        place: which.
    """

    __slots__ = ("_gathered", "_place")

    def __init__(self, gathered: Gathered, place: int) -> None:
        self._gathered, self._place = gathered, place

    def set_running_or_notify_cancel(self) -> bool:
        """Whether it is still waited for."""
        return not self._gathered.future.cancelled()

    def cancelled(self) -> bool:
        """Whether it is waited for no more."""
        return self._gathered.future.cancelled()

    def set_result(self, result: Any) -> None:
        """Takes the result."""
        self._gathered.put(self._place, result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Takes the error, in its place."""
        self._gathered.put(self._place, exception)


class BatchWindow:
    """How long a batch that could begin waits for more.

    Args:
        max_seconds: at most; 0 for never.
        clock: tells the time, in seconds.
    """

    def __init__(self, max_seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._max_seconds, self._clock = max_seconds, clock
        self._begun = self._until = clock()
        self._last_size = 0

    def begin(self) -> None:
        """Notes that a batch begins."""
        self._begun = self._clock()

    def end(self, size: int) -> None:
        """Notes that it ended, with so many outcomes."""
        now = self._clock()
        seconds = min(self._max_seconds, WINDOW_SHARE * (now - self._begun))
        self._until, self._last_size = now + seconds, size

    def seconds_left(self, size: int) -> float:
        """How long to wait for more, where so many are there; 0 to begin."""
        if size >= self._last_size:
            return 0.0
        return max(0.0, self._until - self._clock())
