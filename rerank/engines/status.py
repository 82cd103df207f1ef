"""Progress of an engine, for those who watch a run: in all, and by each of its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from ...metrics.execution.meter import ASKED, Metered


class WorkerStatus(NamedTuple):
    """One worker of an engine, and those that stood in its place before."""

    name: str
    work: Metered
    busy_seconds: float  # at work on lists
    loaded_seconds: float  # with its metrics loaded, at work or not
    alive: bool
    died: int  # how often it was replaced

    @property
    def busy(self) -> float:
        """Share of its time that it was at work, 0 to 1."""
        return min(1.0, self.busy_seconds / max(1e-9, self.loaded_seconds))

    def row(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "name": self.name,
            "busy_seconds": round(self.busy_seconds, 3),
            "loaded_seconds": round(self.loaded_seconds, 3),
            "died": self.died,
            **amounts(self.work),
        }


@dataclass(frozen=True, slots=True)
class Status:
    """The work of an engine since it was loaded.

    Args:
        work: by all workers together.
        seconds: since then.
        waited_seconds: how long this process waited for workers; the rest of the time it worked itself.
        workers: those in other processes.
    """

    work: Metered = field(default_factory=Metered)
    seconds: float = 0.0
    waited_seconds: float = 0.0
    workers: tuple[WorkerStatus, ...] = ()

    @property
    def together(self) -> WorkerStatus:
        """All workers as one."""
        return WorkerStatus(
            f"{len(self.workers)} workers",
            self.work,
            sum(worker.busy_seconds for worker in self.workers),
            sum(worker.loaded_seconds for worker in self.workers),
            any(worker.alive for worker in self.workers),
            sum(worker.died for worker in self.workers),
        )


class WorkerMeter:
    """The history of one slot for a worker; a worker that died is followed by another in its slot."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.work = Metered()
        self.busy_seconds = 0.0
        self.died = 0
        self.loaded_at: float | None = None
        self.past_seconds = 0.0  # loaded, of those before

    def loaded(self) -> None:
        """A worker is ready."""
        if self.loaded_at is None:
            self.loaded_at = monotonic()

    def add(self, work: Metered, seconds: float) -> None:
        """The work of a worker in some seconds."""
        self.work, self.busy_seconds = self.work + work, self.busy_seconds + seconds

    def lost(self) -> None:
        """The worker died."""
        self.past_seconds, self.loaded_at = self._loaded_seconds(), None
        self.died += 1

    def status(self, at_work_since: float | None = None) -> WorkerStatus:
        """As it is now.

        Args:
            at_work_since: when it began with what it is at work on (`time.monotonic`), if it is.
        """
        busy = self.busy_seconds + (
            0.0 if at_work_since is None else max(0.0, monotonic() - at_work_since)
        )
        alive, seconds = self.loaded_at is not None, self._loaded_seconds()
        return WorkerStatus(self.name, self.work, busy, seconds, alive, self.died)

    def _loaded_seconds(self) -> float:
        return self.past_seconds + (0.0 if self.loaded_at is None else monotonic() - self.loaded_at)


def amounts(work: Metered) -> dict[str, Any]:
    """Work as JSON data: amounts, and seconds by stage."""
    totals = {
        "texts": work.texts,
        "cached_texts": work.cached_texts,
        "tokens": work.tokens,
        "pairs": work.pairs,
    }
    asked = {name: getattr(work, name) for name in ASKED if getattr(work, name)}
    return {
        **totals,
        **asked,
        "stages": {name: round(seconds, 3) for name, seconds in work.seconds.items()},
    }


def work_of(row: Mapping[str, Any]) -> Metered:
    """The inverse of `amounts`; what is not there counts as nothing."""
    names = ("texts", "cached_texts", "tokens", "pairs", *ASKED)
    amounts = {name: int(row.get(name, 0)) for name in names}
    seconds = {str(n): float(s) for n, s in row.get("stages", {}).items()}
    return Metered(**amounts, seconds=seconds)
