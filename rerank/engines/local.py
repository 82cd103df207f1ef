"""The engine that works in the calling process: waves of lists, one store of representations per metric.

The expected values of a list under one part of its utility come by the linear form, from the whole matrix, or from
tiles; the result of a list is made of the values of all parts. A list without any finite pair is an error, one where
some pairs have no finite value is flagged. A part of weight 0 is no part of a sum: nothing of it is looked at. Of a
matrix every pair is, whatever its weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, MetricError, ResourceError, is_interrupt
from ...metrics.execution import segment_scores
from ...metrics.execution.evaluate import (
    Folded,
    Tile,
    compared,
    is_large,
    lift,
    matrices,
    plan_of,
    shape_of,
    tile_values,
)
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.mixture import Utility
from ...metrics.optional_packages import failures_named
from ...metrics.reading_plan import comparisons_of
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison, Truncation
from ..choice import with_flags
from .expectation import (
    TiledSums,
    expected_of_sums,
    expected_utilities,
    expected_utility,
    has_weight,
    linear_expected_utility,
    weighted_sums,
)
from .interface import Loaded, Result, Task, loaded_as
from .status import Status

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache

# representations kept for later lists: those that a model made, and those that cost little to make again
MODEL_STORE_BYTES = 1 << 26
STORE_BYTES = 1 << 23
FIRST_WAVE = 1 << 16  # characters handed to the metric at once, to begin with
LAST_WAVE = 1 << 20  # and at most, so that a wave's memory does not depend on how fast it is done
SHORT_SECONDS, LONG_SECONDS = 0.3, 1.5  # a wave outside this is made longer or shorter
SMALL_CELLS = 1 << 12  # of a matrix that is reduced together with others
STACKED = 1 << 8  # so many of these at once
NOT_FINITE = "not-finite"  # flag: some pairs have no finite value


class LocalEngine:
    """Loaded scorers in this process, one store of representations for each.

    Args:
        cache: keeps representations of models for later runs.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache
        self.waiting: list[tuple[int, Task]] = []
        self.continued: list[tuple[int, Task]] = []  # lists that have begun, which come first
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
        """Takes a list; one that is continued comes before those that have not begun, while its texts are at hand."""
        queue = self.continued if key in self.handed_out or task.whole else self.waiting
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

        The texts of continued lists stay, of which a part of the pairs was asked for: these lists are of few waves.
        """
        for by_model, max_bytes in ((True, MODEL_STORE_BYTES), (False, STORE_BYTES)):
            held = [key for key in self.stores if key[0].info.bucketed == by_model]
            if sum(self.stores[key].nbytes for key in held) > max_bytes:
                for key in held:
                    self._let_go_of(key)

    def _let_go_of(self, key: Loaded) -> None:
        """Empties a store but for the texts of lists that are continued."""
        comparisons: list[Comparison] = []
        for _, task in self.continued:
            for (_, part), whole in zip(task.metric.parts, task.whole, strict=False):
                if loaded_as(part) == key:
                    comparisons += comparisons_of([plan_of(part, whole)])
        if comparisons:
            self.stores[key].keep(comparisons)
        else:
            del self.stores[key]

    def _next_wave(self) -> tuple[list[tuple[int, Task]], int]:
        """The next lists of about `wave` characters together, at least one, and how many characters they have."""
        wave: list[tuple[int, Task]] = []
        characters = 0
        for queue in (self.continued, self.waiting):
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
        for queue in (self.continued, self.waiting):
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
        for metric, places in places_of(tasks).items():
            store = self._store(metric)
            lists = [(tasks[i].comparisons[p], tasks[i]) for i, p in places]
            parts.update(zip(places, expectations(metric, store, lists), strict=True))
            if metric.info.bucketed:
                for place, (comparison, task) in zip(places, lists, strict=True):
                    truncation = store.truncation_of(read_together(metric, comparison, task))
                    parts[place] = parts[place]._replace(truncation=truncation)
        return results_of(tasks, parts)

    def _store(self, metric: Metric) -> Store:
        key = loaded_as(metric)
        if key not in self.stores:
            self.stores[key] = Store(metric.scorer, self.cache, self.meter)
        return self.stores[key]


def _characters(task: Task) -> int:
    """Characters of the texts of a task's list, and one."""
    first = (task.whole or task.comparisons)[0]
    return 1 + sum([len(str(item.text)) for item in first.items])


PairCounts = Counter[
    str
]  # the pairs of a list under one metric, by their value: finite, nan, inf, -inf


def pair_counts(matrix: FloatArray) -> PairCounts:
    """The counts of a matrix of any shape."""
    counts = Counter(finite=int(np.isfinite(matrix).sum()))
    if counts["finite"] < matrix.size:
        counts["nan"] = int(np.isnan(matrix).sum())
        counts["inf"] = int(np.isposinf(matrix).sum())
        counts["-inf"] = int(np.isneginf(matrix).sum())
    return counts


class Expectation(NamedTuple):
    """Expected values [H] of a list under one part of its utility, and the matrix [H, R] where it is kept.

    `pairs` counts the matrix; a linear form, which has none, counts nothing, and its values are finite. `truncation` is
    the worst of the list's texts.
    """

    values: FloatArray
    matrix: FloatArray | None = None
    pairs: PairCounts = Counter()  # noqa: RUF012  never changed
    truncation: Truncation = Truncation.NONE


def places_of(tasks: Sequence[Task]) -> dict[Metric, list[tuple[int, int]]]:
    """Which (task, part) every metric is."""
    places: dict[Metric, list[tuple[int, int]]] = {}
    for i, task in enumerate(tasks):
        for p, (_, part) in enumerate(task.metric.parts):
            places.setdefault(part, []).append((i, p))
    return places


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
    results: list[Expectation | None] = [None] * len(lists)
    together, whole = [], []
    for i, (comparison, task) in enumerate(lists):
        if task.together:
            together.append(i)
        elif is_linear(metric, task.keep_matrix):
            results[i] = linear_form(metric, store, comparison, task)
        elif is_tiled(metric, comparison, task):
            results[i] = tiled(metric, store, comparison, task)
        else:
            whole.append(i)
    of_whole = matrices(metric, [lists[i][0] for i in whole], store)
    reduced = reduced_lists(metric, [lists[i][1] for i in whole], of_whole, store.meter)
    scored = _scores(metric, store, [lists[i][0] for i in together])
    for i, values in zip((*whole, *together), (*reduced, *scored), strict=True):
        results[i] = values
    return [values for values in results if values is not None]


def _scores(metric: Metric, store: Store, segments: Sequence[Comparison]) -> Iterator[Expectation]:
    """The score of the hypothesis of every segment against its references together."""
    if segments:
        values = segment_scores.scores(metric, segments, store)
        store.meter.count(pairs=sum(max(1, len(segment.references)) for segment in segments))
        for value in values:
            yield Expectation(np.array([value]), None, pair_counts(np.array([value])))


def read_together(metric: Metric, comparison: Comparison, task: Task) -> Sequence[Comparison]:
    """All that is compared for a part of a list."""
    if task.together:
        return compared(metric, comparison)
    return comparisons_of([plan_of(metric, comparison)])


def reduced_lists(
    metric: Metric, tasks: Sequence[Task], whole: Sequence[FloatArray], meter: Meter
) -> list[Expectation]:
    """Expected values from the whole matrices [H, R] of some lists; small ones of one shape are reduced at once."""
    places_of_shape: dict[tuple[int, ...], list[int]] = {}
    for i, (task, matrix) in enumerate(zip(tasks, whole, strict=True)):
        if matrix.size <= SMALL_CELLS and task.own is None:
            places_of_shape.setdefault(matrix.shape, []).append(i)
    at_once: dict[int, Expectation] = {}
    with meter.stage("choose"):
        for places in places_of_shape.values():
            for start in range(0, len(places), STACKED):
                at_once |= _means(metric, tasks, whole, places[start : start + STACKED])
    return [
        at_once.get(i) or reduced(metric, task, matrix, meter)
        for i, (task, matrix) in enumerate(zip(tasks, whole, strict=True))
    ]


def _means(
    metric: Metric, tasks: Sequence[Task], whole: Sequence[FloatArray], places: Sequence[int]
) -> dict[int, Expectation]:
    """The weighted means of lists of one shape, by the place of the list, of those where all is finite."""
    stacked = np.stack([whole[i] for i in places])
    weights = np.stack([weights_of(metric, tasks[i])[0] for i in places])
    values = expected_utilities(stacked, weights)
    is_finite = np.isfinite(stacked).all(axis=(1, 2)) & np.isfinite(values).all(axis=1)
    pairs = Counter(finite=stacked[0].size)
    means = {}
    for number in np.flatnonzero(is_finite).tolist():
        i = places[number]
        means[i] = Expectation(values[number], whole[i] if tasks[i].keep_matrix else None, pairs)
    return means


def reduced(metric: Metric, task: Task, matrix: FloatArray, meter: Meter) -> Expectation:
    """Expected values from the whole matrix [H, R] of a list."""
    with meter.stage("choose"):
        weights, own = weights_of(metric, task)
        values = expected_utility(matrix, weights, own)
        pairs = pair_counts(matrix)
    return Expectation(values, matrix if task.keep_matrix else None, pairs)


def tiled(metric: Metric, store: Store, comparison: Comparison, task: Task) -> Expectation:
    """Expected values of a large list, whose matrix is never whole."""
    sums, pairs = TiledSums(*shape_of(metric, comparison)), PairCounts()
    with failures_named(metric.signature()):
        for tile, values in tile_values(metric, comparison, store):
            of_tile, own_pairs = tile_sums(metric, task, tile, values, store.meter)
            sums.add(tile, of_tile)
            pairs += own_pairs
    return reduced_sums(metric, task, sums, pairs)


def tile_sums(
    metric: Metric, task: Task, tile: Tile, values: FloatArray, meter: Meter
) -> tuple[FloatArray, PairCounts]:
    """The weighted sum of every row [rows] of the values [rows, columns] of a tile, and the counts of its pairs."""
    with meter.stage("choose"):
        sums = weighted_sums(values, *weights_of(metric, task), tile.top, tile.left)
        return sums, pair_counts(values)


def reduced_sums(metric: Metric, task: Task, sums: TiledSums, pairs: PairCounts) -> Expectation:
    """Expected values from the sums of all tiles of a list, of which so many pairs are finite.

    Raises:
        MetricError: all are finite, but their sums are not.
    """
    whole = sums.whole()
    if _num_not_finite(pairs) == 0 and not np.isfinite(whole).all():
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


def _num_not_finite(pairs: PairCounts) -> int:
    return pairs.total() - pairs["finite"]


TRUNCATION_FLAGS: Mapping[Truncation, tuple[str, ...]] = {
    Truncation.NONE: (),
    Truncation.CONTEXT: ("truncated-context",),
    Truncation.TEXT: ("truncated-text",),
}


def results_of(
    tasks: Sequence[Task], parts: Mapping[tuple[int, int], Expectation]
) -> list[Result | DiscorankError]:
    """The results of lists from the expectations of their parts, by (task, part)."""
    return [
        result_of(task, [parts[i, p] for p in range(len(task.comparisons))])
        for i, task in enumerate(tasks)
    ]


def result_of(task: Task, parts: Sequence[Expectation]) -> Result | DiscorankError:
    """The result of a list from the expectations of its parts.

    A list in which a part has no finite pair has an error instead; one in which a part has some that are not has a
    flag.
    """
    flags = TRUNCATION_FLAGS[max(part.truncation for part in parts)]
    for (weight, metric), part in zip(task.metric.parts, parts, strict=True):
        if weight and _num_not_finite(part.pairs):
            # where only some pairs are asked for, others may be finite
            if not (part.pairs["finite"] or task.whole):
                kinds = [f"{n} {name}" for name, n in part.pairs.items() if n]
                problem = f"no pair has a finite value, found {', '.join(kinds)}"
                fix = "Look at the metric's model and at the texts of the list"
                return MetricError(problem, where=metric.signature(), fix=fix)
            flags = with_flags(flags, [NOT_FINITE])
    values = np.array([part.values for part in parts])
    matrices = [part.matrix for part in parts if part.matrix is not None]
    return Result(values, tuple(matrices) if task.keep_matrix else (), flags)


def problem_of(task: Task, error: BaseException) -> DiscorankError:
    """The error of a list, as its result."""
    if isinstance(error, DiscorankError):
        return error
    problem = MetricError(f"{type(error).__name__}: {error}", where=task.metric.signature())
    problem.__cause__ = error
    return problem
