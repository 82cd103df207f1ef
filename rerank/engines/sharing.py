"""The engine that works in the calling process until it is known that others beside it pay.

There are as many as this process may use processors: those there are, its affinity, the quotas of its control groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from warnings import warn

from ...metrics.errors import ResourceError
from ...metrics.execution.meter import Metered
from ...metrics.mixture import Utility
from .local import LocalEngine
from .status import Status

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache
    from .processes import ProcessEngine
    from .ray.worker import WorkOnLines

# CPU seconds of work that must be left for each process: one that begins anew loads numpy and metrics, a copy next to
# nothing
NEW_SECONDS, COPIED_SECONDS = 0.75, 0.25
OWN_SECONDS = 5e-5  # CPU seconds of a list in the process that reads and writes
LIGHT = "discorank.metrics.lexical."


def processes_that_pay(
    seconds_left: float, seconds_per_list: float, most: int, is_copy: bool
) -> int:
    """How many processes are worth their start; 1 is this one alone.

    Args:
        seconds_left: CPU seconds of the lists that are left.
        seconds_per_list: of one of them, of which some stay in the process that reads and writes.
        most: how many there may be.
        is_copy: they are copies of this process (`can_fork`).
    """
    needed = COPIED_SECONDS if is_copy else NEW_SECONDS
    fed = seconds_per_list / OWN_SECONDS
    return max(1, int(min(seconds_left / needed, fed, most)))


def loads_at_once(utility: Utility) -> bool:
    """Whether every process has a utility's metrics at once: they load no model and ask no server."""
    return all(
        type(part).__module__.startswith(LIGHT) and not part.info.bucketed
        for _, part in utility.parts
    )


class SharingEngine(LocalEngine):
    """A `LocalEngine` that can start processes; a context manager, which stops them.

    Args:
        max_jobs: how many at most.
        cache: keeps representations of models for later runs.
    """

    def __init__(self, max_jobs: int, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self.max_jobs = max_jobs
        self.metrics: Sequence[Utility] = ()
        self.processes: ProcessEngine | None = None
        self.earlier_work = Metered()  # of processes that ended

    def load(self, metrics: Sequence[Utility]) -> None:
        """Loads the scorers; errors as `Metric.load`."""
        super().load(metrics)
        self.metrics = metrics

    def start(self, jobs: int, work: WorkOnLines) -> None:
        """Starts processes if it is more than one; they take up the work when they have loaded the metrics."""
        jobs = min(jobs, self.max_jobs)
        if jobs < 2:
            return
        from .processes import ProcessEngine

        self.processes = ProcessEngine(jobs, self.cache)
        try:
            self.processes.begin(self.metrics, work)
        except ResourceError as error:
            self.give_up(error)

    def has_loaded(self) -> bool:
        """Whether there are processes, which are ready."""
        try:
            return self.processes is not None and self.processes.has_loaded()
        except ResourceError as error:
            self.give_up(error)
            return False

    def give_up(self, error: ResourceError) -> None:
        """Works in this process alone, and warns of it."""
        if self.processes is not None:
            self.earlier_work += self.processes.status().work
            self.processes.close()
        self.processes, self.max_jobs = None, 1
        warn(f"one process works alone: {error.problem}", UserWarning, stacklevel=2)

    def status(self) -> Status:
        """The work done here and by the processes."""
        own = super().status()
        own = replace(own, work=own.work + self.earlier_work)
        if self.processes is None:
            return own
        theirs = self.processes.status()
        return Status(own.work + theirs.work, own.seconds, theirs.waited_seconds, theirs.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.processes is not None:
            self.processes.close()


GROUPS = Path("/sys/fs/cgroup")
# lines NUMBER:CONTROLLERS:PATH, where version 2 names no controllers
OWN_GROUPS = Path("/proc/self/cgroup")


def usable_processors() -> int:
    """How many processors this process may use, at least 1."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    for folder in _group_folders():
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = _quota(folder)
            if quota > 0:  # version 1 says -1 for none
                count = min(count, quota // period)
    return max(1, count)


def _group_folders() -> Iterator[Path]:
    """The folder of the group that this process is in, and of all above: in a container only the top may be seen."""
    yield GROUPS
    with suppress(OSError, ValueError):
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = GROUPS / controllers
            group = Path(path.lstrip("/"))
            yield from (top / part for part in (group, *group.parents))


def _quota(folder: Path) -> tuple[int, int]:
    """Microseconds of processors in a period, and how long that is; ValueError for no quota in version 2."""
    if (folder / "cpu.max").exists():
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota), int(period)
    quota = (folder / "cpu.cfs_quota_us").read_text()
    return int(quota), int((folder / "cpu.cfs_period_us").read_text())
