"""Clipped n-gram matches of all pairs of many lists, exact: one sort for all orders.

Every position of every text is sorted once by (list, the symbols from here on). The n-grams of any order are then runs
of neighbours that agree in n leading symbols: the next order needs no sort, only a comparison of one small number per
position, and positions only ever drop out, as an n-gram that occurs once in its list starts no longer one that occurs
twice. It knows neither characters nor scores: texts arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged
from .clipped_matches import DEPTH, DEPTH_BITS, BoolArray, Lists, clipped_matches

KEY_BITS = 63


class Positions(NamedTuple):
    """All texts in one line, each closed by the symbol 0."""

    symbol: IntArray  # [line + order], the end is 0
    symbol_bits: int
    about: Array  # [line]: slot << DEPTH_BITS | symbols left in the text

    @property
    def bits(self) -> int:
        """Bits of a position."""
        return len(self.about).bit_length()


def matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> Iterator[FloatArray]:
    """For n = 1..order the clipped n-gram matches [cells] of all pairs of all blocks, each block's [H, R] flat."""
    shapes = np.array([_shape(block) for block in blocks])
    kinds = np.unique(shapes)
    if len(kinds) == 1:
        yield from _matches(symbols, _lists(blocks), order)
        return
    cells = np.repeat(shapes, [len(b.hypotheses) * len(b.references) for b in blocks])
    where = [np.flatnonzero(cells == kind) for kind in kinds]
    members = [
        _lists([b for b, shape in zip(blocks, shapes, strict=True) if shape == kind])
        for kind in kinds
    ]
    for found in zip(*(_matches(symbols, lists, order) for lists in members), strict=True):
        total = np.empty(len(cells))
        for at, values in zip(where, found, strict=True):
            total[at] = values
        yield total


def _shape(block: Block) -> int:
    """Equal for blocks that may be padded to one shape."""
    high = (len(block.hypotheses) - 1).bit_length()
    return -1 - high if block.square else high << 8 | (len(block.references) - 1).bit_length()


def _lists(blocks: Sequence[Block]) -> Lists:
    """Lists that are all square or all not."""
    square = blocks[0].square
    hyps = np.fromiter((len(b.hypotheses) for b in blocks), np.int64, len(blocks))
    refs = np.fromiter((len(b.references) for b in blocks), np.int64, len(blocks))
    high, wide = int(hyps.max()), int(refs.max())
    height = high if square else high + wide
    bits = max(height - 1, 1).bit_length()
    first = np.arange(len(blocks)) << bits
    parts, sizes = [b.hypotheses for b in blocks], hyps
    if not square:
        parts = [rows for b in blocks for rows in (b.hypotheses, b.references)]
        sizes, first = np.stack((hyps, refs), 1).ravel(), np.stack((first, first + high), 1).ravel()
    slot = np.arange(sizes.sum()) + np.repeat(first - sizes.cumsum() + sizes, sizes)
    return Lists(np.concatenate(parts), slot, hyps, refs, high, wide, height, bits)


def _matches(symbols: Ragged, lists: Lists, order: int) -> Iterator[FloatArray]:
    """`matches` of lists of similar shape. Words: slot, symbols left in the text, symbols in common with the last."""
    line = _positions(symbols, lists, order)
    existing, own = lists.existing, _own_lengths(symbols, lists)
    diagonal = np.arange(lists.high)
    at, prefix = (
        np.arange(len(line.about)),
        (line.about >> lists.bits + DEPTH_BITS).astype(np.int64),
    )
    done = 0
    while done < order:
        free = KEY_BITS - line.bits - int(prefix.max(initial=0)).bit_length()
        depth = min(order - done, free // line.symbol_bits)
        if depth < 1:  # needs millions of symbols, nearly all different
            raise OverflowError("too many distinct symbols to compare in one call")
        all_words, key = _sorted(line, at, prefix, done, depth)
        words = all_words
        for n in range(1, depth + 1):
            words = words[_kept(words, n)]
            found = clipped_matches(words, n, lists)
            if own is not None:
                found[:, diagonal, diagonal] = np.maximum(own - (done + n - 1), 0)
            yield (found if existing is None else found[existing]).ravel()
        done += depth
        if done < order:
            keep = _kept(all_words, depth)
            at = key[keep] & (1 << line.bits) - 1
            prefix = ((all_words[keep] & DEPTH) < depth).cumsum()


def _own_lengths(symbols: Ragged, lists: Lists) -> IntArray | None:
    """Length of every text of square lists [lists, high], the n-grams of which it shares with itself; else None."""
    if lists.high < lists.height:
        return None
    lengths = np.zeros((len(lists.hypotheses), lists.high), np.int64)
    lengths[lists.slot >> lists.bits, lists.slot & (1 << lists.bits) - 1] = symbols.lengths[
        lists.rows
    ]
    return lengths


def _positions(symbols: Ragged, lists: Lists, order: int) -> Positions:
    lengths = symbols.lengths[lists.rows] + 1
    ends = lengths.cumsum()
    total = int(ends[-1])
    line = np.arange(total)
    source = line + np.repeat(symbols.offsets[lists.rows] - ends + lengths, lengths)
    values = symbols.values if len(symbols.values) else np.zeros(1, np.int64)
    symbol = np.zeros(total + order, np.int64)
    symbol[:total], count = dense(values.take(source, mode="clip"))
    symbol[ends - 1] = 0
    left = np.minimum(np.repeat(ends - 1, lengths) - line, DEPTH)
    about = np.repeat(lists.slot << DEPTH_BITS, lengths) | left
    short = int(lists.slot[-1]) < 1 << 31 - 2 * DEPTH_BITS
    return Positions(symbol, count.bit_length(), about.astype(np.int32) if short else about)


def dense(values: Array) -> tuple[IntArray, int]:
    """The same values as 1..n in order, and n."""
    low = int(values.min())
    top = int(values.max()) - low + 1
    if top <= max(1 << 17, 4 * len(values)):
        values = values - values.dtype.type(low)
        present = np.zeros(top, np.bool_)
        present[values] = True
        number = present.cumsum(dtype=np.int64)
        return number.take(values), int(number[-1])
    unique, inverse = np.unique(values, return_inverse=True)
    return inverse + 1, len(unique)


def _sorted(
    line: Positions, at: IntArray, prefix: IntArray, done: int, depth: int
) -> tuple[Array, IntArray]:
    """Words of the positions `at`, sorted by prefix and the `depth` symbols after the first `done`; their keys."""
    total = len(line.about)
    key = line.symbol[done : done + total].copy()
    for j in range(done + 1, done + depth):
        key <<= line.symbol_bits
        key |= line.symbol[j : j + total]
    if done:
        key = key[at]
    key |= prefix << line.symbol_bits * depth
    key <<= line.bits
    key |= at
    key.sort()
    differ = (key[1:] ^ key[:-1]) >> line.bits
    common = np.zeros(len(key), np.uint8)
    for n in range(1, depth + 1):
        common[1:] += differ < 1 << line.symbol_bits * (depth - n)
    words = line.about.take(key & (1 << line.bits) - 1)
    words -= np.minimum(words & DEPTH, done)
    words <<= DEPTH_BITS
    words |= common
    return words, key


def _kept(words: Array, n: int) -> BoolArray:
    """Which positions have an n-gram, and one that occurs again in its list."""
    alone = (words & DEPTH) < n
    alone[:-1] &= alone[1:]
    keep = (words & DEPTH << DEPTH_BITS) >= n << DEPTH_BITS
    keep &= ~alone
    return keep
