"""Inner products of vectors whose bytes depend on the two vectors alone."""

from __future__ import annotations

import numpy as np

from ...representations import Array, FloatArray
from .packed_attention import ROWS


def products(a: Array, b: Array) -> FloatArray:
    """Inner products of rows [n, d] and [m, d], float64 [n, m]; none depends on the other rows.

    For that both sides are padded to multiples of 16 rows.
    """
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b)))
    product = _padded(a) @ _padded(b).T
    return np.asarray(product)[: len(a), : len(b)]


def _padded(x: Array) -> Array:
    """The rows [n, d] in float64, and repetitions of the first up to a multiple of 16."""
    filling = np.repeat(x[:1], -len(x) % ROWS, axis=0)
    return np.concatenate([x, filling]).astype(np.float64)
