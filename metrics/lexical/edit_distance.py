"""Edit distances of many pairs of texts at once, and how the words of each pair are aligned by its cheapest edit.

One dynamic programme goes through all pairs antidiagonal by antidiagonal, within Tercom's beam where a pair needs one.
It knows neither texts nor scores: words arrive as integers.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..representations import Array, IntArray, Ragged
from .word_columns import word_columns

BEAM = 25  # Tercom's, in words
NEVER = -100  # score of a cell outside the beam; within it no score is negative
NO_BEAM: Array = np.empty((0, 0))


class TextPairs(NamedTuple):
    """Pairs of texts side by side: words as numbers, a column per pair."""

    h: Array  # [N, pairs] hypothesis words
    r: Array  # [M, pairs] reference words, last first, so that an antidiagonal of pairs of words is two plain slices
    n: IntArray  # [pairs] hypothesis lengths, at least 1
    m: IntArray  # [pairs] reference lengths, at least 1
    low: Array = NO_BEAM  # [N + 1, pairs] first antidiagonal i + j of row i within the beam
    high: Array = NO_BEAM  # the same, after the last

    @classmethod
    def of(cls, words: Ragged, h: IntArray, r: IntArray) -> Self:
        """The pairs of rows `h` and `r` of `words`."""
        columns_h = word_columns(words, h, -1)
        columns_r = word_columns(words, r, -2)[::-1]
        return cls(columns_h, columns_r, words.lengths[h], words.lengths[r])

    @property
    def has_beam(self) -> bool:
        """Whether only cells within a beam count."""
        return len(self.low) > 0

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs."""
        low, high = self.low, self.high
        if self.has_beam:
            low, high = low[:, pairs], high[:, pairs]
        return type(self)(
            self.h[:, pairs],
            self.r[:, pairs],
            self.n[pairs],
            self.m[pairs],
            low,
            high,
        )

    def with_beam(self) -> Self:
        """The pairs within Tercom's beam: row i reaches BEAM words around i |m| / |n|, further where m is very long."""
        i = np.arange(len(self.h) + 1)[:, None]
        ratio = self.m / self.n
        wide = np.ceil(ratio / 2 + BEAM)
        width = np.where(ratio / 2 > BEAM, wide, BEAM)
        middle = np.floor(i * ratio)
        # Columns j of every row, from low up to before high; the last row reaches the end.
        low = np.maximum(0, middle - width)
        high = np.minimum(self.m + 1, middle + width)
        high = np.where(i == self.n, self.m + 1, high)
        high[0] = high[1]  # row 0 is all within, but no more of it is ever used
        low_diagonal = (low + i).astype(np.int32)
        high_diagonal = (high + i).astype(np.int32)
        return self._replace(low=low_diagonal, high=high_diagonal)


def edit_distances(pairs: TextPairs) -> IntArray:
    """Insertions, deletions and substitutions between the texts of every pair, [pairs]."""
    return _distances_and_table(pairs, keep=False)[0]


def edit_table(pairs: TextPairs) -> tuple[IntArray, Array]:
    """Edit distances [pairs], and the table that `edit_alignment` reads, [N + M + 1, N + 1, pairs]."""
    return _distances_and_table(pairs, keep=True)


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
        if pairs.has_beam:
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
    first = np.maximum(d - len(pairs.r), 0)
    last = np.minimum(d, len(pairs.h))
    if pairs.has_beam:
        highest = pairs.high.max(axis=1)
        lowest = pairs.low.min(axis=1)
        first = np.maximum(first, np.searchsorted(highest, d, "right"))
        last = np.minimum(last, np.searchsorted(lowest, d, "right") - 1)
    return list(zip(first.tolist(), last.tolist(), strict=True))


class EditAlignment(NamedTuple):
    """How the words of some pairs stand to each other in their cheapest edit."""

    before: IntArray  # [M + 1, pairs] hypothesis words up to the one aligned with reference word j - 1; 0 for j = 0
    wrong_h: IntArray  # [N + 1, pairs] edited words among the first i of the hypothesis
    wrong_r: IntArray  # [M + 1, pairs] edited words among the first j of the reference


def edit_alignment(pairs: TextPairs, table: Array) -> EditAlignment:
    """Walks every pair's table back from its end; of equal costs a substitution is first, then a deletion.

    Args:
        pairs: the pairs.
        table: as `edit_table` returns it, [N + M + 1, N + 1, pairs].
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
