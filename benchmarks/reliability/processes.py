"""Starts commands in processes of their own, and sends them signals at drawn moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

MAX_COMMAND_SECONDS = 600.0
LOOK_SECONDS = 0.005
ANY_TIME = 0.25  # share of the signals that come at any time, also before the work has begun
SHOWN = "shown"  # the file with what a command writes to stdout, beside its outputs
COMMAND = "discorank"  # the module that is started
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
}
Snapshot = frozenset[tuple[str, int, int]]


class Pace(NamedTuple):
    """How long an undisturbed command takes, and how long until it first writes something."""

    seconds: float
    seconds_until_work: float


class Moment(NamedTuple):
    """When a signal comes: so many seconds after the start, or after the first change among the outputs."""

    number: signal.Signals
    seconds: float
    at_work: bool


class Ended(NamedTuple):
    """How a process ended, what it wrote to stderr, and the signal that came before its end."""

    code: int
    said: str
    hit: signal.Signals | None = None

    @property
    def as_documented(self) -> bool:
        """Whether a signal ended it with 128 and its number, as a shell says it; or it was done already."""
        number = int(self.hit or 0)
        return self.code in (128 + number, -number, 0, 3)


def start(
    words: Sequence[str],
    folder: Path,
    module: str = COMMAND,
) -> subprocess.Popen[str]:
    """Starts ``discorank``, or another module; what it writes to stdout goes to a file beside its outputs."""
    with open(folder / SHOWN, "wb") as shown:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
        )


def heed_interrupts() -> None:
    """Commands started from here on heed SIGINT, also where this one runs in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def finish(process: subprocess.Popen[str], hit: signal.Signals | None = None) -> Ended:
    """Waits for the end of a process."""
    _, said = process.communicate(timeout=MAX_COMMAND_SECONDS)
    return Ended(process.returncode, said, hit)


def undisturbed(
    words: Sequence[str],
    folder: Path,
    module: str = COMMAND,
) -> tuple[Ended, Pace]:
    """Runs a command to its end; how it ended, and how fast it was."""
    begin = time.monotonic()
    process = start(words, folder, module)
    wait_for_change(process, folder)
    at_work = time.monotonic()
    ended = finish(process)
    return ended, Pace(time.monotonic() - begin, at_work - begin)


def disturbed(
    words: Sequence[str],
    folder: Path,
    moment: Moment,
    module: str = COMMAND,
) -> Ended:
    """Runs a command and sends it a signal, if it has not ended before."""
    process = start(words, folder, module)
    if moment.at_work:
        wait_for_change(process, folder)
    try:
        process.wait(moment.seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(moment.number)
        return finish(process, moment.number)
    return finish(process)


def drawn(r: Random, pace: Pace, signals: Sequence[signal.Signals]) -> Moment:
    """A moment at which a command of this pace is probably at work."""
    at_work = r.random() > ANY_TIME
    span = pace.seconds - pace.seconds_until_work if at_work else pace.seconds
    return Moment(r.choice(signals), r.uniform(0, span), at_work)


def wait_for_change(process: subprocess.Popen[str], folder: Path) -> None:
    """Waits until something changes in a folder, or the process ends."""
    before = snapshot(folder)
    while process.poll() is None and snapshot(folder) == before:
        time.sleep(LOOK_SECONDS)


def snapshot(folder: Path) -> Snapshot:
    """Every file of a folder with its size and time."""
    seen = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:  # gone meanwhile
                continue
            seen.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(seen)
