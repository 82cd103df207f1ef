"""Posterior of expected utilities given the computed pairs: a linear model of the costly utility with random effects.

    u(h, r) = x(h, r) beta + a(r) + b(h) + e(h, r),   beta ~ N(0, B),  a ~ N(0, A),  b ~ N(0, T),  e ~ N(0, E)
    mu(h)   = sum over computed pairs of w u  +  sum over the others of w (x beta + a + b + e)
in units of the standard deviation of the computed pairs of two texts. Only what was not computed is uncertain: the
error of a whole row is 0. References are shared: their effects a(r) are common to all hypotheses, and cancel where
these are compared. The variances A, T, E, and those of most coefficients, are estimated by EM under a weak
prior.

One list while its plan runs: what is known beforehand, the budget, and the pairs that were computed.

What is known of a pair before it is computed, as the regressors of its utility.

    x(h, r) = (1, [r is h itself], z_k(h, r), m_k(h), f_i(h), f_i(h) g_j(r))
z_k is what cheap utility k says beyond those before it (its residual), m_k the same of their means over references, f
and g the leading singular vectors of the first after the means of rows and columns are taken out, of lengths in
proportion to the singular values. All z and m have mean 0 and variance 1. The cheap utility of a hypothesis with itself
is replaced by the mean of its row, which it would distort.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.representations import FloatArray, IntArray
from .statement import Target

BoolArray = NDArray[np.bool_]
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
}


class Request(NamedTuple):
    """A block of pairs: all of these hypotheses with all of these pseudo-references."""

    rows: IntArray  # [h]
    columns: IntArray  # [r]


# is sent the utilities [rows, columns] of each request, higher is better
Asking = Generator[Request, FloatArray, None]


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


@dataclass(frozen=True, eq=False)
class Problem:
    """A list before any pair of it is computed.

    Args:
        shares: of each pseudo-reference in each hypothesis' expectation, [H, R]; rows sum to 1, or to 0 where nothing
            counts.
        prior: cheap utilities, [K, H, R].
        selves: which column is the hypothesis itself, [H], -1 for none.
        pairs: how many may be computed.
        target: what stops the plan before its budget is used up.
        nbest: how many places are ranked.
        symmetric: whether u(h, r) = u(r, h), so that two texts are one pair; every hypothesis has then a column.
        addend: what is known of all utilities and added to what is computed, [H, R]; None for nothing.
    """

    shares: FloatArray
    prior: FloatArray
    selves: IntArray
    pairs: int
    target: Target
    nbest: int
    symmetric: bool = False
    addend: FloatArray | None = None

    @property
    def num_rows(self) -> int:
        """H."""
        return len(self.shares)

    @cached_property
    def columns(self) -> IntArray:
        """The pseudo-references that count for some hypothesis."""
        return np.flatnonzero(self.shares.any(axis=0))

    @cached_property
    def rows_of(self) -> IntArray:
        """The row of the text of each column, [R], -1 where it is no hypothesis."""
        rows = np.full(self.shares.shape[1], -1)
        has_own = np.flatnonzero(self.selves >= 0)
        rows[self.selves[has_own]] = has_own
        return rows

    @property
    def weighs_selves(self) -> bool:
        """Whether hypotheses have unequal shares in their own expectations."""
        rows = np.flatnonzero(self.selves >= 0)
        shares = self.shares[rows, self.selves[rows]]
        return bool(len(shares) and np.ptp(shares) > 0)


@dataclass(eq=False)
class Observed:
    """The pairs of a problem that were computed, or are those the other way round; the others are NaN."""

    problem: Problem
    utilities: FloatArray = field(init=False)  # [H, R]
    seen: BoolArray = field(init=False)  # [H, R]
    pairs: int = 0  # how many were computed

    def __post_init__(self) -> None:
        shape = self.problem.shares.shape
        self.utilities = np.full(shape, np.nan)
        self.seen = np.zeros(shape, bool)

    @property
    def left(self) -> int:
        """How many may still be computed."""
        return self.problem.pairs - self.pairs

    @property
    def known(self) -> BoolArray:
        """Which pairs were computed and are numbers, [H, R]."""
        return self.seen & np.isfinite(self.utilities)

    @property
    def broken(self) -> BoolArray:
        """The rows with a pair that counts and is no number: they have no expectation, and are never chosen."""
        missing = self.seen & ~np.isfinite(self.utilities) & (self.problem.shares > 0)
        return np.asarray(missing.any(axis=1))

    def new_pairs(self, rows: IntArray, columns: IntArray) -> BoolArray:
        """Which pairs of a block would be computed if its columns were asked for one after the other."""
        is_new = ~self.seen[np.ix_(rows, columns)]
        if not self.problem.symmetric:
            return is_new
        place = np.full(self.seen.shape[1], len(columns))
        place[columns] = np.arange(len(columns))
        # the other way round it is a pair of an earlier column
        is_earlier = place[self.problem.selves[rows]][:, None] < np.arange(len(columns))
        is_inner = np.isin(self.problem.rows_of[columns], rows)
        return is_new & ~(is_earlier & is_inner)

    def ask(self, rows: IntArray, columns: IntArray) -> Asking:
        """Has those pairs of a block computed that are not seen, in blocks without a pair twice."""
        if self.problem.symmetric:
            yield from self._ask_among_themselves(rows, columns)
        unseen = ~self.seen[np.ix_(rows, columns)]
        patterns, places = np.unique(unseen, axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            if pattern.any():
                yield from self._ask_block(rows[places.ravel() == i], columns[pattern])

    def _ask_among_themselves(self, rows: IntArray, columns: IntArray) -> Asking:
        """The pairs of those texts that are rows and columns of a block: of both ways round, one is computed."""
        inner = rows[np.isin(self.problem.selves[rows], columns)]
        own = self.problem.selves[inner]
        is_new = ~self.seen[np.ix_(inner, own)].any(axis=1)
        yield from self._ask_block(inner[is_new], own[is_new])
        for row in inner[~is_new].tolist():
            unseen = own[~self.seen[row, own]]
            yield from self._ask_block(np.array([row]), unseen)

    def _ask_block(self, rows: IntArray, columns: IntArray) -> Asking:
        """Has a block of unseen pairs computed; a square one of a symmetric utility has pairs of two or one text."""
        if not len(rows) or not len(columns):
            return
        block = np.ix_(rows, columns)
        utilities = yield Request(rows, columns)
        self._set(block, utilities)
        self.pairs += utilities.size
        if not self.problem.symmetric:
            return
        if np.array_equal(self.problem.selves[rows], columns):
            self.pairs -= len(rows) * (len(rows) - 1) // 2
        self._set(np.ix_(self.problem.rows_of[columns], self.problem.selves[rows]), utilities.T)

    def _set(self, block: tuple[IntArray, ...], utilities: FloatArray) -> None:
        """Takes the computed utilities of a block."""
        addend = self.problem.addend
        self.utilities[block] = utilities if addend is None else utilities + addend[block]
        self.seen[block] = True


FACTORS = 6  # singular vectors of the cheap utilities
NEW = 1e-3  # share of its variance that the residual of a cheap utility has at least, or it says nothing new


class Regressors(NamedTuple):
    """The regressors of a problem's pairs, by what they depend on.

    Args:
        shares: as in the problem, [H, R].
        selves: which column is the hypothesis itself, [H], -1 for none.
        cheap: residuals of cheap utilities, [K, H, R].
        rows: what depends on the hypothesis alone, [H, m].
        row_kinds: what each of these is, [m].
        left: f, [H, k].
        right: g, [R, k].
    """

    shares: FloatArray
    selves: IntArray
    cheap: FloatArray
    rows: FloatArray
    row_kinds: list[str]
    left: FloatArray
    right: FloatArray

    @property
    def kinds(self) -> list[str]:
        """The names of the regressors, [p]."""
        products = ["product"] * (self.left.shape[1] * self.right.shape[1])
        return [*self.row_kinds, "self", *_kinds("cheap", "detail", len(self.cheap)), *products]

    def of(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """The regressors of n pairs, [n, p]."""
        is_self = (self.selves[rows] == columns)[:, None].astype(np.float64)
        parts = [self.rows[rows], is_self, self.cheap[:, rows, columns].T]
        parts += [self.left[rows, i, None] * self.right[columns] for i in range(self.left.shape[1])]
        return np.concatenate(parts, axis=1)

    def expected(self) -> FloatArray:
        """Their means over the references, by shares, [H, p]."""
        total = self.shares.sum(axis=1)
        num_rows = len(total)
        has_self = self.selves >= 0
        own = np.where(has_self, self.shares[np.arange(num_rows), self.selves], 0.0)
        parts = [self.rows * total[:, None], own[:, None]]
        parts.append((self.shares * self.cheap).sum(axis=2).T)
        means = self.shares @ self.right
        parts += [self.left[:, i, None] * means for i in range(self.left.shape[1])]
        return np.concatenate(parts, axis=1)


def regressors_of(problem: Problem) -> Regressors:
    """The regressors of a problem."""
    shares, prior = problem.shares, problem.prior
    cheap = np.stack([_without_selves(matrix, problem.selves) for matrix in prior])
    left, right = _factors(_standardised(cheap[0].reshape(-1, 1)).reshape(shares.shape))
    means = _residuals((shares * cheap).sum(axis=2).T)
    cells = _residuals(cheap.reshape(len(cheap), -1).T)
    rows = np.hstack([np.ones((len(shares), 1)), means, left])
    kinds = ["one", *_kinds("mean", "trait", len(prior)), *["left"] * left.shape[1]]
    of_pairs = cells.T.reshape(cheap.shape)
    return Regressors(shares, problem.selves, of_pairs, rows, kinds, left, right)


def _kinds(first: str, further: str, count: int) -> list[str]:
    """Kinds of residuals: the first is a cheap utility itself."""
    return ([first] + [further] * (count - 1))[:count]


def _without_selves(cheap: FloatArray, selves: IntArray) -> FloatArray:
    """Cheap utilities [H, R] whose self pairs are the means of their rows' other pairs."""
    rows = np.flatnonzero(selves >= 0)
    replaced = cheap.copy()
    num_others = cheap.shape[1] - 1
    others = cheap[rows].sum(axis=1) - cheap[rows, selves[rows]]
    replaced[rows, selves[rows]] = others / max(1, num_others)
    return replaced


def _residuals(columns: FloatArray) -> FloatArray:
    """Residuals of every column [n, K] given those before it, with mean 0 and variance 1, or 0 throughout."""
    columns = _standardised(columns)
    residuals = np.zeros_like(columns)
    for k, column in enumerate(columns.T):
        explained = residuals[:, :k] @ (residuals[:, :k].T @ column) / len(column)
        left_over = column - explained
        if (left_over**2).mean() > NEW:
            residuals[:, k] = _standardised(left_over[:, None])[:, 0]
    return residuals


def _factors(cheap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The leading singular vectors of the doubly centred cheap utilities, [H, k] and [R, k]."""
    centred = cheap - cheap.mean(axis=1, keepdims=True) - cheap.mean(axis=0) + cheap.mean()
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    count = min(FACTORS, len(right) - 1)
    relative = (sizes / _positive(sizes[0]))[:count]
    return _standardised(left[:, :count]) * relative, _standardised(right[:count].T) * relative


def _standardised(columns: FloatArray) -> FloatArray:
    """Every column [n, d] with mean 0 and variance 1, or 0 throughout."""
    centred = columns - columns.mean(axis=0)
    deviations = centred.std(axis=0)
    size = np.abs(columns).max(axis=0, initial=0.0)
    is_constant = deviations <= 1e-12 * size
    return np.where(is_constant, 0.0, centred / np.where(is_constant, 1.0, deviations))


def _positive(deviation: float) -> float:
    return float(deviation) or 1.0
