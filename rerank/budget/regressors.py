"""What is known of a pair before it is computed, as the regressors of its utility.

    x(h, r) = (1, [r is h itself], z_k(h, r), m_k(h), f_i(h), f_i(h) g_j(r))
z_k is what cheap utility k says beyond those before it (its residual), m_k the same of their means over references, f
and g the leading singular vectors of the first after the means of rows and columns are taken out, of lengths in
proportion to the singular values. Where there is one column, x(h) = (1, the cheap utilities of h). All z and m have
mean 0 and variance 1. The cheap utility of a hypothesis with itself is replaced by the mean of its row, which it would
distort.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Problem

FACTORS = 6  # singular vectors of the cheap utilities
NEW = 1e-3  # share of its variance that the residual of a cheap utility has at least, or it says nothing new


class Regressors(NamedTuple):
    """The regressors of a problem's pairs, by what they depend on.

    Args:
        shares: as in the problem, [H, R].
        selves: which column is the hypothesis itself, [H], -1 for none.
        cheap: residuals of cheap utilities, [K, H, R]; K is 0 where there are none of pairs.
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
        """What each regressor is, [p]."""
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
    num_rows, num_columns = shares.shape
    one, none = np.ones((num_rows, 1)), np.zeros((num_rows, 0))
    no_cheap, no_right = np.zeros((0, *shares.shape)), np.zeros((num_columns, 0))
    nothing = Regressors(shares, problem.selves, no_cheap, one, ["one"], none, no_right)
    if prior is None:
        return nothing
    if num_columns == 1:
        scores = _standardised(prior[:, :, 0].T)
        kinds = ["one", *["utility"] * len(prior)]
        return nothing._replace(rows=np.hstack([one, scores]), row_kinds=kinds)
    cheap = np.stack([_without_selves(matrix, problem.selves) for matrix in prior])
    left, right = _factors(_standardised(cheap[0].reshape(-1, 1)).reshape(shares.shape))
    means = _residuals((shares * cheap).sum(axis=2).T)
    cells = _residuals(cheap.reshape(len(cheap), -1).T)
    rows = np.hstack([one, means, left])
    kinds = ["one", *_kinds("mean", "trait", len(prior)), *["left"] * left.shape[1]]
    of_pairs = cells.T.reshape(cheap.shape)
    return Regressors(shares, problem.selves, of_pairs, rows, kinds, left, right)


def _kinds(first: str, further: str, count: int) -> list[str]:
    """What residuals are: the first is a cheap utility itself."""
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
    """What every column [n, K] has that those before it have not, with mean 0 and variance 1, or 0 throughout."""
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
