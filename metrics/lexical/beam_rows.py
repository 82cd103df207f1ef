"""Edit distances of many pairs of texts within Tercom's beam, a row of the table in one integer per pair.

Row i of a pair's table holds the distances of the first i words of the hypothesis to the first j of the reference. The
beam has the columns from mid(i) - 25 to mid(i) + 24, mid(i) = floor(i |r| / |h|); neighbours there differ by -1, 0, 1:
    bit k of a row         column mid(i) - 25 + k
    below column 0         without meaning
    bits 50 and up         beyond the beam: each one more than the column before it, so that no cheapest edit comes back
This is Myers' algorithm (1999) in the form of Hyyrö (2003), in a window that moves by mid(i) - mid(i - 1). It knows
neither texts nor scores: words arrive as rows of `WordPlaces`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import Array, IntArray
from .bit_windows import PAD, Bits, WordPlaces
from .edit_distance import BEAM

MAX_RATIO = 16  # a reference so many times longer than its hypothesis moves the window too fast
LOWER = np.uint64((1 << 2 * BEAM) - 1)  # the bits within the beam
MIDDLE = BEAM  # the bit of column mid(i)
BESIDE = np.uint64(1 << MIDDLE + 1)  # the bit after it
NO_BIT = 64
ONE = np.uint64(1)
ALL = ~np.uint64(0)
REVERSED_BYTES = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)), bitorder="little")


class Beam(NamedTuple):
    """How the window of every pair moves, [N + 1, pairs] each; few bytes, as all rows of all pairs have them."""

    middle: Array  # mid(i), int32
    step: Array  # uint8: columns that the window moves from the row before
    # bit of the first column if it is reached from above alone, else `NO_BIT`
    first: NDArray[np.uint8]
    # so many of the highest bits are not reached across from the row before
    closed: NDArray[np.uint8]

    @classmethod
    def both_ways(cls, n: IntArray, m: IntArray) -> Beam:
        """The beam of pairs of `n` hypothesis words and `m` reference words, [pairs] each, then read from the end.

        [N + 1, 2 pairs] each: pair p is column 2 p, and column 2 p + 1 as it is read from the end; there column j of
        row i is the one that is |m| - j of row |n| - i.
        """
        i = np.arange(int(n.max()) + 1)[:, None]
        middle = np.empty((len(i), 2 * len(n)), np.int32)
        middle[:, ::2] = np.minimum(np.floor(i * (m / n)), m)
        middle[:, 1::2] = m + 1 - middle[np.maximum(n - i, 0), 2 * np.arange(len(n))]
        step = np.diff(middle, axis=0, prepend=middle[:1]).astype(np.uint8)
        # The row before begins at the same column,
        low = np.maximum(middle - BEAM, 0)
        stays = np.diff(low, axis=0, prepend=low[:1]) == 0
        first = np.where(stays, np.maximum(BEAM - middle, 0), NO_BIT).astype(np.uint8)
        # and ends with its beam; of row 0 all columns count.
        closed = step + np.uint8(63 - 2 * BEAM)
        closed[1, ::2] = 0
        return cls(middle, step, first, closed)

    def row(self, i: int, num_pairs: int) -> Beam:
        """Row i of the first pairs, [pairs] each."""
        return Beam(*(column[i, :num_pairs] for column in self))

    def at(self, cells: IntArray) -> Beam:
        """Some cells of the table, counted row by row, [cells] each."""
        return Beam(*(column.take(cells) for column in self))

    def windows(self, places: WordPlaces, words: IntArray) -> Bits:
        """Which columns of one row have the row's word, [pairs]; `words` is it as a row of `places`, [pairs]."""
        # Column j is the word j - 1.
        start = self.middle + (PAD - BEAM - 1)
        windows = places.windows.take(words + (start >> 3))
        windows >>= (start & 7).astype(np.uint64)
        return windows


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


def row_zero(beam: Beam) -> Row:
    """Row 0 of all pairs: as many insertions as words."""
    middle = beam.middle[0]
    nothing = np.zeros(len(middle), np.uint64)
    return Row(nothing, nothing, middle.astype(np.int32))


def next_row(row: Row, moves: Beam, same: Bits) -> tuple[Row, Steps]:
    """The row after `row`, and how it is reached.

    Args:
        row: the row before.
        moves: the new row of the beam, [pairs] each.
        same: as `Beam.windows` returns it, [pairs].
    """
    step = moves.step.astype(np.uint64)
    first = ONE << moves.first.astype(np.uint64)
    reached = (ALL >> moves.closed.astype(np.uint64)) & ~first
    match = same & reached
    # Move the window along the row before.
    not_more = (row.not_more >> step) | first
    less = (row.less >> step) | first
    more = ~not_more
    # Cells equal to the one across, and those that are more or less than the one above.
    as_across = (((match & more) + more) ^ more) | match | less
    more_than_above = less | ~(as_across | more)
    less_than_above = as_across & more
    steps = Steps(
        match | (~as_across & reached),
        more_than_above & (reached >> ONE),
        match,
    )
    # Neighbours in the new row.
    above_more = more_than_above << ONE
    above_less = less_than_above << ONE
    next_not_more = (as_across | above_more) & ~above_less & LOWER
    next_less = above_more & as_across & LOWER
    # The middle changes along the row before, by the columns after its middle and up to this one, and then from above.
    between = BESIDE - (BESIDE >> step)
    gained = np.bitwise_count((more & between) | (above_more & BESIDE))
    lost = np.bitwise_count((less & between) | (above_less & BESIDE))
    value = row.value + gained - lost
    return Row(next_not_more, next_less, value), steps


def rows_of(
    places: WordPlaces, beam: Beam, h: IntArray, reaching: Sequence[int]
) -> Iterator[tuple[Row, Steps]]:
    """Rows 1, 2, ..., N of the pairs that have them, and how they are reached.

    Args:
        places: of the references' words.
        beam: of all pairs, [N + 1, pairs] each.
        h: hypothesis words as rows of `places`, [N, pairs].
        reaching: number of pairs that have the row; they come first, [N].
    """
    row = row_zero(beam)
    for i, num_pairs in enumerate(reaching[: len(h)], 1):
        here = slice(num_pairs)
        moves = beam.row(i, num_pairs)
        same = moves.windows(places, h[i - 1, here])
        row, steps = next_row(Row(*(column[here] for column in row)), moves, same)
        yield row, steps


def last_cell(row: Row, beyond: IntArray) -> IntArray:
    """Distances in the last column of some last rows, which is `beyond` (0 or 1) columns after the middle, [pairs]."""
    after = np.uint64(MIDDLE + 1)
    more = ~(row.not_more >> after) & ONE
    less = (row.less >> after) & ONE
    distances: IntArray = row.value + beyond * (more.astype(np.int64) - less.astype(np.int64))
    return distances


def joined(row: Row, back: Row, middle: Array, m: IntArray) -> IntArray:
    """The cheapest way through some row: to a column of it, and from there to the end, [pairs].

    Args:
        row: the row, reached from the first words on.
        back: the same row, reached from the last words on.
        middle: its middle, [pairs].
        m: reference lengths, [pairs].
    """
    # Read backwards bit k of `back` is bit 50 - k, and says how much less the column is than the one before it.
    falls = _reversed(~back.not_more)
    rises = _reversed(back.less)
    more = ~row.not_more
    less = row.less
    # Columns before and after the text are made the more, the farther.
    before = (np.uint64(2) << np.maximum(BEAM - middle, 0).astype(np.uint64)) - ONE
    after = ~((np.uint64(2) << np.minimum(m - middle + BEAM, 2 * BEAM).astype(np.uint64)) - ONE)
    more = (more & ~before) | after
    less = (less | before) & ~after
    inside = ~(before | after)
    # Add up the differences between neighbours, [pairs, 64] each.
    sums = _flags(more)
    sums -= _flags(less)
    sums -= _flags(falls & inside)
    sums += _flags(rises & inside)
    np.add.accumulate(sums, axis=1, out=sums)
    # Both values are known at the middle, that of `back` one column before it.
    fall = ((~back.not_more >> np.uint64(MIDDLE)) & ONE).astype(np.int64)
    rise = ((back.less >> np.uint64(MIDDLE)) & ONE).astype(np.int64)
    at_middle = row.value + back.value - fall + rise
    lowest: IntArray = at_middle + (
        sums[:, : 2 * BEAM].min(axis=1).astype(np.int64) - sums[:, MIDDLE]
    )
    return lowest


def _flags(bits: Bits) -> NDArray[np.int8]:
    """Every bit as a number, [pairs, 64]."""
    as_bytes = np.ascontiguousarray(bits).view(np.uint8)
    return np.unpackbits(as_bytes, bitorder="little").view(np.int8).reshape(-1, 64)


def _reversed(bits: Bits) -> Bits:
    """Bit k becomes bit 50 - k, [pairs]."""
    as_bytes = REVERSED_BYTES.take(np.ascontiguousarray(bits).view(np.uint8))
    return as_bytes.view(np.uint64).byteswap() >> np.uint64(63 - 2 * BEAM)
