"""A copy of this process as a worker: what is loaded need not be loaded again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from time import monotonic, sleep

from ...metrics.storage.stop_signals import NUMBERS

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
