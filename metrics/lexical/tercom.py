"""Tercom's search: the fewest edits between two texts when blocks of words may move, for many pairs at once.

The edit distance of all pairs comes from one dynamic programme, antidiagonal by antidiagonal; then every pair makes the
block shift that gains most, until none gains anything. It knows neither texts nor scores: words arrive as integers.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..representations import Array, IntArray, Ragged
from .word_columns import word_columns

BEAM, SHIFT_WORDS, SHIFT_DISTANCE, TRIED_SHIFTS = 25, 10, 50, 1000  # Tercom's limits
NEVER = -100  # score of a cell outside the beam; within it no score is negative
ROW_CELLS = 1 << 16  # cells of one antidiagonal of the shifts measured together
NO_BEAM: Array = np.empty((0, 0))


class Pairs(NamedTuple):
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
        n, m = words.lengths[h], words.lengths[r]
        sides = word_columns(words, h, -1), word_columns(words, r, -2)[::-1]
        return cls(*sides, n, m)

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs."""
        h, r, n, m, low, high = self
        limited = (low[:, pairs], high[:, pairs]) if len(low) else (low, high)
        return type(self)(h[:, pairs], r[:, pairs], n[pairs], m[pairs], *limited)


def _beam(n: IntArray, m: IntArray, tall: int) -> tuple[Array, Array]:
    """`low` and `high` of `Pairs`: row i reaches BEAM words around i |m| / |n|, further where |m| is very long."""
    i = np.arange(tall + 1)[:, None]
    ratio = m / n
    width = np.where(ratio / 2 > BEAM, np.ceil(ratio / 2 + BEAM), BEAM)
    middle = np.floor(i * ratio)
    high = np.where(i == n, m + 1, np.minimum(m + 1, middle + width))
    high[0] = high[1]  # row 0 is all within, but no more of it is ever used
    low = np.maximum(0, middle - width)
    return (low + i).astype(np.int32), (high + i).astype(np.int32)


def _table(pairs: Pairs, keep: bool) -> tuple[IntArray, Array]:
    """Edit distances [pairs], and if `keep` the table that `_alignment` reads, [N + M + 1, N + 1, pairs].

    Cell [d, i] holds S = d - distance of the first i words to the first d - i: S(i, j) = max(S(i-1, j), S(i, j-1),
    S(i-1, j-1) + 1 + [h_i = r_j]). All cells of an antidiagonal d of all pairs are made at once.
    """
    (tall, count), wide = pairs.h.shape, len(pairs.r)
    ends = pairs.n + pairs.m
    longest = int(ends.max())
    best = 2 * min(tall, wide)
    dtype = np.int8 if best < 125 else np.int16 if best < 32000 else np.int32
    table = np.full((longest + 1 if keep else 3, tall + 1, count), NEVER, dtype)
    table[0, 0] = 0
    order = np.argsort(ends)
    done = np.searchsorted(ends[order], np.arange(longest + 2)).tolist()
    score = np.zeros(count, np.int64)
    windows = _windows(pairs, longest)
    for d in range(1, longest + 1):
        now, before, twice = (
            table[d if keep else d % 3],
            table[(d - 1) % len(table)],
            table[(d - 2) % len(table)],
        )
        first, last = windows[d]
        a, b = max(first, 1), min(last, d - 1)
        same = pairs.h[a - 1 : b] == pairs.r[wide - d + a : wide - d + b + 1]
        across = same.view(np.int8).astype(dtype, copy=False)
        across += twice[a - 1 : b]
        across += dtype(1)
        np.maximum(across, before[a - 1 : b], out=across)
        np.maximum(across, before[a : b + 1], out=now[a : b + 1])
        if first:
            now[first - 1] = NEVER
        else:
            now[0] = 0
        if last == d:
            now[d] = 0
        if len(pairs.low):
            here = slice(first, last + 1)
            now[here][(pairs.low[here] > d) | (pairs.high[here] <= d)] = NEVER
        ended = order[done[d] : done[d + 1]]
        if len(ended):
            score[ended] = now[pairs.n[ended], ended]
    return ends - score, table


def _windows(pairs: Pairs, longest: int) -> list[tuple[int, int]]:
    """First and last row of every antidiagonal 0..longest that some pair needs."""
    d = np.arange(longest + 1)
    first, last = np.maximum(d - len(pairs.r), 0), np.minimum(d, len(pairs.h))
    if len(pairs.low):
        first = np.maximum(first, np.searchsorted(pairs.high.max(axis=1), d, "right"))
        last = np.minimum(last, np.searchsorted(pairs.low.min(axis=1), d, "right") - 1)
    return list(zip(first.tolist(), last.tolist(), strict=True))


class _Alignment(NamedTuple):
    """How the words of some pairs stand to each other in their cheapest edit."""

    before: IntArray  # [M + 1, pairs] hypothesis words up to the one aligned with reference word j - 1; 0 for j = 0
    wrong_h: IntArray  # [N + 1, pairs] edited words among the first i of the hypothesis
    wrong_r: IntArray  # [M + 1, pairs] edited words among the first j of the reference


def _alignment(pairs: Pairs, table: Array) -> _Alignment:
    """Walks every pair's table back from its end; of equal costs a substitution is first, then a deletion."""
    (tall, count), wide = pairs.h.shape, len(pairs.r)
    before = np.zeros((wide + 1, count), np.int64)
    wrong_h, wrong_r = np.zeros((tall + 1, count), np.int64), np.zeros((wide + 1, count), np.int64)
    i, j, p = pairs.n.copy(), pairs.m.copy(), np.arange(count)
    while len(p):
        score = table[i + j, i, p]
        inner = (i > 0) & (j > 0)
        same = pairs.h[i - 1, p] == pairs.r[wide - np.maximum(j, 1), p]
        across = inner & (table[i + j - 2, i - 1, p] + 1 + same == score)
        down = ~across & (i > 0) & ((j == 0) | (table[i + j - 1, i - 1, p] == score))
        wrong = ~(across & same)
        wrong_h[i, p] |= wrong & (across | down)
        wrong_r[j, p] |= wrong & ~down
        before[j, p] = np.where(down, before[j, p], i)
        i, j = i - (across | down), j - ~down
        left = (i > 0) | (j > 0)
        i, j, p = i[left], j[left], p[left]
    return _Alignment(before, wrong_h.cumsum(axis=0), wrong_r.cumsum(axis=0))


def fewest_edits(pairs: Pairs, floor: IntArray) -> IntArray:
    """Edits [pairs], never below `floor`.

    A cheapest edit strays from the beam's middle by at most (distance + | |h| - |r| |) / 2 + 1 words. Where that is
    within the beam, distance and alignment are the same with and without it, and for all shifts that pay too.
    """
    unequal = np.abs(pairs.n - pairs.m)
    edits = np.maximum(floor, 2 * BEAM)
    near = np.flatnonzero((floor + unequal) // 2 + 3 < BEAM)
    if len(near):
        edits[near] = _table(pairs.take(near), keep=False)[0]
    within = (edits + unequal) // 2 + 3 < BEAM
    for limited in (False, True):
        some = np.flatnonzero(within != limited)
        if not len(some):
            continue
        chosen = pairs.take(some)
        if limited:
            low, high = _beam(chosen.n, chosen.m, len(chosen.h))
            chosen = chosen._replace(low=low, high=high)
            edits[some] = _table(chosen, keep=False)[0]
        edits[some] = _searched(chosen, edits[some], floor[some])
    return edits


def _searched(pairs: Pairs, edits: IntArray, floor: IntArray) -> IntArray:
    """Edits [pairs] from distances without shifts: shifts are made until none pays, or none can (at `floor`)."""
    edits = edits.copy()
    active = np.flatnonzero(edits > floor)
    pairs, floor, tried = pairs.take(active), floor[active], np.zeros(len(active), np.int64)
    while len(active):
        distance, table = _table(pairs, keep=True)
        gain, words = _best_shift(pairs, _alignment(pairs, table), distance, tried)
        edits[active] -= np.where(gain > 0, gain - 1, 0)
        going = np.flatnonzero((gain > 0) & (distance - gain > floor))
        active, floor, tried = active[going], floor[going], tried[going]
        pairs = pairs._replace(h=words).take(going)
    return edits


class _Shifts(NamedTuple):
    """Shifts, an entry each: the words start..start + length of a pair's hypothesis move before the word `target`."""

    pair: IntArray
    start: IntArray
    length: IntArray
    target: IntArray

    def where(self, kept: Array) -> _Shifts:
        """The entries at a mask or at positions."""
        return _Shifts(*(column[kept] for column in self))


def _best_shift(
    pairs: Pairs, alignment: _Alignment, distance: IntArray, tried: IntArray
) -> tuple[IntArray, Array]:
    """What the best shift of every pair gains [pairs], and the words after it; `tried` counts on.

    Of equal gains the longest block, then its earliest start, then its earliest target wins. A pair that has tried
    TRIED_SHIFTS gains nothing.
    """
    gain, words = np.zeros(len(distance), np.int64), pairs.h.copy()
    shifts = _shifts(pairs, alignment, tried)
    a, b, c = _swap(shifts, pairs.n)
    moving = (a < b) & (b < c) & (tried[shifts.pair] < TRIED_SHIFTS)
    shifts, side = shifts.where(moving), len(pairs.h) + 1
    key = ((shifts.pair * side + a[moving]) * side + b[moving]) * side + c[moving]
    _, first, same_as = np.unique(key, return_index=True, return_inverse=True)
    gains = distance[shifts.pair] - _distances(pairs, shifts.where(first))[same_as]
    np.maximum.at(gain, shifts.pair, gains)
    best = shifts.where((gains == gain[shifts.pair]) & (gains > 0))
    best = best.where(np.lexsort((best.target, best.start, -best.length, best.pair)))
    best = best.where(np.unique(best.pair, return_index=True)[1])
    words[:, best.pair] = _shifted(pairs, best)
    return gain, words


def _shifts(pairs: Pairs, alignment: _Alignment, tried: IntArray) -> _Shifts:
    """The shifts Tercom tries: blocks that stand in the reference too, with an edit on either side, elsewhere."""
    before, wrong_h, wrong_r = alignment
    s, t, p, run = _common_blocks(pairs)
    some = (wrong_h[s + run, p] > wrong_h[s, p]) & (wrong_r[t + run, p] > wrong_r[t, p])
    s, t, p, run = s[some], t[some], p[some], run[some]
    entry, length = _counted(run)
    s, t, p, length = s[entry], t[entry], p[entry], length + 1
    some = (wrong_h[s + length, p] > wrong_h[s, p]) & (wrong_r[t + length, p] > wrong_r[t, p])
    some &= (before[t + 1, p] <= s) | (before[t + 1, p] > s + length)
    s, t, p, length = s[some], t[some], p[some], length[some]
    enough = (
        tried + np.bincount(p, minlength=len(tried)) >= TRIED_SHIFTS
    )  # each gives one target or more
    tried[enough] = TRIED_SHIFTS
    entry, offset = _counted(np.where(enough[p], 0, length + 1))
    s, t, p, length = s[entry], t[entry], p[entry], length[entry]
    target = before[t + offset, p]
    new = (offset == 0) | (target != before[t + offset - 1, p])
    tried += np.bincount(p[new], minlength=len(tried))
    return _Shifts(p[new], s[new], length[new], target[new])


def _common_blocks(pairs: Pairs) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Start in the hypothesis, start in the reference, pair and length of every longest common block."""
    (tall, count), wide = pairs.h.shape, len(pairs.r)
    run = np.zeros((tall + 1, wide + 1, count), np.int8)
    for row in range(tall - 1, -1, -1):
        np.minimum(run[row + 1, 1:] + 1, SHIFT_WORDS, out=run[row, :-1])
        run[row, :-1] *= pairs.h[row] == pairs.r[::-1]
    s, t, p = np.nonzero(run)
    near = np.abs(s - t) <= SHIFT_DISTANCE
    s, t, p = s[near], t[near], p[near]
    return s, t, p, run[s, t, p].astype(np.int64)


def _counted(times: IntArray) -> tuple[IntArray, IntArray]:
    """Every position as often as it says, and the count 0, 1, ... within each."""
    entry = np.repeat(np.arange(len(times)), times)
    return entry, np.arange(len(entry)) - (times.cumsum() - times)[entry]


def _swap(shifts: _Shifts, n: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """A shift as the exchange of the neighbouring blocks a..b and b..c."""
    _, start, length, target = shifts
    end = start + length
    right = np.minimum(np.where(target > end, target, target + length), n[shifts.pair])
    left = target < start
    return np.where(left, target, start), np.where(left, start, end), np.where(left, end, right)


def _shifted(pairs: Pairs, shifts: _Shifts) -> Array:
    """The words of the hypothesis after every shift, [N, shifts]."""
    a, b, c = (place.astype(np.int32) for place in _swap(shifts, pairs.n))
    place = np.arange(len(pairs.h), dtype=np.int32)[:, None]
    move = np.where(place < a + c - b, b - a, b - c) * ((place >= a) & (place < c))
    return pairs.h[place + move, shifts.pair]  # type: ignore[no-any-return]


def _distances(pairs: Pairs, shifts: _Shifts) -> IntArray:
    """The edit distance after every shift, [shifts]."""
    found = np.empty(len(shifts.pair), np.int64)
    step = max(1, ROW_CELLS // len(pairs.h))
    for start in range(0, len(found), step):
        some = shifts.where(np.arange(start, min(start + step, len(found))))
        after = pairs.take(some.pair)._replace(h=_shifted(pairs, some))
        found[start : start + step] = _table(after, keep=False)[0]
    return found
