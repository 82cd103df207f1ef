"""Inner products of vectors whose bytes depend on the two vectors alone, on any processor.

    x . y = ((l_0 + l_4) + (l_2 + l_6)) + ((l_1 + l_5) + (l_3 + l_7)),   l_j = sum_k x_{8k+j} y_{8k+j},  k = 0, 1, ...

Every product and every sum is rounded to a double of its own. A BLAS sums in an order that depends on the processor
and on how many rows there are. In C where the package was built with a compiler (`inner_products.c`), else with numpy;
both have the same bytes. What is not a number comes out as one of positive sign.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

from ...representations import Array, FloatArray

VERSION = 1  # of how the kernel is called, as in `inner_products.c`: one of an earlier checkout is left alone
LANES = 8
BLOCK = 1 << 17  # numbers that the plain path multiplies at once


def _loaded() -> Any:
    if os.environ.get("DISCORANK_PURE"):
        return None
    try:
        module = import_module("._inner_products", __package__)
    except ImportError:
        return None
    return module if getattr(module, "VERSION", None) == VERSION else None


kernel: Any = _loaded()


def products(x: Array, y: Array) -> FloatArray:
    """Inner products of rows [n, d] and [m, d], float64 [n, m]; none depends on the other rows."""
    n, m, width = len(x), len(y), x.shape[1]
    if not n or not m or not width:
        return np.zeros((n, m))
    rows = _whole_lanes(x)  # [n, d], d a multiple of 8
    columns = rows if y is x else _whole_lanes(y)  # [m, d]
    if kernel is None:
        return _plain(rows, columns)
    out = np.empty((n, m))
    kernel.products(rows, columns, rows.shape[1], out, LANES)
    return out


def _whole_lanes(x: Array) -> FloatArray:
    """Rows [n, d] in float64 and in one piece, with zeros up to a multiple of 8."""
    n, width = x.shape
    if width % LANES == 0:
        return np.ascontiguousarray(x, dtype=np.float64)
    rows = np.zeros((n, width + -width % LANES))
    rows[:, :width] = x
    return rows


def _plain(x: FloatArray, y: FloatArray) -> FloatArray:
    """The same with numpy: multiplied and added element by element, so that no order is left to it."""
    m, width = y.shape
    out = np.empty((len(x), m))
    transposed = _lanes_first(y)
    rows_at_once = max(1, BLOCK // (LANES * m))
    with np.errstate(all="ignore"):
        for start in range(0, len(x), rows_at_once):
            rows = _lanes_first(x[start : start + rows_at_once])
            lanes = np.zeros((LANES, rows.shape[2], m))
            for k in range(width // LANES):
                lanes += rows[k][:, :, None] * transposed[k][:, None, :]
            halves = lanes[:4] + lanes[4:]
            out[start : start + rows_at_once] = (halves[0] + halves[2]) + (halves[1] + halves[3])
    out[np.isnan(out)] = np.nan
    return out


def _lanes_first(x: FloatArray) -> FloatArray:
    """Rows [n, d] as [d/8, 8, n]."""
    by_lane = x.reshape(len(x), -1, LANES).transpose(1, 2, 0)
    return np.ascontiguousarray(by_lane)
