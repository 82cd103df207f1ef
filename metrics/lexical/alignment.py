"""One-to-one alignments of equal words, for many pairs of texts at once (in the manner of METEOR), exact.

A place (i, j) of a pair matches where word i of one text and word j of the other have equal stems. Places are taken in
this order, each if both its words are still free:
    equal words before equal stems; long runs of matches on a diagonal before short ones; near the main diagonal
    before far from it; left before right.
So as many words are aligned as can be, first equal ones, in few chunks. The order is strict among places that share a
word, and the same from either side: the alignment is symmetric. It is found in rounds that take every place which
comes first of all free places of both its words.

It knows neither texts nor scores: words arrive as integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..representations import FloatArray, IntArray, Ragged

PLACES = 1 << 19  # matching places of the pairs aligned together
MAX_PLACES = 1 << 23  # of one pair


class Aligned(NamedTuple):
    """What pairs of texts share, [pairs] each."""

    words: FloatArray  # aligned equal words
    stems: FloatArray  # aligned words of which only the stems are equal
    chunks: FloatArray  # runs of words aligned in a row on both sides


def align(words: Ragged, stems: Ragged, h: IntArray, r: IntArray) -> Aligned:
    """The alignments of rows `h` and `r` of some texts.

    Args:
        words: rows of words as numbers.
        stems: the same rows of stems; equal words have equal stems.
        h: a row per pair, [pairs].
        r: the other row per pair, [pairs].

    Raises:
        InputError: two long texts of the same few words.
    """
    found = Aligned(*np.zeros((3, len(h))))
    index = _Index(stems)
    for pairs in _tiles(index, stems, h, r):
        for column, values in zip(found, _aligned(words, index, h[pairs], r[pairs]), strict=True):
            column[pairs] = values
    return found


class _Index:
    """Where each stem stands in each row."""

    def __init__(self, stems: Ragged) -> None:
        self.stems = stems
        self.top = int(stems.values.max(initial=0)) + 1
        row = np.repeat(np.arange(len(stems)), stems.lengths)
        keys = row * self.top + stems.values
        self.place = np.argsort(keys, kind="stable")  # of the words, by row and stem
        self.keys, self.first, self.counts = np.unique(
            keys[self.place], return_index=True, return_counts=True
        )

    def find(self, row: IntArray, stem: IntArray) -> tuple[IntArray, IntArray]:
        """Where in `place` the words of a stem in a row begin, and how many there are."""
        if not len(self.keys):
            return np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
        keys = row * self.top + stem
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.first[at], np.where(self.keys[at] == keys, self.counts[at], 0)


def _tiles(index: _Index, stems: Ragged, h: IntArray, r: IntArray) -> Iterator[IntArray]:
    """All pairs that share a stem, some at a time."""
    lengths = stems.lengths[h]
    start, step = 0, max(1, PLACES // max(1, int(lengths.max(initial=1))))
    while start < len(h):
        some = np.arange(start, min(start + step, len(h)))
        pair, at = _positions(stems, h[some])
        counts = np.bincount(
            pair, index.find(r[some][pair], stems.values[at])[1], len(some)
        ).astype(np.int64)
        if counts.max(initial=0) > MAX_PLACES:
            fix = "Give its sentences as a Document, or leave it out"
            raise InputError(
                f"{counts.max()} pairs of equal words",
                where="a text of few different words",
                fix=fix,
            )
        kept = np.flatnonzero(counts)
        tile = counts[kept].cumsum() // PLACES
        yield from (some[kept[tile == number]] for number in np.unique(tile).tolist())
        start += step


def _positions(texts: Ragged, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Number of the row and place in `texts.values` of every word of some rows."""
    lengths = texts.lengths[rows]
    pair = np.repeat(np.arange(len(rows)), lengths)
    return pair, np.arange(len(pair)) + np.repeat(
        texts.offsets[rows] - lengths.cumsum() + lengths, lengths
    )


class _Places(NamedTuple):
    """Matching places of some pairs, by pair, word of h and word of r."""

    pair: IntArray
    h: IntArray  # place in the values of all texts
    r: IntArray
    i: IntArray  # place in its text
    j: IntArray


def _aligned(
    words: Ragged, index: _Index, h: IntArray, r: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Equal words, equal stems and chunks of some pairs."""
    pair, at = _positions(words, h)
    first, counts = index.find(r[pair], index.stems.values[at])
    place = np.arange(int(counts.sum())) + np.repeat(first - counts.cumsum() + counts, counts)
    pair, of_h, of_r = np.repeat(pair, counts), np.repeat(at, counts), index.place[place]
    i, j = of_h - words.offsets[h][pair], of_r - words.offsets[r][pair]
    places = _Places(pair, of_h, of_r, i, j)
    equal = words.values[of_h] == words.values[of_r]
    size = int(max(i.max(), j.max())) + 1
    rank = (~equal * (size + 1) + size - _run_lengths(places, size)) * size + np.abs(i - j)
    order = np.argsort(rank * size + np.minimum(i, j))
    taken = _taken(places, order, words.lengths[h], words.lengths[r])
    pair, i, j, equal = pair[taken], i[taken], j[taken], equal[taken]
    follows = np.zeros(len(pair), np.bool_)
    follows[1:] = (pair[1:] == pair[:-1]) & (i[1:] == i[:-1] + 1) & (j[1:] == j[:-1] + 1)
    same, all_, chunks = (
        np.bincount(pair[which], minlength=len(h)) for which in (equal, slice(None), ~follows)
    )
    return same.astype(float), (all_ - same).astype(float), chunks.astype(float)


def _run_lengths(places: _Places, size: int) -> IntArray:
    """How many places in a row on its diagonal every place stands among; texts are of `size` words at most."""
    keys = (places.pair * 2 * size + places.j - places.i + size) * (size + 1) + places.i
    order = np.argsort(keys)
    starts = np.flatnonzero(np.diff(keys[order], prepend=-2) != 1)
    sizes = np.diff(starts, append=len(order))
    found = np.empty(len(order), np.int64)
    found[order] = np.repeat(sizes, sizes)
    return found


def _taken(places: _Places, order: IntArray, of_h: IntArray, of_r: IntArray) -> IntArray:
    """The places that are aligned, by pair and word of h; lengths of the texts of every pair are given."""
    word_h = places.i + (of_h.cumsum() - of_h)[places.pair]  # a number for each word of each pair
    word_r = places.j + (of_r.cumsum() - of_r)[places.pair]
    best_h, best_r = np.zeros(int(of_h.sum()), np.int64), np.zeros(int(of_r.sum()), np.int64)
    taken = np.zeros(len(order), np.bool_)
    while len(order):
        rank = np.arange(len(order))
        h, r = word_h[order], word_r[order]
        best_h[h[::-1]] = best_r[r[::-1]] = rank[::-1]  # the last writer is the first in order
        best = (best_h[h] == rank) & (best_r[r] == rank)
        taken[order[best]] = True
        best_h[h[best]] = best_r[r[best]] = -1
        order = order[(best_h[h] >= 0) & (best_r[r] >= 0)]
    return np.flatnonzero(taken)
