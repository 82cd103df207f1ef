"""A chooser that says how sure it is: a `Reranker`'s choice, its expected score, and whether to send it to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...metrics.mixture import Utility
from ...metrics.text.texts import Context
from ..choice import Ranking
from ..decider import scheduled
from ..engines.interface import Engine
from ..lists import CandidateList
from ..reranker import Reranker
from ..scheduler import Accept, Outcome, Program, accept_all
from ..strategies import Strategy
from .abstaining import Abstention
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
        abstain: which lists are flagged, to be sent to people; None of them if not given (`abstaining`).
    """

    chooser: TrainedChooser
    reranker: Reranker
    nbest: int | None = 1
    abstain: Abstention | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        abstain = None if self.abstain is None else self.abstain.as_json()
        own = {"nbest": self.nbest, "chooser": self.chooser.digest, "abstain": abstain}
        return {**self.reranker.identity, **own}

    @property
    def resolved_strategy(self) -> Strategy:
        """Where the context of a list comes from."""
        return self.reranker.resolved_strategy

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

    def expected_error(self, record: CandidateList, ranking: Ranking) -> float | None:
        """The error expected of the choice, in sigma; None where a place has no value.

        Args:
            record: a list.
            ranking: its decision, with every place.
        """
        difficulty, best = self.chooser.difficulty, ranking.utility
        places = [(place.utility, place.count) for place in ranking.ranking]
        if difficulty is None or best is None or any(value is None for value, _ in places):
            return None
        total = sum((value or 0.0) * count for value, count in places)
        lead = best - total / sum(count for _, count in places)
        return float(difficulty.errors(traits_of(record), np.array(lead)))

    def _stated(self, record: CandidateList, ranking: Ranking) -> Ranking:
        """The ranking with what the chooser says of it; without, where a place has no value."""
        difficulty, error = self.chooser.difficulty, self.expected_error(record, ranking)
        if difficulty is None or error is None:
            return ranking
        # before anything is judged nobody knows the unit of scores
        known = None
        if self.chooser.prior is not None:
            known = float(difficulty.scores(np.array(error), *self.chooser.unit))
            known = known if self.chooser.prior.lower else -known
        statement = {"probability": difficulty.probability(error), "expected_score": known}
        if self.abstain is not None and error > self.abstain.above:
            ranking = replace(ranking, flags=(*ranking.flags, ABSTAIN))
        return replace(ranking, extra={STATEMENT: statement, **ranking.extra})
