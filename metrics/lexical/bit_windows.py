"""Where words stand in a text, as bits: any 57 neighbouring places of a word are read as one integer.

A text's places are bits `PAD` and up of a row of bytes. Window q of a row is its bytes q to q + 7 as one integer: the
57 bits from bit x on are window x // 8, shifted by x % 8. It knows neither metrics nor pairs: words arrive as integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import IntArray, Ragged
from .ranges import owners, ranges

Bits = NDArray[np.uint64]
PAD = 64  # bits before the first place and after the last


class WordPlaces(NamedTuple):
    """Windows of the places of every distinct word of some texts."""

    windows: Bits  # [2 * words * windows per word]: of the texts, and then of the texts read from their ends
    width: int  # windows of a word
    keys: IntArray  # text * num_words + number of every word but the first, which no text has; ascending
    num_words: int  # numbers of words are below

    @classmethod
    def of(cls, words: Ragged, texts: IntArray, longest: int) -> WordPlaces:
        """The places of the words of some rows, with room for windows up to `longest` + `PAD` bits."""
        # Give every (text, word) a row of bytes, after an empty one.
        num_words = int(words.values.max(initial=0)) + 1
        lengths = words.lengths[texts]
        values = words.values[ranges(words.offsets[texts], lengths)]
        key = owners(lengths) * num_words + values
        keys, row = np.unique(key, return_inverse=True)
        width = (longest + 2 * PAD) // 8
        windows = []
        place = ranges(np.zeros_like(lengths), lengths)
        from_end = np.repeat(lengths - 1, lengths) - place
        for bit in (place + PAD, from_end + PAD):
            # Set a bit at each place; no two words share one.
            rows = np.zeros((len(keys) + 1, width + 7), np.uint8)
            mask = (1 << (bit & 7)).astype(np.uint8)
            np.bitwise_or.at(rows, (row + 1, bit >> 3), mask)
            windows.append(_windows(rows).ravel())
        return cls(np.concatenate(windows), width, keys, num_words)

    @property
    def from_end(self) -> int:
        """How far after the windows of a word are those of the texts read from their ends."""
        return len(self.windows) // 2

    def rows_of(self, text: IntArray, values: IntArray) -> IntArray:
        """Where in `windows` those of a word of a text begin, [queries]; `text` counts the rows given to `of`."""
        key = text * self.num_words + values
        row = np.searchsorted(self.keys, key)
        row = np.minimum(row, len(self.keys) - 1)
        return np.where(self.keys[row] == key, row + 1, 0) * self.width


def flag_windows(flags: NDArray[np.bool_], longest: int) -> Bits:
    """Windows of the set flags of every text, [texts, windows]; `flags` is [texts, places], at most `longest`."""
    bits = np.zeros((len(flags), 8 * ((longest + 2 * PAD) // 8 + 7)), np.bool_)
    bits[:, PAD : PAD + flags.shape[1]] = flags
    return _windows(np.packbits(bits, axis=1, bitorder="little"))


def _windows(rows: NDArray[np.uint8]) -> Bits:
    """Bytes q to q + 7 of every row as one integer, [rows, bytes - 7]."""
    every_eight = np.lib.stride_tricks.sliding_window_view(rows, 8, axis=1)
    return np.ascontiguousarray(every_eight).view("<u8")[..., 0].astype(np.uint64, copy=False)


def set_bits(words: Bits) -> tuple[IntArray, IntArray]:
    """The set bits of some integers: index of the integer, and number of the bit, [set bits] each."""
    where = np.flatnonzero(words)
    left = words.ravel()[where]
    places = []
    numbers = []
    one = np.uint64(1)
    while len(where):
        # Take the lowest bit of each, and drop the integers that are empty then.
        below = left - one
        lowest = left & ~below
        places.append(where)
        numbers.append(np.bitwise_count(lowest - one).astype(np.int64))
        left = left & below
        where = where[left != 0]
        left = left[left != 0]
    if not places:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(places), np.concatenate(numbers)
