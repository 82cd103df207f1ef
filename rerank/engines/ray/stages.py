"""Lists valued in stages that may run in different processes: represent some texts, compare tiles, reduce matrices.

Every value has the bytes that the local engine gives it: a representation depends on its item alone, a value on its
pair alone, and each matrix is reduced whole, by the same function. It knows nothing of Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ....metrics.base import Metric
from ....metrics.execution.by_sentence import columns_of, lift
from ....metrics.execution.cache import Cache
from ....metrics.execution.evaluate import of_columns
from ....metrics.execution.meter import Meter
from ....metrics.execution.store import Fresh, Store
from ....metrics.representations import FloatArray
from ....metrics.text.texts import Comparison, Item, Truncation
from ..interface import Result, Task
from ..local import Expectation, is_linear, linear_form, places_of, reduced, result_of


class Tile(NamedTuple):
    """A part of a list's matrix: rows from `top` to `bottom`, columns from `left` to `right`."""

    place: int  # which of the lists that its metric compares
    top: int
    bottom: int
    left: int
    right: int


class Compared(NamedTuple):
    """Values of a tile, and the most that was left out of its texts."""

    tile: Tile
    values: FloatArray
    truncation: Truncation


class Share:
    """What one metric has to do for some lists.

    Args:
        metric: the metric.
        tasks: the lists.
        meter: what the work is counted into.
    """

    def __init__(self, metric: Metric, tasks: Sequence[Task], meter: Meter) -> None:
        self.metric, self.meter = metric, meter
        self.places = places_of(tasks)[metric]
        self.lists = [(tasks[i], tasks[i].comparisons[p]) for i, p in self.places]
        wanted = metric.info.needs_references
        self.columns = [
            []
            if not c.hypotheses or (wanted and not c.references)
            else [lift(metric, c)]
            if is_linear(metric, task)
            else columns_of(metric, c)
            for task, c in self.lists
        ]
        units = [unit for columns in self.columns for column in columns for unit in column]
        items = dict.fromkeys(chain.from_iterable(map(_items, units)))
        self.items = sorted(items, key=_length)  # so that texts of one chunk fill batches
        self.row = {item: i for i, item in enumerate(self.items)}

    def represent(self, chunk: int, chunks: int, cache: Cache | None) -> Fresh | None:
        """The representations of one of so many chunks of about equally many characters; None if it is empty."""
        ends = np.cumsum([_length(item) for item in self.items])
        start, stop = (round(len(ends) and ends[-1] * k / chunks) for k in (chunk, chunk + 1))
        items = self.items[
            np.searchsorted(ends, start, "right") : np.searchsorted(ends, stop, "right")
        ]
        return Store(self.metric.scorer, cache, self.meter).fresh(items) if items else None

    def store(self, fresh: Fresh) -> Store:
        """All chunks one after the other, as a store."""
        return Store.holding(self.metric.scorer, self.row, fresh, self.meter)

    def compare(self, fresh: Fresh, tiles: Sequence[Tile]) -> list[Compared]:
        """The values of some tiles; a tile and the same one turned should follow one another."""
        store = self.store(fresh)
        columns = [_part_of(self.columns[tile.place], tile) for tile in tiles]
        found = of_columns(self.metric.scorer, columns, store)
        truncations = [_truncation_of(store, some) for some in columns]
        return [Compared(*each) for each in zip(tiles, found, truncations, strict=True)]

    def linear(self, fresh: Fresh, place: int) -> tuple[FloatArray, Truncation]:
        """Expectations [H] of a list without its matrix, and the most that was left out of its texts."""
        store = self.store(fresh)
        task, comparison = self.lists[place]
        truncation = _truncation_of(store, self.columns[place])
        return linear_form(self.metric, store, comparison, task), truncation

    def reduce(
        self, fresh: Fresh | None, pieces: Sequence[Compared]
    ) -> dict[tuple[int, int], Reduced]:
        """Values and truncation of every (task, part): from all its tiles, or from representations if it is linear."""
        found: dict[tuple[int, int], Reduced] = {}
        for place, ((task, comparison), where) in enumerate(
            zip(self.lists, self.places, strict=True)
        ):
            if fresh is not None and self.columns[place] and is_linear(self.metric, task):
                values, truncation = self.linear(fresh, place)
                found[where] = Reduced(values, None, truncation)
                continue
            wide = len(comparison.references) if self.metric.info.needs_references else 1
            u = np.zeros((len(comparison.hypotheses), wide))
            truncation = Truncation.NONE
            for tile, values, lost in pieces:
                if tile.place == place:
                    u[tile.top : tile.bottom, tile.left : tile.right] = values
                    truncation = max(truncation, lost)
            found[where] = Reduced(*reduced(self.metric, task, u, self.meter), truncation)
        return found


class Reduced(NamedTuple):
    """What a part of a list is worth."""

    values: FloatArray
    matrix: FloatArray | None
    truncation: Truncation


def results(tasks: Sequence[Task], found: Mapping[tuple[int, int], Reduced]) -> list[Result]:
    """The results of lists from those of their parts."""
    parts = [[found[i, p] for p in range(len(task.comparisons))] for i, task in enumerate(tasks)]
    return [
        result_of(
            task,
            [Expectation(part.values, part.matrix) for part in some],
            max(part.truncation for part in some),
        )
        for task, some in zip(tasks, parts, strict=True)
    ]


def _truncation_of(store: Store, columns: Sequence[Sequence[Comparison]]) -> Truncation:
    """The most that was left out of any text of a list."""
    return max((store.truncation_of(column) for column in columns), default=Truncation.NONE)


def _part_of(columns: Sequence[Sequence[Comparison]], tile: Tile) -> list[list[Comparison]]:
    """A tile of every comparison that the list's matrix is made of."""
    if len(columns) > 1:  # one for every reference
        return [
            [_tile(unit, tile, slice(None)) for unit in column]
            for column in columns[tile.left : tile.right]
        ]
    return [
        [_tile(unit, tile, slice(tile.left, tile.right)) for unit in column] for column in columns
    ]


def _tile(unit: Comparison, tile: Tile, columns: slice) -> Comparison:
    rows = unit.hypotheses[tile.top : tile.bottom]
    if unit.references is unit.hypotheses and (tile.top, tile.bottom) == (tile.left, tile.right):
        return Comparison(rows, rows, unit.source)
    return Comparison(rows, unit.references[columns], unit.source)


def _items(unit: Comparison) -> Sequence[Item]:
    source = () if unit.source is None else (unit.source,)
    return (
        (*unit.hypotheses, *source)
        if unit.references is unit.hypotheses
        else (*unit.hypotheses, *unit.references, *source)
    )


def _length(item: Item) -> int:
    """Characters of an item with its context."""
    return 1 + len(str(item.text)) + sum(map(len, item.context))
