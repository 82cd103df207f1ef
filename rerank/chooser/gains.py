"""How many fewer errors a chooser makes than shipping the best single system, on documents that it did not see.

Every fold of the judged documents is chosen by what the others teach, the single system is that of the least mean error
on the others. With c and s the mean scores of what is chosen and of the single system's texts, the logarithm of c / s
has a variance by the jackknife over documents, and is mixed with what other sets made of it (mean and spread between
sets) by their precisions: few judgements say little by themselves.
"""

from __future__ import annotations

from math import exp, inf, isinf, log
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .chooser_fit import (
    SHIP,
    Defaults,
    Fit,
    clustered_mean,
    few_units,
    fit,
    folding_units,
    folds,
)
from .measured import MeasuredTexts

NORMAL_95 = 1.96
SMOOTH = 0.5  # errors added to both sums: keeps the logarithm finite where nothing is wrong
LEVEL = 0.97  # where a ratio below this is ruled out, the single system is as good
WORSE = 1.05  # from this expected ratio on, the single system's texts are taken
# the same in deviations within a segment: with MQM a hundredth of the errors is about a hundredth of one
SCORE_LEVEL, SCORE_WORSE = 0.03, 0.05
ENOUGH = 30  # documents that all say the same: with 95 % fewer than a tenth say anything else


class ErrorRatio(NamedTuple):
    """A ratio of mean scores, what is chosen over the single system: log, and its standard deviation."""

    log_ratio: float
    deviation: float

    @property
    def ratio(self) -> float:
        """c / s."""
        return exp(self.log_ratio)

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        reach = NORMAL_95 * self.deviation
        return exp(self.log_ratio - reach), exp(self.log_ratio + reach)

    @property
    def is_worse(self) -> bool:
        """Whether choosing is expected to make more errors than the single system."""
        return self.ratio >= WORSE

    @property
    def as_good(self) -> bool:
        """Whether nothing to speak of is gained over the single system: the whole interval lies above `LEVEL`."""
        return self.interval[0] >= LEVEL or self.is_worse

    def mixed(self, other: ErrorRatio) -> ErrorRatio:
        """The two by their precisions."""
        if not self.deviation or isinf(other.deviation):
            return self
        if not other.deviation:
            return other
        own, others = self.deviation**-2, other.deviation**-2
        mean = (own * self.log_ratio + others * other.log_ratio) / (own + others)
        return ErrorRatio(mean, float((own + others) ** -0.5))


UNKNOWN = ErrorRatio(0.0, inf)


class ScoreGain(NamedTuple):
    """How much better what is chosen is than the single system, in deviations of scores within a segment.

    Args:
        difference: mean, above 0 where choosing is better.
        deviation: its standard deviation.
    """

    difference: float
    deviation: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        reach = NORMAL_95 * self.deviation
        return self.difference - reach, self.difference + reach

    @property
    def is_worse(self) -> bool:
        """Whether choosing is expected to be worse than the single system."""
        return self.difference <= -SCORE_WORSE

    @property
    def as_good(self) -> bool:
        """Whether nothing to speak of is gained: the whole interval lies below `SCORE_LEVEL`."""
        return self.interval[1] <= SCORE_LEVEL or self.is_worse


def measured_gain(data: MeasuredTexts, defaults: Defaults) -> ErrorRatio:
    """The gain on judged segments, by folds; `UNKNOWN` where there is none or scores have no ratio."""
    judged = data.rows(data.judged)
    if np.nanmin(judged.scores, initial=0.0) < 0 or len(judged.scores) < 2:
        return UNKNOWN
    chosen, single = held_out(judged, defaults)
    known = ~np.isnan(chosen) & ~np.isnan(single)
    document = judged.document[judged.own]
    units = np.unique(folding_units(document)[known], return_inverse=True)[1]
    if not known.any():
        return UNKNOWN
    return jackknife(chosen[known], single[known], units)


def measured_difference(data: MeasuredTexts, defaults: Defaults) -> ScoreGain:
    """The gain on judged segments, by folds, of any scores; its deviation is infinite where there is none."""
    judged = data.rows(data.judged)
    if len(judged.scores) < 2:
        return ScoreGain(0.0, inf)
    chosen, single = held_out(judged, defaults)
    unit = deviation_within(judged.scores[judged.own])
    known = ~np.isnan(chosen) & ~np.isnan(single)
    differences = (single - chosen)[known] / (unit or 1.0)
    mean, variance = clustered_mean(differences, judged.document[judged.own][known])
    return ScoreGain(mean, variance**0.5)


def deviation_within(scores: FloatArray) -> float:
    """The standard deviation of scores [n, S] about their segment's mean; nan where nobody judged."""
    centred = scores - np.nanmean(scores, axis=1, keepdims=True)
    return float(np.nanmean(centred**2) ** 0.5)


def tells_nothing(gain: ErrorRatio | ScoreGain, data: MeasuredTexts) -> bool:
    """Whether a gain is of too few documents that all say the same, so that its deviation of 0 is no knowledge."""
    if gain.deviation:
        return False
    judged = data.rows(data.judged)
    return len(np.unique(folding_units(judged.document[judged.own]))) < ENOUGH


def held_out(data: MeasuredTexts, defaults: Defaults) -> tuple[FloatArray, FloatArray]:
    """Scores of what is chosen and of the single system's texts, from other documents, [n]; nan where not judged.

    The n segments are those of the domain itself; those of others teach in every fold.
    """
    of_domain = data.own
    fold = folds(data.document[of_domain])
    chosen = np.full(len(fold), np.nan)
    single = np.full(len(fold), np.nan)
    for held in range(int(fold.max()) + 1):
        own = np.flatnonzero(fold == held)
        rest = np.setdiff1d(np.arange(len(data.errors)), of_domain[own])
        if not len(rest):
            continue
        learned = fit(data.rows(rest), defaults)
        held_data = data.rows(of_domain[own])
        picks = learned.choices(held_data)
        chosen[own] = held_data.scores[np.arange(len(own)), picks]
        single[own] = held_data.scores[:, int(learned.means.argmin())]
    return chosen, single


def jackknife(chosen: FloatArray, single: FloatArray, units: IntArray) -> ErrorRatio:
    """The log ratio of the sums of scores [n], and its deviation by leaving out every unit [n] in turn."""
    num_units = int(units.max()) + 1
    c, s = np.bincount(units, chosen, num_units), np.bincount(units, single, num_units)
    log_ratio = log((c.sum() + SMOOTH) / (s.sum() + SMOOTH))
    if isinf(few_units(num_units)):
        return ErrorRatio(log_ratio, inf)
    left_out = np.log(c.sum() - c + SMOOTH) - np.log(s.sum() - s + SMOOTH)
    squares = float(((left_out - left_out.mean()) ** 2).sum())
    variance = (num_units - 1) / num_units * squares * few_units(num_units)
    return ErrorRatio(log_ratio, variance**0.5)


def shipping(learned: Fit) -> Fit:
    """The chooser that always takes the best system's text."""
    alone = np.eye(len(learned.weights))[0]
    return learned._replace(strength=SHIP, weights=alone)
