"""Tokenised texts as columns, and their words as numbers where they are compared.

Words are kept as UTF-8 text, not as numbers of some growing vocabulary, so that a representation means the same in
every process; the numbers are made per call of `numbered`. Ranges of integers are joined without a loop. It
knows neither n-grams nor scores.

Where a step over a word of one text is taken for many others at once, these stand as bits of one integer (`WordBits`).
Every text has a bit for each of its words, in whole bytes, with at least one free bit behind them that stops carries:

    text 0 of 3 words    text 1 of 9 words    ...
    byte 0               bytes 1 and 2
    3 bits, 5 free       9 bits, 7 free
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise

import numpy as np

from ..representations import Array, Block, IntArray, Ragged, Reps, transposed


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The integers starts[i], ..., starts[i] + lengths[i] - 1 for i = 0, 1, ..., [sum of lengths].

    Args:
        starts: first integer of every range, [ranges].
        lengths: how many integers it has, [ranges].
    """
    ends = lengths.cumsum()
    before = ends - lengths  # integers of the ranges before
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)


def owners(lengths: IntArray) -> IntArray:
    """For every integer of `ranges` the range i that it belongs to, [sum of lengths]."""
    return np.repeat(np.arange(len(lengths)), lengths)


PLAIN_SYMBOLS = 1 << 17  # symbols up to here are numbered by a table, whatever their number


def dense(values: Array) -> tuple[IntArray, int]:
    """The same values as 1..n in order, and n."""
    low = int(values.min())
    num_possible = int(values.max()) - low + 1
    if num_possible > max(PLAIN_SYMBOLS, 4 * len(values)):
        unique, inverse = np.unique(values, return_inverse=True)
        return inverse + 1, len(unique)
    # Close together: a table of those present numbers them without a sort.
    values = values - values.dtype.type(low)
    present = np.zeros(num_possible, np.bool_)
    present[values] = True
    number = present.cumsum(dtype=np.int64)
    return number.take(values), int(number[-1])


def packed(tokens: Sequence[Sequence[str]]) -> tuple[dict[str, Ragged | IntArray], IntArray]:
    """Columns ``words`` (UTF-8, each word followed by a space) and ``count`` of tokenised texts, and the counts [n].

    Tokens hold no white space.
    """
    rows = [_encoded(words) for words in tokens]
    values = np.frombuffer(b"".join(rows), np.uint8)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    return {"words": Ragged.of_lengths(values, lengths), "count": counts}, counts


def _encoded(words: Sequence[str]) -> bytes:
    line = " ".join(words) + " " if words else ""
    return line.encode("utf-8", "surrogatepass")


def unpacked(reps: Reps, rows: IntArray) -> list[list[str]]:
    """The tokens of some rows."""
    words = _words(reps, rows)
    counts = reps["count"][rows]
    ends = counts.cumsum()
    return [words[end - n : end] for end, n in zip(ends, counts, strict=True)]


def numbered(reps: Reps, blocks: Sequence[Block]) -> tuple[Ragged, list[Block]]:
    """The words of all rows of some blocks as numbers, and the blocks over these rows.

    Equal words have equal numbers within the call.
    """
    rows, local = localised(blocks)
    words = _words(reps, rows)
    number = dict(zip(dict.fromkeys(words), count()))
    values = np.fromiter(map(number.__getitem__, words), np.int64, len(words))
    return Ragged.of_lengths(values, reps["count"][rows]), local


def localised(blocks: Sequence[Block]) -> tuple[IntArray, list[Block]]:
    """All rows of some blocks one after the other, and the same blocks counting from these rows.

    A block that is the one before it transposed has the same rows, and is still transposed.
    """
    parts: list[IntArray] = []
    local: list[Block] = []
    start = 0
    for block, is_transposed in zip(blocks, transposed(blocks), strict=True):
        if is_transposed:
            local.append(Block(local[-1].references, local[-1].hypotheses))
            continue
        end = start + len(block.hypotheses)
        hypotheses = np.arange(start, end)
        references = hypotheses  # one array if the block is square
        parts.append(block.hypotheses)
        if not block.square:
            start, end = end, end + len(block.references)
            references = np.arange(start, end)
            parts.append(block.references)
        local.append(Block(hypotheses, references))
        start = end
    return np.concatenate(parts), local


def equal_texts(words: Ragged) -> IntArray:
    """A number per row, equal for rows of equal words, [rows]."""
    number: dict[bytes, int] = {}
    bounds = pairwise(words.offsets.tolist())
    rows = (words.values[start:end].tobytes() for start, end in bounds)
    return np.array([number.setdefault(row, len(number)) for row in rows], np.int64)


def _words(reps: Reps, rows: IntArray) -> list[str]:
    return bytes(reps["words"][rows].values).decode("utf-8", "surrogatepass").split()


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
