"""The engine over Ray: blocks of lists go to actors that hold the loaded metrics, and come back in any order.

What an actor computes is what the local engine computes, so the outputs are the same bytes. An actor that dies is
replaced and its blocks are sent again, list by list the one it was busy with, so that a list that kills its worker is
found and becomes an error; a result can come once only, as whoever is given up for dead is killed. Ray's own restarts
and retries are off: they would send a whole block again for ever, and hang where there is no room for an actor.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..metrics.base import Metric
from ..metrics.cache import Cache
from ..metrics.errors import DiscorankError, MetricError, ModelLoadError, ResourceError
from ..metrics.meter import Metered
from ..metrics.mixture import Utility
from .engine import Result, Task
from .meter import Status, WorkerMeter
from .ray_settings import RaySettings
from .ray_worker import Done, Sent, Worker

FIRST_BLOCK = 1 << 16  # characters and pairs of a block, to begin with
SHORT_SECONDS, LONG_SECONDS = 0.3, 1.5  # a block outside this makes later ones longer or shorter
DEPTH = 2  # blocks that an actor has: one at work, one waiting, so that it need not wait for the driver
LOOK_SECONDS = 1.0  # how often time limits are looked at
FIX = "The same command goes on from here, with any engine"


class _Block(NamedTuple):
    tasks: list[Sent]
    cost: int
    alone: bool = False  # a list that was at work when a worker died: nothing else is on its next actor
    reference: Any = None  # Ray's name of the result


@dataclass(slots=True, eq=False)
class _Actor:
    handle: Any
    loading: Any  # Ray's name of the outcome of loading; None once loaded
    meter: WorkerMeter
    blocks: deque[_Block] = field(default_factory=deque)  # in the order it works on them
    since: float = 0.0  # when it began with the first of them


class RayEngine:
    """Actors in a cluster or on this machine; a context manager, which stops what it started.

    Args:
        settings: the cluster and the workers.
        cache: keeps representations of models; its folder is opened on every node.
    """

    def __init__(self, settings: RaySettings | None = None, cache: Cache | None = None) -> None:
        self.settings = settings or RaySettings()
        self.cache = None if cache is None else (os.path.abspath(cache.folder), cache.max_bytes)
        self.ray: Any = _imported()
        self.started = False
        self.metrics: list[Metric] = []
        self.numbers: dict[Metric, int] = {}
        self.actors: list[_Actor] = []
        self.waiting: deque[Sent] = deque()
        self.again: deque[_Block] = deque()  # blocks of actors that died
        self.tries: Counter[int] = Counter()  # how often a list was alone on an actor when it died, by key
        self.done: list[tuple[int, Result | DiscorankError]] = []
        self.size = FIRST_BLOCK
        self.deaths = 0  # since something was finished
        self.last_alive = monotonic()  # when there was a loaded actor
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
            self._connect()
            self.actors = [self._new(WorkerMeter(f"actor {i}")) for i in range(1, self._count() + 1)]
        else:
            for actor in self.actors:
                actor.loading, actor.meter = actor.handle.load.remote(self.metrics), WorkerMeter(actor.meter.name)
        self.last_alive = monotonic()
        while not any(actor.loading is None for actor in self.actors):
            self._wait()
        self.begun, self.waited_seconds = monotonic(), 0.0

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        self.waiting.append(Sent.of(key, task, self.numbers))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Waits for a block and returns all that is done.

        Raises:
            ResourceError: no actor for `start_seconds`, or more than `restarts` deaths in a row.
        """
        while not self.done and (self.waiting or self.again or any(actor.blocks for actor in self.actors)):
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

    def close(self) -> None:
        """Stops the actors, and Ray if it was started here."""
        if self.ray.is_initialized():
            for actor in self.actors:
                self.ray.kill(actor.handle)
            if self.started:
                self.ray.shutdown()
        self.actors, self.started = [], False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        """Joins the cluster, or starts Ray here; a session that is there already is used and left as it is."""
        if self.ray.is_initialized():
            return
        wanted = self.settings
        here: dict[str, Any] = {"address": wanted.address}
        if wanted.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            cores = wanted.actors and max(os.cpu_count() or 1, ceil(wanted.actors * wanted.cpus_per_actor))
            here = {"address": "local", "num_cpus": cores, "include_dashboard": False}
        main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        try:
            _reach(wanted.address)
            self.ray.init(**here, logging_level="ERROR", log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            found = f"Ray cannot be reached: {error}"
            raise ResourceError(
                found, where=f"ray.address {wanted.address}", fix="Start it, or mend the address"
            ) from error
        finally:
            if main and callable(handler):
                signal.signal(signal.SIGTERM, handler)  # Ray puts its own in its place
        self.started = True

    def _count(self) -> int:
        """How many actors are wanted."""
        if self.settings.actors is not None:
            return self.settings.actors
        there = self.ray.cluster_resources()
        count = there.get("CPU", 0) / self.settings.cpus_per_actor
        if self._gpus():
            count = min(count, there.get("GPU", 0) / self._gpus())
        return max(1, int(count))

    def _gpus(self) -> float:
        given = self.settings.gpus_per_actor
        return float(self.ray.cluster_resources().get("GPU", 0) > 0) if given is None else given

    def _new(self, meter: WorkerMeter) -> _Actor:
        cpus = self.settings.cpus_per_actor
        threads = str(max(1, int(cpus)))
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        remote = self.ray.remote(
            num_cpus=cpus, num_gpus=self._gpus(), runtime_env={"env_vars": dict.fromkeys(names, threads)}
        )
        handle = remote(Worker).remote(self.cache)
        return _Actor(handle, handle.load.remote(self.metrics), meter)

    def _send(self) -> None:
        """Gives every loaded actor its blocks, one each before any gets a second."""
        for depth in range(DEPTH):
            for actor in self.actors:
                if actor.loading is None and len(actor.blocks) == depth and self._has_room(actor):
                    block = self._next()
                    if block is None:
                        return
                    if not actor.blocks:
                        actor.since = monotonic()
                    actor.blocks.append(block._replace(reference=actor.handle.value.remote(block.tasks)))

    def _has_room(self, actor: _Actor) -> bool:
        """Whether an actor may get the next block: nothing waits behind a large list, nor beside one that is alone."""
        if not actor.blocks:
            return True
        first = actor.blocks[0]
        return not (first.alone or first.cost > 2 * self.size or (self.again and self.again[0].alone))

    def _next(self) -> _Block | None:
        """The next block: `size`, or a fair share of what waits if that is less; a larger list is alone."""
        if self.again:
            return self.again.popleft()
        if not self.waiting:
            return None
        most = -(-len(self.waiting) // (len(self.actors) * DEPTH))
        tasks = [self.waiting.popleft()]
        cost = tasks[0].cost
        while self.waiting and len(tasks) < most and cost + self.waiting[0].cost <= self.size:
            tasks.append(self.waiting.popleft())
            cost += tasks[-1].cost
        return _Block(tasks, cost)

    def _wait(self) -> None:
        """Waits until something is ready, a little while at most, and takes all that is."""
        names = [actor.loading for actor in self.actors if actor.loading is not None]
        names += [block.reference for actor in self.actors for block in actor.blocks]
        start = monotonic()
        self.ray.wait(names, num_returns=1, timeout=LOOK_SECONDS)
        self.waited_seconds += monotonic() - start
        ready = set(self.ray.wait(names, num_returns=len(names), timeout=0)[0])
        for i, actor in enumerate(self.actors):
            try:
                self._take(actor, ready)
            except self.ray.exceptions.RayError as error:
                self.actors[i] = self._replaced(actor, error)
        self._check_time()

    def _take(self, actor: _Actor, ready: set[Any]) -> None:
        """Takes what an actor has ready; raises Ray's error if it died."""
        if actor.loading in ready:
            self._loaded(self.ray.get(actor.loading), actor)
        while actor.blocks and actor.blocks[0].reference in ready:
            done: Done = self.ray.get(actor.blocks[0].reference)
            block = actor.blocks.popleft()
            actor.since = monotonic()
            self.deaths = 0
            self.done += done.results
            actor.meter.add(done.work, done.seconds)
            for key, _ in done.results:
                self.tries.pop(key, None)
            if done.seconds < SHORT_SECONDS and block.cost > self.size / 2:
                self.size *= 2
            elif done.seconds > LONG_SECONDS:
                self.size = max(1, self.size // 2)

    def _loaded(self, error: DiscorankError | None, actor: _Actor) -> None:
        if error is not None:
            raise error
        actor.loading = None
        actor.meter.loaded()

    def _replaced(self, actor: _Actor, error: Exception) -> _Actor:
        """A new actor in the place of one that failed; its blocks wait again, the one at work list by list."""
        self.ray.kill(actor.handle)
        if isinstance(error, self.ray.exceptions.RayTaskError) and actor.loading is not None:
            raise ModelLoadError(_reason(error), where="a worker of the Ray engine") from error
        self.deaths += 1
        actor.meter.lost()
        if self.deaths > self.settings.restarts:
            found = f"{self.deaths} workers in a row died with nothing finished; the last: {_reason(error)}"
            raise ResourceError(found, where="engine ray", fix=FIX)
        first, *others = actor.blocks or (_Block([], 0),)
        back = [_Block([task], task.cost, alone=True) for task in first.tasks if not self._given_up(task, first, error)]
        self.again.extendleft(reversed([*back, *others]))
        return self._new(actor.meter)

    def _given_up(self, task: Sent, block: _Block, error: Exception) -> bool:
        """Whether a list was alone once too often when its worker died; then it has its error."""
        self.tries[task.key] += block.alone
        if self.tries[task.key] <= self.settings.retries:
            return False
        found = f"its worker died {self.tries.pop(task.key)} times: {_reason(error)}"
        self.done.append((task.key, MetricError(found, where="engine ray", fix="Look at the list, or raise retries")))
        self.deaths = 0
        return True

    def _check_time(self) -> None:
        """Kills actors that take too long; raises ResourceError if there was none for too long."""
        now = monotonic()
        for actor in self.actors:
            if actor.blocks and now - actor.since > self.settings.block_seconds:
                self.ray.kill(actor.handle)
                actor.since = now
        if any(actor.loading is None for actor in self.actors):
            self.last_alive = now
        elif now - self.last_alive > self.settings.start_seconds:
            wanted = f"{len(self.actors)} x {self.settings.cpus_per_actor:g} CPUs and {self._gpus():g} GPUs"
            there = {name: n for name, n in self.ray.cluster_resources().items() if name in ("CPU", "GPU")}
            found = f"no worker for {self.settings.start_seconds:g} s: wanted {wanted}, the cluster has {there}"
            raise ResourceError(found, where="engine ray", fix=FIX)


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        fix = "Install it: pip install 'discorank[ray]'"
        raise ModelLoadError("Ray is not installed", where="engine ray", fix=fix) from error
    return ray


def _reach(address: str | None) -> None:
    """Raises OSError if nothing listens at a host:port; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), 10).close()


def _reason(error: Exception) -> str:
    """The first line of Ray's account of a death that says something."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
