"""Edit distances of many pairs of texts at once, and how the words of each pair are aligned by its cheapest edit.

One dynamic programme goes through all cells of all pairs, antidiagonal by antidiagonal, within Tercom's beam: the plain
way, of any width; `beam_rows` is several times faster. It knows neither texts nor scores: words arrive as integers.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..representations import Array, IntArray, Ragged
from .block_shifts import SHIFT_DISTANCE, SHIFT_WORDS, Blocks, BlockSwaps, EditAlignment
from .word_columns import word_columns

BEAM = 25  # Tercom's, in words
NEVER = -100  # score of a cell outside the beam; within it no score is negative
ROW_CELLS = 1 << 16  # cells of one antidiagonal of the swaps measured together


class TextPairs(NamedTuple):
    """Pairs of texts side by side: words as numbers, a column per pair."""

    h: Array  # [N, pairs] hypothesis words
    r: Array  # [M, pairs] reference words, last first, so that an antidiagonal of pairs of words is two plain slices
    n: IntArray  # [pairs] hypothesis lengths, at least 1
    m: IntArray  # [pairs] reference lengths, at least 1
    low: Array  # [N + 1, pairs] first antidiagonal i + j of row i within the beam
    high: Array  # the same, after the last

    @classmethod
    def of(cls, words: Ragged, h: IntArray, r: IntArray) -> Self:
        """The pairs of rows `h` and `r` of `words`."""
        columns_h = word_columns(words, h, -1)
        columns_r = word_columns(words, r, -2)[::-1]
        n = words.lengths[h]
        m = words.lengths[r]
        return cls(columns_h, columns_r, n, m, *_beam(n, m))

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs."""
        return type(self)(
            self.h[:, pairs],
            self.r[:, pairs],
            self.n[pairs],
            self.m[pairs],
            self.low[:, pairs],
            self.high[:, pairs],
        )

    def reordered(self, h: Array) -> Self:
        """The pairs with the words of their hypotheses in another order, [N, pairs]."""
        return self._replace(h=h)

    def distances(self) -> IntArray:
        """Insertions, deletions and substitutions between the texts of every pair, [pairs]."""
        return _distances_and_table(self, keep=False)[0]

    def table(self) -> PlainTable:
        """The cheapest edits."""
        return PlainTable(self, _distances_and_table(self, keep=True)[1])


class PlainTable(NamedTuple):
    """The cheapest edits of some pairs."""

    pairs: TextPairs
    scores: Array  # as `_distances_and_table` returns them, [N + M + 1, N + 1, pairs]

    def alignment(self) -> EditAlignment:
        """How the words stand to each other; of equal costs a substitution is first, then a deletion."""
        return _alignment(self.pairs, self.scores)

    def movable_blocks(self, alignment: EditAlignment) -> Blocks:
        """All common blocks with an edit on either side that are not aligned with themselves."""
        # Where the longest block lacks an edit, so do all its beginnings.
        longest = _common_blocks(self.pairs)
        longest = longest.where(longest.edited(alignment))
        blocks = longest.beginnings()
        return blocks.where(blocks.edited(alignment) & blocks.aligned_elsewhere(alignment))

    def distances(self, swaps: BlockSwaps) -> IntArray:
        """The edit distance after every swap, [swaps]."""
        distances = np.empty(len(swaps.pair), np.int64)
        step = max(1, ROW_CELLS // len(self.pairs.h))
        for start in range(0, len(distances), step):
            stop = min(start + step, len(distances))
            tile = swaps.where(np.arange(start, stop))
            after = self.pairs.take(tile.pair).reordered(tile.moved(self.pairs.h))
            distances[start:stop] = after.distances()
        return distances


def _beam(n: IntArray, m: IntArray) -> tuple[Array, Array]:
    """First antidiagonal i + j within the beam of every row i, and the one after the last, [N + 1, pairs] each.

    Row i reaches BEAM words around i |m| / |n|, further where m is very long.
    """
    i = np.arange(int(n.max()) + 1)[:, None]
    ratio = m / n
    wide = np.ceil(ratio / 2 + BEAM)
    width = np.where(ratio / 2 > BEAM, wide, BEAM)
    middle = np.floor(i * ratio)
    # Columns j of every row, from low up to before high; the last row reaches the end.
    low = np.maximum(0, middle - width)
    high = np.minimum(m + 1, middle + width)
    high = np.where(i == n, m + 1, high)
    high[0] = high[1]  # row 0 is all within, but no more of it is ever used
    return (low + i).astype(np.int32), (high + i).astype(np.int32)


def _common_blocks(pairs: TextPairs) -> Blocks:
    """From every pair of equal words on the longest block, up to SHIFT_WORDS, no farther apart than SHIFT_DISTANCE."""
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    # run[i, j]: words in common from i and j on, which is one more than from i + 1 and j + 1 on if they are equal.
    run = np.zeros((max_n + 1, max_m + 1, num_pairs), np.int8)
    for i in range(max_n - 1, -1, -1):
        longer = run[i + 1, 1:] + 1
        np.minimum(longer, SHIFT_WORDS, out=run[i, :-1])
        run[i, :-1] *= pairs.h[i] == pairs.r[::-1]
    h, r, pair = np.nonzero(run)
    near = np.abs(h - r) <= SHIFT_DISTANCE
    h = h[near]
    r = r[near]
    pair = pair[near]
    length = run[h, r, pair].astype(np.int64)
    return Blocks(pair, h, r, length)


def _distances_and_table(pairs: TextPairs, keep: bool) -> tuple[IntArray, Array]:
    """Edit distances, and their table: all of it if `keep`, else its last three antidiagonals.

    Cell [d, i] holds S = d - distance of the first i words to the first d - i: S(i, j) = max(S(i-1, j), S(i, j-1),
    S(i-1, j-1) + 1 + [h_i = r_j]). All cells of an antidiagonal d of all pairs are made at once.
    """
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    ends = pairs.n + pairs.m  # antidiagonal of every pair's last cell
    last_end = int(ends.max())
    planes = last_end + 1 if keep else 3
    dtype = _score_type(2 * min(max_n, max_m))
    table = np.full((planes, max_n + 1, num_pairs), NEVER, dtype)
    table[0, 0] = 0

    score = np.zeros(num_pairs, np.int64)
    by_end = np.argsort(ends)
    ended_before = np.searchsorted(ends[by_end], np.arange(last_end + 2)).tolist()
    windows = _windows(pairs, last_end)
    for d in range(1, last_end + 1):
        now = table[d % planes]
        before = table[(d - 1) % planes]
        twice = table[(d - 2) % planes]
        # Inner rows a to b, 1 <= i < d: one step on the diagonal, and one more if the words are equal,
        first, last = windows[d]
        a = max(first, 1)
        b = min(last, d - 1)
        here = slice(a, b + 1)
        above = slice(a - 1, b)
        same = pairs.h[above] == pairs.r[max_m - d + a : max_m - d + b + 1]
        across = same.view(np.int8).astype(dtype, copy=False)
        across += twice[above]
        across += dtype(1)
        # or a word more on either side.
        np.maximum(across, before[above], out=across)
        np.maximum(across, before[here], out=now[here])
        # At the edges one text is still empty; the row before the window must not be chosen later.
        if first:
            now[first - 1] = NEVER
        else:
            now[0] = 0
        if last == d:
            now[d] = 0
        window = slice(first, last + 1)
        outside = (pairs.low[window] > d) | (pairs.high[window] <= d)
        now[window][outside] = NEVER
        # Read the scores of the pairs that end here.
        ended = by_end[ended_before[d] : ended_before[d + 1]]
        if len(ended):
            score[ended] = now[pairs.n[ended], ended]
    return ends - score, table


def _score_type(best: int) -> type[np.int8] | type[np.int16] | type[np.int32]:
    """The smallest type for scores up to `best`."""
    if best < 125:
        return np.int8
    return np.int16 if best < 32000 else np.int32


def _windows(pairs: TextPairs, last_end: int) -> list[tuple[int, int]]:
    """First and last row of every antidiagonal 0..last_end that some pair needs."""
    d = np.arange(last_end + 1)
    highest = pairs.high.max(axis=1)
    lowest = pairs.low.min(axis=1)
    first = np.maximum(d - len(pairs.r), np.searchsorted(highest, d, "right"))
    last = np.minimum(len(pairs.h), np.searchsorted(lowest, d, "right") - 1)
    last = np.minimum(last, d)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _alignment(pairs: TextPairs, table: Array) -> EditAlignment:
    """Walks every pair's table back from its end; of equal costs a substitution is first, then a deletion.

    Args:
        pairs: the pairs.
        table: as `_distances_and_table` returns it, [N + M + 1, N + 1, pairs].
    """
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    before = np.zeros((max_m + 1, num_pairs), np.int64)
    wrong_h = np.zeros((max_n + 1, num_pairs), np.int64)
    wrong_r = np.zeros((max_m + 1, num_pairs), np.int64)

    # Pairs p stand at cells (i, j), all still on their way to (0, 0).
    i = pairs.n.copy()
    j = pairs.m.copy()
    p = np.arange(num_pairs)
    while len(p):
        d = i + j
        score = table[d, i, p]
        # Across: a word of either text, equal or substituted.
        inner = (i > 0) & (j > 0)
        word_h = pairs.h[i - 1, p]
        word_r = pairs.r[max_m - np.maximum(j, 1), p]
        same = word_h == word_r
        score_across = table[d - 2, i - 1, p] + 1 + same
        across = inner & (score_across == score)
        # Down: a word of the hypothesis is deleted; otherwise one of the reference is inserted.
        score_down = table[d - 1, i - 1, p]
        down = ~across & (i > 0) & ((j == 0) | (score_down == score))
        # Note the edit at its words, and how far the hypothesis is for the reference word.
        wrong = ~(across & same)
        uses_h = across | down
        wrong_h[i, p] |= wrong & uses_h
        wrong_r[j, p] |= wrong & ~down
        before[j, p] = np.where(down, before[j, p], i)
        # Step back, and leave out the pairs that arrived.
        i = i - uses_h
        j = j - ~down
        left = (i > 0) | (j > 0)
        i, j, p = i[left], j[left], p[left]
    return EditAlignment(before, wrong_h.cumsum(axis=0), wrong_r.cumsum(axis=0))
