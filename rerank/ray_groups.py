"""Which steps a group of lists goes through when its stages run on several actors, and in which order.

    represent chunks of its texts -> join them -> compare tiles of its matrices -> reduce
Texts, representations and matrices go through Ray's object store by reference; the driver never fetches them, and lets
go of each when the last step that reads it is done. A metric with a linear form has no tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ..metrics.base import Metric
from .ray_blocks import BLOCK_SECONDS, Kind, Rates, Step
from .ray_stages import Tile
from .ray_worker import Sent

ROWS = 16  # tiles have a multiple of so many rows
LEAST_SECONDS = 0.1  # what a step of a stage should take at least
MOST = 1024  # chunks, and tiles, of a list


@dataclass(slots=True, eq=False)
class _Stages:
    """What there is so far of one metric's share."""

    chunks: list[Any]  # Ray's names of representations; None until they are there
    tiles: list[list[Tile]]  # what each step of comparing does
    linear: bool  # there is a list that is reduced from representations
    compared: list[Any]  # Ray's names of the values of tiles; None until they are there
    joined: Any = None  # Ray's name of all representations, while they are needed
    ready: bool = False  # nothing is left but to reduce


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
    ) -> None:
        self.number, self.tasks, self.texts, self.rates = number, list(tasks), texts, rates
        self.pairwise = frozenset(pairwise)
        self.nbytes = 0  # in the object store
        self.over = False  # given up, or done: whatever comes changes nothing
        self.stages: dict[int, _Stages] = {}
        self.characters = sum(sent.characters for sent in tasks)
        self.pairs = sum(sent.pairs for sent in tasks)
        for metric in dict.fromkeys(n for sent in tasks for _, n in sent.parts):
            chunks = _count(rates.represent(self.characters), models, len(tasks))
            tiles, linear = self._tiles(metric, metrics[metric], comparing)
            self.stages[metric] = _Stages([None] * chunks, tiles, linear, [None] * len(tiles))

    def begin(self) -> list[Step]:
        """The steps of the first stage."""
        return [
            self._step(
                "represent",
                (metric, chunk, len(stages.chunks)),
                self.rates.represent(self.characters) / len(stages.chunks),
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
                return [self._step("join", tuple(chunks), 0.0, "compare", (metric, 0), texts=False)]
        elif step.method == "join":
            self.nbytes -= nbytes  # that of the chunks, which are gone
        if step.method == "compare":
            stages.compared[at] = value
        else:
            stages.joined = value
            if stages.tiles:
                return self._compare(metric, stages)
        if any(piece is None for piece in stages.compared):
            return []
        stages.ready = True
        if not stages.linear:
            stages.joined = None
        return [self._reduce()] if all(one.ready for one in self.stages.values()) else []

    def _compare(self, metric: int, stages: _Stages) -> list[Step]:
        kind: Kind = "model" if metric in self.pairwise else "compare"
        seconds = self.rates.compare(self.pairs) / len(stages.tiles)
        return [
            self._step("compare", (metric, tiles, stages.joined), seconds, kind, (metric, i))
            for i, tiles in enumerate(stages.tiles)
        ]

    def _reduce(self) -> Step:
        """One step with all that was compared, and the representations of metrics that need no tiles."""
        layout = [(metric, stages.linear, len(stages.compared)) for metric, stages in self.stages.items()]
        values = []
        for stages in self.stages.values():
            values += [stages.joined] * stages.linear + stages.compared
        self.stages = {}
        return self._step("reduce", (layout, *values), 0.0, "compare", (0, 0))

    def _step(
        self, method: str, arguments: tuple[Any, ...], seconds: float, kind: Kind, place: tuple[int, int], texts: bool = True
    ) -> Step:
        given = (self.number, self.texts, *arguments) if texts else arguments
        return Step(method, given, self.tasks, seconds, kind, self, place)

    def _tiles(self, number: int, metric: Metric, comparing: int) -> tuple[list[list[Tile]], bool]:
        """Tiles of every list that is not linear, put together for each step, and whether any list is."""
        linear, lists = False, []
        for sent in self.tasks:
            for (_, part), comparison in zip(sent.parts, sent.comparisons, strict=True):
                if part == number:
                    linear |= metric.info.linear and not sent.keep_matrix
                    lists.append((comparison, metric.info.linear and not sent.keep_matrix))
        alone = len(self.tasks) == 1
        count = _count(self.rates.compare(self.pairs), comparing, len(self.tasks))
        tiles = []
        for place, (comparison, is_linear) in enumerate(lists):
            high, wide = len(comparison.hypotheses), len(comparison.references) if metric.info.needs_references else 1
            if is_linear or not high or not wide:
                continue
            step = ceil(high / count / ROWS) * ROWS if alone else high
            tiles += [Tile(place, top, min(top + step, high), 0, wide) for top in range(0, high, step)]
        return ([[tile] for tile in tiles] if alone else [tiles] if tiles else []), linear


def _count(seconds: float, actors: int, lists: int) -> int:
    """Of how many steps a stage is: of a block each at most, and as many for every actor; one for a group of lists."""
    if lists > 1:
        return 1
    even = actors * ceil(seconds / BLOCK_SECONDS / actors)
    return max(1, min(MOST, even, ceil(seconds / LEAST_SECONDS)))
