"""Clipped n-gram matches of all pairs of many lists, exact, for all orders.

    sum_g w(g) min(c_h(g), c_r(g)) = sum_{g,k} w(g) [c_h(g) > k] [c_r(g) > k]

Each (n-gram g, k-th occurrence in its text) that texts share is a column of a 0/1 matrix A; the sums are A diag(w) A'.
Weights w are 1, or whole numbers whose sums stay below 2^53, so that no order of summing changes them. A column that
few of many texts have adds to the cell of each of its pairs of texts instead. An n-gram that no two texts share starts
no longer one that they share, so that fewer positions are left with every order.

Lists of up to `MAX_TEXTS` texts go to the kernel in C. Texts arrive as integers: it knows nothing of tokens or metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

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
from . import compiled
from .word_columns import PLAIN_SYMBOLS, dense, owners, ranges

MAX_TEXTS = 1024  # of a list for the kernel: products of matrices are as fast for larger ones
CELLS = 1 << 21  # cells of one piece of A; products of ones are exact in float32
RARE_HEIGHT = 64  # lists of fewer texts are all matrix products
RARE_PART = 16  # a column is rare if at most 1 / RARE_PART of the texts of a list have it
PAIRS = 1 << 18  # pairs of texts that are counted at once


def matches(
    symbols: Ragged, blocks: Sequence[Block], order: int, weights: IntArray | None = None
) -> Iterator[FloatArray]:
    """For n = 1..order the clipped n-gram matches of all pairs of all blocks, each block's [H, R] flat, [cells].

    They are the same both ways: a block that is the one before it transposed is not counted again.

    Args:
        symbols: rows of symbols as integers.
        blocks: rows of `symbols`.
        order: the longest n-grams.
        weights: of the n-grams that start at every symbol, [symbols, order]; equal n-grams have equal weights, and 0
            where a text ends. All 1 if not given.
    """
    is_transposed = transposed(blocks)
    one_way = [block for block, again in zip(blocks, is_transposed, strict=True) if not again]
    counted: Iterable[FloatArray] | None = None
    if weights is None:
        counted = compiled_matches(symbols, one_way, order)
    if counted is None:
        counted = _in_numpy(symbols, one_way, order, weights)
    for values in counted:
        if not any(is_transposed):
            yield values
            continue
        matrices = with_transposed(by_block(values, one_way), is_transposed)
        yield np.concatenate([matrix.ravel() for matrix in matrices])


def compiled_matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> FloatArray | None:
    """`matches` of blocks by the kernel in C, [order, cells].

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


class _TextGroup(NamedTuple):
    """The texts of some blocks, hypotheses first; in a square block they are the references too."""

    rows: IntArray  # [texts]
    block: IntArray  # [texts]
    first_text: IntArray  # of every block, and the end, [blocks + 1]
    is_hypothesis: Array  # [texts]
    is_reference: Array  # [texts]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Self:
        """The texts of blocks."""
        sides = []
        for number, block in enumerate(blocks):
            sides.append((block.hypotheses, number, True, block.square))
            if not block.square:
                sides.append((block.references, number, False, True))
        rows, *of_sides = zip(*sides, strict=True)
        sizes = [len(side) for side in rows]
        block_of_text, is_hypothesis, is_reference = (np.repeat(flags, sizes) for flags in of_sides)
        first_text = np.searchsorted(block_of_text, np.arange(len(blocks) + 1))
        return cls(np.concatenate(rows), block_of_text, first_text, is_hypothesis, is_reference)


class _Places(NamedTuple):
    """The n-grams of one order in the texts of some blocks, sorted by n-gram, then by text, [places] each."""

    at: IntArray  # first symbol, as an index into the symbols of all texts
    text: IntArray  # number of the text among those of all blocks
    left: IntArray  # symbols from here to the end of the text
    gram: IntArray  # number of the n-gram, other ones in every block

    def where(self, kept: Array) -> _Places:
        """The places at a mask or at positions."""
        return _Places(*(column[kept] for column in self))


def _in_numpy(
    symbols: Ragged, blocks: Sequence[Block], order: int, weights: IntArray | None
) -> Iterator[FloatArray]:
    """`matches` of blocks by products of matrices."""
    group = _TextGroup.of(blocks)
    lengths = symbols.lengths[group.rows]
    text = owners(lengths)
    at = ranges(symbols.offsets[group.rows], lengths)
    left = symbols.offsets[group.rows + 1][text] - at
    places = _Places(at, text, left, group.block[text])
    numbers, num_symbols = symbols.values, 0
    if len(numbers):
        numbers, num_symbols = dense(numbers)
    own = _own_weights(symbols, group.rows, order, weights)
    for n in range(order):
        # one symbol more makes the next order's n-grams, numbered by (the last one's number, the symbol)
        places = places.where(places.left > n)
        longer = places.gram * (num_symbols + 1) + numbers[places.at + n]
        in_order = np.argsort(longer, kind="stable")
        gram = _changes(longer[in_order]).cumsum() - 1
        places = places.where(in_order)._replace(gram=gram)
        weight = None if weights is None else weights[places.at, n].astype(float)
        columns, is_shared = _columns(places, weight, group)
        matrices = []
        for number, block in enumerate(blocks):
            first = int(group.first_text[number])
            num_texts = int(group.first_text[number + 1]) - first
            matrix = columns.of_block(number, first).products(len(block.hypotheses), num_texts)
            if block.square:
                np.fill_diagonal(matrix, own[first : first + num_texts, n])
            matrices.append(matrix.ravel())
        yield np.concatenate(matrices)
        # an n-gram that no two texts share starts no longer one that they share
        places = places.where(is_shared)


def _own_weights(symbols: Ragged, rows: IntArray, order: int, weights: IntArray | None) -> IntArray:
    """Summed weights of all n-grams of every row, which it shares with itself, [rows, order]."""
    if weights is None:
        lengths = symbols.lengths[rows][:, None]
        counts: IntArray = np.maximum(lengths - np.arange(order), 0)
        return counts
    nothing = np.zeros((1, order), np.int64)
    sums = np.concatenate((nothing, weights.cumsum(axis=0)))  # before every symbol, and of all
    own: IntArray = sums[symbols.offsets[rows + 1]] - sums[symbols.offsets[rows]]
    return own


def _changes(values: IntArray) -> Array:
    """Whether each value is the first or differs from the one before it, [values]."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes


class _Columns(NamedTuple):
    """The columns of A that some pair of texts shares, in the order of their blocks, and the ones in them."""

    column: IntArray  # of every one, ascending, [ones]
    text: IntArray  # of every one, ascending within a column, [ones]
    sizes: IntArray  # ones of every column, [columns]
    values: FloatArray | None  # w of every column, [columns]; 1 if not given
    bounds: IntArray  # first one of every block, and the end, [blocks + 1]

    def of_block(self, number: int, first_text: int) -> Self:
        """The columns of one block, its texts counted from 0."""
        low, high = self.bounds[number : number + 2]
        column = self.column[low:high]
        if not len(column):
            return self._replace(column=column, text=column, sizes=column, values=None)
        of_block = slice(column[0], column[-1] + 1)
        return self._replace(
            column=column - column[0],
            text=self.text[low:high] - first_text,
            sizes=self.sizes[of_block],
            values=None if self.values is None else self.values[of_block],
        )

    def where(self, kept: Array) -> Self:
        """The columns at a mask."""
        ones = kept[self.column]
        return self._replace(
            column=(kept.cumsum() - 1)[self.column[ones]],
            text=self.text[ones],
            sizes=self.sizes[kept],
            values=None if self.values is None else self.values[kept],
        )

    def products(self, num_hypotheses: int, num_texts: int) -> FloatArray:
        """A diag(w) A' between hypotheses, which are the first texts, and references, [H, R]."""
        first_reference = num_hypotheses if num_hypotheses < num_texts else 0
        total = np.zeros((num_hypotheses, num_texts - first_reference))
        columns = self
        if num_texts >= RARE_HEIGHT:
            rare = self.sizes <= num_texts // RARE_PART
            self.where(rare).add_pairs(total, first_reference)
            columns = self.where(~rare)
        dtype = np.float32 if columns.values is None else np.float64
        step = max(1, CELLS // num_texts)
        for low in range(0, len(columns.sizes), step):
            size = min(step, len(columns.sizes) - low)
            here = slice(*np.searchsorted(columns.column, (low, low + size)))
            ones = np.zeros((size, num_texts), dtype)
            ones[columns.column[here] - low, columns.text[here]] = 1
            weighted = ones[:, :num_hypotheses]
            if columns.values is not None:
                weighted = weighted * columns.values[low : low + size, None]
            total += weighted.T @ ones[:, first_reference:]
        return total

    def add_pairs(self, total: FloatArray, first_reference: int) -> None:
        """Adds w of every column to the cells [H, R] of all pairs of texts that share it."""
        # a text is paired with those that follow it within its column
        ends = np.repeat(self.sizes.cumsum(), self.sizes)
        partners = ends - np.arange(1, len(self.text) + 1)  # [ones]
        pairs_before = partners.cumsum() - partners
        low, step = 0, max(PAIRS, total.size)
        while low < len(self.text):
            high = max(low + 1, int(np.searchsorted(pairs_before, pairs_before[low] + step)))
            one = np.repeat(np.arange(low, high), partners[low:high])  # [pairs]
            right = self.text[ranges(np.arange(low + 1, high + 1), partners[low:high])]
            left = self.text[one]
            if first_reference:
                across = (left < first_reference) & (right >= first_reference)
                one, left, right = one[across], left[across], right[across] - first_reference
            values = None if self.values is None else self.values[self.column[one]]
            cell = left * total.shape[1] + right
            added = np.bincount(cell, values, total.size).reshape(total.shape)
            total += added
            if not first_reference:
                total += added.T
            low = high


def _columns(
    places: _Places, weight: FloatArray | None, group: _TextGroup
) -> tuple[_Columns, Array]:
    """The columns of some n-grams, and whether texts share that at every place.

    Args:
        places: the n-grams.
        weight: of the n-gram at every place, [places]; 1 if not given.
        group: the texts.
    """
    gram, text = places.gram, places.text
    # give every (n-gram, k-th occurrence) a column: an n-gram has as many as its highest k + 1
    starts = np.flatnonzero(_changes(gram) | _changes(text))
    k = np.arange(len(gram)) - np.repeat(starts, np.diff(starts, append=len(gram)))
    columns_of_gram = np.zeros(int(gram[-1]) + 1 if len(gram) else 0, np.int64)
    np.maximum.at(columns_of_gram, gram, k + 1)
    first_column = columns_of_gram.cumsum() - columns_of_gram
    column = first_column[gram] + k  # [places]
    # only columns count that a hypothesis shares with another text, a reference
    size = int(columns_of_gram.sum())
    texts = np.bincount(column, minlength=size)
    hypotheses = np.bincount(column[group.is_hypothesis[text]], minlength=size)
    references = np.bincount(column[group.is_reference[text]], minlength=size)
    useful = (texts > 1) & (hypotheses > 0) & (references > 0)
    used = np.flatnonzero(useful[column])
    used = used[np.argsort(column[used], kind="stable")]
    number = (useful.cumsum() - 1)[column[used]]
    values = None
    if weight is not None:
        values = np.zeros(int(useful.sum()))
        values[number] = weight[used]
    num_blocks = len(group.first_text) - 1
    bounds = np.searchsorted(group.block[text[used]], np.arange(num_blocks + 1))
    columns = _Columns(number, text[used], texts[useful], values, bounds)
    # an n-gram that texts share is at least once in two of them: its first column is useful
    return columns, useful[first_column[gram]]
