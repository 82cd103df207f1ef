"""Candidates that may still be the best, compared with the same pseudo-references, beside a cheap utility of all pairs.

1. A pilot compares some candidates, most of them good ones by the cheap utility, with a few pseudo-references.
2. `posterior` regresses the costly utility on the cheap one and gives every expected utility a mean and an error, also
   where nothing was computed.
3. Draws from it say how often each candidate is among the best. Those that hold most of this probability are compared
   with further pseudo-references, the same for all: what these have in common cancels.
4. From 2 again, until the confidence wanted is reached or the budget is used up. The best by posterior mean is chosen.

`representative_order` puts pseudo-references in an order in which the first ones, whatever their number, represent all.
"""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Observed
from .posterior import posterior
from .references import representative_order
from .regressors import regressors_of
from .requests import Asking, BoolArray, Search
from .statement import CALIBRATION, leaders, possible, state_of

DRAWS = 400
PILOT = 0.3  # share of the budget
PILOT_REFERENCES = 2  # at most
FIRST_SCORES = 3  # where a pair is a whole row
STEP = 0.2  # share of what is left that each further step takes,
MIN_STEP = 0.1  # and the least share of the budget
HELD = 0.8  # share of the probability of being best that the compared candidates hold
WIDER = (1, 2, 4, 8)  # times the errors


def adaptive(observed: Observed) -> Search:
    """The posterior means [H] of the expected utilities."""
    problem = observed.problem
    features = regressors_of(problem)
    order = representative_order(problem, features)
    levels = np.zeros(problem.num_rows, np.int64)
    yield from _raise(observed, order, levels, *_pilot(observed, len(order)))
    if not observed.known.any():
        return np.full(problem.num_rows, np.nan)
    known = posterior(observed, features)
    while observed.left > 0:
        draws = possible(known.draws(DRAWS), observed.broken)
        chosen = leaders(np.where(observed.broken, -np.inf, known.mean), problem.nbest)
        statement = CALIBRATION.applied(state_of(draws, chosen), observed.pairs, DRAWS)
        wanted = problem.confidence
        if wanted is not None and statement.confidence >= wanted:
            break
        rows = _contenders(draws, known.mean, problem.nbest, levels < len(order))
        if not len(rows):
            break
        cost = int(max(STEP * observed.left, MIN_STEP * problem.pairs, len(rows)))
        rows, level = _affordable(levels, rows, min(cost, observed.left), len(order))
        yield from _raise(observed, order, levels, rows, level)
        known = posterior(observed, features, known.variances, 2)
    return _choosable(observed, known.mean)


def _choosable(observed: Observed, mean: FloatArray) -> FloatArray:
    """The means; where a pair is a whole row, only of hypotheses that were scored, if there are enough of them."""
    is_scored = observed.known.any(axis=1)
    if observed.seen.shape[1] > 1 or is_scored.sum() < observed.problem.nbest:
        return mean
    return np.where(is_scored, mean, np.nan)


def _pilot(observed: Observed, num_columns: int) -> tuple[IntArray, int]:
    """Which rows are compared first, and with how many references."""
    problem = observed.problem
    num_rows = problem.num_rows
    spent = max(1, int(PILOT * problem.pairs))
    level = max(1, min(PILOT_REFERENCES, num_columns, spent // min(8, num_rows)))
    if num_columns == 1:  # whole rows: the likeliest first
        return np.arange(min(num_rows, max(spent, FIRST_SCORES), problem.pairs)), 1
    count = max(1, min(num_rows, spent // level))
    return _spread(num_rows, count), level


def _spread(num_rows: int, count: int) -> IntArray:
    """Rows of which half are the first ones and half are spread over the others."""
    first = -(-count // 2)
    others = np.linspace(first, num_rows - 1, count - first).round().astype(np.int64)
    return np.unique(np.concatenate([np.arange(first), others]))


def _contenders(draws: FloatArray, mean: FloatArray, nbest: int, is_open: BoolArray) -> IntArray:
    """The open rows that hold most of the probability of being among the best, most probable first.

    Where none has any, errors count for more, in case they are larger than they seem.
    """
    for wider in WIDER:
        counts = np.where(is_open, _among_best(mean + wider * (draws - mean), nbest), 0)
        if counts.any():
            break
    order = np.argsort(-counts, kind="stable")
    held = np.cumsum(counts[order])
    count = max(nbest + 1, int(np.searchsorted(held, HELD * held[-1])) + 1)
    rows: IntArray = order[:count]
    return rows[counts[rows] > 0]


def _among_best(draws: FloatArray, nbest: int) -> IntArray:
    """In how many draws [n, H] each hypothesis is among the best, [H]."""
    tops = np.argpartition(-draws, nbest - 1, axis=1)[:, :nbest]
    return np.bincount(tops.ravel(), minlength=draws.shape[1])


def _affordable(
    levels: IntArray, rows: IntArray, cost: int, num_columns: int
) -> tuple[IntArray, int]:
    """The most rows and the highest level that so many pairs pay for."""

    def price(level: int) -> int:
        return int(np.maximum(0, level - levels[rows]).sum())

    level = int(levels[rows].min()) + 1
    if price(level) > cost:
        lowest = rows[levels[rows] < level]
        return lowest[:cost], level
    while level < num_columns and price(level + 1) <= cost:
        level += 1
    return rows, level


def _raise(
    observed: Observed, order: IntArray, levels: IntArray, rows: IntArray, level: int
) -> Asking:
    """Has rows compared with the first `level` references, as far as they were not."""
    rows = np.sort(rows)
    for begun in np.unique(levels[rows]).tolist():
        if begun < level:
            same = rows[levels[rows] == begun]
            yield from observed.ask(same, np.sort(order[begun:level]))
    levels[rows] = np.maximum(levels[rows], level)
