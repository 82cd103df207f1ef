"""From judged segments to a chooser: how much systems count, and the weights of features beside consensus.

    value(h) = b_0 z(mu(h)) + sum_f b_f z(x_f(h)),     mu(h) = sum_r w(r) u(h, r) / W,    w(r) = exp(-k m(r) / sigma)
is minus the error expected of a text, in units of sigma, up to a constant of its list; z standardises within the list,
m and sigma are the prior over systems (`selection.shrinkage`), k its strength; the largest of the strengths ships the
best system. Every segment is valued with systems' means from other documents (cross-fitting): a system would look too
good on the segments that made its mean. Then, for every strength,

    b(k) = argmin_b sum_is (-y_is / sigma - x_is b)^2 + P S |b - b*(k)|^2              (y, x centred within segments)
    k = argmin_k p(k) + 1.64 q(k),      p = (l / v + l* / t^2) q^2,      q^-2 = 1 / v + 1 / t^2
l(k) is how much more errors, in sigma, texts have that are chosen at strength k than those at strength k*, v its
variance from document to document. b*, l*, k*, and t, the standard deviation of l from set to set, are defaults from
other sets. p and q are the posterior mean and deviation: another strength than k* is taken where it is better with
95 %. So where few are judged a chooser has default weights and strength, and without any it is that of strength 0. A
ridge is a linear system of 1 + F unknowns: exact, without a seed, and as fast as the sums over segments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.representations import FloatArray, IntArray
from ..selection.shrinkage import groups, shrunk
from .measured import MeasuredTexts
from .segment_values import expected, first_best

SHIP = 1e6  # a strength at which the best system's text is always chosen
STRENGTHS = (0.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0, SHIP)
PSEUDO_SEGMENTS = 500.0  # P
FOLDS, BLOCK = 5, 10
CAUTION = 1.64  # deviations, of 95 % on one side


class Defaults(NamedTuple):
    """What is believed before anything is judged.

    Args:
        weights: b*, of consensus first, for every strength, [K, 1 + F].
        losses: l*, for every strength, [K]; 0 for k*, the best.
        spreads: t, for every strength, [K].
    """

    weights: FloatArray
    losses: FloatArray
    spreads: FloatArray

    @property
    def best(self) -> int:
        """The number of k*."""
        return int(self.losses.argmin())


class Fit(NamedTuple):
    """What was learned.

    Args:
        strength: k.
        weights: b, of consensus first, [1 + F].
        means: m of every system, [S].
        sigma: the unit of errors.
        losses: p + 1.64 q of every strength, [K]; the least is that of k.
        held_out: value(h) of every judged text of the domain, systems' means from other documents, [n judged, S].
    """

    strength: float
    weights: FloatArray
    means: FloatArray
    sigma: float
    losses: FloatArray
    held_out: FloatArray

    def values(self, data: MeasuredTexts) -> FloatArray:
        """value(h) of every text, [n, S]."""
        consensus = expected(data.utilities, self.means, self.sigma, self.strength)
        return np.asarray(self.weights[0] * consensus + data.columns @ self.weights[1:])

    def choices(self, data: MeasuredTexts) -> IntArray:
        """The number of the system whose text is chosen, [n]."""
        return first_best(self.values(data))


def fit(
    data: MeasuredTexts,
    defaults: Defaults,
    pseudo: float = PSEUDO_SEGMENTS,
    ship: bool = False,
) -> Fit:
    """The chooser of some segments, judged or not; those that are not say nothing.

    Args:
        data: the segments.
        defaults: what is believed beforehand.
        pseudo: P.
        ship: whether the best system's texts are taken, whatever the losses say.
    """
    num_systems = data.errors.shape[1]
    judged = data.rows(data.judged)
    if not len(judged.errors):
        return Fit(
            0.0, defaults.weights[0], np.zeros(num_systems), 1.0, defaults.losses, judged.errors
        )
    means, sigma = effects(judged.errors, judged.document, judged.weight)
    consensus = cross_fitted(judged)
    weights = np.stack(
        [
            ridge(judged, sigma, of_strength, b, pseudo)
            for of_strength, b in zip(consensus, defaults.weights, strict=True)
        ]
    )
    weights[-1] = _alone(weights[-1])
    # strength, and what is expected, are of the domain itself
    own = judged.own
    judged, consensus = judged.rows(own), consensus[:, own]
    errors = chosen_errors(judged, sigma, consensus, weights)
    losses = shrunk_losses(errors - errors[defaults.best], judged.document, defaults)
    k = len(STRENGTHS) - 1 if ship else int(losses.argmin())
    held_out = weights[k][0] * consensus[k] + judged.columns @ weights[k][1:]
    return Fit(STRENGTHS[k], weights[k], means, sigma, losses, held_out)


def chosen_errors(
    data: MeasuredTexts,
    sigma: float,
    consensus: FloatArray,
    weights: FloatArray,
) -> FloatArray:
    """What is chosen at every strength: its error less the segment's mean, over sigma, [K, n]; nan where not judged."""
    rows = []
    for own, b in zip(consensus, weights, strict=True):
        chosen = first_best(b[0] * own + data.columns @ b[1:])
        rows.append(standardised(data.errors, sigma, chosen))
    return np.stack(rows)


def shrunk_losses(
    differences: FloatArray,
    document: IntArray,
    defaults: Defaults,
) -> FloatArray:
    """p + 1.64 q of every strength, [K], from differences [K, n] of errors."""
    losses = []
    for own, default, spread in zip(differences, defaults.losses, defaults.spreads, strict=True):
        known = ~np.isnan(own)
        mean, variance = clustered_mean(own[known], document[known])
        prior_variance = spread**2
        if np.isinf(variance):
            losses.append(default + CAUTION * spread)
            continue
        total = variance + prior_variance
        share = prior_variance / total if total else 0.0
        deviation = (share * variance) ** 0.5
        losses.append(share * mean + (1 - share) * default + CAUTION * deviation)
    return np.array(losses)


def clustered_mean(values: FloatArray, document: IntArray) -> tuple[float, float]:
    """The mean of values [n] and its variance, by documents (or blocks, where there is one).

    The variance is at least that of independent values, and wider by `few_units`.
    """
    if not len(values):
        return 0.0, np.inf
    number = np.unique(folding_units(document), return_inverse=True)[1]
    num_units = int(number.max()) + 1
    mean = float(values.mean())
    if few_units(num_units) == np.inf:
        return mean, np.inf
    residuals = values - mean
    independent = float((residuals**2).sum()) / (len(values) - 1) / len(values)
    sums = np.bincount(number, residuals)
    clustered = num_units / (num_units - 1) * float((sums**2).sum()) / len(values) ** 2
    return mean, max(independent, clustered) * few_units(num_units)


def few_units(num_units: int) -> float:
    """How much wider a variance is that was itself estimated from so many documents: that of Student's t.

    >>> few_units(5), few_units(3)
    (2.0, inf)
    """
    return (num_units - 1) / (num_units - 3) if num_units > 3 else np.inf


def _alone(weights: FloatArray) -> FloatArray:
    """Weights by which consensus alone decides."""
    return np.concatenate([np.ones(1), np.zeros(len(weights) - 1)])


def effects(
    errors: FloatArray, document: IntArray, weight: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """The prior means [S] and sigma from errors [n, S]; all 0 and 1 where judgements do not suffice.

    A system that nobody judged has the mean of all.
    """
    means = np.zeros(errors.shape[1])
    usable = (~np.isnan(errors)).sum(axis=1) > 1
    own, numbers = errors[usable], document[usable]
    judged = np.flatnonzero((~np.isnan(own)).any(axis=0))
    own = own[:, judged]
    known = ~np.isnan(own)
    degrees_of_freedom = known.sum() - len(own) - len(judged) + 1
    if not len(own) or degrees_of_freedom < 1 or groups(known.astype(float)).any():
        return means, 1.0
    estimates = shrunk(own, numbers, None if weight is None else weight[usable])
    means[judged] = estimates.means
    return means, estimates.sigma or 1.0


def cross_fitted(data: MeasuredTexts) -> FloatArray:
    """Standardised expected utilities of every strength, systems' means from other documents, [K, n, S]."""
    fold = folds(data.document)
    consensus = np.zeros((len(STRENGTHS), *data.errors.shape))
    for held in range(int(fold.max()) + 1):
        rest, own = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        others = data.rows(rest)
        means, sigma = effects(others.errors, others.document, others.weight)
        for k, strength in enumerate(STRENGTHS):
            consensus[k, own] = expected(data.utilities[own], means, sigma, strength)
    return consensus


def folds(document: IntArray) -> IntArray:
    """The fold of every segment [n]: documents dealt out in turn, largest first; of one document, blocks of segments.

    >>> folds(np.array([0, 0, 0, 1, 2])).tolist()
    [0, 0, 0, 1, 2]
    """
    units = folding_units(document)
    number = np.unique(units, return_inverse=True)[1]
    order = np.argsort(-np.bincount(number), kind="stable")
    fold_of = np.empty(len(order), int)
    fold_of[order] = np.arange(len(order)) % FOLDS
    return np.asarray(fold_of[number])


def folding_units(document: IntArray) -> IntArray:
    """The documents of segments [n], or blocks of segments where there is one."""
    if len(np.unique(document)) > 1:
        return document
    return np.asarray(np.arange(len(document)) // BLOCK)


def ridge(
    data: MeasuredTexts,
    sigma: float,
    consensus: FloatArray,
    default: FloatArray,
    pseudo: float,
) -> FloatArray:
    """b of one strength, [1 + F], from standardised expected utilities [n, S]."""
    products, targets = ridge_sums(data, sigma, consensus)
    penalty = pseudo * data.errors.shape[1] * np.eye(len(default))
    return np.linalg.solve(products + penalty, targets + penalty @ default)


def ridge_sums(
    data: MeasuredTexts,
    sigma: float,
    consensus: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """X'X [1 + F, 1 + F] and X'y [1 + F] over the judged texts, both centred within segments."""
    x = np.concatenate([consensus[:, :, None], data.columns], axis=2)
    known = ~np.isnan(data.errors)
    y = _centred(-data.errors[:, :, None] / sigma, known)
    x = _centred(x, known)
    weighted = x if data.weight is None else x * data.weight[:, None, None]
    flat, weighted = x.reshape(-1, x.shape[2]), weighted.reshape(-1, x.shape[2])
    return weighted.T @ flat, weighted.T @ y.ravel()


def _centred(values: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Values [n, S, F] less their segment's mean over the judged texts [n, S], 0 for the others."""
    mask = known[:, :, None]
    kept = np.where(mask, values, 0.0)
    means = kept.sum(axis=1, keepdims=True) / known.sum(axis=1)[:, None, None]
    return np.asarray(np.where(mask, kept - means, 0.0))


def standardised(errors: FloatArray, sigma: float, chosen: IntArray) -> FloatArray:
    """The error of what is chosen less the segment's mean, over sigma, [n]; nan where nobody judged it."""
    means = np.nanmean(errors, axis=1)
    own = np.take_along_axis(errors, chosen[:, None], axis=1)[:, 0]
    return np.asarray((own - means) / sigma)
