"""Ray actors: the local engine on the blocks of lists they are sent, or one stage of some, with loaded metrics.

Metrics are sent once and named by number afterwards: a copy that came with a list would be loaded again. The stages of
a list may run in different processes: represent some texts, compare tiles, reduce matrices. Every value has the bytes
that the local engine gives it: a representation depends on its item alone, a value on its pair alone, and each matrix
is reduced by the same functions: whole, or, if it is large, tile by tile in an order of summation that does not depend
on tiles. It knows nothing of Ray.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ....metrics.base import Metric
from ....metrics.errors import DiscorankError, ResourceError, is_interrupt
from ....metrics.execution.cache import Cache
from ....metrics.execution.evaluate import (
    Tile,
    check_memory,
    lift,
    matrices_of_plans,
    plan_of,
    shape_of,
    with_their_transposed,
)
from ....metrics.execution.meter import Meter, Metered
from ....metrics.execution.store import Fresh, Store
from ....metrics.mixture import Mix
from ....metrics.optional_packages import failures_named
from ....metrics.reading_plan import MeanPiece, Plan, PlanOfMeans, comparisons_of
from ....metrics.representations import FloatArray
from ....metrics.scorer import Scorer
from ....metrics.storage.limits import Limits, set_limits
from ....metrics.text.texts import Comparison, Item, Truncation
from ..expectation import TiledSums
from ..interface import Loaded, Result, Task, loaded_as
from ..local import (
    Expectation,
    LocalEngine,
    PairCounts,
    is_linear,
    is_tiled,
    linear_form,
    places_of,
    problem_of,
    reduced,
    reduced_sums,
    result_of,
    tile_sums,
)

Keyed = tuple[int, Result | DiscorankError]  # the result of the list of this key
MAX_SHARES = 4  # shares of groups that are kept for further steps
T = TypeVar("T")


class Layout(NamedTuple):
    """Which of the values that a reduction reads are a metric's: representations first, then those of its tiles."""

    metric: int
    has_representations: bool
    num_tile_steps: int


class SentTask(NamedTuple):
    """A task on its way to a worker."""

    key: int
    amounts: tuple[int, int]  # characters and pairs
    parts: tuple[tuple[float, int], ...]  # (weight, number of the metric) of its utility
    id: str
    comparisons: tuple[Comparison, ...]
    weights: FloatArray  # [R]
    own: FloatArray | None  # [H]
    keep_matrix: bool
    whole: tuple[Comparison, ...]
    together: bool

    @classmethod
    def of(cls, key: int, task: Task, numbers: dict[Loaded, int]) -> SentTask:
        """The task with its metrics named by number."""
        parts = tuple((weight, numbers[loaded_as(part)]) for weight, part in task.metric.parts)
        return cls(key, _amounts(task), parts, task.id, *task[2:])

    def task(self, metrics: Sequence[Metric]) -> Task:
        """The task, with the metrics of this process."""
        mix = Mix(tuple((weight, metrics[number]) for weight, number in self.parts))
        return Task(self.id, mix, *self[4:])


class StepResult(NamedTuple):
    """The outcome of a step."""

    seconds: float
    work: Metered
    results: list[Keyed]  # of lists that are finished
    nbytes: int = 0  # of what stays in the object store
    error: DiscorankError | None = None  # why the step failed


class LoadResult(NamedTuple):
    """The outcome of loading metrics."""

    error: DiscorankError | None
    pairwise: frozenset[int] = frozenset()  # numbers of metrics that run a model on pairs
    warnings: tuple[str, ...] = ()  # what loading warned of


class Worker:
    """A local engine with loaded metrics; its methods are called by steps (see `Step`).

    Args:
        cache: folder and size of a cache of representations.
        bounds: the bounds on what is read, those of the driver.
    """

    def __init__(self, cache: tuple[str, int] | None, bounds: Limits | None = None) -> None:
        if bounds is not None:
            set_limits(bounds)
        self.cache = cache
        self.engine = LocalEngine()
        self.metrics: list[Metric] = []
        self.shares: dict[tuple[int, int], Share] = {}  # by number of the group and of the metric

    def load(self, metrics: Sequence[Metric]) -> LoadResult:
        """Loads those of the metrics that are new here."""
        new = metrics[len(self.metrics) :]
        try:
            if self.cache and self.engine.cache is None:  # opened in the thread that uses it
                self.engine.cache = Cache(*self.cache)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                self.engine.load(new)
            # no array in the object store is writable
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        except DiscorankError as error:
            return LoadResult(error)
        self.metrics += new
        pairwise = [number for number, metric in enumerate(self.metrics) if _is_pairwise(metric)]
        return LoadResult(None, frozenset(pairwise), tuple(_messages(caught)))

    def pulse(self) -> None:
        """Answers, as long as the process lives."""

    def value(self, block: Sequence[SentTask]) -> StepResult:
        """The results of a block of lists."""
        start = perf_counter()
        results: list[Keyed] = []
        error = None
        try:
            for task in block:
                self.engine.submit(task.key, task.task(self.metrics))
            while len(results) < len(block):
                results += self.engine.collect()
        except ResourceError as gone:
            error = gone
        seconds = perf_counter() - start
        return StepResult(seconds, self.engine.meter.take(), results, error=error)

    def represent(
        self,
        group: int,
        block: Sequence[SentTask],
        metric: int,
        chunk: int,
        chunks: int,
    ) -> tuple[Fresh | None, StepResult]:
        """The representations of a chunk of a group's texts; None where it has none."""

        def run() -> Fresh | None:
            return self._share(group, block, metric).represent(chunk, chunks, self.engine.cache)

        return self._stage(block, run, lambda fresh: fresh.nbytes if fresh else 0)

    def join(
        self,
        group: int,
        block: Sequence[SentTask],
        *chunks: Fresh | None,
    ) -> tuple[Fresh | None, StepResult]:
        """Chunks as one, in order."""

        def run() -> Fresh:
            return Fresh.concat([chunk for chunk in chunks if chunk is not None])

        return self._stage(block, run, lambda fresh: fresh.nbytes)

    def compare(
        self,
        group: int,
        block: Sequence[SentTask],
        metric: int,
        tiles: Sequence[Tile],
        fresh: Fresh,
    ) -> tuple[list[TileValues] | None, StepResult]:
        """The values of some tiles of a group's matrices; of large ones their sums."""

        def run() -> list[TileValues]:
            return self._share(group, block, metric).compare(fresh, tiles)

        return self._stage(block, run, lambda pieces: sum(piece.values.nbytes for piece in pieces))

    def reduce(
        self,
        group: int,
        block: Sequence[SentTask],
        layout: Sequence[Layout],
        *values: Any,
    ) -> tuple[None, StepResult]:
        """The results of a group from all that was compared."""

        def run() -> list[Keyed]:
            reduced_parts: dict[tuple[int, int], Reduced] = {}
            rest = iter(values)
            for metric, has_representations, num_tile_steps in layout:
                fresh = next(rest) if has_representations else None
                pieces: list[TileValues] = []
                for tile_values in islice(rest, num_tile_steps):
                    pieces += tile_values
                share = self._share(group, block, metric)
                reduced_parts |= share.reduce(fresh, pieces)
            keys = [task.key for task in block]
            tasks = [task.task(self.metrics) for task in block]
            return list(zip(keys, results(tasks, reduced_parts), strict=True))

        keyed, outcome = self._stage(block, run, lambda _: 0)
        return None, outcome._replace(results=keyed or [])

    def _share(self, group: int, block: Sequence[SentTask], metric: int) -> Share:
        """A metric's part in a group; several steps of a group are often done by one worker."""
        if (group, metric) not in self.shares:
            while len(self.shares) >= MAX_SHARES:
                oldest = next(iter(self.shares))
                del self.shares[oldest]
            tasks = [task.task(self.metrics) for task in block]
            self.shares[group, metric] = Share(self.metrics[metric], tasks, self.engine.meter)
        return self.shares[group, metric]

    def _stage(
        self,
        block: Sequence[SentTask],
        run: Callable[[], T],
        size: Callable[[T], int],
    ) -> tuple[T | None, StepResult]:
        """The result of `run`, or its error as the local engine would say it."""
        start = perf_counter()
        try:
            value = run()
        except BaseException as error:
            if is_interrupt(error):
                raise
            problem = problem_of(block[0].task(self.metrics), error)
            seconds, work = perf_counter() - start, self.engine.meter.take()
            return None, StepResult(seconds, work, [], error=problem)
        seconds, work = perf_counter() - start, self.engine.meter.take()
        return value, StepResult(seconds, work, [], size(value))


def _messages(caught: Iterable[warnings.WarningMessage]) -> Iterator[str]:
    """Warnings for a user; those of libraries to their developers are left out."""
    for one in caught:
        if issubclass(one.category, UserWarning | RuntimeWarning):
            yield str(one.message)


def _is_pairwise(metric: Metric) -> bool:
    """Whether a metric runs a model on pairs."""
    return type(metric.scorer).pair_cost is not Scorer.pair_cost


def _amounts(task: Task) -> tuple[int, int]:
    """Characters and pairs of a task."""
    characters = pairs = 0
    for comparison in task.comparisons:
        items = comparison.hypotheses
        if comparison.references is not comparison.hypotheses:
            items = items + comparison.references
        characters += 1 + sum(len(str(item.text)) for item in items)
        pairs += len(comparison.hypotheses) * max(1, len(comparison.references))
    return characters, pairs


class TileValues(NamedTuple):
    """Values of a tile [rows, columns], or of a large list their sums [rows], and the most that its texts lack.

    `pairs` is counted where only sums are kept.
    """

    tile: Tile
    values: FloatArray
    truncation: Truncation
    pairs: PairCounts = PairCounts()


class Share:
    """The work of one metric for some lists.

    Args:
        metric: the metric.
        tasks: the lists.
        meter: what the work is counted into.
    """

    def __init__(self, metric: Metric, tasks: Sequence[Task], meter: Meter) -> None:
        self.metric = metric
        self.meter = meter
        self.places = places_of(tasks)[metric]
        self.lists = [(tasks[i], tasks[i].comparisons[p]) for i, p in self.places]
        self.plans = [self._plan(task, comparison) for task, comparison in self.lists]
        comparisons = comparisons_of(self.plans)
        items = dict.fromkeys(chain.from_iterable(unit.items for unit in comparisons))
        self.items = sorted(items, key=_length)  # so that texts of one chunk fill batches
        self.row = {item: i for i, item in enumerate(self.items)}

    def _plan(self, task: Task, comparison: Comparison) -> Plan:
        """How a list's values are made; of nothing where it has no values."""
        lacks_references = self.metric.info.needs_references and not comparison.references
        if not comparison.hypotheses or lacks_references:
            return PlanOfMeans([])
        if is_linear(self.metric, task.keep_matrix):
            return PlanOfMeans([MeanPiece(lift(self.metric, comparison))])
        return plan_of(self.metric, comparison)

    def represent(self, chunk: int, chunks: int, cache: Cache | None) -> Fresh | None:
        """The representations of one of `chunks` chunks of about equally many characters; None if it is empty."""
        if not self.items:
            return None
        ends = np.cumsum([_length(item) for item in self.items])  # [items], characters so far
        total = ends[-1]
        start = np.searchsorted(ends, round(total * chunk / chunks), "right")
        stop = np.searchsorted(ends, round(total * (chunk + 1) / chunks), "right")
        items = self.items[start:stop]
        if not items:
            return None
        with failures_named(self.metric.signature()):
            return Store(self.metric.scorer, cache, self.meter).fresh(items)

    def store(self, fresh: Fresh) -> Store:
        """All chunks one after the other, as a store."""
        return Store.holding(self.metric.scorer, self.row, fresh, self.meter)

    def compare(self, fresh: Fresh, tiles: Sequence[Tile]) -> list[TileValues]:
        """The values of some tiles; a tile and the same one transposed should follow one another."""
        store = self.store(fresh)
        at_once = [tile for tile in tiles if not self._is_tiled(tile.place)]
        result = self._values(store, at_once)
        # of a large list, only the sums of a tile and of the same one transposed are kept before the next is compared
        large = [tile for tile in tiles if self._is_tiled(tile.place)]
        for together in with_their_transposed(large):
            for piece in self._values(store, together):
                task, _ = self.lists[piece.tile.place]
                kept = tile_sums(self.metric, task, piece.tile, piece.values, self.meter)
                result.append(piece._replace(values=kept.sums, pairs=kept.pairs))
        return result

    def _values(self, store: Store, tiles: Sequence[Tile]) -> list[TileValues]:
        """The values [rows, columns] of some tiles, compared together."""
        parts = [self.plans[tile.place].part(tile.rows, tile.columns) for tile in tiles]
        with failures_named(self.metric.signature()):
            values = matrices_of_plans(self.metric.scorer, parts, store)
        truncations = [store.truncation_of(comparisons_of([part])) for part in parts]
        return [TileValues(*row) for row in zip(tiles, values, truncations, strict=True)]

    def _is_tiled(self, place: int) -> bool:
        """Whether only sums of the tiles of a list are kept."""
        task, comparison = self.lists[place]
        return is_tiled(self.metric, comparison, task)

    def linear(self, fresh: Fresh, place: int) -> Reduced:
        """Expectations [H] of a list without its matrix, and the most that was left out of its texts."""
        store = self.store(fresh)
        task, comparison = self.lists[place]
        truncation = store.truncation_of(comparisons_of([self.plans[place]]))
        return Reduced(linear_form(self.metric, store, comparison, task), truncation)

    def reduce(
        self,
        fresh: Fresh | None,
        pieces: Sequence[TileValues],
    ) -> dict[tuple[int, int], Reduced]:
        """Values and truncation of every (task, part): from all its tiles, or from representations if it is linear."""
        reduced_lists: dict[tuple[int, int], Reduced] = {}
        for place, (task_and_part, (task, _)) in enumerate(
            zip(self.places, self.lists, strict=True)
        ):
            if (
                fresh is not None
                and self.plans[place].pieces
                and is_linear(self.metric, task.keep_matrix)
            ):
                reduced_lists[task_and_part] = self.linear(fresh, place)
            elif self._is_tiled(place):
                sums, pairs, truncation = self._sums(place, pieces)
                expectation = reduced_sums(self.metric, task, sums, pairs)
                reduced_lists[task_and_part] = Reduced(expectation, truncation)
            else:
                u, truncation = self._matrix(place, pieces)
                expectation = reduced(self.metric, task, u, self.meter)
                reduced_lists[task_and_part] = Reduced(expectation, truncation)
        return reduced_lists

    def _matrix(self, place: int, pieces: Sequence[TileValues]) -> tuple[FloatArray, Truncation]:
        """The matrix [H, R] of a list put together from tiles, and the most that was left out of its texts."""
        _, comparison = self.lists[place]
        shape = shape_of(self.metric, comparison)
        check_memory(self.metric, shape)
        u = np.zeros(shape)
        truncation = Truncation.NONE
        for tile, values, tile_truncation, _ in pieces:
            if tile.place == place:
                u[tile.top : tile.bottom, tile.left : tile.right] = values
                truncation = max(truncation, tile_truncation)
        return u, truncation

    def _sums(
        self, place: int, pieces: Sequence[TileValues]
    ) -> tuple[TiledSums, PairCounts, Truncation]:
        """The sums of a large list's tiles, its pairs, and the most that was left out of its texts."""
        _, comparison = self.lists[place]
        sums = TiledSums(*shape_of(self.metric, comparison))
        pairs, truncation = PairCounts(), Truncation.NONE
        for tile, tile_values, tile_truncation, tile_pairs in pieces:
            if tile.place == place:
                sums.add(tile, tile_values)
                pairs = pairs.plus(tile_pairs)
                truncation = max(truncation, tile_truncation)
        return sums, pairs, truncation


class Reduced(NamedTuple):
    """The values of a part of a list."""

    expectation: Expectation
    truncation: Truncation


def results(
    tasks: Sequence[Task], reduced_parts: Mapping[tuple[int, int], Reduced]
) -> list[Result | DiscorankError]:
    """The results of lists from those of their parts, by (task, part)."""
    list_results = []
    for i, task in enumerate(tasks):
        parts = [reduced_parts[i, p] for p in range(len(task.comparisons))]
        expectations = [part.expectation for part in parts]
        truncation = max(part.truncation for part in parts)
        list_results.append(result_of(task, expectations, truncation))
    return list_results


def _length(item: Item) -> int:
    """Characters of an item with its context."""
    context = sum(len(sentence) for sentence in item.context)
    return 1 + len(str(item.text)) + context
