"""Clipped n-gram matches of all pairs of one list where every n-gram has a weight, exact.

    sum_g w(g) min(c_h(g), c_r(g)) = sum_{g,k} w(g) [c_h(g) > k] [c_r(g) > k]
Each (n-gram g, k-th occurrence in its text) that texts share is a column of a 0/1 matrix A; the sums are A diag(w) A'.
Weights are whole numbers and their sums stay below 2^53, so no order of summing changes them. It knows neither texts
nor scores: words arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged
from .word_columns import owners, ranges

CELLS = 1 << 22  # cells of one piece of A


class _Places(NamedTuple):
    """The n-grams of one order in the texts of a block, [places] each."""

    at: IntArray  # first word, as an index into the words of all texts
    row: IntArray  # text, as an index into the block's texts
    end: IntArray  # where the text ends
    gram: IntArray  # number of the n-gram

    def where(self, kept: Array) -> _Places:
        """The places at a mask or at positions."""
        return _Places(*(column[kept] for column in self))


def weighted_matches(words: Ragged, weights: IntArray, block: Block) -> Iterator[FloatArray]:
    """For n = 1, 2, ... the summed weights of the n-grams that the pairs of a block share, [H, R].

    Args:
        words: rows of words as numbers.
        weights: of the n-grams that start at every word, [words, orders]; equal n-grams have equal weights.
        block: rows of `words`.
    """
    rows = block.hypotheses
    if not block.square:
        rows = np.concatenate((block.hypotheses, block.references))
    num_hypotheses = len(block.hypotheses)
    num_words = int(words.values.max(initial=0)) + 1
    own = _own_weights(words, weights, rows)
    places = _all_places(words, rows)
    for n in range(weights.shape[1]):
        # One word more makes the next order's n-grams; an n-gram's number is that of (the last one's, the word).
        places = places.where(places.at + n < places.end)
        longer = places.gram * num_words + words.values[places.at + n]
        gram = np.unique(longer, return_inverse=True)[1]
        places = places._replace(gram=gram)
        # An n-gram that no two texts share starts no longer one that they share.
        weight = weights[places.at, n].astype(float)
        matches, shared = _shared(gram, places.row, weight, num_hypotheses, len(rows))
        places = places.where(shared)
        if block.square:
            np.fill_diagonal(matches, own[:, n])
        yield matches


def _all_places(words: Ragged, rows: IntArray) -> _Places:
    """Every word of some rows, row after row, before any n-gram is numbered."""
    lengths = words.lengths[rows]
    at = ranges(words.offsets[rows], lengths)
    row = owners(lengths)
    end = words.offsets[rows + 1][row]
    return _Places(at, row, end, np.zeros(len(at), np.int64))


def _own_weights(words: Ragged, weights: IntArray, rows: IntArray) -> IntArray:
    """Summed weights of all n-grams of every row, which it shares with itself, [rows, orders]."""
    nothing = np.zeros((1, weights.shape[1]), np.int64)
    sums = np.concatenate((nothing, weights.cumsum(axis=0)))  # before every word, and of all
    starts = words.offsets[rows]
    ends = words.offsets[rows + 1]
    own: IntArray = sums[ends] - sums[starts]
    return own


def _shared(
    gram: IntArray,
    row: IntArray,
    weight: FloatArray,
    num_hypotheses: int,
    num_rows: int,
) -> tuple[FloatArray, IntArray]:
    """Summed weights [H, R] of the n-grams that texts share, and the places of these n-grams.

    Args:
        gram: number of the n-gram at every place, [places].
        row: text of every place, [places]; hypotheses first.
        weight: of every place's n-gram, [places].
        num_hypotheses: texts that are hypotheses.
        num_rows: all texts; as many as hypotheses if the block is square.
    """
    square = num_hypotheses == num_rows
    order = np.lexsort((row, gram))
    gram = gram[order]
    row = row[order]
    weight = weight[order]

    # Give every (n-gram, k-th occurrence) a column: an n-gram has as many as its highest k + 1.
    k = _occurrences(gram, row)
    num_grams = int(gram[-1]) + 1 if len(gram) else 0
    columns_of_gram = np.zeros(num_grams, np.int64)
    np.maximum.at(columns_of_gram, gram, k + 1)
    first_column = columns_of_gram.cumsum() - columns_of_gram
    column = first_column[gram] + k  # [places]
    num_columns = int(columns_of_gram.sum())

    # Only columns count that some pair of texts shares.
    texts = np.bincount(column, minlength=num_columns)
    useful = texts > 1
    if not square:
        of_hypothesis = row < num_hypotheses
        hypotheses = np.bincount(column[of_hypothesis], minlength=num_columns)
        useful = (hypotheses > 0) & (hypotheses < texts)
    used = useful[column]

    # Number these columns, and note the weight of each.
    number = (useful.cumsum() - 1)[column]  # [places]
    values = np.zeros(int(useful.sum()))
    values[number[used]] = weight[used]
    matches = _products(number[used], row[used], values, num_hypotheses, num_rows)
    # An n-gram that texts share is at least once in two of them: its first column is useful.
    shared = useful[first_column[gram]]
    return matches, order[shared]


def _occurrences(gram: IntArray, row: IntArray) -> IntArray:
    """How often the n-gram of every place stands in the same row before; sorted by n-gram and row, [places]."""
    other_gram = gram[1:] != gram[:-1]
    other_row = row[1:] != row[:-1]
    new = np.ones(len(gram), np.bool_)
    new[1:] = other_gram | other_row
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(gram))
    return np.arange(len(gram)) - np.repeat(starts, sizes)


def _products(
    column: IntArray,
    row: IntArray,
    values: FloatArray,
    num_hypotheses: int,
    num_rows: int,
) -> FloatArray:
    """A diag(w) A' for hypotheses and references, [H, R].

    Args:
        column: of every 1 of A, [ones].
        row: of every 1 of A, [ones].
        values: w, [columns].
        num_hypotheses: rows of A that are hypotheses.
        num_rows: rows of A; as many as hypotheses if the block is square.
    """
    first_reference = 0 if num_hypotheses == num_rows else num_hypotheses
    total = np.zeros((num_hypotheses, num_rows - first_reference))
    step = max(1, CELLS // max(1, num_rows))
    for low in range(0, len(values), step):
        high = min(low + step, len(values))
        here = (column >= low) & (column < high)
        piece = np.zeros((num_rows, high - low))
        piece[row[here], column[here] - low] = 1
        weighted = piece[:num_hypotheses] * values[low:high]
        total += weighted @ piece[first_reference:].T
    return total
