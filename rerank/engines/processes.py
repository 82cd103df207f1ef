"""The engine over processes of this machine: blocks of lists go to workers, and come back in any order.

Each worker is a `ProcessPoolExecutor` of one process, so that one that dies takes down its own blocks alone, and a
continued list goes to the process that has its texts. The process runs the worker that Ray's actors are too, so the
outputs have the bytes of the local engine. A worker that dies is replaced; the lists of its block are valued one by
one, and a list that takes a worker down by itself is an error record.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from time import monotonic
from typing import Any
from warnings import warn

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, MetricError, ResourceError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.storage.limits import limits
from ...metrics.storage.stop_signals import ignored, put_off
from .interface import Loaded, Result, Task, WorkerEngine, number_parts
from .ray.worker import LoadResult, SentTask, StepResult, Worker
from .status import WorkerMeter, WorkerStatus

FIRST_BLOCK, LAST_BLOCK = 1 << 16, 1 << 20  # characters handed to a worker at once
SHORT_SECONDS, LONG_SECONDS = 0.2, 1.0  # a block outside this is made longer or shorter
DEPTH = 2  # blocks that a worker has, so that it need not wait for the next
DEATHS = 3  # in a row, with nothing finished
LOOK_SECONDS = 1.0  # how long nothing need be ready
FIX = "The same command resumes from here, with any engine"
SPAWN = get_context("spawn")
_worker: Worker  # of a worker process


class ProcessEngine(WorkerEngine):
    """Worker processes; a context manager, which stops them.

    Args:
        jobs: how many.
        cache: keeps representations of models; every worker opens its folder.
    """

    def __init__(self, jobs: int, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self.jobs = jobs
        self._reset()

    def _reset(self) -> None:
        """Start without workers, metrics and lists."""
        self.workers: list[WorkerProcess] = []
        # nothing is sent: workers end when the other end is closed, by `close` or by the end of this process
        self.lifeline, self.ours = SPAWN.Pipe(duplex=False)
        self.metrics: list[Metric] = []
        self.metric_numbers: dict[Loaded, int] = {}
        self.serial = count()
        self.keys: dict[int, int] = {}  # of every list that is awaited, by its serial number
        self.waiting: deque[SentTask] = deque()
        self.alone: deque[SentTask] = deque()  # those that may have taken a worker down
        self.homes: dict[int, WorkerProcess] = {}  # where the lists were valued that came back last
        self.results: list[tuple[int, Result | DiscorankError]] = []
        self.block = FIRST_BLOCK
        self.deaths = 0

    def load(self, metrics: Sequence[Utility]) -> None:
        """Start the workers if need be and wait until all have loaded the metrics.

        Raises:
            ModelLoadError: a metric cannot be loaded.
            ResourceError: the system starts no more processes, or workers die while they load.
        """
        self.count_faults()
        number_parts(metrics, self.metrics, self.metric_numbers)
        meters = [WorkerMeter(f"process {i}") for i in range(1, self.jobs + 1)]
        if not self.workers:
            self.workers = list(map(self._started, meters))
        for worker, meter in zip(self.workers, meters, strict=True):
            worker.meter = meter
            self._call(worker, "load", list(self.metrics))
        while not all(worker.is_loaded for worker in self.workers):
            self._wait()
        self.began_at = monotonic()
        self.waited_seconds = 0.0

    def submit(self, key: int, task: Task) -> None:
        """Take a list; one that is continued comes first, and goes where its texts are."""
        serial = next(self.serial)
        self.keys[serial] = key
        home = self.homes.get(key)
        queue = self.waiting if home is None else home.continued
        queue.append(SentTask.of(serial, task, self.metric_numbers))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Wait for a block and return all that is done.

        Raises:
            ResourceError: what a metric needs is gone, or workers die one after the other.
        """
        self.homes = {}
        while not self.results and self.keys:
            self._send()
            self._wait()
        self._send()
        results, self.results = self.results, []
        return results

    def forget(self, keys: Collection[int]) -> None:
        """Let go of lists; what workers have of them changes nothing."""
        self.keys = {serial: key for serial, key in self.keys.items() if key not in keys}
        queues = (self.waiting, self.alone, *(worker.continued for worker in self.workers))
        for queue in queues:
            kept = [task for task in queue if task.key in self.keys]
            queue.clear()
            queue.extend(kept)

    def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        """Every worker as it is now."""
        return tuple(worker.meter.status(worker.at_work_since) for worker in self.workers)

    def close(self) -> None:
        """Stop the workers, whatever they are at."""
        with ignored():
            self.count_faults()
            self.ours.close()
            self.lifeline.close()
            for worker in self.workers:
                worker.pool.shutdown()
            self._reset()

    def _started(self, meter: WorkerMeter) -> WorkerProcess:
        """A worker, whose process starts with its first call."""
        threads = max(1, (os.cpu_count() or 1) // self.jobs)
        arguments = (self.lifeline, threads, gc.get_threshold(), (self.cache_arguments, limits()))
        return WorkerProcess(ProcessPoolExecutor(1, SPAWN, _begin, arguments), meter)

    def _call(self, worker: WorkerProcess, method: str, argument: Any) -> None:
        """Have a worker call a method of `Worker`; raises ResourceError where the system starts no process."""
        try:
            with put_off(), _without_interrupts():
                future = worker.pool.submit(_called, method, argument)
        except OSError as error:
            problem = f"no process can be started: {error.strerror}"
            raise ResourceError(problem, where="--jobs", fix=FIX) from error
        except BrokenProcessPool as error:  # its other calls say so when they are waited for
            future = Future()
            future.set_exception(error)
        if not worker.calls:
            worker.at_work_since = monotonic()
        worker.calls.append((future, argument if method == "value" else []))

    def _send(self) -> None:
        """Give every worker its blocks, one each before any gets a second."""
        for depth in range(DEPTH):
            for worker in self.workers:
                if worker.is_loaded and len(worker.calls) == depth:
                    block = self._next_block(worker)
                    if block:
                        self._call(worker, "value", block)

    def _next_block(self, worker: WorkerProcess) -> list[SentTask]:
        """The next lists for a worker, of about `block` characters together, or its share of what is left."""
        if self.alone and not worker.calls:
            return [self.alone.popleft()]
        left = (
            sum(task.amounts[0] for task in self.waiting) if len(self.waiting) < 1000 else 1 << 40
        )
        size = min(self.block, left / (DEPTH * self.jobs))
        block: list[SentTask] = []
        characters = 0
        for queue in (worker.continued, self.waiting):
            while queue and (not block or characters < size):
                block.append(queue.popleft())
                characters += block[-1].amounts[0]
        return block

    def _wait(self) -> None:
        """Wait until something is ready, for a while at most, and take all that is."""
        start = monotonic()
        first = [worker.calls[0][0] for worker in self.workers if worker.calls]
        wait(first, LOOK_SECONDS, FIRST_COMPLETED)
        self.waited_seconds += monotonic() - start
        for i, worker in enumerate(self.workers):
            if worker.calls and worker.calls[0][0].done():
                try:
                    answer = worker.calls[0][0].result()
                except BrokenProcessPool:
                    self.workers[i] = self._replaced(worker)
                else:
                    self._take(worker, answer)

    def _take(self, worker: WorkerProcess, answer: LoadResult | StepResult) -> None:
        """Take a worker's answer; raises what keeps all workers from going on."""
        worker.calls.popleft()
        worker.at_work_since = monotonic() if worker.calls else None
        if answer.error is not None:
            self.close()
            raise answer.error
        if isinstance(answer, LoadResult):
            worker.is_loaded = True
            worker.meter.loaded()
            for message in answer.warnings:
                warn(message, UserWarning, stacklevel=2)
            return
        worker.meter.add(answer.work, answer.seconds)
        self.deaths = 0
        if answer.seconds < SHORT_SECONDS:
            self.block = min(2 * self.block, LAST_BLOCK)
        elif answer.seconds > LONG_SECONDS:
            self.block = max(1, self.block // 2)
        for serial, result in answer.results:
            key = self.keys.pop(serial, None)
            if key is not None:
                self.results.append((key, result))
                self.homes[key] = worker

    def _replaced(self, worker: WorkerProcess) -> WorkerProcess:
        """A worker in the place of one that died; raises ResourceError if too many did."""
        worker.pool.shutdown()
        worker.meter.lost()
        self.deaths += 1
        (_, blamed), *others = worker.calls
        for block in reversed([*(block for _, block in others), list(worker.continued)]):
            self.waiting.extendleft(reversed(block))
        key = self.keys.pop(blamed[0].key, None) if len(blamed) == 1 else None
        if key is not None:
            self.results.append((key, MetricError("a worker died while it valued this list")))
            self.deaths = 0
        elif len(blamed) > 1:
            self.alone.extend(blamed)
        if self.deaths > DEATHS:
            problem = f"{self.deaths} workers in a row died with nothing finished"
            raise ResourceError(problem, where="--jobs", fix=FIX)
        new = self._started(worker.meter)
        self.homes = {key: home for key, home in self.homes.items() if home is not worker}
        self._call(new, "load", list(self.metrics))
        return new


class WorkerProcess:
    """A worker as the engine sees it, and the calls that it has.

    Args:
        pool: its process.
        meter: of its place.
    """

    def __init__(self, pool: ProcessPoolExecutor, meter: WorkerMeter) -> None:
        self.pool = pool
        self.meter = meter
        self.is_loaded = False
        # the first is at work; with the lists to be valued, none of a call that loads
        self.calls: deque[tuple[Future[LoadResult | StepResult], list[SentTask]]] = deque()
        self.continued: deque[SentTask] = deque()  # lists whose texts it has
        self.at_work_since: float | None = None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes with SIGINT blocked: a Ctrl-C of the terminal is for this process, which stops the others."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(
    lifeline: Connection, threads: int, thresholds: tuple[int, int, int], arguments: tuple[Any, ...]
) -> None:
    """Prepare this worker process: its `Worker`, and a thread that ends it when nobody has the other end of the pipe.

    Args:
        lifeline: of a pipe, into which nothing is sent.
        threads: of this process.
        thresholds: of the search for garbage.
        arguments: of `Worker`.
    """
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    gc.set_threshold(*thresholds)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _worker = Worker(*arguments)


def _end_with(lifeline: Connection) -> None:
    """End this process, whatever it is at, when the other end of a pipe is closed."""
    with suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


def _called(method: str, argument: Any) -> LoadResult | StepResult:
    """The result of a method of this process's worker."""
    result: LoadResult | StepResult = getattr(_worker, method)(argument)
    return result
