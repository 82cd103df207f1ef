"""Engines take lists to be decided and give back expected values; this one works in the calling process.

What comes back is small ([H] per list), whatever the size of its matrix, so that an engine on other machines can do the
same. It knows neither files nor how a choice is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, MetricError
from ...metrics.execution.by_sentence import columns_of, lift
from ...metrics.execution.cache import Cache
from ...metrics.execution.evaluate import Folded, matrices
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.mixture import Utility
from ...metrics.representations import Block, FloatArray
from ...metrics.scorer import Scorer
from ...metrics.text.texts import Comparison, Truncation
from ..choice import expected_utility, without_own
from .status import Status

STORE_BYTES = 1 << 26  # representations kept for later lists
FIRST_WAVE = 1 << 16  # characters handed to the metric at once, to begin with
TRUNCATION_FLAGS: dict[Truncation, tuple[str, ...]] = {
    Truncation.NONE: (),
    Truncation.CONTEXT: ("truncated-context",),
    Truncation.TEXT: ("truncated-text",),
}
CANCELLED = 1e-6  # share of a difference's terms below which too few of its digits are good
SHORT_SECONDS, LONG_SECONDS = 0.3, 1.5  # a wave outside this is made longer or shorter


class Task(NamedTuple):
    """One list to be valued under one utility."""

    id: str
    metric: Utility
    comparisons: tuple[Comparison, ...]  # one per part of the utility
    weights: FloatArray  # [R], any positive scale; without use where a part is reference-free
    own: FloatArray | None = None  # [H] left out of each row's own column
    keep_matrix: bool = False


class Result(NamedTuple):
    """What a list is worth: expectations [parts, H] in each part's own direction, and the matrices if asked for."""

    values: FloatArray
    matrices: tuple[FloatArray, ...] = ()
    flags: tuple[str, ...] = ()  # what the list's reader should know


class Engine(Protocol):
    """Where expectations come from; results may come in any order."""

    def load(self, metrics: Sequence[Utility]) -> None:
        """Makes ready for these metrics; one that cannot be loaded raises here."""

    def submit(self, key: int, task: Task) -> None:
        """Takes a list; `key` comes back with its result."""

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Waits until something submitted is done and returns all that is; a list that fails has its error."""

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that were submitted and not collected."""

    def status(self) -> Status:
        """The work done since the engine was loaded."""


class LocalEngine:
    """Loaded scorers in this process, one store of representations for each.

    Args:
        cache: keeps representations of models for later runs.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache
        self.waiting: list[tuple[int, Task]] = []
        self.stores: dict[Metric, Store] = {}
        self.wave = FIRST_WAVE
        self.meter = Meter()
        self.begun = perf_counter()

    def load(self, metrics: Sequence[Utility]) -> None:
        """Loads the scorers; errors as `Metric.load`."""
        for metric in metrics:
            for _, part in metric.parts:
                self._store(part)
        self.meter.take()
        self.begun = perf_counter()

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        self.waiting.append((key, task))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Works off one wave of what waits; the wave grows or shrinks towards about a second."""
        if sum(store.nbytes for store in self.stores.values()) > STORE_BYTES:
            self.stores.clear()
        n, size = 0, 0
        while n < len(self.waiting) and (not n or size < self.wave):
            size += _size(self.waiting[n][1])
            n += 1
        wave, self.waiting = self.waiting[:n], self.waiting[n:]
        start = perf_counter()
        found = self._values([task for _, task in wave])
        seconds = perf_counter() - start
        if seconds < SHORT_SECONDS and size >= self.wave:
            self.wave *= 2
        elif seconds > LONG_SECONDS:
            self.wave = max(1, self.wave // 2)
        return [(key, result) for (key, _), result in zip(wave, found, strict=True)]

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that wait."""
        self.waiting = [(key, task) for key, task in self.waiting if key not in keys]

    def status(self) -> Status:
        """The work done here."""
        return Status(self.meter.now, perf_counter() - self.begun)

    def _values(self, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
        """Results of all tasks together; if that fails, of each alone, so that one bad list costs only itself.

        A list that is too large for the memory even alone is such a list too.
        """
        try:
            return list(self._together(tasks))
        except Exception as error:
            if len(tasks) == 1:
                return [problem_of(tasks[0], error)]
        return [result for task in tasks for result in self._values([task])]

    def _together(self, tasks: Sequence[Task]) -> list[Result]:
        found: dict[tuple[int, int], tuple[FloatArray, FloatArray | None]] = {}
        truncation = [Truncation.NONE] * len(tasks)
        for metric, places in places_of(tasks).items():
            store = self._store(metric)
            lists = [(tasks[i].comparisons[p], tasks[i]) for i, p in places]
            found.update(zip(places, expectations(metric, store, lists), strict=True))
            for (i, _), (comparison, _) in (
                zip(places, lists, strict=True) if metric.info.bucketed else ()
            ):
                truncation[i] = max(
                    truncation[i],
                    *(store.truncation_of(column) for column in columns_of(metric, comparison)),
                )
        return [
            result_of(task, [found[i, p] for p in range(len(task.comparisons))], truncation[i])
            for i, task in enumerate(tasks)
        ]

    def _store(self, metric: Metric) -> Store:
        if metric not in self.stores:
            self.stores[metric] = Store(metric.scorer, self.cache, self.meter)
        return self.stores[metric]


def places_of(tasks: Sequence[Task]) -> dict[Metric, list[tuple[int, int]]]:
    """Which (task, part) every metric is."""
    places: dict[Metric, list[tuple[int, int]]] = {}
    for i, task in enumerate(tasks):
        for p, (_, part) in enumerate(task.metric.parts):
            places.setdefault(part, []).append((i, p))
    return places


def problem_of(task: Task, error: Exception) -> DiscorankError:
    """What went wrong with a list, as its result."""
    if isinstance(error, DiscorankError):
        return error
    problem = MetricError(f"{type(error).__name__}: {error}", where=task.metric.signature())
    problem.__cause__ = error
    return problem


def is_linear(metric: Metric, task: Task) -> bool:
    """Whether the list is valued without its matrix."""
    return metric.info.linear and not task.keep_matrix


def expectations(
    metric: Metric, store: Store, lists: Sequence[tuple[Comparison, Task]]
) -> list[tuple[FloatArray, FloatArray | None]]:
    """Expected values [H] of every list, by the metric's linear form where it has one, else from the whole matrix.

    The matrix [H, R] comes with them where the task keeps it.
    """
    linear = [is_linear(metric, task) for _, task in lists]
    rest = [pair for pair, short in zip(lists, linear, strict=True) if not short]
    whole = iter(matrices(metric, [comparison for comparison, _ in rest], store))
    result: list[tuple[FloatArray, FloatArray | None]] = []
    for (comparison, task), short in zip(lists, linear, strict=True):
        if short:
            result.append((linear_form(metric, store, comparison, task), None))
        else:
            result.append(reduced(metric, task, next(whole), store.meter))
    return result


def reduced(
    metric: Metric, task: Task, u: FloatArray, meter: Meter
) -> tuple[FloatArray, FloatArray | None]:
    """Expected values [H] from the whole matrix of a list, and the matrix where the task keeps it."""
    weights, own = (task.weights, task.own) if metric.info.needs_references else (np.ones(1), None)
    with meter.stage("choose"):
        values = expected_utility(u, weights, own)
    return values, u if task.keep_matrix else None


def linear_form(metric: Metric, store: Store, comparison: Comparison, task: Task) -> FloatArray:
    """The linear form, averaged over the sentences of documents; the self pair is taken out afterwards."""
    scorer, total = metric.scorer, task.weights.sum()
    units = lift(metric, comparison)
    values, pairs = np.zeros(len(comparison.hypotheses)), 0
    blocks = store.add(units)
    with store.meter.stage("compare"):
        for block in blocks:
            small, rows, columns = Folded.of(block)
            weights = (
                task.weights
                if columns is None
                else np.bincount(columns, task.weights, len(small.references))
            )
            expected = scorer.expected(store.reps, [small], [weights / total])[0]
            expected = expected if rows is None else expected[rows]
            if task.own is not None:
                expected = _without_self(scorer, store, block, expected, task.weights, task.own)
            values += expected
            pairs += small.cells
    store.meter.count(pairs=pairs)
    return values / len(units)


def _without_self(
    scorer: Scorer,
    store: Store,
    block: Block,
    expected: FloatArray,
    weights: FloatArray,
    own: FloatArray,
) -> FloatArray:
    """Expectations [H] of a square block with every row's own copy taken out.

    Where it holds most of the weight or of the value, little would be left of the digits, and the row is expected anew.
    """
    total = weights.sum()
    alone = [Block(row[None], row[None], block.source) for row in block.hypotheses]
    selfs = np.concatenate([u.ravel() for u in scorer.compare(store.reps, alone)])
    rest = expected * total - own * selfs
    found = without_own(rest, total - own, total)
    cancelled = (own > total / 2) | (np.abs(rest) < CANCELLED * np.abs(own * selfs))
    for i in np.flatnonzero(cancelled & ~np.isnan(found)):
        others = np.where(np.arange(len(weights)) == i, weights - own[i], weights)
        row = Block(block.hypotheses[i : i + 1], block.references, block.source)
        found[i] = scorer.expected(store.reps, [row], [others / others.sum()])[0][0]
    return found


def result_of(
    task: Task, found: Sequence[tuple[FloatArray, FloatArray | None]], truncation: Truncation
) -> Result:
    """The result from the values of every part, and the most that was left out of a text."""
    kept = tuple(u for _, u in found if u is not None)
    return Result(
        np.array([values for values, _ in found]),
        kept if task.keep_matrix else (),
        TRUNCATION_FLAGS[truncation],
    )


def _size(task: Task) -> int:
    """Characters of a task's texts."""
    first = task.comparisons[0]
    items = (
        first.hypotheses
        if first.references is first.hypotheses
        else first.hypotheses + first.references
    )
    items += () if first.source is None else (first.source,)
    return 1 + sum(len(str(item.text)) for item in items)
