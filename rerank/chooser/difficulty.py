"""How many errors a chosen text is expected to have, and how likely nobody would find fewer in another of its list.

    e(h) = sigma (c + sum_f s_f (g_f - mean_f) / scale_f - v(h) + mean_j v(j))
is the expected error of text h: v its value, minus its error in units of sigma up to a constant of the list
(`chooser_fit`), g the traits of the list: length, words that no other text has, unusual lengths, distinct texts. The
intercept c is the mean of the judged segments, the slopes s are a ridge towards those of other sets. Where errors
are roots of scores, the expected score is q (max(e, 0)^2 + sigma^2 r^2): r is the deviation left, q what was found over
what was expected on the judged segments, drawn to 1.

The fewer errors, the more often several texts have none: the chosen one is as good as any with probability
1 / (1 + exp(-a - b e / sigma)), a and b learned on other sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray
from ..lists import CandidateList
from ..surface import surface_feature
from .segment_values import first_best

TRAITS = 4
PSEUDO_SEGMENTS = 100.0  # behind default slopes
PSEUDO_SCALE = 20.0  # segments behind q = 1
STEEPEST = 500.0  # exponents beyond which a probability is 0 or 1


class Difficulty(NamedTuple):
    """How many errors texts of a list have; names as above.

    Args:
        intercept: c.
        slopes, means, scales: by trait, [4].
        residual: r.
        factor: q.
        calibration: a and b.
    """

    intercept: float
    slopes: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    residual: float
    factor: float
    calibration: tuple[float, ...]

    def errors(self, traits: FloatArray, leads: FloatArray) -> FloatArray:
        """e / sigma [...] of texts whose values are `leads` [...] above their list's mean, traits [..., 4]."""
        standardised = (traits - np.array(self.means)) / np.array(self.scales)
        return np.asarray(self.intercept + standardised @ np.array(self.slopes) - leads)

    def scores(self, errors: FloatArray, sigma: float, rooted: bool) -> FloatArray:
        """Expected scores [...] of texts with these e / sigma [...]."""
        if not rooted:
            return np.asarray(sigma * errors)
        squares = np.maximum(errors, 0.0) ** 2 + self.residual**2
        return np.asarray(self.factor * sigma**2 * squares)

    def probability(self, error: float) -> float:
        """That a text with this e / sigma is as good as any of its list."""
        a, b = self.calibration
        exponent = min(max(a + b * error, -STEEPEST), STEEPEST)
        return 1 / (1 + exp(-exponent))


def traits_of(record: CandidateList) -> FloatArray:
    """What can be told of a list from its texts, [4]."""
    texts = [str(candidate.text) for candidate in record.candidates]
    lengths = [len(text) for text in texts]
    traits = [
        float(np.log1p(np.median(lengths))),
        float(surface_feature("unshared", record).mean()),
        float(surface_feature("unusual-length", record).mean()),
        len(set(texts)) / len(texts),
    ]
    return np.array(traits)


def learned_difficulty(
    traits: FloatArray,
    errors: FloatArray,
    values: FloatArray,
    sigma: float,
    rooted: bool,
    default: Difficulty,
) -> Difficulty:
    """The difficulty that judged segments show.

    Args:
        traits: of every segment, [n, 4].
        errors: of all texts, nan where nobody judged one, [n, S].
        values: of all texts, by what other documents teach, [n, S].
        sigma: the unit.
        rooted: whether errors are roots of scores.
        default: from other sets: its slopes and calibration.
    """
    leads = values - np.nanmean(values, axis=1, keepdims=True)
    means, deviations = traits.mean(axis=0), traits.std(axis=0)
    scales = np.where(deviations > 0, deviations, 1.0)
    x = (traits - means) / scales
    # the mean error of a list's texts, whichever of them were judged
    relative = errors / sigma + leads
    levels = np.nanmean(relative, axis=1)
    intercept = float(levels.mean())
    penalty = PSEUDO_SEGMENTS * np.eye(TRAITS)
    targets = x.T @ (levels - intercept) + penalty @ np.array(default.slopes)
    slopes = np.linalg.solve(x.T @ x + penalty, targets)
    left = relative - (intercept + x @ slopes)[:, None]
    learned = default._replace(
        intercept=intercept,
        slopes=tuple(slopes.tolist()),
        means=tuple(means.tolist()),
        scales=tuple(scales.tolist()),
        residual=float(np.nanmean(left**2)) ** 0.5,
        factor=1.0,
    )
    if not rooted:
        return learned
    chosen = first_best(values)
    rows = np.arange(len(values))
    expected = learned.scores(learned.errors(traits, leads[rows, chosen]), sigma, rooted)
    return learned._replace(factor=_factor(errors[rows, chosen] ** 2, expected))


def _factor(scores: FloatArray, expected: FloatArray) -> float:
    """q from scores and expected ones, [n]."""
    known = ~np.isnan(scores)
    belief = PSEUDO_SCALE * float(expected.mean())
    total = float(expected[known].sum()) + belief
    return (float(scores[known].sum()) + belief) / total if total else 1.0


def calibration_of(errors: FloatArray, best: FloatArray, steps: int = 30) -> tuple[float, float]:
    """a and b by maximum likelihood, from e / sigma and whether each was as good as any (1 or 0), [n]."""
    x = np.stack([np.ones(len(errors)), errors], axis=1)
    b = np.zeros(2)
    for _ in range(steps):
        fitted = 1 / (1 + np.exp(-(x @ b)))
        curvature = x.T @ (x * (fitted * (1 - fitted))[:, None]) + np.eye(2)
        b = b + np.linalg.solve(curvature, x.T @ (best - fitted) - b)
    return float(b[0]), float(b[1])


def difficulty_of_sets(
    traits: Sequence[FloatArray],
    errors: Sequence[FloatArray],
    values: Sequence[FloatArray],
    sigmas: Sequence[float],
) -> Difficulty:
    """What several sets share, in units of sigma: means of what each shows, and the calibration over all.

    The arguments are those of `learned_difficulty`, by set; errors are roots of scores.
    """
    zeros, ones = (0.0,) * TRAITS, (1.0,) * TRAITS
    nothing = Difficulty(0.0, zeros, zeros, ones, 1.0, 1.0, (0.0, 0.0))
    shown, expected, best = [], [], []
    for own_traits, own_errors, own_values, sigma in zip(
        traits, errors, values, sigmas, strict=True
    ):
        relative = own_errors / sigma
        own = learned_difficulty(own_traits, relative, own_values, 1.0, True, nothing)
        shown.append(own)
        chosen = first_best(own_values)
        rows = np.arange(len(chosen))
        leads = own_values - np.nanmean(own_values, axis=1, keepdims=True)
        expected.append(own.errors(own_traits, leads[rows, chosen]))
        best.append(relative[rows, chosen] <= np.nanmin(relative, axis=1))
    means = {}
    for name in ("intercept", "slopes", "means", "scales", "residual", "factor"):
        mean = np.mean([getattr(own, name) for own in shown], axis=0)
        means[name] = float(mean) if mean.ndim == 0 else tuple(mean.tolist())
    calibration = calibration_of(np.concatenate(expected), np.concatenate(best).astype(float))
    return Difficulty(**means, calibration=calibration)  # type: ignore[arg-type]
