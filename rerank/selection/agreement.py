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
from ...metrics.representations import FloatArray, IntArray
from .significance import Verdicts
from .statistics import TIE, Agreement, kendall, pearson, spearman, tau_b


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
    metric: Verdicts, human: Verdicts, metric_sign: float = 1.0, human_sign: float = 1.0
) -> SystemAgreement:
    """Agreement over the same systems in the same order; signs are -1 where lower is better."""
    x, y = metric_sign * with_ties(metric.scores), human_sign * with_ties(human.scores)
    first, second = (
        _one_sided(verdicts, sign)
        for verdicts, sign in ((metric, metric_sign), (human, human_sign))
    )
    soft = 1 - float(np.abs(first - second).mean()) if len(first) else None
    return SystemAgreement(
        pearson(x.tolist(), y.tolist()),
        spearman(x.tolist(), y.tolist()),
        tau_b(x.tolist(), y.tolist()),
        pairwise_accuracy(x, y),
        soft,
        len(x),
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
    new = np.append(True, np.diff(ascending) > TIE * np.abs(ascending).max())
    found = flat.copy()
    found[order] = ascending[new][np.cumsum(new) - 1]
    return found.reshape(values.shape)


def _one_sided(verdicts: Verdicts, sign: float) -> FloatArray:
    """p that a is no better than b, of every pair; the distribution under exchange is symmetric."""
    halves = [(pair.p / 2, sign * pair.difference) for pair in verdicts.pairs]
    return np.array(
        [half if better > 0 else 1 - half if better < 0 else 0.5 for half, better in halves]
    )


def pairwise_accuracy(x: FloatArray, y: FloatArray) -> float | None:
    """The share of pairs that x [n] orders as y [n] does, ties included; None for fewer than two."""
    if len(x) < 2:
        return None
    a, b = np.triu_indices(len(x), 1)
    return float((np.sign(x[a] - x[b]) == np.sign(y[a] - y[b])).mean())


class _Pairs(NamedTuple):
    """Pairs of systems within segments, [pairs]."""

    metric: FloatArray  # differences
    human: FloatArray
    segment: IntArray


def _pairs(metric: FloatArray, human: FloatArray) -> _Pairs:
    a, b = np.triu_indices(len(metric), 1)
    of_metric, of_human = metric[a] - metric[b], human[a] - human[b]
    pair, segment = np.nonzero(~(np.isnan(of_metric) | np.isnan(of_human)))
    return _Pairs(of_metric[pair, segment], of_human[pair, segment], segment)


def segment_agreement(metric: FloatArray, human: FloatArray) -> SegmentAgreement:
    """Agreement of scores [S, n] of the same systems on the same segments, nan where a score is missing.

    Raises:
        InputError: the shapes differ.
    """
    if metric.shape != human.shape:
        found = f"{metric.shape} and {human.shape} scores"
        raise InputError(found, where="agreement", fix="Give the same systems and segments")
    metric, human = with_ties(metric), with_ties(human)
    pairs = _pairs(metric, human)
    of_metric, of_human = np.sign(pairs.metric), np.sign(pairs.human)
    ranked = of_human != 0
    counts = Agreement(
        int((ranked & (of_metric == of_human)).sum()),
        int((ranked & (of_metric == -of_human)).sum()),
        int((ranked & (of_metric == 0)).sum()),
        int((~ranked).sum()),
    )
    taus = [tau_b(*_both(m, h)) for m, h in zip(metric.T, human.T, strict=True)]
    defined = [tau for tau in taus if tau is not None]
    accuracy, epsilon = tie_calibration(metric, human) or (None, None)
    return SegmentAgreement(
        kendall(counts, "wmt12"),
        kendall(counts, "wmt13"),
        kendall(counts, "wmt14"),
        float(np.mean(defined)) if defined else None,
        accuracy,
        epsilon,
        pearson(*_both(metric.ravel(), human.ravel())),
        len(np.unique(pairs.segment)),
    )


def _both(x: FloatArray, y: FloatArray) -> tuple[list[float], list[float]]:
    """The values that both have."""
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known].tolist(), y[known].tolist()


def accuracy_at(metric: FloatArray, human: FloatArray, epsilon: float) -> float | None:
    """Pairwise accuracy [S, n] where metric scores at most `epsilon` apart are tied; the mean over segments."""
    pairs = _pairs(metric, human)
    own = np.where(np.abs(pairs.metric) <= epsilon, 0, np.sign(pairs.metric))
    return float((own == np.sign(pairs.human)) @ _weights(pairs)) if len(own) else None


def tie_calibration(metric: FloatArray, human: FloatArray) -> tuple[float, float] | None:
    """The highest pairwise accuracy [S, n] over all epsilon, and the smallest epsilon that reaches it.

    Accuracy changes only at differences that occur, so these, in order, are all that need be tried.
    """
    pairs = _pairs(metric, human)
    if not len(pairs.metric):
        return None
    sizes, weights = np.abs(pairs.metric), _weights(pairs)
    right = weights * (np.sign(pairs.metric) == np.sign(pairs.human))  # epsilon = 0
    gain = weights * (pairs.human == 0) - right  # once the pair is tied
    order = np.argsort(sizes, kind="stable")
    cumulative = np.concatenate(([0.0], np.cumsum(gain[order])))
    steps = np.concatenate(([0.0], sizes[order]))
    last = np.append(steps[1:] != steps[:-1], True)  # only after all pairs of one size
    last[0] |= steps[1] > 0
    found = np.where(last, cumulative, -np.inf)
    best = int(np.argmax(found > found.max() - 1e-12))
    return float(right.sum() + found[best]), float(steps[best])


def _weights(pairs: _Pairs) -> FloatArray:
    """1 / (pairs of the segment * segments), of every pair."""
    counts = np.bincount(pairs.segment)
    return np.asarray(1 / (counts[pairs.segment] * np.count_nonzero(counts)))
