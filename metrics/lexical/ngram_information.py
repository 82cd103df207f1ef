"""How much each n-gram of some texts tells (Doddington 2002), in bits.

    Info(w_1 ... w_n) = log2( #(w_1 ... w_{n-1}) / #(w_1 ... w_n) ),   # of nothing is the number of words
An n-gram that the texts lack counts as seen once. Tables are sorted arrays: an n-gram is the place of its first n - 1
words in the table before, and its last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from ..representations import FloatArray, IntArray


class _Level(NamedTuple):
    """The n-grams of one order; an n-gram's place is its index."""

    keys: IntArray  # sorted: place of the first n - 1 words * words known + last word
    counts: FloatArray


class Information(NamedTuple):
    """Counts of the n-grams of some texts."""

    numbers: dict[str, int]  # of the words
    levels: tuple[_Level, ...]
    total: int  # words

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], order: int) -> Self:
        """Counts all n-grams of 1 to `order` words."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        word = np.array([number for row in rows for number in row], np.int64)
        left = _left(lengths)
        place = np.zeros(len(word), np.int64)  # of the n words that start at every word
        levels = []
        for n in range(order):
            # Where a word more follows, the n-gram becomes one of the next order.
            here = np.flatnonzero(left > n)
            keys, longer, counts = np.unique(
                place[here] * len(numbers) + word[here + n],
                return_inverse=True,
                return_counts=True,
            )
            place[here] = longer
            levels.append(_Level(keys, counts.astype(float)))
        return cls(numbers, tuple(levels), len(word))

    def bits(self, texts: Sequence[Sequence[str]]) -> FloatArray:
        """Info of the n-grams that start at every word of some texts, [words, order]; 0 where there is none."""
        lengths = np.array([len(words) for words in texts], np.int64)
        numbers = [self.numbers.get(word, -1) for words in texts for word in words]
        word = np.array(numbers, np.int64)
        left = _left(lengths)
        information = np.zeros((len(word), len(self.levels)))
        place = np.zeros(len(word), np.int64)  # of the first n words; -1 if unknown
        before = np.full(len(word), max(1.0, self.total))  # how often they were seen, at least once
        for n, level in enumerate(self.levels):
            # Look up the n-grams with a word more; they are unknown where either part is.
            here = np.flatnonzero(left > n)
            first = place[here]
            last = word[here + n]
            both_known = (first >= 0) & (last >= 0)
            keys = np.where(both_known, first * len(self.numbers) + last, -1)
            at = np.searchsorted(level.keys, keys)
            known = at < len(level.keys)
            known[known] = level.keys[at[known]] == keys[known]
            # An unknown one counts as seen once.
            counts = np.ones(len(here))
            counts[known] = level.counts[at[known]]
            information[here, n] = np.log2(before[here] / counts)
            place[here] = np.where(known, at, -1)
            before[here] = counts
        return information


def _left(lengths: IntArray) -> IntArray:
    """How many words are left in its text from every word on, itself too, [words]."""
    ends = np.repeat(lengths.cumsum(), lengths)
    return ends - np.arange(int(lengths.sum()))
