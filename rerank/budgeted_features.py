"""Reranking under a budget: which candidates a costly reference-free metric reads, given what is cheap to know of all.

The same plans as for pairs, over one column: the sum of features of each text, of whose metrics some are computed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from ..metrics.errors import InputError, MetricError
from ..metrics.mixture import Utility
from ..metrics.representations import FloatArray, IntArray
from .budget.plan import Estimate, plan
from .budget.settings import Budget
from .choice import Spent
from .decider import combined_values
from .engines.interface import Result, Task


class EstimatedSums(NamedTuple):
    """Sums of features of the distinct texts [D], NaN for those given up or without a finite value."""

    values: FloatArray
    flags: tuple[str, ...]
    spent: Spent
    given_up: IntArray


def check_features(budget: Budget, metrics: tuple[Utility, ...], normalize: str) -> None:
    """Checks that a budget spares something, and that sums are known of some candidates without the others.

    Raises:
        InputError: no metric runs a model or a search, or features are normalised within their list.
    """
    if normalize != "none":
        problem = f"{normalize} needs every candidate's features"
        raise InputError(problem, where="budget", fix="Leave the budget or the normalisation out")
    parts = [part for metric in metrics for weight, part in metric.parts if weight]
    if not (budget.force or any(part.info.bucketed or part.costly_pairs for part in parts)):
        problem = "no feature is costly: none is a model's"
        fix = "Leave the budget out, or force it: --force-budget"
        raise InputError(problem, where="budget", fix=fix)


def estimated_sums(
    budget: Budget, whole: Task, known: FloatArray, cheap: FloatArray, nbest: int | None
) -> Generator[Task, Result, EstimatedSums]:
    """Sums of features from metrics on some of the texts.

    Args:
        budget: how many of them, and which.
        whole: the task of all texts under all metrics; its weights are those of the features.
        known: the sum of all other features, [D].
        cheap: what is cheap to know of the texts, [D, K].
        nbest: how many places matter; None for all that have a value, of which the first matters.

    Raises:
        MetricError: no text that was read has a finite value.
    """
    num_texts = len(known)
    steps = plan(
        budget.method,
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
    flags: tuple[str, ...] = ()
    try:
        request = next(steps)
        while True:
            result = yield _part(whole, request.rows)
            flags += tuple(flag for flag in result.flags if flag not in flags)
            computed[request.rows] = combined_values(whole.metric, result) + known[request.rows]
            request = steps.send(computed[request.rows][:, None])
    except StopIteration as end:
        estimate: Estimate = end.value
    return _estimated(estimate, computed, flags)


def _part(whole: Task, rows: IntArray) -> Task:
    """The task of some texts."""
    comparisons = tuple(comparison.part(rows.tolist(), []) for comparison in whole.comparisons)
    return whole._replace(comparisons=comparisons, whole=whole.comparisons)


def _estimated(estimate: Estimate, computed: FloatArray, flags: tuple[str, ...]) -> EstimatedSums:
    """What came of the plan."""
    if not np.isfinite(computed).any():
        problem = f"none of the {estimate.pairs} texts that were read has a finite value"
        raise MetricError(problem, where="budget", fix="Look at the metric's model and at the list")
    is_read = estimate.computed[:, 0]
    is_odd = is_read & ~np.isfinite(computed)
    # what was read is known, whatever the plan makes of it
    values = np.where(is_read, computed, estimate.values)
    given_up = np.flatnonzero(np.isnan(estimate.values) & ~is_odd)
    return EstimatedSums(np.where(is_odd, np.nan, values), flags, estimate.spent, given_up)
