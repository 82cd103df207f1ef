"""Pairs of texts for Tercom's search whose edit distances are computed a row at a time, in one integer per pair.

A shift changes a few rows alone: they go on from the row of the table before them, and meet the row after them in a
table that begins at the texts' ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from ..representations import Array, IntArray, Ragged
from .beam_rows import (
    MIDDLE,
    ONE,
    Beam,
    Row,
    Steps,
    joined,
    last_cell,
    next_row,
    row_zero,
    rows_of,
)
from .bit_windows import PAD, Bits, WordPlaces, flag_windows, set_bits
from .block_shifts import SHIFT_DISTANCE, SHIFT_WORDS, Blocks, BlockSwaps, EditAlignment
from .ranges import ranges

SWAPS = 1 << 12  # swaps measured together, so that their rows stay in the cache


class BeamPairs(NamedTuple):
    """Pairs of texts, those of long hypotheses first."""

    places: WordPlaces
    beam: Beam  # [N + 1, 2 pairs] each pair as it is, and read from the end
    h: IntArray  # [N, pairs] hypothesis words as rows of `places`
    n: IntArray  # [pairs] hypothesis lengths, descending, at least 1
    m: IntArray  # [pairs] reference lengths, at least 1

    @classmethod
    def of(cls, words: Ragged, h: IntArray, r: IntArray) -> Self:
        """The pairs of rows `h` and `r` of `words`; hypotheses come in descending length."""
        n = words.lengths[h]
        m = words.lengths[r]
        texts, text_of_pair = np.unique(r, return_inverse=True)
        places = WordPlaces.of(words, texts, int(max(n.max(), m.max())))
        values = words.values[ranges(words.offsets[h], n)]
        rows = places.rows_of(np.repeat(text_of_pair, n), values)
        columns = np.zeros((len(h), int(n.max())), np.int64)
        columns[np.arange(columns.shape[1]) < n[:, None]] = rows
        return cls(places, Beam.both_ways(n, m), columns.T.copy(), n, m)

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs, in their order."""
        n = self.n[pairs]
        longest = int(n.max(initial=0))
        both = np.stack((2 * pairs, 2 * pairs + 1), axis=1).ravel()
        # by `take`, so that rows stay in one piece
        beam = Beam(*(column[: longest + 1].take(both, axis=1) for column in self.beam))
        h = self.h[:longest].take(pairs, axis=1)
        return type(self)(self.places, beam, h, n, self.m[pairs])

    def reordered(self, h: Array) -> Self:
        """The pairs with the words of their hypotheses in another order, [N, pairs]."""
        return self._replace(h=h)

    def distances(self) -> IntArray:
        """Insertions, deletions and substitutions between the texts of every pair, [pairs]."""
        distances = np.zeros(len(self.n), np.int64)
        # Columns of the last row after its middle, 0 or 1 by rounding.
        beyond = self.m - self.beam.middle[self.n, 2 * np.arange(len(self.n))]
        forwards = Beam(*(np.ascontiguousarray(column[:, ::2]) for column in self.beam))
        reaching = self.reaching()
        for i, (row, _) in enumerate(rows_of(self.places, forwards, self.h, reaching), 1):
            ending = slice(reaching[i], reaching[i - 1])
            last = Row(*(column[ending] for column in row))
            distances[ending] = last_cell(last, beyond[ending])
        return distances

    def table(self) -> BeamTable:
        """The cheapest edits."""
        num_pairs = len(self.n)
        # The words as they come, and from the end.
        place = np.maximum(self.n - 1 - np.arange(len(self.h))[:, None], 0)
        h = np.empty((len(self.h), 2 * num_pairs), np.int64)
        h[:, ::2] = self.h
        h[:, 1::2] = self.h[place, np.arange(num_pairs)] + self.places.from_end
        # Keep all rows of both, and how those of the first are reached.
        shape = (len(h) + 1, 2 * num_pairs)
        zero = row_zero(self.beam)
        rows = Row(*(np.zeros(shape, column.dtype) for column in zero))
        rows.value[0] = zero.value
        steps = Steps(*np.zeros((3, len(h) + 1, num_pairs), np.uint64))
        reaching = [2 * pairs for pairs in self.reaching()]
        for i, (row, steps_of_row) in enumerate(rows_of(self.places, self.beam, h, reaching), 1):
            here = reaching[i - 1]
            for column, values in zip(rows, row, strict=True):
                column[i, :here] = values
            for column, bits in zip(steps, steps_of_row, strict=True):
                column[i, : here // 2] = bits[::2]
        return BeamTable(self, rows, steps)

    def reaching(self) -> list[int]:
        """Number of pairs that have a row i = 1, 2, ..., N + 1; they come first."""
        rows = np.arange(1, len(self.h) + 2)
        counts: list[int] = np.searchsorted(-self.n, -rows, "right").tolist()
        return counts


class BeamTable(NamedTuple):
    """The cheapest edits of some pairs."""

    pairs: BeamPairs
    rows: Row  # [N + 1, 2 pairs] each pair as it is, and read from the end; row i is then |h| - i
    steps: Steps  # [N + 1, pairs] each

    def alignment(self) -> EditAlignment:
        """How the words stand to each other; of equal costs a substitution is first, then a deletion."""
        columns, right = self._path()
        max_m = int(self.pairs.m.max(initial=0))
        num_pairs = len(self.pairs.n)
        # So many rows were left before column j as the path enters before it.
        entered = np.bincount(
            ((columns + 1) * num_pairs + np.arange(num_pairs)).ravel(),
            minlength=(max_m + 3) * num_pairs,
        )
        before = entered.reshape(-1, num_pairs)[: max_m + 1].cumsum(axis=0)
        # A word is edited unless the path goes across equal words.
        wrong_h = np.zeros((len(self.pairs.h) + 1, num_pairs), np.int32)
        wrong_h[1:] = ~right[1:]
        wrong_r = np.ones((max_m + 1, num_pairs), np.int32)
        i, pair = np.nonzero(right)
        wrong_r[columns[i - 1, pair] + 1, pair] = 0
        wrong_r[0] = 0
        return EditAlignment(before, wrong_h.cumsum(axis=0), wrong_r.cumsum(axis=0))

    def _path(self) -> tuple[IntArray, Array]:
        """Column where each cheapest edit enters every row from below, and whether it leaves across equal words.

        [N + 1, pairs] each. Rows beyond a hypothesis are entered one after the last column, and left by an edit.
        """
        max_n, num_pairs = self.pairs.h.shape
        columns = np.broadcast_to(self.pairs.m + 1, (max_n + 1, num_pairs)).copy()
        right = np.zeros((max_n + 1, num_pairs), np.bool_)
        j = self.pairs.m.copy()
        reaching = self.pairs.reaching()
        middle = self.pairs.beam.middle[:, ::2]
        for i in range(max_n, 0, -1):
            here = slice(reaching[i - 1])
            columns[i, here] = j[here]
            # Of the columns up to here take the last that is left across or down; those after it are inserted.
            across, down, match = (column[i, here] for column in self.steps)
            bit = j[here] - middle[i, here] + MIDDLE
            up_to_here = (np.uint64(2) << bit.astype(np.uint64)) - ONE
            leaving = (across | down) & up_to_here
            last = np.frexp(leaving.astype(float))[1] - 1  # fewer than 53 bits are exact
            # Step up.
            at = last.astype(np.uint64)
            goes_across = (across >> at) & ONE
            right[i, here] = (match >> at) & goes_across
            j[here] -= bit - last + goes_across.astype(np.int64)
        columns[0] = j
        return columns, right

    def movable_blocks(self, alignment: EditAlignment) -> Blocks:
        """All common blocks with an edit on either side that are not aligned with themselves.

        Diagonals r - h = -50 to -1 are the bits of one integer per word of a hypothesis, 0 to 50 those of another.
        """
        places, _, h, n, _ = self.pairs
        flags = np.diff(alignment.wrong_r, axis=0).T > 0
        longest = 8 * places.width - 2 * PAD
        wrong_r = flag_windows(flags, longest)
        wrong_h = np.diff(alignment.wrong_h, axis=0) > 0
        parts: list[Blocks] = []
        for first, size in ((-SHIFT_DISTANCE, SHIFT_DISTANCE), (0, SHIFT_DISTANCE + 1)):
            start = np.arange(len(h))[:, None] + first + PAD
            offset = (start & 7).astype(np.uint64)
            mask = np.uint64((1 << size) - 1)
            same = (places.windows.take(h + (start >> 3)) >> offset) & mask
            same[np.arange(len(h))[:, None] >= n] = 0
            edited = wrong_r.T[start[:, 0] >> 3] >> offset
            parts += _blocks(same, wrong_h, edited, first)
        pair, i, r, length = (np.concatenate(column) for column in zip(*parts, strict=True))
        blocks = Blocks(pair, i, r, length)
        return blocks.where(blocks.aligned_elsewhere(alignment))

    def distances(self, swaps: BlockSwaps) -> IntArray:
        """The edit distance after every swap, [swaps]."""
        distances = np.empty(len(swaps.pair), np.int64)
        order = np.argsort(swaps.a - swaps.c, kind="stable")
        for start in range(0, len(order), SWAPS):
            tile = order[start : start + SWAPS]
            distances[tile] = self._distances(swaps.where(tile))
        return distances

    def _distances(self, swaps: BlockSwaps) -> IntArray:
        """The edit distance after every swap, [swaps]; those that change most words come first."""
        places, beam, h, n, m = self.pairs
        pair, a, b, c = swaps
        both = 2 * pair
        moved_to_front = c - b  # words
        changed = c - a
        changing = np.searchsorted(
            -changed, -np.arange(1, int(changed.max(initial=0)) + 1), "right"
        )
        state = Row(*(column[a, both] for column in self.rows))
        for i, num_swaps in enumerate(changing.tolist(), 1):
            # Row a + i of the swaps that change so many words: of b..c first, then of a..b.
            here = slice(num_swaps)
            first = moved_to_front[here]
            row_of = a[here] + i
            word = row_of - 1 + np.where(i <= first, b[here] - a[here], -first)
            cell = row_of * (2 * len(n)) + both[here]
            moves = beam.at(cell)
            same = moves.windows(places, h.take(word * len(n) + pair[here]))
            row, _ = next_row(Row(*(column[here] for column in state)), moves, same)
            for column, values in zip(state, row, strict=True):
                column[here] = values
        # From row c on nothing has changed.
        rest = Row(*(column[n[pair] - c, both + 1] for column in self.rows))
        return joined(state, rest, beam.middle[c, both], m[pair])


def _blocks(same: Bits, wrong_h: Array, wrong_r: Bits, first: int) -> Iterator[Blocks]:
    """Common blocks with an edit on either side, of every length.

    Args:
        same: bit k of word i: it is word i + `first` + k of the reference, [N, pairs].
        wrong_h: whether the word is edited, [N, pairs].
        wrong_r: bit k of word i: word i + `first` + k of the reference is edited, [N, pairs].
        first: diagonal r - h of bit 0.
    """
    num_pairs = same.shape[1]
    runs = same  # as many words are equal from here on
    edited_h = wrong_h
    edited_r = wrong_r
    for length in range(1, SHIFT_WORDS + 1):
        ends = np.where(edited_h, runs & edited_r, 0)
        place, bit = set_bits(ends)
        i, pair = np.divmod(place, num_pairs)
        yield Blocks(pair, i, i + first + bit, np.full(len(pair), length))
        # A word more stands on the same diagonal in the next row.
        runs = runs[:-1] & same[length:]
        edited_h = edited_h[:-1] | wrong_h[length:]
        edited_r = edited_r[:-1] | wrong_r[length:]
        if not runs.any():
            break
