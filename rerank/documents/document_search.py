"""A search over a document: of the sequences of choices, one for every list, that with the highest total.

    argmax_{h_1 .. h_n} sum_i mu_i(h_i | h_{i-k} .. h_{i-1})
mu_i(h | c) is the value of a candidate of list i (its expected utility, or weighted sum) where c are the k sentences
before. A history is a choice for every list so far. What comes next depends on the last k choices alone, so of the
histories that have these in common the best is kept: without a bound, that is dynamic programming, and exact, with at
most D_{i-k} * ... * D_{i-1} contexts of D distinct candidates per list. With a beam of B, the best B are kept.

A list without a value for its choice (it failed, or has no finite one) adds nothing to the total, and the history with
the fewest of these comes first. Of equally good histories, that comes first whose first other choice is the candidate
with the lower index. A beam of 1 is the decision from left to right, to the last bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...metrics.errors import DiscorankError
from ...metrics.text.texts import Context
from ..choice import Ranking, chosen_first, in_order
from ..context import DocumentContext, Lane
from ..lists import CandidateList
from ..scheduler import Accept, Decide, Outcome, Program, missing_document

Decision = Ranking | DiscorankError


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """How documents are searched.

    Args:
        decide: makes the program that ranks all distinct texts of a list in a context.
        width: how many preceding sentences are context, k.
        beam: how many histories are kept; None for all.
        nbest: how many places the rankings of the best history have; None for every distinct text.
    """

    decide: Decide
    width: int
    beam: int | None
    nbest: int | None

    def program(
        self, entries: Sequence[CandidateList | None], accept: Accept
    ) -> Generator[Sequence[Program], Sequence[Decision], list[Outcome]]:
        """The search over a document: hands out programs, receives what they decide, and ends with the outcomes.

        Args:
            entries: the lists of the document; None for a line between them that could not be read.
            accept: raises an InputError for a decision that cannot be written, whose list then has failed.
        """
        histories = [History(DocumentContext(Lane(self.width)))]
        after_gap = False
        for record in entries:
            if record is None:
                after_gap = True
                continue
            for history in histories:
                history.reads.enter(record, after_gap)
            after_gap = False
            histories = merged(histories)
            error = missing_document(record, self.width)
            if record.context_only or error is not None:
                error = None if record.context_only else error
                histories = [history.without_choice(record, error) for history in histories]
            else:
                decisions = yield [
                    self.decide(record, history.reads.lane.context, history.reads.flags)
                    for history in histories
                ]
                histories = self._next(record, histories, decisions, accept)
        return _outcomes(histories[best_of(histories)])

    def _next(
        self,
        record: CandidateList,
        histories: Sequence[History],
        decisions: Sequence[Decision],
        accept: Accept,
    ) -> list[History]:
        """The histories that are kept after a list."""
        grown: list[History] = []
        for number, (history, decision) in enumerate(zip(histories, decisions, strict=True)):
            grown += _grown(number, history, record, decision)
        kept = merged(grown)
        if self.beam is not None:
            kept = _best(kept, self.beam)
        kept.sort(key=lambda history: history.order)
        return merged([history.settled(record, self.nbest, accept) for history in kept])


class HistoryLink(NamedTuple):
    """What a history has of a list, and of those before it."""

    outcome: Outcome
    before: HistoryLink | None


class Taken(NamedTuple):
    """A place of a list's ranking that a history may go on with."""

    parent: History
    ranking: Ranking
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A choice for every list so far.

    Args:
        reads: what the next list is decided in.
        total: the sum of the values of its choices.
        num_lacking: how many of its lists have no value.
        last: what it has of the last list.
        order: of histories that are equally good the first is the better one.
        taken: what it takes of the last list, until that is settled.
    """

    reads: DocumentContext
    total: float = 0.0
    num_lacking: int = 0
    last: HistoryLink | None = None
    order: tuple[int, int] = (0, 0)
    taken: Taken | None = None

    @property
    def key(self) -> tuple[Context, bool, int]:
        """All that what comes next depends on."""
        return self.reads.lane.context, self.reads.was_cut, self.reads.after_failed

    def without_choice(self, record: CandidateList, error: DiscorankError | None) -> History:
        """It goes on with a list that has failed, or that only lends context."""
        failed = error is not None
        reads = self.reads.copy()
        reads.extend(record, record.candidates[0].text, is_chosen=False, failed=failed)
        last = HistoryLink(error, self.last)
        return History(reads, self.total, self.num_lacking + failed, last, self.order)

    def taking(self, record: CandidateList, ranking: Ranking, place: int, number: int) -> History:
        """It goes on with a place of a list's ranking; it is the history of that number."""
        chosen = ranking.ranking[place]
        reads = self.reads.copy()
        reads.extend(record, chosen.text, is_chosen=True)
        total, num_lacking = self.total + (chosen.utility or 0.0), self.num_lacking
        num_lacking += chosen.utility is None
        order, taken = (number, chosen.index), Taken(self, ranking, place)
        return History(reads, total, num_lacking, None, order, taken)

    def settled(self, record: CandidateList, nbest: int | None, accept: Accept) -> History:
        """It with the decision on the last list as it is written; one that cannot be written has failed."""
        if self.taken is None:
            return self
        parent, ranking, place = self.taken
        ranking = replace(chosen_first(ranking, place, nbest), total=self.total)
        try:
            accept(ranking)
        except DiscorankError as error:
            return replace(parent.without_choice(record, error), order=self.order)
        return replace(self, last=HistoryLink(ranking, parent.last), taken=None)


def _grown(
    number: int, history: History, record: CandidateList, decision: Decision
) -> list[History]:
    """The histories that a history becomes by what was decided of a list, those of better places first."""
    if isinstance(decision, DiscorankError):
        return [replace(history.without_choice(record, decision), order=(number, 0))]
    # a candidate that is not finite never wins; where none is, the first place is the choice
    usable = [i for i, place in enumerate(decision.ranking) if place.utility is not None] or [0]
    return [history.taking(record, decision, place, number) for place in usable]


def merged(histories: Sequence[History]) -> list[History]:
    """The best of the histories that the next list cannot tell apart, in the order in which they were."""
    alike: dict[tuple[Context, bool, int], list[History]] = {}
    for history in histories:
        alike.setdefault(history.key, []).append(history)
    kept: set[int] = set()
    for together in alike.values():
        together.sort(key=lambda history: history.order)
        kept.add(id(together[best_of(together)]))
    return [history for history in histories if id(history) in kept]


def best_of(histories: Sequence[History]) -> int:
    """The number of the best history; of equally good ones, the first."""
    if len(histories) == 1:
        return 0
    fewest = min(history.num_lacking for history in histories)
    totals = [h.total if h.num_lacking == fewest else -np.inf for h in histories]
    return next(in_order(np.array(totals)))


def _best(histories: Sequence[History], beam: int) -> list[History]:
    """As many of the best histories; those that go on from one parent are in the order of its list's ranking."""
    queues: dict[int, deque[History]] = {}
    for history in histories:
        queues.setdefault(history.order[0], deque()).append(history)
    best: list[History] = []
    while queues and len(best) < beam:
        parents = list(queues)
        parent = parents[best_of([queues[number][0] for number in parents])]
        best.append(queues[parent].popleft())
        if not queues[parent]:
            del queues[parent]
    return best


def _outcomes(history: History) -> list[Outcome]:
    """What a history has of every list."""
    outcomes: list[Outcome] = []
    chosen = history.last
    while chosen is not None:
        outcomes.append(chosen.outcome)
        chosen = chosen.before
    return outcomes[::-1]
