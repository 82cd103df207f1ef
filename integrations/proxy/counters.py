"""Counters and gauges of the server, as Prometheus reads them. No label comes from a request."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from .panel import ModelCost

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
    """The counters of one server, in a registry of their own.

    Those of models go by the names that the operator gives them, and are there where there are several.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry

        self.registry = CollectorRegistry()
        self.answers = self._count("answers", "Answers by kind and status", "kind", "status")
        self.passed = self._count("passed_through", "Requests passed through", "reason")
        self.candidates = self._count("candidates", "Candidates drawn")
        self.unfinished = self._count("unfinished", "Candidates left out as they were cut off")
        self.copies = self._count("copies", "Answers whose candidates were all the same")
        self.tokens = self._count("tokens", "Tokens of candidates, as upstream counts", "kind")
        self.rounds = self._histogram("rounds", "Rounds of drawing", COUNTS)
        self.draw_seconds = self._histogram("draw_seconds", "Seconds of drawing")
        about = "Seconds of choosing, with waiting"
        self.choice_seconds = self._histogram("choice_seconds", about)
        self.scored = self._count("scored", "Texts with a score, or with an error", "kind")
        about = "Seconds of scoring a request, with waiting"
        self.score_seconds = self._histogram("score_seconds", about)
        self.traffic = Traffic()

    @cached_property
    def models(self) -> ModelCounters:
        """Those of several models."""
        return ModelCounters(self._count, self._histogram)

    def _count(self, name: str, about: str, *labels: str) -> Any:
        from prometheus_client import Counter as Count

        return Count(name, about, labels, "discorank", registry=self.registry)

    def _histogram(
        self, name: str, about: str, buckets: Sequence[float] = SECONDS, *labels: str
    ) -> Any:
        from prometheus_client import Histogram

        registry = self.registry
        return Histogram(name, about, labels, "discorank", buckets=buckets, registry=registry)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a number that is asked for when it is read."""
        from prometheus_client import Gauge

        gauge = Gauge(name, about, namespace="discorank", registry=self.registry)
        gauge.set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class ModelCounters:
    """The counters of several models.

    Args:
        count, histogram: add a counter or a histogram, with labels.
    """

    def __init__(self, count: Callable[..., Any], histogram: Callable[..., Any]) -> None:
        about = "Requests that a model was asked for, by outcome"
        self.asked = count("model_asked", about, "system", "outcome")
        self.requests = count("model_requests", "Requests sent to a model", "system")
        self.candidates = count("model_candidates", "Candidates of a model", "system")
        about = "Tokens of a model, as its server counts"
        self.tokens = count("model_tokens", about, "system", "kind")
        self.chosen = count("model_chosen", "Answers by a model", "system")
        about = "Seconds until a model had given all, failed, or was not waited for any more"
        self.seconds = histogram("model_seconds", about, SECONDS, "system")

    def note(self, cost: ModelCost) -> None:
        """Counts what a model cost."""
        name = cost.system
        self.asked.labels(name, cost.outcome).inc()
        self.requests.labels(name).inc(cost.requests)
        self.candidates.labels(name).inc(cost.candidates)
        self.tokens.labels(name, "prompt").inc(cost.prompt_tokens)
        self.tokens.labels(name, "completion").inc(cost.completion_tokens)
        self.seconds.labels(name).observe(cost.seconds)
