"""Counters and gauges of the server, as Prometheus reads them. No label comes from a request."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

CHOSEN, COPIES, PASSED = "chosen", "copies", "passed"
OURS = (CHOSEN, COPIES)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Traffic:
    """What became of the last requests to choose, and when that is worth a word.

    Args:
        size: how many are remembered.
        least: how many there are before anything is said.
    """

    def __init__(self, size: int = 100, least: int = 20) -> None:
        self._least = least
        self._kinds: deque[str] = deque(maxlen=size)
        self._said: set[str] = set()

    def note(self, kind: str) -> str | None:
        """Takes what became of a request: `CHOSEN`, `COPIES`, or why it passed through.

        Returns:
            What is to be said, once until it has become better: that most requests passed, or were copies.
        """
        self._kinds.append(kind)
        counts = Counter(self._kinds)
        num_chosen = counts[CHOSEN] + counts[COPIES]
        reasons = [(reason, count) for reason, count in counts.most_common() if reason not in OURS]
        passed = len(self._kinds) - num_chosen
        main = reasons[0][0] if reasons else ""
        return self._worth_saying(
            PASSED, passed, len(self._kinds), f"passed through unchosen, most of them for {main}"
        ) or self._worth_saying(
            COPIES,
            counts[COPIES],
            num_chosen,
            "had candidates that were all the same: nothing is chosen",
        )

    def _worth_saying(self, kind: str, count: int, of: int, what: str) -> str | None:
        """A line where more than half are so and it was not said, or got better since."""
        if of < self._least or 2 * count <= of:
            if 4 * count < of:
                self._said.discard(kind)
            return None
        if kind in self._said:
            return None
        self._said.add(kind)
        return f"{count} of the last {of} requests {what}"


class Counters:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Gauge, Histogram
        from prometheus_client import Counter as Count

        self.registry = CollectorRegistry()
        name, registry = "discorank", self.registry
        self.answers = Count(
            "answers", "Answers by kind and status", ["kind", "status"], name, registry=registry
        )
        self.passed = Count(
            "passed_through", "Requests passed through", ["reason"], name, registry=registry
        )
        self.candidates = Count("candidates", "Candidates drawn", namespace=name, registry=registry)
        self.unfinished = Count(
            "unfinished",
            "Candidates left out as they were cut off",
            namespace=name,
            registry=registry,
        )
        self.copies = Count(
            "copies",
            "Answers whose candidates were all the same",
            namespace=name,
            registry=registry,
        )
        self.tokens = Count(
            "tokens", "Tokens of candidates, as upstream counts", ["kind"], name, registry=registry
        )
        self.rounds = Histogram(
            "rounds", "Rounds of drawing", namespace=name, buckets=COUNTS, registry=registry
        )
        self.draw_seconds = Histogram(
            "draw_seconds", "Seconds of drawing", namespace=name, buckets=SECONDS, registry=registry
        )
        self.choice_seconds = Histogram(
            "choice_seconds",
            "Seconds of choosing, with waiting",
            namespace=name,
            buckets=SECONDS,
            registry=registry,
        )
        self.scored = Count(
            "scored", "Texts with a score, or with an error", ["kind"], name, registry=registry
        )
        self.score_seconds = Histogram(
            "score_seconds",
            "Seconds of scoring a request, with waiting",
            namespace=name,
            buckets=SECONDS,
            registry=registry,
        )
        self._gauge = Gauge

        self.traffic = Traffic()

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a number that is asked for when it is read."""
        gauge = self._gauge(name, about, namespace="discorank", registry=self.registry)
        gauge.set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
