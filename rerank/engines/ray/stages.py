"""Lists valued in stages that may run in different processes: represent some texts, compare tiles, reduce matrices.

Every value has the bytes that the local engine gives it: a representation depends on its item alone, a value on its
pair alone, and each matrix is reduced by the same functions: whole, or, if it is large, tile by tile in an order of
summation that does not depend on tiles. It knows nothing of Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ....metrics.base import Metric
from ....metrics.errors import DiscorankError
from ....metrics.execution.by_sentence import lift, plan_of
from ....metrics.execution.cache import Cache
from ....metrics.execution.evaluate import check_memory, matrices_of_plans, shape_of
from ....metrics.execution.failures import failures_named
from ....metrics.execution.meter import Meter
from ....metrics.execution.store import Fresh, Store
from ....metrics.execution.tiles import Tile, with_their_transposed
from ....metrics.reading_plan import MeanPiece, Plan, PlanOfMeans, comparisons_of
from ....metrics.representations import FloatArray
from ....metrics.text.texts import Comparison, Item, Truncation
from ...expectation import TiledSums
from ..interface import Result, Task
from ..part_values import (
    Expectation,
    PairCounts,
    is_linear,
    is_tiled,
    linear_form,
    places_of,
    reduced,
    reduced_sums,
    result_of,
    tile_sums,
)


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
