"""Tercom's search: the fewest edits between two texts when blocks of words may move, for many pairs at once.

Every pair makes the block shift that lowers its edit distance most, until none lowers it. It knows neither texts nor
scores: words arrive as integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..representations import Array, IntArray
from .edit_distance import (
    BEAM,
    EditAlignment,
    TextPairs,
    edit_alignment,
    edit_distances,
    edit_table,
)
from .ranges import owners, ranges

SHIFT_WORDS, SHIFT_DISTANCE, TRIED_SHIFTS = 10, 50, 1000  # Tercom's limits
ROW_CELLS = 1 << 16  # cells of one antidiagonal of the shifts measured together


def fewest_edits(pairs: TextPairs, floor: IntArray) -> IntArray:
    """Edits [pairs], never below `floor`.

    A cheapest edit strays from the beam's middle by at most (distance + | |h| - |r| |) / 2 + 1 words. Where that is
    within the beam, distance and alignment are the same with and without it, and for all shifts that pay too.

    Args:
        pairs: the pairs, without a beam.
        floor: a lower bound of the edits of every pair, [pairs].
    """
    # Measure the pairs that may stay within the beam.
    unequal = np.abs(pairs.n - pairs.m)
    edits = np.maximum(floor, 2 * BEAM)
    near = np.flatnonzero(_within_beam(floor, unequal))
    if len(near):
        edits[near] = edit_distances(pairs.take(near))

    # Those that do are searched without it, all others with it.
    within = _within_beam(edits, unequal)
    inside = np.flatnonzero(within)
    if len(inside):
        edits[inside] = _searched(pairs.take(inside), edits[inside], floor[inside])
    outside = np.flatnonzero(~within)
    if len(outside):
        limited = pairs.take(outside).with_beam()
        edits[outside] = _searched(limited, edit_distances(limited), floor[outside])
    return edits


def _within_beam(distance: IntArray, unequal: IntArray) -> Array:
    """Whether edits of a distance stay within the beam where lengths are so unequal, [pairs]."""
    return (distance + unequal) // 2 + 3 < BEAM


def _searched(pairs: TextPairs, edits: IntArray, floor: IntArray) -> IntArray:
    """Edits after all shifts that pay, [pairs].

    Args:
        pairs: the pairs.
        edits: their edit distances without shifts, [pairs].
        floor: where the edits are down to this, no shift can pay, [pairs].
    """
    edits = edits.copy()
    active = np.flatnonzero(edits > floor)  # the pairs still searched
    pairs = pairs.take(active)
    floor = floor[active]
    tried = np.zeros(len(active), np.int64)
    while len(active):
        # Each makes its best shift, which costs one edit.
        distance, table = edit_table(pairs)
        alignment = edit_alignment(pairs, table)
        gain, words = _best_shift(pairs, alignment, distance, tried)
        edits[active] -= np.where(gain > 0, gain - 1, 0)
        # Those that gained, and still may, go on with the words in their new order.
        going = np.flatnonzero((gain > 0) & (distance - gain > floor))
        active = active[going]
        floor = floor[going]
        tried = tried[going]
        pairs = pairs._replace(h=words).take(going)
    return edits


class _Shifts(NamedTuple):
    """The words start..start + length of a pair's hypothesis move before the word `target`, [shifts] each."""

    pair: IntArray
    start: IntArray
    length: IntArray
    target: IntArray

    def where(self, kept: Array) -> _Shifts:
        """The shifts at a mask or at positions."""
        return _Shifts(*(column[kept] for column in self))


def _best_shift(
    pairs: TextPairs,
    alignment: EditAlignment,
    distance: IntArray,
    tried: IntArray,
) -> tuple[IntArray, Array]:
    """What the best shift of every pair gains [pairs], and the words after it [N, pairs].

    Of equal gains the longest block, then its earliest start, then its earliest target wins. A pair that has tried
    TRIED_SHIFTS gains nothing.

    Args:
        pairs: the pairs.
        alignment: by their cheapest edits.
        distance: edits before the shift, [pairs].
        tried: shifts tried so far, which counts on, [pairs].
    """
    # Leave out shifts that move nothing, and those of pairs that have tried enough.
    shifts = _shifts(pairs, alignment, tried)
    a, b, c = _swap(shifts, pairs.n)
    moves = (a < b) & (b < c)
    moving = moves & (tried[shifts.pair] < TRIED_SHIFTS)
    shifts = shifts.where(moving)

    # Shifts that exchange the same blocks are measured once: (pair, a, b, c) as one number.
    side = len(pairs.h) + 1
    key = shifts.pair
    for bound in (a, b, c):
        key = key * side + bound[moving]
    _, first, same_as = np.unique(key, return_index=True, return_inverse=True)
    shifted_distance = _distances(pairs, shifts.where(first))[same_as]
    gains = distance[shifts.pair] - shifted_distance

    # Of every pair's shifts that gain most, the first in the order of Tercom wins.
    gain = np.zeros(len(distance), np.int64)
    np.maximum.at(gain, shifts.pair, gains)
    best = shifts.where((gains == gain[shifts.pair]) & (gains > 0))
    order = np.lexsort((best.target, best.start, -best.length, best.pair))
    best = best.where(order)
    _, first = np.unique(best.pair, return_index=True)
    best = best.where(first)
    words = pairs.h.copy()
    words[:, best.pair] = _shifted(pairs, best)
    return gain, words


class _Blocks(NamedTuple):
    """Blocks of words that both texts of a pair have, [blocks] each."""

    pair: IntArray
    h: IntArray  # start in the hypothesis
    r: IntArray  # start in the reference
    length: IntArray

    def where(self, kept: Array) -> _Blocks:
        """The blocks at a mask."""
        return _Blocks(*(column[kept] for column in self))


def _shifts(pairs: TextPairs, alignment: EditAlignment, tried: IntArray) -> _Shifts:
    """The shifts Tercom tries: blocks that stand in the reference too, with an edit on either side, elsewhere.

    `tried` [pairs] counts them; a pair that would have tried TRIED_SHIFTS gets none.
    """
    before = alignment.before
    blocks = _movable_blocks(pairs, alignment)
    # A pair with so many blocks has tried enough: each block gives one target or more.
    blocks_of_pair = np.bincount(blocks.pair, minlength=len(tried))
    enough = tried + blocks_of_pair >= TRIED_SHIFTS
    tried[enough] = TRIED_SHIFTS

    # It moves behind the word aligned with the reference word before the block, or with any of the block's.
    num_offsets = np.where(enough[blocks.pair], 0, blocks.length + 1)
    offset = ranges(np.zeros_like(num_offsets), num_offsets)
    block = owners(num_offsets)
    pair = blocks.pair[block]
    r = blocks.r[block] + offset
    target = before[r, pair]
    last_target = before[r - 1, pair]
    new = (offset == 0) | (target != last_target)
    pair = pair[new]
    block = block[new]
    tried += np.bincount(pair, minlength=len(tried))
    return _Shifts(pair, blocks.h[block], blocks.length[block], target[new])


def _movable_blocks(pairs: TextPairs, alignment: EditAlignment) -> _Blocks:
    """All common blocks with an edit on either side that are not aligned with themselves."""
    # Where the longest block lacks an edit, so do all its beginnings.
    longest = _common_blocks(pairs)
    longest = longest.where(_edited(longest, alignment))
    # Of the others take every beginning.
    block = owners(longest.length)
    lengths = ranges(np.ones_like(longest.length), longest.length)
    blocks = _Blocks(
        longest.pair[block],
        longest.h[block],
        longest.r[block],
        lengths,
    )
    # The word aligned with the block's first reference word must be outside the block.
    aligned = alignment.before[blocks.r + 1, blocks.pair]
    elsewhere = (aligned <= blocks.h) | (aligned > blocks.h + blocks.length)
    return blocks.where(_edited(blocks, alignment) & elsewhere)


def _edited(blocks: _Blocks, alignment: EditAlignment) -> Array:
    """Whether every block has an edited word in both texts, [blocks]."""
    _, wrong_h, wrong_r = alignment
    pair, h, r, length = blocks
    edited_h: Array = wrong_h[h + length, pair] > wrong_h[h, pair]
    edited_r: Array = wrong_r[r + length, pair] > wrong_r[r, pair]
    return edited_h & edited_r


def _common_blocks(pairs: TextPairs) -> _Blocks:
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
    return _Blocks(pair, h, r, length)


def _swap(shifts: _Shifts, n: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Every shift as the exchange of the neighbouring blocks a..b and b..c, [shifts] each; `n` is of the pairs."""
    _, start, length, target = shifts
    end = start + length
    # To the left the words between target and start give way; to the right those after the block,
    left = target < start
    # up to the target, or if that is within the block by as many words as it has.
    right = np.where(target > end, target, target + length)
    right = np.minimum(right, n[shifts.pair])
    a = np.where(left, target, start)
    b = np.where(left, start, end)
    c = np.where(left, end, right)
    return a, b, c


def _shifted(pairs: TextPairs, shifts: _Shifts) -> Array:
    """The words of the hypothesis after every shift, [N, shifts]."""
    a, b, c = (bound.astype(np.int32) for bound in _swap(shifts, pairs.n))
    place = np.arange(len(pairs.h), dtype=np.int32)[:, None]
    # The words now in a..a + c - b were in b..c, the rest of a..c in a..b.
    moved_left = place < a + c - b
    move = np.where(moved_left, b - a, b - c)
    move *= (place >= a) & (place < c)
    words: Array = pairs.h[place + move, shifts.pair]
    return words


def _distances(pairs: TextPairs, shifts: _Shifts) -> IntArray:
    """The edit distance after every shift, [shifts]."""
    distances = np.empty(len(shifts.pair), np.int64)
    step = max(1, ROW_CELLS // len(pairs.h))
    for start in range(0, len(distances), step):
        stop = min(start + step, len(distances))
        tile = shifts.where(np.arange(start, stop))
        after = pairs.take(tile.pair)._replace(h=_shifted(pairs, tile))
        distances[start:stop] = edit_distances(after)
    return distances
