"""Tercom's search: the fewest edits between two texts when blocks of words may move, for many pairs at once.

Every pair makes the block shift that lowers its edit distance most, until none lowers it. It knows neither texts nor
scores, nor how distances are computed.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np

from ..representations import Array, IntArray
from .block_shifts import Blocks, BlockSwaps, EditAlignment, Shifts
from .ranges import owners, ranges

TRIED_SHIFTS = 1000  # Tercom's limit


class EditTable(Protocol):
    """How the words of some pairs are edited at the least cost."""

    def alignment(self) -> EditAlignment:
        """How the words stand to each other; of equal costs a substitution is first, then a deletion."""

    def movable_blocks(self, alignment: EditAlignment) -> Blocks:
        """All common blocks with an edit on either side that are not aligned with themselves."""

    def distances(self, swaps: BlockSwaps) -> IntArray:
        """The edit distance after every swap, [swaps]."""


class Pairs(Protocol):
    """Pairs of texts; the words of the hypotheses change places."""

    @property
    def h(self) -> Array:
        """Hypothesis words as numbers, a column per pair, [N, pairs]."""

    @property
    def n(self) -> IntArray:
        """Hypothesis lengths, [pairs]."""

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs."""

    def reordered(self, h: Array) -> Self:
        """The pairs with the words of their hypotheses in another order, [N, pairs]."""

    def distances(self) -> IntArray:
        """Insertions, deletions and substitutions between the texts of every pair, [pairs]."""

    def table(self) -> EditTable:
        """The cheapest edits."""


def fewest_edits(pairs: Pairs, floor: IntArray) -> IntArray:
    """Edits after all shifts that pay, [pairs].

    Args:
        pairs: the pairs.
        floor: a lower bound of the edits of every pair: where the distance is down to this, no shift can pay, [pairs].
    """
    edits = pairs.distances()
    active = np.flatnonzero(edits > floor)  # the pairs still searched
    pairs = pairs.take(active)
    distance = edits[active]
    tried = np.zeros(len(active), np.int64)
    while len(active):
        # Each makes its best shift, which costs one edit.
        gain, words = _best_shift(pairs, distance, tried)
        edits[active] -= np.where(gain > 0, gain - 1, 0)
        distance = distance - gain
        # Those that gained, and still may, go on with the words in their new order.
        going = np.flatnonzero((gain > 0) & (distance > floor[active]))
        active = active[going]
        distance = distance[going]
        tried = tried[going]
        pairs = pairs.reordered(words).take(going)
    return edits


def _best_shift(pairs: Pairs, distance: IntArray, tried: IntArray) -> tuple[IntArray, Array]:
    """What the best shift of every pair gains [pairs], and the words after it [N, pairs].

    Of equal gains the longest block, then its earliest start, then its earliest target wins. A pair that has tried
    TRIED_SHIFTS gains nothing.

    Args:
        pairs: the pairs.
        distance: edits before the shift, [pairs].
        tried: shifts tried so far, which counts on, [pairs].
    """
    table = pairs.table()
    alignment = table.alignment()
    # Leave out shifts that move nothing, and those of pairs that have tried enough.
    shifts = _shifts(table.movable_blocks(alignment), alignment, tried)
    swaps = shifts.swaps(pairs.n)
    moves = (swaps.a < swaps.b) & (swaps.b < swaps.c)
    moving = moves & (tried[shifts.pair] < TRIED_SHIFTS)
    shifts = shifts.where(moving)
    swaps = swaps.where(moving)

    # Shifts that exchange the same blocks are measured once: (pair, a, b, c) as one number.
    side = len(pairs.h) + 1
    key = swaps.pair
    for bound in (swaps.a, swaps.b, swaps.c):
        key = key * side + bound
    _, first, same_as = np.unique(key, return_index=True, return_inverse=True)
    shifted_distance = table.distances(swaps.where(first))[same_as]
    gains = distance[shifts.pair] - shifted_distance

    # Of every pair's shifts that gain most, the first in the order of Tercom wins.
    gain = np.zeros(len(distance), np.int64)
    np.maximum.at(gain, shifts.pair, gains)
    best = np.flatnonzero((gains == gain[shifts.pair]) & (gains > 0))
    of_best = shifts.where(best)
    order = np.lexsort((of_best.target, of_best.start, -of_best.length, of_best.pair))
    _, first = np.unique(of_best.pair[order], return_index=True)
    made = swaps.where(best[order[first]])
    words = pairs.h.copy()
    words[:, made.pair] = made.moved(pairs.h)
    return gain, words


def _shifts(blocks: Blocks, alignment: EditAlignment, tried: IntArray) -> Shifts:
    """The shifts Tercom tries: blocks that stand in the reference too, with an edit on either side, elsewhere.

    `tried` [pairs] counts them; a pair that would have tried TRIED_SHIFTS gets none.
    """
    before = alignment.before
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
    return Shifts(pair, blocks.h[block], blocks.length[block], target[new])
