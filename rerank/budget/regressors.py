"""What is known of a pair before it is computed, as the regressors of its utility.

    x(h, r) = (1, [r is h itself], c(h, r), m(h), f_i(h), f_i(h) g_j(r))
c is the cheap utility, m its mean over references, f and g its leading singular vectors after the means of rows and
columns are taken out, of lengths in proportion to the singular values. Where there is one column, x(h) = (1, the cheap
utilities of h). c and m have mean 0 and variance 1. The cheap utility of a hypothesis with itself is replaced by the
mean of its row, which it would distort.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Problem

FACTORS = 6  # singular vectors of the cheap utilities


class Regressors(NamedTuple):
    """The regressors of a problem's pairs, by what they depend on.

    Args:
        shares: as in the problem, [H, R].
        selves: which column is the hypothesis itself, [H], -1 for none.
        cheap: cheap utilities, [H, R], or nothing.
        rows: what depends on the hypothesis alone, [H, m].
        left: f, [H, k].
        right: g, [R, k].
    """

    shares: FloatArray
    selves: IntArray
    cheap: FloatArray | None
    rows: FloatArray
    left: FloatArray
    right: FloatArray

    @property
    def kinds(self) -> list[str]:
        """What each regressor is, [p]."""
        num_cheap = 0 if self.cheap is None else 1
        num_left = self.left.shape[1]
        kind = "utility" if self.cheap is None else "mean"
        means = [kind] * (self.rows.shape[1] - 1 - num_left)
        products = ["product"] * (num_left * self.right.shape[1])
        return ["one", *means, *["left"] * num_left, "self", *["cheap"] * num_cheap, *products]

    def of(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """The regressors of n pairs, [n, p]."""
        parts = [self.rows[rows], (self.selves[rows] == columns)[:, None].astype(np.float64)]
        if self.cheap is not None:
            parts.append(self.cheap[rows, columns, None])
        parts += [self.left[rows, i, None] * self.right[columns] for i in range(self.left.shape[1])]
        return np.concatenate(parts, axis=1)

    def expected(self) -> FloatArray:
        """Their means over the references, by shares, [H, p]."""
        total = self.shares.sum(axis=1)
        num_rows = len(total)
        has_self = self.selves >= 0
        own = np.where(has_self, self.shares[np.arange(num_rows), self.selves], 0.0)
        parts = [self.rows * total[:, None], own[:, None]]
        if self.cheap is not None:
            parts.append((self.shares * self.cheap).sum(axis=1)[:, None])
        means = self.shares @ self.right
        parts += [self.left[:, i, None] * means for i in range(self.left.shape[1])]
        return np.concatenate(parts, axis=1)


def regressors_of(problem: Problem) -> Regressors:
    """The regressors of a problem."""
    shares, prior = problem.shares, problem.prior
    num_rows, num_columns = shares.shape
    one, none = np.ones((num_rows, 1)), np.zeros((num_rows, 0))
    nothing = Regressors(shares, problem.selves, None, one, none, np.zeros((num_columns, 0)))
    if prior is None:
        return nothing
    if num_columns == 1:
        return nothing._replace(rows=np.hstack([one, _standardised(prior)]))
    cheap = _without_selves(prior, problem.selves)
    cheap = (cheap - cheap.mean()) / _positive(cheap.std())
    left, right = _factors(cheap)
    means = _standardised((shares * cheap).sum(axis=1)[:, None])
    rows = np.hstack([one, means, left])
    return Regressors(shares, problem.selves, cheap, rows, left, right)


def _without_selves(prior: FloatArray, selves: IntArray) -> FloatArray:
    """Cheap utilities whose self pairs are the means of their rows' other pairs."""
    rows = np.flatnonzero(selves >= 0)
    cheap = prior.copy()
    num_others = prior.shape[1] - 1
    others = prior[rows].sum(axis=1) - prior[rows, selves[rows]]
    cheap[rows, selves[rows]] = others / max(1, num_others)
    return cheap


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
    return deviation or 1.0
