"""One list under a budget: what a plan asks for becomes tasks of an engine, and its estimate expected utilities.

First the cheap utility and those parts of the utility whose pairs cost next to nothing are computed for all pairs, then
block by block what the plan asks for of the others. A budget of all pairs is one task, that of no budget.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import MetricError
from ...metrics.execution.evaluate import is_joined, is_square, lift
from ...metrics.mixture import Mix, Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison
from ..choice import Expected, Spent, with_flags
from ..engines.expectation import combined_matrix, combined_values
from ..engines.interface import Result, Task
from ..engines.local import NOT_FINITE
from .plan import Estimate, num_pairs, plan
from .posterior import Request
from .settings import Budget, asked_parts, two_texts_are_one_pair

Part = tuple[float, Metric]


def estimated(
    budget: Budget,
    whole: Task,
    cheap: Task,
    flags: tuple[str, ...],
    nbest: int | None,
    square: bool,
) -> Generator[Task, Result, Expected]:
    """Expected utilities of a list from some of its pairs.

    Args:
        budget: how many, and which.
        whole: the task of all pairs.
        cheap: that of the cheap utility.
        flags: what the list's reader should know already.
        nbest: how many places matter; None for all that have an estimate, of which the first matters.
        square: whether the pseudo-references are the hypotheses.

    Raises:
        MetricError: the cheap utility of a pair, or every pair that was computed, is not finite.
    """
    num_rows, num_columns = len(whole.comparisons[0].hypotheses), len(whole.weights)
    problem = _Problem.of(whole, budget.force)
    one_pair = two_texts_are_one_pair(whole.metric, budget.force)
    is_symmetric = square and one_pair and problem.is_square
    size = num_pairs(num_rows, num_columns, is_symmetric)
    pairs = budget.pairs(size)
    if pairs >= size:
        return (yield from _exact(whole, flags, size))
    known = yield from problem.known(cheap)
    steps = plan(
        whole.weights,
        num_rows,
        whole.own,
        known.cheap,
        pairs=pairs,
        target=budget.target,
        nbest=nbest if nbest is not None and nbest < num_rows else 1,
        square=square,
        symmetric=is_symmetric,
        addend=known.of_parts,
    )
    flags = with_flags(flags, known.flags)
    try:
        request = next(steps)
        while True:
            result = yield problem.task(request)
            flags = with_flags(flags, result.flags)
            request = steps.send(problem.utilities(result))
    except StopIteration as end:
        estimate: Estimate = end.value
    return _estimated(estimate, flags, whole.keep_matrix)


def _exact(whole: Task, flags: tuple[str, ...], size: int) -> Generator[Task, Result, Expected]:
    """All pairs, as without a budget."""
    result = yield whole
    values = combined_values(whole.metric, result)
    matrix = combined_matrix(whole.metric, result)
    shape = len(values), len(whole.weights)
    spent = Spent.everything(values, size, np.ones(shape, bool))
    return Expected(values, with_flags(flags, result.flags), matrix, spent)


class _Known(NamedTuple):
    """Values of all pairs: cheap utilities, and the sum of the parts that cost next to nothing."""

    cheap: FloatArray  # [K, H, R], each part of the cheap utility by itself
    of_parts: FloatArray | None  # [H, R]
    flags: tuple[str, ...]


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
        """The problem of a task."""
        asked = asked_parts(whole.metric, force)
        counting = [i for i, (weight, _) in enumerate(whole.metric.parts) if weight]
        other = tuple(i for i in counting if i not in asked)
        return cls(whole, tuple(asked), other)

    @property
    def utility(self) -> Utility:
        """The pairs that the plan asks for."""
        return Mix(tuple(self.whole.metric.parts[i] for i in self.asked))

    def known(self, cheap: Task) -> Generator[Task, Result, _Known]:
        """The cheap utility and the parts that are not asked for, of all pairs, in one task."""
        own_parts = tuple(self.whole.metric.parts[i] for i in self.other)
        own_comparisons = tuple(self.whole.comparisons[i] for i in self.other)
        parts, comparisons = own_parts + cheap.metric.parts, own_comparisons + cheap.comparisons
        task = Task(self.whole.id, Mix(parts), comparisons, self.whole.weights, None, True)
        result = yield task
        matrices = [self._part(part, i, result) for i, part in enumerate(parts)]
        of_cheap = matrices[len(own_parts) :]
        for part, matrix in zip(cheap.metric.parts, of_cheap, strict=True):
            if not np.isfinite(matrix).all():
                fix = "Name another as cheap utility"
                signature = part[1].signature()
                raise MetricError("a cheap utility that is not finite", where=signature, fix=fix)
        flags = tuple(flag for flag in result.flags if own_parts and flag != NOT_FINITE)
        return _Known(
            np.stack(of_cheap),
            sum(matrices[1 : len(own_parts)], matrices[0]) if own_parts else None,
            flags,
        )

    def _part(self, part: Part, i: int, result: Result) -> FloatArray:
        """The weighted utilities of a part of a result, [H, R]; one without references says the same of all."""
        matrix = combined_matrix(Mix((part,)), Result(result.values[[i]], (result.matrices[i],)))
        if matrix is None:
            raise MetricError("the engine kept no matrix", where=self.whole.id)
        return np.broadcast_to(matrix, (len(matrix), len(self.whole.weights)))

    @property
    def is_square(self) -> bool:
        """Whether hypotheses are the references, each read in one way."""
        comparisons = [self._comparison(i) for i in self.asked]
        parts = [self.whole.metric.parts[i][1] for i in self.asked]
        return all(map(is_square, parts, comparisons))

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

    def utilities(self, result: Result) -> FloatArray:
        """The values that the plan asked for, [rows, columns]."""
        utilities = combined_matrix(self.utility, result)
        if utilities is None:
            raise MetricError("the engine kept no matrix", where=self.whole.id)
        return utilities


def _estimated(estimate: Estimate, flags: tuple[str, ...], keep_matrix: bool) -> Expected:
    """The outcome of the plan.

    Raises:
        MetricError: no pair that was computed has a finite value.
    """
    if not np.isfinite(estimate.utilities).any():
        problem = f"none of the {estimate.spent.pairs} pairs that were computed has a finite value"
        fix = "Look at the metric's model and at the texts of the list"
        raise MetricError(problem, where="budget", fix=fix)
    kept = estimate.utilities if keep_matrix else None
    return Expected(estimate.values, flags, kept, estimate.spent)
