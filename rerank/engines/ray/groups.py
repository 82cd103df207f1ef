"""Which steps a group of lists goes through when its stages run on several actors, and in which order.

    represent chunks of its texts -> join them -> compare tiles of its matrices -> reduce
Texts, representations and matrices go through Ray's object store by reference; the driver never fetches them, and lets
go of each when the last step that reads it is done. A metric with a linear form has no tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any

from ....metrics.base import Metric
from ....metrics.execution.evaluate import is_square, shape_of
from ....metrics.execution.tiles import Tile, is_large, tiles_of
from ..part_values import is_linear
from .actors import BLOCK_SECONDS, Amounts, Kind, Rates, Step
from .worker import Layout, SentTask

MIN_SECONDS = 0.1  # what a step of a stage should take at least
MAX_STEPS = 1024  # chunks of a list's texts, and tiles of its matrix


@dataclass(slots=True, eq=False)
class _MetricStages:
    """How far one metric's share of a group is; every result is Ray's reference to it, None until it is there."""

    chunks: list[Any]  # representations of some texts each
    tiles: list[list[Tile]]  # what each step of comparing does
    linear: bool  # there is a list that is reduced from representations
    compared: list[Any]  # the values of the tiles of each step
    joined: Any = None  # all representations, if the reduction needs them
    represented: bool = False

    @property
    def complete(self) -> bool:
        """Whether all is there that the reduction reads."""
        return self.represented and all(values is not None for values in self.compared)


class Group:
    """Lists on their way through the stages.

    Args:
        number: tells the group from others.
        tasks: the lists; one, or some that are together about a block.
        texts: Ray's reference to the same lists.
        metrics: all of the engine's, by number.
        rates: what texts and pairs cost.
        num_representing: actors that represent.
        num_comparing: actors that compare.
        pairwise: numbers of metrics that run a model on pairs.
        tries: how often what was there of these lists was lost.
    """

    def __init__(
        self,
        number: int,
        tasks: Sequence[SentTask],
        texts: Any,
        metrics: Sequence[Metric],
        rates: Rates,
        num_representing: int,
        num_comparing: int,
        pairwise: Iterable[int],
        tries: int = 0,
    ) -> None:
        self.number = number
        self.tasks = list(tasks)
        self.texts = texts
        self.rates = rates
        self.pairwise = frozenset(pairwise)
        self.tries = tries
        self.nbytes = 0  # in the object store
        self.characters = sum(task.amounts[0] for task in tasks)
        self.pairs = sum(task.amounts[1] for task in tasks)
        self.stages: dict[int, _MetricStages] = {}  # by number of the metric
        for metric in dict.fromkeys(part for task in tasks for _, part in task.parts):
            num_chunks = _num_steps(rates.of((self.characters, 0)), num_representing, len(tasks))
            tiles, linear = self._tiles(metric, metrics[metric], num_comparing)
            self.stages[metric] = _MetricStages(
                chunks=[None] * num_chunks,
                tiles=tiles,
                linear=linear,
                compared=[None] * len(tiles),
            )

    def begin(self) -> list[Step]:
        """The steps of the first stage."""
        steps = []
        for metric, stages in self.stages.items():
            num_chunks = len(stages.chunks)
            amounts = self.characters // num_chunks, 0
            for chunk in range(num_chunks):
                arguments = (metric, chunk, num_chunks)
                steps.append(self._step("represent", arguments, amounts, "model", (metric, chunk)))
        return steps

    def next(self, step: Step, value: Any, nbytes: int) -> list[Step]:
        """The steps that can be done now that one is done; `value` is Ray's reference to its result."""
        metric, place = step.place
        stages = self.stages[metric]
        self.nbytes += nbytes
        if step.method == "represent":
            stages.chunks[place] = value
            if any(chunk is None for chunk in stages.chunks):
                return []
            chunks, stages.chunks = stages.chunks, []
            if len(chunks) > 1:
                return [self._step("join", tuple(chunks), (0, 0), "compare", (metric, 0))]
            return self._compare(metric, stages, value)
        if step.method == "join":
            self.nbytes -= nbytes  # that of the chunks, which are gone
            return self._compare(metric, stages, value)
        stages.compared[place] = value
        return self._reduce()

    def _compare(self, metric: int, stages: _MetricStages, joined: Any) -> list[Step]:
        """The steps that read the representations of all texts."""
        if stages.linear:
            stages.joined = joined
        stages.represented = True
        kind: Kind = "model" if metric in self.pairwise else "compare"
        amounts = 0, self.pairs // max(1, len(stages.tiles))
        steps = []
        for i, tiles in enumerate(stages.tiles):
            arguments = (metric, tiles, joined)
            steps.append(self._step("compare", arguments, amounts, kind, (metric, i)))
        return steps or self._reduce()

    def _reduce(self) -> list[Step]:
        """If all else is done, one step with all that was compared, and the representations that need no tiles."""
        if not all(stages.complete for stages in self.stages.values()):
            return []
        layout = []
        values = []
        for metric, stages in self.stages.items():
            layout.append(Layout(metric, stages.linear, len(stages.compared)))
            if stages.linear:
                values.append(stages.joined)
            values += stages.compared
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
        """A step of this group; every method takes the group's number and texts before its own arguments."""
        return Step(
            method,
            (self.number, self.texts, *arguments),
            self.tasks,
            amounts,
            kind,
            self.number,
            place,
        )

    def _tiles(
        self, number: int, metric: Metric, num_comparing: int
    ) -> tuple[list[list[Tile]], bool]:
        """Tiles of every list that is not linear, put together for each step, and whether any list is."""
        comparisons = []
        linear = []
        for task in self.tasks:
            for (_, part), comparison in zip(task.parts, task.comparisons, strict=True):
                if part == number:
                    comparisons.append(comparison)
                    linear.append(is_linear(metric, task.keep_matrix))
        count = _num_steps(self.rates.of((0, self.pairs)), num_comparing, len(self.tasks))
        steps: list[list[Tile]] = []
        for place, (comparison, without_matrix) in enumerate(zip(comparisons, linear, strict=True)):
            shape = shape_of(metric, comparison)
            if without_matrix or 0 in shape:
                continue
            tiles = list(tiles_of(place, *shape, is_square(metric, comparison), count))
            steps += _in_steps(tiles, count) if is_large(*shape) else tiles
        if steps and len(self.tasks) > 1:
            steps = [[tile for tiles in steps for tile in tiles]]
        return steps, any(linear)


def _in_steps(tiles: Sequence[list[Tile]], count: int) -> list[list[Tile]]:
    """About `count` steps of tiles that follow one another."""
    size = max(1, len(tiles) // count)
    return [
        list(chain.from_iterable(tiles[start : start + size]))
        for start in range(0, len(tiles), size)
    ]


def _num_steps(seconds: float, actors: int, lists: int) -> int:
    """Of how many steps a stage is: of a block each at most, and as many for every actor; one for a group of lists."""
    if lists > 1:
        return 1
    even = actors * ceil(seconds / BLOCK_SECONDS / actors)
    most = ceil(seconds / MIN_SECONDS)
    return max(1, min(MAX_STEPS, even, most))
