"""Symbols of any size as the numbers 1 to n, so that they fit into few bits."""

from __future__ import annotations

import numpy as np

from ..representations import Array, IntArray

PLAIN_SYMBOLS = 1 << 17  # symbols up to here are numbered by a table, whatever their number


def dense(values: Array) -> tuple[IntArray, int]:
    """The same values as 1..n in order, and n."""
    low = int(values.min())
    num_possible = int(values.max()) - low + 1
    if num_possible > max(PLAIN_SYMBOLS, 4 * len(values)):
        unique, inverse = np.unique(values, return_inverse=True)
        return inverse + 1, len(unique)
    # Close together: a table of those present numbers them without a sort.
    values = values - values.dtype.type(low)
    present = np.zeros(num_possible, np.bool_)
    present[values] = True
    number = present.cumsum(dtype=np.int64)
    return number.take(values), int(number[-1])
