"""ROUGE-L and ROUGE-W (Lin 2004, sections 3.1 and 4): in-order word overlap, 0 to 1, higher is better.

    P = x / |h|,   R = x / |r|,   F = 2 P R / (P + R) = 2 x / (|h| + |r|)
ROUGE-L (equations 2 to 4 with beta = 1): x is the length of the longest common subsequence. ROUGE-W (equations 13 to
15) favours consecutive matches: x = f^-1(WLCS) with f(k) = k^weight, where
    c(i, j) = c(i-1, j-1) + f(k) - f(k-1)      if h_i = r_j, the k-th match in a row on this diagonal,
              max(c(i-1, j), c(i, j-1))        otherwise,       WLCS = c(|h|, |r|);
a match is always taken, as in the paper. R = f^-1(WLCS / f(|r|)) is f^-1(WLCS) / |r|, since f^-1(y) = y^(1/weight).
Both are symmetric. An empty text scores 0, against an empty one too. Of several references the best F counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np

from ..base import Metric
from ..representations import Block, FloatArray, IntArray, Ragged, Reps, turned, with_turned
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Item
from .subsequences import longest_common, weighted_common
from .tokenizers import porter_stemmer
from .word_columns import numbered, packed

SINGLE = (  # ideographs and kana
    r"\u3005\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
LAST_MARK = 0x1FFFF  # no combining mark beyond this code point is part of a word
STEMMED = 3  # only longer words are stemmed
Tokenizer = Literal["unicode", "rouge_score"]


@settings
class RougeL(Metric):
    """ROUGE-L F1 over the longest common subsequence of words.

    Args:
        tokenizer: "unicode": lower-cased words of letters, digits, ``_`` and their marks, every ideograph and kana a
            word of its own (other scripts without spaces, such as Thai, stay whole); "rouge_score": lower-cased runs
            of a-z and 0-9, as that package reads texts.
        stemmer: whether words longer than 3 are reduced by the Porter stemmer (English; needs nltk).
    """

    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge-l"
    info: ClassVar[Info] = Info(
        summary="longest common subsequence of words, F1",
        papers=("lin2004rouge",),
        bounds=(0, 1),
        symmetric=True,
    )

    def load(self) -> RougeScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return RougeScorer(self.info, self.tokenizer, self.stemmer, None)


@settings
class RougeW(Metric):
    """ROUGE-W F1 over the weighted longest common subsequence.

    Args:
        weight: exponent of f(k); 1 gives no more to consecutive matches.
        tokenizer: as in `RougeL`.
        stemmer: as in `RougeL`.
    """

    weight: Annotated[float, Field(ge=1, le=8)] = 1.2
    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge-w"
    info: ClassVar[Info] = Info(
        summary="weighted longest common subsequence of words, F1",
        papers=("lin2004rouge",),
        bounds=(0, 1),
        symmetric=True,
    )

    def load(self) -> RougeScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return RougeScorer(self.info, self.tokenizer, self.stemmer, self.weight)


class RougeScorer(Scorer):
    """Represents a text by its words; `weight` is ROUGE-W's, or None for ROUGE-L."""

    def __init__(
        self, info: Info, tokenizer: Tokenizer, stemmer: bool, weight: float | None
    ) -> None:
        self.info = info
        self.weight = weight
        self.split: Callable[[str], list[str]] = _unicode_words
        if tokenizer == "rouge_score":
            self.split = re.compile("[a-z0-9]+").findall
        self.stem = porter_stemmer("rouge") if stemmer else None

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        tokens = [self.split(str(item.text).lower()) for item in items]
        if self.stem:
            vocabulary = {word for words in tokens for word in words}
            stems = {word: self.stem(word) for word in vocabulary if len(word) > STEMMED}
            tokens = [_stemmed(words, stems) for words in tokens]
        columns, counts = packed(tokens)
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """F [H, R] of every block."""
        words, local = numbered(reps, blocks)
        # A block that is the one before it turned has its matrix transposed.
        repeats = turned(local)
        distinct = [block for block, repeat in zip(local, repeats, strict=True) if not repeat]
        common = with_turned(self._common(words, distinct), repeats)
        lengths = words.lengths.astype(float)
        matrices = []
        for block, x in zip(local, common, strict=True):
            of_h = lengths[block.hypotheses][:, None]
            of_r = lengths[block.references]
            matrices.append(_f(x, of_h, of_r))
        return matrices

    def _common(self, words: Ragged, blocks: Sequence[Block]) -> list[FloatArray]:
        """x [H, R] of every block."""
        if self.weight is None:
            return [longest_common(words, block) for block in blocks]
        return weighted_common(words, blocks, self.weight)


def _stemmed(words: Sequence[str], stems: Mapping[str, str]) -> list[str]:
    """Words with their stems in their places, as far as there are; without those whose stem is empty."""
    stemmed = [stems.get(word, word) for word in words]
    return [word for word in stemmed if word]


def _f(x: FloatArray, of_h: FloatArray, of_r: FloatArray) -> FloatArray:
    """2 x / (|h| + |r|), [H, R]."""
    return 2 * x / np.maximum(of_h + of_r, 1)


def _unicode_words(text: str) -> list[str]:
    """Words of letters, digits, ``_`` and their marks; ideographs and kana stand alone."""
    if text.isascii():
        return re.findall(r"\w+", text)
    single, word = _patterns()
    return word.findall(single.sub(r" \g<0> ", text))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What stands alone, and a word; either takes the combining marks that follow."""
    characters = map(chr, range(LAST_MARK + 1))
    marks = "".join(char for char in characters if unicodedata.category(char).startswith("M"))
    single = re.compile(f"[{SINGLE}][{marks}]*")
    word = re.compile(rf"\w[\w{marks}]*")
    return single, word
