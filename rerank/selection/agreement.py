"""How well a metric agrees with people about whole systems and about single segments.

Systems: Pearson, Spearman, Kendall's tau-b; pairwise accuracy (Kocmi et al. 2021), a tie counting as right where both
tie; soft pairwise accuracy (Thompson et al. 2024), 1 - mean |p_h - p_m| over pairs of systems, with p the one-sided p
of "a is better than b" by approximate randomisation.
Segments: systems are compared within a segment only. Kendall's tau as WMT 2012 to 2014 counted it, pooled over all
segments; tau-b per segment, averaged; pairwise accuracy with tie calibration (Deutsch et al. 2023), where scores that
differ by at most epsilon are tied, epsilon is the one of the highest accuracy, and accuracy is that of a segment,
averaged over segments.
All scores are utilities here: higher is better. Scores that only rounding tells apart are tied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from ..choice import ROUNDING
from .correlation import pearson, spearman, tau_b
from .pair_differences import PairDifferences
from .significance import Verdicts
from .statistics import counted_agreement, kendall


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


def accuracy_at(metric: FloatArray, human: FloatArray, epsilon: float) -> float | None:
    """Pairwise accuracy [S, n] where metric scores at most `epsilon` apart are tied; the mean over segments."""
    return PairDifferences.within_segments(metric, human).accuracy(epsilon)


def tie_calibration(metric: FloatArray, human: FloatArray) -> tuple[float, float] | None:
    """The highest pairwise accuracy [S, n] over all epsilon, and the smallest epsilon that reaches it."""
    return PairDifferences.within_segments(metric, human).calibrated()
