"""How many processors this process may use: those there are, its affinity, and the quotas of its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
