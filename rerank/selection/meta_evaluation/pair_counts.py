"""Counts of the pairs of a row that people and a metric order alike, and the coefficients made of them.

With C concordant and D discordant pairs, H tied by people only, M by the metric only, B by both, of n in all:
    agreement = acc23 = (C + B) / n     tau23 = (C + B - D - H - M) / n     (Deutsch et al. 2023)
Ties are exact; the metric also ties what differs by at most epsilon. KendallLike takes pairs that people put at least
a threshold apart: concordant if strictly in the same order, discordant otherwise, (C - D) / (C + D). At threshold 0
people's ties pass too, and count as discordant; it is none of the taus of WMT 2012 to 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ....metrics.representations import FloatArray

_BLOCK_CELLS = 1 << 20  # pairs of a row at once


class OrderCounts(NamedTuple):
    """Pairs of one row."""

    concordant: int
    discordant: int
    human_ties: int  # tied by people only
    metric_ties: int  # tied by the metric only
    both_ties: int

    @property
    def pairs(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def agreed(self) -> int:
        """Those that both order alike, ties included."""
        return self.concordant + self.both_ties

    def acc23(self) -> float:
        """The share of pairs that both order alike; nan without pairs."""
        return self.agreed / self.pairs if self.pairs else float("nan")

    def tau23(self) -> float:
        """2 acc23 - 1; nan without pairs."""
        return (2 * self.agreed - self.pairs) / self.pairs if self.pairs else float("nan")


def pair_counts(human: FloatArray, metric: FloatArray, epsilon: float = 0.0) -> OrderCounts:
    """The counts of a row, both [n].

    >>> pair_counts(np.array([1.0, 2, 2]), np.array([5.0, 5, 7]))
    OrderCounts(concordant=1, discordant=0, human_ties=1, metric_ties=1, both_ties=0)
    """
    counts = np.zeros(5, np.int64)
    for by_human, by_metric in _differences(human, metric):
        human_tied = by_human == 0
        metric_tied = np.abs(by_metric) <= epsilon
        both_ordered = ~human_tied & ~metric_tied
        alike = both_ordered & ((by_human > 0) == (by_metric > 0))
        num_alike = np.count_nonzero(alike)
        counts += (
            num_alike,
            np.count_nonzero(both_ordered) - num_alike,
            np.count_nonzero(human_tied & ~metric_tied),
            np.count_nonzero(~human_tied & metric_tied),
            np.count_nonzero(human_tied & metric_tied),
        )
    return OrderCounts(*counts.tolist())


def kendall_like(
    human: FloatArray, metric: FloatArray, threshold: float = 0.0
) -> tuple[float, int]:
    """KendallLike of a row, both [n], nan without pairs; and how many pairs count.

    >>> kendall_like(np.array([1.0, 2, 2]), np.array([5.0, 6, 7]))
    (0.3333333333333333, 3)
    """
    concordant = total = 0
    for by_human, by_metric in _differences(human, metric):
        apart = np.abs(by_human) >= threshold
        concordant += int(np.count_nonzero(apart & (by_human * by_metric > 0)))
        total += int(np.count_nonzero(apart))
    return ((2 * concordant - total) / total if total else float("nan")), total


def _differences(human: FloatArray, metric: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Differences of all pairs i < j of a row, some i at a time."""
    n = len(human)
    step = max(1, _BLOCK_CELLS // max(1, n))
    for start in range(0, n, step):
        stop = min(start + step, n)
        # pairs (i, j) of the block with j > i
        i, j = np.triu_indices(stop - start, 1, n - start)
        yield human[start + i] - human[start + j], metric[start + i] - metric[start + j]
