"""Many ranges of integers joined into one array, without a loop."""

from __future__ import annotations

import numpy as np

from ..representations import IntArray


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The integers starts[i], ..., starts[i] + lengths[i] - 1 for i = 0, 1, ..., [sum of lengths].

    Args:
        starts: first integer of every range, [ranges].
        lengths: how many integers it has, [ranges].
    """
    ends = lengths.cumsum()
    before = ends - lengths  # integers of the ranges before
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)


def owners(lengths: IntArray) -> IntArray:
    """For every integer of `ranges` the range i that it belongs to, [sum of lengths]."""
    return np.repeat(np.arange(len(lengths)), lengths)
