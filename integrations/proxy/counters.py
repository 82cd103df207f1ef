"""Counters and gauges of the server, as Prometheus reads them. No label comes from a request."""

from __future__ import annotations

from collections.abc import Callable

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counters:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        name, registry = "discorank", self.registry
        self.answers = Counter(
            "answers", "Answers by kind and status", ["kind", "status"], name, registry=registry
        )
        self.passed = Counter(
            "passed_through", "Requests passed through", ["reason"], name, registry=registry
        )
        self.candidates = Counter(
            "candidates", "Candidates drawn", namespace=name, registry=registry
        )
        self.tokens = Counter(
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
        self.scored = Counter(
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

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a number that is asked for when it is read."""
        gauge = self._gauge(name, about, namespace="discorank", registry=self.registry)
        gauge.set_function(value)

    def text(self) -> bytes:
        """All of them as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
