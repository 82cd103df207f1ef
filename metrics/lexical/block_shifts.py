"""Blocks of words that two texts have in common, and shifts of such blocks, for many pairs of texts.

It knows neither words nor distances: pairs are numbers, and so are places in their texts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..representations import Array, IntArray
from .ranges import owners, ranges

SHIFT_WORDS, SHIFT_DISTANCE = 10, 50  # Tercom's limits


class EditAlignment(NamedTuple):
    """How the words of some pairs stand to each other in their cheapest edit."""

    before: IntArray  # [M + 1, pairs] hypothesis words up to the one aligned with reference word j - 1; 0 for j = 0
    wrong_h: IntArray  # [N + 1, pairs] edited words among the first i of the hypothesis
    wrong_r: IntArray  # [M + 1, pairs] edited words among the first j of the reference


class Blocks(NamedTuple):
    """Blocks of words that both texts of a pair have, [blocks] each."""

    pair: IntArray
    h: IntArray  # start in the hypothesis
    r: IntArray  # start in the reference
    length: IntArray

    def where(self, kept: Array) -> Blocks:
        """The blocks at a mask."""
        return Blocks(*(column[kept] for column in self))

    def beginnings(self) -> Blocks:
        """All beginnings of every block."""
        block = owners(self.length)
        lengths = ranges(np.ones_like(self.length), self.length)
        return Blocks(self.pair[block], self.h[block], self.r[block], lengths)

    def edited(self, alignment: EditAlignment) -> Array:
        """Whether every block has an edited word in both texts, [blocks]."""
        _, wrong_h, wrong_r = alignment
        pair, h, r, length = self
        edited_h: Array = wrong_h[h + length, pair] > wrong_h[h, pair]
        edited_r: Array = wrong_r[r + length, pair] > wrong_r[r, pair]
        return edited_h & edited_r

    def aligned_elsewhere(self, alignment: EditAlignment) -> Array:
        """Whether the word aligned with every block's first reference word is outside the block, [blocks]."""
        aligned = alignment.before[self.r + 1, self.pair]
        elsewhere: Array = (aligned <= self.h) | (aligned > self.h + self.length)
        return elsewhere


class Shifts(NamedTuple):
    """The words start..start + length of a pair's hypothesis move before the word `target`, [shifts] each."""

    pair: IntArray
    start: IntArray
    length: IntArray
    target: IntArray

    def where(self, kept: Array) -> Shifts:
        """The shifts at a mask or at positions."""
        return Shifts(*(column[kept] for column in self))

    def swaps(self, n: IntArray) -> BlockSwaps:
        """Every shift as an exchange of neighbouring blocks; `n` is the hypothesis lengths of the pairs, [pairs]."""
        _, start, length, target = self
        end = start + length
        # To the left the words between target and start give way; to the right those after the block,
        left = target < start
        # up to the target, or if that is within the block by as many words as it has.
        right = np.where(target > end, target, target + length)
        right = np.minimum(right, n[self.pair])
        a = np.where(left, target, start)
        b = np.where(left, start, end)
        c = np.where(left, end, right)
        return BlockSwaps(self.pair, a, b, c)


class BlockSwaps(NamedTuple):
    """In a pair's hypothesis the words a..b and b..c change places, [swaps] each."""

    pair: IntArray
    a: IntArray
    b: IntArray
    c: IntArray

    def where(self, kept: Array) -> BlockSwaps:
        """The swaps at a mask or at positions."""
        return BlockSwaps(*(column[kept] for column in self))

    def moved(self, h: Array) -> Array:
        """The words of the hypothesis after every swap, [N, swaps]; `h` is [N, pairs]."""
        a, b, c = (bound.astype(np.int32) for bound in self[1:])
        place = np.arange(len(h), dtype=np.int32)[:, None]
        # The words now in a..a + c - b were in b..c, the rest of a..c in a..b.
        moved_left = place < a + c - b
        move = np.where(moved_left, b - a, b - c)
        move *= (place >= a) & (place < c)
        words: Array = h[place + move, self.pair]
        return words
