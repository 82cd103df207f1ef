"""One list under a budget: what a plan asks for becomes tasks of an engine, and its estimate expected utilities.

First the cheap utility and those parts of the utility whose pairs cost next to nothing are computed for all pairs, then
block by block what the plan asks for of the others. A budget of all pairs is one task, that of no budget.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..metrics.base import Metric
from ..metrics.errors import MetricError
from ..metrics.execution.by_sentence import is_joined, lift
from ..metrics.mixture import Mix, Utility
from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Comparison
from .budget.plan import Estimate, Request, plan
from .budget.settings import Budget
from .choice import Spent
from .decider import combined_matrix, combined_values
from .engines.finite_pairs import FLAG
from .engines.interface import Result, Task

Part = tuple[float, Metric]


class Estimated(NamedTuple):
    """Expected utilities [H], NaN for hypotheses that were given up, and what is known of them.

    `matrix` [H, R] has NaN for pairs that were not computed.
    """

    values: FloatArray
    flags: tuple[str, ...]
    spent: Spent
    given_up: IntArray
    matrix: FloatArray | None = None


def estimated(
    budget: Budget, whole: Task, cheap: Task | None, nbest: int | None, square: bool
) -> Generator[Task, Result, Estimated]:
    """Expected utilities of a list from some of its pairs.

    Args:
        budget: how many, and which.
        whole: the task of all pairs.
        cheap: that of the cheap utility, if there is one.
        nbest: how many places matter; None for all that have an estimate, of which the first matters.
        square: whether the pseudo-references are the hypotheses.

    Raises:
        MetricError: the cheap utility of a pair, or every pair that was computed, is not finite.
    """
    num_rows, num_columns = len(whole.comparisons[0].hypotheses), len(whole.weights)
    size = num_rows * num_columns
    pairs = budget.pairs(size)
    if pairs >= size:
        return (yield from _exact(whole, size))
    problem = _Problem.of(whole, budget.force)
    known = yield from problem.known(cheap)
    steps = plan(
        budget.method,
        whole.weights,
        num_rows,
        whole.own,
        known.cheap,
        pairs=pairs,
        confidence=budget.confidence,
        nbest=nbest if nbest is not None and nbest < num_rows else 1,
        seed=budget.seed,
        square=square,
    )
    seen = _Seen((num_rows, num_columns), known.flags)
    try:
        request = next(steps)
        while True:
            result = yield problem.task(request)
            request = steps.send(
                seen.add(request, problem.utilities(request, result, known), result)
            )
    except StopIteration as end:
        estimate: Estimate = end.value
    return seen.estimated(estimate, whole.keep_matrix)


def _exact(whole: Task, size: int) -> Generator[Task, Result, Estimated]:
    """All pairs, as without a budget."""
    result = yield whole
    values = combined_values(whole.metric, result)
    matrix = combined_matrix(whole.metric, result)
    shape = len(values), size // len(values)
    spent = Spent(size, size, 1.0, 0.0, np.ones(shape, bool))
    return Estimated(values, result.flags, spent, np.empty(0, np.int64), matrix)


class _Known(NamedTuple):
    """What is computed of all pairs: cheap utilities [H, R], and the sum of the parts that cost next to nothing."""

    cheap: FloatArray | None = None
    of_parts: FloatArray | None = None  # [H, R], or [H, 1] of parts without references
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Problem:
    """The parts of a list's utility: those of which the plan asks for pairs, and the others.

    Args:
        whole: the task of all pairs.
        asked: which parts the plan asks for.
        other: the rest; parts of weight 0 are in neither.
    """

    whole: Task
    asked: tuple[int, ...]
    other: tuple[int, ...]

    @classmethod
    def of(cls, whole: Task, force: bool) -> _Problem:
        """The problem of a task; where the budget is forced and no pairs are costly, all parts with pairs are asked."""
        parts = whole.metric.parts
        counting = [i for i, (weight, _) in enumerate(parts) if weight]
        asked = [
            i for i in counting if parts[i][1].costly_pairs and parts[i][1].info.needs_references
        ]
        if not asked and force:
            asked = [i for i in counting if parts[i][1].info.needs_references]
        other = tuple(i for i in counting if i not in asked)
        return cls(whole, tuple(asked), other)

    @property
    def utility(self) -> Utility:
        """What the plan asks for."""
        return Mix(tuple(self.whole.metric.parts[i] for i in self.asked))

    def known(self, cheap: Task | None) -> Generator[Task, Result, _Known]:
        """The cheap utility and the parts that are not asked for, of all pairs, in one task."""
        own_parts = tuple(self.whole.metric.parts[i] for i in self.other)
        own_comparisons = tuple(self.whole.comparisons[i] for i in self.other)
        cheap_parts = () if cheap is None else cheap.metric.parts
        cheap_comparisons = () if cheap is None else cheap.comparisons
        parts, comparisons = own_parts + cheap_parts, own_comparisons + cheap_comparisons
        if not parts:
            return _Known()
        task = Task(self.whole.id, Mix(parts), comparisons, self.whole.weights, None, True)
        result = yield task
        n = len(own_parts)
        of_parts = _sum(own_parts, result, slice(n))
        of_cheap = _sum(cheap_parts, result, slice(n, None))
        if of_cheap is not None and not np.isfinite(of_cheap).all():
            fix = "Name another as cheap utility, or none"
            signature = Mix(cheap_parts).signature()
            raise MetricError("a cheap utility that is not finite", where=signature, fix=fix)
        flags = tuple(flag for flag in result.flags if own_parts and flag != FLAG)
        return _Known(of_cheap, of_parts, flags)

    def task(self, request: Request) -> Task:
        """The pairs of a request."""
        whole = tuple(self._comparison(i) for i in self.asked)
        rows, columns = request.rows.tolist(), request.columns.tolist()
        parts = tuple(comparison.part(rows, columns) for comparison in whole)
        weights = self.whole.weights[request.columns]
        return Task(self.whole.id, self.utility, parts, weights, None, True, whole)

    def _comparison(self, i: int) -> Comparison:
        """The comparison of a part; what is joined for some texts of the list is joined for all."""
        _, part = self.whole.metric.parts[i]
        comparison = self.whole.comparisons[i]
        return lift(part, comparison)[0] if is_joined(part, comparison) else comparison

    def utilities(self, request: Request, result: Result, known: _Known) -> FloatArray:
        """The utilities [rows, columns] of a request, the parts that were known added."""
        utilities = combined_matrix(self.utility, result)
        if utilities is None:
            raise MetricError("the engine kept no matrix", where=self.whole.id)
        if known.of_parts is None:
            return utilities
        shape = known.of_parts.shape[0], len(self.whole.weights)
        of_parts = np.broadcast_to(known.of_parts, shape)
        return np.asarray(utilities + of_parts[np.ix_(request.rows, request.columns)])


def _sum(parts: tuple[Part, ...], result: Result, places: slice) -> FloatArray | None:
    """The utility matrix of some parts of a result; None without parts."""
    if not parts:
        return None
    return combined_matrix(Mix(parts), Result(result.values[places], result.matrices[places]))


@dataclass
class _Seen:
    """The utilities that were computed, and what a list's reader should know of them."""

    shape: tuple[int, int]
    flags: tuple[str, ...]
    matrix: FloatArray = field(init=False)  # [H, R], NaN where nothing was computed

    def __post_init__(self) -> None:
        self.matrix = np.full(self.shape, np.nan)

    def add(self, request: Request, utilities: FloatArray, result: Result) -> FloatArray:
        """Takes the utilities of a request and returns them."""
        self.flags += tuple(flag for flag in result.flags if flag not in self.flags)
        self.matrix[np.ix_(request.rows, request.columns)] = utilities
        return utilities

    def estimated(self, estimate: Estimate, keep_matrix: bool) -> Estimated:
        """What came of the plan; a hypothesis of whom a pair is not finite has no value, and is not given up.

        Raises:
            MetricError: no pair that was computed has a finite value.
        """
        is_finite = np.isfinite(self.matrix)
        if not is_finite.any():
            problem = f"none of the {estimate.pairs} pairs that were computed has a finite value"
            fix = "Look at the metric's model and at the texts of the list"
            raise MetricError(problem, where="budget", fix=fix)
        is_odd = (estimate.computed & ~is_finite).any(axis=1)
        values = np.where(is_odd, np.nan, estimate.values)
        given_up = np.flatnonzero(np.isnan(estimate.values) & ~is_odd)
        if not np.isfinite(values).any():  # nothing is known of any: all have their place
            given_up = given_up[:0]
        spent = Spent(
            estimate.pairs, estimate.of, estimate.confidence, estimate.regret, estimate.computed
        )
        matrix = self.matrix if keep_matrix else None
        return Estimated(values, self.flags, spent, given_up, matrix)
