"""How well a metric agrees with people about whole systems and about single segments.

Systems: Pearson, Spearman, Kendall's tau-b; pairwise accuracy (Kocmi et al. 2021), a tie counting as right where both
tie; soft pairwise accuracy (Thompson et al. 2024), 1 - mean |p_h - p_m| over pairs of systems, with p the one-sided p
of "a is better than b" by approximate randomisation.
Segments: systems are compared within a segment only. Kendall's tau as WMT 2012 to 2014 counted it, pooled over all
segments; tau-b per segment, averaged; pairwise accuracy with tie calibration (Deutsch et al. 2023), where scores that
differ by at most epsilon are tied, epsilon is the one of the highest accuracy, and accuracy is that of a segment,
averaged over segments.
All scores are utilities here: higher is better. Scores that only rounding tells apart are tied.

Whether one metric agrees with people better than another about systems.

PERM-BOTH (Deutsch et al. 2021): both metrics' scores are standardised; every score of a system on a segment changes
places with the other metric's with probability 1/2; p is the share of draws whose absolute difference of agreement is
at least the observed one. Systems' scores are means over segments here, also for metrics with a corpus score.
`perm_both` tests agreement about systems, `perm_both_segments` that within segments: tau-b of each, averaged.
Standardised scores and their means that only rounding tells apart are tied.
Williams (1959), as in Graham and Baldwin (2014): the difference of two correlations with the same third variable,
    t = (r12 - r13) sqrt((n - 1)(1 + r23)) / sqrt(2 K (n - 1)/(n - 3) + (r12 + r13)^2 / 4 (1 - r23)^3),
    K = 1 - r12^2 - r13^2 - r23^2 + 2 r12 r13 r23,   with n - 3 degrees of freedom.
Both are two-sided.
"""

from __future__ import annotations

from itertools import combinations
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError, unknown
from ...metrics.representations import FloatArray, IntArray
from ..choice import ROUNDING, TIE
from .significance import Verdicts
from .statistics import (
    PairDifferences,
    assignments,
    counted_agreement,
    kendall,
    pearson,
    share_as_large,
    spearman,
    tau_b,
    two_sided_t,
)


class SystemAgreement(NamedTuple):
    """A metric against people on n systems; None where it is not defined."""

    pearson: float | None
    spearman: float | None
    kendall: float | None
    pairwise_accuracy: float | None
    soft_pairwise_accuracy: float | None
    systems: int


class SegmentAgreement(NamedTuple):
    """A metric against people on the segments that both scored; None where it is not defined."""

    kendall_wmt12: float | None
    kendall_wmt13: float | None
    kendall_wmt14: float | None
    kendall_b: float | None  # mean over segments
    accuracy: float | None  # at epsilon
    epsilon: float | None
    pearson: float | None  # of all scores together
    segments: int  # with at least one pair


def system_agreement(
    metric: Verdicts,
    human: Verdicts,
    metric_sign: float = 1.0,
    human_sign: float = 1.0,
) -> SystemAgreement:
    """Agreement over the same systems in the same order; signs are -1 where lower is better."""
    x = metric_sign * with_ties(metric.scores)
    y = human_sign * with_ties(human.scores)
    metric_p = _one_sided(metric, metric_sign)
    human_p = _one_sided(human, human_sign)
    soft = None
    if len(metric_p):
        gaps = np.abs(metric_p - human_p)
        soft = 1 - float(gaps.mean())
    return SystemAgreement(
        pearson=pearson(x.tolist(), y.tolist()),
        spearman=spearman(x.tolist(), y.tolist()),
        kendall=tau_b(x.tolist(), y.tolist()),
        pairwise_accuracy=pairwise_accuracy(x, y),
        soft_pairwise_accuracy=soft,
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


def _one_sided(verdicts: Verdicts, sign: float) -> FloatArray:
    """p that a is no better than b, [pairs]; the distribution under exchange is symmetric."""
    p_values = []
    for pair in verdicts.pairs:
        half = pair.p / 2
        better = sign * pair.difference
        if better > 0:
            p_values.append(half)
        else:
            p_values.append(1 - half if better < 0 else 0.5)
    return np.array(p_values)


def pairwise_accuracy(x: FloatArray, y: FloatArray) -> float | None:
    """The share of pairs that x [n] orders as y [n] does, ties included; None for fewer than two."""
    if len(x) < 2:
        return None
    a, b = np.triu_indices(len(x), 1)
    x_signs = np.sign(x[a] - x[b])  # [pairs]
    y_signs = np.sign(y[a] - y[b])
    return float((x_signs == y_signs).mean())


def segment_agreement(metric: FloatArray, human: FloatArray) -> SegmentAgreement:
    """Agreement of scores [S, n] of the same systems on the same segments, nan where a score is missing.

    Raises:
        InputError: the shapes differ.
    """
    if metric.shape != human.shape:
        problem = f"{metric.shape} and {human.shape} scores"
        raise InputError(problem, where="agreement", fix="Give the same systems and segments")
    metric, human = with_ties(metric), with_ties(human)
    differences = PairDifferences.within_segments(metric, human)
    counts = counted_agreement(np.sign(differences.metric), np.sign(differences.human))
    accuracy, epsilon = tie_calibration(metric, human) or (None, None)
    return SegmentAgreement(
        kendall_wmt12=kendall(counts, "wmt12"),
        kendall_wmt13=kendall(counts, "wmt13"),
        kendall_wmt14=kendall(counts, "wmt14"),
        kendall_b=_mean_tau_b(metric, human),
        accuracy=accuracy,
        epsilon=epsilon,
        pearson=pearson(*_both(metric.ravel(), human.ravel())),
        segments=len(np.unique(differences.group)),
    )


def _mean_tau_b(metric: FloatArray, human: FloatArray) -> float | None:
    """Tau-b of scores [S, n] within each segment, averaged over those where it is defined."""
    taus = []
    for by_metric, by_human in zip(metric.T, human.T, strict=True):
        tau = tau_b(*_both(by_metric, by_human))
        if tau is not None:
            taus.append(tau)
    return float(np.mean(taus)) if taus else None


def _both(x: FloatArray, y: FloatArray) -> tuple[list[float], list[float]]:
    """The values that both have."""
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known].tolist(), y[known].tolist()


def tie_calibration(metric: FloatArray, human: FloatArray) -> tuple[float, float] | None:
    """The highest pairwise accuracy [S, n] over all epsilon, and the smallest epsilon that reaches it."""
    return PairDifferences.within_segments(metric, human).calibrated()


DRAWS = 1000
Statistic = Literal["pearson", "pairwise_accuracy"]


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
    if first.shape != second.shape or len(human) != len(first):
        problem = f"scores {first.shape} and {second.shape} of {len(human)} judged systems"
        raise InputError(problem, where="perm_both", fix="Give the same systems and segments")
    if statistic not in _STATISTICS:
        raise unknown("statistic", statistic, _STATISTICS, where="perm_both")
    measure = _STATISTICS[statistic]
    if len(first) < 2 or not first.size:
        return None
    if not (np.ptp(first) and np.ptp(second) and np.ptp(human)):
        return None
    x = _standardised(first)
    y = _standardised(second)
    means = np.stack((x.mean(axis=1), y.mean(axis=1)))  # [2, S]
    difference = (y - x) / x.shape[1]  # what an exchange adds to the mean of a system, [S, n]
    of_first, of_second = measure(means, human)
    observed = abs(float(of_first - of_second)) - TIE
    if np.isnan(observed):
        return None
    count, exact, masks = assignments(x.size, draws, [seed, 2])
    large = 0
    for mask in masks:
        swapped = mask.reshape(-1, *x.shape)  # [draws, S, n]
        moved = np.einsum("bsn,sn->bs", swapped, difference)
        one_way = measure(means[0] + moved, human)
        other_way = measure(means[1] - moved, human)
        gaps = np.abs(one_way - other_way)
        large += int(np.count_nonzero(~(gaps < observed)))
    return share_as_large(large, count, exact)


def _standardised(scores: FloatArray) -> FloatArray:
    """Scores of mean 0 and standard deviation 1, of the same shape."""
    return np.asarray((scores - scores.mean()) / scores.std())


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
    if not first.shape == second.shape == human.shape:
        raise InputError(
            f"scores {first.shape} and {second.shape}, people's {human.shape}",
            where="perm_both_segments",
            fix="Give the same systems and segments",
        )
    if not (first.size and np.ptp(first) and np.ptp(second)):
        return None
    x = _standardised(first)
    y = _standardised(second)
    people = _Order(human)
    tau_of_first = people.tau_b(x[None])[0]
    tau_of_second = people.tau_b(y[None])[0]
    observed = abs(float(tau_of_first - tau_of_second)) - TIE
    if np.isnan(observed):
        return None
    count, exact, masks = assignments(x.size, draws, [seed, 2])
    large = 0
    for mask in masks:
        swapped = mask.reshape(-1, *x.shape).astype(bool)  # [draws, S, n]
        one_way = people.tau_b(np.where(swapped, y, x))
        other_way = people.tau_b(np.where(swapped, x, y))
        gaps = np.abs(one_way - other_way)
        large += int(np.count_nonzero(~(gaps < observed)))
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
        """Tau-b of scores [b, S, n], averaged over segments: [b], nan where no segment has one."""
        shape = len(scores), scores.shape[2]
        agreed = np.zeros(shape)  # pairs ordered alike less those ordered the other way round
        ranked = np.zeros(shape)  # pairs that the metric ranks
        for (a, b), sign, known in zip(self._pairs, self._signs, self._known, strict=True):
            metric_sign = _signs(scores[:, a] - scores[:, b])
            agreed += metric_sign * sign
            ranked += (metric_sign != 0) & known
        denominator = np.sqrt(ranked * self._ranked)
        defined = denominator > 0
        taus = np.divide(agreed, denominator, out=np.zeros(shape), where=defined)
        sums = taus.sum(axis=1)
        num_defined = defined.sum(axis=1)
        undefined = np.full(len(scores), np.nan)
        means = np.divide(sums, num_defined, out=undefined, where=num_defined > 0)
        return np.asarray(means)


def _signs(differences: FloatArray) -> FloatArray:
    """-1, 0 or 1 of differences of standardised scores."""
    return np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences))


def _pearsons(rows: FloatArray, human: FloatArray) -> FloatArray:
    """Pearson's correlation of every row [b, S] with [S], nan where the row does not vary."""
    x = rows - rows.mean(axis=1, keepdims=True)
    y = human - human.mean()
    varies = np.ptp(rows, axis=1) > TIE
    x_squares = (x * x).sum(axis=1)
    denominator = np.sqrt(x_squares * (y @ y))
    undefined = np.full(len(rows), np.nan)
    return np.asarray(np.divide(x @ y, denominator, out=undefined, where=varies))


def _accuracies(rows: FloatArray, human: FloatArray) -> FloatArray:
    """Pairwise accuracy of every row [b, S]."""
    a, b = np.triu_indices(len(human), 1)
    metric_signs = _signs(rows[:, a] - rows[:, b])  # [b, pairs]
    human_signs = np.sign(human[a] - human[b])  # [pairs]
    is_right = metric_signs == human_signs
    return np.asarray(is_right.mean(axis=1))


_STATISTICS = {"pearson": _pearsons, "pairwise_accuracy": _accuracies}


def williams(first: FloatArray, second: FloatArray, human: FloatArray) -> float | None:
    """p that two metrics' scores of systems [S] correlate equally well with people's [S]; None for S < 4."""
    n = len(human)
    r12 = pearson(human.tolist(), first.tolist())
    r13 = pearson(human.tolist(), second.tolist())
    r23 = pearson(first.tolist(), second.tolist())
    if n < 4 or r12 is None or r13 is None or r23 is None:
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
