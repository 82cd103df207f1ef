"""Pairs of rows of words handed to a kernel in C, which goes from one reference to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ...representations import FloatArray, IntArray, Ragged

Values = TypeVar("Values", IntArray, FloatArray)


def by_reference(
    fill: Callable[[IntArray, IntArray, Values], object], h: IntArray, r: IntArray, values: Values
) -> Values:
    """Values of pairs after `fill`, [..., pairs].

    Args:
        fill: called with the rows and a copy of the values, pairs of one reference side by side; writes into the copy.
        h, r: the rows, [pairs].
        values: what it starts from, [..., pairs].
    """
    order = np.argsort(r, kind="stable")
    ordered = np.take(values, order, axis=-1)  # in one piece, as kernels want it
    fill(h[order], r[order], ordered)
    filled = np.empty_like(values)
    filled[..., order] = ordered
    return filled


def word_arguments(words: Ragged) -> tuple[IntArray, IntArray, int, int]:
    """Words as kernels take them: values, offsets, how many different there may be, how many the longest row has."""
    num_symbols = int(words.values.max(initial=0)) + 1
    return words.values, words.offsets, num_symbols, int(words.lengths.max(initial=0))
