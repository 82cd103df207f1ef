"""The interface of engines: lists go in as tasks, expected utilities come out as results, in any order.

A result is small ([H] per list) whatever the size of its matrix, so that an engine may work on other machines.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError
from ...metrics.execution.meter import Metered
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison
from .status import Status, WorkerStatus

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache

Loaded = tuple[Metric, tuple[str, ...]]


def loaded_as(metric: Metric) -> Loaded:
    """The key of a scorer: the settings, and the digests of their files, which may be others by now."""
    return metric, tuple(metric.stamped.values())


class Task(NamedTuple):
    """One list to be valued under one utility."""

    id: str
    metric: Utility
    comparisons: tuple[Comparison, ...]  # one per part of the utility
    weights: FloatArray  # [R], any positive scale; without use where a part is reference-free
    own: FloatArray | None = None  # [H] left out of each row's own column
    keep_matrix: bool = False
    # where only some pairs of a list are asked for: its comparisons whole, one per part of the utility
    whole: tuple[Comparison, ...] = ()
    # the score of one hypothesis against all its references together, as `Metric.score` has it
    together: bool = False


class Result(NamedTuple):
    """Values of a list: expectations [parts, H] in each part's own direction, and the matrices if asked for."""

    values: FloatArray
    matrices: tuple[FloatArray, ...] = ()
    flags: tuple[str, ...] = ()  # what the list's reader should know


class Engine(Protocol):
    """Where expectations come from; results may come in any order."""

    def load(self, metrics: Sequence[Utility]) -> None:
        """Makes ready for these metrics; one that cannot be loaded raises here."""

    def submit(self, key: int, task: Task) -> None:
        """Takes a list; `key` comes back with its result.

        A key that came back last is a list that is continued: it is valued before lists that have not begun.
        """

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Waits until something submitted is done and returns all that is; a list that fails has its error."""

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that were submitted and not collected."""

    def status(self) -> Status:
        """The work done since the engine was loaded."""


class WorkerEngine(ABC):
    """The base of engines whose workers are other processes; a context manager, which stops them.

    Args:
        cache: keeps representations of models; every worker opens its folder.
    """

    def __init__(self, cache: Cache | None) -> None:
        self.cache = cache
        self.began_at = monotonic()  # when the metrics were loaded
        self.waited_seconds = 0.0  # for workers

    @property
    def cache_arguments(self) -> tuple[str, int] | None:
        """The arguments of the cache of a worker."""
        if self.cache is None:
            return None
        return os.path.abspath(self.cache.folder), self.cache.max_bytes

    @abstractmethod
    def worker_statuses(self) -> tuple[WorkerStatus, ...]:
        """Every worker as it is now."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers, whatever they are at."""

    def status(self) -> Status:
        """The work that the workers have done, and how long this process waited for them."""
        workers = self.worker_statuses()
        work = sum((worker.work for worker in workers), Metered())
        return Status(work, monotonic() - self.began_at, self.waited_seconds, workers)

    def count_faults(self) -> None:
        """Add the entries of caches that workers found damaged to those of this process."""
        if self.cache is not None:
            self.cache.damage.elsewhere += self.status().work.damaged_entries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def number_parts(
    utilities: Sequence[Utility], metrics: list[Metric], numbers: dict[Loaded, int]
) -> None:
    """Give numbers to those plain metrics of utilities that are new, by which workers know them."""
    for utility in utilities:
        for _, part in utility.parts:
            if numbers.setdefault(loaded_as(part), len(metrics)) == len(metrics):
                metrics.append(part)
