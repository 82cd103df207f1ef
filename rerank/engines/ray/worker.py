"""What a Ray actor does: the local engine on the blocks of lists it is sent, or one stage of some, with loaded metrics.

Metrics are sent once and named by number afterwards: a copy that came with a list would be loaded again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from ....metrics.base import Metric
from ....metrics.errors import DiscorankError
from ....metrics.execution.cache import Cache
from ....metrics.execution.meter import Metered
from ....metrics.execution.store import Fresh
from ....metrics.mixture import Mix
from ....metrics.representations import FloatArray
from ....metrics.scorer import Scorer
from ....metrics.text.texts import Comparison
from ..interface import Result, Task
from ..local import LocalEngine, problem_of
from .stages import Compared, Reduced, Share, Tile, results

SHARES = 4  # of groups that are kept for further steps
Layout = tuple[
    int, bool, int
]  # a metric, whether its representations are given, and how many steps of tiles
T = TypeVar("T")


class Sent(NamedTuple):
    """A task on its way to a worker."""

    key: int
    amounts: tuple[int, int]  # characters and pairs
    parts: tuple[tuple[float, int], ...]  # (weight, number of the metric) of its utility
    id: str
    comparisons: tuple[Comparison, ...]
    weights: FloatArray
    own: FloatArray | None
    keep_matrix: bool

    @classmethod
    def of(cls, key: int, task: Task, numbers: dict[Metric, int]) -> Sent:
        """The task with its metrics named by number."""
        parts = tuple((weight, numbers[part]) for weight, part in task.metric.parts)
        return cls(key, _amounts(task), parts, task.id, *task[2:])

    def task(self, metrics: Sequence[Metric]) -> Task:
        """The task, with the metrics of this process."""
        mix = Mix(tuple((weight, metrics[number]) for weight, number in self.parts))
        return Task(self.id, mix, self.comparisons, self.weights, self.own, self.keep_matrix)


class Done(NamedTuple):
    """What came of a step."""

    seconds: float
    work: Metered
    results: list[tuple[int, Result | DiscorankError]]  # of lists that are finished
    nbytes: int = 0  # of what stays in the object store
    error: DiscorankError | None = None  # why the step failed


class Loaded(NamedTuple):
    """What came of loading metrics."""

    error: DiscorankError | None
    pairwise: frozenset[int] = frozenset()  # numbers of metrics that run a model on pairs


class Worker:
    """A local engine with loaded metrics; its methods are called by steps (see `Step`).

    Args:
        cache: folder and size of a cache of representations.
    """

    def __init__(self, cache: tuple[str, int] | None) -> None:
        self.cache = cache
        self.engine = LocalEngine()
        self.metrics: list[Metric] = []
        self.shares: dict[tuple[int, int], Share] = {}

    def load(self, metrics: Sequence[Metric]) -> Loaded:
        """Loads those of the metrics that are new here."""
        new = metrics[len(self.metrics) :]
        try:
            if self.cache and self.engine.cache is None:  # opened in the thread that uses it
                self.engine.cache = Cache(*self.cache)
            warnings.filterwarnings(
                "ignore", "The given NumPy array is not writable"
            )  # none in the object store is
            self.engine.load(new)
        except DiscorankError as error:
            return Loaded(error)
        self.metrics += new
        on_pairs = [
            type(metric.scorer).pair_cost is not Scorer.pair_cost for metric in self.metrics
        ]
        return Loaded(None, frozenset(n for n, runs in enumerate(on_pairs) if runs))

    def pulse(self) -> None:
        """Answers, as long as the process lives."""

    def value(self, block: Sequence[Sent]) -> Done:
        """The results of a block."""
        start = perf_counter()
        results: list[tuple[int, Result | DiscorankError]] = []
        for sent in block:
            self.engine.submit(sent.key, sent.task(self.metrics))
        while len(results) < len(block):
            results += self.engine.collect()
        return Done(perf_counter() - start, self.engine.meter.take(), results)

    def represent(
        self, group: int, block: Sequence[Sent], metric: int, chunk: int, chunks: int
    ) -> tuple[Fresh | None, Done]:
        """The representations of a chunk of a group's texts; None where it has none."""

        def run() -> Fresh | None:
            return self._share(group, block, metric).represent(chunk, chunks, self.engine.cache)

        return self._stage(block, run, lambda fresh: fresh.nbytes if fresh else 0)

    def join(
        self, group: int, block: Sequence[Sent], *chunks: Fresh | None
    ) -> tuple[Fresh | None, Done]:
        """Chunks as one, in order."""

        def run() -> Fresh:
            return Fresh.concat([chunk for chunk in chunks if chunk is not None])

        return self._stage(block, run, lambda fresh: fresh.nbytes)

    def compare(
        self, group: int, block: Sequence[Sent], metric: int, tiles: Sequence[Tile], fresh: Fresh
    ) -> tuple[list[Compared] | None, Done]:
        """The values of some tiles of a group's matrices."""

        def run() -> list[Compared]:
            return self._share(group, block, metric).compare(fresh, tiles)

        return self._stage(block, run, lambda found: sum(piece.values.nbytes for piece in found))

    def reduce(
        self, group: int, block: Sequence[Sent], layout: Sequence[Layout], *values: Any
    ) -> tuple[None, Done]:
        """The results of a group from all that was compared."""

        def run() -> list[tuple[int, Result | DiscorankError]]:
            found: dict[tuple[int, int], Reduced] = {}
            rest = iter(values)
            for metric, linear, steps in layout:
                fresh = next(rest) if linear else None
                pieces = [piece for some in islice(rest, steps) for piece in some]
                found |= self._share(group, block, metric).reduce(fresh, pieces)
            tasks = [sent.task(self.metrics) for sent in block]
            return [
                (sent.key, result)
                for sent, result in zip(block, results(tasks, found), strict=True)
            ]

        keyed, done = self._stage(block, run, lambda _: 0)
        return None, done._replace(results=keyed or [])

    def _share(self, group: int, block: Sequence[Sent], metric: int) -> Share:
        """A metric's part in a group; several steps of a group are often done by one worker."""
        if (group, metric) not in self.shares:
            while len(self.shares) >= SHARES:
                del self.shares[next(iter(self.shares))]
            tasks = [sent.task(self.metrics) for sent in block]
            self.shares[group, metric] = Share(self.metrics[metric], tasks, self.engine.meter)
        return self.shares[group, metric]

    def _stage(
        self, block: Sequence[Sent], run: Callable[[], T], size: Callable[[T], int]
    ) -> tuple[T | None, Done]:
        """What `run` returns, or why it failed, as the local engine would say it."""
        start = perf_counter()
        try:
            found = run()
        except Exception as error:
            problem = problem_of(block[0].task(self.metrics), error)
            return None, Done(perf_counter() - start, self.engine.meter.take(), [], error=problem)
        return found, Done(perf_counter() - start, self.engine.meter.take(), [], size(found))


def _amounts(task: Task) -> tuple[int, int]:
    """Characters and pairs of a task."""
    characters = pairs = 0
    for comparison in task.comparisons:
        square = comparison.references is comparison.hypotheses
        items = comparison.hypotheses if square else comparison.hypotheses + comparison.references
        characters += 1 + sum(len(str(item.text)) for item in items)
        pairs += len(comparison.hypotheses) * max(1, len(comparison.references))
    return characters, pairs
