"""Clipped n-gram matches of all pairs of one list where every n-gram has a weight, exact.

    sum_g w(g) min(c_h(g), c_r(g)) = sum_{g,k} w(g) [c_h(g) > k] [c_r(g) > k]
Each (n-gram g, k-th occurrence in its text) that texts share is a column of a 0/1 matrix A; the sums are A diag(w) A'.
Weights are whole numbers and their sums stay below 2^53, so no order of summing changes them. It knows neither texts
nor scores: words arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..representations import Block, FloatArray, IntArray, Ragged

CELLS = 1 << 22  # cells of one piece of A


def weighted_matches(words: Ragged, weights: IntArray, block: Block) -> Iterator[FloatArray]:
    """For n = 1, 2, ... the summed weights of the n-grams that the pairs of a block share, [H, R].

    Args:
        words: rows of words as numbers.
        weights: of the n-grams that start at every word, [words, orders]; equal n-grams have equal weights.
        block: rows of `words`.
    """
    rows = (
        block.hypotheses if block.square else np.concatenate((block.hypotheses, block.references))
    )
    lengths = words.lengths[rows]
    start = np.repeat(words.offsets[rows] - lengths.cumsum() + lengths, lengths)
    at = np.arange(len(start)) + start  # of every word of the block, row after row
    row = np.repeat(np.arange(len(rows)), lengths)
    end = words.offsets[rows + 1][row]
    gram, top = np.zeros(len(at), np.int64), int(words.values.max(initial=0)) + 1
    sums = np.concatenate((np.zeros((1, weights.shape[1]), np.int64), weights.cumsum(axis=0)))
    own = sums[words.offsets[rows + 1]] - sums[words.offsets[rows]]
    for n in range(weights.shape[1]):
        keep = at + n < end
        at, row, end, gram = at[keep], row[keep], end[keep], gram[keep]
        gram = np.unique(gram * top + words.values[at + n], return_inverse=True)[1]
        found, shared = _shared(
            gram, row, weights[at, n].astype(float), len(block.hypotheses), len(rows)
        )
        at, row, end, gram = at[shared], row[shared], end[shared], gram[shared]
        if block.square:
            np.fill_diagonal(found, own[:, n])
        yield found


def _shared(
    gram: IntArray, row: IntArray, weight: FloatArray, hypotheses: int, rows: int
) -> tuple[FloatArray, IntArray]:
    """Summed weights [H, R] of n-grams given by their places, and the places whose n-gram more than one row has."""
    square = hypotheses == rows
    order = np.lexsort((row, gram))
    gram, row, weight = gram[order], row[order], weight[order]
    fresh = np.ones(len(gram), np.bool_)
    fresh[1:] = (gram[1:] != gram[:-1]) | (row[1:] != row[:-1])
    runs = np.flatnonzero(fresh)
    k = np.arange(len(gram)) - np.repeat(
        runs, np.diff(runs, append=len(gram))
    )  # earlier occurrences in the row
    most = np.zeros(int(gram[-1]) + 1 if len(gram) else 0, np.int64)
    np.maximum.at(most, gram, k + 1)
    column = (most.cumsum() - most)[gram] + k
    size = int(most.sum())
    of_rows = np.bincount(column, minlength=size)
    of_h = of_rows if square else np.bincount(column[row < hypotheses], minlength=size)
    useful = of_rows > 1 if square else (of_h > 0) & (of_h < of_rows)
    taken = useful[column]
    number = useful.cumsum() - 1
    values = np.zeros(int(useful.sum()))
    values[number[column[taken]]] = weight[taken]
    found = np.zeros((hypotheses, rows if square else rows - hypotheses))
    step = max(1, CELLS // max(1, rows))
    for low in range(0, len(values), step):
        high = min(low + step, len(values))
        here = taken & (number[column] >= low) & (number[column] < high)
        ones = np.zeros((rows, high - low))
        ones[row[here], number[column[here]] - low] = 1
        found += (ones[:hypotheses] * values[low:high]) @ ones[0 if square else hypotheses :].T
    return found, order[(useful[(most.cumsum() - most)[gram]])]
