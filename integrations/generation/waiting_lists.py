"""Lists that are done, but wait for those before them: in memory, and in a file, so that a kill does not cost them.

    OUT.waiting.jsonl: {"entry", "reading", "counts", "row"}, or {"entry", "reading", "error"}, one line per list
`entry` is the list's place in the input, `reading` a digest of all that it was made from: what is read again in a later
session, another input or another context, is generated anew. The file stands beside the output while a list waits in
it, and is one of the run's outputs: its bytes are counted and hashed as theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from warnings import warn

from ...metrics.errors import DiscorankError, InputError, ResumeError
from ...rerank.lists import CandidateList
from ...rerank.runs.resumable import Checkpoint, Stream, Written, as_line
from .generator import Generated

T = TypeVar("T", CandidateList, Generated)


def checked(record: CandidateList) -> Generated:
    """The list, or the error that stands for it where every candidate is empty."""
    if any(str(candidate.text).strip() for candidate in record.candidates):
        return record
    return InputError(
        f"the model generated nothing: {len(record.candidates)} empty candidates",
        where="text",
        fix="Look at the end of the prompt, and at what ends a candidate",
    )


def has_no_choice(record: CandidateList) -> bool:
    """Whether several candidates are all the same text."""
    texts = {candidate.text for candidate in record.candidates}
    return len(record.candidates) > 1 and len(texts) == 1


def warning_of_no_choice(lists: Iterable[T]) -> Iterator[T]:
    """The lists; warns behind the last how many of them have one distinct candidate."""
    num_lists = without_choice = 0
    for record in lists:
        if not isinstance(record, DiscorankError):
            num_lists += 1
            without_choice += has_no_choice(record)
        yield record
    if without_choice:
        problem = f"{without_choice} of {num_lists} lists have one distinct candidate"
        remedy = "raise the temperature, or lower the cutoff"
        warn(f"{problem}, so that nothing is chosen: {remedy}", UserWarning, stacklevel=2)


NAME = "waiting"  # of the output, and of the count of its lines
_ROW = b', "row": '


class Known(NamedTuple):
    """The outcome of an earlier session for an input: the choice, or None where none could be made."""

    chosen: str | None


class WaitingLists:
    """Outcomes by the number of their entry in the input, until they are written.

    Args:
        checkpoint: the outputs; where one of them is named "waiting", lists are kept in it.

    Raises:
        ResumeError: a line of the file cannot be read.
    """

    def __init__(self, checkpoint: Checkpoint | Stream) -> None:
        self.checkpoint = checkpoint
        self.path = checkpoint.sinks.get(NAME)
        self.done: dict[int, Written | DiscorankError] = {}
        # those that an earlier session kept: what they were made from, and the line behind it
        self.earlier: dict[int, tuple[str, Written | DiscorankError]] = {}
        self.num_other = 0  # kept lists that are of other inputs
        self._read()

    @property
    def next(self) -> int:
        """The number of the first entry that is not written."""
        return self.checkpoint.state.entries

    def known(self, number: int, reading: str) -> Known | None:
        """The choice of an earlier session for an entry, if it kept the list and this was made from the same."""
        if number not in self.earlier:
            return None
        was, outcome = self.earlier.pop(number)
        if was != reading:
            self.num_other += 1
            return None
        self.done[number] = outcome
        if isinstance(outcome, DiscorankError):
            return Known(None)
        return Known(chosen_text(json.loads(outcome[0]["rows"])))

    def add(self, outcomes: Iterable[tuple[int, str, Written | DiscorankError]]) -> None:
        """Takes lists that were done together, each with its number and reading; keeps those that have to wait."""
        new = list(outcomes)
        self.done.update((number, outcome) for number, _, outcome in new)
        ready = self.next
        while ready in self.done:
            ready += 1
        for number, reading, outcome in new:
            if self.path is not None and reading and number > ready:
                line = _line(number, reading, outcome)
                self.checkpoint.keep(NAME, line, {NAME: 1})

    def ready(self) -> Iterator[Written | DiscorankError]:
        """The outcomes that can be written now, in order; the entry of each is to be committed before the next."""
        while self.next in self.done:
            yield self.done.pop(self.next)

    def end_block(self) -> None:
        """Takes the file away if nothing waits in it any more."""
        passed = [number for number in self.earlier if number < self.next]
        for number in passed:
            self.earlier.pop(number)
        if not self.earlier and not self.done:
            self.end()

    def end(self) -> None:
        """Takes the file away; warns of lists in it that were of no use."""
        num_other, self.num_other = self.num_other + len(self.earlier), 0
        self.earlier = {}
        if num_other:
            problem = f"{self.path}: {num_other} lists that waited there are of other inputs"
            warn(f"{problem} or contexts than now, and were not used", UserWarning, stacklevel=2)
        self.checkpoint.clear(NAME)

    def _read(self) -> None:
        if self.path is None or not self.path.exists():
            return
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    entry, reading, outcome = _parsed(line)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    problem, where = f"cannot be read ({error!r:.200})", f"{self.path}:{number}"
                    fix = "Restore it, or remove it and the output to start anew"
                    raise ResumeError(problem, where=where, fix=fix) from error
                if entry >= self.next:
                    self.earlier[entry] = reading, outcome


def chosen_text(row: Mapping[str, Any]) -> str | None:
    """The text chosen in a row that was written; None if nothing was."""
    if "chosen" not in row:
        return None
    candidate = row["candidates"][row["chosen"]]
    text = candidate["text"] if isinstance(candidate, dict) else candidate
    return str(text)


def _line(number: int, reading: str, outcome: Written | DiscorankError) -> bytes:
    """The line of a list; its row stands in it byte by byte."""
    head: dict[str, Any] = {"entry": number, "reading": reading}
    if isinstance(outcome, DiscorankError):
        error = {
            "kind": type(outcome).__name__,
            "reason": outcome.problem,
            "where": outcome.where,
            "fix": outcome.fix,
        }
        return as_line({**head, "error": error})
    writes, counts = outcome
    start = as_line({**head, "counts": counts}).removesuffix(b"}\n")
    return start + _ROW + writes["rows"].removesuffix(b"\n") + b"}\n"


def _parsed(line: bytes) -> tuple[int, str, Written | DiscorankError]:
    """Number, reading and outcome of a line; ValueError, KeyError or the like if it is none."""
    values = json.loads(line)
    number, reading = int(values["entry"]), str(values["reading"])
    if "error" in values:
        return number, reading, _error(**values["error"])
    chosen_text(values["row"])
    counts = {str(name): int(n) for name, n in values["counts"].items()}
    _, _, row = line.partition(_ROW)
    return number, reading, ({"rows": row.removesuffix(b"}\n") + b"\n"}, counts)


def _error(kind: str, reason: str, where: str, fix: str) -> DiscorankError:
    """The error of a line: of the kind that it was, where such a kind is known."""
    kinds = {one.__name__: one for one in _kinds_of(DiscorankError)}
    return kinds.get(kind, InputError)(reason, where=where, fix=fix)


def _kinds_of(kind: type[DiscorankError]) -> Iterator[type[DiscorankError]]:
    yield kind
    for other in kind.__subclasses__():
        yield from _kinds_of(other)
