"""Clipped n-gram matches of all pairs of many lists, exact, as products of 0/1 matrices.

Every (n-gram, k-th occurrence in its text) is a column; the clipped matches of two texts are the columns they share:
    sum_g min(c_h(g), c_r(g)) = sum_{g,k} [c_h(g) > k] [c_r(g) > k].
A column that only one text of a list has cannot match and is dropped, so a list's matrix is small. It knows neither
characters nor scores: texts arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..reps import Block, FloatArray, IntArray, Ragged

CELLS = 1 << 24  # float32 cells of one 0/1 matrix


def stacked(blocks: Sequence[Block]) -> tuple[IntArray, IntArray]:
    """Rows of all blocks one after the other (a square block's once), and the number of rows per block."""
    parts = [b.hypotheses if b.square else np.concatenate((b.hypotheses, b.references)) for b in blocks]
    return np.concatenate(parts), np.array([len(part) for part in parts])


def matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> Iterator[FloatArray]:
    """For n = 1..order the clipped n-gram matches [cells] of all pairs of all blocks, each block's [H, R] flat."""
    rows, heights = stacked(blocks)
    texts = symbols[rows]
    block_of = np.repeat(np.arange(len(blocks)), heights)
    local = np.arange(len(rows)) - np.repeat(heights.cumsum() - heights, heights)
    code, bound = dense(texts.values)
    base, first = bound, code
    owner = np.repeat(np.arange(len(rows)), texts.lengths)
    end = np.repeat(texts.offsets[1:], texts.lengths)
    text_bits = int(heights.max() - 1).bit_length()
    for n in range(1, order + 1):
        if n > 1:
            if bound * base * len(blocks) << text_bits >= 1 << 63:
                code, bound = dense(code)
            code, bound = code[:-1] * base + first[n - 1 :], bound * base
        inside = np.flatnonzero(np.arange(len(code)) + n <= end[: len(code)])
        who = owner[inside]
        key = (block_of[who] * bound + code[inside] << text_bits) + local[who]
        key.sort()
        yield _count(key, bound, text_bits, blocks, heights)


def dense(values: IntArray) -> tuple[IntArray, int]:
    """The same values as 0..n-1 in order, and n."""
    top = int(values.max(initial=0)) + 1
    if top <= max(1 << 21, 4 * len(values)):
        present = np.zeros(top, np.int64)
        present[values] = 1
        number = present.cumsum() - 1
        return number[values], max(int(number[-1]) + 1, 1)
    unique, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64), len(unique)


def _count(key: IntArray, bound: int, text_bits: int, blocks: Sequence[Block], heights: IntArray) -> FloatArray:
    """One order's matches [cells]; key is sorted by (block, n-gram, text), one entry per occurrence."""
    if not len(key):
        return np.zeros(sum(len(b.hypotheses) * len(b.references) for b in blocks))
    column, kept = _shared_columns(key, text_bits)
    text = key[kept] & ((1 << text_bits) - 1)
    block = (key[kept] >> text_bits) // bound
    if all(len(b.hypotheses) == len(b.references) == 1 and not b.square for b in blocks):
        return np.bincount(block, minlength=len(blocks)) / 2  # a shared column has both texts
    bounds = np.searchsorted(block, np.arange(len(blocks) + 1))
    top = int(column.max(initial=-1)) + 1
    firsts = np.minimum.reduceat(np.append(column, top), bounds)  # an empty block takes its successor's first column
    out = []
    for i, b in enumerate(blocks):
        here = slice(bounds[i], bounds[i + 1])
        width = int(firsts[i + 1] - firsts[i])
        out.append(_product(text[here], column[here] - firsts[i], int(heights[i]), width, b).ravel())
    return np.concatenate(out).astype(float)


def _shared_columns(key: IntArray, text_bits: int) -> tuple[IntArray, IntArray]:
    """The (n-gram, occurrence) column of every entry whose column several texts share, and which entries those are."""
    position = np.arange(len(key))
    new_run = np.concatenate(([True], key[1:] != key[:-1]))
    occurrence = position - np.maximum.accumulate(np.where(new_run, position, 0))
    gram = key >> text_bits
    starts = np.flatnonzero(np.concatenate(([True], gram[1:] != gram[:-1])))
    columns = np.maximum.reduceat(occurrence, starts) + 1  # of each n-gram
    column = np.repeat(columns.cumsum() - columns, np.diff(np.append(starts, len(key)))) + occurrence
    shared = np.bincount(column) > 1
    kept = np.flatnonzero(shared[column])
    return (shared.cumsum() - shared)[column[kept]], kept


def _product(text: IntArray, column: IntArray, height: int, width: int, block: Block) -> FloatArray:
    """Columns two texts share, [H, R]; exact in float32 up to 2^24, in tiles of CELLS."""
    split = len(block.hypotheses)
    tile = max(1, CELLS // height)
    if width > tile:
        total = np.zeros((split, height if block.square else height - split))
        for at in range(0, width, tile):
            part = (column >= at) & (column < at + tile)
            total += _product(text[part], column[part] - at, height, tile, block)
        return total
    ones = np.zeros((height, width), np.float32)
    ones[text, column] = 1
    return ones @ ones.T if block.square else ones[:split] @ ones[split:].T
