"""Statistics that tests and agreements share: correlations, Kendall's tau as WMT counts it, assignments, tied pairs.

With C and D pairs that people rank and the metric ranks alike or the other way round, and T that the metric ties
(pairs that people tie never count):
    wmt12 = (C - D - T) / (C + D + T)     wmt13 = (C - D) / (C + D)     wmt14 = (C - D) / (C + D + T)

`PairDifferences` holds pairs of texts in groups (the systems of one segment, the segments of one system, or all texts
together). Accuracy is the share of pairs with the same sign, averaged over groups; a metric ties what differs by at
most epsilon (Deutsch et al. 2023, acc23, with tau23 = 2 acc23 - 1). Calibration takes the epsilon of the highest
accuracy, one for all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import atan2, cos, pi, sin, sqrt
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...metrics.errors import InputError
from ...metrics.optional_packages import imported
from ...metrics.representations import FloatArray, IntArray
from ...metrics.spec.checked_settings import Field
from ..choice import ROUNDING

Number = Annotated[float, Field(allow_inf_nan=False)] | None  # None where it is not defined
Correlation = Literal["pearson", "spearman", "tau_b"]
DRAWS = 10_000
MAX_CELLS = 1 << 22  # cells of a matrix of draws held at once
MAX_PAIRS = 1 << 24  # held at once
BLOCK_CELLS = 1 << 20  # pairs of rows at once
MAX_SIGNS = 181  # points of which all pairs are counted; above, they are sorted


def clean(value: float) -> float | None:
    """The number, None where it is not one.

    >>> clean(float("nan")), clean(0.5)
    (None, 0.5)
    """
    return float(value) if np.isfinite(value) else None


def correlation(name: Correlation, x: ArrayLike, y: ArrayLike) -> float:
    """A correlation of two rows [n], NaN for fewer than two points or where one side does not vary.

    pearson  = sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)
    spearman = pearson of ranks, equal values at their mean rank
    tau_b    = (C - D) / sqrt((P - X)(P - Y)), with C and D pairs of points in the same and in the other order, P all of
    them, X and Y those tied in x and in y. Of more than `MAX_SIGNS` points scipy computes it.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    if name == "tau_b" and len(x) > MAX_SIGNS:
        return float(imported("scipy.stats", "Kendall's tau").kendalltau(x, y).statistic)
    if name == "tau_b":
        counts = pair_counts(y, x[None])
        return float(counts.balance[0]) / sqrt(counts.ranked[0] * counts.human_ranked)
    if name == "spearman":
        x, y = mean_ranks(x), mean_ranks(y)
    return _pearson(x, y)


def _pearson(x: FloatArray, y: FloatArray) -> float:
    """Of rows [n] that vary."""
    apart_x = x - x.mean()
    apart_y = y - y.mean()
    # lengths of 1, so that no square over- or underflows
    apart_x /= np.abs(apart_x).max()
    apart_y /= np.abs(apart_y).max()
    cosine = apart_x @ apart_y / (np.linalg.norm(apart_x) * np.linalg.norm(apart_y))
    return float(np.clip(cosine, -1, 1))


def mean_ranks(values: FloatArray) -> FloatArray:
    """Ranks [n] from 1, equal values at the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    means = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(means[inverse], np.float64)


def standardised(*rows: FloatArray) -> tuple[FloatArray, ...] | None:
    """Scores of mean 0 and standard deviation 1, of the same shape; None where some do not vary."""
    if not all(row.size and np.ptp(row) for row in rows):
        return None
    return tuple(np.asarray((row - row.mean()) / row.std()) for row in rows)


def pearsons(
    human: FloatArray, metrics: FloatArray, tie: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Pearson's correlation of [n] with each row of [b, n], as numerators and denominators [b].

    A denominator is 0 where one side varies by no more than `tie`.
    """
    x = human - human.mean()
    y = metrics - metrics.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(x) * np.linalg.norm(y, axis=1)
    varies = (np.ptp(human) > 0) & (np.ptp(metrics, axis=1) > tie)
    return y @ x, np.where(varies, norms, 0.0)


class OrderCounts(NamedTuple):
    """Pairs of a row by each of b metrics."""

    agreed: FloatArray  # ordered as people do, ties included, [b]
    balance: FloatArray  # concordant less discordant, [b]
    ranked: FloatArray  # not tied by the metric, [b]
    human_ranked: int  # not tied by people
    pairs: int


def pair_counts(human: FloatArray, metrics: FloatArray, epsilon: float = 0.0) -> OrderCounts:
    """The counts of people's scores [n] and a metric's [b, n].

    >>> pair_counts(np.array([1.0, 2, 2]), np.array([[5.0, 5, 7]]))
    OrderCounts(agreed=array([1.]), balance=array([1.]), ranked=array([2.]), human_ranked=2, pairs=3)
    """
    agreed, balance, ranked = np.zeros((3, len(metrics)))
    human_ranked = 0
    for by_human, by_metric in _differences(human, metrics):
        human_signs = np.sign(by_human)
        signs = np.where(np.abs(by_metric) <= epsilon, 0.0, np.sign(by_metric))
        agreed += np.count_nonzero(signs == human_signs, axis=1)
        balance += signs @ human_signs
        ranked += np.count_nonzero(signs, axis=1)
        human_ranked += int(np.count_nonzero(human_signs))
    return OrderCounts(agreed, balance, ranked, human_ranked, len(human) * (len(human) - 1) // 2)


def _differences(human: FloatArray, metrics: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Differences of all pairs i < j of a row, [pairs] and [b, pairs], some i at a time."""
    n = len(human)
    step = max(1, BLOCK_CELLS // max(1, n * len(metrics)))
    for start in range(0, n, step):
        stop = min(start + step, n)
        # pairs (i, j) of the block with j > i
        i, j = np.triu_indices(stop - start, 1, n - start)
        i, j = start + i, start + j
        yield human[i] - human[j], metrics[:, i] - metrics[:, j]


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


class RankedPairs(NamedTuple):
    """Pairs that people rank: ranked by the metric alike, the other way round, and tied."""

    concordant: int
    discordant: int
    metric_ties: int

    @classmethod
    def of(cls, metric: FloatArray, human: FloatArray) -> RankedPairs:
        """The counts from the signs that metric and people give each pair, [pairs] of -1, 0 and 1."""
        by_metric = metric[human != 0]
        by_human = human[human != 0]
        alike = int((by_metric == by_human).sum())
        tied = int((by_metric == 0).sum())
        return cls(alike, len(by_human) - alike - tied, tied)

    def tau(self, variant: Literal["wmt12", "wmt13", "wmt14"]) -> float | None:
        """Kendall's tau, None where no pair counts.

        >>> RankedPairs(3, 1, 6).tau("wmt12"), RankedPairs(3, 1, 6).tau("wmt14")
        (-0.4, 0.2)
        """
        c, d, t = self
        total = c + d + (0 if variant == "wmt13" else t)
        return (c - d - (t if variant == "wmt12" else 0)) / total if total else None


def share_as_large(large: int, count: int, exact: bool) -> float:
    """p of a test by randomisation: the share of draws that differ at least as much as observed.

    Where not all assignments were enumerated, the observed one counts as one more draw.
    """
    return large / count if exact else (1 + large) / (1 + count)


def assignments(
    units: int, draws: int, seed: int | Sequence[int]
) -> tuple[int, bool, Iterator[IntArray]]:
    """How many assignments of 0 and 1 to units, whether these are all, and the assignments, [draws, units] at a time.

    All 2^units are enumerated where they are no more than `draws`; else `draws` are drawn.
    """
    exact = units < 63 and 2**units <= draws
    count = 2**units if exact else draws
    return count, exact, _assignments(units, count, exact, seed)


def _assignments(
    units: int, count: int, exact: bool, seed: int | Sequence[int]
) -> Iterator[IntArray]:
    """The assignments, as many at a time as `MAX_CELLS` allows."""
    random = np.random.default_rng(seed)
    step = max(1, MAX_CELLS // max(1, units))
    for start in range(0, count, step):
        size = min(step, count - start)
        if exact:
            # the bits of consecutive numbers
            numbers = np.arange(start, start + size)
            yield (numbers[:, None] >> np.arange(units)) & 1
        else:
            yield random.integers(2, size=(size, units))


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
            problem = f"{total} pairs, at most {MAX_PAIRS} are compared"
            fix = "Average over segments or systems instead of taking all texts together"
            raise InputError(problem, where="ties", fix=fix)
        metric, human, group = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, np.int64)]
        pairs_of = {n: np.triu_indices(n, 1) for n in {len(by_human) for by_human, _ in rows}}
        for number, (by_human, by_metric) in enumerate(rows):
            a, b = pairs_of[len(by_human)]
            metric.append(by_metric[a] - by_metric[b])
            human.append(by_human[a] - by_human[b])
            group.append(np.full(len(a), number))
        return cls(np.concatenate(metric), np.concatenate(human), np.concatenate(group))

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
