"""The engine that works in the calling process: waves of lists, one store of representations per metric."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, ResourceError, is_interrupt
from ...metrics.execution.by_sentence import plan_of
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.mixture import Utility
from ...metrics.reading_plan import comparisons_of
from ...metrics.text.texts import Comparison, Truncation
from .interface import Loaded, Result, Task, loaded_as
from .part_values import (
    Expectation,
    expectations,
    places_of,
    problem_of,
    read_together,
    result_of,
)
from .status import Status

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache

# representations kept for later lists: those that a model made, and those that cost little to make again
MODEL_STORE_BYTES = 1 << 26
STORE_BYTES = 1 << 23
FIRST_WAVE = 1 << 16  # characters handed to the metric at once, to begin with
LAST_WAVE = 1 << 20  # and at most, so that a wave's memory does not depend on how fast it is done
SHORT_SECONDS, LONG_SECONDS = 0.3, 1.5  # a wave outside this is made longer or shorter


class LocalEngine:
    """Loaded scorers in this process, one store of representations for each.

    Args:
        cache: keeps representations of models for later runs.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache
        self.waiting: list[tuple[int, Task]] = []
        self.continued: list[tuple[int, Task]] = []  # lists that have begun, which come first
        self.handed_out: set[int] = set()  # keys of the last wave
        self.stores: dict[Loaded, Store] = {}
        self.wave = FIRST_WAVE
        self.meter = Meter()
        self.begun = perf_counter()

    def load(self, metrics: Sequence[Utility]) -> None:
        """Loads the scorers; errors as `Metric.load`."""
        for metric in metrics:
            for _, part in metric.parts:
                self._store(part)
        self.meter.take()
        self.begun = perf_counter()

    def submit(self, key: int, task: Task) -> None:
        """Takes a list; one that is continued comes before those that have not begun, while its texts are at hand."""
        queue = self.continued if key in self.handed_out or task.whole else self.waiting
        queue.append((key, task))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Works off one wave of what waits; the wave grows or shrinks towards about a second."""
        self._let_go()
        wave, characters = self._next_wave()
        start = perf_counter()
        results = self._results([task for _, task in wave])
        seconds = perf_counter() - start
        if seconds < SHORT_SECONDS and characters >= self.wave:
            self.wave = min(2 * self.wave, LAST_WAVE)
        elif seconds > LONG_SECONDS:
            self.wave = max(1, self.wave // 2)
        keys = [key for key, _ in wave]
        self.handed_out = set(keys)
        return list(zip(keys, results, strict=True))

    def _let_go(self) -> None:
        """Empties the stores of models, or those of all other scorers, if they hold more than they may together.

        The texts of continued lists stay, of which a part of the pairs was asked for: these lists are of few waves.
        """
        for by_model, max_bytes in ((True, MODEL_STORE_BYTES), (False, STORE_BYTES)):
            held = [key for key in self.stores if key[0].info.bucketed == by_model]
            if sum(self.stores[key].nbytes for key in held) > max_bytes:
                for key in held:
                    self._let_go_of(key)

    def _let_go_of(self, key: Loaded) -> None:
        """Empties a store but for the texts of lists that are continued."""
        comparisons: list[Comparison] = []
        for _, task in self.continued:
            for (_, part), whole in zip(task.metric.parts, task.whole, strict=False):
                if loaded_as(part) == key:
                    comparisons += comparisons_of([plan_of(part, whole)])
        if comparisons:
            self.stores[key].keep(comparisons)
        else:
            del self.stores[key]

    def _next_wave(self) -> tuple[list[tuple[int, Task]], int]:
        """The next lists of about `wave` characters together, at least one, and how many characters they have."""
        wave: list[tuple[int, Task]] = []
        characters = 0
        for queue in (self.continued, self.waiting):
            n = 0
            while n < len(queue) and (not characters or characters < self.wave):
                _, task = queue[n]
                characters += _characters(task)
                n += 1
            wave += queue[:n]
            del queue[:n]
        return wave, characters

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists that wait."""
        for queue in (self.continued, self.waiting):
            queue[:] = [(key, task) for key, task in queue if key not in keys]
        self.handed_out.difference_update(keys)

    def status(self) -> Status:
        """The work done here."""
        return Status(self.meter.now, perf_counter() - self.begun)

    def _results(self, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
        """Results of all tasks together; if that fails, of each alone, so that one bad list costs only itself.

        A list that is too large for the memory even alone is such a list too.

        Raises:
            ResourceError: what a metric needs is gone, such as its server; no other list would fare better.
        """
        try:
            return list(self._together(tasks))
        except BaseException as error:  # a user's metric may try to end the process
            if is_interrupt(error) or isinstance(error, ResourceError):
                raise
            if len(tasks) == 1:
                return [problem_of(tasks[0], error)]
        return [result for task in tasks for result in self._results([task])]

    def _together(self, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
        """Results of all tasks, metric by metric, so that lists share the representations of their texts."""
        parts: dict[tuple[int, int], Expectation] = {}
        truncations = [Truncation.NONE] * len(tasks)
        for metric, places in places_of(tasks).items():
            store = self._store(metric)
            lists = [(tasks[i].comparisons[p], tasks[i]) for i, p in places]
            parts.update(zip(places, expectations(metric, store, lists), strict=True))
            if not metric.info.bucketed:
                continue
            for (i, _), (comparison, task) in zip(places, lists, strict=True):
                compared = read_together(metric, comparison, task)
                truncations[i] = max(truncations[i], store.truncation_of(compared))
        results: list[Result | DiscorankError] = []
        for i, task in enumerate(tasks):
            own_parts = [parts[i, p] for p in range(len(task.comparisons))]
            results.append(result_of(task, own_parts, truncations[i]))
        return results

    def _store(self, metric: Metric) -> Store:
        key = loaded_as(metric)
        if key not in self.stores:
            self.stores[key] = Store(metric.scorer, self.cache, self.meter)
        return self.stores[key]


def _characters(task: Task) -> int:
    """Characters of the texts of a task's list, and one."""
    first = (task.whole or task.comparisons)[0]
    return 1 + sum([len(str(item.text)) for item in first.items])
