"""The engine that works in the calling process: waves of lists, one store of representations per metric."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, MetricError, ResourceError
from ...metrics.execution.by_sentence import columns_of, lift
from ...metrics.execution.cache import Cache
from ...metrics.execution.evaluate import Folded, matrices, shape_of, tile_values
from ...metrics.execution.failures import failures_named, is_interrupt
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.execution.tiles import Tile, is_large
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison, Truncation
from ..expectation import (
    TiledSums,
    expected_of_sums,
    expected_utility,
    has_weight,
    linear_expected_utility,
    weighted_sums,
)
from .finite_pairs import PairCounts, pairs_error, pairs_flags
from .interface import Loaded, Result, Task, loaded_as
from .status import Status

# representations kept for later lists: those that a model made, and those that cost little to make again
MODEL_STORE_BYTES = 1 << 26
STORE_BYTES = 1 << 23
FIRST_WAVE = 1 << 16  # characters handed to the metric at once, to begin with
LAST_WAVE = 1 << 20  # and at most, so that a wave's memory does not depend on how fast it is done
SHORT_SECONDS, LONG_SECONDS = 0.3, 1.5  # a wave outside this is made longer or shorter
TRUNCATION_FLAGS: Mapping[Truncation, tuple[str, ...]] = {
    Truncation.NONE: (),
    Truncation.CONTEXT: ("truncated-context",),
    Truncation.TEXT: ("truncated-text",),
}


class Expectation(NamedTuple):
    """Expected values [H] of a list under one part of its utility, and the matrix [H, R] where it is kept.

    `pairs` counts the matrix; a linear form, which has none, counts nothing, and its values are finite.
    """

    values: FloatArray
    matrix: FloatArray | None = None
    pairs: PairCounts = PairCounts()


class TileSums(NamedTuple):
    """What is kept of a tile: the weighted sum of every row [rows], and how many of its pairs are finite."""

    sums: FloatArray
    pairs: PairCounts


class LocalEngine:
    """Loaded scorers in this process, one store of representations for each.

    Args:
        cache: keeps representations of models for later runs.
        store_share: how much of what it may keep for later lists it keeps: adding to what is kept copies it, which
            takes longer than it saves where lists come one by one and share no texts.
    """

    def __init__(self, cache: Cache | None = None, store_share: float = 1.0) -> None:
        self.cache = cache
        self.store_share = store_share
        self.waiting: list[tuple[int, Task]] = []
        self.going_on: list[tuple[int, Task]] = []  # lists that have begun, which come first
        self.handed_out: set[int] = set()  # keys of the last wave
        self.stores: dict[Loaded, Store] = {}
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
        """Takes a list; one that goes on comes before those that have not begun, while its texts are at hand."""
        queue = self.going_on if key in self.handed_out or task.whole else self.waiting
        queue.append((key, task))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Works off one wave of what waits; the wave grows or shrinks towards about a second."""
        self._let_go()
        wave, characters = self._next_wave()
        start = perf_counter()
        results = self._results([task for _, task in wave])
        seconds = perf_counter() - start
        if seconds < SHORT_SECONDS and characters >= self.wave:
            self.wave = min(2 * self.wave, LAST_WAVE)
        elif seconds > LONG_SECONDS:
            self.wave = max(1, self.wave // 2)
        keys = [key for key, _ in wave]
        self.handed_out = set(keys)
        return list(zip(keys, results, strict=True))

    def _let_go(self) -> None:
        """Empties the stores of models, or those of all other scorers, if they hold more than they may together.

        The texts of lists that go on stay, of which a part of the pairs was asked for: these lists are of few waves.
        """
        for by_model, max_bytes in ((True, MODEL_STORE_BYTES), (False, STORE_BYTES)):
            held = [key for key in self.stores if key[0].info.bucketed == by_model]
            if sum(self.stores[key].nbytes for key in held) > max_bytes * self.store_share:
                for key in held:
                    self._let_go_of(key)

    def _let_go_of(self, key: Loaded) -> None:
        """Empties a store but for the texts of lists that go on."""
        comparisons: list[Comparison] = []
        for _, task in self.going_on:
            for (_, part), whole in zip(task.metric.parts, task.whole, strict=False):
                if loaded_as(part) == key:
                    comparisons += chain.from_iterable(columns_of(part, whole))
        if comparisons:
            self.stores[key].keep(comparisons)
        else:
            del self.stores[key]

    def _next_wave(self) -> tuple[list[tuple[int, Task]], int]:
        """The next lists of about `wave` characters together, at least one, and how many characters they have."""
        wave: list[tuple[int, Task]] = []
        characters = 0
        for queue in (self.going_on, self.waiting):
            n = 0
            while n < len(queue) and (not characters or characters < self.wave):
                _, task = queue[n]
                characters += _characters(task)
                n += 1
            wave += queue[:n]
            del queue[:n]
        return wave, characters

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that wait."""
        for queue in (self.going_on, self.waiting):
            queue[:] = [(key, task) for key, task in queue if key not in keys]
        self.handed_out.difference_update(keys)

    def status(self) -> Status:
        """The work done here."""
        return Status(self.meter.now, perf_counter() - self.begun)

    def _results(self, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
        """Results of all tasks together; if that fails, of each alone, so that one bad list costs only itself.

        A list that is too large for the memory even alone is such a list too.

        Raises:
            ResourceError: what a metric needs is gone, such as its server; no other list would fare better.
        """
        try:
            return list(self._together(tasks))
        except BaseException as error:  # a user's metric may try to end the process
            if is_interrupt(error) or isinstance(error, ResourceError):
                raise
            if len(tasks) == 1:
                return [problem_of(tasks[0], error)]
        return [result for task in tasks for result in self._results([task])]

    def _together(self, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
        """Results of all tasks, metric by metric, so that lists share the representations of their texts."""
        parts: dict[tuple[int, int], Expectation] = {}
        truncations = [Truncation.NONE] * len(tasks)
        for metric, places in places_of(tasks).items():
            store = self._store(metric)
            lists = [(tasks[i].comparisons[p], tasks[i]) for i, p in places]
            parts.update(zip(places, expectations(metric, store, lists), strict=True))
            if not metric.info.bucketed:
                continue
            for (i, _), (comparison, _) in zip(places, lists, strict=True):
                for column in columns_of(metric, comparison):
                    truncations[i] = max(truncations[i], store.truncation_of(column))
        results: list[Result | DiscorankError] = []
        for i, task in enumerate(tasks):
            own_parts = [parts[i, p] for p in range(len(task.comparisons))]
            results.append(result_of(task, own_parts, truncations[i]))
        return results

    def _store(self, metric: Metric) -> Store:
        key = loaded_as(metric)
        if key not in self.stores:
            self.stores[key] = Store(metric.scorer, self.cache, self.meter)
        return self.stores[key]


def places_of(tasks: Sequence[Task]) -> dict[Metric, list[tuple[int, int]]]:
    """Which (task, part) every metric is."""
    places: dict[Metric, list[tuple[int, int]]] = {}
    for i, task in enumerate(tasks):
        for p, (_, part) in enumerate(task.metric.parts):
            places.setdefault(part, []).append((i, p))
    return places


def problem_of(task: Task, error: BaseException) -> DiscorankError:
    """What went wrong with a list, as its result."""
    if isinstance(error, DiscorankError):
        return error
    problem = MetricError(f"{type(error).__name__}: {error}", where=task.metric.signature())
    problem.__cause__ = error
    return problem


def is_linear(metric: Metric, keep_matrix: bool) -> bool:
    """Whether the list is valued without its matrix."""
    return metric.info.linear and not keep_matrix


def is_tiled(metric: Metric, comparison: Comparison, task: Task) -> bool:
    """Whether the list is so large that its matrix is never whole: each tile is reduced when it is compared."""
    return not task.keep_matrix and is_large(*shape_of(metric, comparison))


def expectations(
    metric: Metric, store: Store, lists: Sequence[tuple[Comparison, Task]]
) -> list[Expectation]:
    """Expected values of every list, by the linear form of the metric if it has one, else from matrix or tiles."""
    with_matrix = [
        comparison
        for comparison, task in lists
        if not is_linear(metric, task.keep_matrix) and not is_tiled(metric, comparison, task)
    ]
    whole = iter(matrices(metric, with_matrix, store))
    result: list[Expectation] = []
    for comparison, task in lists:
        if is_linear(metric, task.keep_matrix):
            result.append(linear_form(metric, store, comparison, task))
        elif is_tiled(metric, comparison, task):
            result.append(tiled(metric, store, comparison, task))
        else:
            result.append(reduced(metric, task, next(whole), store.meter))
    return result


def reduced(metric: Metric, task: Task, matrix: FloatArray, meter: Meter) -> Expectation:
    """Expected values from the whole matrix [H, R] of a list."""
    with meter.stage("choose"):
        values = expected_utility(matrix, *weights_of(metric, task))
        pairs = PairCounts.of(matrix)
    return Expectation(values, matrix if task.keep_matrix else None, pairs)


def tiled(metric: Metric, store: Store, comparison: Comparison, task: Task) -> Expectation:
    """Expected values of a large list, whose matrix is never whole."""
    sums, pairs = TiledSums(*shape_of(metric, comparison)), PairCounts()
    with failures_named(metric.signature()):
        for tile, values in tile_values(metric, comparison, store):
            of_tile = tile_sums(metric, task, tile, values, store.meter)
            sums.add(tile, of_tile.sums)
            pairs = pairs.plus(of_tile.pairs)
    return reduced_sums(metric, task, sums, pairs)


def tile_sums(metric: Metric, task: Task, tile: Tile, values: FloatArray, meter: Meter) -> TileSums:
    """What is kept of the values [rows, columns] of a tile."""
    with meter.stage("choose"):
        sums = weighted_sums(values, *weights_of(metric, task), tile.top, tile.left)
        return TileSums(sums, PairCounts.of(values))


def reduced_sums(metric: Metric, task: Task, sums: TiledSums, pairs: PairCounts) -> Expectation:
    """Expected values from the sums of all tiles of a list, of which so many pairs are finite.

    Raises:
        MetricError: all are finite, but their sums are not.
    """
    whole = sums.whole()
    if not pairs.not_finite and not np.isfinite(whole).all():
        problem = "utilities of this size cannot be added up"
        fix = "Scale them down in the metric, or shorten the list"
        raise MetricError(problem, where=metric.signature(), fix=fix)
    return Expectation(expected_of_sums(whole, *weights_of(metric, task)), None, pairs)


def weights_of(metric: Metric, task: Task) -> tuple[FloatArray, FloatArray | None]:
    """The weights [R] and own weights [H] that the columns of a list's matrix have."""
    if not metric.info.needs_references:  # one column, which is no reference
        return np.ones(1), None
    return task.weights, task.own


def linear_form(metric: Metric, store: Store, comparison: Comparison, task: Task) -> Expectation:
    """Expected values by the linear form; where one is not finite, from all pairs, which says of which."""
    with failures_named(metric.signature()), np.errstate(over="ignore", invalid="ignore"):
        values = _linear_values(metric, store, comparison, task)
    _, own = weights_of(metric, task)
    if np.isfinite(values[has_weight(task.weights, own)]).all():
        return Expectation(values)
    if is_tiled(metric, comparison, task):
        return tiled(metric, store, comparison, task)
    (matrix,) = matrices(metric, [comparison], store)
    return reduced(metric, task, matrix, store.meter)


def _linear_values(metric: Metric, store: Store, comparison: Comparison, task: Task) -> FloatArray:
    """Expected values [H] by the linear form, averaged over the sentences of documents."""
    sentences = lift(metric, comparison)
    values, pairs = np.zeros(len(comparison.hypotheses)), 0
    blocks = store.add(sentences)
    with store.meter.stage("compare"):
        for block in blocks:
            folded = Folded.of(block)
            values += linear_expected_utility(
                metric.scorer, store.reps, block, folded, task.weights, task.own
            )
            pairs += folded.block.cells
    store.meter.count(pairs=pairs)
    return values / len(sentences)


def result_of(
    task: Task, parts: Iterable[Expectation], truncation: Truncation = Truncation.NONE
) -> Result | DiscorankError:
    """The result of a list from the expectations of its parts and the worst truncation of its texts.

    A list in which a part has no finite pair has an error instead; one in which a part has some that are not has a
    flag.
    """
    parts = list(parts)
    counts = [part.pairs for part in parts]
    # where only some pairs are asked for, others may be finite
    error = None if task.whole else pairs_error(task.metric, counts)
    if error is not None:
        return error
    values = np.array([part.values for part in parts])
    matrices = tuple(part.matrix for part in parts if part.matrix is not None)
    flags = (*TRUNCATION_FLAGS[truncation], *pairs_flags(task.metric, counts))
    return Result(values, matrices if task.keep_matrix else (), flags)


def _characters(task: Task) -> int:
    """Characters of the texts of a task's list, and one."""
    first = (task.whole or task.comparisons)[0]
    return 1 + sum(len(str(item.text)) for item in first.items)
