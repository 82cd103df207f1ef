"""Features of the parser: words as numbers for its encoder, and hashed features of a split of a span in two.

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
    """0 punctuation, 1 lower case, 2 capitalised, 3 number, 4 capitals throughout."""
    if not word[0].isalnum():
        return 0
    if word[0].isdigit():
        return 3
    if word.isupper() and len(word) > 1:
        return 4
    return 2 if word[0].isupper() else 1


def sentence_numbers(words: Sequence[str]) -> IntArray:
    """The rows of all words, [tables, words]."""
    rows = np.array([word_numbers(word) for word in words], np.int64)  # [words, tables]
    return rows.T.reshape(len(TABLES), len(words))


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
    features = _Split(units, triple).features()
    return np.unique([hashed(feature, SPLIT_ROWS) for feature in features])


class _Part(NamedTuple):
    """The words of one half of a span; places outside it read as `NONE`."""

    units: Units
    begin: int
    end: int

    def first(self, count: int) -> range:
        """The places of its first words."""
        return range(self.begin, self.begin + count)

    def last(self, count: int) -> range:
        """The places of its last words, from the last one on."""
        return range(self.end - 1, self.end - 1 - count, -1)

    def word(self, place: int) -> str:
        return self.units.words[place] if self.begin <= place < self.end else NONE

    def tag(self, place: int) -> str:
        return self.units.tags[place] if self.begin <= place < self.end else NONE

    def verbs(self) -> list[int]:
        tags = self.units.tags
        return [place for place in range(self.begin, self.end) if tags[place].startswith("V")]


class _Split:
    """Features of a split: sizes, words at the edges of both parts and of the EDUs beside the cut, tags, verbs."""

    def __init__(self, units: Units, triple: Triple) -> None:
        self.units, self.triple = units, triple
        begin = units.starts[triple.first]
        cut = units.starts[triple.middle + 1]
        end = units.starts[triple.last + 1]
        self.left = _Part(units, begin, cut)
        self.right = _Part(units, cut, end)
        # how many more EDUs than one each part has, up to 2
        more_left = min(triple.middle - triple.first, 2)
        more_right = min(triple.last - triple.middle - 1, 2)
        self.more = f"{more_left}_{more_right}"

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
        """Numbers of EDUs and of words, and whether the span begins or ends with the sentence."""
        i, k, j = self.triple
        words_left = self.left.end - self.left.begin
        words_right = self.right.end - self.right.begin
        return [
            f"ne={min(k - i, 3)}_{min(j - k - 1, 3)}",
            f"nt={min(words_left // 4, 6)}_{min(words_right // 4, 6)}",
            f"nl={min(words_left, 6)}",
            f"nr={min(words_right, 6)}",
            f"top={i == 0}_{j == self.units.edus - 1}",
        ]

    def _words(self) -> list[str]:
        """The first three words of both parts, l and r, the last three of the left, e, and pairs of them."""
        left, right = self.left, self.right
        l0, l1, l2 = map(left.word, left.first(3))
        r0, r1, r2 = map(right.word, right.first(3))
        e0, e1, e2 = map(left.word, left.last(3))
        more_left = self.more[0]
        return [
            f"l0={l0}",
            f"l1={l1}",
            f"l2={l2}",
            f"r0={r0}",
            f"r1={r1}",
            f"r2={r2}",
            f"le0={e0}",
            f"le1={e1}",
            f"le2={e2}",
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
            f"comma={e0 == ','}_{self.more}",
            f"rb={r0}_{self.more}",
            f"lb={l0}_{more_left}",
        ]

    def _units(self) -> list[str]:
        """The first words of the EDUs beside the cut, and of the second EDU of both parts."""
        (i, k, j), starts = self.triple, self.units.starts
        left, right, words = self.left, self.right, self.units.words
        r0 = right.word(right.begin)
        e0 = left.word(left.end - 1)
        # the last EDU of the left part, and the second EDUs of both
        before_cut = left.word(starts[k])
        second_left = left.word(starts[i + 1]) if i + 1 <= k else NONE
        second_right = right.word(starts[k + 2]) if k + 2 <= j else NONE
        second_tag_right = right.tag(starts[k + 2]) + second_right if k + 2 <= j else NONE
        # where the first EDUs of both parts end
        end_left, end_right = starts[i + 1], starts[k + 2]
        return [
            f"lk={before_cut}",
            f"lkr={before_cut}_{r0}",
            f"lke={before_cut}_{e0}",
            f"r2={second_right}",
            f"l2={second_left}",
            f"iend={words[end_left - 1] if end_left else NONE}",
            f"r1end={words[end_right - 1]}",
            f"e1={min(end_right - right.begin, 5)}_{self.more[-1]}",
            f"r2p={second_tag_right}",
        ]

    def _tags(self) -> list[str]:
        """The tags at the edges of both parts, and where the EDU before the cut begins."""
        left, right = self.left, self.right
        before_cut = self.units.starts[self.triple.middle]
        k0, k1 = left.tag(before_cut), left.tag(before_cut + 1)
        l0, l1, l2 = map(left.tag, left.first(3))
        r0, r1, r2 = map(right.tag, right.first(3))
        e0, e1 = map(left.tag, left.last(2))
        return [
            f"pl={l0}_{l1}_{l2}",
            f"pr={r0}_{r1}_{r2}",
            f"ple={e1}_{e0}",
            f"plr={l0}_{r0}",
            f"pler={e0}_{r0}",
            f"pr0={r0}_{self.more[-1]}",
            f"pr1={r1}",
            f"wp={right.word(right.begin)}_{r1}",
            f"wpl={left.word(left.begin)}_{l1}",
            f"pk={k0}_{k1}_{r0}_{r1}",
            f"first={l0}_{r0}_{self.more}",
        ]

    def _verbs(self) -> list[str]:
        """Whether both parts have a verb; the first main verb and the last verb left, the first verb's tag right."""
        words, tags = self.units.words, self.units.tags
        verbs_left, verbs_right = self.left.verbs(), self.right.verbs()
        main_verbs = (words[place] for place in verbs_left if tags[place][:2] in ("VV", "VB"))
        main_verb_left = next(main_verbs, "-")
        last_verb_left = words[verbs_left[-1]] if verbs_left else "-"
        first_tag_right = tags[verbs_right[0]] if verbs_right else "-"
        return [
            f"v={bool(verbs_left)}_{bool(verbs_right)}",
            f"fvl={main_verb_left}",
            f"fvr={first_tag_right}",
            f"vll={last_verb_left}",
        ]

    def _around(self) -> list[str]:
        """The words before and after the span."""
        begin, end, words = self.left.begin, self.right.end, self.units.words
        before = words[begin - 1] if begin else NONE
        after = words[end] if end < len(words) else NONE
        tag_after = self.units.tags[end] if end < len(words) else NONE
        return [
            f"after={after}",
            f"before={before}",
            f"ap={tag_after}_{self.right.tag(self.right.begin)}",
        ]
