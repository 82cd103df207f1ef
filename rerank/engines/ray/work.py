"""The lists that an engine was given: those that wait, those on their way, and their results, whatever dies.

A step that failed with its actor is tried again, list by list and alone, so that a list that kills its worker is found
and becomes an error. It does not know which actors there are. A group of lists whose stages run on several actors:

    represent chunks of its texts -> join them -> compare tiles of its matrices -> reduce
Texts, representations and matrices go through Ray's object store by reference; the driver never fetches them, and lets
go of each when the last step that reads it is done. A metric with a linear form has no tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import ceil
from typing import Any

from ....metrics.base import Metric
from ....metrics.errors import DiscorankError, MetricError, ResourceError
from ....metrics.execution.evaluate import Tile, is_large, is_square, shape_of, tiles_of
from ..interface import Loaded, Result, Task
from ..local import is_linear
from .actors import BLOCK_SECONDS, Amounts, Kind, Queue, Rates, Step
from .cluster import reason
from .settings import RaySettings
from .worker import Keyed, Layout, SentTask, StepResult

SPLIT_BLOCKS = 4  # a list that takes longer than this many blocks is split over the actors
# steps that an actor has: one at work, one waiting, so that it need not wait for the driver
DEPTH = 2


class Work:
    """Work that is waiting, under way and done.

    Args:
        ray: the module.
        settings: how often something is tried.
    """

    def __init__(self, ray: Any, settings: RaySettings) -> None:
        self.ray = ray
        self.settings = settings
        self.metrics: list[Metric] = []
        self.metric_numbers: dict[Loaded, int] = {}
        self.pairwise: frozenset[int] = frozenset()  # numbers of metrics that run a model on pairs
        self.num_representing = 1  # actors
        self.num_comparing = 1
        self.store_bytes = 0.0  # of Ray's object store that lists may fill before another is begun
        self.rates = Rates()
        self.queue = Queue(self.rates)
        self.groups: dict[int, Group] = {}  # on their way, by number
        self.numbers = count()  # of lists and groups
        self.keys: dict[int, int] = {}  # the caller's, by ours: the caller may use one again
        self.results: list[Keyed] = []
        self.handed_out: set[int] = set()  # the caller's keys that were taken last
        self.homes: dict[
            int, str
        ] = {}  # the actor that has the texts of lists, by the caller's keys

    def add(self, key: int, task: Task) -> None:
        """Takes a list; a continued one comes before those that have not begun, to the actor that has its texts."""
        number = next(self.numbers)
        self.keys[number] = key
        sent = SentTask.of(number, task, self.metric_numbers)
        goes_on = key in self.handed_out
        self.queue.add(sent, self.homes.get(key) if goes_on else None)

    def taken(self) -> list[Keyed]:
        """Results since the last call."""
        results, self.results = self.results, []
        self.handed_out = {key for key, _ in results}
        waited_for = self.handed_out.union(self.keys.values())
        self.homes = {key: home for key, home in self.homes.items() if key in waited_for}
        return results

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists, by the caller's keys."""
        self.keys = {number: key for number, key in self.keys.items() if key not in keys}
        self.results = [(key, result) for key, result in self.results if key not in keys]
        self.queue.keep_only(self.keys)
        for group in list(self.groups.values()):
            if not any(task.key in self.keys for task in group.tasks):
                self._end(group)

    @property
    def held_bytes(self) -> int:
        """About how much of Ray's object store the lists fill."""
        return sum(group.nbytes for group in self.groups.values())

    def next(self, kinds: Collection[Kind], busy: bool, actor: str) -> Step | None:
        """The next step for an actor: one that waits, or a block of lists, or the first step of one that is split."""
        step = self.queue.step(kinds, busy)
        if step is not None or "model" not in kinds:
            return step
        block = self.queue.block_continued(actor)  # their texts are there: they are not split
        if not block:
            if self.groups and self._is_full():
                return None
            block = self.queue.block(self.num_representing * DEPTH)
            if not block:
                return None
            if self._is_split(block):
                self._begin(block)
                return self.queue.step(kinds, busy)
        return Step("value", (block,), block, _amounts(block))

    def _is_split(self, block: Sequence[SentTask]) -> bool:
        """Whether a block goes through the stages: it takes long, or some actors only compare."""
        if any(task.together for task in block):  # there is no matrix to split
            return False
        if self.settings.compare_actors:
            return True
        # the actor that values some pairs of a list keeps its texts for the others
        is_part = any(task.whole for task in block)
        max_seconds = SPLIT_BLOCKS * BLOCK_SECONDS
        is_long = self.rates.of(_amounts(block)) > max_seconds
        return self.num_representing > 1 and is_long and not is_part

    def _is_full(self) -> bool:
        """Whether no further group should be begun before one has ended."""
        enough_groups = len(self.groups) >= DEPTH * (self.num_representing + self.num_comparing)
        return enough_groups or self.held_bytes > self.store_bytes

    def finished(self, step: Step, value: Any, outcome: StepResult, actor: str) -> None:
        """Takes a step's outcome: results, or what the next stage reads. One that comes late changes nothing.

        Raises:
            ResourceError: what a metric needs is gone, such as its server; no other list would fare better.
        """
        if step.done or self._is_over(step):
            return
        if isinstance(outcome.error, ResourceError):
            raise outcome.error
        step.done = True
        group = self._group(step)
        if group is not None and outcome.error is not None:
            self._failed(group, outcome.error)
            return
        self.rates.learn(step.amounts, outcome)
        if group is not None and step.method != "reduce":
            self.queue.put_first(group.next(step, value, outcome.nbytes))
            return
        if group is not None:
            self._end(group)
        for number, result in outcome.results:
            if number in self.keys and step.method == "value":
                self.homes[self.keys[number]] = actor
            self._result(number, result)

    def back(self, step: Step) -> None:
        """A step that no actor has any more waits again."""
        if not (step.done or step.copies or self._is_over(step)):
            self.queue.put_first([step])

    def lost(self, step: Step) -> None:
        """The input of a step is gone with its node: its lists begin anew."""
        group = self._group(step)
        if group is None:
            self.back(step)
            return
        self._end(group)
        if group.tries < self.settings.restarts:
            self._begin(group.tasks, group.tries + 1)
            return
        error = MetricError(
            f"what was computed of it was lost {group.tries + 1} times",
            where="engine ray",
            fix="Look at the cluster's nodes",
        )
        self._failed(group, error)

    def blame(self, step: Step, error: Exception) -> bool:
        """Sends lists at work when their worker died one by one; returns whether they were given up instead."""
        if self._is_over(step):
            return False
        if step.alone:
            step.tries += 1
            if step.tries > self.settings.retries:
                self._give_up(step, error)
                return True
        group = self._group(step)
        if group is None and not step.alone:
            step.done = True
            self.queue.put_first(
                Step("value", ([task],), [task], task.amounts, alone=True) for task in step.tasks
            )
        elif group is None or len(group.tasks) == 1:
            step.alone = True
            self.queue.put_first([step])
        else:
            self._split(group)
        return False

    def _group(self, step: Step) -> Group | None:
        """The group whose stage a step is; None if it is of none, or of one that is over."""
        return None if step.group is None else self.groups.get(step.group)

    def _is_over(self, step: Step) -> bool:
        """Whether the step's group is done or given up, so that the step changes nothing."""
        return step.group is not None and step.group not in self.groups

    def _give_up(self, step: Step, error: Exception) -> None:
        """The one list of a step has an error, as its worker has died too often."""
        step.done = True
        problem = MetricError(
            f"its worker died {step.tries} times: {reason(error)}",
            where="engine ray",
            fix="Look at the list, or raise retries",
        )
        group = self._group(step)
        if group is not None:
            self._failed(group, problem)
        else:
            self._result(step.tasks[0].key, problem)

    def _begin(self, tasks: Sequence[SentTask], tries: int = 0) -> None:
        """Lists go through the stages."""
        group = Group(self, tasks, tries)
        self.groups[group.number] = group
        self.queue.put_first(group.begin())

    def _end(self, group: Group) -> None:
        """Results that are still to come of a group change nothing."""
        self.groups.pop(group.number, None)
        self.queue.forget(group.number)

    def _failed(self, group: Group, error: DiscorankError) -> None:
        """The one list of a group has its error; several are tried one by one."""
        if len(group.tasks) > 1:
            self._split(group)
            return
        self._end(group)
        self._result(group.tasks[0].key, error)

    def _split(self, group: Group) -> None:
        self._end(group)
        for task in group.tasks:
            self._begin([task])

    def _result(self, number: int, result: Result | DiscorankError) -> None:
        if number in self.keys:  # nobody waits for one that is forgotten
            self.results.append((self.keys.pop(number), result))


def _amounts(block: Sequence[SentTask]) -> Amounts:
    """Characters and pairs of a block."""
    return sum(task.amounts[0] for task in block), sum(task.amounts[1] for task in block)


MIN_SECONDS = 0.1  # what a step of a stage should take at least
MAX_STEPS = 1024  # chunks of a list's texts, and tiles of its matrix


@dataclass(slots=True, eq=False)
class _MetricStages:
    """How far one metric's share of a group is; every result is Ray's reference to it, None until it is there."""

    chunks: list[Any]  # representations of some texts each
    tiles: list[list[Tile]]  # what each step of comparing does
    linear: bool  # there is a list that is reduced from representations
    compared: list[Any]  # the values of the tiles of each step
    joined: Any = None  # all representations

    @property
    def complete(self) -> bool:
        """Whether all is there that the reduction reads."""
        return not any(value is None for value in (self.joined, *self.compared))


class Group:
    """Lists on their way through the stages.

    Args:
        work: what they are of.
        tasks: the lists; one, or some that are together about a block.
        tries: how often what was there of these lists was lost.
    """

    def __init__(self, work: Work, tasks: Sequence[SentTask], tries: int = 0) -> None:
        self.number = next(work.numbers)
        self.tasks = list(tasks)
        self.texts = work.ray.put(tasks)  # a reference to the same lists
        self.work = work
        self.tries = tries
        self.nbytes = 0  # in the object store
        self.characters, self.pairs = _amounts(tasks)
        seconds = work.rates.of((self.characters, 0))
        num_chunks = _num_steps(seconds, work.num_representing, len(tasks))
        self.stages: dict[int, _MetricStages] = {}  # by number of the metric
        for metric in dict.fromkeys(part for task in tasks for _, part in task.parts):
            tiles, linear = self._tiles(metric)
            chunks = [None] * num_chunks
            self.stages[metric] = _MetricStages(chunks, tiles, linear, [None] * len(tiles))

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
        stages.joined = joined
        kind: Kind = "model" if metric in self.work.pairwise else "compare"
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

    def _tiles(self, number: int) -> tuple[list[list[Tile]], bool]:
        """Tiles of every list that is not linear, put together for each step, and whether any list is."""
        work, metric = self.work, self.work.metrics[number]
        parts = [
            (comparison, is_linear(metric, task.keep_matrix))
            for task in self.tasks
            for (_, part), comparison in zip(task.parts, task.comparisons, strict=True)
            if part == number
        ]
        count = _num_steps(work.rates.of((0, self.pairs)), work.num_comparing, len(self.tasks))
        steps: list[list[Tile]] = []
        for place, (comparison, without_matrix) in enumerate(parts):
            shape = shape_of(metric, comparison)
            if without_matrix or 0 in shape:
                continue
            tiles = list(tiles_of(place, *shape, is_square(metric, comparison), count))
            steps += _in_steps(tiles, count) if is_large(*shape) else tiles
        if steps and len(self.tasks) > 1:
            steps = [[tile for tiles in steps for tile in tiles]]
        return steps, any(without_matrix for _, without_matrix in parts)


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
