"""Pairs of texts that people and a metric scored: their differences, accuracy with ties, and the calibration of ties.

Pairs stand in groups (the systems of one segment, the segments of one system, or all texts together). Accuracy is the
share of pairs with the same sign, averaged over groups; a metric ties what differs by at most epsilon (Deutsch et al.
2023, acc23, with tau23 = 2 acc23 - 1). Calibration takes the epsilon of the highest accuracy, one for all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, IntArray
from ..choice import ROUNDING

MAX_PAIRS = 1 << 24  # held at once


class PairDifferences(NamedTuple):
    """Differences of the scores of pairs that both sides scored; [pairs]."""

    metric: FloatArray
    human: FloatArray
    group: IntArray  # number of the group of each pair

    @classmethod
    def within_segments(cls, metric: FloatArray, human: FloatArray) -> PairDifferences:
        """Those of all pairs of systems on a segment, from scores [S, n] with nan where one is missing."""
        a, b = np.triu_indices(len(metric), 1)
        by_metric = metric[a] - metric[b]  # [pairs of systems, n]
        by_human = human[a] - human[b]
        is_missing = np.isnan(by_metric) | np.isnan(by_human)
        pair, segment = np.nonzero(~is_missing)
        return cls(by_metric[pair, segment], by_human[pair, segment], segment)

    @classmethod
    def within_rows(cls, rows: Sequence[tuple[FloatArray, FloatArray]]) -> PairDifferences:
        """Those of all pairs within rows of (human [n], metric [n]) scores, none of them missing.

        Raises:
            InputError: there are more than `MAX_PAIRS`.
        """
        total = sum(len(human) * (len(human) - 1) // 2 for human, _ in rows)
        if total > MAX_PAIRS:
            raise InputError(
                f"{total} pairs, at most {MAX_PAIRS} are compared",
                where="ties",
                fix="Average over segments or systems instead of taking all texts together",
            )
        metric, human, group = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, np.int64)]
        for number, (by_human, by_metric) in enumerate(rows):
            a, b = np.triu_indices(len(by_human), 1)
            metric.append(by_metric[a] - by_metric[b])
            human.append(by_human[a] - by_human[b])
            group.append(np.full(len(a), number))
        return cls(np.concatenate(metric), np.concatenate(human), np.concatenate(group))

    def sampled(self, rate: float, random: np.random.Generator) -> PairDifferences:
        """Each pair with this probability."""
        kept = random.random(len(self.group)) < rate
        return PairDifferences(self.metric[kept], self.human[kept], self.group[kept])

    def weights(self) -> FloatArray:
        """1 / (pairs of the group * groups with pairs), of every pair."""
        counts = np.bincount(self.group)
        return np.asarray(1 / (counts[self.group] * np.count_nonzero(counts)))

    def accuracy(self, epsilon: float = 0.0) -> float | None:
        """Accuracy where metric scores at most `epsilon` apart are tied; None without pairs."""
        if not len(self.metric):
            return None
        return float(self.right(epsilon) @ self.weights())

    def right(self, epsilon: float = 0.0) -> NDArray[np.bool_]:
        """Whether the metric orders or ties each pair as people do, where it ties what differs by at most `epsilon`."""
        is_tied = np.abs(self.metric) <= epsilon
        signs = np.where(is_tied, 0, np.sign(self.metric))
        return np.asarray(signs == np.sign(self.human))

    def calibrated(self) -> tuple[float, float] | None:
        """The highest accuracy over all epsilon, and the smallest epsilon that reaches it; None without pairs.

        Accuracy changes only at differences that occur, so these, in order, are all that need be tried.
        """
        if not len(self.metric):
            return None
        sizes = np.abs(self.metric)
        weights = self.weights()
        # what a pair adds to accuracy at epsilon = 0, and how much more once it is tied
        is_right = np.sign(self.metric) == np.sign(self.human)
        right = weights * is_right
        gain = weights * (self.human == 0) - right
        # gains and epsilons in ascending order of epsilon, beginning with 0
        order = np.argsort(sizes, kind="stable")
        gains = np.concatenate(([0.0], np.cumsum(gain[order])))
        epsilons = np.concatenate(([0.0], sizes[order]))
        # an epsilon counts only after all pairs of its size are tied
        is_last = np.append(epsilons[1:] != epsilons[:-1], True)
        is_last[0] |= epsilons[1] > 0
        candidates = np.where(is_last, gains, -np.inf)
        best = int(np.argmax(candidates > candidates.max() - ROUNDING))
        accuracy = right.sum() + candidates[best]
        return float(accuracy), float(epsilons[best])
