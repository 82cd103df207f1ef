"""Lists that processes read, decide and write, line by line of the input; this process checks and appends.

Where no list depends on another and no model is loaded, handing over lines costs less than handing over texts and
values: what stays here is the order of ids and documents, and the checkpoint. With `SharingEngine` lists are decided
here until it is known that processes pay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pickle import PicklingError, dumps
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...metrics.execution.meter import Meter
from ...metrics.storage.line_source import Line
from ..decider import Decider
from ..engines.interface import Engine
from ..engines.local import FIRST_WAVE, LAST_WAVE, LocalEngine
from ..engines.sharing import SharingEngine, loads_at_once, processes_that_pay
from ..engines.worker_process import can_fork
from ..lists import CandidateList
from ..scheduler import WINDOW_CHARACTERS, WINDOW_RECORDS, Outcome
from .row_forms import FORMS, RowForm
from .row_loop import Entry, Lines, Read, Written, written_row

if TYPE_CHECKING:
    from ..engines.interface import SentLine
    from ..engines.processes import ProcessEngine

# CPU seconds: lists that are decided together are more if they took less, and what is known after less is not enough
SHORT_SECONDS, LOOK_SECONDS = 0.02, 0.05
Outcomes = Iterator[tuple[Entry[CandidateList], Outcome | Written]]


class ListPlace(NamedTuple):
    """The fields by which the order of an input is checked."""

    id: str
    document: str | None
    position: int | None


class DecidedLine(NamedTuple):
    """A worker's answer to a line."""

    id: str | None
    place: ListPlace | None  # None where the line is no list
    outcome: Written | DiscorankError


@dataclass(frozen=True)
class LineWork:
    """The work on lines: workers read, decide and write them."""

    name: str
    decider: Decider
    form: RowForm
    read: Read

    def results(self, engine: LocalEngine, block: list[SentLine]) -> Iterator[tuple[int, Any]]:
        """The answer to every line, by its key."""
        with engine.meter.stage("read"):
            entries = [self.read(self.name, line.number, line.line) for line in block]
        records = [(i, entry.record or entry.error) for i, entry in enumerate(entries)]
        for i, outcome in self.decider.outcomes(records, engine, self.form.accept):
            record = entries[i].record
            place = record and ListPlace(record.id, record.document, record.position)
            with engine.meter.stage("write"):
                written = self._written(outcome)
            yield block[i].key, DecidedLine(entries[i].id, place, written)

    def _written(self, outcome: Outcome) -> Written | DiscorankError:
        try:
            return written_row(outcome, self.form)
        except DiscorankError as error:
            return error


class LineSharing:
    """Decides an input by lines in several processes.

    Args:
        work: what is done with a line.
        lines: the input.
        engine: a `ProcessEngine`, which takes all lines, or a `SharingEngine`, which takes them if that pays.
        meter: counts the seconds of reading.
    """

    def __init__(
        self, work: LineWork, lines: Lines, engine: ProcessEngine | SharingEngine, meter: Meter
    ) -> None:
        self.work, self.lines, self.engine, self.meter = work, lines, engine, meter
        self.wave = FIRST_WAVE
        self.num_lists = self.num_bytes = 0  # that were decided here
        self.num_lines = 0  # up to the last of them
        self.open_lines: deque[Line] = deque()  # that processes are at
        self.refused: InputError | None = None  # why there are no more lines

    def load(self) -> None:
        """Loads the metrics, in workers if all lines go there; errors as `Engine.load`."""
        metrics = self.work.decider.metrics
        if isinstance(self.engine, SharingEngine):
            self.engine.load(metrics)
        else:
            self.engine.load(metrics, self.work)

    def outcomes(self, source: Iterator[Entry[CandidateList]]) -> Outcomes:
        """The outcome of every entry not yet read of `source`, or what is written of it, in input order."""
        if isinstance(self.engine, SharingEngine):
            yield from self._until_it_pays(self.engine, source)
        else:
            yield from self._shared(self.engine)

    def _until_it_pays(
        self, engine: SharingEngine, source: Iterator[Entry[CandidateList]]
    ) -> Outcomes:
        """The outcomes by this process, and those of the rest by others while they are ready and live."""
        begun = process_time()
        while (first := next(source, None)) is not None:
            start = process_time()
            wave = self._wave(chain([first], source))
            yield from self.work.decider.outcomes(wave, engine, self.work.form.accept)
            if process_time() - start < SHORT_SECONDS:
                self.wave = min(2 * self.wave, LAST_WAVE)
            seconds = process_time() - begun
            if engine.processes is None and seconds > LOOK_SECONDS:
                engine.start(self._jobs(engine, seconds), self.work)
            elif engine.processes and engine.has_loaded():
                try:
                    yield from self._shared(engine.processes)
                except ResourceError as error:
                    engine.give_up(error)
                    source = chain(self._not_shared(), source)

    def _not_shared(self) -> Iterator[Entry[CandidateList]]:
        """The entries of the lines that no process has decided, and why there are no more lines, if that was seen."""
        for number, line in self.open_lines:
            yield self._read_here(number, line)
        if self.refused is not None:
            raise self.refused

    def _read_here(self, number: int, line: bytes) -> Entry[CandidateList]:
        """The entry of a line; a list out of order has the error that says so."""
        entry = self.lines.read(self.work.name, number, line)
        error = entry.record and self.lines.fault(entry.record)
        return Entry(None, error, number, entry.raw, entry.id) if error else entry

    def _wave(self, source: Iterator[Entry[CandidateList]]) -> Iterator[tuple[Any, Any]]:
        """The next entries of about so many bytes as records."""
        num_bytes = 0
        while num_bytes < self.wave and (entry := next(source, None)) is not None:
            num_bytes += len(entry.raw)
            self.num_lists, self.num_lines = self.num_lists + 1, entry.line
            yield entry, entry.record or entry.error
        self.num_bytes += num_bytes

    def _jobs(self, engine: SharingEngine, seconds: float) -> int:
        """How many processes pay for the rest, by the CPU seconds of the lists so far."""
        size = self.lines.text_bytes()
        if size is None:
            return 1
        per_list, length = seconds / self.num_lists, self.num_bytes / self.num_lists
        left = max(0.0, size / length - self.num_lines)
        return processes_that_pay(left * per_list, per_list, engine.max_jobs, can_fork())

    def _shared(self, processes: ProcessEngine) -> Outcomes:
        """The outcomes of the lines not yet read, by processes; why there are no more is raised after all of them."""
        source = NextLines(self.lines.rest, self.meter)
        open_lines = self.open_lines
        done: dict[int, DecidedLine | DiscorankError] = {}
        try:
            while True:
                for line in source.fitting(open_lines):
                    processes.submit_line(*line)
                if not open_lines:
                    break
                while open_lines and open_lines[0][0] in done:
                    number, line_bytes = open_lines.popleft()
                    yield self._checked(number, line_bytes, done.pop(number))
                if open_lines:
                    done.update(processes.collect())
        finally:
            self.refused = source.refused
            processes.forget([number for number, _ in open_lines])
        if source.refused is not None:
            raise source.refused

    def _checked(
        self, number: int, line: bytes, decided: DecidedLine | DiscorankError
    ) -> tuple[Entry[CandidateList], Outcome | Written]:
        """The entry of a line and its outcome; a list out of order has the error that says so."""
        raw = line + b"\n"
        if isinstance(decided, DiscorankError):  # a worker died at it, so it is read here
            entry = self._read_here(number, line)
            return Entry(None, None, number, raw, entry.id), entry.error or decided
        if decided.place is not None:
            error = self.lines.fault(decided.place)
            if error is not None:
                return Entry(None, None, number, raw, decided.id), error
        return Entry(None, None, number, raw, decided.id), decided.outcome


def line_sharing(
    decider: Decider, form: RowForm, lines: Lines | None, name: str, engine: Engine, meter: Meter
) -> LineSharing | None:
    """How lines are shared over processes; None where the engine has none, or lists are not decided by themselves."""
    if lines is None or not _has_processes(engine):
        return None
    by_itself = decider.resolved_strategy == "independent" and not decider.width
    if not by_itself or decider.decides_documents:
        return None
    if not (isinstance(form, tuple(FORMS.values())) and all(map(loads_at_once, decider.metrics))):
        return None
    work = LineWork(name, decider, form, lines.read)
    return LineSharing(work, lines, engine, meter) if _can_be_sent(work) else None


def _can_be_sent(work: LineWork) -> bool:
    """Whether a worker can have it: a decider of the user's own may hold what has no other place."""
    try:
        dumps(work)
    except (PicklingError, TypeError, AttributeError):
        return False
    return True


def _has_processes(engine: Engine) -> TypeGuard[ProcessEngine | SharingEngine]:
    if isinstance(engine, SharingEngine):
        return True
    from ..engines.processes import ProcessEngine

    return isinstance(engine, ProcessEngine)


class NextLines:
    """Lines that are read as there is room for them.

    Args:
        lines: those not yet read.
        meter: counts the seconds of reading.
    """

    def __init__(self, lines: Iterator[Line], meter: Meter) -> None:
        self.lines, self.meter = lines, meter
        self.refused: InputError | None = None

    def fitting(self, open_lines: deque[Line]) -> Iterator[Line]:
        """The next lines as long as they find room beside those that are open, where they are put."""
        size = sum(len(line) for _, line in open_lines)
        while len(open_lines) < WINDOW_RECORDS and size < WINDOW_CHARACTERS:
            line = self._next()
            if line is None:
                return
            open_lines.append(line)
            size += len(line[1])
            yield line

    def _next(self) -> Line | None:
        try:
            with self.meter.stage("read"):
                return None if self.refused else next(self.lines, None)
        except InputError as error:
            self.refused = error
            return None
