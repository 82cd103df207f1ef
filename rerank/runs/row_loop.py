"""The loop of every run, of decode, generate and logprobs alike: entries in, rows or error records out, in input order.

What an earlier run has done is read over, and must be what it read. Then every entry yields what is written of it, or
an error record, of which there may be so many; what was written is kept whatever ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ..scheduler import Outcome
from .resumable import Checkpoint, Stream, completing
from .row_forms import RowForm, error_row
from .run_file import Measured

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T_co]):
    """A record (a candidate list, the input of a generator), or why there is none.

    Args:
        record: the record; None for an error.
        error: why there is none, with file and line; None for a record.
        line: its first line in the file.
        raw: the bytes it consumed, each line closed by one ``\\n`` whatever its end was, for a rolling hash of the
            input. Of several records made from one line, the first has them all and the others none; empty lines at
            the end of a file belong to no entry.
        id: the record's id, for an error where it could be read.
    """

    record: T_co | None
    error: InputError | None
    line: int
    raw: bytes
    id: str | None = None


T = TypeVar("T")
# what is added to every output, and to the counts
Written = tuple[dict[str, bytes], dict[str, int]]


class StoppedByErrorsError(DiscorankError):
    """More error records than allowed; the run can be resumed after mending the input."""

    exit_code = 3


@dataclass(frozen=True)
class RowLoop:
    """How the rows of a run are written.

    Args:
        checkpoint: the outputs, which are closed at the end.
        name: the input's name, for messages and error records.
        max_errors: how many error records a run may write.
        on_progress: called with the number of entries done and of error records.
        meter: counts the seconds of reading and writing.
        on_row: called with the lines that are written of a list.
    """

    checkpoint: Checkpoint | Stream
    name: str
    max_errors: int
    on_progress: Callable[[int, int], None]
    meter: Meter = field(default_factory=Meter)
    on_row: Callable[[bytes], object] = lambda row: None

    def run(
        self,
        entries: Iterable[Entry[Any]],
        replay: Callable[[Entry[Any]], object],
        outcomes: Callable[[Iterator[Entry[Any]]], Generator[tuple[Entry[Any], T]]],
        written: Callable[[T], Written],
        measured: Callable[[], Measured],
    ) -> Mapping[str, int]:
        """Writes the rows of all entries that no earlier run has done; returns the counts of the run.

        Args:
            entries: what a reader yields, in order.
            replay: takes an entry that an earlier run has done.
            outcomes: the other entries, each with what came of it, in order.
            written: what an outcome adds to the outputs and to the counts; raises the error that it ended in.
            measured: what this session has done, for the run file.

        Raises:
            ResumeError: the first entries are not those of the earlier run.
            StoppedByErrorsError: one error record more than there may be.
        """
        source = self._metered(entries)
        with closing(self.checkpoint):
            for entry in islice(source, self.checkpoint.state.entries):
                self.checkpoint.skip(entry.raw)
                replay(entry)
            self.checkpoint.check_input(self.name)
            with completing(self.checkpoint, measured), closing(outcomes(source)) as pairs:
                for entry, outcome in pairs:
                    with self.meter.stage("write"):
                        self._write(entry, outcome, written)
                    self.on_progress(self.checkpoint.state.entries, num_errors(self.checkpoint))
        return self.checkpoint.state.counts

    def _write(self, entry: Entry[Any], outcome: T, written: Callable[[T], Written]) -> None:
        try:
            writes, counts = written(outcome)
        except DiscorankError as error:
            error = _placed(error, entry, self.name)
            row = error_row(error, self.name, entry.line, entry.id)
            if num_errors(self.checkpoint) >= self.max_errors:
                self.checkpoint.leave("errors", row)
                raise stopped(error, entry, self.name) from error
            writes, counts = {"errors": row}, {"errors": 1}
        self.checkpoint.commit(entry.raw, writes, counts)
        if "rows" in writes:
            self.on_row(writes["rows"])

    def _metered(self, entries: Iterable[Entry[Any]]) -> Iterator[Entry[Any]]:
        source = iter(entries)
        while True:
            with self.meter.stage("read"):
                entry = next(source, None)
            if entry is None:
                return
            yield entry


def written_row(outcome: Outcome, form: RowForm) -> Written:
    """The row of an outcome and what it counts; raises the error that it ended in."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    if outcome is None:
        return {}, {"context_only": 1}
    row = form.row(outcome)
    distinct = len({candidate.text for candidate in outcome.candidates})
    counts = {
        "rows": 1,
        "candidates": len(outcome.candidates),
        "duplicates": len(outcome.candidates) - distinct,
    }
    if not form.one_line:
        counts["row_lines"] = row.count(b"\n")
    return {"rows": row}, counts | dict.fromkeys(outcome.flags, 1)


def num_errors(checkpoint: Checkpoint | Stream) -> int:
    """How many error records are written."""
    return checkpoint.state.counts.get("errors", 0)


def stopped(error: DiscorankError, entry: Entry[Any], name: str) -> StoppedByErrorsError:
    """The error that ends a run at one error record more than it may have."""
    placed = _placed(error, entry, name)
    # one advice: that of the error, if it has any
    fix = placed.fix or "Mend it and run again"
    reason = type(placed)(placed.problem, where=placed.where)
    return StoppedByErrorsError(
        f"stopped at an error record: {reason} (--max-errors N continues without N such)",
        where=f"{name}:{entry.line}",
        fix=fix,
    )


def _placed(error: DiscorankError, entry: Entry[Any], name: str) -> DiscorankError:
    """The error without the file and line that its record says beside it."""
    prefix = f"{name}:{entry.line}"
    where = error.where.removeprefix(prefix).removeprefix(": ")
    return type(error)(error.problem, where=where, fix=error.fix)
