"""A diverse k-best list: texts of high expected utility that are unlike each other (Jinnai et al. 2024b, DMBR).

    C* = argmax over C of k texts of  F(C) = sum over h in C of mu(h) - lambda / k  sum over h != h' in C of u(h, h')
The second sum has every pair in both directions. Utility and similarity are of one matrix and so of one scale; with
lambda = 0 it is the plain k-best list. The best set is searched for greedily, text by text, and then by swaps of a text
in the set for one outside, the best swap first, until none gains. Sums over the set are kept up to date: O(k N) a step.
"""

from __future__ import annotations

import numpy as np

from ..metrics.representations import FloatArray, IntArray
from .ties import TIE


def objective(
    values: FloatArray, similarity: FloatArray, chosen: IntArray, penalty: float
) -> float:
    """F of some texts, higher is better.

    Args:
        values: expected utilities, [N].
        similarity: u(h, h'), [N, N]; its diagonal does not count.
        chosen: which texts, [k].
        penalty: lambda.
    """
    pairs = _of_pairs(similarity)[np.ix_(chosen, chosen)]
    return float(values[chosen].sum() - penalty / len(chosen) * pairs.sum() / 2)


def diverse(values: FloatArray, similarity: FloatArray, count: int, penalty: float) -> IntArray:
    """The texts of a diverse k-best list [k], the highest expected utility first, of equal ones the lowest index.

    Texts whose expected utility or similarity to others is not finite come last, without being searched.

    Args:
        values: expected utilities, [N].
        similarity: u(h, h'), [N, N]; its diagonal does not count.
        count: k; all texts if it is more than N.
        penalty: lambda, at least 0.
    """
    pairs = _of_pairs(similarity)
    is_usable = np.isfinite(values) & np.isfinite(pairs).all(axis=1)
    usable, others = np.flatnonzero(is_usable), np.flatnonzero(~is_usable)
    size = min(count, len(usable))
    costs = penalty / max(size, 1) * pairs[np.ix_(usable, usable)]
    chosen = _swapped(values[usable], costs, _greedy(values[usable], costs, size))
    best_first = np.lexsort((usable[chosen], -values[usable[chosen]]))
    return np.concatenate([usable[chosen][best_first], others])[:count]


def _of_pairs(similarity: FloatArray) -> FloatArray:
    """The similarity of every two texts in both directions, 0 of a text with itself, [N, N]."""
    both = similarity + similarity.T
    np.fill_diagonal(both, 0.0)
    return both


def _greedy(values: FloatArray, costs: FloatArray, count: int) -> IntArray:
    """Texts [count], each the one that adds most to F of those before."""
    gains = values.copy()
    chosen = []
    for _ in range(count):
        best = int(np.argmax(gains))
        chosen.append(best)
        gains -= costs[best]
        gains[best] = -np.inf
    return np.array(chosen, np.int64)


def _swapped(values: FloatArray, costs: FloatArray, chosen: IntArray) -> IntArray:
    """The texts after the swaps that add most to F; a gain within rounding is none, so that the search ends."""
    if not 0 < len(chosen) < len(values):
        return chosen
    of_set = costs[:, chosen].sum(axis=1)  # what each text shares with the set
    scale = float(np.abs(values).max() + np.abs(of_set).max())
    while True:
        outside = np.setdiff1d(np.arange(len(values)), chosen)
        entering = values[outside] - of_set[outside]
        leaving = values[chosen] - of_set[chosen]
        # the entering text no longer shares anything with the one that leaves
        gains = entering - leaving[:, None] + costs[np.ix_(chosen, outside)]
        place, number = np.unravel_index(int(np.argmax(gains)), gains.shape)
        if gains[place, number] <= TIE * scale:
            return chosen
        old, new = chosen[place], outside[number]
        of_set += costs[:, new] - costs[:, old]
        chosen = np.sort(np.append(np.delete(chosen, place), new))
