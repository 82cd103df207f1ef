"""Clipped matches of the n-grams of one order, for all pairs of texts of many lists, exact.

Texts meet in two ways:
- an n-gram that few of many texts have adds one to the cell of each of its pairs of texts;
- for the others, each (n-gram, k-th occurrence in its text) is a column of a 0/1 matrix A, and A'A holds
      sum_g min(c_h(g), c_r(g)) = sum_{g,k} [c_h(g) > k] [c_r(g) > k].
A position of a text is one number, its word: slot of the text, symbols left in the text, and how many symbols it has in
common with the position sorted before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import Array, FloatArray, IntArray

BoolArray = NDArray[np.bool_]
Floats = NDArray[np.float32] | FloatArray

DEPTH_BITS = 6  # of a number of symbols that fit into one key
DEPTH = (1 << DEPTH_BITS) - 1
CELLS = 1 << 21  # cells of one batch of 0/1 matrices; their products are exact in float32
TILE = 64  # least columns of a 0/1 matrix
RARE_HEIGHT = 64  # lists of fewer texts are all matrix products
RARE_PART = 16  # an n-gram is rare if at most 1 / RARE_PART of the places of a list have it
PAIRS = 1 << 18  # pairs of texts that are counted at once


class Lists(NamedTuple):
    """Lists of similar shape side by side: each has `height` places, hypotheses first, references last."""

    rows: IntArray  # rows of the symbols, list after list
    slot: IntArray  # of each row: list << bits | place
    hypotheses: IntArray  # [lists]
    references: IntArray  # [lists]
    high: int  # most hypotheses of a list
    wide: int  # most references of a list
    height: int
    bits: int  # of a place

    @property
    def existing(self) -> BoolArray | None:
        """Which cells of [lists, high, wide] exist; None if all do."""
        if (self.hypotheses == self.high).all() and (self.references == self.wide).all():
            return None
        of_h = np.arange(self.high) < self.hypotheses[:, None]
        of_r = np.arange(self.wide) < self.references[:, None]
        return of_h[:, :, None] & of_r[:, None, :]


def clipped_matches(words: Array, n: int, lists: Lists) -> FloatArray:
    """Matches [lists, high, wide] of the n-grams that start at sorted positions; a text with itself is left out."""
    total = np.zeros((len(lists.hypotheses), lists.high, lists.wide))
    if lists.height >= RARE_HEIGHT:
        words = _rare(total, words, n, lists)
    if len(words):
        _frequent(total, words, n, lists)
    return total


def _frequent(total: FloatArray, words: Array, n: int, lists: Lists) -> None:
    """Adds the matches of the n-grams of `words`, by matrix products."""
    gram = ((words & DEPTH) < n).cumsum(dtype=np.int32)
    gram -= 1
    grams, height = int(gram[-1]) + 1, lists.height
    slot = words >> 2 * DEPTH_BITS
    bounds = np.searchsorted(slot >> lists.bits, np.arange(len(total) + 1, dtype=slot.dtype))
    first = np.where(
        bounds < len(gram), gram.take(bounds, mode="clip"), grams
    )  # n-gram of each list
    cell = np.multiply(gram, height, dtype=np.int64)
    cell += slot & (1 << lists.bits) - 1
    step = max(1, CELLS // height)
    for low in range(0, grams, step):
        size = min(step, grams - low)
        here = slice(*np.searchsorted(gram, (low, low + size))) if grams > step else slice(None)
        counts = np.bincount(cell[here] - low * height, minlength=(size + 1) * height)
        _multiply(total, counts.reshape(-1, height), np.clip(first - low, 0, size), lists)


def _multiply(total: FloatArray, counts: IntArray, first: IntArray, lists: Lists) -> None:
    """Adds the matches of counts [n-grams + 1, height], the last all 0; `first` is the first n-gram of every list."""
    columns = np.ones(len(counts), np.int64)
    columns[-1] = 0
    several = np.flatnonzero(counts.ravel() > 1)
    np.maximum.at(columns, several // lists.height, counts.ravel().take(several))
    upto = np.concatenate(([0], columns.cumsum()))
    sizes = np.diff(upto[first])
    width = max(TILE, min(int(sizes.mean()) // 2, CELLS // lists.height))
    tiles = -(-sizes // width)
    owner = np.repeat(np.arange(len(tiles)), tiles)
    place = np.arange(upto[-1]) + np.repeat(
        (tiles.cumsum() - tiles) * width - upto[first[:-1]], sizes
    )
    gram = np.repeat(np.arange(len(counts)), columns)
    source = np.full(len(owner) * width, len(counts) - 1)
    source[place] = gram
    occurrence = np.zeros(len(source), np.int64)
    occurrence[place] = np.arange(len(gram)) - upto.take(gram)
    once = (counts > 0).astype(np.float32)
    step = max(1, CELLS // (width * lists.height))
    for low in range(0, len(owner), step):
        here = slice(low * width, (low + step) * width)
        ones = once.take(source[here], axis=0)
        more = np.flatnonzero(occurrence[here]) + here.start
        ones[more - here.start] = counts.take(source[more], axis=0) > occurrence[more, None]
        ones = ones.reshape(-1, width, lists.height)
        product = (
            ones[:, :, : lists.high].transpose(0, 2, 1) @ ones[:, :, lists.height - lists.wide :]
        )
        _add_tiles(total, product, owner[low : low + step])


def _add_tiles(total: FloatArray, product: Floats, owner: IntArray) -> None:
    """Adds the product of every tile to its list; owner is sorted."""
    nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
    for i in range(int(nth.max()) + 1):
        which = np.flatnonzero(nth == i)
        total[owner[which]] += product.take(which, axis=0)


def _rare(total: FloatArray, words: Array, n: int, lists: Lists) -> Array:
    """Adds the matches of n-grams that few texts have, each once; returns the words of the other n-grams."""
    starts = np.flatnonzero((words & DEPTH) < n)
    sizes = np.diff(starts, append=len(words))
    few = sizes <= lists.height // RARE_PART
    run = np.repeat(np.arange(np.count_nonzero(few)), sizes[few])
    key = words[np.repeat(few, sizes)] >> 2 * DEPTH_BITS | run << 32
    key.sort()
    repeated = np.zeros(np.count_nonzero(few), np.bool_)
    repeated[run[1:][key[1:] == key[:-1]]] = True
    _add_pairs(total, key[~repeated[run]] & (1 << 32) - 1, sizes[few][~repeated], lists)
    few[few] = ~repeated
    return words[np.repeat(~few, sizes)]


def _add_pairs(total: FloatArray, slot: IntArray, sizes: IntArray, lists: Lists) -> None:
    """Adds one to the cells of all pairs of slots of one run; slots ascend within a run."""
    later = np.repeat(sizes.cumsum(), sizes) - np.arange(
        1, len(slot) + 1
    )  # how many partners follow
    before = later.cumsum() - later
    place = slot & (1 << lists.bits) - 1
    matrix = (slot >> lists.bits) * (lists.high * lists.wide)
    low, step = 0, max(PAIRS, total.size)
    while low < len(slot):
        high = max(low + 1, int(np.searchsorted(before, before[low] + step)))
        left = np.repeat(np.arange(low, high), later[low:high])
        shift = np.arange(low + 1, high + 1) - before[low:high] + before[low]
        right = np.arange(len(left)) + np.repeat(shift, later[low:high])
        if lists.high < lists.height:
            across = (place[left] < lists.high) & (place[right] >= lists.high)
            left, right = left[across], right[across]
        cell = (matrix + place * lists.wide)[left] + place[right] - (lists.height - lists.wide)
        found = np.bincount(cell, minlength=total.size).reshape(total.shape)
        total += found
        if lists.high == lists.height:
            total += found.transpose(0, 2, 1)
        low = high
