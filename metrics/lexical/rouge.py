"""ROUGE-N, ROUGE-L, ROUGE-Lsum and ROUGE-W (Lin 2004, sections 2 to 4): word overlap, 0 to 1, higher is better.

    P = x / |h|,   R = x / |r|,   F = 2 P R / (P + R) = 2 x / (|h| + |r|)
ROUGE-N (equation 1, with precision beside recall): |h| and |r| count n-grams, and x those that both texts have, each as
often as the text that has it less often. ROUGE-L (equations 2 to 4, beta = 1): x is the length of the longest common
subsequence. ROUGE-W (equations 13 to 15) favours consecutive matches: x = f^-1(WLCS) with f(k) = k^weight, where
    c(i, j) = c(i-1, j-1) + f(k) - f(k-1)      if h_i = r_j, the k-th match in a row on this diagonal,
              max(c(i-1, j), c(i, j-1))        otherwise,       WLCS = c(|h|, |r|);
a match is always taken, as in the paper. R = f^-1(WLCS / f(|r|)) is f^-1(WLCS) / |r|, since f^-1(y) = y^(1/weight).
ROUGE-Lsum (section 3.2) reads a summary as sentences, one per line or per sentence of a document: x counts the words in
the union over h's sentences c of LCS(r_i, c), for each sentence r_i of r, each word as often as both texts have it. Of
several subsequences of the same length it takes the one that rouge_score takes.
All but ROUGE-Lsum are symmetric. A text without an n-gram scores 0, against an empty one too. Of several references the
best F counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from ..base import Metric
from ..representations import (
    Array,
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    cell_rows,
    transposed,
    with_transposed,
)
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Document, Item
from . import compiled
from .compiled.pairs_of_rows import by_reference, word_arguments
from .ngrams import matches
from .tokenizers import porter_stemmer
from .word_columns import (
    WordBits,
    equal_texts,
    localised,
    numbered,
    packed,
    row,
    unpacked,
)

# x [H, R] of every block of words as numbers.
Common = Callable[[Ragged, Sequence[Block]], list[FloatArray]]


def common_ngrams(words: Ragged, blocks: Sequence[Block], n: int) -> list[FloatArray]:
    """Shared n-grams of every pair of every block, [H, R]."""
    *_, of_order_n = matches(words, blocks, n)
    return by_block(of_order_n, blocks)


def all_longest_common(words: Ragged, blocks: Sequence[Block]) -> list[FloatArray]:
    """`longest_common` of every block."""
    return [longest_common(words, block) for block in blocks]


def longest_common(words: Ragged, block: Block) -> FloatArray:
    """Length of the longest common subsequence of every pair of a block, [H, R].

    One integer holds the words of every hypothesis (`WordBits`). Hyyrö's step (2004) for the next word of a reference,
    with the places of that word as `match`, is V = (V + (V & match)) | (V & ~match); the zeros of V among a
    hypothesis' bits count its longest common subsequence with the words so far. In a square block a reference meets
    only the hypotheses before it: LCS is symmetric, and |r| with itself.
    """
    bits = WordBits(words, block.hypotheses, least=2 if block.square else 1)
    matrix = np.zeros((len(block.hypotheses), len(block.references)))
    for column, number in enumerate(block.references.tolist()):
        # V begins with ones; a square block leaves later hypotheses out.
        last = column if block.square else len(block.hypotheses)
        full = bits.ones & bits.before(last)
        value = full
        for word in row(words, number).tolist():
            if match := value & bits.places.get(word, 0):
                value = ((value + match) | (value - match)) & full
        matrix[:, column] = bits.counts(full ^ value)
    if block.square:
        matrix += matrix.T
        np.fill_diagonal(matrix, bits.lengths)
    return matrix


def weighted_common(words: Ragged, blocks: Sequence[Block], weight: float) -> list[FloatArray]:
    """f^-1(WLCS) of every pair of every block, [H, R]; equal pairs of texts are compared once."""
    text = equal_texts(words)
    h, r = cell_rows(blocks)
    key = np.minimum(text[h], text[r]) * len(text) + np.maximum(text[h], text[r])
    _, first, pair_of_cell = np.unique(key, return_index=True, return_inverse=True)
    h, r = h[first], r[first]
    roots = _wlcs_roots(words, h, r, text[h] == text[r], weight)
    return by_block(roots[pair_of_cell], blocks)


def _wlcs_roots(words: Ragged, h: IntArray, r: IntArray, same: Array, weight: float) -> FloatArray:
    """f^-1(WLCS) of rows `h` and `r` of `words`, [pairs]; `same` is whether they are equal texts."""
    # Equal texts, and those without a word, need no table.
    shorter = np.minimum(words.lengths[h], words.lengths[r])
    roots = np.where(same, shorter, 0).astype(float)
    undecided = np.flatnonzero((shorter > 0) & ~same)

    longest = int(shorter.max(initial=0))
    f = np.arange(longest + 1) ** weight
    gains = np.diff(f, prepend=0.0)  # f(k) - f(k - 1), and 0 for k = 0
    search = _all_wlcs if compiled.kernels is None else _all_wlcs_compiled
    wlcs = search(words, h[undecided], r[undecided], gains)
    inverses = [value ** (1 / weight) for value in wlcs]
    roots[undecided] = np.minimum(inverses, shorter[undecided])  # rounding aside
    return roots


def _all_wlcs_compiled(words: Ragged, h: IntArray, r: IntArray, gains: FloatArray) -> list[float]:
    """WLCS of rows `h` and `r`, [pairs], by the kernel in C."""

    def fill(h: IntArray, r: IntArray, wlcs: FloatArray) -> None:
        compiled.kernels.weighted_common(*word_arguments(words), h, r, gains, wlcs)

    wlcs: list[float] = by_reference(fill, h, r, np.empty(len(h))).tolist()
    return wlcs


def _all_wlcs(words: Ragged, h: IntArray, r: IntArray, gains: FloatArray) -> list[float]:
    """WLCS of rows `h` and `r`, [pairs]."""
    pairs = zip(h.tolist(), r.tolist(), strict=True)
    of_runs = gains.tolist()
    return [_wlcs(row(words, i).tolist(), row(words, j).tolist(), of_runs) for i, j in pairs]


def _wlcs(h: Sequence[int], r: Sequence[int], gains: Sequence[float]) -> float:
    """WLCS of two texts; `gains` is f(k) - f(k - 1) for k = 0, 1, ..."""
    # c(i, j) of one row, and the matches in a row up to each cell
    c, run = [0.0] * (len(r) + 1), [0] * (len(r) + 1)
    for word in h:
        new_c, new_run = [0.0], [0]
        for j, other in enumerate(r):
            is_match = word == other
            new_run.append((run[j] + 1) * is_match)
            new_c.append(c[j] + gains[new_run[-1]] if is_match else max(c[j + 1], new_c[j]))
        c, run = new_c, new_run
    return c[-1]


SINGLE = (  # ideographs and kana
    r"\u3005\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
LAST_MARK = 0x1FFFF  # no combining mark beyond this code point is part of a word
STEMMED = 3  # only longer words are stemmed
Tokenizer = Literal["unicode", "rouge_score"]


@settings
class RougeN(Metric):
    """ROUGE-N F1 over n-grams of words.

    Args:
        n: words of an n-gram.
        tokenizer: as in `RougeL`.
        stemmer: as in `RougeL`.
    """

    n: Annotated[int, Field(ge=1, le=9)]
    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge"
    info: ClassVar[Info] = Info(
        summary="shared n-grams of words, F1",
        papers=("lin2004rouge",),
        bounds=(0, 1),
        symmetric=True,
    )

    def load(self) -> RougeScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        common = partial(common_ngrams, n=self.n)
        return RougeScorer(self.info, self.tokenizer, self.stemmer, common, self.n)


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
        return RougeScorer(self.info, self.tokenizer, self.stemmer, all_longest_common)


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
        common = partial(weighted_common, weight=self.weight)
        return RougeScorer(self.info, self.tokenizer, self.stemmer, common)


@settings
class RougeLsum(Metric):
    """ROUGE-L of summaries, F1: the union of longest common subsequences of sentences, which are lines.

    Args:
        tokenizer: as in `RougeL`.
        stemmer: as in `RougeL`.
    """

    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge-lsum"
    info: ClassVar[Info] = Info(
        summary="longest common subsequences of sentences, a line each, F1",
        papers=("lin2004rouge",),
        unit="document",
        bounds=(0, 1),
        costly_pairs=True,
    )

    def load(self) -> RougeLsumScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return RougeLsumScorer(self.info, self.tokenizer, self.stemmer, all_longest_common)


class RougeScorer(Scorer):
    """Represents a text by its words.

    Args:
        info: of the metric.
        tokenizer, stemmer: as in the settings.
        common: computes x.
        order: words of the n-grams that |h| and |r| count.
    """

    def __init__(
        self, info: Info, tokenizer: Tokenizer, stemmer: bool, common: Common, order: int = 1
    ) -> None:
        self.info = info
        self.common = common
        self.order = order
        self.split: Callable[[str], list[str]] = _unicode_words
        if tokenizer == "rouge_score":
            self.split = re.compile("[a-z0-9]+").findall
        self.stem = porter_stemmer("rouge") if stemmer else None

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        columns, counts = packed(self.tokens([str(item.text) for item in items]))
        return Reps(columns), counts

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of every text, stemmed if asked for."""
        tokens = [self.split(text.lower()) for text in texts]
        if self.stem:
            vocabulary = {word for words in tokens for word in words}
            stems = {word: self.stem(word) for word in vocabulary if len(word) > STEMMED}
            tokens = [_stemmed(words, stems) for words in tokens]
        return tokens

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """F [H, R] of every block."""
        words, local = numbered(reps, blocks)
        # A block that is the one before it transposed has its matrix transposed.
        repeats = transposed(local)
        distinct = [block for block, repeat in zip(local, repeats, strict=True) if not repeat]
        common = with_transposed(self.common(words, distinct), repeats)
        lengths = np.maximum(words.lengths - self.order + 1, 0).astype(float)
        matrices = []
        for block, x in zip(local, common, strict=True):
            of_h = lengths[block.hypotheses][:, None]
            of_r = lengths[block.references]
            matrices.append(_f(x, of_h, of_r))
        return matrices


END = "|"  # of a sentence among the words of a text, which do not contain it


class RougeLsumScorer(RougeScorer):
    """Represents a text by the words of its sentences, each followed by `END`."""

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words of the sentences, and their number."""
        tokens = []
        for item in items:
            texts = item.text.sentences if isinstance(item.text, Document) else (item.text,)
            sentences = [line for text in texts for line in str(text).split("\n")]
            tokens.append(
                [word for words in self.tokens(sentences) if words for word in (*words, END)]
            )
        columns, counts = packed(tokens)
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """F [H, R] of every block."""
        rows, local = localised(blocks)
        texts = [_sentences(words) for words in unpacked(reps, rows)]
        counts = [Counter(word for sentence in text for word in sentence) for text in texts]
        lengths = np.array([float(count.total()) for count in counts])
        common = cache(common_places)
        matrices = []
        for block in local:
            x = np.zeros((len(block.hypotheses), len(block.references)))
            for i, h in enumerate(block.hypotheses.tolist()):
                for j, r in enumerate(block.references.tolist()):
                    x[i, j] = _union_matches(texts[h], texts[r], counts[h], counts[r], common)
            matrices.append(_f(x, lengths[block.hypotheses][:, None], lengths[block.references]))
        return matrices


Sentence = tuple[str, ...]


def _sentences(words: Sequence[str]) -> list[Sentence]:
    """The sentences of a text, from words with `END` after each."""
    sentences: list[Sentence] = []
    start = 0
    for place, word in enumerate(words):
        if word == END:
            sentences.append(tuple(words[start:place]))
            start = place + 1
    return sentences


def _union_matches(
    h: Sequence[Sentence],
    r: Sequence[Sentence],
    counts_h: Mapping[str, int],
    counts_r: Mapping[str, int],
    common: Callable[[Sentence, Sentence], frozenset[int]],
) -> int:
    """Words of the unions of subsequences over r's sentences, each as often as both texts have it."""
    in_unions = Counter[str]()
    for sentence in r:
        union = frozenset[int]().union(*(common(sentence, other) for other in h))
        in_unions.update(sentence[place] for place in union)
    return sum(min(n, counts_h[word], counts_r[word]) for word, n in in_unions.items())


def common_places(reference: Sentence, candidate: Sentence) -> frozenset[int]:
    """The places in a reference sentence of a longest common subsequence with a candidate sentence.

    Walking back through the table t of lengths from its end, a pair of equal words is taken; else the candidate is
    shortened if that keeps more, and the reference otherwise. Row i of t is kept as one integer, whose bit j is
    t(i, j + 1) - t(i, j) (see `longest_common`), so that t(i, j) is the number of ones below bit j.
    """
    places: dict[str, int] = {}
    for j, word in enumerate(candidate):
        places[word] = places.get(word, 0) | 1 << j
    full = (1 << len(candidate)) - 1
    value, steps = full, [0]
    for word in reference:
        match = value & places.get(word, 0)
        value = ((value + match) | (value - match)) & full
        steps.append(full ^ value)

    def length(i: int, j: int) -> int:
        return (steps[i] & ((1 << j) - 1)).bit_count()

    i, j = len(reference), len(candidate)
    taken = []
    while i and j:
        if reference[i - 1] == candidate[j - 1]:
            i, j = i - 1, j - 1
            taken.append(i)
        elif length(i, j - 1) > length(i - 1, j):
            j -= 1
        else:
            i -= 1
    return frozenset(taken)


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
    """Characters that stand alone, and words; either takes the combining marks that follow."""
    characters = map(chr, range(LAST_MARK + 1))
    marks = "".join(char for char in characters if unicodedata.category(char).startswith("M"))
    single = re.compile(f"[{SINGLE}][{marks}]*")
    word = re.compile(rf"\w[\w{marks}]*")
    return single, word
