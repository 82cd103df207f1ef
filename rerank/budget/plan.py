"""Plans: which pairs of a utility matrix are computed under a budget.

    mu(h) = sum_r w(r) u(h, r) / sum_r w(r)
is estimated from a part of the pairs. A plan is a generator: it yields a `Request`, is sent the utilities [rows,
columns] of that block, higher is better, and returns an `Estimate` when it needs no more or its budget is used up. It
never asks for a pair twice.

The search works in an order of rows and columns that does not depend on that of the list, so that the same texts
in another order get the same draws, the same ties and the same sums. Rows stand by their mean cheap utility, columns by
theirs, best first, then by all their sorted cheap utilities and by their weights. Where two rows have all alike, the
order of the list decides.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from ..choice import Spent
from ..engines.expectation import NO_WEIGHT
from .posterior import Observed, Problem, Request
from .searches import adaptive, state
from .statement import Target


class Estimate(NamedTuple):
    """Expected utilities of a list, and what is known of them.

    Args:
        values: estimated expected utilities [H], higher is better; NaN for hypotheses that were given up.
        spent: how many pairs were computed and which, and the statement on the choice.
        utilities: what was computed, NaN elsewhere, [H, R].
    """

    values: FloatArray
    spent: Spent
    utilities: FloatArray


Plan = Generator[Request, FloatArray, Estimate]


def plan(
    weights: FloatArray,
    num_hypotheses: int,
    own: FloatArray | None,
    prior: FloatArray,
    *,
    pairs: int,
    target: Target | None = None,
    nbest: int = 1,
    square: bool = False,
    symmetric: bool = False,
    addend: FloatArray | None = None,
) -> Plan:
    """A plan for one list.

    Args:
        weights: of pseudo-references, [R], any positive scale; one of weight 0 is not asked for.
        num_hypotheses: H.
        own: the weight of one copy of each hypothesis as its own pseudo-reference, which is left out, [H]; column i is
            then hypothesis i.
        prior: cheap utilities of the same pairs, K kinds, higher is better, [K, H, R].
        pairs: the budget, at least 1; no plan asks for more.
        target: stop as soon as the statement meets it; None to use the whole budget.
        nbest: how many places of the ranking matter.
        square: whether column i is hypothesis i, also without `own`.
        symmetric: whether what is asked for is the same of (h, r) and (r, h), so that two texts are one pair; `square`
            must hold.
        addend: what is known of all utilities and added to what is asked for, [H, R]; None for nothing.
    """
    of = num_pairs(num_hypotheses, len(weights), symmetric)
    order = canonical_order(prior, weights, own)
    block = np.ix_(order.rows, order.columns)
    problem = Problem(
        _shares(weights, num_hypotheses, own)[block],
        prior[:, order.rows[:, None], order.columns],
        _selves(order, square or own is not None),
        pairs,
        target or Target(),
        min(nbest, num_hypotheses),
        symmetric,
        None if addend is None else addend[block],
    )
    return _restored(problem, order, of)


def num_pairs(num_hypotheses: int, num_references: int, symmetric: bool) -> int:
    """How many pairs there are; of a symmetric utility, two texts are one, and every text is one with itself."""
    if symmetric:
        return num_hypotheses * (num_hypotheses + 1) // 2
    return num_hypotheses * num_references


def _restored(problem: Problem, order: CanonicalOrder, of: int) -> Plan:
    """The search in canonical order, whose requests and results are in the list's own."""
    observed = Observed(problem)
    search = adaptive(observed)
    try:
        request = next(search)
        while True:
            utilities = yield Request(order.rows[request.rows], order.columns[request.columns])
            request = search.send(utilities)
    except StopIteration as end:
        values, evidence, stopped = end.value
    values[observed.broken] = np.nan
    statement = state(observed, evidence, stopped)
    in_list = np.empty_like(values)
    in_list[order.rows] = values
    block = np.ix_(order.rows, order.columns)
    utilities, seen = np.empty_like(observed.utilities), np.empty_like(observed.seen)
    utilities[block], seen[block] = observed.utilities, observed.seen
    return Estimate(in_list, Spent(observed.pairs, of, *statement, seen), utilities)


def _shares(weights: FloatArray, num_rows: int, own: FloatArray | None) -> FloatArray:
    """How much each pseudo-reference counts for each hypothesis, [H, R]; rows sum to 1, or to 0."""
    # a sum of sorted numbers is the same in every order of the list
    total = np.sort(weights).sum()
    shares = np.tile(weights / total, (num_rows, 1))
    if own is None:
        return shares
    rows = np.arange(num_rows)
    shares[rows, rows] -= own / total
    shares[shares < NO_WEIGHT] = 0.0
    remaining = (1 - own / total)[:, None]
    return shares / np.where(remaining > NO_WEIGHT, remaining, 1.0)


def _selves(order: CanonicalOrder, square: bool) -> IntArray:
    """The place of each row's own column, [H]; -1 where columns are other texts."""
    if not square:
        return np.full(len(order.rows), -1)
    place = np.empty(len(order.columns), np.int64)
    place[order.columns] = np.arange(len(order.columns))
    return place[order.rows]


class CanonicalOrder(NamedTuple):
    """Which row and column of the list stands in each place."""

    rows: IntArray  # [H]
    columns: IntArray  # [R]


def canonical_order(
    prior: FloatArray, weights: FloatArray, own: FloatArray | None
) -> CanonicalOrder:
    """The order of a list; `prior` is [K, H, R]."""
    overall = _of_one_scale(prior).sum(axis=0)
    return CanonicalOrder(_by_contents(overall, own), _by_contents(overall.T, weights))


def _of_one_scale(prior: FloatArray) -> FloatArray:
    """Cheap utilities [K, H, R] in units of their deviations, to the same bit in every order of H and R."""
    deviations = np.sort(prior.reshape(len(prior), -1), axis=1).std(axis=1)
    return prior / np.where(deviations > 0, deviations, 1.0)[:, None, None]


def _by_contents(vectors: FloatArray, weights: FloatArray | None) -> IntArray:
    """An order of vectors [n, d] that no order of their elements changes."""
    contents = -np.sort(vectors, axis=1)
    # sums of sorted numbers are the same to the last bit
    keys = [contents.sum(axis=1), *contents.T[::-1]]
    if weights is not None:
        keys.insert(0, -weights)
    # lexsort takes the most important key last
    return np.asarray(np.lexsort([*keys[:0:-1], keys[0]]), np.int64)
