"""A process that runs `process_worker`, as the process that feeds it sees it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from ...metrics.base import Metric
from ...metrics.storage.limits import limits
from .forked_process import ForkedProcess, can_fork
from .ray.worker import LoadResult, Sent, StepResult, WorkOnLines
from .status import WorkerMeter

MODULE = "discorank.rerank.engines.process_worker"


class WorkerProcess:
    """A worker, and what it is at.

    It stands in a session of its own: a Ctrl-C of the terminal reaches this process alone, which stops the others.

    Args:
        meter: of its place.
        cache: folder and size of a cache of representations.
        jobs: how many share the machine's processors.
        may_fork: it may be a copy of this process, where that is safe, as its metrics start no threads.
    """

    def __init__(
        self,
        meter: WorkerMeter,
        cache: tuple[str, int] | None,
        jobs: int,
        may_fork: bool = False,
    ) -> None:
        self.meter = meter
        self.is_loaded = False
        self.blocks: deque[list[Sent]] = deque()  # the first is being valued
        self.going_on: deque[Sent] = deque()  # lists whose texts it has
        self.at_work_since: float | None = None
        self.connection, other = Pipe()
        with other:
            self.process = _forked(other) if may_fork and can_fork() else _started(other, jobs)
        self._tell((gc.get_threshold(), cache, limits()))

    @property
    def is_alive(self) -> bool:
        """Whether it can be given lists."""
        return self.is_loaded

    def load(self, metrics: Sequence[Metric], work: WorkOnLines | None = None) -> None:
        """Has it load those of the metrics that are new to it, and do this work with lines."""
        self.is_loaded = False
        self._tell(("load", (list(metrics), work)))

    def value(self, block: list[Sent]) -> None:
        """Has it value some lists."""
        if not self.blocks:
            self.at_work_since = monotonic()
        self.blocks.append(block)
        self._tell(("value", (block,)))

    def answer(self) -> LoadResult | StepResult:
        """Its next message; raises EOFError or OSError if it died."""
        answer: LoadResult | StepResult = self.connection.recv()
        if isinstance(answer, LoadResult):
            self.is_loaded = True
            self.meter.loaded()
            return answer
        self.blocks.popleft()
        self.at_work_since = monotonic() if self.blocks else None
        self.meter.add(answer.work, answer.seconds)
        return answer

    def stop(self, patience: float = 0.0) -> int:
        """Ends it if it has not ended by itself after some seconds; how it ended."""
        self.is_loaded = False
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.connection.close()
        self.process.kill()
        return self.process.wait()

    def _tell(self, message: Any) -> None:
        """Sends a message; that it died is seen when it is listened to."""
        with suppress(OSError):
            self.connection.send(message)


def _forked(connection: Connection[Any, Any]) -> ForkedProcess:
    from .process_worker import answer_messages

    return ForkedProcess(lambda: answer_messages(connection), connection.fileno())


def _started(connection: Connection[Any, Any], jobs: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", MODULE, str(connection.fileno())],
        env=_environment(jobs),
        stdin=subprocess.DEVNULL,
        pass_fds=[connection.fileno()],
        start_new_session=True,
    )


def _environment(jobs: int) -> dict[str, str]:
    """The environment of a worker: the same packages, and its share of the processors."""
    folders = [folder or os.getcwd() for folder in sys.path]
    threads = max(1, (os.cpu_count() or 1) // jobs)
    return {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
    }
