"""How well metrics agree with people about whole systems and about single segments, and whether two differ in that.

Systems: Pearson, Spearman, Kendall's tau-b; pairwise accuracy (Kocmi et al. 2021), a tie counting as right where both
tie; soft pairwise accuracy (Thompson et al. 2024), 1 - mean |p_h - p_m| over pairs of systems, with p the one-sided p
of "a is better than b" by approximate randomisation.
Segments: systems are compared within a segment only. Kendall's tau as WMT 2012 to 2014 counted it, pooled over all
segments; tau-b per segment, averaged; pairwise accuracy with tie calibration (Deutsch et al. 2023), where scores that
differ by at most epsilon are tied, epsilon is the one of the highest accuracy, and accuracy is that of a segment,
averaged over segments.
All scores are utilities here: higher is better. Scores that only rounding tells apart are tied.

Two metrics: PERM-BOTH (Deutsch et al. 2021): both metrics' scores are standardised; every score of a system on a
segment changes places with the other metric's with probability 1/2; p is the share of draws whose absolute difference
of agreement is at least the observed one. Systems' scores are means over segments here, also for metrics with a corpus
score. `perm_both` tests agreement about systems, `perm_both_segments` that within segments: tau-b of each, averaged.
Standardised scores and their means that only rounding tells apart are tied.
Williams (1959), as in Graham and Baldwin (2014): the difference of two correlations with the same third variable,
    t = (r12 - r13) sqrt((n - 1)(1 + r23)) / sqrt(2 K (n - 1)/(n - 3) + (r12 + r13)^2 / 4 (1 - r23)^3),
    K = 1 - r12^2 - r13^2 - r23^2 + 2 r12 r13 r23,   with n - 3 degrees of freedom.
Both are two-sided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError, unknown
from ...metrics.representations import FloatArray, IntArray
from ..choice import ROUNDING, TIE
from .significance import Verdicts
from .statistics import (
    Number,
    PairDifferences,
    RankedPairs,
    assignments,
    clean,
    correlation,
    pair_counts,
    pearsons,
    share_as_large,
    standardised,
    two_sided_t,
)

DRAWS = 1000
Statistic = Literal["pearson", "pairwise_accuracy"]


@dataclass(frozen=True)
class SystemAgreement:
    """A metric against people on n systems; None where it is not defined."""

    pearson: Number = None
    spearman: Number = None
    kendall: Number = None
    pairwise_accuracy: Number = None
    soft_pairwise_accuracy: Number = None
    systems: int = 0


@dataclass(frozen=True)
class SegmentAgreement:
    """A metric against people on the segments that both scored; None where it is not defined."""

    kendall_wmt12: Number = None
    kendall_wmt13: Number = None
    kendall_wmt14: Number = None
    kendall_b: Number = None  # mean over segments
    accuracy: Number = None  # at epsilon
    epsilon: Number = None
    pearson: Number = None  # of all scores together
    segments: int = 0  # with at least one pair


def system_agreement(metric: Verdicts, human: Verdicts) -> SystemAgreement:
    """Agreement over the systems that people judged."""
    names = human.systems
    x, y = with_ties(metric.utilities(names)), with_ties(human.utilities(names))
    metric_p, human_p = _one_sided(metric, names), _one_sided(human, names)
    return SystemAgreement(
        pearson=clean(correlation("pearson", x, y)),
        spearman=clean(correlation("spearman", x, y)),
        kendall=clean(correlation("tau_b", x, y)),
        pairwise_accuracy=pairwise_accuracy(x, y),
        soft_pairwise_accuracy=clean(1 - np.abs(metric_p - human_p).mean())
        if len(human_p)
        else None,
        systems=len(x),
    )


def with_ties(values: FloatArray) -> FloatArray:
    """The values, those that only rounding tells apart made equal; nan stays.

    >>> len(set(with_ties(np.array([0.1 + 0.2, 0.3, 0.4])).tolist()))
    2
    """
    flat = values.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if not len(known):
        return values
    order = known[np.argsort(flat[known], kind="stable")]
    ascending = flat[order]
    gaps = np.diff(ascending)
    limit = ROUNDING * np.abs(ascending).max()
    is_new = np.append(True, gaps > limit)
    # every value becomes the lowest of those it is tied with
    group = np.cumsum(is_new) - 1
    tied = flat.copy()
    tied[order] = ascending[is_new][group]
    return tied.reshape(values.shape)


def _one_sided(verdicts: Verdicts, names: tuple[str, ...]) -> FloatArray:
    """p that a is no better than b, [pairs]; the distribution under exchange is symmetric."""
    p_values = []
    sign = 1.0 if verdicts.higher_is_better else -1.0
    number = {name: s for s, name in enumerate(verdicts.systems)}
    for first, second in combinations(names, 2):
        a, b = number[first], number[second]
        pair = verdicts.pair(a, b)
        half = 0.5 if pair is None or pair.p_uncorrected is None else pair.p_uncorrected / 2
        better = 0.0 if pair is None else sign * (pair.difference or 0.0)
        p_values.append(0.5 if not better else half if (better > 0) == (a < b) else 1 - half)
    return np.array(p_values)


def pairwise_accuracy(x: FloatArray, y: FloatArray) -> float | None:
    """The share of pairs that x [n] orders as y [n] does, ties included; None for fewer than two."""
    if len(x) < 2:
        return None
    counts = pair_counts(y, x[None])
    return float(counts.agreed[0] / counts.pairs)


def segment_agreement(metric: FloatArray, human: FloatArray) -> SegmentAgreement:
    """Agreement of scores [S, n] of the same systems on the same segments, nan where a score is missing.

    Raises:
        InputError: the shapes differ.
    """
    _check_shapes(metric, human)
    metric, human = with_ties(metric), with_ties(human)
    differences = PairDifferences.within_segments(metric, human)
    counts = RankedPairs.of(np.sign(differences.metric), np.sign(differences.human))
    accuracy, epsilon = differences.calibrated() or (None, None)
    known = ~(np.isnan(metric) | np.isnan(human))
    taus, defined = _Order(np.where(known, human, np.nan)).taus_b(metric[None], 0.0)
    return SegmentAgreement(
        kendall_wmt12=counts.tau("wmt12"),
        kendall_wmt13=counts.tau("wmt13"),
        kendall_wmt14=counts.tau("wmt14"),
        kendall_b=float(taus[defined].mean()) if defined.any() else None,
        accuracy=accuracy,
        epsilon=epsilon,
        pearson=clean(correlation("pearson", metric[known], human[known])),
        segments=len(np.unique(differences.group)),
    )


def _check_shapes(*tables: FloatArray) -> None:
    if len({table.shape for table in tables}) > 1:
        problem = f"scores of the shapes {', '.join(str(table.shape) for table in tables)}"
        raise InputError(problem, where="agreement", fix="Give the same systems and segments")


def perm_both(
    first: FloatArray,
    second: FloatArray,
    human: FloatArray,
    statistic: Statistic = "pearson",
    draws: int = DRAWS,
    seed: int = 0,
) -> float | None:
    """p of two metrics' utilities [S, n] against people's scores of the systems [S]; None where it is not defined.

    All 2^(S n) assignments are enumerated where they are no more than `draws`.

    Raises:
        InputError: shapes differ or the statistic is unknown.
    """
    _check_shapes(first, second)
    _check_shapes(first[:, 0], human)
    if statistic not in _STATISTICS:
        raise unknown("statistic", statistic, _STATISTICS, where="perm_both")
    measure = _STATISTICS[statistic]
    scores = standardised(first, second)
    if scores is None or len(first) < 2 or not np.ptp(human):
        return None
    x, y = scores
    means = x.mean(axis=1), y.mean(axis=1)
    difference = (y - x) / x.shape[1]  # what an exchange adds to the mean of a system, [S, n]

    def agreements(swapped: IntArray) -> tuple[FloatArray, FloatArray]:
        moved = np.einsum("bsn,sn->bs", swapped, difference)
        return measure(means[0] + moved, human), measure(means[1] - moved, human)

    return _permuted(x.shape, agreements, draws, seed)


def perm_both_segments(
    first: FloatArray,
    second: FloatArray,
    human: FloatArray,
    draws: int = DRAWS,
    seed: int = 0,
) -> float | None:
    """p that two metrics' utilities [S, n] order the systems of a segment as well as each other.

    Agreement is Kendall's tau-b of each segment, averaged over the segments where it is defined. `human` [S, n] is nan
    where a score is missing. None where the agreement of one of the two is not defined.

    Raises:
        InputError: shapes differ.
    """
    _check_shapes(first, second, human)
    scores = standardised(first, second)
    if scores is None:
        return None
    x, y = scores
    tau_b = _Order(human).tau_b

    def agreements(swapped: IntArray) -> tuple[FloatArray, FloatArray]:
        mask = swapped.astype(bool)
        return tau_b(np.where(mask, y, x)), tau_b(np.where(mask, x, y))

    return _permuted(x.shape, agreements, draws, seed)


def _permuted(
    shape: tuple[int, ...],
    agreements: Callable[[IntArray], tuple[FloatArray, FloatArray]],
    draws: int,
    seed: int,
) -> float | None:
    """p of PERM-BOTH from the agreement of both metrics, [b] each, after swaps [b, *shape] of 0 and 1."""
    of_first, of_second = agreements(np.zeros((1, *shape), np.int64))
    observed = abs(float(of_first[0] - of_second[0])) - TIE
    if np.isnan(observed):
        return None
    count, exact, masks = assignments(int(np.prod(shape)), draws, [seed, 2])
    large = 0
    for mask in masks:
        one_way, other_way = agreements(mask.reshape(-1, *shape))
        large += int(np.count_nonzero(~(np.abs(one_way - other_way) < observed)))
    return share_as_large(large, count, exact)


class _Order:
    """How people order the systems of each segment.

    Args:
        human: scores [S, n], nan where one is missing.
    """

    def __init__(self, human: FloatArray) -> None:
        self._pairs = list(combinations(range(len(human)), 2))
        self._signs: list[IntArray] = []  # of every pair, [n]
        self._known: list[NDArray[np.bool_]] = []  # where both systems have a score, [n]
        for a, b in self._pairs:
            difference = human[a] - human[b]
            self._signs.append(np.nan_to_num(np.sign(difference)).astype(int))
            self._known.append(~np.isnan(difference))
        self._ranked = sum((sign != 0).astype(int) for sign in self._signs)  # pairs, [n]

    def tau_b(self, scores: FloatArray) -> FloatArray:
        """Tau-b of standardised scores [b, S, n], averaged over segments: [b], nan where no segment has one."""
        taus, defined = self.taus_b(scores, TIE)
        num_defined = defined.sum(axis=1)
        undefined = np.full(len(scores), np.nan)
        means = np.divide(taus.sum(axis=1), num_defined, out=undefined, where=num_defined > 0)
        return np.asarray(means)

    def taus_b(self, scores: FloatArray, tie: float) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Tau-b of scores [b, S, n] in each segment, [b, n], and where it is defined; what differs by `tie` is tied."""
        shape = len(scores), scores.shape[2]
        agreed = np.zeros(shape)  # pairs ordered alike less those ordered the other way round
        ranked = np.zeros(shape)  # pairs that the metric ranks
        for (a, b), sign, known in zip(self._pairs, self._signs, self._known, strict=True):
            difference = scores[:, a] - scores[:, b]
            is_ranked = known & (np.abs(difference) > tie)
            metric_sign = np.where(is_ranked, np.sign(difference), 0.0)
            agreed += metric_sign * sign
            ranked += is_ranked
        denominator = np.sqrt(ranked * self._ranked)
        defined = denominator > 0
        return np.divide(agreed, denominator, out=np.zeros(shape), where=defined), defined


def _pearsons(rows: FloatArray, human: FloatArray) -> FloatArray:
    """Pearson's correlation of every row [b, S] with [S], nan where the row does not vary."""
    numerators, denominators = pearsons(human, rows, TIE)
    undefined = np.full(len(rows), np.nan)
    return np.asarray(np.divide(numerators, denominators, out=undefined, where=denominators > 0))


def _accuracies(rows: FloatArray, human: FloatArray) -> FloatArray:
    """Pairwise accuracy of every row [b, S]."""
    counts = pair_counts(human, rows, TIE)
    return counts.agreed / counts.pairs


_STATISTICS = {"pearson": _pearsons, "pairwise_accuracy": _accuracies}


def williams(first: FloatArray, second: FloatArray, human: FloatArray) -> float | None:
    """p that two metrics' scores of systems [S] correlate equally well with people's [S]; None for S < 4."""
    n = len(human)
    r12 = correlation("pearson", human, first)
    r13 = correlation("pearson", human, second)
    r23 = correlation("pearson", first, second)
    if n < 4 or np.isnan(r12 + r13 + r23):
        return None
    # K and 1 - r23 are below 0 by rounding alone
    k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    k = max(k, 0.0)
    apart = max(1 - r23, 0.0)
    # the square of the denominator of t
    noise = 2 * k * (n - 1) / (n - 3) + (r12 + r13) ** 2 / 4 * apart**3
    if noise <= ROUNDING**2:
        return 1.0 if abs(r12 - r13) < ROUNDING else None
    t = (r12 - r13) * sqrt((n - 1) * (1 + r23)) / sqrt(noise)
    return two_sided_t(t, n - 3)
