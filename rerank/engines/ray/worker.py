"""Ray actors: the local engine on the blocks of lists they are sent, or one stage of some, with loaded metrics.

Metrics are sent once and named by number afterwards: a copy that came with a list would be loaded again. The stages of
a list may run in different processes: represent some texts, compare tiles, reduce matrices. Every value has the bytes
that the local engine gives it: a representation depends on its item alone, a value on its pair alone, and each matrix
is reduced by the same functions: whole, or, if it is large, tile by tile in an order of summation that does not depend
on tiles. It knows nothing of Ray.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
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
    results_of,
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


def stage(run: Callable[..., T]) -> Callable[..., tuple[T | None, StepResult]]:
    """Make a stage of a worker's method: its value and its outcome, with an error as the local engine has it."""

    @wraps(run)
    def timed(
        worker: Worker, group: int, block: Sequence[SentTask], *arguments: Any
    ) -> tuple[T | None, StepResult]:
        start = perf_counter()
        value = problem = None
        try:
            value = run(worker, group, block, *arguments)
        except BaseException as error:
            if is_interrupt(error):
                raise
            problem = problem_of(block[0].task(worker.metrics), error)
        seconds, work = perf_counter() - start, worker.engine.meter.take()
        return value, StepResult(seconds, work, [], _nbytes(value), problem)

    return timed


def _nbytes(value: Any) -> int:
    """Bytes of the value of a stage."""
    if isinstance(value, Fresh):
        return value.nbytes
    pieces = value if isinstance(value, list) else []
    return sum(piece.values.nbytes for piece in pieces if isinstance(piece, TileValues))


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

    @stage
    def represent(
        self, group: int, block: Sequence[SentTask], metric: int, chunk: int, chunks: int
    ) -> Fresh | None:
        """The representations of a chunk of a group's texts; None where it has none."""
        return self._share(group, block, metric).represent(chunk, chunks, self.engine.cache)

    @stage
    def join(self, group: int, block: Sequence[SentTask], *chunks: Fresh | None) -> Fresh:
        """Chunks as one, in order."""
        return Fresh.concat([chunk for chunk in chunks if chunk is not None])

    @stage
    def compare(
        self,
        group: int,
        block: Sequence[SentTask],
        metric: int,
        tiles: Sequence[Tile],
        fresh: Fresh,
    ) -> list[TileValues]:
        """The values of some tiles of a group's matrices; of large ones their sums."""
        return self._share(group, block, metric).compare(fresh, tiles)

    def reduce(
        self, group: int, block: Sequence[SentTask], layout: Sequence[Layout], *values: Any
    ) -> tuple[None, StepResult]:
        """The results of a group from all that was compared."""
        keyed, outcome = self._reduced(group, block, layout, *values)
        return None, outcome._replace(results=keyed or [], nbytes=0)

    @stage
    def _reduced(
        self, group: int, block: Sequence[SentTask], layout: Sequence[Layout], *values: Any
    ) -> list[Keyed]:
        parts: dict[tuple[int, int], Expectation] = {}
        rest = iter(values)
        for metric, has_representations, num_tile_steps in layout:
            fresh = next(rest) if has_representations else None
            pieces = list(chain.from_iterable(islice(rest, num_tile_steps)))
            parts |= self._share(group, block, metric).reduce(fresh, pieces)
        tasks = [task.task(self.metrics) for task in block]
        return [
            (task.key, result) for task, result in zip(block, results_of(tasks, parts), strict=True)
        ]

    def _share(self, group: int, block: Sequence[SentTask], metric: int) -> Share:
        """A metric's part in a group; several steps of a group are often done by one worker."""
        if (group, metric) not in self.shares:
            while len(self.shares) >= MAX_SHARES:
                oldest = next(iter(self.shares))
                del self.shares[oldest]
            tasks = [task.task(self.metrics) for task in block]
            self.shares[group, metric] = Share(self.metrics[metric], tasks, self.engine.meter)
        return self.shares[group, metric]


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
    pairs: PairCounts = Counter()  # noqa: RUF012  never changed


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
                sums, pairs = tile_sums(self.metric, task, piece.tile, piece.values, self.meter)
                result.append(piece._replace(values=sums, pairs=pairs))
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

    def reduce(
        self, fresh: Fresh | None, pieces: Sequence[TileValues]
    ) -> dict[tuple[int, int], Expectation]:
        """The expectation of every (task, part): from all its tiles, or from representations if it is linear."""
        reduced_parts: dict[tuple[int, int], Expectation] = {}
        for place, (task, comparison) in enumerate(self.lists):
            own = [piece for piece in pieces if piece.tile.place == place]
            truncation = max((piece.truncation for piece in own), default=Truncation.NONE)
            linear = is_linear(self.metric, task.keep_matrix) and self.plans[place].pieces
            if fresh is not None and linear:
                store = self.store(fresh)
                truncation = store.truncation_of(comparisons_of([self.plans[place]]))
                expectation = linear_form(self.metric, store, comparison, task)
            elif self._is_tiled(place):
                sums, pairs = TiledSums(*shape_of(self.metric, comparison)), PairCounts()
                for piece in own:
                    sums.add(piece.tile, piece.values)
                    pairs += piece.pairs
                expectation = reduced_sums(self.metric, task, sums, pairs)
            else:
                shape = shape_of(self.metric, comparison)
                check_memory(self.metric, shape)
                matrix = np.zeros(shape)
                for piece in own:
                    tile = piece.tile
                    matrix[tile.top : tile.bottom, tile.left : tile.right] = piece.values
                expectation = reduced(self.metric, task, matrix, self.meter)
            reduced_parts[self.places[place]] = expectation._replace(truncation=truncation)
        return reduced_parts


def _length(item: Item) -> int:
    """Characters of an item with its context."""
    context = sum(len(sentence) for sentence in item.context)
    return 1 + len(str(item.text)) + context
