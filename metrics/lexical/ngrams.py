"""Clipped n-gram matches of all pairs of many lists, exact, for all orders.

In numpy one sort serves all orders. Every position of every text is sorted by (list, the symbols from here on). The
n-grams of any order are then runs of neighbours that agree in n leading symbols: the next order needs no sort, only a
comparison of one small number per position, and positions only ever drop out, as an n-gram that occurs once in its list
starts no longer one that occurs twice. Where a sort key has no room for the symbols of all orders, further sorts serve
the orders that are left. Texts meet in two ways:

- an n-gram that few of many texts have adds one to the cell of each of its pairs of texts;
- for the others, each (n-gram, k-th occurrence in its text) is a column of a 0/1 matrix A, and A'A holds
      sum_g min(c_h(g), c_r(g)) = sum_{g,k} [c_h(g) > k] [c_r(g) > k].

Each position of a text is packed into one integer:
    bits 12 and up    slot of the text: its list and its place there, see `ListGroup`
    bits 6 to 11      symbols left in the text from here on, at most 63
    bits 0 to 5       symbols that it has in common with the position sorted before it, at most 63

Many small lists go to the kernel in C (`list_matches`). Texts arrive as integers: it knows nothing of tokens or
metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from . import compiled
from .word_columns import PLAIN_SYMBOLS, dense, owners, ranges

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


BoolArray = NDArray[np.bool_]
Floats = NDArray[np.float32] | FloatArray

COUNT_BITS = 6  # of either number of symbols in a packed position
MAX_COUNT = (1 << COUNT_BITS) - 1
CELLS = 1 << 21  # cells of one batch of 0/1 matrices; their products are exact in float32
TILE = 64  # least columns of a 0/1 matrix
RARE_HEIGHT = 64  # lists of fewer texts are all matrix products
RARE_PART = 16  # an n-gram is rare if at most 1 / RARE_PART of the places of a list have it
PAIRS = 1 << 18  # pairs of texts that are counted at once
SLOT_BITS = 32  # of a slot where an n-gram's number stands above it


class ListGroup(NamedTuple):
    """Lists of similar shape, side by side.

    A list has `places_per_list` places: hypotheses from the first on, references up to the last. In a square list a
    text has one place as both. A text's slot packs its list and its place:
        bits place_bits and up        list
        bits 0 to place_bits - 1      place
    """

    rows: IntArray  # [texts] rows of the symbols, list after list
    slots: IntArray  # [texts]
    num_hypotheses: IntArray  # [lists]
    num_references: IntArray  # [lists]
    max_hypotheses: int  # of a list
    max_references: int  # of a list
    places_per_list: int
    place_bits: int

    @property
    def square(self) -> bool:
        """Whether hypotheses and references share their places."""
        return self.max_hypotheses == self.places_per_list

    @property
    def first_reference(self) -> int:
        """Place of the first reference."""
        return self.places_per_list - self.max_references

    @property
    def existing(self) -> BoolArray | None:
        """Which cells of [lists, max_hypotheses, max_references] exist; None if all do."""
        full_hypotheses = (self.num_hypotheses == self.max_hypotheses).all()
        full_references = (self.num_references == self.max_references).all()
        if full_hypotheses and full_references:
            return None
        of_h = np.arange(self.max_hypotheses) < self.num_hypotheses[:, None]
        of_r = np.arange(self.max_references) < self.num_references[:, None]
        return of_h[:, :, None] & of_r[:, None, :]

    def list_of(self, slots: Array) -> Array:
        """List of every slot, [slots]."""
        return slots >> self.place_bits

    def place_of(self, slots: Array) -> Array:
        """Place of every slot in its list, [slots]."""
        mask = (1 << self.place_bits) - 1
        return slots & mask


def slot_of(positions: Array) -> Array:
    """Slot of every packed position, [positions]."""
    return positions >> 2 * COUNT_BITS


def begins(positions: Array, n: int) -> BoolArray:
    """Whether each packed position has another n-gram than the one sorted before it, [positions]."""
    common = positions & MAX_COUNT
    return common < n


def clipped_matches(positions: Array, n: int, lists: ListGroup) -> FloatArray:
    """Matches [lists, max_hypotheses, max_references] of the n-grams that start at some positions.

    A text with itself is left out.

    Args:
        positions: packed positions in sorted order, [positions].
        n: order of the n-grams.
        lists: the lists of the texts.
    """
    shape = (len(lists.num_hypotheses), lists.max_hypotheses, lists.max_references)
    total = np.zeros(shape)
    if lists.places_per_list >= RARE_HEIGHT:
        positions = _add_rare(total, positions, n, lists)
    if len(positions):
        _add_frequent(total, positions, n, lists)
    return total


def _add_frequent(total: FloatArray, positions: Array, n: int, lists: ListGroup) -> None:
    """Adds the matches of the n-grams at sorted `positions` to `total`, by matrix products."""
    places = lists.places_per_list

    # Number the n-grams in their order.
    gram = begins(positions, n).cumsum(dtype=np.int32)  # [positions]
    gram -= 1
    num_grams = int(gram[-1]) + 1
    slots = slot_of(positions)
    first = _first_grams(gram, lists.list_of(slots), len(total))

    # A position adds one to the count of its n-gram in its text: cell n-gram * places + place.
    cell = np.multiply(gram, places, dtype=np.int64)  # [positions]
    cell += lists.place_of(slots)

    # Count and multiply so many n-grams at a time that their counts have about CELLS cells.
    step = max(1, CELLS // places)
    for low in range(0, num_grams, step):
        size = min(step, num_grams - low)
        here = slice(None)
        if num_grams > step:
            here = slice(*np.searchsorted(gram, (low, low + size)))
        # one n-gram more, which no text has
        counts = np.bincount(cell[here] - low * places, minlength=(size + 1) * places)
        counts = counts.reshape(-1, places)
        first_here = np.clip(first - low, 0, size)
        _add_products(total, counts, first_here, lists)


def _first_grams(gram: Array, list_of_position: Array, num_lists: int) -> IntArray:
    """The first n-gram of every list, and the number of n-grams after them, [lists + 1].

    Args:
        gram: number of the n-gram at every position, ascending, [positions].
        list_of_position: ascending, [positions].
        num_lists: number of lists.
    """
    all_lists = np.arange(num_lists + 1, dtype=list_of_position.dtype)
    bounds = np.searchsorted(list_of_position, all_lists)
    num_grams = int(gram[-1]) + 1
    first = gram.take(bounds, mode="clip")
    return np.where(bounds < len(gram), first, num_grams)


class _Tiles(NamedTuple):
    """The columns of A, list after list, in tiles of equal width; each tile is of one list and filled up with 0."""

    width: int
    list_of_tile: IntArray  # [tiles], ascending
    gram: IntArray  # [tiles * width] n-gram g of every column
    occurrence: IntArray  # [tiles * width] k of every column


def _tiled(counts: IntArray, first: IntArray, places: int) -> _Tiles:
    """The tiles of some n-grams.

    Args:
        counts: of every n-gram in every place, the last 0 everywhere, [n-grams + 1, places].
        first: the first n-gram of every list, and the number of n-grams, [lists + 1].
        places: places of a list.
    """
    # An n-gram has as many columns as its highest count; most have one.
    columns_of_gram = np.ones(len(counts), np.int64)
    columns_of_gram[-1] = 0
    flat = counts.ravel()
    repeated = np.flatnonzero(flat > 1)
    np.maximum.at(columns_of_gram, repeated // places, flat.take(repeated))

    # Choose the width by the columns of an average list.
    first_column = np.concatenate(([0], columns_of_gram.cumsum()))  # of every n-gram, and the end
    columns_of_list = np.diff(first_column[first])
    columns = int(columns_of_list.mean())
    if len(columns_of_list) > 1:
        columns //= 2  # so that little is filled up
    width = max(TILE, min(columns, CELLS // places))
    tiles_of_list = -(-columns_of_list // width)
    list_of_tile = owners(tiles_of_list)

    # Each list's columns follow one another from the start of its first tile; 0 fills the rest.
    first_tile = tiles_of_list.cumsum() - tiles_of_list
    target = ranges(first_tile * width, columns_of_list)  # [columns]
    column_gram = owners(columns_of_gram)
    gram = np.full(len(list_of_tile) * width, len(counts) - 1)
    gram[target] = column_gram
    occurrence = np.zeros(len(gram), np.int64)
    occurrence[target] = np.arange(len(column_gram)) - first_column.take(column_gram)
    return _Tiles(width, list_of_tile, gram, occurrence)


def _add_products(total: FloatArray, counts: IntArray, first: IntArray, lists: ListGroup) -> None:
    """Adds the products A'A of some n-grams to `total`; `counts` and `first` are as in `_tiled`."""
    places = lists.places_per_list
    tiles = _tiled(counts, first, places)
    once = (counts > 0).astype(np.float32)  # [n-grams + 1, places]

    # Make and multiply so many tiles at a time that they have about CELLS cells.
    step = max(1, CELLS // (tiles.width * places))
    for low in range(0, len(tiles.list_of_tile), step):
        here = slice(low * tiles.width, (low + step) * tiles.width)
        # The first occurrences (k = 0) are in the texts that have the n-gram at all,
        ones = once.take(tiles.gram[here], axis=0)  # [columns, places]
        # the few others in those that have it more than k times.
        again = np.flatnonzero(tiles.occurrence[here])
        column = again + here.start
        ones[again] = counts.take(tiles.gram[column], axis=0) > tiles.occurrence[column, None]
        # Every hypothesis meets every reference of its list.
        ones = ones.reshape(-1, tiles.width, places)
        hypotheses = ones[:, :, : lists.max_hypotheses].transpose(0, 2, 1)
        references = ones[:, :, lists.first_reference :]
        _add_tiles(total, hypotheses @ references, tiles.list_of_tile[low : low + step])


def _add_tiles(total: FloatArray, product: Floats, list_of_tile: IntArray) -> None:
    """Adds the product of every tile [tiles, max_hypotheses, max_references] to its list; lists ascend."""
    if len(total) == 1:
        for matches in product:
            total[0] += matches
        return
    # All first tiles of their lists, then all second ones: no list is twice in one addition.
    nth = np.arange(len(list_of_tile)) - np.searchsorted(list_of_tile, list_of_tile)
    for i in range(int(nth.max()) + 1):
        which = np.flatnonzero(nth == i)
        total[list_of_tile[which]] += product.take(which, axis=0)


def _add_rare(total: FloatArray, positions: Array, n: int, lists: ListGroup) -> Array:
    """Adds the matches of n-grams that few texts have, each once; returns the positions of the other n-grams."""
    # Find the n-grams with few positions.
    starts = np.flatnonzero(begins(positions, n))
    sizes = np.diff(starts, append=len(positions))  # positions of every n-gram, [n-grams]
    rare = sizes <= lists.places_per_list // RARE_PART
    num_rare = np.count_nonzero(rare)
    rare_sizes = sizes[rare]

    # Sort each one's slots: key = number of the rare n-gram << SLOT_BITS | slot.
    gram = np.repeat(np.arange(num_rare), rare_sizes)  # [positions of rare n-grams]
    key = slot_of(positions[np.repeat(rare, sizes)]) | gram << SLOT_BITS
    key.sort()

    # An n-gram that a text has twice is no longer rare.
    repeated = np.zeros(num_rare, np.bool_)
    same_as_before = key[1:] == key[:-1]
    repeated[gram[1:][same_as_before]] = True
    slots = key[~repeated[gram]] & (1 << SLOT_BITS) - 1
    _add_pairs(total, slots, rare_sizes[~repeated], lists)
    rare[rare] = ~repeated
    return positions[np.repeat(~rare, sizes)]


def _add_pairs(total: FloatArray, slots: IntArray, sizes: IntArray, lists: ListGroup) -> None:
    """Adds one to the cells of all pairs of texts that share a rare n-gram.

    Args:
        total: [lists, max_hypotheses, max_references].
        slots: of the texts of every n-gram, ascending within it, [positions].
        sizes: texts of every n-gram, [n-grams].
        lists: the lists of the texts.
    """
    # A text is paired with those that follow it within its n-gram.
    ends = np.repeat(sizes.cumsum(), sizes)
    partners = ends - np.arange(1, len(slots) + 1)  # [positions]
    pairs_before = partners.cumsum() - partners
    place = lists.place_of(slots)
    matrix = lists.list_of(slots) * (lists.max_hypotheses * lists.max_references)
    row = matrix + place * lists.max_references  # cell where the row of a hypothesis begins

    low, step = 0, max(PAIRS, total.size)
    while low < len(slots):
        # Take the next texts with about `step` pairs, and number their pairs' two sides.
        next_pairs = pairs_before[low] + step
        high = max(low + 1, int(np.searchsorted(pairs_before, next_pairs)))
        here = slice(low, high)
        left = np.repeat(np.arange(low, high), partners[here])  # [pairs]
        right = ranges(np.arange(low + 1, high + 1), partners[here])
        # Only a hypothesis, which comes first, and a reference make a cell.
        if not lists.square:
            first_is_h = place[left] < lists.max_hypotheses
            across = first_is_h & (place[right] >= lists.max_hypotheses)
            left, right = left[across], right[across]
        cell = row[left] + place[right] - lists.first_reference
        matches = np.bincount(cell, minlength=total.size).reshape(total.shape)
        total += matches
        if lists.square:
            total += matches.transpose(0, 2, 1)
        low = high


MAX_TEXTS = 512  # of a list: matrix products are as fast for larger ones


def list_matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> FloatArray | None:
    """For n = 1..order the clipped n-gram matches of all pairs of all blocks, each block's [H, R] flat, [order, cells].

    None where there is no kernel, a block is large, or n-grams do not fit into its keys.
    """
    if compiled.kernels is None:
        return None
    rows: list[IntArray] = []
    hypotheses = []
    references = []  # of a square block -1
    cells = 0
    for block in blocks:
        hypotheses.append(len(block.hypotheses))
        rows.append(block.hypotheses)
        if not block.square:
            rows.append(block.references)
        references.append(-1 if block.square else len(block.references))
        cells += block.cells
    if max(hypotheses) > MAX_TEXTS or max(references) > MAX_TEXTS:
        return None
    texts = np.concatenate(rows)
    lengths = symbols.lengths[texts]
    offsets = np.concatenate(([0], lengths.cumsum()))
    numbers = symbols.values[ranges(symbols.offsets[texts], lengths)].astype(np.int64)
    num_symbols = int(numbers.max(initial=0))
    if num_symbols > PLAIN_SYMBOLS:
        numbers, num_symbols = dense(numbers)
    matches = np.empty((order, cells))
    fits = compiled.kernels.ngram_matches(
        numbers,
        offsets,
        np.array(hypotheses, np.int64),
        np.array(references, np.int64),
        num_symbols,
        order,
        matches,
    )
    return matches if fits else None
