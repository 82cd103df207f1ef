"""What the parser sees: words as numbers for its encoder, and hashed features of a split of a span in two.

Numbers are CRC-32 of text modulo a table's size, so they are the same in every process and no vocabulary is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import numpy as np

from ...representations import IntArray

WORDS, ENDS, SHORT_ENDS, STARTS, SHAPES = 8192, 2048, 1024, 2048, 5
TABLES = (WORDS, ENDS, SHORT_ENDS, STARTS, SHAPES)  # rows of the encoder's embedding tables
SPLIT_ROWS = 1 << 15  # rows of the split features' table
NONE = "<>"


def hashed(text: str, size: int) -> int:
    """A number below `size` that stands for the text."""
    return crc32(text.encode("utf-8", "surrogatepass")) % size


@lru_cache(1 << 16)
def word_numbers(word: str) -> tuple[int, ...]:
    """The rows of a word in `TABLES`: itself, its last three, last two and first three letters, and its shape."""
    low = word.lower()
    return (
        hashed(f"w{low}", WORDS),
        hashed(f"3{low[-3:]}", ENDS),
        hashed(f"2{low[-2:]}", SHORT_ENDS),
        hashed(f"p{low[:3]}", STARTS),
        _shape(word),
    )


def _shape(word: str) -> int:
    if not word[0].isalnum():
        return 0
    if word[0].isdigit():
        return 3
    if word.isupper() and len(word) > 1:
        return 4
    return 2 if word[0].isupper() else 1


def sentence_numbers(words: Sequence[str]) -> IntArray:
    """The rows of all words, [tables, words]."""
    return np.array([word_numbers(word) for word in words], np.int64).T.reshape(
        len(TABLES), len(words)
    )


class Units(NamedTuple):
    """A sentence cut into EDUs."""

    words: list[str]  # lower case
    tags: list[str]
    starts: list[int]  # first word of every EDU, and the number of words

    @property
    def edus(self) -> int:
        """Number of EDUs."""
        return len(self.starts) - 1


class Triple(NamedTuple):
    """EDUs first to last, cut behind EDU middle."""

    first: int
    middle: int
    last: int


def split_numbers(units: Units, triple: Triple) -> IntArray:
    """The distinct rows of the features of one way to cut a span in two."""
    return np.unique([hashed(feature, SPLIT_ROWS) for feature in _Split(units, triple).features()])


class _Part(NamedTuple):
    """The words of one half of a span; places outside it read as `NONE`."""

    units: Units
    begin: int
    end: int

    def word(self, place: int) -> str:
        return self.units.words[place] if self.begin <= place < self.end else NONE

    def tag(self, place: int) -> str:
        return self.units.tags[place] if self.begin <= place < self.end else NONE

    def verbs(self) -> list[int]:
        return [
            place for place in range(self.begin, self.end) if self.units.tags[place].startswith("V")
        ]


class _Split:
    """Features of a split: sizes, words at the edges of both parts and of the EDUs beside the cut, tags, verbs."""

    def __init__(self, units: Units, triple: Triple) -> None:
        b = units.starts
        self.units, self.triple = units, triple
        self.left = _Part(units, b[triple.first], b[triple.middle + 1])
        self.right = _Part(units, b[triple.middle + 1], b[triple.last + 1])
        self.many = (
            f"{min(triple.middle - triple.first, 2)}_{min(triple.last - triple.middle - 1, 2)}"
        )

    def features(self) -> list[str]:
        return [
            "b",
            *self._sizes(),
            *self._words(),
            *self._units(),
            *self._tags(),
            *self._verbs(),
            *self._around(),
        ]

    def _sizes(self) -> list[str]:
        (i, k, j), left, right = self.triple, self.left, self.right
        of_left, of_right = left.end - left.begin, right.end - right.begin
        return [
            f"ne={min(k - i, 3)}_{min(j - k - 1, 3)}",
            f"nt={min(of_left // 4, 6)}_{min(of_right // 4, 6)}",
            f"nl={min(of_left, 6)}",
            f"nr={min(of_right, 6)}",
            f"top={i == 0}_{j == self.units.edus - 1}",
        ]

    def _words(self) -> list[str]:
        left, right = self.left, self.right
        l0, l1, l2 = (left.word(left.begin + d) for d in range(3))
        r0, r1, r2 = (right.word(right.begin + d) for d in range(3))
        e0, e1, e2 = (left.word(left.end - 1 - d) for d in range(3))
        few_left = self.many[0]
        return [
            *(f"l{d}={word}" for d, word in enumerate((l0, l1, l2))),
            *(f"r{d}={word}" for d, word in enumerate((r0, r1, r2))),
            *(f"le{d}={word}" for d, word in enumerate((e0, e1, e2))),
            f"re={right.word(right.end - 1)}",
            f"l01={l0}_{l1}",
            f"r01={r0}_{r1}",
            f"l012={l0}_{l1}_{l2}",
            f"r012={r0}_{r1}_{r2}",
            f"lr={l0}_{r0}",
            f"lere={e0}_{r0}",
            f"lle={l0}_{e0}",
            f"le01={e1}_{e0}",
            f"rs3={r0[-3:]}",
            f"r1s3={r1[-3:]}",
            f"comma={e0 == ','}_{self.many}",
            f"rb={r0}_{self.many}",
            f"lb={l0}_{few_left}",
        ]

    def _units(self) -> list[str]:
        (i, k, j), b = self.triple, self.units.starts
        left, right, words = self.left, self.right, self.units.words
        own, r0, e0 = left.word(b[k]), right.word(right.begin), left.word(left.end - 1)
        second = right.word(b[k + 2]) if k + 2 <= j else NONE
        return [
            f"lk={own}",
            f"lkr={own}_{r0}",
            f"lke={own}_{e0}",
            f"r2={second}",
            f"l2={left.word(b[i + 1]) if i + 1 <= k else NONE}",
            f"iend={words[b[i + 1] - 1] if b[i + 1] else NONE}",
            f"r1end={words[b[k + 2] - 1]}",
            f"e1={min(b[k + 2] - right.begin, 5)}_{self.many[-1]}",
            f"r2p={right.tag(b[k + 2]) + second if k + 2 <= j else NONE}",
        ]

    def _tags(self) -> list[str]:
        left, right, k = self.left, self.right, self.units.starts[self.triple.middle]
        l0, l1, l2 = (left.tag(left.begin + d) for d in range(3))
        r0, r1, r2 = (right.tag(right.begin + d) for d in range(3))
        e0, e1 = left.tag(left.end - 1), left.tag(left.end - 2)
        return [
            f"pl={l0}_{l1}_{l2}",
            f"pr={r0}_{r1}_{r2}",
            f"ple={e1}_{e0}",
            f"plr={l0}_{r0}",
            f"pler={e0}_{r0}",
            f"pr0={r0}_{self.many[-1]}",
            f"pr1={r1}",
            f"wp={right.word(right.begin)}_{r1}",
            f"wpl={left.word(left.begin)}_{l1}",
            f"pk={left.tag(k)}_{left.tag(k + 1)}_{r0}_{r1}",
            f"first={l0}_{r0}_{self.many}",
        ]

    def _verbs(self) -> list[str]:
        words, tags = self.units.words, self.units.tags
        of_left, of_right = self.left.verbs(), self.right.verbs()
        main = next((words[p] for p in of_left if tags[p][:2] in ("VV", "VB")), "-")
        return [
            f"v={bool(of_left)}_{bool(of_right)}",
            f"fvl={main}",
            f"fvr={tags[of_right[0]] if of_right else '-'}",
            f"vll={words[of_left[-1]] if of_left else '-'}",
        ]

    def _around(self) -> list[str]:
        begin, end, words = self.left.begin, self.right.end, self.units.words
        after = words[end] if end < len(words) else NONE
        tag = self.units.tags[end] if end < len(words) else NONE
        return [
            f"after={after}",
            f"before={words[begin - 1] if begin else NONE}",
            f"ap={tag}_{self.right.tag(self.right.begin)}",
        ]
