"""Densities of discourse roles in positional bins, and their divergences.

    p[n, k] = c[n, k] / sum_k c[n, k],     D(h || r) = 1/N sum_n sum_k A_r (ln A_r - ln A_h),   A = p + eps      (Eq. 1)

Sentence i of L goes to the last of the N bins whose edge j (L - 1) / N, j = 0 .. N - 1, is not above i; a lone
sentence goes to bin floor(N / 2). These are the edges of a numpy histogram over ``range(L)``, in the arithmetic of the
authors' code. Most cells of a density are 0, and those of the reference count for little:

    N D = s_r + eps t_h - sum_(n, k) p_r ln A_h,     s_r = sum_(p_r > 0) (A_r ln A_r - eps ln eps),
    t_h = sum_(p_h > 0) (ln eps - ln A_h).

The last sum is taken term by term in the order of the cells: over all of them for the pairs of a whole matrix at once,
over those that are not 0 for scattered pairs. Either way a value is a function of its pair alone to the last bit, which
a product of matrices would not promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from ...representations import FloatArray, IntArray, Ragged

TERMS = 1 << 20  # of sums over many pairs, at once
CACHED = 1 << 15  # cells of a matrix that is summed up at once
MAX_CELLS_PER_PAIR = 2  # a matrix with no more cells is computed whole
ROUNDING = 1e-13  # bound of the relative error of a sum


@lru_cache(maxsize=4096)
def bins_of(length: int, bins: int) -> IntArray:
    """The bin of every sentence of a document, [length].

    >>> bins_of(7, 2).tolist()
    [0, 0, 0, 1, 1, 1, 1]
    """
    if length == 1:
        return np.array([bins // 2])
    edges = np.arange(bins) * ((length - 1) / bins)
    edges_below = np.searchsorted(edges, np.arange(length), side="right")
    return edges_below.astype(np.int64) - 1


def counts(
    roles: Ragged,
    bins: int,
    size: int,
    owner: IntArray | None = None,
) -> FloatArray:
    """The number of sentences per bin and role, [documents, bins, size], or [sets, bins, size] over sets of documents.

    Args:
        roles: the roles of each document, numbers below `size`.
        bins: N.
        size: K, the number of roles.
        owner: the set of each document, [documents], numbers 0, 1, ... in ascending order.
    """
    if owner is None:
        owner = np.arange(len(roles))
    sets = int(owner[-1]) + 1 if len(owner) else 0
    # the bin of every sentence, document after document, [sentences]
    bins_per_document = [bins_of(length, bins) for length in roles.lengths.tolist() if length]
    sentence_bin = np.concatenate([*bins_per_document, np.empty(0, np.int64)])
    # the flat place of (set, bin, role) of every sentence
    sentence_owner = np.repeat(owner, roles.lengths)
    row = sentence_owner * bins + sentence_bin
    cell = row * size + roles.values.astype(np.int64)
    cell_counts = np.bincount(cell, minlength=sets * bins * size)
    return cell_counts.reshape(sets, bins, size).astype(float)


def in_parts(sizes: IntArray, budget: int) -> Iterator[slice]:
    """Slices of consecutive pieces of work with at most `budget` summed sizes [pieces] (one piece may be larger)."""
    ends = sizes.cumsum()
    start = 0
    while start < len(sizes):
        before = int(ends[start] - sizes[start])
        within_budget = int(np.searchsorted(ends, before + budget, "right"))
        stop = max(start + 1, within_budget)
        yield slice(start, stop)
        start = stop


class Densities(NamedTuple):
    """Role densities of some documents or sets in N bins."""

    bins: int
    p: FloatArray  # [documents, N K]
    log: FloatArray  # ln(p + eps)
    own: FloatArray  # s of each document, [documents]
    lost: FloatArray  # eps t of each document, [documents]
    filled: Ragged  # the cells of each document where p > 0

    @classmethod
    def of(cls, counted: FloatArray, eps: float) -> Self:
        """The densities of `counts` [documents, N, K]; an empty bin has the density 0 everywhere."""
        documents, bins, _ = counted.shape
        totals = counted.sum(axis=2, keepdims=True)
        p = (counted / np.maximum(totals, 1)).reshape(documents, -1)
        log = np.log(p + eps)
        # the terms of s and t, of the cells that are not 0
        row, cell = np.nonzero(p)
        filled_log = log[row, cell]
        empty_log = float(np.log(eps))
        filled_p = p[row, cell] + eps
        own = _sums(row, filled_p * filled_log - eps * empty_log, documents)
        lost = eps * _sums(row, empty_log - filled_log, documents)
        filled = Ragged.of_lengths(cell, np.bincount(row, minlength=documents))
        return cls(bins, p, log, own, lost, filled)

    def divergences(self, h: IntArray, r: IntArray) -> FloatArray:
        """D(h || r) of pairs of rows, [pairs] each."""
        rows = np.unique(h)
        columns = np.unique(r)
        if len(rows) * len(columns) <= MAX_CELLS_PER_PAIR * len(h):
            matrix = self._matrix(rows, columns)
            cross = matrix[np.searchsorted(rows, h), np.searchsorted(columns, r)]
        else:
            parts = in_parts(self.filled.lengths[r], TERMS)
            cross = np.concatenate([self._scattered(h[part], r[part]) for part in parts])
        return self._less(self.own[r] + self.lost[h], cross)

    def _matrix(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """sum p_r ln A_h of all rows h and columns r, [rows, columns]."""
        sums = np.zeros((len(rows), len(columns)))
        # a cell that is 0 for all references adds nothing: only the others, one per line, contiguous
        p = self.p[columns].T
        used = np.flatnonzero(p.any(axis=1))
        p = np.ascontiguousarray(p[used])  # [used, columns]
        log = np.ascontiguousarray(self.log[rows].T[used])  # [used, rows]
        # cell after cell, in their order, over as many rows as stay in the cache
        for part in in_parts(np.full(len(rows), len(columns)), CACHED):
            part_sums = sums[part]  # a view: [part, columns]
            term = np.empty_like(part_sums)
            for p_cell, log_cell in zip(p, log[:, part, None], strict=True):
                part_sums += np.multiply(log_cell, p_cell, out=term)
        return sums

    def _scattered(self, h: IntArray, r: IntArray) -> FloatArray:
        """sum p_r ln A_h of pairs of rows, [pairs]."""
        cells = self.filled[r]
        width = self.p.shape[1]
        pair = np.repeat(np.arange(len(r)), cells.lengths)  # [terms]
        at_p = r[pair] * width + cells.values
        at_log = h[pair] * width + cells.values
        terms = self.p.ravel().take(at_p) * self.log.ravel().take(at_log)
        return _sums(pair, terms, len(r))

    def _less(self, own: FloatArray, cross: FloatArray) -> FloatArray:
        """(own - cross) / N, and 0 where nothing but rounding is left of it, so that equal densities are at 0."""
        rest = own - cross
        error = ROUNDING * (np.abs(own) + np.abs(cross) + self.bins)
        rest[np.abs(rest) <= error] = 0
        return np.asarray(np.maximum(rest, 0) / self.bins)

    def expected(self, h: IntArray, r: IntArray, weights: FloatArray) -> FloatArray:
        """sum_r w_r D(h || r) of rows h, [hypotheses], in time linear in both: D is linear in p_r and s_r.

        sum_r w_r D(h || r) = (sum_r w_r s_r + sum_r w_r eps t_h - ln A_h . sum_r w_r p_r) / N
        """
        mean_p = (weights[:, None] * self.p[r]).sum(axis=0)  # [N K]
        cross = (self.log[h] * mean_p).sum(axis=1)
        mean_own = (weights * self.own[r]).sum()
        own = mean_own + weights.sum() * self.lost[h]
        return self._less(own, cross)


def _sums(rows: IntArray, values: FloatArray, size: int) -> FloatArray:
    """The sum of the values of every row, [size], added up in their order."""
    return np.asarray(np.bincount(rows, values, size), np.float64)
