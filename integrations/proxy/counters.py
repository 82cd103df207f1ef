"""Counters and gauges of the server, as Prometheus reads them. No label comes from a request."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import cached_property, partial
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
        import prometheus_client as prometheus

        self.registry = prometheus.CollectorRegistry()
        made: dict[str, Any] = {"namespace": "discorank", "registry": self.registry}
        counter: Callable[..., Any] = partial(prometheus.Counter, **made)
        histogram: Callable[..., Any] = partial(prometheus.Histogram, buckets=SECONDS, **made)
        self._gauge: Callable[..., Any] = partial(prometheus.Gauge, **made)
        self._counter, self._histogram = counter, histogram
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
        self.traffic = Traffic()

    @cached_property
    def models(self) -> ModelCounters:
        """Those of several models."""
        return ModelCounters(self._counter, self._histogram)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a number that is asked for when it is read."""
        self._gauge(name, about).set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class ModelCounters:
    """The counters of several models.

    Args:
        counter, histogram: add a counter or a histogram, with labels.
    """

    def __init__(self, counter: Callable[..., Any], histogram: Callable[..., Any]) -> None:
        about = "Requests that a model was asked for, by outcome"
        self.asked = counter("model_asked", about, ("system", "outcome"))
        one = ("system",)
        self.requests = counter("model_requests", "Requests sent to a model", one)
        self.candidates = counter("model_candidates", "Candidates of a model", one)
        about = "Tokens of a model, as its server counts"
        self.tokens = counter("model_tokens", about, ("system", "kind"))
        self.chosen = counter("model_chosen", "Answers by a model", one)
        about = "Seconds until a model had given all, failed, or was not waited for any more"
        self.seconds = histogram("model_seconds", about, one)

    def note(self, cost: ModelCost) -> None:
        """Counts what a model cost."""
        name = cost.system
        self.asked.labels(name, cost.outcome).inc()
        self.requests.labels(name).inc(cost.requests)
        self.candidates.labels(name).inc(cost.candidates)
        self.tokens.labels(name, "prompt").inc(cost.prompt_tokens)
        self.tokens.labels(name, "completion").inc(cost.completion_tokens)
        self.seconds.labels(name).observe(cost.seconds)
