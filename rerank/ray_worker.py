"""What a Ray actor does: the local engine on the blocks of lists it is sent, with metrics loaded once.

Metrics are sent once and named by number afterwards: a copy that came with a list would be loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from ..metrics.base import Metric
from ..metrics.cache import Cache
from ..metrics.errors import DiscorankError
from ..metrics.meter import Metered
from ..metrics.mixture import Mix
from .engine import LocalEngine, Result, Task


class Sent(NamedTuple):
    """A task on its way to a worker."""

    key: int
    cost: int  # characters and pairs
    parts: tuple[tuple[float, int], ...]  # (weight, number of the metric) of its utility
    rest: tuple[Any, ...]  # the other fields of the task

    @classmethod
    def of(cls, key: int, task: Task, numbers: dict[Metric, int]) -> Sent:
        """The task with its metrics named by number."""
        parts = tuple((weight, numbers[part]) for weight, part in task.metric.parts)
        return cls(key, _cost(task), parts, (task.id, *task[2:]))

    @property
    def id(self) -> str:
        """The list's id."""
        return str(self.rest[0])

    def task(self, metrics: Sequence[Metric]) -> Task:
        """The task, with the metrics of this process."""
        mix = Mix(tuple((weight, metrics[number]) for weight, number in self.parts))
        return Task(self.rest[0], mix, *self.rest[1:])


class Done(NamedTuple):
    """What came of a block."""

    results: list[tuple[int, Result | DiscorankError]]
    seconds: float
    work: Metered


class Worker:
    """A local engine with loaded metrics.

    Args:
        cache: folder and size of a cache of representations.
    """

    def __init__(self, cache: tuple[str, int] | None) -> None:
        self.engine = LocalEngine(Cache(*cache) if cache else None)
        self.metrics: list[Metric] = []

    def load(self, metrics: Sequence[Metric]) -> DiscorankError | None:
        """Loads those of the metrics that are new here; returns why one cannot be loaded."""
        new = metrics[len(self.metrics) :]
        try:
            self.engine.load(new)
        except DiscorankError as error:
            return error
        self.metrics += new
        return None

    def value(self, block: Sequence[Sent]) -> Done:
        """The results of a block."""
        start = perf_counter()
        results: list[tuple[int, Result | DiscorankError]] = []
        for sent in block:
            self.engine.submit(sent.key, sent.task(self.metrics))
        while len(results) < len(block):
            results += self.engine.collect()
        return Done(results, perf_counter() - start, self.engine.meter.take())


def _cost(task: Task) -> int:
    """Characters and pairs of a task."""
    total = 0
    for comparison in task.comparisons:
        square = comparison.references is comparison.hypotheses
        items = comparison.hypotheses if square else comparison.hypotheses + comparison.references
        total += sum(len(str(item.text)) for item in items)
        total += len(comparison.hypotheses) * max(1, len(comparison.references))
    return 1 + total
