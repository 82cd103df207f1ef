"""A process that works for `ProcessEngine`: as this process sees it, and what it runs.

It is a new process or, where that is safe, a copy of this one, for which what is loaded need not be loaded again. It
runs the worker that Ray's actors are too, fed over a pipe. Messages are (name of a method of `Worker`, arguments), but
for the first: when garbage is looked for, and the worker's own arguments. Each is answered by what the method returns.
A thread reads them, so that the sender is never kept waiting; it ends the process when the other end of the pipe is
gone, whatever the worker is at.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from time import monotonic, sleep
from typing import Any

from ...metrics.base import Metric
from ...metrics.storage.limits import limits
from ...metrics.storage.stop_signals import NUMBERS
from .ray.worker import LoadResult, Sent, StepResult, Worker, WorkOnLines
from .status import WorkerMeter

MODULE = "discorank.rerank.engines.worker_process"
START = f"from {MODULE} import main; main()"  # by -m the module would be loaded twice


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
        self.continued: deque[Sent] = deque()  # lists whose texts it has
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

    return ForkedProcess(lambda: answer_messages(connection), connection.fileno())


def _started(connection: Connection[Any, Any], jobs: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-P", "-c", START, str(connection.fileno())],
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


def answer_messages(connection: Connection[Any, Any]) -> None:
    """Answers messages until the pipe is closed."""
    gc.freeze()  # what is there stays
    messages: SimpleQueue[Any] = SimpleQueue()
    try:
        Thread(target=_read, args=(connection, messages), daemon=True).start()
    except RuntimeError as error:  # the system has no more threads
        sys.stderr.write(f"discorank: a worker ends: {error}\n")
        os._exit(1)
    threshold, *arguments = messages.get()
    gc.set_threshold(*threshold)
    worker = Worker(*arguments)
    while True:
        method, arguments = messages.get()
        connection.send(getattr(worker, method)(*arguments))


def _read(connection: Connection[Any, Any], messages: SimpleQueue[Any]) -> None:
    """Puts all that comes into the queue; what cannot be read ends the process too."""
    code = 1
    try:
        while True:
            messages.put(connection.recv())
    except (EOFError, OSError):
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    """The program of a new process; its argument is the descriptor of its pipe."""
    answer_messages(Connection(int(sys.argv[1])))


THREADS = "/proc/self/task"
FIRST_DESCRIPTOR, LAST_DESCRIPTOR = 3, 1 << 16
LOOK_SECONDS = 0.005


def can_fork() -> bool:
    """Whether a copy is whole: no thread but this one, of Python or of a library, and nothing that holds a device."""
    return os.path.isdir(THREADS) and len(os.listdir(THREADS)) == 1 and "torch" not in sys.modules


class ForkedProcess:
    """A copy of this process, with the methods of `subprocess.Popen` that workers need.

    It has a session of its own, the usual signals, and of all open files the standard streams and one more, so that
    locks and pipes of this process end with it.

    Args:
        run: what it does; it ends when this returns.
        descriptor: the file that it keeps.
    """

    def __init__(self, run: Callable[[], object], descriptor: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _end_with(run, descriptor)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or the negative number of the signal that killed it.

        Raises:
            subprocess.TimeoutExpired: it has not ended within so many seconds.
        """
        end = None if timeout is None else monotonic() + timeout
        while self.code is None:
            pid, status = os.waitpid(self.pid, 0 if end is None else os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif end is not None and monotonic() >= end:
                raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
            else:
                sleep(LOOK_SECONDS)
        return self.code

    def kill(self) -> None:
        """Ends it if it has not ended."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)


def _end_with(run: Callable[[], object], descriptor: int) -> None:
    """The work of the copy, and the last that it does."""
    code = 1
    try:
        os.setsid()
        for number in NUMBERS:
            signal.signal(number, signal.SIG_DFL)
        os.closerange(FIRST_DESCRIPTOR, descriptor)
        os.closerange(descriptor + 1, LAST_DESCRIPTOR)
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
