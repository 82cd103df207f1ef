"""A queue of ready records: each is decided as soon as what it depends on is decided, and comes out in input order.

A record's decision is a program (a generator) that hands out tasks and receives their results, so a decision can take
several steps; a record of a document can wait for the choice before it, which is its context. A sliding window of
records is open at any time. Any `Engine` does; no metric and no file format is known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..metrics.errors import DiscorankError, InputError
from ..metrics.mixture import Utility
from ..metrics.text.texts import Context, Document, Text
from .choice import Accept, Ranking
from .engines.interface import Engine, Result, Task
from .lists import CandidateList
from .order import DocumentContext, DocumentStream, Strategy

WINDOW_RECORDS = 4096
WINDOW_CHARACTERS = 1 << 24

Program = Generator[Task, Result, Ranking]
Outcome = Ranking | DiscorankError | None  # None: the record only lends context
Decide = Callable[[CandidateList, Context, tuple[str, ...]], Program]


def accepted(ranking: Ranking, accept: Accept | None) -> Ranking | DiscorankError:
    """The ranking, or why it cannot be written."""
    try:
        if accept is not None:
            accept(ranking)
    except DiscorankError as error:
        return error
    return ranking


class Decided(NamedTuple):
    """A record that an earlier run decided: it lends its text as context and has no outcome.

    Without a record, it was a line that could not be read.
    """

    record: CandidateList | None
    text: Text = ""
    failed: bool = False


@dataclass(slots=True)
class _DocumentQueue:
    """The records of one document: what the next one reads, and which wait for it."""

    reads: DocumentContext
    waiting: deque[_Job] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Job:
    """A record on its way to its outcome."""

    tag: Any
    record: CandidateList | None
    characters: int = 0
    after_gap: bool = False  # a line before it could not be read
    program: Program | None = None
    is_done: bool = False
    outcome: Outcome = None


class Scheduler:
    """Decides records through an engine.

    Args:
        decide: makes the program of a record from its context and the flags to report.
        engine: where tasks go.
        strategy: where the context of a record comes from.
        width: how many preceding sentences are context.
        accept: raises an InputError for a decision that cannot be written, which then counts as failed.
        metrics: loaded before the first task, so that lists that are refused need no model; none where they are loaded.
    """

    def __init__(
        self,
        decide: Decide,
        engine: Engine,
        strategy: Strategy = "independent",
        width: int = 0,
        accept: Accept | None = None,
        metrics: Sequence[Utility] = (),
    ) -> None:
        self.decide, self.engine, self.accept = decide, engine, accept
        self.strategy, self.width = strategy, width
        self.metrics = metrics
        self.open: deque[_Job] = deque()  # in input order
        self.characters = 0  # of the open jobs
        self.running: dict[int, _Job] = {}  # by the key that the engine has for them
        # of every job that is not done, by the same key
        self.queue_of: dict[int, _DocumentQueue] = {}
        self.document: str | None = None  # of the last record
        self.queue = _DocumentQueue(DocumentContext(DocumentStream(width)))
        self.after_gap = False  # the last line could not be read
        self.has_more = True  # there may be further records
        self.refused: Exception | None = None  # why there are none

    def run(
        self, records: Iterable[tuple[Any, CandidateList | Decided | DiscorankError]]
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of every (tag, record), in input order; a record that fails has its error as outcome."""
        self.has_more, self.refused = True, None
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
        """Hands out what is done, reads while there is room, and collects what the engine has."""
        while self.has_more or self.open:
            if self.open and self.open[0].is_done:
                job = self.open.popleft()
                self.characters -= job.characters
                yield job.tag, job.outcome
            elif self.has_more and self._has_room():
                self._read(source)
            else:
                self._collect()

    def _collect(self) -> None:
        """Takes the results of the engine and moves their jobs on."""
        results = self.engine.collect()
        if not results or any(key not in self.running for key, _ in results):
            fix = "Read one's rankings to the end, or close them, before those of the next"
            raise InputError("is at work for two decoders at once", where="engine", fix=fix)
        for key, result in results:
            self._step(self.running.pop(key), result)

    def _read(self, source: Iterator[tuple[Any, CandidateList | Decided | DiscorankError]]) -> None:
        """Admits the next record; if there is an error instead, it is raised when all before it is decided."""
        try:
            pair = next(source, None)
        except Exception as error:
            pair, self.refused = None, error
        if pair is None:
            self.has_more = False
        else:
            self._admit(*pair)

    def _has_room(self) -> bool:
        is_small = len(self.open) < WINDOW_RECORDS and self.characters < WINDOW_CHARACTERS
        return is_small or not self.open

    def _admit(self, tag: Any, entry: CandidateList | Decided | DiscorankError) -> None:
        """Takes in a line: a record to decide, one that was decided earlier, or one that could not be read."""
        if isinstance(entry, DiscorankError):
            self.after_gap = True
            self.open.append(_Job(tag, None, is_done=True, outcome=entry))
        elif isinstance(entry, Decided):
            self._admit_decided(entry)
        else:
            self._admit_record(tag, entry)

    def _admit_decided(self, decided: Decided) -> None:
        """Lets a record that an earlier run decided lend its text."""
        record = decided.record
        if record is None:
            self.after_gap = True
            return
        queue, after_gap = self._queue_of_document(record), self.after_gap
        self.after_gap = False
        queue.reads.enter(record, after_gap)
        if self.strategy == "one-best":
            text, failed = record.candidates[0].text, False
        else:
            text, failed = decided.text, decided.failed
        is_chosen = not (record.context_only or failed)
        queue.reads.extend(record, text, is_chosen, failed)

    def _admit_record(self, tag: Any, record: CandidateList) -> None:
        """Puts a record into the queue of its document, and starts it if nothing stands before it."""
        queue, after_gap = self._queue_of_document(record), self.after_gap
        self.after_gap = False
        job = _Job(tag, record, characters_of(record), after_gap)
        self.open.append(job)
        self.characters += job.characters
        if self.strategy == "one-best":
            queue, job.after_gap = self._queue_of_its_own(queue, record, after_gap), False
        queue.waiting.append(job)
        self.queue_of[id(job)] = queue
        if len(queue.waiting) == 1:
            self._start_next(queue)

    def _queue_of_its_own(
        self, queue: _DocumentQueue, record: CandidateList, after_gap: bool
    ) -> _DocumentQueue:
        """A queue for a record whose context is known at once; its first candidate is context of the next."""
        queue.reads.enter(record, after_gap)
        own_reads = queue.reads.copy()
        own_reads.stream.position = None
        is_chosen = not record.context_only
        queue.reads.extend(record, record.candidates[0].text, is_chosen)
        return _DocumentQueue(own_reads)

    def _queue_of_document(self, record: CandidateList) -> _DocumentQueue:
        """The queue of the record's document; documents are adjacent, so one is enough."""
        is_same = record.document is not None and record.document == self.document
        if self.strategy == "independent" or not is_same:
            self.document, self.queue = (
                record.document,
                _DocumentQueue(DocumentContext(DocumentStream(self.width))),
            )
        return self.queue

    def _start_next(self, queue: _DocumentQueue) -> None:
        """Starts the records at the head of a queue until one waits for the engine."""
        while queue.waiting:
            job = queue.waiting[0]
            if job.is_done:
                queue.waiting.popleft()
                del self.queue_of[id(job)]
                continue
            if job.program is not None:
                return
            self._start(job, queue)

    def _start(self, job: _Job, queue: _DocumentQueue) -> None:
        """Begins the decision of a record in the context that its queue has now."""
        record = job.record
        if record is None:
            return
        if self.width:
            queue.reads.enter(record, job.after_gap)
        if record.context_only:
            self._finish(job, queue, None)
            return
        error = missing_document(record, self.width)
        if error is not None:
            self._finish(job, queue, error)
            return
        job.program = self.decide(record, queue.reads.stream.context, queue.reads.flags)
        self._advance(job, queue, None)

    def _step(self, job: _Job, result: Result | DiscorankError) -> None:
        """Hands a result to the job that asked for it, and starts who waited for that job."""
        queue = self.queue_of[id(job)]
        if isinstance(result, DiscorankError):
            self._finish(job, queue, result)
        else:
            self._advance(job, queue, result)
        self._start_next(queue)

    def _advance(self, job: _Job, queue: _DocumentQueue, result: Result | None) -> None:
        """Runs the program to its next task or its end."""
        if job.program is None:
            return
        try:
            task = next(job.program) if result is None else job.program.send(result)
        except StopIteration as end:
            self._finish(job, queue, accepted(end.value, self.accept))
        except DiscorankError as error:
            self._finish(job, queue, error)
        else:
            if self.metrics:
                self.engine.load(self.metrics)
                self.metrics = ()
            self.running[id(job)] = job
            self.engine.submit(id(job), task)

    def _finish(self, job: _Job, queue: _DocumentQueue, outcome: Outcome) -> None:
        """Records an outcome and adds what was chosen to the context; a failed record lends its first candidate."""
        job.is_done, job.outcome = True, outcome
        if job.record is None:
            return
        is_chosen, failed = isinstance(outcome, Ranking), isinstance(outcome, DiscorankError)
        text = outcome.text if isinstance(outcome, Ranking) else job.record.candidates[0].text
        if self.width:
            queue.reads.extend(job.record, text, is_chosen, failed)


def missing_document(record: CandidateList, width: int) -> InputError | None:
    """Why metrics that read `width` preceding sentences cannot decide a list that belongs to no document, if so."""
    if not width or record.document is not None or _is_whole(record):
        return None
    return InputError(
        "no document, but the metric reads context",
        where="document",
        fix='Name the document of every list (strategy "sequential" or "one-best"), or set context=0',
    )


def characters_of(record: CandidateList) -> int:
    """About how much text a record holds."""
    candidates = (*record.candidates, *record.pseudo_references)
    texts = [candidate.text for candidate in candidates]
    return sum(map(len, map(str, (*texts, *record.references, record.source or ""))))


def _is_whole(record: CandidateList) -> bool:
    """Whether every candidate is a document, which brings its own context."""
    return all(isinstance(candidate.text, Document) for candidate in record.candidates)
