"""Whole documents chosen among systems or samples: every sentence of a document is taken from the same one.

    h* = argmax_h mu(h),   h a system's sentences of the document
The lists of a document become one list of documents (`document_lists`), which any decider decides: a segment metric by
the mean over sentences of its expected utility, each sentence in the context of its own system's; a document metric by
its own. The decision comes back as one ranking per sentence list, so that runs, resuming and engines need not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..metrics.errors import DiscorankError, InputError
from ..metrics.mixture import Utility
from ..metrics.storage.limits import limits
from ..metrics.text.texts import Context
from .choice import Ranking
from .decider import Decider, decide_all
from .documents.document_lists import DocumentList
from .engines.interface import Engine
from .lists import CandidateList
from .scheduler import Accept, Decided, Outcome, Program, accept_all
from .strategies import Strategy

Choice = Literal["segment", "document"]
Entry = CandidateList | Decided | DiscorankError


class InputLine(NamedTuple):
    """A line of the input, or what an earlier run did with it, and the tag that comes back with its outcome."""

    tag: Any
    entry: Entry

    @property
    def record(self) -> CandidateList | None:
        """The list of the line, None where it could not be read."""
        if isinstance(self.entry, Decided):
            return self.entry.record
        return self.entry if isinstance(self.entry, CandidateList) else None

    @property
    def is_written(self) -> bool:
        """Whether an earlier run wrote what came of it."""
        return isinstance(self.entry, Decided)


class LineGroup(NamedTuple):
    """Lines that are decided together, and how their decision becomes one for each; None where they are one line."""

    parts: tuple[InputLine, ...]
    document: DocumentList | None = None


@dataclass(frozen=True)
class WholeDocuments:
    """Decides the lists of each document as one.

    Lists of a document stand one after the other. A list without one is decided alone, and lists that are only context
    stand before those that are decided.

    Args:
        decider: an `MBRDecoder` or a `Reranker`, which decides the lists of documents.
    """

    decider: Decider

    def __post_init__(self) -> None:
        strategy = getattr(self.decider, "strategy", "auto")
        if strategy != "auto":
            raise InputError(
                f"found {strategy!r}, but each document is read in its own context",
                where="strategy",
                fix="Leave it out where documents are chosen whole",
            )

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {**self.decider.identity, "choice": "document"}

    @property
    def resolved_strategy(self) -> Strategy:
        """That of the decider."""
        return self.decider.resolved_strategy

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses."""
        return self.decider.metrics

    @property
    def width(self) -> int:
        """How many preceding sentences its metrics read."""
        return self.decider.width

    def decode(
        self,
        lists: Iterable[CandidateList | Mapping[str, Any]],
        engine: Engine | None = None,
    ) -> Iterator[Ranking]:
        """The ranking of every list, streamed, in input order; errors as `MBRDecoder.decode`."""
        return decide_all(self, lists, engine)

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list of documents, task by task."""
        return self.decider.program(record, context, flags)

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept = accept_all
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record), errors as outcomes, that of a document at each of its lists."""
        for group, outcome in self.decider.outcomes(_groups(records), engine):
            if group is None:  # of an earlier run
                continue
            yield from _of_parts(group, outcome, accept)


def _of_parts(group: LineGroup, outcome: Outcome, accept: Accept) -> Iterator[tuple[Any, Outcome]]:
    """The outcome of every line of a group that is not written yet."""
    outcomes: list[Outcome] = [outcome] * len(group.parts)
    if isinstance(outcome, Ranking):
        rankings = [outcome]
        if group.document is not None:
            rankings = group.document.of_sentences(outcome)
        outcomes = [_accepted(ranking, accept) for ranking in rankings]
        changed = _changed(group.parts, rankings)
        if changed is not None:
            outcomes = [changed] * len(group.parts)
    for part, own in zip(group.parts, outcomes, strict=True):
        if not part.is_written:
            yield part.tag, part.entry if isinstance(part.entry, DiscorankError) else own


def _changed(parts: tuple[InputLine, ...], rankings: list[Ranking]) -> DiscorankError | None:
    """Why what is chosen does not go with what an earlier run wrote of the first lists; None where it does."""
    for part, ranking in zip(parts, rankings, strict=True):
        entry = part.entry
        if isinstance(entry, Decided) and not entry.failed and entry.text != ranking.text:
            problem = "the document has more lists than when its first were decided, and its best system is another now"
            fix = "Decide the file anew: choose another output"
            return InputError(problem, where=f"list {ranking.id!r:.80}", fix=fix)
    return None


def _accepted(ranking: Ranking, accept: Accept) -> Outcome:
    """The ranking, or why it cannot be written."""
    try:
        accept(ranking)
    except DiscorankError as error:
        return error
    return ranking


def _groups(records: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[LineGroup | None, Entry]]:
    """Groups of lines, each with the list, or the error, that is decided in their place.

    A document is held until its last list is read, at most as many lists as a text may have sentences.
    """
    held: list[InputLine] = []
    document: str | None = None  # of those held
    refusal: DiscorankError | None = None  # why the rest of a document is not held
    for tag, entry in records:
        part = InputLine(tag, entry)
        record = part.record
        # an unreadable line may stand inside the document
        is_inside = record is None and bool(held or refusal)
        if not is_inside:
            of_document = None if record is None else record.document
            if of_document is None or of_document != document:
                yield from _flushed(held, refusal)
                held, document, refusal = [], of_document, None
            if of_document is None or (_is_context(part) and not (held or refusal)):
                yield from _alone(part)
                continue
        held.append(part)
        refusal = refusal or _refusal(len(held))
        if refusal is not None:
            yield from _flushed(held, refusal)
            held = []
    yield from _flushed(held, refusal)


def _is_context(part: InputLine) -> bool:
    """Whether a list is only context."""
    return part.record is not None and part.record.context_only


def _refusal(count: int) -> DiscorankError | None:
    """Why no document of so many lists is held, None where it is."""
    try:
        limits().check("sentences", count)
    except InputError as error:
        return error
    return None


def _alone(part: InputLine) -> Iterator[tuple[LineGroup | None, Entry]]:
    """A line that is decided by itself."""
    yield (None if part.is_written else LineGroup((part,))), part.entry


def _flushed(
    held: list[InputLine], refusal: DiscorankError | None
) -> Iterator[tuple[LineGroup | None, Entry]]:
    """The lines held as one document; unreadable ones behind its last list stand alone."""
    end = len(held)
    while end and held[end - 1].record is None:
        end -= 1
    body = tuple(held[:end])
    if not all(part.is_written for part in body):
        try:
            if refusal is not None:
                raise refusal
            whole = DocumentList.of(_lists(body))
            yield LineGroup(body, whole), whole.whole
        except DiscorankError as error:
            name = next(part.record.document for part in body if part.record is not None)
            yield LineGroup(body), error.inside(f"document {name!r:.80}")
    for part in held[end:]:
        yield from _alone(part)


def _lists(parts: tuple[InputLine, ...]) -> list[CandidateList]:
    """The lists of a document; raises InputError where one could not be read, or is only context."""
    lists: list[CandidateList] = []
    for part in parts:
        record = part.record
        if record is None:
            before = f", behind list {lists[-1].id!r:.80}" if lists else ""
            problem = f"a line of it could not be read{before}"
            raise InputError(problem, fix="Mend that line: documents are chosen whole")
        if record.context_only:
            problem = "is only context, but stands between sentences to choose"
            fix = "Put it before them, or give it candidates to choose"
            raise InputError(problem, where=f"list {record.id!r:.80}", fix=fix)
        lists.append(record)
    return lists
