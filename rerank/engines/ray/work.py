"""The lists that an engine was given: what waits, what is on its way, and what came of it, whatever dies.

A step that failed with its actor is tried again, list by list and alone, so that a list that kills its worker is found
and becomes an error. It does not know which actors there are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

from ....metrics.base import Metric
from ....metrics.errors import DiscorankError, MetricError
from ..interface import Result, Task
from .blocks import BLOCK_SECONDS, Kind, Queue, Rates, Step
from .cluster import reason
from .groups import Group
from .settings import RaySettings
from .worker import Done, Sent

SPLIT_BLOCKS = 4  # a list that takes longer than so many blocks is split over the actors
DEPTH = (
    2  # steps that an actor has: one at work, one waiting, so that it need not wait for the driver
)


class Work:
    """What is to be done, and what is done.

    Args:
        ray: the module.
        settings: how often something is tried.
    """

    def __init__(self, ray: Any, settings: RaySettings) -> None:
        self.ray, self.settings = ray, settings
        self.metrics: list[Metric] = []
        self.numbers: dict[Metric, int] = {}
        self.pairwise: frozenset[int] = frozenset()  # numbers of metrics that run a model on pairs
        self.models = self.comparing = 1  # how many actors represent, and compare
        self.store_bytes = 0.0  # of Ray's object store that lists may fill before another is begun
        self.rates = Rates()
        self.queue = Queue(self.rates)
        self.groups: set[Group] = set()  # that are on their way
        self.count = count()
        self.keys: dict[int, int] = {}  # the caller's, by ours: the caller may use one again
        self.results: list[tuple[int, Result | DiscorankError]] = []

    def add(self, key: int, task: Task) -> None:
        """Takes a list."""
        number = next(self.count)
        self.keys[number] = key
        self.queue.add(Sent.of(number, task, self.numbers))

    def taken(self) -> list[tuple[int, Result | DiscorankError]]:
        """What is done since the last time."""
        results, self.results = self.results, []
        return results

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists, by the caller's keys."""
        self.keys = {number: key for number, key in self.keys.items() if key not in keys}
        self.results = [(key, result) for key, result in self.results if key not in keys]
        self.queue.keep(self.keys)
        for group in [
            group for group in self.groups if not any(sent.key in self.keys for sent in group.tasks)
        ]:
            self._end(group)

    @property
    def held_bytes(self) -> int:
        """About how much of Ray's object store the lists fill."""
        return sum(group.nbytes for group in self.groups)

    def next(self, kinds: Collection[Kind], busy: bool) -> Step | None:
        """The next step for an actor: one that waits, or a block of lists, or the first step of one that is split."""
        step = self.queue.step(kinds, busy)
        full = (
            len(self.groups) >= DEPTH * (self.models + self.comparing)
            or self.held_bytes > self.store_bytes
        )
        if (
            step is not None
            or "model" not in kinds
            or not len(self.queue)
            or (self.groups and full)
        ):
            return step
        block = self.queue.block(self.models * DEPTH)
        amounts = sum(sent.amounts[0] for sent in block), sum(sent.amounts[1] for sent in block)
        large = self.models > 1 and self.rates.of(amounts) > SPLIT_BLOCKS * BLOCK_SECONDS
        if not (self.settings.compare_actors or large):
            return Step("value", (block,), block, amounts)
        self._begin(block)
        return self.queue.step(kinds, busy)

    def finished(self, step: Step, value: Any, done: Done) -> None:
        """Takes what came of a step: results, or what the next stage reads. What comes late changes nothing."""
        group = step.group
        if step.done or (group is not None and group.over):
            return
        step.done = True
        if group is not None and done.error is not None:
            self._failed(group, done.error)
            return
        self.rates.learn(step.amounts, done)
        if group is not None and step.method != "reduce":
            self.queue.back(group.next(step, value, done.nbytes))
            return
        if group is not None:
            self._end(group)
        for number, result in done.results:
            self._result(number, result)

    def back(self, step: Step) -> None:
        """A step that nobody has any more waits again."""
        if not (step.done or step.copies or (step.group is not None and step.group.over)):
            self.queue.back([step])

    def lost(self, step: Step) -> None:
        """What a step should read is gone with its node: its lists begin anew."""
        group = step.group
        if group is None or group.over:
            self.back(step)
            return
        self._end(group)
        if group.tries < self.settings.restarts:
            self._begin(group.tasks, group.tries + 1)
            return
        found = f"what was computed of it was lost {group.tries + 1} times"
        self._failed(
            group, MetricError(found, where="engine ray", fix="Look at the cluster's nodes")
        )

    def blame(self, step: Step, error: Exception) -> bool:
        """What was at work when its worker died goes list by list, alone; returns whether it was given up instead."""
        group = step.group
        if group is not None and group.over:
            return False
        if step.alone:
            step.tries += 1
            if step.tries > self.settings.retries:
                self._give_up(step, error)
                return True
        if group is None and not step.alone:
            step.done = True
            self.queue.back(
                Step("value", ([sent],), [sent], sent.amounts, alone=True) for sent in step.tasks
            )
        elif group is None or len(group.tasks) == 1:
            step.alone = True
            self.queue.back([step])
        else:
            self._split(group)
        return False

    def _give_up(self, step: Step, error: Exception) -> None:
        step.done = True
        found = f"its worker died {step.tries} times: {reason(error)}"
        if step.group is not None:
            self._end(step.group)
        self._result(
            step.tasks[0].key,
            MetricError(found, where="engine ray", fix="Look at the list, or raise retries"),
        )

    def _begin(self, tasks: Sequence[Sent], tries: int = 0) -> None:
        """Lists go through the stages."""
        group = Group(
            next(self.count),
            tasks,
            self.ray.put(tasks),
            self.metrics,
            self.rates,
            self.models,
            self.comparing,
            self.pairwise,
            tries,
        )
        self.groups.add(group)
        self.queue.back(group.begin())

    def _end(self, group: Group) -> None:
        """What is still to come of a group changes nothing."""
        group.over = True
        self.groups.discard(group)
        self.queue.forget(group)

    def _failed(self, group: Group, error: DiscorankError) -> None:
        """The one list of a group has its error; several are tried one by one."""
        if len(group.tasks) > 1:
            self._split(group)
            return
        self._end(group)
        self._result(group.tasks[0].key, error)

    def _split(self, group: Group) -> None:
        self._end(group)
        for sent in group.tasks:
            self._begin([sent])

    def _result(self, number: int, result: Result | DiscorankError) -> None:
        if number in self.keys:  # nobody waits for one that is forgotten
            self.results.append((self.keys.pop(number), result))
