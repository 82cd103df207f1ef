"""Edit distances of many pairs of texts within Tercom's beam, a row of the table in one integer per pair.

Row i of a pair's table holds the distances of the first i words of the hypothesis to the first j of the reference. The
beam has the columns from mid(i) - 25 to mid(i) + 24, mid(i) = floor(i |m| / |n|), and in it neighbours differ by -1, 0 or 1:
    bit k of a row         column mid(i) - 25 + k
    below bit `FIRST`      columns before the text, without meaning
    bits 50 and up         beyond the beam: each one more than the column before it, so that no cheapest edit comes back
This is Myers' algorithm (1999) in the form of Hyyrö (2003), in a window that moves by mid(i) - mid(i - 1). It knows
neither texts nor scores: words arrive as rows of `WordPlaces`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..representations import Array, IntArray, Ragged
from .bit_windows import PAD, Bits, WordPlaces
from .edit_distance import BEAM

MAX_RATIO = 16  # a reference so many times longer than its hypothesis moves the window too fast
LOWER = np.uint64((1 << 2 * BEAM) - 1)  # the bits within the beam
MIDDLE = BEAM  # the bit of column mid(i)
BESIDE = np.uint64(1 << MIDDLE + 1)  # the bit after it
ONE = np.uint64(1)


class Beam(NamedTuple):
    """How the window of every pair moves, [N + 1, pairs] each."""

    middle: IntArray  # mid(i)
    window: IntArray  # which of a word's windows has the columns of the row
    offset: Bits  # the bit where it has them
    step: Bits  # columns that the window moves from the row before
    first: Bits  # the row's first column, if the row before begins there too: it is reached from above alone
    may_match: Bits  # columns reached across from the row before
    between: Bits  # columns after that row's middle, up to this row's

    @classmethod
    def of(cls, n: IntArray, m: IntArray) -> Beam:
        """The beam of pairs of `n` hypothesis words and `m` reference words, [pairs] each."""
        i = np.arange(int(n.max()) + 1)[:, None]
        middle = np.minimum(np.floor(i * (m / n)).astype(np.int64), m)
        step = np.diff(middle, axis=0, prepend=0)
        low = np.maximum(middle - BEAM, 0)
        stays = np.diff(low, axis=0, prepend=0) == 0
        first = stays.astype(np.int64) << np.maximum(BEAM - middle, 0)
        # All of row 0 counts; of any other row the columns within the beam, and so those beside them here.
        may_match = (1 << (2 * BEAM + 1 - step)) - 1
        may_match[:2] = -1
        may_match &= ~first
        between = ((1 << step) - 1) << (MIDDLE + 1 - step)
        # Column j is the word j - 1.
        start = middle - BEAM - 1 + PAD
        bits = (start & 7, step, first, may_match, between)
        return cls(middle, start >> 3, *(column.astype(np.uint64) for column in bits))


class Row(NamedTuple):
    """One row of some pairs, [pairs] each: where a column is more, or less, by one than the column before it."""

    not_more: Bits
    less: Bits
    value: Array  # the distance at mid(i)


class Steps(NamedTuple):
    """How the cells of a row are reached, [pairs] each."""

    across: Bits  # by a word of both texts
    down: Bits  # by a word of the hypothesis
    match: Bits  # across by equal words


def row_zero(num_pairs: int) -> Row:
    """Row 0: as many insertions as words."""
    nothing = np.zeros(num_pairs, np.uint64)
    return Row(nothing, nothing, np.zeros(num_pairs, np.int32))


def next_row(row: Row, moves: Beam, windows: Bits) -> tuple[Row, Steps]:
    """The row after `row`, and how it was reached.

    Args:
        row: the row before.
        moves: the new row of the beam, [pairs] each.
        windows: the places of the new row's words, as `moves.window` has them, [pairs].
    """
    match = (windows >> moves.offset) & moves.may_match
    # Move the window along the row before.
    not_more = (row.not_more >> moves.step) | moves.first
    less = (row.less >> moves.step) | moves.first
    more = ~not_more
    # Cells equal to the one across, and those that are more or less than the one above.
    as_across = (((match & more) + more) ^ more) | match | less
    more_than_above = less | ~(as_across | more)
    less_than_above = as_across & more
    steps = Steps(
        match | (~as_across & moves.may_match),
        more_than_above & (moves.may_match >> ONE),
        match,
    )
    # Neighbours in the new row.
    above_more = more_than_above << ONE
    above_less = less_than_above << ONE
    next_not_more = (as_across | above_more) & ~above_less & LOWER
    next_less = above_more & as_across & LOWER
    # The middle changes along the row before, and then from above.
    gained = np.bitwise_count((more & moves.between) | (above_more & BESIDE))
    lost = np.bitwise_count((less & moves.between) | (above_less & BESIDE))
    value = row.value + gained - lost
    return Row(next_not_more, next_less, value), steps
