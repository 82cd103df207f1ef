"""What the computed pairs say of the expected utilities: a linear model of the costly utility with random effects.

    u(h, r) = x(h, r) beta + a(r) + b(h) + e(h, r),   beta ~ N(0, B),  a ~ N(0, A),  b ~ N(0, T),  e ~ N(0, E)
    mu(h)   = sum over computed pairs of w u  +  sum over the others of w (x beta + a + b + e)
in units of the standard deviation of the computed pairs of two texts. Only what was not computed is uncertain: the
error of a whole row is 0. References are shared: their effects a(r) are common to all hypotheses, and cancel where
these are compared. The variances A, T, E, and those of most coefficients, are estimated by EM under a weak
prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Observed
from .regressors import Regressors
from .requests import BoolArray

BLOCK = 64  # columns of draws that are kept together
STEPS = 6  # of EM, from the variances of the last time
USUAL_SELF = 3.0  # units that a text is better against itself than against others
STRENGTH = 3.0  # observations that the prior of a variance counts for
# mean and variance of the coefficients of regressors that have none of their own in `Variances`
COEFFICIENTS = {
    "one": (0.0, 1.0),
    "mean": (-0.1, 0.1),
    "self": (0.0, 49.0),
    "cheap": (0.5, 0.2),
    "utility": (0.3, 0.25),
}


class Variances(NamedTuple):
    """A, T and E, and the variances of coefficients by kind, as shares of the computed pairs' variance.

    Args:
        column: A.
        row: T.
        noise: E.
        left: of f.
        product: of f g.
        trait: of m_k but the first.
        detail: of z_k but the first.
    """

    column: float
    row: float
    noise: float
    left: float
    product: float
    trait: float
    detail: float


USUAL = Variances(0.2, 0.12, 0.15, 0.08, 0.03, 0.1, 0.03)
OF_COEFFICIENTS = ("left", "product", "trait", "detail")


@dataclass(frozen=True, eq=False)
class Posterior:
    """The expected utilities of all hypotheses, given the computed pairs: normal, mean + factor z + deviation z'.

    Args:
        mean: [H].
        factor: what errors have in common, [H, d].
        deviation: of the errors that each has for itself, [H].
        variances: at which this holds.
    """

    mean: FloatArray
    factor: FloatArray
    deviation: FloatArray
    variances: Variances

    def draws(self, count: int) -> FloatArray:
        """Draws [count, H], the same ones every time."""
        own = normal_draws(0, count, len(self.mean)) * self.deviation
        common = normal_draws(1, count, self.factor.shape[1]) @ self.factor.T
        return self.mean + own + common


def normal_draws(seed: int, count: int, width: int) -> FloatArray:
    """Standard normal draws [count, width], whose first columns are the same at every width."""
    return _kept_draws(seed, count, -(-width // BLOCK) * BLOCK)[:width].T


@lru_cache(maxsize=32)
def _kept_draws(seed: int, count: int, width: int) -> FloatArray:
    """Standard normal draws [width, count], which are not made again for every step of every list."""
    draws = np.random.default_rng(seed).standard_normal((width, count))
    draws.flags.writeable = False
    return draws


class _Sums(NamedTuple):
    """Sums over the computed pairs, of which the normal equations consist; theta = (beta, a)."""

    gram: FloatArray  # of theta's regressors, [p + t, p + t]
    by_row: FloatArray  # theta's regressors summed by row, [H, p + t]
    counts: FloatArray  # pairs by row, [H]
    response: FloatArray  # theta's regressors times the response, [p + t]
    response_by_row: FloatArray  # [H]
    squares: float  # of the response


class _Solved(NamedTuple):
    theta: FloatArray  # [p + t]
    covariance: FloatArray  # of theta, [p + t, p + t]
    effects: FloatArray  # b, [H]
    own: FloatArray  # variance of b given theta, [H]
    slopes: FloatArray  # of b's mean in theta, [H, p + t]


def posterior(
    observed: Observed, features: Regressors, start: Variances = USUAL, steps: int = STEPS
) -> Posterior:
    """The posterior after some pairs; one of them must be a number."""
    rows, columns = np.nonzero(observed.known)
    utilities = observed.utilities[rows, columns]
    is_self = columns == features.selves[rows]
    scale = scale_of(utilities, is_self)
    response = (utilities - np.where(is_self, scale.of_selves, scale.centre)) / scale.unit
    used, place = np.unique(columns, return_inverse=True)
    regressors = features.of(rows, columns)
    sums = _sums(regressors, rows, place, response, observed, used)
    kinds = features.kinds
    variances = start
    for _ in range(steps):
        variances = _improved(sums, _solved(sums, kinds, variances), kinds)
    solved = _solved(sums, kinds, variances)
    return _of_rows(observed, features, regressors, rows, used, solved, variances, scale)


class UtilityScale(NamedTuple):
    """Mean and standard deviation of the pairs of two texts, and the mean of those of a text with itself."""

    centre: float
    unit: float
    of_selves: float


def scale_of(utilities: FloatArray, is_self: BoolArray) -> UtilityScale:
    """The scale of computed pairs [n]; one of zero width or of no pairs of a kind is replaced by what is usual."""
    others = utilities if is_self.all() else utilities[~is_self]
    values_of_selves = utilities[is_self]
    centre = float(others.mean())
    unit = max(float(others.std()), 1e-9 * abs(centre), 1e-300)
    if is_self.any():  # pairs that are all the same say nothing of how far apart others are
        gap = abs(float(values_of_selves.mean()) - centre)
        unit = gap / USUAL_SELF if unit <= 1e-12 * gap else unit
    # of any size: a kernel's is 1 where all others may be 1e-8
    of_selves = values_of_selves.mean() if is_self.any() else centre + USUAL_SELF * unit
    return UtilityScale(centre, unit, float(of_selves))


def _sums(
    regressors: FloatArray,
    rows: IntArray,
    place: IntArray,
    response: FloatArray,
    observed: Observed,
    used: IntArray,
) -> _Sums:
    num_rows, num_used, width = len(observed.seen), len(used), regressors.shape[1]
    seen = observed.known[:, used].astype(np.float64)
    gram = np.zeros((width + num_used, width + num_used))
    gram[:width, :width] = regressors.T @ regressors
    gram[:width, width:] = [np.bincount(place, column, num_used) for column in regressors.T]
    gram[width:, :width] = gram[:width, width:].T
    gram[width:, width:] = np.diag(seen.sum(axis=0))
    of_rows = [np.bincount(rows, column, num_rows) for column in regressors.T]
    return _Sums(
        gram,
        np.hstack([np.transpose(of_rows), seen]),
        seen.sum(axis=1),
        np.concatenate([response @ regressors, np.bincount(place, response, num_used)]),
        np.asarray(np.bincount(rows, response, num_rows), np.float64),
        float(response @ response),
    )


def coefficients(variances: Variances) -> dict[str, tuple[float, float]]:
    """Mean and variance of the coefficients of every kind."""
    return COEFFICIENTS | {kind: (0.0, size) for kind, size in variances._asdict().items()}


def _solved(sums: _Sums, kinds: list[str], variances: Variances) -> _Solved:
    """The normal equations, with the rows' effects eliminated."""
    row, noise = variances.row, variances.noise
    known = coefficients(variances)
    centre, loose = np.transpose([known[kind] for kind in kinds])
    own = 1 / (sums.counts / noise + 1 / row)
    slopes = -sums.by_row * (own / noise)[:, None]
    num_used = len(sums.gram) - len(loose)
    prior = np.concatenate([1 / loose, np.full(num_used, 1 / variances.column)])
    precision = (sums.gram + sums.by_row.T @ slopes) / noise + np.diag(prior)
    covariance = np.asarray(np.linalg.inv(precision), np.float64)
    response = (sums.response + slopes.T @ sums.response_by_row) / noise
    response[: len(kinds)] += centre / loose
    theta = covariance @ response
    effects = slopes @ theta + sums.response_by_row * own / noise
    return _Solved(theta, covariance, effects, own, slopes)


def _improved(sums: _Sums, solved: _Solved, kinds: list[str]) -> Variances:
    """One step of EM."""
    has_pairs = sums.counts > 0
    spread = solved.slopes @ solved.covariance
    of_effects = solved.own + (spread * solved.slopes).sum(axis=1)
    squares_of_rows = (solved.effects**2 + of_effects)[has_pairs]
    squares = solved.theta**2 + np.diag(solved.covariance)
    num_columns = len(squares) - len(kinds)
    # residuals: those of the means, and what theta and b add
    theta, effects = solved.theta, solved.effects
    fitted = sums.gram @ theta + sums.by_row.T @ effects
    of_rows = sums.by_row @ theta + sums.counts * effects
    residual = sums.squares - 2 * (sums.response @ theta + sums.response_by_row @ effects)
    residual += theta @ fitted + effects @ of_rows
    combined = sums.gram + 2 * sums.by_row.T @ solved.slopes
    combined += solved.slopes.T @ (sums.counts[:, None] * solved.slopes)
    residual += float((combined * solved.covariance).sum() + sums.counts @ solved.own)
    return Variances(
        _variance(squares[len(kinds) :].sum(), num_columns, USUAL.column),
        _variance(squares_of_rows.sum(), int(has_pairs.sum()), USUAL.row),
        _variance(float(residual), int(sums.counts.sum()), USUAL.noise),
        *(_of_kind(kind, squares[: len(kinds)], kinds) for kind in OF_COEFFICIENTS),
    )


def _of_kind(kind: str, squares: FloatArray, kinds: list[str]) -> float:
    """The variance of the coefficients of a kind, from the expected squares of all, [p]."""
    of_kind = squares[[each == kind for each in kinds]]
    return _variance(of_kind.sum(), len(of_kind), getattr(USUAL, kind))


def _variance(squares: float, count: int, usual: float) -> float:
    """The mode of a variance under its prior, never 0."""
    return max((squares + STRENGTH * usual) / (count + STRENGTH), 1e-8)


def _of_rows(
    observed: Observed,
    features: Regressors,
    regressors: FloatArray,
    rows: IntArray,
    used: IntArray,
    solved: _Solved,
    variances: Variances,
    scale: UtilityScale,
) -> Posterior:
    """The expectations of rows, of which the computed part is known."""
    shares = observed.problem.shares
    known = np.where(observed.known, shares, 0.0)
    unseen = shares - known
    missing = unseen.sum(axis=1)
    of_pairs = regressors * shares[observed.known][:, None]
    computed = [np.bincount(rows, column, len(shares)) for column in of_pairs.T]
    weights = np.hstack([features.expected() - np.transpose(computed), unseen[:, used]])
    sums = (np.where(known > 0, observed.utilities, 0.0) * known).sum(axis=1)
    own = np.flatnonzero(features.selves >= 0)
    mean = sums + missing * scale.centre
    mean[own] += unseen[own, features.selves[own]] * (scale.of_selves - scale.centre)
    mean += scale.unit * (weights @ solved.theta + missing * solved.effects)
    common = weights + missing[:, None] * solved.slopes
    factor = common @ np.linalg.cholesky(solved.covariance)
    variance = missing**2 * solved.own + variances.noise * (unseen**2).sum(axis=1)
    return Posterior(mean, scale.unit * factor, scale.unit * np.sqrt(variance), variances)
