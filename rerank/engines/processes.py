"""The engine over processes of this machine: blocks of lists go to workers, and come back in any order.

What a worker computes is what the local engine computes, so the outputs are the same bytes. A worker that dies is
replaced; the lists that it was at are valued one by one, and one that takes a worker down by itself is an error record.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Sequence
from itertools import count
from multiprocessing.connection import wait
from time import monotonic
from types import TracebackType
from typing import Any, Self
from warnings import warn

from ...metrics.base import Metric
from ...metrics.errors import MetricError, ResourceError
from ...metrics.execution.cache import Cache
from ...metrics.execution.meter import Metered
from ...metrics.mixture import Utility
from ...metrics.storage.stop_signals import ignored, put_off
from .interface import Loaded, SentLine, Task, loaded_as
from .ray.worker import LoadResult, Sent, SentTask, StepResult, WorkOnLines
from .status import Status, WorkerMeter
from .worker_process import WorkerProcess

FIRST_BLOCK, LAST_BLOCK = 1 << 16, 1 << 20  # characters handed to a worker at once
SHORT_SECONDS, LONG_SECONDS = 0.2, 1.0  # a block outside this is made longer or shorter
DEPTH = 2  # blocks that a worker has, so that it need not wait for the next
DEATHS = 3  # in a row, with nothing finished
PATIENCE_SECONDS = 5.0  # until a worker that closed its pipe has ended
LOOK_SECONDS = 1.0  # how long nothing need be ready
FIX = "The same command resumes from here, with any engine"


class ProcessEngine:
    """Worker processes; a context manager, which stops them.

    Args:
        jobs: how many.
        cache: keeps representations of models; every worker opens its folder.
    """

    def __init__(self, jobs: int, cache: Cache | None = None) -> None:
        self.jobs = jobs
        self.cache = None if cache is None else (os.path.abspath(cache.folder), cache.max_bytes)
        self.own_cache = cache  # it says at the end what the workers met in theirs
        self._begin()

    def _begin(self) -> None:
        """Without workers, metrics and lists."""
        self.workers: list[WorkerProcess] = []
        self.metrics: list[Metric] = []
        self.metric_numbers: dict[Loaded, int] = {}
        self.serial = count()
        self.work: WorkOnLines | None = None  # what workers do with lines
        self.keys: dict[int, int] = {}  # of every list that is awaited, by its serial number
        self.waiting: deque[Sent] = deque()
        self.alone: deque[Sent] = deque()  # those that may have taken a worker down
        self.homes: dict[int, WorkerProcess] = {}  # where the lists were valued that came back last
        self.results: list[tuple[int, Any]] = []  # of lists, or of lines what `work` makes of them
        self.block = FIRST_BLOCK
        self.deaths = 0
        self.began_at = monotonic()
        self.waited_seconds = 0.0

    def load(self, metrics: Sequence[Utility], work: WorkOnLines | None = None) -> None:
        """Starts the workers if need be and waits until all have loaded the metrics.

        Args:
            metrics: what lists are valued by.
            work: what is done with lines, where lines are submitted; its metrics load no models.

        Raises:
            ModelLoadError: a metric cannot be loaded.
            ResourceError: workers die while they load.
        """
        self.begin(metrics, work)
        while not self.has_loaded(LOOK_SECONDS):
            pass
        self.began_at = monotonic()
        self.waited_seconds = 0.0

    def begin(self, metrics: Sequence[Utility], work: WorkOnLines | None = None) -> None:
        """Has the workers load metrics, and take up what they do with lines, without waiting for them.

        Raises:
            ResourceError: the system starts no more processes.
        """
        self._count_faults()
        self.work = work
        for metric in metrics:
            for _, part in metric.parts:
                if loaded_as(part) not in self.metric_numbers:
                    self.metric_numbers[loaded_as(part)] = len(self.metrics)
                    self.metrics.append(part)
        if not self.workers:
            names = [f"process {i}" for i in range(1, self.jobs + 1)]
            for name in names:
                self.workers.append(self._new(WorkerMeter(name)))
        for worker in self.workers:
            worker.meter = WorkerMeter(worker.meter.name)
            worker.load(self.metrics, work)

    def has_loaded(self, seconds: float = 0.0) -> bool:
        """Whether all workers are ready, now or within some seconds; raises as `load` does."""
        if not all(worker.is_loaded for worker in self.workers):
            self._wait(seconds)
        return all(worker.is_loaded for worker in self.workers)

    def submit(self, key: int, task: Task) -> None:
        """Takes a list; one that is continued comes first, and goes where its texts are."""
        serial = next(self.serial)
        self.keys[serial] = key
        sent = SentTask.of(serial, task, self.metric_numbers)
        home = self.homes.get(key)
        if home is not None and home.is_alive:
            home.continued.append(sent)
        else:
            self.waiting.append(sent)

    def submit_line(self, number: int, line: bytes) -> None:
        """Takes a line, whose number is its key."""
        serial = next(self.serial)
        self.keys[serial] = number
        self.waiting.append(SentLine(serial, (1 + len(line), 0), number, line))

    def collect(self) -> list[tuple[int, Any]]:
        """Waits for a block and returns all that is done: results, or what `work` makes of lines, or errors.

        Raises:
            ResourceError: what a metric needs is gone, or workers die one after the other.
        """
        self.homes = {}
        while not self.results and self.keys:
            self._send()
            self._wait(LOOK_SECONDS)
        self._send()
        results, self.results = self.results, []
        return results

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists; what workers have of them changes nothing."""
        self.keys = {serial: key for serial, key in self.keys.items() if key not in keys}
        queues = (self.waiting, self.alone, *(worker.continued for worker in self.workers))
        for queue in queues:
            kept = [task for task in queue if task.key in self.keys]
            queue.clear()
            queue.extend(kept)

    def status(self) -> Status:
        """The work that the workers have done, and how long this process waited for them."""
        workers = tuple(worker.meter.status(worker.at_work_since) for worker in self.workers)
        work = sum((worker.work for worker in workers), Metered())
        return Status(work, monotonic() - self.began_at, self.waited_seconds, workers)

    def close(self) -> None:
        """Stops the workers."""
        with ignored():
            self._count_faults()
            for worker in self.workers:
                worker.stop()
            self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _new(self, meter: WorkerMeter) -> WorkerProcess:
        """A worker that begins; raises ResourceError where the system starts no more processes."""
        reads_lines = self.work is not None
        # metrics of lines load no models, and an open database is not for copies of a process
        cache = None if reads_lines else self.cache
        try:
            # a copy that a signal reached would go on with what this process does at its end
            with put_off():
                return WorkerProcess(meter, cache, self.jobs, may_fork=reads_lines)
        except OSError as error:
            problem = f"no process can be started: {error.strerror}"
            raise ResourceError(problem, where="--jobs", fix=FIX) from error

    def _count_faults(self) -> None:
        """Adds the entries of caches that workers found damaged or unchecked to those of this process."""
        work = self.status().work
        if self.own_cache is not None:
            self.own_cache.faults.add(work.damaged_entries, work.unchecked_entries)

    def _send(self) -> None:
        """Gives every worker its blocks, one each before any gets a second."""
        for depth in range(DEPTH):
            for worker in self.workers:
                if worker.is_loaded and len(worker.blocks) == depth:
                    block = self._next_block(worker)
                    if block:
                        worker.value(block)

    def _next_block(self, worker: WorkerProcess) -> list[Sent]:
        """The next lists for a worker, of about `block` characters together, or its share of what is left."""
        if self.alone and not worker.blocks:
            return [self.alone.popleft()]
        left = (
            sum(task.amounts[0] for task in self.waiting) if len(self.waiting) < 1000 else 1 << 40
        )
        size = min(self.block, left / (DEPTH * self.jobs))
        block: list[Sent] = []
        characters = 0
        for queue in (worker.continued, self.waiting):
            while queue and (not block or characters < size):
                block.append(queue.popleft())
                characters += block[-1].amounts[0]
        return block

    def _wait(self, seconds: float) -> None:
        """Waits until something is ready, so long at most, and takes all that is."""
        start = monotonic()
        ready = wait([worker.connection for worker in self.workers], seconds)
        self.waited_seconds += monotonic() - start
        for i, worker in enumerate(self.workers):
            if worker.connection in ready:
                try:
                    answer = worker.answer()
                except (EOFError, OSError):
                    self.workers[i] = self._replaced(worker)
                else:
                    self._take(worker, answer)

    def _take(self, worker: WorkerProcess, answer: LoadResult | StepResult) -> None:
        """Takes what a worker answered; raises what keeps all workers from going on."""
        if answer.error is not None:
            self.close()
            raise answer.error
        if isinstance(answer, LoadResult):
            for message in answer.warnings:
                warn(message, UserWarning, stacklevel=2)
            return
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
        code = worker.stop(PATIENCE_SECONDS)
        worker.meter.lost()
        self.deaths += 1
        blamed, *others = worker.blocks or [[]]
        for block in reversed([*others, list(worker.continued)]):
            self.waiting.extendleft(reversed(block))
        if len(blamed) == 1:
            self._blame(blamed[0], code)
        else:
            self.alone.extend(blamed)
        if self.deaths > DEATHS:
            problem = (
                f"{self.deaths} workers in a row died with nothing finished; the last: {_end(code)}"
            )
            raise ResourceError(problem, where="--jobs", fix=FIX)
        new = self._new(worker.meter)
        new.load(self.metrics, self.work)
        return new

    def _blame(self, task: Sent, code: int) -> None:
        """Makes an error of a list that a worker died at, with no other beside it."""
        key = self.keys.pop(task.key, None)
        if key is not None:
            error = MetricError(f"a worker died while it valued this list: {_end(code)}")
            self.results.append((key, error))
            self.deaths = 0


def _end(code: int) -> str:
    """How a process ended."""
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
