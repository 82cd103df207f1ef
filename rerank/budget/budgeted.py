"""One list under a budget: what a plan asks for becomes tasks of an engine, and its estimate expected utilities.

First the cheap utility and those parts of the utility whose pairs cost next to nothing are computed for all pairs, then
block by block what the plan asks for of the others. A budget of all pairs is one task, that of no budget.

Reranking goes by the same plans over one column: the sum of features of each text, of whose costly metrics some are
computed, given what is cheap to know of all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError, MetricError
from ...metrics.execution.evaluate import is_joined, is_square, lift
from ...metrics.mixture import Mix, Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison
from ..choice import Expected, Spent, with_flags
from ..engines.expectation import combined_matrix, combined_values
from ..engines.interface import Result, Task
from ..engines.local import NOT_FINITE
from .plan import Estimate, Plan, num_pairs, plan
from .posterior import Request
from .settings import Budget, asked_parts, two_texts_are_one_pair

Part = tuple[float, Metric]


def estimated(
    budget: Budget,
    whole: Task,
    cheap: Task | None,
    flags: tuple[str, ...],
    nbest: int | None,
    square: bool,
) -> Generator[Task, Result, Expected]:
    """Expected utilities of a list from some of its pairs, NaN for hypotheses that were given up.

    Args:
        budget: how many, and which.
        whole: the task of all pairs.
        cheap: that of the cheap utility, if there is one.
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
        seed=budget.seed,
        square=square,
        symmetric=is_symmetric,
        addend=known.of_parts,
    )
    flags = with_flags(flags, known.flags)
    estimate, flags = yield from _driven(
        steps, problem.task, lambda request, result: problem.utilities(result), flags
    )
    return _estimated(estimate, flags, whole.keep_matrix)


def _driven(
    steps: Plan,
    task_of: Callable[[Request], Task],
    utilities_of: Callable[[Request, Result], FloatArray],
    flags: tuple[str, ...],
) -> Generator[Task, Result, tuple[Estimate, tuple[str, ...]]]:
    """The estimate of a plan whose requests are tasks, and the flags with those of the results."""
    try:
        request = next(steps)
        while True:
            result = yield task_of(request)
            flags = with_flags(flags, result.flags)
            request = steps.send(utilities_of(request, result))
    except StopIteration as end:
        return end.value, flags


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

    cheap: FloatArray | None = None  # [K, H, R], each part of the cheap utility by itself
    of_parts: FloatArray | None = None  # [H, R]
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
        """The problem of a task."""
        asked = asked_parts(whole.metric, force)
        counting = [i for i, (weight, _) in enumerate(whole.metric.parts) if weight]
        other = tuple(i for i in counting if i not in asked)
        return cls(whole, tuple(asked), other)

    @property
    def utility(self) -> Utility:
        """The pairs that the plan asks for."""
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
        matrices = [self._part(part, i, result) for i, part in enumerate(parts)]
        of_cheap = matrices[len(own_parts) :]
        for part, matrix in zip(cheap_parts, of_cheap, strict=True):
            if not np.isfinite(matrix).all():
                fix = "Name another as cheap utility, or none"
                signature = part[1].signature()
                raise MetricError("a cheap utility that is not finite", where=signature, fix=fix)
        flags = tuple(flag for flag in result.flags if own_parts and flag != NOT_FINITE)
        return _Known(
            np.stack(of_cheap) if of_cheap else None,
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
    """The outcome of the plan; a hypothesis of whom a pair is not finite has no value, and is not given up.

    Raises:
        MetricError: no pair that was computed has a finite value.
    """
    is_finite = np.isfinite(estimate.utilities)
    if not is_finite.any():
        problem = f"none of the {estimate.spent.pairs} pairs that were computed has a finite value"
        fix = "Look at the metric's model and at the texts of the list"
        raise MetricError(problem, where="budget", fix=fix)
    is_odd = (estimate.spent.computed & ~is_finite).any(axis=1)
    values = np.where(is_odd, np.nan, estimate.values)
    given_up = np.flatnonzero(np.isnan(estimate.values) & ~is_odd)
    if not np.isfinite(values).any():  # nothing is known of any: all have their place
        given_up = given_up[:0]
    kept = estimate.utilities if keep_matrix else None
    return Expected(values, flags, kept, estimate.spent, given_up.tolist())


def check_features(budget: Budget, metrics: tuple[Utility, ...]) -> None:
    """Checks that a budget spares something, and that sums are known of some candidates without the others.

    Raises:
        InputError: no metric runs a model or a search, or features are normalised within their list.
    """
    parts = [part for metric in metrics for weight, part in metric.parts if weight]
    if not (budget.force or any(part.info.bucketed or part.costly_pairs for part in parts)):
        problem = "no feature is costly: none is a model's"
        fix = "Leave the budget out, or force it: --force-budget"
        raise InputError(problem, where="budget", fix=fix)


def estimated_sums(
    budget: Budget,
    whole: Task,
    known: FloatArray,
    cheap: FloatArray,
    flags: tuple[str, ...],
    nbest: int | None,
) -> Generator[Task, Result, Expected]:
    """Sums of features [D] from metrics on some of the texts; NaN for those given up or without a finite value.

    Args:
        budget: how many of them, and which.
        whole: the task of all texts under all metrics; its weights are those of the features.
        known: the sum of all other features, [D].
        cheap: what is cheap to know of the texts, [D, K].
        flags: what the list's reader should know already.
        nbest: how many places matter; None for all that have a value, of which the first matters.

    Raises:
        MetricError: no text that was read has a finite value.
    """
    num_texts = len(known)
    steps = plan(
        np.ones(1),
        num_texts,
        None,
        cheap.T[:, :, None],
        pairs=budget.pairs(num_texts),
        target=budget.target,
        nbest=nbest if nbest is not None and nbest < num_texts else 1,
        seed=budget.seed,
    )
    computed = np.full(num_texts, np.nan)

    def task(request: Request) -> Task:
        rows = request.rows.tolist()
        comparisons = tuple(comparison.part(rows, []) for comparison in whole.comparisons)
        return whole._replace(comparisons=comparisons, whole=whole.comparisons)

    def sums(request: Request, result: Result) -> FloatArray:
        computed[request.rows] = combined_values(whole.metric, result) + known[request.rows]
        return computed[request.rows][:, None]

    estimate, flags = yield from _driven(steps, task, sums, flags)
    if not np.isfinite(computed).any():
        problem = f"none of the {estimate.spent.pairs} texts that were read has a finite value"
        raise MetricError(problem, where="budget", fix="Look at the metric's model and at the list")
    is_read = estimate.spent.computed[:, 0]
    is_odd = is_read & ~np.isfinite(computed)
    # what was read is known, whatever the plan makes of it
    values = np.where(is_read, computed, estimate.values)
    given_up = np.flatnonzero(np.isnan(estimate.values) & ~is_odd)
    values = np.where(is_odd, np.nan, values)
    return Expected(values, flags, None, estimate.spent, given_up.tolist())
