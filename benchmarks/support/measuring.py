"""CPU seconds and peak memory of the calling process."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def cpu_seconds() -> float:
    """User and system seconds so far."""
    return time.process_time()


def timed(call: Callable[[], T], repeats: int = 1) -> tuple[float, T]:
    """The least CPU seconds of some calls, and what the last returned."""
    best = float("inf")
    for _ in range(repeats):
        start = cpu_seconds()
        value = call()
        best = min(best, cpu_seconds() - start)
    return best, value


def peak_mebibytes() -> float:
    """Largest resident size so far.

    Where Linux tells it, that of the program alone: what `getrusage` says begins at the size of the process that
    started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
