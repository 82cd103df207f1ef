"""Which steps a group of lists goes through when its stages run on several actors, and in which order.

    represent chunks of its texts -> join them -> compare tiles of its matrices -> reduce
Texts, representations and matrices go through Ray's object store by reference; the driver never fetches them, and lets
go of each when the last step that reads it is done. A metric with a linear form has no tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

from ....metrics.base import Metric
from .blocks import BLOCK_SECONDS, Amounts, Kind, Rates, Step
from .stages import Tile
from .worker import Sent

ROWS = 16  # tiles have a multiple of so many rows
MIN_SECONDS = 0.1  # what a step of a stage should take at least
MOST = 1024  # chunks, and tiles, of a list


@dataclass(slots=True, eq=False)
class _Stages:
    """What there is so far of one metric's share."""

    chunks: list[Any]  # Ray's names of representations; None until they are there
    tiles: list[list[Tile]]  # what each step of comparing does
    linear: bool  # there is a list that is reduced from representations
    compared: list[Any]  # Ray's names of the values of tiles; None until they are there
    joined: Any = None  # Ray's name of all representations, if they are needed in the end
    represented: bool = False


class Group:
    """Lists on their way through the stages.

    Args:
        number: tells the group from others.
        tasks: the lists; one, or some that are together about a block.
        texts: Ray's name of the same lists.
        metrics: all of the engine's, by number.
        rates: what texts and pairs cost.
        models: how many actors represent.
        comparing: how many actors compare.
        pairwise: numbers of metrics that run a model on pairs.
        tries: how often what was there of these lists was lost.
    """

    def __init__(
        self,
        number: int,
        tasks: Sequence[Sent],
        texts: Any,
        metrics: Sequence[Metric],
        rates: Rates,
        models: int,
        comparing: int,
        pairwise: Iterable[int],
        tries: int = 0,
    ) -> None:
        self.number, self.tasks, self.texts, self.rates = number, list(tasks), texts, rates
        self.pairwise, self.tries = frozenset(pairwise), tries
        self.nbytes = 0  # in the object store
        self.over = False  # given up, or done: whatever comes changes nothing
        self.stages: dict[int, _Stages] = {}
        self.characters, self.pairs = (sum(sent.amounts[i] for sent in tasks) for i in (0, 1))
        for metric in dict.fromkeys(n for sent in tasks for _, n in sent.parts):
            chunks = _count(rates.of((self.characters, 0)), models, len(tasks))
            tiles, linear = self._tiles(metric, metrics[metric], comparing)
            self.stages[metric] = _Stages([None] * chunks, tiles, linear, [None] * len(tiles))

    def begin(self) -> list[Step]:
        """The steps of the first stage."""
        return [
            self._step(
                "represent",
                (metric, chunk, len(stages.chunks)),
                (self.characters // len(stages.chunks), 0),
                "model",
                (metric, chunk),
            )
            for metric, stages in self.stages.items()
            for chunk in range(len(stages.chunks))
        ]

    def next(self, step: Step, value: Any, nbytes: int) -> list[Step]:
        """The steps that can be done now that one is done; `value` is Ray's name of what came of it."""
        metric, at = step.place
        stages = self.stages[metric]
        self.nbytes += nbytes
        if step.method == "represent":
            stages.chunks[at] = value
            if any(chunk is None for chunk in stages.chunks):
                return []
            chunks, stages.chunks = stages.chunks, []
            if len(chunks) > 1:
                return [self._step("join", tuple(chunks), (0, 0), "compare", (metric, 0))]
            return self._compare(metric, stages, value)
        if step.method == "join":
            self.nbytes -= nbytes  # that of the chunks, which are gone
            return self._compare(metric, stages, value)
        stages.compared[at] = value
        return self._reduce()

    def _compare(self, metric: int, stages: _Stages, joined: Any) -> list[Step]:
        """The steps that read the representations of all texts."""
        if stages.linear:
            stages.joined = joined
        stages.represented = True
        kind: Kind = "model" if metric in self.pairwise else "compare"
        amounts = 0, self.pairs // max(1, len(stages.tiles))
        return [
            self._step("compare", (metric, tiles, joined), amounts, kind, (metric, i))
            for i, tiles in enumerate(stages.tiles)
        ] or self._reduce()

    def _reduce(self) -> list[Step]:
        """If all else is done, one step with all that was compared, and the representations that need no tiles."""
        every = self.stages.values()
        if not all(
            one.represented and all(tile is not None for tile in one.compared) for one in every
        ):
            return []
        layout = [
            (metric, stages.linear, len(stages.compared)) for metric, stages in self.stages.items()
        ]
        values = [value for one in every for value in [one.joined] * one.linear + one.compared]
        self.stages = {}
        return [self._step("reduce", (layout, *values), (0, 0), "compare", (0, 0))]

    def _step(
        self,
        method: str,
        arguments: tuple[Any, ...],
        amounts: Amounts,
        kind: Kind,
        place: tuple[int, int],
    ) -> Step:
        return Step(
            method, (self.number, self.texts, *arguments), self.tasks, amounts, kind, self, place
        )

    def _tiles(self, number: int, metric: Metric, comparing: int) -> tuple[list[list[Tile]], bool]:
        """Tiles of every list that is not linear, put together for each step, and whether any list is."""
        linear, lists = False, []
        for sent in self.tasks:
            for (_, part), comparison in zip(sent.parts, sent.comparisons, strict=True):
                if part == number:
                    linear |= metric.info.linear and not sent.keep_matrix
                    lists.append((comparison, metric.info.linear and not sent.keep_matrix))
        alone = len(self.tasks) == 1
        count = _count(self.rates.of((0, self.pairs)), comparing, len(self.tasks))
        tiles: list[list[Tile]] = []
        for place, (comparison, is_linear) in enumerate(lists):
            high, wide = (
                len(comparison.hypotheses),
                len(comparison.references) if metric.info.needs_references else 1,
            )
            if is_linear or not high or not wide:
                continue
            square = comparison.references is comparison.hypotheses and not metric.reads.everywhere
            tiles += list((triangle if square else row_tiles)(place, high, wide, count))
        return (
            tiles if alone else [[tile for step in tiles for tile in step]] if tiles else []
        ), linear


def row_tiles(place: int, high: int, wide: int, count: int) -> Iterator[list[Tile]]:
    """Some rows at a time."""
    for top, bottom in _cut(high, count):
        yield [Tile(place, top, bottom, 0, wide)]


def triangle(place: int, high: int, wide: int, count: int) -> Iterator[list[Tile]]:
    """A square matrix cut both ways, a tile beside the diagonal with the same one turned: they share some work."""
    parts = list(_cut(high, ceil((sqrt(8 * count + 1) - 1) / 2)))
    for i, rows in enumerate(parts):
        for columns in parts[i + 1 :]:
            yield [Tile(place, *rows, *columns), Tile(place, *columns, *rows)]
    for rows in parts:
        yield [Tile(place, *rows, *rows)]


def _cut(high: int, count: int) -> Iterator[tuple[int, int]]:
    step = ceil(high / count / ROWS) * ROWS
    return ((top, min(top + step, high)) for top in range(0, high, step))


def _count(seconds: float, actors: int, lists: int) -> int:
    """Of how many steps a stage is: of a block each at most, and as many for every actor; one for a group of lists."""
    if lists > 1:
        return 1
    even = actors * ceil(seconds / BLOCK_SECONDS / actors)
    return max(1, min(MOST, even, ceil(seconds / MIN_SECONDS)))
