"""Counters, gauges and reports of the server. No label comes from a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counters:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        import prometheus_client as prometheus

        self.registry = prometheus.CollectorRegistry()
        made: dict[str, Any] = {"namespace": "discorank", "registry": self.registry}
        counter: Callable[..., Any] = partial(prometheus.Counter, **made)
        histogram: Callable[..., Any] = partial(prometheus.Histogram, buckets=SECONDS, **made)
        self._gauge: Callable[..., Any] = partial(prometheus.Gauge, **made)
        self.answers = counter("answers", "Answers by kind and status", ("kind", "status"))
        self.passed = counter("passed_through", "Requests passed through", ("reason",))
        self.candidates = counter("candidates", "Candidates drawn")
        self.unfinished = counter("unfinished", "Candidates left out as they were cut off")
        self.copies = counter("copies", "Answers whose candidates were all the same")
        self.tokens = counter("tokens", "Tokens of candidates, as upstream counts", ("kind",))
        self.rounds = histogram("rounds", "Rounds of drawing", buckets=COUNTS)
        self.draw_seconds = histogram("draw_seconds", "Seconds of drawing")
        self.choice_seconds = histogram("choice_seconds", "Seconds of choosing, with waiting")
        self.scored = counter("scored", "Texts with a score, or with an error", ("kind",))
        about = "Seconds of scoring a request, with waiting"
        self.score_seconds = histogram("score_seconds", about)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a number that is asked for when it is read."""
        self._gauge(name, about).set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class LimitedReport:
    """Reports lines, so many in a while; a line that comes again is counted, and reported by number after the while.

    Args:
        report: takes a line.
        max_lines: different lines of a while; others are counted together.
        seconds: how long that is.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        report: Callable[[str], object],
        max_lines: int = 10,
        seconds: float = 60.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._report, self._max_lines, self._seconds = report, max_lines, seconds
        self._clock = clock
        self._since, self._num_others = clock(), 0
        self._again: dict[str, int] = {}  # how often each line came after it was reported

    def __call__(self, line: str) -> None:
        """Report a line, or count it."""
        if self._clock() - self._since >= self._seconds:
            self.end()
        if line in self._again:
            self._again[line] += 1
        elif len(self._again) < self._max_lines:
            self._again[line] = 0
            self._report(line)
        else:
            self._num_others += 1

    def end(self) -> None:
        """Report what was counted; a line that came again is not new in the while that begins."""
        repeated = {line: number for line, number in self._again.items() if number}
        for line, number in repeated.items():
            self._report(f"{line} ({number} more of the same)")
        if self._num_others:
            self._report(f"discorank: {self._num_others} more lines were left out")
        self._since, self._num_others = self._clock(), 0
        self._again = dict.fromkeys(repeated, 0)
