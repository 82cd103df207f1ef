"""An order of a list's rows and columns that does not depend on how the list was ordered.

A plan works in this order, so that the same texts in another order get the same draws, the same ties and the same sums.
Rows stand by their mean cheap utility, columns by theirs, best first, then by all their sorted cheap utilities and by
their weights. Where there are no cheap utilities, or two rows have all alike, the order of the list decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .requests import Request


class Order(NamedTuple):
    """Which row and column of the list stands in each place."""

    rows: IntArray  # [H]
    columns: IntArray  # [R]

    def original(self, request: Request) -> Request:
        """A request in places, as one in the list's own numbers."""
        return Request(self.rows[request.rows], self.columns[request.columns])


def canonical_order(
    prior: FloatArray | None, weights: FloatArray, own: FloatArray | None, num_rows: int
) -> Order:
    """The order of a list; `prior` is [K, H, R]."""
    if prior is None:
        return Order(np.arange(num_rows), np.argsort(-weights, kind="stable"))
    overall = _of_one_scale(prior).sum(axis=0)
    return Order(_by_contents(overall, own), _by_contents(overall.T, weights))


def _of_one_scale(prior: FloatArray) -> FloatArray:
    """Cheap utilities [K, H, R] in units of their deviations, to the same bit in every order of H and R."""
    deviations = np.sort(prior.reshape(len(prior), -1), axis=1).std(axis=1)
    return prior / np.where(deviations > 0, deviations, 1.0)[:, None, None]


def _by_contents(vectors: FloatArray, weights: FloatArray | None) -> IntArray:
    """An order of vectors [n, d] that no order of their elements changes."""
    contents = -np.sort(vectors, axis=1)
    # sums of sorted numbers are the same to the last bit
    keys = [contents.sum(axis=1), *contents.T[::-1]]
    if weights is not None:
        keys.insert(0, -weights)
    # lexsort takes the most important key last
    return np.asarray(np.lexsort([*keys[:0:-1], keys[0]]), np.int64)
