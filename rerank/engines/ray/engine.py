"""The engine over Ray: blocks of lists go to actors that hold the loaded metrics, and come back in any order.

What an actor computes is what the local engine computes, so the outputs are the same bytes. A list that is large, or
every list if there are actors that only compare, goes through stages (see `Group`). An actor that dies or is silent is
replaced, and its steps are sent again; of a step that two actors have, what comes first counts. Ray's own restarts and
retries are off: they would send a whole block again for ever, and hang where there is no room for an actor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Any
from warnings import warn

from ....metrics.errors import DiscorankError, ModelLoadError, ResourceError
from ....metrics.execution.cache import Cache
from ....metrics.mixture import Utility
from ....metrics.storage.stop_signals import ignored
from ..interface import Result, Task, WorkerEngine, number_parts
from ..status import WorkerMeter, WorkerStatus
from .actors import Actor, Kind, stolen_by
from .cluster import FIX, Cluster, put_off, reason
from .settings import RaySettings
from .work import DEPTH, Work
from .worker import LoadResult, StepResult

STORE_SHARE = 0.3  # of Ray's object store that lists may fill before another is begun
LOOK_SECONDS = 1.0  # how often time limits are looked at
BOTH: tuple[Kind, ...] = ("model", "compare")


class RayEngine(WorkerEngine):
    """Actors in a cluster or on this machine; a context manager, which stops what it started.

    Args:
        settings: the cluster and the workers.
        cache: keeps representations of models; its folder is opened on every node.
    """

    def __init__(self, settings: RaySettings | None = None, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self.settings = settings or RaySettings()
        self.cluster = Cluster(self.settings)
        self.ray: Any = self.cluster.ray
        self.work = Work(self.ray, self.settings)
        self.warned: set[str] = set()  # what workers warned of, each said once
        self.actors: list[Actor] = []
        # by name of each actor's place, since something was finished
        self.deaths: Counter[str] = Counter()
        self.last_alive: dict[Kind, float] = {}  # when there was a loaded actor

    def load(self, metrics: Sequence[Utility]) -> None:
        """Starts the actors if need be and waits until the first has loaded the metrics.

        Raises:
            ModelLoadError: a metric cannot be loaded where an actor runs.
            ResourceError: no cluster, or no actor within `start_seconds`.
        """
        self.count_faults()
        number_parts(metrics, self.work.metrics, self.work.metric_numbers)
        if not self.actors:
            self.cluster.join()
        with put_off():
            self._load()
        self.last_alive = dict.fromkeys(BOTH, monotonic())
        while not self._has_loaded("model"):
            with put_off():
                self._wait()
        self.began_at = monotonic()
        self.waited_seconds = 0.0

    def _load(self) -> None:
        """Has actors, which are started if need be, begin to load what is new to them."""
        if not self.actors:
            self._start()
        for actor in self.actors:
            actor.meter = WorkerMeter(actor.meter.name)
            if actor.num_metrics < len(self.work.metrics):
                actor.load(self.work.metrics)
            elif actor.loaded:
                actor.meter.loaded()

    def _has_loaded(self, kind: Kind) -> bool:
        """Whether an actor is loaded that does steps of this kind."""
        return any(actor.loaded and kind in actor.kinds for actor in self.actors)

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        self.work.add(key, task)

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Waits for a block and returns all that is done.

        Raises:
            ResourceError: no actor for `start_seconds`, or more than `restarts` deaths of one in a row.
        """
        while not self.work.results and self.work.keys:
            with put_off():
                self._send()
                self._wait()
        with put_off():
            self._send()
        return self.work.taken()

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that nobody waits for any more; what actors have of them changes nothing."""
        self.work.forget(keys)

    def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        """Every actor as it is now."""
        return tuple(
            actor.meter.status(actor.began_at if actor.calls else None) for actor in self.actors
        )

    def close(self) -> None:
        """Stops the actors, and Ray if it was started here."""
        with ignored():  # Ray that is interrupted while it stops leaves processes behind
            self.count_faults()
            if self.ray.is_initialized() and self.cluster.has_ended() is None:
                for actor in self.actors:
                    self.ray.kill(actor.handle)
            self.actors = []
            self.deaths.clear()
            self.work = Work(self.ray, self.settings)
            self.cluster.leave()

    def _start(self) -> None:
        """Starts the actors."""
        num_models = self.cluster.actors()
        num_comparing = self.settings.compare_actors
        kinds = ("model",) if num_comparing else BOTH
        names = [f"actor {i}" for i in range(1, num_models + 1)]
        self.actors = [self._new(WorkerMeter(name), kinds) for name in names]
        names = [f"comparing actor {i}" for i in range(1, num_comparing + 1)]
        self.actors += [self._new(WorkerMeter(name), ("compare",)) for name in names]
        self.work.num_representing = num_models
        self.work.num_comparing = num_comparing or num_models
        object_store_bytes = self.ray.cluster_resources().get("object_store_memory", 0)
        self.work.store_bytes = STORE_SHARE * object_store_bytes

    def _new(self, meter: WorkerMeter, kinds: tuple[Kind, ...]) -> Actor:
        """An actor that has begun to load the metrics."""
        handle = self.cluster.worker("model" not in kinds, self.cache_arguments)
        actor = Actor(handle, meter, kinds)
        actor.load(self.work.metrics)
        return actor

    def _send(self) -> None:
        """Gives every loaded actor its steps, one each before any gets a second; who gets none takes over another's."""
        for depth in range(DEPTH):
            for actor in self.actors:
                self._send_step(actor, depth)
        for actor in self.actors:
            if actor.loaded and not actor.calls:
                call = stolen_by(actor, self.actors)
                if call is not None:
                    self.ray.cancel(call.outcome)
                    actor.call(call.step)

    def _send_step(self, actor: Actor, depth: int) -> None:
        """Gives an actor with `depth` steps another, if it may get one."""
        if actor.loaded and len(actor.calls) == depth and actor.has_room(self.work.rates):
            step = self.work.next(actor.kinds, bool(actor.calls), actor.meter.name)
            if step is not None:
                actor.call(step)

    def _wait(self) -> None:
        """Waits until something is ready, a little while at most, and takes all that is."""
        self.cluster.check()
        awaited = [reference for actor in self.actors for reference in actor.awaited()]
        start = monotonic()
        self.ray.wait(awaited, num_returns=1, timeout=LOOK_SECONDS)
        self.waited_seconds += monotonic() - start
        ready, _ = self.ray.wait(awaited, num_returns=len(awaited), timeout=0)
        ready = set(ready)
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
            self._take_step(actor)

    def _take_step(self, actor: Actor) -> None:
        """Takes the outcome of an actor's first step, which is ready."""
        try:
            outcome: StepResult = self.ray.get(actor.calls[0].outcome)
        except self.ray.exceptions.TaskCancelledError:  # another actor took it over
            self.work.back(actor.finished().step)
        except self.ray.exceptions.RayError as error:
            if not self._is_lost(error):
                raise
            self.work.lost(actor.finished().step)
        else:
            call = actor.finished()
            actor.meter.add(outcome.work, outcome.seconds)
            self.deaths.clear()
            self.work.finished(call.step, call.value, outcome, actor.meter.name)

    def _loaded(self, outcome: LoadResult, actor: Actor) -> None:
        """Takes note that an actor has loaded; raises what went wrong if it could not."""
        if outcome.error is not None:
            self.close()
            raise outcome.error
        self.work.pairwise = outcome.pairwise
        for message in outcome.warnings:
            if message not in self.warned:
                self.warned.add(message)
                warn(message, UserWarning, stacklevel=2)
        actor.loading = None
        actor.meter.loaded()

    def _is_lost(self, error: Exception) -> bool:
        """Whether an error says that what a step reads is gone, not that the actor failed."""
        lost = self.ray.exceptions.ObjectLostError
        return isinstance(error, lost) or isinstance(getattr(error, "cause", None), lost)

    def _replaced(self, actor: Actor, error: Exception) -> Actor:
        """A new actor in the place of one that failed; its steps wait again, the one at work list by list."""
        self.ray.kill(actor.handle)
        if isinstance(error, self.ray.exceptions.RayTaskError) and actor.loading is not None:
            self.close()
            raise ModelLoadError(reason(error), where="a worker of the Ray engine") from error
        if actor.loaded:
            self.last_alive |= dict.fromkeys(actor.kinds, monotonic())
        actor.meter.lost()
        self._count_death(actor.meter.name, error)
        first, *others = actor.orphans() or [None]
        for step in reversed(others):
            if step is not None:
                self.work.back(step)
        if first is not None and self.work.blame(first, error):
            self.deaths.clear()
        return self._new(actor.meter, actor.kinds)

    def _count_death(self, name: str, error: Exception) -> None:
        """Counts the death of an actor; raises ResourceError if too many died in its place.

        Each actor counts by itself, as many die at once with their node.
        """
        self.deaths[name] += 1
        deaths = self.deaths[name]
        if deaths > self.settings.restarts:
            raise ResourceError(
                f"{deaths} workers in a row died with nothing finished; the last: {reason(error)}",
                where="engine ray",
                fix=FIX,
            )

    def _check_time(self) -> None:
        """Kills actors that take too long or are silent; raises ResourceError if there was none for too long."""
        now = monotonic()
        settings = self.settings
        for actor in self.actors:
            is_silent = actor.is_silent(settings.heartbeat_seconds)
            if is_silent or actor.works_longer_than(settings.block_seconds):
                self.ray.kill(actor.handle)
                actor.began_at = now
                actor.asked_at = now
        for kind in BOTH:
            if self._has_loaded(kind):
                self.last_alive[kind] = now
            elif now - self.last_alive[kind] > settings.start_seconds:
                raise ResourceError(
                    f"no worker for {settings.start_seconds:g} s: {self.cluster.shortage()}",
                    where="engine ray",
                    fix=FIX,
                )
