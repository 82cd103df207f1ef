"""Word and character error rate (WER, CER; Levenshtein 1966): edits per word or character of the reference.

    WER = (substitutions + deletions + insertions) / |r|

The least number of edits, over words between blanks or over code points. From 0 upwards, lower is better, not symmetric
(the edits are, the length is not). Against an empty reference the rate is the number of insertions. Of several
references the one with the lowest rate counts. A corpus has its edits over its reference words. Equal to jiwer's, with
its normalisations by name:

    default       runs of white space are one blank, white space around a text goes (CER: only that around it)
    standardize   besides: lower case, English contractions written out (``'ll``), no ``<unk>`` and ``[laughter]``

In both a single tab or line break is part of a word under ``default``, as jiwer has it.
"""

from __future__ import annotations

import re
import string
import unicodedata
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import inf
from typing import ClassVar, Literal

import numpy as np

from ..base import Metric
from ..representations import (
    Array,
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    transposed,
    with_transposed,
)
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..text.texts import Item
from .word_columns import WordBits, numbered, packed, row

Normalize = Literal["default", "standardize"]


def edit_distances(words: Ragged, block: Block) -> FloatArray:
    """The least edits between every pair of a block, [H, R].

    One integer holds the words of every hypothesis (`WordBits`). A column of the table of distances is kept as the
    differences of neighbouring cells, `plus` where they are 1 and `minus` where they are -1; Hyyrö's step (2001, after
    Myers 1999) makes the next column of it, for the next word of a reference with the places of that word as `match`.
    In a square block a reference meets only the hypotheses before it.
    """
    if len(block.hypotheses) == 1 and not block.square:
        return _distances_of_one(words, block)
    bits = WordBits(words, block.hypotheses)
    matrix = np.zeros((len(block.hypotheses), len(block.references)))
    firsts = bits.firsts
    for column, number in enumerate(block.references.tolist()):
        last = column if block.square else len(block.hypotheses)
        before = bits.before(last)
        symbols = row(words, number).tolist()
        matches = [bits.places.get(symbol, 0) & before for symbol in symbols]
        plus, minus = _last_column(matches, bits.ones & before, firsts & before)
        # The last cell is the first one and all differences below it.
        distances = len(symbols) + bits.counts(plus) - bits.counts(minus)
        matrix[:last, column] = distances[:last]
    return matrix + matrix.T if block.square else matrix


def _distances_of_one(words: Ragged, block: Block) -> FloatArray:
    """As `edit_distances` of a block of one hypothesis, whose bits need no arrays."""
    places: dict[int, int] = {}
    own = row(words, int(block.hypotheses[0])).tolist()
    for at, symbol in enumerate(own):
        places[symbol] = places.get(symbol, 0) | 1 << at
    distances = np.empty((1, len(block.references)))
    for column, number in enumerate(block.references.tolist()):
        symbols = row(words, number).tolist()
        matches = [places.get(symbol, 0) for symbol in symbols]
        plus, minus = _last_column(matches, (1 << len(own)) - 1, 1 if own else 0)
        distances[0, column] = len(symbols) + plus.bit_count() - minus.bit_count()
    return distances


def _last_column(matches: Sequence[int], ones: int, firsts: int) -> tuple[int, int]:
    """Where the last column of the table goes up and down, as bits.

    Args:
        matches: for every word of the reference, its places in the hypotheses.
        ones: a bit for every word of the hypotheses.
        firsts: the first of each.
    """
    every = (1 << ones.bit_length() + 1) - 1
    plus, minus = ones, 0
    for match in matches:
        # Where a cell is the one on its diagonal.
        same = (((match & plus) + plus) ^ plus) | match | minus
        # Where a cell is above and below the one on its left; the first of a column always is.
        right_plus = minus | ((same | plus) ^ every)
        right_plus = ((right_plus << 1) | firsts) & ones
        right_minus = ((same & plus) << 1) & ones
        # The same of the one before it in its own column.
        plus = right_minus | (((same | right_plus) & ones) ^ ones)
        minus = right_plus & same
    return plus, minus


class ErrorRate(Metric):
    """Base of both: what becomes of a text before it is split."""

    normalize: Normalize
    lowercase: bool
    no_punct: bool


def _info(summary: str) -> Info:
    return Info(
        summary=summary,
        papers=("levenshtein1966binary", "morris2004wer"),
        higher_is_better=False,
        bounds=(0, inf),
        multi_reference="best",
    )


@settings
class WER(ErrorRate):
    """Word error rate.

    Args:
        normalize: default or standardize, as above.
        lowercase: whether case is ignored.
        no_punct: whether punctuation is removed (all that Unicode calls so).
    """

    normalize: Normalize = "default"
    lowercase: bool = False
    no_punct: bool = False
    name: ClassVar[str] = "wer"
    info: ClassVar[Info] = _info("edits per word of the reference (jiwer)")

    def load(self) -> WERScorer:
        """The scorer."""
        return WERScorer(self)


@settings
class CER(ErrorRate):
    """Character error rate; blanks count as characters.

    Args:
        normalize: default or standardize, as above.
        lowercase: whether case is ignored.
        no_punct: whether punctuation is removed (all that Unicode calls so).
    """

    normalize: Normalize = "default"
    lowercase: bool = False
    no_punct: bool = False
    name: ClassVar[str] = "cer"
    info: ClassVar[Info] = _info("edits per character of the reference (jiwer)")

    def load(self) -> CERScorer:
        """The scorer."""
        return CERScorer(self)


class ErrorRateScorer(Scorer):
    """Compares texts by the edits between their words or characters."""

    def __init__(self, metric: ErrorRate) -> None:
        self.info = metric.info
        self.metric = metric

    @abstractmethod
    def symbols(self, reps: Reps, blocks: Sequence[Block]) -> tuple[Ragged, Sequence[Block]]:
        """What is edited, as numbers, and the blocks over these rows."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The rate [H, R] of every block."""
        return [edits / np.maximum(lengths, 1) for edits, lengths in self._edits(reps, blocks)]

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Edits, and words of the reference, of the reference with the lowest rate, [n, 2]."""
        rows = []
        for edits, lengths in self._edits(reps, blocks):
            best = (edits[0] / np.maximum(lengths, 1)).argmin()
            rows.append((edits[0, best], lengths[best]))
        return np.array(rows, np.float64)

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """The rates [n] of one-hypothesis blocks, and `statistics`."""
        statistics = self.statistics(reps, blocks)
        return self.aggregate_sums(statistics, np.ones(len(statistics))), statistics

    def aggregate(self, statistics: FloatArray) -> float:
        """The rate of the summed statistics."""
        sums = statistics.sum(axis=0, keepdims=True)
        return float(self.aggregate_sums(sums, np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The rates [b] of b summed statistics."""
        return np.asarray(sums[:, 0] / np.maximum(sums[:, 1], 1))

    def _edits(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Edits [H, R] and reference lengths [R] of every block."""
        words, local = self.symbols(reps, blocks)
        # Edits are the same both ways: a block that is the one before it transposed has its matrix transposed.
        repeats = transposed(local)
        distinct = [block for block, repeat in zip(local, repeats, strict=True) if not repeat]
        matrices = [edit_distances(words, block) for block in distinct]
        lengths = words.lengths.astype(np.float64)
        for block, edits in zip(local, with_transposed(matrices, repeats), strict=True):
            yield edits, lengths[block.references]


class WERScorer(ErrorRateScorer):
    """Represents a text by its words."""

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words, and their number."""
        tokens = [_words(normalized(str(item.text), self.metric)) for item in items]
        columns, counts = packed(tokens)
        return Reps(columns), counts

    def symbols(self, reps: Reps, blocks: Sequence[Block]) -> tuple[Ragged, Sequence[Block]]:
        """As `ErrorRateScorer`."""
        return numbered(reps, blocks)


class CERScorer(ErrorRateScorer):
    """Represents a text by its code points."""

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Code points, and their number."""
        texts = [normalized(str(item.text), self.metric, of_words=False) for item in items]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        encoded = "".join(texts).encode("utf-32-le", "surrogatepass")
        points: Array = np.frombuffer(encoded, np.uint32)
        return Reps({"points": Ragged.of_lengths(points, lengths)}), lengths

    def symbols(self, reps: Reps, blocks: Sequence[Block]) -> tuple[Ragged, Sequence[Block]]:
        """As `ErrorRateScorer`."""
        return reps["points"], blocks


CONTRACTIONS = (
    ("won't", "will not"),
    ("can't", "can not"),
    ("let's", "let us"),
    ("n't", " not"),
    ("'re", " are"),
    ("'s", " is"),
    ("'d", " would"),
    ("'ll", " will"),
    ("'t", " not"),
    ("'ve", " have"),
    ("'m", " am"),
)
NON_WORDS = re.compile(r"[<\[][^>\]]*[>\]]")
SPACES = re.compile(r"\s\s+")
BLANKS = str.maketrans(dict.fromkeys(string.whitespace, " "))


class _WithoutPunctuation(dict[int, int | None]):
    """A table for `str.translate` that is filled as characters come."""

    def __missing__(self, point: int) -> int | None:
        is_mark = unicodedata.category(chr(point)).startswith("P")
        self[point] = None if is_mark else point
        return self[point]


WITHOUT_PUNCTUATION = _WithoutPunctuation()


def normalized(text: str, metric: ErrorRate, of_words: bool = True) -> str:
    """A text as it is split; `of_words`: runs of white space are one blank whatever the normalisation."""
    is_standard = metric.normalize == "standardize"
    if metric.lowercase or is_standard:
        text = text.lower()
    if is_standard:
        text = _standardized(text)
    if metric.no_punct:
        text = text.translate(WITHOUT_PUNCTUATION)
    if of_words or is_standard:
        text = SPACES.sub(" ", text)
    return text.strip()


def _standardized(text: str) -> str:
    """A text in lower case with contractions written out, without what stands in brackets."""
    if "'" in text:
        for short, long in CONTRACTIONS:
            text = text.replace(short, long)
    return NON_WORDS.sub("", text).translate(BLANKS)


def _words(text: str) -> list[str]:
    """The words between blanks; other white space in one is written as a code, as columns of words have none."""
    words = [word for word in text.split(" ") if word]
    if "\\" not in text and len(text.split()) == len(words):
        return words
    return [_without_space(word) for word in words]


def _without_space(word: str) -> str:
    """A word in which white space and backslashes are codes; different words stay different."""
    return "".join(f"\\{ord(c):x};" if c == "\\" or c.isspace() else c for c in word)
