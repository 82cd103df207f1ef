"""Minimum Bayes risk decoding: the candidate with the highest expected utility against pseudo-references.

    h* = argmax_h mu(h)               (Kumar and Byrne 2004; Eikema and Aziz 2020 for samples)
    mu(h) = sum_r w(r) u(h, r) / W,   W = sum_r w(r)      O(N^2) comparisons of N candidates
    mu(h) = u(h, sum_r w(r) phi(r) / W)                   O(N), where u depends on r through phi(r) alone, linearly

It is composed of five values: the utility u; the pool, which says what r and w are; the estimator, which has mu
computed from all pairs or from some; the choice, which takes the argmax with its ties; and the order of lists. Each
text is represented once, and copies of a text count as often as they occur.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from ..metrics.errors import InputError
from ..metrics.execution.by_sentence import is_joined
from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import IntArray
from ..metrics.spec.checked_settings import Composed, Converted, settings
from ..metrics.text.texts import Context
from .capabilities import check_together
from .choice import Choice, Ranking, choose
from .decider import Decider, remarked
from .engines.interface import Result, Task
from .engines.part_sums import combined_values
from .estimator import Estimator, Expected
from .lists import CandidateList, Distinct
from .order import Order
from .pool import Pool
from .scheduler import Program
from .votes.answer_shares import votes_of


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
        compares = (part.info.needs_references for weight, part in self._parts if weight)
        if self.choice.diverse is not None and not any(compares):
            problem = "the utility compares no two candidates"
            raise InputError(problem, where="diverse", fix="Leave it out")
        # refused now, not when the first list is decided
        _ = self.resolved_strategy

    @cached_property
    def loaded_utility(self) -> Utility:
        """The utility that decides."""
        return load_metric(self.utility)

    @property
    def _parts(self) -> Sequence[tuple[float, Any]]:
        return self.loaded_utility.parts

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every utility it uses, in the order of use, with what it may be for a list."""
        return (*self.estimator.metrics, *self.utilities)

    @property
    def utilities(self) -> tuple[Utility, ...]:
        """The utility that decides, and before it those that may stand for it in a list."""
        return (*self.loaded_utility.variants, self.loaded_utility)

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
    def expectation_settings(self) -> dict[str, Any]:
        """The settings that expected utilities depend on."""
        utility = {"utility": self.loaded_utility.signature()}
        return {**utility, **self.pool.identity, **self.estimator.identity_of_parts}

    @property
    def reads_logprobs(self) -> bool:
        """Whether it looks at the log-probabilities of candidates."""
        return self.pool.reads_logprobs

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list: a shortlist if it is long, expected utilities, the argmax."""
        if self.choice.diverse is not None and record.pseudo_references:
            problem = "candidates are compared with these, and a diverse list needs them compared with each other"
            raise InputError(
                problem, where="pseudo_references", fix="Leave out --diverse, or these"
            )
        distinct = Distinct(record.candidates)
        kept = np.arange(len(distinct))
        first_stage = self.estimator.first_stage
        if first_stage is not None and len(distinct) > self.estimator.top_k:
            kept, flags = yield from self._shortlisted(
                first_stage, record, distinct, context, flags
            )
        if self.estimator.budget is not None:
            # an empty text cannot win, and could be the only one that a budget does not give up
            kept = kept[distinct.can_win[kept]]
        expected = yield from self.expected(record, distinct, kept, context, flags)
        values, left_out = expected.values, set[int]()
        if len(kept) < len(distinct):
            values = np.full(len(distinct), np.nan)
            values[kept] = expected.values
            left_out.update(set(range(len(distinct))) - set(kept.tolist()))
        left_out.update(kept[i] for i in expected.given_up)
        choosable = np.where(distinct.can_win[kept], expected.values, np.nan)
        left_out.update(kept[self.choice.alike(choosable, expected.matrix)].tolist())
        matrix = expected.matrix if self.choice.keep_matrix else None
        ranking = choose(
            record,
            values[distinct.of],
            self.choice.nbest,
            expected.flags,
            matrix,
            distinct,
            left_out,
            budget=expected.spent,
            context=context,
        )
        if self.pool.oracle:
            return ranking
        return self._with_votes(ranking, record)

    def _with_votes(self, ranking: Ranking, record: CandidateList) -> Ranking:
        """The ranking with the votes of its list, where the utility compares answers.

        Raises:
            InputError: the list has a key of its own by the name of one that votes have in a row.
        """
        pool = record.pseudo_references or record.candidates
        utility = self._utility_in(record)
        votes = votes_of(utility, pool, self.pool.weights_of, ranking.text)
        if votes is None:
            return ranking
        for key in votes.as_json():
            if key in ranking.extra:
                fix = "Give the input's key another name"
                raise InputError("is a key that a vote writes", where=key, fix=fix)
        is_vote_alone = len([weight for weight, _ in utility.parts if weight]) == 1
        gap = votes.gap if is_vote_alone and votes.gap is not None else ranking.gap
        return replace(ranking, votes=votes, gap=gap, flags=(*ranking.flags, *votes.flags))

    def _utility_in(self, record: CandidateList) -> Utility:
        """The utility as it reads a list; against human references each text is read alone."""
        if self.pool.oracle or not self.loaded_utility.variants:
            return self.loaded_utility
        texts = [candidate.text for candidate in (*record.candidates, *record.pseudo_references)]
        return self.loaded_utility.in_list(texts)

    def expected(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities of the kept ones of a list's distinct texts, without a shortlist."""
        utility = self._utility_in(record)
        task = self._task(utility, record, distinct, kept, context)
        parts = [part for _, part in utility.parts]
        if any(map(is_joined, parts, task.comparisons)):
            flags = (*flags, "joined")
        flags = remarked(flags, parts, task.comparisons)
        task = task._replace(keep_matrix=self.choice.needs_matrix)
        budget = self.estimator.loaded_budget
        cheap = None
        if budget is not None and budget.cheap is not None:
            cheap = self._task(budget.cheap, record, distinct, kept, context)
        square = not (record.pseudo_references or self.pool.oracle)
        nbest = self.choice.nbest
        return (yield from self.estimator.expected(task, cheap, flags, nbest, square))

    def _shortlisted(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, tuple[IntArray, tuple[str, ...]]]:
        """The numbers of the `top_k` best distinct texts by the cheap utility, in order of appearance."""
        everything = np.arange(len(distinct))
        result = yield self._task(utility, record, distinct, everything, context)
        values = combined_values(utility, result, self.estimator.normalize_parts)[distinct.of]
        best = choose(record, values, self.estimator.top_k, distinct=distinct).ranking
        kept = np.unique([distinct.of[ranked.index] for ranked in best])
        return kept, (*flags, *result.flags, "shortlisted")

    def _task(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
    ) -> Task:
        """The kept texts against the list's pseudo-references, as each part of the utility reads them."""
        hypotheses = tuple(distinct.texts[i] for i in kept.tolist())
        pool = self.pool.references(record, distinct, kept)
        # the same object where they are the hypotheses: the comparison is then known to be square
        references = pool.texts or hypotheses
        comparisons = tuple(
            part.comparison(hypotheses, references, record.source, context.last(part.reads.context))
            for _, part in utility.parts
        )
        return Task(record.id, utility, comparisons, pool.weights, pool.own)
