"""Correlations of two rows of numbers, and the tails of their tests, by their textbook definitions.

    pearson  = sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)
    spearman = pearson of ranks, equal values at their mean rank
    tau_b    = (C - D) / sqrt((P - X)(P - Y))

With C and D pairs of points in the same and in the other order, P all of them, X and Y those tied in x and in y.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, pi, sin, sqrt
from typing import Any

import numpy as np

from ...metrics.errors import InputError
from ...metrics.optional_packages import imported
from ...metrics.representations import FloatArray, IntArray


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's correlation; None for fewer than two points or where one side does not vary."""
    if not _varies(x, y):
        return None
    return _pearson(np.asarray(x, np.float64), np.asarray(y, np.float64))


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None as `pearson`."""
    if not _varies(x, y):
        return None
    return _pearson(mean_ranks(x), mean_ranks(y))


def tau_b(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b of all pairs of points in O(n log^2 n); None as `pearson`."""
    if not _varies(x, y):
        return None
    _, ranks_of_x = np.unique(np.asarray(x, np.float64), return_inverse=True)
    _, ranks_of_y = np.unique(np.asarray(y, np.float64), return_inverse=True)
    n = len(ranks_of_x)
    pairs = n * (n - 1) // 2
    tied_in_x = _equal_pairs(ranks_of_x)
    tied_in_y = _equal_pairs(ranks_of_y)
    tied_in_both = _equal_pairs(ranks_of_x * n + ranks_of_y)
    # in the order of x, and of y where x is equal, the pairs in the other order are y's inversions
    order = np.lexsort((ranks_of_y, ranks_of_x))
    discordant = _inversions(ranks_of_y[order])
    ordered = pairs - tied_in_x - tied_in_y + tied_in_both
    return (ordered - 2 * discordant) / sqrt((pairs - tied_in_x) * (pairs - tied_in_y))


def mean_ranks(values: Sequence[float]) -> FloatArray:
    """Ranks [n] from 1, equal values at the mean of theirs.

    >>> mean_ranks([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means = last - (counts - 1) / 2
    return np.asarray(means[inverse], np.float64)


def two_sided_t(t: float, degrees: int) -> float:
    """The probability of a t at least as far from 0 under Student's distribution with `degrees` >= 1 of freedom.

    The finite sums for whole degrees (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), exact to about 1e-15.

    >>> round(two_sided_t(2.0, 10), 6)
    0.073388
    """
    angle = atan2(abs(t), sqrt(degrees))
    square = cos(angle) ** 2
    is_odd = degrees % 2
    # the terms that follow the first, each a multiple of the one before
    term = cos(angle) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for factor in range(3 if is_odd else 2, degrees - 1, 2):
        term *= square * (factor - 1) / factor
        total += term
    inside = 2 / pi * (angle + sin(angle) * total) if is_odd else sin(angle) * total
    return max(1 - inside, 0.0)


def false_discovery_control(p: FloatArray) -> FloatArray:
    """p-values [m] raised so that those below a level hold that share of false ones (Benjamini and Hochberg 1995).

    >>> false_discovery_control(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p, kind="stable")
    ascending = p[order] * len(p) / np.arange(1, len(p) + 1)
    # a smaller p is never raised above a larger one
    lowered = np.minimum.accumulate(ascending[::-1])[::-1]
    raised = np.empty(len(p))
    raised[order] = np.minimum(lowered, 1)
    return raised


def scipy_stats() -> Any:
    """scipy.stats, for what is not defined here.

    Raises:
        ModelLoadError: scipy is not installed.
    """
    return imported("scipy.stats", "statistics")


def _varies(x: Sequence[float], y: Sequence[float]) -> bool:
    """Whether a correlation is defined; raises InputError for rows of unequal length."""
    if len(x) != len(y):
        problem = f"{len(x)} and {len(y)} values"
        raise InputError(problem, where="correlation", fix="Give pairs of values")
    return len(x) >= 2 and len(set(x)) >= 2 and len(set(y)) >= 2


def _pearson(x: FloatArray, y: FloatArray) -> float:
    """Of rows [n] that vary."""
    apart_x = x - x.mean()
    apart_y = y - y.mean()
    # lengths of 1, so that no square over- or underflows
    apart_x /= np.abs(apart_x).max()
    apart_y /= np.abs(apart_y).max()
    cosine = apart_x @ apart_y / (np.linalg.norm(apart_x) * np.linalg.norm(apart_y))
    return float(np.clip(cosine, -1, 1))


def _equal_pairs(ranks: IntArray) -> int:
    """Pairs of equal values."""
    _, counts = np.unique(ranks, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(ranks: IntArray) -> int:
    """Pairs i < j with ranks[i] > ranks[j]: each is counted at the highest bit where the two differ."""
    total = 0
    for bit in range(int(ranks.max()).bit_length()):
        # those with the same higher bits stand together, in the order given
        higher = ranks >> (bit + 1)
        order = np.argsort(higher, kind="stable")
        has_bit = (ranks[order] >> bit) & 1
        starts = np.searchsorted(higher[order], higher[order])
        # for each without the bit, those of its group before it that have it
        before = np.cumsum(has_bit) - has_bit
        total += int(((before - before[starts]) * (1 - has_bit)).sum())
    return total
