"""Densities of discourse roles in positional bins, and their divergences.

    p[n, k] = c[n, k] / sum_k c[n, k],     D(h || r) = 1/N sum_n sum_k A_r (ln A_r - ln A_h),   A = p + eps      (Eq. 1)

Sentence i of L goes to the last of the N bins whose edge j (L - 1) / N, j = 0 .. N - 1, is not above i; a lone
sentence goes to bin floor(N / 2). These are the edges of a numpy histogram over ``range(L)``, in the arithmetic of the
authors' code. Most cells of a density are 0, so a divergence is summed over the cells that the reference has:

    N D = sum_(p_r > 0) A_r (ln A_r - ln A_h) + eps (t_h - sum_(p_r > 0) (ln eps - ln A_h)),
    t_h = sum_(p_h > 0) (ln eps - ln A_h).

Sums are taken cell by cell in one order, so a value is a function of its pair alone to the last bit, which a product
of matrices would not promise, and a divergence from itself is exactly 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from ..reps import FloatArray, IntArray, Ragged

TERMS = 1 << 20  # of sums over many pairs, at once
ROUNDING = 1e-13  # relative error of a sum, more than there is


@lru_cache(maxsize=4096)
def bins_of(length: int, bins: int) -> IntArray:
    """The bin of every sentence of a document, [length].

    >>> bins_of(7, 2).tolist()
    [0, 0, 0, 1, 1, 1, 1]
    """
    if length == 1:
        return np.array([bins // 2])
    edges = np.arange(bins) * ((length - 1) / bins)
    return np.searchsorted(edges, np.arange(length), side="right").astype(np.int64) - 1


def counts(roles: Ragged, bins: int, size: int, owner: IntArray | None = None) -> FloatArray:
    """How often every role is in every bin, [documents, bins, size], or [sets, bins, size] over sets of documents.

    Args:
        roles: the roles of each document, numbers below `size`.
        bins: N.
        size: K, the number of roles.
        owner: the set of each document, [documents], numbers 0, 1, ... in ascending order.
    """
    whose = np.arange(len(roles)) if owner is None else owner
    places = [bins_of(length, bins) for length in roles.lengths.tolist() if length]
    place = np.concatenate([*places, np.empty(0, np.int64)])
    cell = (np.repeat(whose, roles.lengths) * bins + place) * size + roles.values.astype(np.int64)
    sets = int(whose[-1]) + 1 if len(whose) else 0
    return np.bincount(cell, minlength=sets * bins * size).reshape(sets, bins, size).astype(float)


def in_parts(sizes: IntArray, budget: int) -> Iterator[slice]:
    """Consecutive pieces of work of at most `budget` summed sizes (one may be larger)."""
    ends, start = sizes.cumsum(), 0
    while start < len(sizes):
        before = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, "right")))
        yield slice(start, stop)
        start = stop


class Densities(NamedTuple):
    """Role densities of some documents or sets in N bins."""

    bins: int
    eps: float
    a: FloatArray  # p + eps, [documents, N K]
    log: FloatArray  # ln of it
    filled: Ragged  # the cells of each document where p > 0
    lost: FloatArray  # t of each document, [documents]

    @classmethod
    def of(cls, counted: FloatArray, eps: float) -> Self:
        """The densities of `counts` [documents, N, K]; an empty bin has the density 0 everywhere."""
        documents, bins, _ = counted.shape
        p = (counted / np.maximum(counted.sum(axis=2, keepdims=True), 1)).reshape(documents, -1)
        row, cell = np.nonzero(p)
        a = p + eps
        log = np.log(a)
        lost = np.bincount(row, np.log(eps) - log[row, cell], documents)
        return cls(bins, eps, a, log, Ragged.of_lengths(cell, np.bincount(row, minlength=documents)), lost)

    def divergences(self, h: IntArray, r: IntArray) -> FloatArray:
        """D(h || r) of pairs of rows, [pairs] each."""
        found = np.empty(len(h))
        for part in in_parts(self.filled.lengths[r], TERMS):
            found[part] = self._divergences(h[part], r[part])
        return found

    def _divergences(self, h: IntArray, r: IntArray) -> FloatArray:
        cells, width = self.filled[r], self.a.shape[1]
        pair = np.repeat(np.arange(len(r)), cells.lengths)
        own = r[pair] * width + cells.values
        log_h = self.log.ravel().take(h[pair] * width + cells.values)
        shared = np.bincount(pair, self.a.ravel().take(own) * (self.log.ravel().take(own) - log_h), len(r))
        known = np.bincount(pair, np.log(self.eps) - log_h, len(r))
        return np.maximum(shared + self.eps * (self.lost[h] - known), 0) / self.bins

    def expected(self, h: IntArray, r: IntArray, weights: FloatArray) -> FloatArray:
        """sum_r w_r D(h || r) of rows h, [hypotheses], in time linear in both: D is linear in A_r.

        sum_r w_r D(h || r) = (sum_r w_r s_r - ln A_h . sum_r w_r A_r) / N,     s_r = A_r . ln A_r

        Where nothing but rounding is left of the difference it is 0, as in the pairs, so that equal texts stay equal.
        """
        a = self.a[r]
        mean = (weights[:, None] * a).sum(axis=0)
        own = (weights * (a * self.log[r]).sum(axis=1)).sum()
        cross = (self.log[h] * mean).sum(axis=1)
        found = np.maximum(own - cross, 0) / self.bins
        found[np.abs(own - cross) <= ROUNDING * (abs(own) + np.abs(cross))] = 0
        return found
