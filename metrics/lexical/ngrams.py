"""Clipped n-gram matches of all pairs of many lists, exact: one sort for all orders.

Every position of every text is sorted once by (list, the symbols from here on). The n-grams of any order are then runs
of neighbours that agree in n leading symbols: the next order needs no sort, only a comparison of one small number per
position, and positions only ever drop out, as an n-gram that occurs once in its list starts no longer one that occurs
twice. Where a sort key has no room for the symbols of all orders, further sorts serve the orders that are left. It
knows neither characters nor scores: texts arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..representations import (
    Array,
    Block,
    FloatArray,
    IntArray,
    Ragged,
    by_block,
    transposed,
    with_transposed,
)
from .clipped_matches import COUNT_BITS, MAX_COUNT, BoolArray, ListGroup, begins, clipped_matches
from .compiled.list_matches import list_matches
from .word_columns import dense, ranges

KEY_BITS = 63


class _Line(NamedTuple):
    """All texts of some lists in one line, each closed by the symbol 0.

    A position knows its text by
        bits 6 and up    slot of the text, see `ListGroup`
        bits 0 to 5      symbols left in the text from here on, at most 63
    which is a packed position of `clipped_matches` without its lowest bits.
    """

    symbols: IntArray  # [length + order], 0 beyond the length
    symbol_bits: int
    slots_left: Array  # [length]

    @property
    def position_bits(self) -> int:
        """Bits of a position in the line."""
        return len(self.slots_left).bit_length()


def matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> Iterator[FloatArray]:
    """For n = 1..order the clipped n-gram matches [cells] of all pairs of all blocks, each block's [H, R] flat.

    They are the same both ways: a block that is the one before it transposed is not counted again.
    """
    is_transposed = transposed(blocks)
    if not any(is_transposed):
        yield from _matches_one_way(symbols, blocks, order)
        return
    one_way = [block for block, again in zip(blocks, is_transposed, strict=True) if not again]
    for values in _matches_one_way(symbols, one_way, order):
        matrices = with_transposed(by_block(values, one_way), is_transposed)
        yield np.concatenate([matrix.ravel() for matrix in matrices])


def _matches_one_way(symbols: Ragged, blocks: Sequence[Block], order: int) -> Iterator[FloatArray]:
    """`matches` of blocks of which none is another one transposed."""
    counted = list_matches(symbols, blocks, order)
    if counted is not None:
        yield from counted
        return
    shapes = np.array([_padded_shape(block) for block in blocks])
    kinds = sorted(set(shapes.tolist()))
    if len(kinds) == 1:
        yield from _matches(symbols, _lists(blocks), order)
        return
    # Blocks of one padded shape are compared together; their values return to their blocks' cells.
    cells_per_block = [len(block.hypotheses) * len(block.references) for block in blocks]
    shape_of_cell = np.repeat(shapes, cells_per_block)
    cells, groups = [], []
    for kind in kinds:
        members = [block for block, shape in zip(blocks, shapes, strict=True) if shape == kind]
        cells.append(np.flatnonzero(shape_of_cell == kind))
        groups.append(_matches(symbols, _lists(members), order))
    for values_of_groups in zip(*groups, strict=True):
        total = np.empty(len(shape_of_cell))
        for where, values in zip(cells, values_of_groups, strict=True):
            total[where] = values
        yield total


def _padded_shape(block: Block) -> int:
    """A number that is equal for blocks that may be padded to one shape."""
    h_bits = (len(block.hypotheses) - 1).bit_length()
    if block.square:
        return -1 - h_bits
    r_bits = (len(block.references) - 1).bit_length()
    return h_bits << 8 | r_bits


def _lists(blocks: Sequence[Block]) -> ListGroup:
    """The lists of some blocks, which are all square or all not."""
    square = blocks[0].square
    num_hypotheses = np.fromiter((len(b.hypotheses) for b in blocks), np.int64, len(blocks))
    num_references = np.fromiter((len(b.references) for b in blocks), np.int64, len(blocks))
    max_hypotheses = int(num_hypotheses.max())
    max_references = int(num_references.max())
    places_per_list = max_hypotheses if square else max_hypotheses + max_references
    place_bits = max(places_per_list - 1, 1).bit_length()

    # Slots count up from a list's first place, and from the place of its first reference.
    parts = [block.hypotheses for block in blocks]
    sizes = num_hypotheses
    first_slots = np.arange(len(blocks)) << place_bits
    if not square:
        parts = [rows for block in blocks for rows in (block.hypotheses, block.references)]
        sizes = np.stack((num_hypotheses, num_references), 1).ravel()
        first_slots = np.stack((first_slots, first_slots + max_hypotheses), 1).ravel()
    return ListGroup(
        np.concatenate(parts),
        ranges(first_slots, sizes),
        num_hypotheses,
        num_references,
        max_hypotheses,
        max_references,
        places_per_list,
        place_bits,
    )


def _matches(symbols: Ragged, lists: ListGroup, order: int) -> Iterator[FloatArray]:
    """`matches` of lists of similar shape."""
    line = _line(symbols, lists, order)
    existing = lists.existing
    own_lengths = _own_lengths(symbols, lists)
    diagonal = np.arange(lists.max_hypotheses)

    # At first every position takes part; those of one list have one prefix.
    line_positions = np.arange(len(line.slots_left))
    prefix = lists.list_of(line.slots_left >> COUNT_BITS).astype(np.int64)
    done = 0
    while done < order:
        # Sort by prefix and as many further symbols as a key has room for.
        depth = _depth(line, prefix, order - done)
        sorted_positions, key = _sorted(line, line_positions, prefix, done, depth)
        positions = sorted_positions
        for n in range(1, depth + 1):
            positions = positions[_kept(positions, n)]
            total = clipped_matches(positions, n, lists)
            if own_lengths is not None:
                own = np.maximum(own_lengths - (done + n - 1), 0)
                total[:, diagonal, diagonal] = own
            yield (total if existing is None else total[existing]).ravel()
        done += depth
        if done < order:
            # Those that agree in all symbols so far have one prefix in the next sort.
            kept = _kept(sorted_positions, depth)
            line_positions = key[kept] & (1 << line.position_bits) - 1
            prefix = begins(sorted_positions[kept], depth).cumsum()


def _own_lengths(symbols: Ragged, lists: ListGroup) -> IntArray | None:
    """Length of every text [lists, max_hypotheses], which decides its matches with itself; None unless square."""
    if not lists.square:
        return None
    lengths = np.zeros((len(lists.num_hypotheses), lists.max_hypotheses), np.int64)
    list_of_text = lists.list_of(lists.slots)
    place_of_text = lists.place_of(lists.slots)
    lengths[list_of_text, place_of_text] = symbols.lengths[lists.rows]
    return lengths


def _line(symbols: Ragged, lists: ListGroup, order: int) -> _Line:
    """The line of the lists' texts, with room for n-grams of `order` symbols at every position."""
    lengths = symbols.lengths[lists.rows] + 1  # with the closing symbol
    ends = lengths.cumsum()
    total = int(ends[-1])

    # Copy the texts; the closing symbol takes whatever follows a text, and then 0.
    source = ranges(symbols.offsets[lists.rows], lengths)
    values = symbols.values if len(symbols.values) else np.zeros(1, np.int64)
    line_symbols = np.zeros(total + order, np.int64)
    line_symbols[:total], num_symbols = dense(values.take(source, mode="clip"))
    line_symbols[ends - 1] = 0

    # Pack slots and symbols left, in 32 bits if there is room for the symbols in common too.
    left = np.repeat(ends - 1, lengths) - np.arange(total)
    left = np.minimum(left, MAX_COUNT)
    slots_left = np.repeat(lists.slots << COUNT_BITS, lengths) | left
    if int(lists.slots[-1]) < 1 << 31 - 2 * COUNT_BITS:
        slots_left = slots_left.astype(np.int32)
    return _Line(line_symbols, num_symbols.bit_length(), slots_left)


def _depth(line: _Line, prefix: IntArray, orders_left: int) -> int:
    """How many of the symbols that are left a key has room for, beside prefix and position."""
    prefix_bits = int(prefix.max(initial=0)).bit_length()
    free = KEY_BITS - line.position_bits - prefix_bits
    depth = min(orders_left, free // line.symbol_bits)
    if depth < 1:  # needs millions of symbols, nearly all different
        raise OverflowError("too many distinct symbols to compare in one call")
    return depth


def _sorted(
    line: _Line,
    line_positions: IntArray,
    prefix: IntArray,
    done: int,
    depth: int,
) -> tuple[Array, IntArray]:
    """Packed positions in the order of their keys, and the keys, [positions] each.

    A key holds, from its highest bits to its lowest:
        prefix               list and first `done` symbols, as a number
        symbol_bits each     the next `depth` symbols
        position_bits        position in the line

    Args:
        line: all texts.
        line_positions: the positions to sort, [positions].
        prefix: of every position, [positions].
        done: symbols that the prefix stands for.
        depth: symbols to sort by.
    """
    # Join each position's symbols, then put prefix and position on either side.
    total = len(line.slots_left)
    key = line.symbols[done : done + total].copy()
    for j in range(done + 1, done + depth):
        key <<= line.symbol_bits
        key |= line.symbols[j : j + total]
    if done:
        key = key[line_positions]
    key |= prefix << line.symbol_bits * depth
    key <<= line.position_bits
    key |= line_positions
    key.sort()

    # Neighbours have n symbols in common if their keys differ only below these.
    differ = (key[1:] ^ key[:-1]) >> line.position_bits
    common = np.zeros(len(key), np.uint8)
    for n in range(1, depth + 1):
        bits_below = line.symbol_bits * (depth - n)
        common[1:] += differ < 1 << bits_below

    # Pack slot, symbols left after the first `done`, and symbols in common.
    positions = line.slots_left.take(key & (1 << line.position_bits) - 1)
    positions -= np.minimum(positions & MAX_COUNT, done)
    positions <<= COUNT_BITS
    positions |= common
    return positions, key


def _kept(positions: Array, n: int) -> BoolArray:
    """Which sorted positions have an n-gram, and one that occurs again in its list, [positions]."""
    # An n-gram occurs once if the next one begins right after it.
    once = begins(positions, n)
    once[:-1] &= once[1:]
    # Its text is long enough if n symbols are left; compared in place, without a shift.
    left_mask = MAX_COUNT << COUNT_BITS
    kept = (positions & left_mask) >= n << COUNT_BITS
    kept &= ~once
    return kept
