"""Entries of an input: each a record, or the error that stands in its place.

Writes what comes of every entry of an input, in input order: rows, or error records up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ..scheduler import Outcome
from .resumable import Checkpoint, Stream
from .row_forms import RowForm, error_row

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


def write_outcomes(
    outcomes: Iterable[tuple[Entry[Any], T]],
    written: Callable[[T], Written],
    name: str,
    checkpoint: Checkpoint | Stream,
    max_errors: int,
    on_progress: Callable[[int, int], None],
    meter: Meter | None = None,
) -> None:
    """Writes what every entry yields, in input order.

    Args:
        outcomes: entries, each with what came of it.
        written: what an outcome adds to the outputs and to the counts; raises the error that it ended in.
        name: the input's name, for error records.
        checkpoint: the outputs.
        max_errors: how many error records a run may write.
        on_progress: called with the number of entries done and of error records.
        meter: counts the seconds of writing.

    Raises:
        StoppedByErrorsError: one error record more.
    """
    meter = meter or Meter()
    for entry, outcome in outcomes:
        with meter.stage("write"):
            try:
                writes, counts = written(outcome)
            except DiscorankError as error:
                error = _placed(error, entry, name)
                row = error_row(error, name, entry.line, entry.id)
                if num_errors(checkpoint) >= max_errors:
                    checkpoint.leave("errors", row)
                    raise stopped(error, entry, name) from error
                writes, counts = {"errors": row}, {"errors": 1}
            checkpoint.commit(entry.raw, writes, counts)
        on_progress(checkpoint.state.entries, num_errors(checkpoint))


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
        f"stopped at an error record: {reason} (--max-errors N goes on without N such)",
        where=f"{name}:{entry.line}",
        fix=fix,
    )


def _placed(error: DiscorankError, entry: Entry[Any], name: str) -> DiscorankError:
    """The error without the file and line that its record says beside it."""
    prefix = f"{name}:{entry.line}"
    where = error.where.removeprefix(prefix).removeprefix(": ")
    return type(error)(error.problem, where=where, fix=error.fix)
