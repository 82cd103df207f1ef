"""Minimum Bayes risk decoding: the candidate with the highest expected utility against pseudo-references.

    h* = argmax_h mu(h)               (Kumar and Byrne 2004; Eikema and Aziz 2020 for samples)
    mu(h) = sum_r w(r) u(h, r) / W,   W = sum_r w(r)      O(N^2) comparisons of N candidates
    mu(h) = u(h, sum_r w(r) phi(r) / W)                   O(N), where u depends on r through phi(r) alone, linearly

A decoder is composed of five values: the utility u; the pool, which says what r and w are; the estimator, which has mu
computed from all pairs or from some; the choice, which takes the argmax with its ties; and the order of lists. Each
text is represented once, and copies of a text count as often as they occur.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import IntArray
from ..metrics.spec.checked_settings import Composed, Converted, settings
from ..metrics.text.texts import Context
from .capabilities import check_together
from .choice import Choice, Expected, with_flags
from .decider import Decider
from .engines.expectation import combined_matrix, combined_values
from .engines.interface import Result, Task
from .estimator import Estimator
from .lists import CandidateList, Distinct
from .order import Order
from .pool import Pool, remarks
from .scheduler import Program
from .votes.answer_shares import compares_answers, votes_of


@settings
class MBRDecoder(Decider):
    """Chooses by expected utility.

    Settings of the five values are given in them, ``MBRDecoder("chrf", choice=Choice(nbest=5))``, or by their names,
    ``MBRDecoder("chrf", nbest=5)``.

    Args:
        utility: a metric, its name or signature, or a function u(h, r).
        pool: which texts count as pseudo-references, and how much.
        estimator: how expected utilities come from pairs.
        choice: what is chosen.
        order: where context comes from in lists of a document.

    Raises:
        InputError: settings that cannot be used, or not beside one another.
    """

    heading: ClassVar = "utility"

    utility: Annotated[MetricLike, Converted(load_metric)]
    pool: Annotated[Pool, Composed()] = Pool()
    estimator: Annotated[Estimator, Composed()] = Estimator()
    choice: Annotated[Choice, Composed()] = Choice()
    order: Annotated[Order, Composed()] = Order()

    if TYPE_CHECKING:  # what `settings` makes of it

        def __init__(
            self,
            utility: MetricLike,
            pool: Pool = ...,
            estimator: Estimator = ...,
            choice: Choice = ...,
            order: Order = ...,
            **settings: Any,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_together(self)
        self.estimator.check(self.loaded_utility)
        self.choice.check(self.loaded_utility)
        _ = self.resolved_strategy  # refused now, not when the first list is decided

    @cached_property
    def loaded_utility(self) -> Utility:
        """The utility that decides."""
        return load_metric(self.utility)

    @property
    def utilities(self) -> tuple[Utility, ...]:
        """The utility that decides, and before it those that may stand for it in a list."""
        return (*self.loaded_utility.variants, self.loaded_utility)

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every utility it uses, in the order of use, with what it may be for a list."""
        return (*self.estimator.metrics, *self.utilities)

    @property
    def expectation_settings(self) -> dict[str, Any]:
        """The settings that expected utilities depend on."""
        utility = {"utility": self.loaded_utility.signature()}
        return {**utility, **self.pool.identity, **self.estimator.identity_of_parts}

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        return {
            "decoder": "mbr",
            **self.expectation_settings,
            **self.choice.identity,
            "strategy": self.resolved_strategy,
            "oracle": self.pool.oracle,
            **self.estimator.identity,
        }

    @property
    def reads_logprobs(self) -> bool:
        """True if the log-probabilities of candidates are read."""
        return self.pool.reads_logprobs

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list: a shortlist if it is long, expected utilities, the argmax."""
        if record.pseudo_references:
            self.choice.refuse_diverse()
        distinct = Distinct(record.candidates)
        kept = np.arange(len(distinct))
        first_stage = self.estimator.first_stage
        if first_stage is not None and len(distinct) > self.estimator.top_k:
            first = self.pool.task(first_stage, record, distinct, kept, context)
            kept, flags = yield from self.estimator.shortlist_of(first, record, distinct, flags)
        if self.estimator.budget is not None:
            # an empty text cannot win, so that its pairs would be wasted
            kept = kept[distinct.can_win[kept]]
        expected = yield from self.expected(record, distinct, kept, context, flags)
        ranking = self.choice.ranking(record, distinct, kept, expected, context)
        if not self._has_votes:
            return ranking
        utility, references = (
            self._utility_in(record),
            record.pseudo_references or record.candidates,
        )
        votes = votes_of(utility, references, self.pool.weights_of(references), ranking.text)
        return ranking if votes is None else ranking.with_votes(votes)

    @cached_property
    def _has_votes(self) -> bool:
        return not self.pool.oracle and compares_answers(self.loaded_utility)

    def expected(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities of the kept ones of a list's distinct texts, without a shortlist."""
        task = self.pool.task(self._utility_in(record), record, distinct, kept, context)
        task = task._replace(keep_matrix=self.choice.needs_matrix)
        flags = with_flags(flags, remarks(task, joined=True))
        budget = self.estimator.loaded_budget
        if budget is not None:
            from .budget.budgeted import estimated  # no list without a budget needs it

            cheap = self.pool.task(budget.cheap, record, distinct, kept, context)
            square = not (record.pseudo_references or self.pool.oracle)
            return (yield from estimated(budget, task, cheap, flags, self.choice.nbest, square))
        result = yield task
        values = combined_values(task.metric, result, self.estimator.normalize_parts)
        matrix = combined_matrix(task.metric, result)
        return Expected(values, with_flags(flags, result.flags), matrix)

    def _utility_in(self, record: CandidateList) -> Utility:
        """The utility as it reads a list; against human references each text is read alone."""
        if self.pool.oracle or not self.loaded_utility.variants:
            return self.loaded_utility
        texts = [candidate.text for candidate in (*record.candidates, *record.pseudo_references)]
        return self.loaded_utility.in_list(texts)
