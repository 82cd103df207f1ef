"""A chooser that says how sure it is: a `Reranker`'s choice, its expected score, and whether to send it to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.text.texts import Context
from ..choice import Ranking
from ..decider import scheduled
from ..documents.document_search import DocumentSearch
from ..engines.interface import Engine
from ..lists import CandidateList
from ..reranker import Reranker
from ..scheduler import Accept, Outcome, Program, accept_all
from ..strategies import Strategy
from .difficulty import traits_of
from .model import TrainedChooser

ABSTAIN = "abstain"  # the flag of a choice to send to people
STATEMENT = "chooser"  # the key of a row


@dataclass(frozen=True)
class ChooserDecider:
    """Decides lists as a chooser does.

    Args:
        chooser: what was learned.
        reranker: the chooser's, which gives every place.
        nbest: how many places a ranking has; None for every distinct text.
        abstain: the share of lists, the ones with the most expected errors, that is flagged.
    """

    chooser: TrainedChooser
    reranker: Reranker
    nbest: int | None = 1
    abstain: float = 0.0

    def __post_init__(self) -> None:
        if self.abstain and self.chooser.difficulty is None:
            fix = "Train one: discorank train chooser"
            raise InputError(
                "the chooser does not say how hard a list is", where="abstain", fix=fix
            )

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        own = {"nbest": self.nbest, "chooser": self.chooser.digest, "abstain": self.abstain}
        return {**self.reranker.identity, **own}

    @property
    def resolved_strategy(self) -> Strategy:
        """Where the context of a list comes from."""
        return self.reranker.resolved_strategy

    @property
    def search(self) -> DocumentSearch | None:
        """How documents are searched, as the reranker does."""
        search = self.reranker.search
        if search is None:
            return None
        every_place = replace(self, nbest=None)
        return replace(search, decide=every_place.program, nbest=self.nbest)

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every metric it uses."""
        return self.reranker.metrics

    @property
    def width(self) -> int:
        """How many preceding sentences its metrics read."""
        return self.reranker.width

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept = accept_all
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record), errors as outcomes; see `Scheduler`."""
        return scheduled(self, records, engine, accept)

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""
        ranking = yield from self.reranker.program(record, context, flags)
        ranking = self._stated(record, ranking)
        return replace(ranking, ranking=ranking.ranking[: self.nbest])

    def _stated(self, record: CandidateList, ranking: Ranking) -> Ranking:
        """The ranking with what the chooser says of it; without, where a place has no value."""
        difficulty, best = self.chooser.difficulty, ranking.utility
        places = [(place.utility, place.count) for place in ranking.ranking]
        if difficulty is None or best is None or any(value is None for value, _ in places):
            return ranking
        total = sum((value or 0.0) * count for value, count in places)
        lead = best - total / sum(count for _, count in places)
        error = difficulty.errors(traits_of(record), np.array(lead))
        sigma, rooted = self.chooser.unit
        score = float(difficulty.scores(error, sigma, rooted))
        probability = difficulty.probability(float(error))
        # before anything is judged nobody knows the unit of scores
        known = score if self.chooser.prior is not None else None
        statement = {"probability": probability, "expected_score": known}
        if self.abstain and score > difficulty.cutoff(self.abstain):
            ranking = replace(ranking, flags=(*ranking.flags, ABSTAIN))
        return replace(ranking, extra={STATEMENT: statement, **ranking.extra})
