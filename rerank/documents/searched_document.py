"""A document as it is read to be searched: its lines, held until the last of its lists is there."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...metrics.errors import DiscorankError, InputError, ResumeError
from ...metrics.storage.limits import limits
from ..choice import Ranking
from ..lists import CandidateList
from ..scheduler import Decided, Outcome, Program, characters_of
from .document_search import Decision

Entry = CandidateList | Decided | DiscorankError
Searching = Generator[Sequence[Program], Sequence[Decision], list[Outcome]]


@dataclass(slots=True, eq=False)
class SearchedDocument:
    """The lines of a document, and how far its search is.

    Args:
        lines: (tag, entry) of every line, those that could not be read too.
        problem: why it is not searched, if so.
        outcomes: of its lists, when it is done.
        search: what is left of its search.
        decisions: of the programs that were handed out last, None where one is not done.
        num_waiting: how many of these are not done.
    """

    lines: list[tuple[Any, Entry]]
    problem: DiscorankError | None = None
    outcomes: list[Outcome] | None = None
    search: Searching | None = None
    decisions: list[Decision | None] = field(default_factory=list)
    num_waiting: int = 0

    @property
    def name(self) -> str:
        """For messages."""
        return _name(next((record for record in self.entries if record is not None), None))

    @property
    def entries(self) -> list[CandidateList | None]:
        """Its lists; None for a line that could not be read."""
        return [record_of(entry) for _, entry in self.lines]

    @property
    def characters(self) -> int:
        """About how much text it holds."""
        return sum(characters_of(record) for record in self.entries if record is not None)

    def fail(self, problem: DiscorankError) -> None:
        """Makes an error of every list that was to be decided."""
        self.outcomes = [
            None if record.context_only else problem
            for record in self.entries
            if record is not None
        ]

    def decided(self) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of its lines, but for what an earlier run has decided.

        Raises:
            ResumeError: an earlier run, of another input, chose otherwise.
        """
        outcomes = iter(self.outcomes or ())
        for tag, entry in self.lines:
            if isinstance(entry, DiscorankError):
                yield tag, entry
                continue
            outcome = next(outcomes) if record_of(entry) is not None else None
            if isinstance(entry, Decided):
                _check_same(entry, outcome)
            else:
                yield tag, outcome


def documents_of(source: Iterable[tuple[Any, Entry]]) -> Iterator[SearchedDocument]:
    """The lines of every document; an error of the source is raised behind what was read before it."""
    lines: list[tuple[Any, Entry]] = []
    first: CandidateList | None = None  # of the document
    problem: InputError | None = None
    try:
        for pair in source:
            record = record_of(pair[1])
            if record is not None and first is not None and not _are_together(first, record):
                yield SearchedDocument(lines, problem)
                lines, first, problem = [], None, None
            lines.append(pair)
            first = first or record
            if len(lines) > limits().document_lists:
                problem = problem or _too_long(first)
                yield SearchedDocument(lines, problem)
                lines = []
    except Exception:
        if lines:
            yield SearchedDocument(lines, problem)
        raise
    if lines:
        yield SearchedDocument(lines, problem)


def record_of(entry: Entry) -> CandidateList | None:
    """The list of a line, None where it could not be read."""
    if isinstance(entry, Decided):
        return entry.record
    return None if isinstance(entry, DiscorankError) else entry


def _are_together(first: CandidateList, record: CandidateList) -> bool:
    """Whether two lists are of one document."""
    return record.document is not None and record.document == first.document


def _too_long(first: CandidateList | None) -> InputError:
    """The error of the lists of a document that is too long."""
    bound = limits().document_lists
    problem = f"more than {bound} lists, and a document that is searched is read whole"
    fix = "Choose --strategy sequential, or: --max document_lists=NUMBER"
    return InputError(problem, where=_name(first), fix=fix)


def _name(record: CandidateList | None) -> str:
    """The document of a list, for messages."""
    if record is None:
        return "lines"
    return f"list {record.id!r}" if record.document is None else f"document {record.document!r}"


def _check_same(decided: Decided, outcome: Outcome) -> None:
    """Raises ResumeError where an earlier run chose otherwise."""
    record = decided.record
    if record is None or record.context_only:
        return
    failed = isinstance(outcome, DiscorankError)
    is_same = failed == decided.failed
    if isinstance(outcome, Ranking) and is_same:
        is_same = str(outcome.text) == str(decided.text)
    if not is_same:
        problem = (
            "its document has other lines than when it was decided, and other choices are better"
        )
        fix = "Restore them, or remove the output and its run file to start anew"
        raise ResumeError(problem, where=f"list {record.id!r}", fix=fix)
