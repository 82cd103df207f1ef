"""Texts as bits of one integer, so that a step over a word of one text is taken for many others at once.

Every text has a bit for each of its words, in whole bytes, with at least one free bit behind them that stops carries:

    text 0 of 3 words    text 1 of 9 words    ...
    byte 0               bytes 1 and 2
    3 bits, 5 free       9 bits, 7 free

It knows no scores: `rouge` counts common subsequences with it, `error_rate` edits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..representations import Array, IntArray, Ragged
from .word_columns import ranges

PLACE_BYTES = 1 << 24  # of the bit sets made at a time


def row(words: Ragged, number: int) -> Array:
    """The words of one row."""
    return words.values[words.offsets[number] : words.offsets[number + 1]]


class WordBits:
    """The bits of some texts.

    Args:
        words: rows of words as numbers.
        rows: the texts, [texts].
        least: how often a word must stand among them to be worth an integer of its places.

    Attributes:
        starts: the byte where each text begins, and the end, [texts + 1].
        ones: a bit for every word of every text.
        places: for every word with `least` places or more, a bit at each.
    """

    def __init__(self, words: Ragged, rows: IntArray, least: int = 1) -> None:
        self.lengths = words.lengths[rows]
        self.starts = np.concatenate(([0], (self.lengths // 8 + 1).cumsum()))
        self.ones = _integer(self.starts, self.lengths)
        texts = [row(words, number) for number in rows.tolist()]
        self.places = _places(texts, self.starts, least)

    @property
    def firsts(self) -> int:
        """A bit for the first word of every text that has one."""
        return _integer(self.starts, np.minimum(self.lengths, 1))

    def before(self, text: int) -> int:
        """The bits of all texts before one, or of all."""
        return (1 << 8 * int(self.starts[text])) - 1

    def counts(self, bits: int) -> IntArray:
        """How many of the bits each text has, [texts]."""
        raw = bits.to_bytes(int(self.starts[-1]), "little")
        per_byte = np.bitwise_count(np.frombuffer(raw, np.uint8))
        return np.add.reduceat(per_byte, self.starts[:-1], dtype=np.int64)


def _integer(starts: IntArray, lengths: IntArray) -> int:
    """An integer with so many ones from the byte on where each text begins."""
    bits = 0
    for start, length in zip(starts[:-1].tolist(), lengths.tolist(), strict=True):
        bits |= ((1 << length) - 1) << 8 * start
    return bits


def _places(texts: Sequence[Array], starts: IntArray, least: int) -> dict[int, int]:
    """For every word with `least` places or more an integer with a bit at each.

    Args:
        texts: words as numbers.
        starts: byte where each text starts, and the end, [texts + 1].
        least: places of a word that is worth an integer.
    """
    values = np.concatenate(texts)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    bit = ranges(8 * starts[:-1], lengths)  # [words]
    unique, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    numbers = np.flatnonzero(times >= least)
    size = int(starts[-1])
    step = max(1, PLACE_BYTES // size)
    places = {}
    for start in range(0, len(numbers), step):
        # Number these words 0, 1, ...; all others are -1.
        chosen = numbers[start : start + step]
        number = np.full(len(unique), -1)
        number[chosen] = np.arange(len(chosen))
        number = number[inverse]
        # Set the bits in one array of bytes, `size` for each word, and read an integer off each.
        here = number >= 0
        byte = number[here] * size + (bit[here] >> 3)
        mask = (1 << (bit[here] & 7)).astype(np.uint8)
        rows = np.zeros(len(chosen) * size, np.uint8)
        np.bitwise_or.at(rows, byte, mask)
        raw = rows.tobytes()
        for i, word in enumerate(unique[chosen].tolist()):
            word_bytes = raw[i * size : (i + 1) * size]
            places[word] = int.from_bytes(word_bytes, "little")
    return places
