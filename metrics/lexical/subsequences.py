"""Longest common subsequences of all pairs of many lists, plain and weighted, exact.

It knows neither texts nor scores: words arrive as integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged
from .word_columns import equal_texts, word_columns

CELLS = 1 << 16  # words of the longer texts of the pairs compared together
PLACE_BYTES = 1 << 24  # of the places made at a time


def longest_common(words: Ragged, block: Block) -> FloatArray:
    """Length of the longest common subsequence of every pair of a block, [H, R].

    One integer holds a bit per word of every hypothesis, and a free bit after each that stops carries. Hyyrö's step
    (2004) for the next word of a reference, with the places of that word as `match`, is V = (V + (V & match)) | (V &
    ~match); the zeros of V among a hypothesis' bits count its longest common subsequence with the words so far. In a
    square block a reference meets only the hypotheses before it: LCS is symmetric, and |r| with itself.
    """
    texts = [words.values[words.offsets[row] : words.offsets[row + 1]] for row in block.hypotheses]
    lengths = words.lengths[block.hypotheses]
    starts = np.concatenate(([0], (lengths // 8 + 1).cumsum()))  # bytes; at least one bit is free
    places = _places(texts, starts, 2 if block.square else 1)
    ones = sum(
        ((1 << n) - 1) << 8 * start
        for n, start in zip(lengths.tolist(), starts.tolist(), strict=False)
    )
    found = np.zeros((len(texts), len(block.references)))
    for column, row in enumerate(block.references):
        last = column if block.square else len(texts)
        full = value = ones & ((1 << 8 * int(starts[last])) - 1)
        for word in words.values[words.offsets[row] : words.offsets[row + 1]].tolist():
            if match := value & places.get(word, 0):
                value = ((value + match) | (value - match)) & full
        gone = np.frombuffer((full ^ value).to_bytes(int(starts[-1]), "little"), np.uint8)
        found[:, column] = np.add.reduceat(np.bitwise_count(gone), starts[:-1], dtype=np.int64)
    if block.square:
        found += found.T
        np.fill_diagonal(found, lengths)
    return found


def _places(texts: Sequence[Array], starts: IntArray, least: int) -> dict[int, int]:
    """For every word with `least` places or more an integer with a bit at each; text i starts at byte `starts[i]`."""
    values = np.concatenate(texts)
    places = np.concatenate(
        [np.arange(8 * at, 8 * at + len(text)) for text, at in zip(texts, starts, strict=False)]
    )
    unique, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    number = np.flatnonzero(times >= least)
    size = int(starts[-1])
    step = max(1, PLACE_BYTES // size)
    found = {}
    for some in (number[at : at + step] for at in range(0, len(number), step)):
        row = np.full(len(unique), -1)
        row[some] = np.arange(len(some))
        row = row[inverse]
        bits = np.zeros(len(some) * size, np.uint8)
        here = places[row >= 0]
        np.bitwise_or.at(
            bits, row[row >= 0] * size + (here >> 3), (1 << (here & 7)).astype(np.uint8)
        )
        raw = bits.tobytes()
        for at, word in enumerate(unique[some].tolist()):
            found[word] = int.from_bytes(raw[at * size : (at + 1) * size], "little")
    return found


def weighted_common(words: Ragged, blocks: Sequence[Block], weight: float) -> list[FloatArray]:
    """f^-1(WLCS) of every pair of every block, [H, R]; a square block's pairs are compared once."""
    cells = [_cells(block) for block in blocks]
    h = np.concatenate([b.hypotheses[i] for b, (i, _) in zip(blocks, cells, strict=True)])
    r = np.concatenate([b.references[j] for b, (_, j) in zip(blocks, cells, strict=True)])
    values = _wlcs_roots(words, h, r, weight)
    found = []
    start = 0
    for block, (i, j) in zip(blocks, cells, strict=True):
        u = np.zeros((len(block.hypotheses), len(block.references)))
        u[i, j] = values[start : start + len(i)]
        start += len(i)
        if block.square:
            u += u.T
            np.fill_diagonal(u, words.lengths[block.hypotheses])
        found.append(u)
    return found


def _cells(block: Block) -> tuple[IntArray, IntArray]:
    """Rows and columns of a block's cells; only those above the diagonal if it is square."""
    if block.square:
        return np.triu_indices(len(block.hypotheses), 1)
    rows, columns = np.indices((len(block.hypotheses), len(block.references)))
    return rows.ravel(), columns.ravel()


def _wlcs_roots(words: Ragged, h: IntArray, r: IntArray, weight: float) -> FloatArray:
    """f^-1(WLCS) of rows `h` and `r` of `words`, [pairs]."""
    longer = words.lengths[h] > words.lengths[r]
    h, r = np.where(longer, r, h), np.where(longer, h, r)
    n, m = words.lengths[h], words.lengths[r]
    f = np.arange(int(n.max(initial=0)) + 1) ** weight
    gains = np.diff(f, prepend=0.0)  # f(k) - f(k - 1), and 0 for k = 0
    text = equal_texts(words)
    same = text[h] == text[r]
    roots = np.where(same, n, 0).astype(float)
    order = np.lexsort((n, m))[::-1]
    order = order[(n > 0)[order] & ~same[order]]
    start = 0
    while start < len(order):
        some = order[start : start + max(1, CELLS // int(m[order[start]]))]
        sides = word_columns(words, h[some], -1), word_columns(words, r[some], -2)[::-1]
        wlcs = _wlcs(*sides, n[some], m[some], gains)
        roots[some] = np.minimum(
            [value ** (1 / weight) for value in wlcs.tolist()], n[some]
        )  # rounding aside
        start += len(some)
    return roots


def _wlcs(h: Array, r: Array, n: IntArray, m: IntArray, gains: FloatArray) -> FloatArray:
    """WLCS [pairs] of word columns `h` [N, pairs] and `r` [M, pairs] (last word first), antidiagonal by antidiagonal.

    Row i of antidiagonal d is c(i, d - i); all pairs are worked on at once.
    """
    (tall, count), wide = h.shape, len(r)
    c = np.zeros((3, tall + 1, count))
    run = np.zeros(
        (3, tall + 1, count), np.int16 if tall < 1 << 15 else np.int32
    )  # matches in a row up to a cell
    found = np.zeros(count)
    ends = n + m
    order = np.argsort(ends)
    done = np.searchsorted(ends[order], np.arange(int(ends.max()) + 2)).tolist()
    for d in range(2, int(ends.max()) + 1):
        now, before, twice = d % 3, (d - 1) % 3, (d - 2) % 3
        first, last = max(1, d - wide), min(tall, d - 1)
        here, above = slice(first, last + 1), slice(first - 1, last)
        same = h[above] == r[wide - d + first : wide - d + last + 1]
        np.multiply(run[twice, above] + 1, same, out=run[now, here])
        np.maximum(c[before, above], c[before, here], out=c[now, here])
        matched = np.flatnonzero(same)
        c[now, here].reshape(-1)[matched] = (
            c[twice, above].reshape(-1)[matched] + gains[run[now, here].reshape(-1)[matched]]
        )
        c[now, 0] = 0
        if last == d - 1 and d <= tall:
            c[now, d] = run[now, d] = 0
        ended = order[done[d] : done[d + 1]]
        found[ended] = c[now, n[ended], ended]
    return found
