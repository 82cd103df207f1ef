"""CPU seconds and peak memory of a process, `discorank decode` as one of its own, and tables in Markdown."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
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


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def one_thread() -> dict[str, str]:
    """The environment, with one thread for products of matrices."""
    return {**os.environ, **ONE_THREAD}


def decode_command(source: Path, out: Path, utility: str, *options: str) -> list[str]:
    """The words that decide the lists of a file, without progress."""
    words = ("decode", str(source), "-u", utility, "-o", str(out), "--quiet", *options)
    return [sys.executable, "-m", "discorank", *words]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, without the end of its last line."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def write_or_print(markdown: str, output: Path | None) -> None:
    """Writes tables to a file, or prints them where none is given."""
    if output:
        output.write_text(markdown, encoding="utf-8")
    else:
        print(markdown)
