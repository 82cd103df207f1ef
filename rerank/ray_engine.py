"""The engine over Ray: blocks of lists go to actors that hold the loaded metrics, and come back in any order.

What an actor computes is what the local engine computes, so the outputs are the same bytes. A list that is large, or
every list if there are actors that only compare, goes through stages (see `Group`). An actor that dies is replaced and
its steps are sent again, list by list the one it was busy with, so that a list that kills its worker is found and
becomes an error; of a step that two actors have, what comes first counts. Ray's own restarts and retries are off: they
would send a whole block again for ever, and hang where there is no room for an actor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Any, Self

from ..metrics.base import Metric
from ..metrics.cache import Cache
from ..metrics.errors import DiscorankError, MetricError, ModelLoadError, ResourceError
from ..metrics.meter import Metered
from ..metrics.mixture import Utility
from .engine import Result, Task
from .meter import Status, WorkerMeter
from .ray_actors import DEPTH, Actor, stolen_by
from .ray_blocks import BLOCK_SECONDS, Kind, Queue, Rates, Step
from .ray_cluster import Cluster, reason
from .ray_groups import Group
from .ray_settings import RaySettings
from .ray_worker import Done, Loaded, Sent

SPLIT_BLOCKS = 8  # a list that takes longer than so many blocks is split over the actors
STORE_SHARE = 0.3  # of Ray's object store that lists may fill before another is begun
LOOK_SECONDS = 1.0  # how often time limits are looked at
BOTH: tuple[Kind, ...] = ("model", "compare")
FIX = "The same command goes on from here, with any engine"


class RayEngine:
    """Actors in a cluster or on this machine; a context manager, which stops what it started.

    Args:
        settings: the cluster and the workers.
        cache: keeps representations of models; its folder is opened on every node.
    """

    def __init__(self, settings: RaySettings | None = None, cache: Cache | None = None) -> None:
        self.settings = settings or RaySettings()
        self.cache = None if cache is None else (os.path.abspath(cache.folder), cache.max_bytes)
        self.cluster = Cluster(self.settings)
        self.ray: Any = self.cluster.ray
        self.metrics: list[Metric] = []
        self.numbers: dict[Metric, int] = {}
        self.pairwise: frozenset[int] = frozenset()  # numbers of metrics that run a model on pairs
        self.actors: list[Actor] = []
        self.rates = Rates()
        self.queue = Queue(self.rates)
        self.groups: set[Group] = set()  # that are on their way
        self.count = count()
        self.keys: dict[int, int] = {}  # the caller's, by ours: the caller may use one again
        self.done: list[tuple[int, Result | DiscorankError]] = []
        self.store_bytes = 0.0  # that groups may fill
        self.deaths = 0  # since something was finished
        self.last_alive: dict[Kind, float] = {}  # when there was a loaded actor
        self.begun = monotonic()  # when the first actor was loaded
        self.waited_seconds = 0.0  # for actors

    def load(self, metrics: Sequence[Utility]) -> None:
        """Starts the actors if need be and waits until the first has loaded the metrics.

        Raises:
            ModelLoadError: a metric cannot be loaded where an actor runs.
            ResourceError: no cluster, or no actor within `start_seconds`.
        """
        for part in (part for metric in metrics for _, part in metric.parts):
            if part not in self.numbers:
                self.numbers[part] = len(self.metrics)
                self.metrics.append(part)
        if not self.actors:
            self.cluster.join()
            self.store_bytes = STORE_SHARE * self.ray.cluster_resources().get("object_store_memory", 0)
            models, comparing = self.cluster.actors(), self.settings.compare_actors
            kinds = ("model",) if comparing else BOTH
            self.actors = [self._new(WorkerMeter(f"actor {i}"), kinds) for i in range(1, models + 1)]
            names = (f"comparing actor {i}" for i in range(1, comparing + 1))
            self.actors += [self._new(WorkerMeter(name), ("compare",)) for name in names]
        else:
            for actor in self.actors:
                actor.loading, actor.meter = actor.handle.load.remote(self.metrics), WorkerMeter(actor.meter.name)
        self.last_alive = dict.fromkeys(BOTH, monotonic())
        while not any(actor.loaded and "model" in actor.kinds for actor in self.actors):
            self._wait()
        self.begun, self.waited_seconds = monotonic(), 0.0

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        number = next(self.count)
        self.keys[number] = key
        self.queue.add(Sent.of(number, task, self.numbers))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Waits for a block and returns all that is done.

        Raises:
            ResourceError: no actor for `start_seconds`, or more than `restarts` deaths in a row.
        """
        while not self.done and self.keys:
            self._send()
            self._wait()
        self._send()
        done, self.done = self.done, []
        return done

    def status(self) -> Status:
        """The work that the actors have done, and how long this process waited for them."""
        workers = tuple(actor.meter.status(actor.since if actor.blocks else None) for actor in self.actors)
        work = sum((worker.work for worker in workers), Metered())
        return Status(work, monotonic() - self.begun, self.waited_seconds, workers)

    @property
    def held_bytes(self) -> int:
        """About how much of Ray's object store its lists fill."""
        return sum(group.nbytes for group in self.groups)

    def close(self) -> None:
        """Stops the actors, and Ray if it was started here."""
        if self.ray.is_initialized():
            for actor in self.actors:
                self.ray.kill(actor.handle)
        self.cluster.leave()
        self.actors = []
        self.groups.clear()
        self.keys.clear()
        self.queue = Queue(self.rates)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new(self, meter: WorkerMeter, kinds: tuple[Kind, ...]) -> Actor:
        handle = self.cluster.worker("model" not in kinds, self.cache)
        return Actor(handle, handle.load.remote(self.metrics), meter, kinds)

    def _send(self) -> None:
        """Gives every loaded actor its steps, one each before any gets a second; who gets none takes over another's."""
        for depth in range(DEPTH):
            for actor in self.actors:
                if actor.loaded and len(actor.calls) == depth and actor.has_room(self.rates):
                    step = self._next(actor)
                    if step is not None:
                        actor.call(step)
        for actor in self.actors:
            if actor.loaded and not actor.calls and (call := stolen_by(actor, self.actors)) is not None:
                self.ray.cancel(call.outcome)
                actor.call(call.step)

    def _next(self, actor: Actor) -> Step | None:
        """The next step for an actor: one that waits, or a block of lists, or the first step of one that is split."""
        step = self.queue.step(actor.kinds, bool(actor.calls))
        if step is not None or "model" not in actor.kinds or not len(self.queue):
            return step
        models = sum("model" in actor.kinds for actor in self.actors)
        if self._is_full():
            return None
        block = self.queue.block(models * DEPTH)
        amounts = sum(sent.amounts[0] for sent in block), sum(sent.amounts[1] for sent in block)
        if self.settings.compare_actors or (models > 1 and self.rates.of(amounts) > SPLIT_BLOCKS * BLOCK_SECONDS):
            self._begin(block)
            return self.queue.step(actor.kinds, bool(actor.calls))
        return Step("value", (block,), block, amounts)

    def _is_full(self) -> bool:
        """Whether enough lists are on their way through the stages."""
        return len(self.groups) >= DEPTH * len(self.actors) or self.held_bytes > self.store_bytes

    def _begin(self, tasks: list[Sent], tries: int = 0) -> None:
        """Lists go through the stages."""
        models, comparing = (sum(kind in actor.kinds for actor in self.actors) for kind in BOTH)
        texts, number = self.ray.put(tasks), next(self.count)
        group = Group(number, tasks, texts, self.metrics, self.rates, models, comparing, self.pairwise, tries)
        self.groups.add(group)
        self.queue.back(group.begin())

    def _wait(self) -> None:
        """Waits until something is ready, a little while at most, and takes all that is."""
        names = [name for actor in self.actors for name in actor.awaited()]
        start = monotonic()
        if names:
            self.ray.wait(names, num_returns=1, timeout=LOOK_SECONDS)
        self.waited_seconds += monotonic() - start
        ready = set(self.ray.wait(names, num_returns=len(names), timeout=0)[0]) if names else set()
        for i, actor in enumerate(self.actors):
            try:
                self._take(actor, ready)
            except self.ray.exceptions.RayError as error:
                self.actors[i] = self._replaced(actor, error)
        self._check_time()

    def _take(self, actor: Actor, ready: set[Any]) -> None:
        """Takes what an actor has ready; raises Ray's error if it died."""
        if actor.loading in ready:
            self._loaded(self.ray.get(actor.loading), actor)
        if actor.pulse in ready:
            self.ray.get(actor.pulse)
            actor.answers()
        while actor.calls and actor.calls[0].outcome in ready:
            try:
                done: Done = self.ray.get(actor.calls[0].outcome)
            except self.ray.exceptions.RayError as error:
                if not self._is_passed_on(error):
                    raise
                self._once_more(actor.finished().step, error)
                continue
            call = actor.finished()
            actor.meter.add(done.work, done.seconds)
            self.deaths = 0
            if not call.step.done:
                call.step.done = True
                if done.error is None:
                    self.rates.learn(call.step.amounts, done)
                self._advance(call.step, call.value, done)

    def _loaded(self, loaded: Loaded, actor: Actor) -> None:
        if loaded.error is not None:
            raise loaded.error
        self.pairwise = loaded.pairwise
        actor.loading = None
        actor.meter.loaded()

    def _advance(self, step: Step, value: Any, done: Done) -> None:
        """Takes what came of a step: results, or the steps of the next stage."""
        group = step.group
        if group is not None and group.over:
            return
        if group is not None and done.error is not None:
            self._failed(group, done.error)
        elif group is not None and step.method != "reduce":
            self.queue.back(group.next(step, value, done.nbytes))
        else:
            if group is not None:
                self._end(group)
            for number, result in done.results:
                self._result(number, result)

    def _result(self, number: int, result: Result | DiscorankError) -> None:
        self.done.append((self.keys.pop(number), result))

    def _end(self, group: Group) -> None:
        """What is still to come of a group changes nothing."""
        group.over = True
        self.groups.discard(group)
        self.queue.forget(group)

    def _failed(self, group: Group, error: DiscorankError) -> None:
        """The one list of a group has its error; several are tried one by one."""
        if len(group.tasks) > 1:
            self._split(group)
        else:
            self._end(group)
            self._result(group.tasks[0].key, error)

    def _split(self, group: Group) -> None:
        self._end(group)
        for sent in group.tasks:
            self._begin([sent])

    def _is_passed_on(self, error: Exception) -> bool:
        """Whether an error says nothing about the actor: another took over the step, or what it reads is lost."""
        known = self.ray.exceptions.TaskCancelledError, self.ray.exceptions.ObjectLostError
        return isinstance(error, known) or isinstance(getattr(error, "cause", None), known)

    def _once_more(self, step: Step, error: Exception) -> None:
        """A step that nobody has any more waits again; if what it reads was lost, its lists begin anew."""
        group = step.group
        if step.done or step.copies or (group is not None and group.over):
            return
        if group is None or isinstance(error, self.ray.exceptions.TaskCancelledError):
            self.queue.back([step])
            return
        self._end(group)
        if group.tries < self.settings.restarts:
            self._begin(group.tasks, group.tries + 1)
            return
        found = f"what was computed of it was lost {group.tries + 1} times"
        self._failed(group, MetricError(found, where="engine ray", fix="Look at the cluster's nodes"))

    def _replaced(self, actor: Actor, error: Exception) -> Actor:
        """A new actor in the place of one that failed; its steps wait again, the one at work list by list."""
        self.ray.kill(actor.handle)
        if isinstance(error, self.ray.exceptions.RayTaskError) and actor.loading is not None:
            raise ModelLoadError(reason(error), where="a worker of the Ray engine") from error
        self.deaths += 1
        actor.meter.lost()
        if self.deaths > self.settings.restarts:
            found = f"{self.deaths} workers in a row died with nothing finished; the last: {reason(error)}"
            raise ResourceError(found, where="engine ray", fix=FIX)
        first, *others = actor.orphans() or [None]
        self.queue.back(step for step in others if step is not None)
        if first is not None and not (first.group is not None and first.group.over):
            self._blame(first, error)
        return self._new(actor.meter, actor.kinds)

    def _blame(self, step: Step, error: Exception) -> None:
        """What was at work when its worker died goes list by list, alone; once too often, and that is an error."""
        group = step.group
        if step.alone:
            step.tries += 1
            if step.tries > self.settings.retries:
                self._give_up(step, error)
            else:
                self.queue.back([step])
        elif group is None:
            step.done = True
            self.queue.back(Step("value", ([sent],), [sent], sent.amounts, alone=True) for sent in step.tasks)
        elif len(group.tasks) == 1:
            step.alone = True
            self.queue.back([step])
        else:
            self._split(group)

    def _give_up(self, step: Step, error: Exception) -> None:
        step.done = True
        found = f"its worker died {step.tries} times: {reason(error)}"
        problem = MetricError(found, where="engine ray", fix="Look at the list, or raise retries")
        if step.group is not None:
            self._end(step.group)
        self._result(step.tasks[0].key, problem)
        self.deaths = 0

    def _check_time(self) -> None:
        """Kills actors that take too long or are silent; raises ResourceError if there was none for too long."""
        now, wanted = monotonic(), self.settings
        for actor in self.actors:
            if actor.is_silent(wanted.heartbeat_seconds) or actor.works_longer_than(wanted.block_seconds):
                self.ray.kill(actor.handle)
                actor.since = actor.asked = now
        for kind in BOTH:
            if any(actor.loaded and kind in actor.kinds for actor in self.actors):
                self.last_alive[kind] = now
            elif now - self.last_alive[kind] > wanted.start_seconds:
                found = f"no worker for {wanted.start_seconds:g} s: {self.cluster.shortage()}"
                raise ResourceError(found, where="engine ray", fix=FIX)
