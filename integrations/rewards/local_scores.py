"""Scores and expected utilities by a metric that is loaded in this process, once, when it is first asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from ...metrics.errors import DiscorankError
from ...metrics.mixture import Utility
from ...metrics.text.texts import Text
from ...rerank.choice import Ranking
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import list_of
from ...rerank.mbr import MBRDecoder
from ...rerank.text_scores import (
    ScoreOutcome,
    check_scores_alone,
    outcomes_of,
    score_of,
    score_tasks,
)

Utilities = Sequence[float | None]


class LocalScores:
    """A metric in this process; pickled without its model, which every process loads for itself.

    Args:
        utility: the metric.

    Raises:
        InputError: its scores depend on a corpus.
    """

    def __init__(self, utility: Utility) -> None:
        check_scores_alone(utility)
        self.utility = utility
        self._begin()

    def _begin(self) -> None:
        self._engine: Engine | None = None
        self._lock, self._process = Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"{self.utility.name}, loaded in each process"

    def __getstate__(self) -> dict[str, Any]:
        return {"utility": self.utility}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.utility = state["utility"]
        self._begin()

    def outcomes(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Sequence[Text]] | None = None,
        sources: Sequence[Text | None] | None = None,
        documents: Sequence[str] | None = None,
    ) -> list[ScoreOutcome]:
        """The score of every text as a utility, or its error; arguments and errors as `score_tasks`."""
        tasks = score_tasks(self.utility, hypotheses, references, sources, documents)
        with self._locked():
            outcomes = outcomes_of(self._loaded(), tasks)
        return [score_of(self.utility, outcome) for outcome in outcomes]

    def expected(
        self, lists: Sequence[Mapping[str, Any]], self_pair: bool
    ) -> list[Utilities | DiscorankError]:
        """Expected utilities of the candidates of every list, in their order, or the error of a list.

        Args:
            lists: candidate lists in their JSON form.
            self_pair: whether a candidate counts as a pseudo-reference for itself.

        Raises:
            InputError: a list that cannot be read.
        """
        decoder = MBRDecoder(self.utility, nbest=None, self_pair=self_pair)
        records = [list_of(data, number) for number, data in enumerate(lists)]
        with self._locked():
            return [_utilities(outcome) for outcome in self._decided(decoder, records)]

    def _decided(self, decoder: Decider, records: Sequence[Any]) -> list[Any]:
        tagged = list(enumerate(records))
        return [outcome for _, outcome in decoder.outcomes(tagged, self._loaded())]

    def _locked(self) -> Lock:
        """One at a time; a process that was forked begins anew, as models do not survive it."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _loaded(self) -> Engine:
        if self._engine is None:
            engine = LocalEngine()
            engine.load([self.utility])
            self._engine = engine
        return self._engine


def _utilities(outcome: Ranking | DiscorankError) -> Utilities | DiscorankError:
    return outcome if isinstance(outcome, DiscorankError) else outcome.utilities
