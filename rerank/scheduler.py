"""A queue of ready records: each is decided as soon as what it depends on is decided, and comes out in input order.

A record's decision is a program (a generator) that hands out tasks and receives their results, so a decision can take
several steps; a record of a document can wait for the choice before it, which is its context. A sliding window of
records is open at any time. The scheduler knows neither metrics, nor engines, nor files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ..metrics.errors import DiscorankError, InputError
from ..metrics.text.texts import NO_CONTEXT, Context, Document, Text
from .choice import Ranking
from .engines.local import Engine, Result, Task
from .lists import CandidateList

WINDOW_RECORDS = 4096
WINDOW_CHARACTERS = 1 << 24

Strategy = Literal["sequential", "one-best", "independent"]
StrategySetting = Literal["auto", "sequential", "one-best", "independent"]
Program = Generator[Task, Result, Ranking]
Outcome = Ranking | DiscorankError | None  # None: the record only lends context
Accept = Callable[[Ranking], object]
Decide = Callable[[CandidateList, Context, tuple[str, ...]], Program]


def resolve(strategy: StrategySetting, width: int) -> Strategy:
    """The strategy that a setting stands for, for metrics that read `width` preceding sentences.

    Raises:
        InputError: metrics that read context cannot decide lists independently.
    """
    if strategy == "auto":
        return "sequential" if width else "independent"
    if width and strategy == "independent":
        raise InputError(
            "the metric reads context, which independent lists do not have",
            where="strategy",
            fix='Choose "sequential" or "one-best", or set context=0 in the metric',
        )
    return strategy


def accept_all(ranking: Ranking) -> object:
    """Accepts every decision."""
    return ranking


class Decided(NamedTuple):
    """A record that an earlier run decided: it lends its text as context and has no outcome.

    Without a record, it was a line that could not be read.
    """

    record: CandidateList | None
    text: Text = ""
    failed: bool = False


@dataclass(slots=True)
class _Lane:
    """What later records of one document read, and who waits for it."""

    context: Context = NO_CONTEXT
    position: int | None = None
    waiting: deque[_Job] = field(default_factory=deque)
    was_cut: bool = False  # since the last decision
    lent: int = 0  # how many of the next records read the first candidate of one that failed


@dataclass(slots=True, eq=False)
class _Job:
    tag: Any
    record: CandidateList | None
    size: int = 0
    broken: bool = False  # a line before it could not be read
    program: Program | None = None
    done: bool = False
    outcome: Outcome = None


class Scheduler:
    """Decides records through an engine.

    Args:
        decide: makes the program of a record from its context and the flags to report.
        engine: where tasks go.
        strategy: where the context of a record comes from.
        width: how many preceding sentences are context.
        accept: raises an InputError for a decision that cannot be written, which then counts as failed.
    """

    def __init__(
        self,
        decide: Decide,
        engine: Engine,
        strategy: Strategy = "independent",
        width: int = 0,
        accept: Accept = accept_all,
    ) -> None:
        self.decide, self.engine, self.strategy, self.width, self.accept = (
            decide,
            engine,
            strategy,
            width,
            accept,
        )
        self.open: deque[_Job] = deque()
        self.characters = 0
        self.running: dict[int, _Job] = {}
        self.lanes: dict[int, _Lane] = {}
        self.document: str | None = None
        self.lane = _Lane()
        self.broken = False  # the last line could not be read
        self.more = True  # there may be further records
        self.refused: Exception | None = None  # why there are none

    def run(
        self, records: Iterable[tuple[Any, CandidateList | Decided | DiscorankError]]
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of every (tag, record), in input order; a record that fails has its error as outcome."""
        self.more, self.refused = True, None
        try:
            yield from self._decided(iter(records))
        finally:
            if self.running:
                self.engine.forget(self.running)  # whoever asked has turned away
        if self.refused is not None:
            raise self.refused

    def _decided(
        self, source: Iterator[tuple[Any, CandidateList | Decided | DiscorankError]]
    ) -> Iterator[tuple[Any, Outcome]]:
        while self.more or self.open:
            while self.more and self._has_room():
                self._read(source)
            while self.open and self.open[0].done:
                job = self.open.popleft()
                self.characters -= job.size
                yield job.tag, job.outcome
            if self.running and not (self.more and self._has_room()):
                found = self.engine.collect()
                if not found or any(key not in self.running for key, _ in found):
                    fix = "Read one's rankings to the end, or close them, before those of the next"
                    raise InputError("is at work for two decoders at once", where="engine", fix=fix)
                for key, result in found:
                    self._step(self.running.pop(key), result)

    def _read(self, source: Iterator[tuple[Any, CandidateList | Decided | DiscorankError]]) -> None:
        """Admits the next record; if there is an error instead, it is raised when all before it is decided."""
        try:
            pair = next(source, None)
        except Exception as error:
            pair, self.refused = None, error
        if pair is None:
            self.more = False
        else:
            self._admit(*pair)

    def _has_room(self) -> bool:
        return not self.open or (
            len(self.open) < WINDOW_RECORDS and self.characters < WINDOW_CHARACTERS
        )

    def _admit(self, tag: Any, given: CandidateList | Decided | DiscorankError) -> None:
        record = (
            given.record
            if isinstance(given, Decided)
            else None
            if isinstance(given, DiscorankError)
            else given
        )
        if record is None:
            self.broken = True
            if isinstance(given, DiscorankError):
                self.open.append(_Job(tag, None, done=True, outcome=given))
            return
        lane, broken = self._lane_of(record), self.broken
        self.broken = False
        if isinstance(given, Decided):
            _cut(lane, record, broken)
            chosen = self.strategy != "one-best"
            self._extend(
                lane,
                record,
                given.text if chosen else record.candidates[0].text,
                given.failed and chosen,
            )
            lane.was_cut &= record.context_only or (given.failed and chosen)
            return
        job = _Job(tag, record, _characters(record), broken)
        self.open.append(job)
        self.characters += job.size
        if self.strategy == "one-best":
            _cut(lane, record, broken)
            private = replace(lane, position=None, waiting=deque())
            lane.was_cut &= record.context_only
            self._extend(lane, record, record.candidates[0].text)
            lane, job.broken = private, False
        lane.waiting.append(job)
        self.lanes[id(job)] = lane
        if len(lane.waiting) == 1:
            self._start_next(lane)

    def _lane_of(self, record: CandidateList) -> _Lane:
        """The lane of the record's document; documents are adjacent, so one is enough."""
        if (
            self.strategy == "independent"
            or record.document is None
            or record.document != self.document
        ):
            self.document, self.lane = record.document, _Lane()
        return self.lane

    def _start_next(self, lane: _Lane) -> None:
        """Starts the records at the head of a lane until one waits for the engine."""
        while lane.waiting:
            job = lane.waiting[0]
            if job.done:
                lane.waiting.popleft()
                del self.lanes[id(job)]
                continue
            if job.program is not None:
                return
            self._start(job, lane)

    def _start(self, job: _Job, lane: _Lane) -> None:
        record = job.record
        if record is None:
            return
        _cut(lane, record, job.broken)
        flags = ("context-cut",) * lane.was_cut + ("context-of-failed",) * bool(lane.lent)
        if record.context_only:
            self._finish(job, lane, None)
            return
        if self.width and record.document is None and not _is_whole(record):
            error = InputError(
                "no document, but the metric reads context",
                where="document",
                fix='Name the document of every list (strategy "sequential" or "one-best"), or set context=0',
            )
            self._finish(job, lane, error)
            return
        job.program = self.decide(record, lane.context, flags)
        self._advance(job, lane, None)

    def _step(self, job: _Job, result: Result | DiscorankError) -> None:
        lane = self.lanes[id(job)]
        if isinstance(result, DiscorankError):
            self._finish(job, lane, result)
        else:
            self._advance(job, lane, result)
        self._start_next(lane)

    def _advance(self, job: _Job, lane: _Lane, result: Result | None) -> None:
        """Runs the program to its next task or its end."""
        if job.program is None:
            return
        try:
            task = next(job.program) if result is None else job.program.send(result)
        except StopIteration as end:
            self._finish(job, lane, self._accepted(end.value))
        except DiscorankError as error:
            self._finish(job, lane, error)
        else:
            self.running[id(job)] = job
            self.engine.submit(id(job), task)

    def _accepted(self, ranking: Ranking) -> Ranking | DiscorankError:
        try:
            self.accept(ranking)
        except DiscorankError as error:
            return error
        return ranking

    def _finish(self, job: _Job, lane: _Lane, outcome: Outcome) -> None:
        job.done, job.outcome = True, outcome
        if job.record is not None:
            text = outcome.text if isinstance(outcome, Ranking) else job.record.candidates[0].text
            self._extend(lane, job.record, text, isinstance(outcome, DiscorankError))
            lane.was_cut &= not isinstance(outcome, Ranking)

    def _extend(self, lane: _Lane, record: CandidateList, text: Text, failed: bool = False) -> None:
        if not self.width:
            return
        lane.lent = self.width if failed else max(0, lane.lent - 1)
        source = (*lane.context.source, str(record.source or ""))
        lane.context = Context(source, (*lane.context.target, str(text))).last(self.width)
        lane.position = record.position


def _characters(record: CandidateList) -> int:
    """About how much text a record holds."""
    texts = [candidate.text for candidate in (*record.candidates, *record.pseudo_references)]
    return sum(len(str(text)) for text in (*texts, *record.references, record.source or ""))


def _is_whole(record: CandidateList) -> bool:
    """Whether every candidate is a document, which brings its own context."""
    return all(isinstance(candidate.text, Document) for candidate in record.candidates)


def _cut(lane: _Lane, record: CandidateList, broken: bool) -> None:
    """Empties the lane if the record does not stand right behind the last one, or a broken line came between."""
    known = lane.position is not None and record.position is not None
    jump = (
        record.position != (lane.position or 0) + 1
        if known
        else broken and lane.context != NO_CONTEXT
    )
    if jump:
        lane.context, lane.lent, lane.was_cut = NO_CONTEXT, 0, True
