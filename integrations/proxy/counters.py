"""Counters and gauges of the server, as Prometheus reads them. No label comes from a request."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .panel import ModelCost

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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


class ModelCounters:
    """The counters of several models, by the names that who runs the server gives them.

    Args:
        registry: where they are added.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter as Count
        from prometheus_client import Histogram

        def count(name: str, about: str, *labels: str) -> Any:
            return Count(name, about, ["system", *labels], "discorank", "model", registry=registry)

        self.asked = count("asked", "Requests that a model was asked for, by outcome", "outcome")
        self.requests = count("requests", "Requests sent to a model")
        self.candidates = count("candidates", "Candidates of a model")
        self.tokens = count("tokens", "Tokens of a model, as its server counts", "kind")
        self.chosen = count("chosen", "Answers by a model")
        self.seconds = Histogram(
            "seconds",
            "Seconds until a model had given all, failed, or was not waited for any more",
            ["system"],
            "discorank",
            "model",
            buckets=SECONDS,
            registry=registry,
        )

    def note(self, cost: ModelCost) -> None:
        """Counts what a model cost."""
        name = cost.system
        self.asked.labels(name, cost.outcome).inc()
        self.requests.labels(name).inc(cost.requests)
        self.candidates.labels(name).inc(cost.candidates)
        self.tokens.labels(name, "prompt").inc(cost.prompt_tokens)
        self.tokens.labels(name, "completion").inc(cost.completion_tokens)
        self.seconds.labels(name).observe(cost.seconds)


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

    @cached_property
    def models(self) -> ModelCounters:
        """Those of several models."""
        return ModelCounters(self.registry)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a number that is asked for when it is read."""
        gauge = self._gauge(name, about, namespace="discorank", registry=self.registry)
        gauge.set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
