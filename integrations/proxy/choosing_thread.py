"""One thread that chooses: what waits is valued together, by an engine that nothing else uses.

Metrics need not be safe for threads, models are loaded once, and the event loop goes on meanwhile. A choice is a
program that hands out tasks (see `scheduler`); all that are open go to the engine in one wave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

from ...metrics.errors import DiscorankError, MetricError, ResourceError
from ...metrics.mixture import Utility
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine, Result
from ...rerank.lists import CandidateList
from ...rerank.scheduler import Program


@dataclass(slots=True, eq=False)
class _Choice:
    """A choice that is asked for."""

    begin: Callable[[], Program]
    future: Future[Ranking]
    program: Program | None = None


class ChoosingThread:
    """Chooses with an engine, in a thread of its own.

    Args:
        engine: what values lists.
        max_waiting: choices that may wait; more are refused.
    """

    def __init__(self, engine: Engine, max_waiting: int) -> None:
        self._engine, self._max_waiting = engine, max_waiting
        self._asked: SimpleQueue[_Choice | None] = SimpleQueue()
        self._running: dict[int, _Choice] = {}  # by the key that the engine has for them
        self._thread = Thread(target=self._run, name="discorank-choosing", daemon=True)
        self._is_ending = False

    def start(self, metrics: Sequence[Utility]) -> None:
        """Loads the metrics and begins.

        Raises:
            DiscorankError: one of them cannot be loaded.
        """
        self._engine.load(metrics)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends the thread when nothing waits, or leaves it behind after so long."""
        self._asked.put(None)
        self._thread.join(seconds)

    @property
    def num_waiting(self) -> int:
        """How many choices wait or are being made."""
        return self._asked.qsize() + len(self._running)

    async def choose(
        self, decider: Decider, record: CandidateList, context: Context = NO_CONTEXT
    ) -> Ranking:
        """The choice.

        Raises:
            DiscorankError: it cannot be made.
            ResourceError: too many wait.
        """
        if self.num_waiting >= self._max_waiting:
            raise ResourceError("too many choices wait", where="choosing")
        future: Future[Ranking] = Future()
        self._asked.put(_Choice(lambda: decider.program(record, context, ()), future))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        """Admits what is asked for, and has the engine value it, until the end is asked for."""
        while self._running or not self._is_ending:
            self._admit()
            if self._running:
                self._collect()

    def _admit(self) -> None:
        """Begins all choices that are asked for; waits for one if nothing is under way."""
        while True:
            try:
                choice = self._asked.get(block=not self._running and not self._is_ending)
            except Empty:
                return
            if choice is None:
                self._is_ending = True
            elif choice.future.set_running_or_notify_cancel():
                self._step(choice, None)

    def _collect(self) -> None:
        """Takes the results that the engine has; where it fails altogether, so does all that is under way."""
        try:
            results = self._engine.collect()
        except BaseException as error:  # a user's metric may try to end the process
            failed, self._running = self._running, {}
            self._engine.forget(failed)
            for choice in failed.values():
                choice.future.set_exception(_as_ours(error))
            return
        for key, result in results:
            if key not in self._running:
                continue
            choice = self._running.pop(key)
            if isinstance(result, DiscorankError):
                choice.future.set_exception(result)
            else:
                self._step(choice, result)

    def _step(self, choice: _Choice, result: Result | None) -> None:
        """Runs a choice to its next task or its end."""
        try:
            if choice.program is None:
                choice.program = choice.begin()
            task = next(choice.program) if result is None else choice.program.send(result)
            self._engine.submit(id(choice), task)
            self._running[id(choice)] = choice
        except StopIteration as end:
            choice.future.set_result(end.value)
        except BaseException as error:
            choice.future.set_exception(_as_ours(error))


def _as_ours(error: BaseException) -> DiscorankError:
    """An error that is no fault of the process: what a metric raised."""
    if isinstance(error, DiscorankError):
        return error
    ours = MetricError(f"{type(error).__name__}: {error}", where="metric")
    ours.__cause__ = error
    return ours
