"""METEOR (Banerjee and Lavie 2005; Lavie and Agarwal 2007) with exact and stem matches, 0 to 1, higher is better.

    METEOR = (1 - gamma (chunks / m)^beta) F,   F = P R / (alpha P + (1 - alpha) R)
    P = (m_exact + stem_weight m_stem) / |h|,   R = (m_exact + stem_weight m_stem) / |r|,   m = m_exact + m_stem
over a one-to-one alignment of words, equal ones first and then those of equal stems, in few runs of words that are
aligned in a row (chunks). There are no synonyms or paraphrases, which need data that cannot
be shipped. An empty text scores 0, and so does a pair without a match; a text against itself has one chunk and so
1 - gamma / m^beta. Of several references the best counts. Not symmetric. The corpus score is the formula over the
summed counts of the segments' best references.

The defaults are those of 2005 (and of nltk); alpha=0.85, beta=0.2, gamma=0.6, stem_weight=0.6 are close to METEOR 1.3,
which also weighs function words.

The alignment is exact. A place (i, j) of a pair matches where word i of one text and
word j of the other have equal stems. Places are taken in this order, each if both its words are still free:
    equal words before equal stems; long runs of matches on a diagonal before short ones; near the main diagonal
    before far from it; left before right.
So as many words are aligned as can be, first equal ones, in few chunks. The order is strict among places that share a
word, and the same from either side: the alignment is symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from ..base import Metric
from ..errors import InputError
from ..representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    best_cells,
    by_block,
    cell_rows,
)
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Item
from . import compiled
from .compiled.pairs_of_rows import by_reference, word_arguments
from .tokenizers import porter_stemmer, tokenizer_for, word_splitter
from .word_columns import numbered, packed, row

Word = tuple[int, int]  # the numbers of a word and its stem
MAX_PLACES = 1 << 23  # matching places of one pair


class AlignedWords(NamedTuple):
    """Matches of pairs of texts, [pairs] each."""

    words: FloatArray  # aligned equal words
    stems: FloatArray  # aligned words of which only the stems are equal
    chunks: FloatArray  # runs of words aligned in a row on both sides


def align(words: Ragged, stems: Ragged, h: IntArray, r: IntArray) -> AlignedWords:
    """The alignments of rows `h` and `r` of some texts.

    Args:
        words: rows of words as numbers.
        stems: the same rows of stems; equal words have equal stems.
        h: a row per pair, [pairs].
        r: the other row per pair, [pairs].

    Raises:
        InputError: two long texts of the same few words.
    """
    if compiled.kernels is not None:
        return _align_compiled(words, stems, h, r)
    aligned = np.empty((3, len(h)))
    for pair, (i, j) in enumerate(zip(h.tolist(), r.tolist(), strict=True)):
        columns = ((row(words, n).tolist(), row(stems, n).tolist()) for n in (i, j))
        aligned[:, pair] = _aligned(*(list(zip(*both, strict=True)) for both in columns))
    return AlignedWords(*aligned)


def _align_compiled(words: Ragged, stems: Ragged, h: IntArray, r: IntArray) -> AlignedWords:
    """`align` by the kernel in C."""
    _, offsets, num_stems, longest = word_arguments(stems)

    def fill(h: IntArray, r: IntArray, aligned: FloatArray) -> None:
        symbols = words.values, stems.values, offsets, num_stems
        too_many = compiled.kernels.word_alignments(*symbols, longest, MAX_PLACES, h, r, aligned)
        _check_size(too_many)

    return AlignedWords(*by_reference(fill, h, r, np.empty((3, len(h)))))


def _check_size(places: int) -> None:
    if places > MAX_PLACES:
        raise InputError(
            f"{places} pairs of equal words",
            where="a text of few different words",
            fix="Give its sentences as a Document, or leave it out",
        )


def _aligned(h: Sequence[Word], r: Sequence[Word]) -> tuple[int, int, int]:
    """Equal words, equal stems and chunks of two texts, each a list of (word, stem)."""
    places_of: dict[int, list[int]] = {}
    for j, (_, stem) in enumerate(r):
        places_of.setdefault(stem, []).append(j)
    _check_size(sum(len(places_of.get(stem, ())) for _, stem in h))
    places = [(i, j) for i, (_, stem) in enumerate(h) for j in places_of.get(stem, ())]
    # how many places in a row on its diagonal each stands among: those up to it, then all
    runs: dict[tuple[int, int], int] = {}
    for i, j in places:
        runs[i, j] = runs.get((i - 1, j - 1), 0) + 1
    for i, j in reversed(places):
        runs[i, j] = runs.get((i + 1, j + 1), runs[i, j])

    def rank(place: tuple[int, int]) -> tuple[bool, int, int, int]:
        i, j = place
        return h[i][0] != r[j][0], -runs[place], abs(i - j), min(i, j)

    aligned: dict[int, int] = {}
    taken: set[int] = set()
    for i, j in sorted(places, key=rank):
        if i not in aligned and j not in taken:
            aligned[i] = j
            taken.add(j)
    equal = sum(h[i][0] == r[j][0] for i, j in aligned.items())
    chunks = sum(aligned.get(i - 1, -2) + 1 != j for i, j in aligned.items())
    return equal, len(aligned) - equal, chunks


Share = Annotated[float, Field(ge=0, le=1)]


@settings
class METEOR(Metric):
    """METEOR with exact and stem matches.

    Args:
        alpha: weight of recall against precision.
        beta: exponent of the share of chunks.
        gamma: the largest penalty for chunks.
        stemmer: whether words also match by their Porter stems (English; needs nltk).
        stem_weight: what a match of stems counts.
        tokenize: as in `BLEU`.
        lowercase: whether case is ignored.
    """

    alpha: Share = 0.9
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3.0
    gamma: Share = 0.5
    stemmer: bool = True
    stem_weight: Share = 1.0
    tokenize: str = "13a"
    lowercase: bool = True
    name: ClassVar[str] = "meteor"
    info: ClassVar[Info] = Info(
        summary="aligned words and stems with a penalty for scattered ones",
        papers=("banerjee2005meteor",),
        bounds=(0, 1),
    )

    def for_language(self, lang: str) -> Self:
        """Without the English stemmer for other languages, and with sacrebleu's tokenizer for the language."""
        metric = self
        english = lang.lower().partition("-")[0] in ("en", "eng")
        if self.stemmer and not english:
            metric = replace(self, stemmer=False)
        tokenizer = tokenizer_for(lang)
        return metric.with_defaults(tokenize=tokenizer) if tokenizer else metric

    def load(self) -> METEORScorer:
        """The scorer with its tokenizer.

        Raises:
            InputError: there is no such tokenizer.
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return METEORScorer(self)


class METEORScorer(Scorer):
    """Represents a text by its words and their stems; pairs are aligned many at a time."""

    def __init__(self, metric: METEOR) -> None:
        self.info = metric.info
        self.metric = metric
        self.split = word_splitter(metric.tokenize, metric.lowercase, metric.name)
        self.stem = porter_stemmer(metric.name) if metric.stemmer else None

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words, their stems, and their number."""
        tokens = [self.split(str(item.text)) for item in items]
        columns, counts = packed(tokens)
        if self.stem:
            vocabulary = {word for words in tokens for word in words}
            stems = {word: self.stem(word) or word for word in vocabulary}
            tokens = [[stems[word] for word in words] for words in tokens]
        stem_columns, _ = packed(tokens)
        return Reps({**columns, "stems": stem_columns["words"]}), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """METEOR [H, R] of every block."""
        return by_block(self._meteor(_counts(reps, blocks)), blocks)

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Equal words, equal stems, chunks, |h| and |r| of the best reference, [n, 5]."""
        return self.values_and_statistics(reps, blocks)[1]

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """METEOR [n] of one-hypothesis blocks, and the statistics of their best references."""
        counts = _counts(reps, blocks)
        values = self._meteor(counts)
        best = best_cells(values, blocks)
        return values[best], counts[:, best].T

    def aggregate(self, statistics: FloatArray) -> float:
        """METEOR of the summed statistics."""
        sums = statistics.sum(axis=0)[:, None]
        return float(self._meteor(sums)[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """METEOR [b] of b summed statistics."""
        return self._meteor(sums.T)

    def _meteor(self, counts: FloatArray) -> FloatArray:
        """The formula above, [cells], of the columns of `statistics`, [5, cells]."""
        exact, stems, chunks, of_h, of_r = counts
        alpha, beta, gamma = self.metric.alpha, self.metric.beta, self.metric.gamma
        weighted = exact + self.metric.stem_weight * stems
        # F = P R / (alpha P + (1 - alpha) R) with P and R written out
        denominator = alpha * of_r + (1 - alpha) * of_h
        f = np.zeros_like(denominator)
        np.divide(weighted, denominator, out=f, where=weighted > 0)
        shares = chunks / np.maximum(exact + stems, 1)
        return np.asarray((1 - gamma * shares**beta) * f)


def _counts(reps: Reps, blocks: Sequence[Block]) -> FloatArray:
    """Equal words, equal stems, chunks, |h| and |r| of every cell of every block, [5, cells]."""
    words, local = numbered(reps, blocks)
    stem_reps = Reps({"words": reps["stems"], "count": reps["count"]})
    stems, _ = numbered(stem_reps, blocks)
    # Alignments are symmetric: align two rows once, whichever is the hypothesis.
    h, r = cell_rows(local)
    key = np.minimum(h, r) * len(words) + np.maximum(h, r)
    _, first, pair_of_cell = np.unique(key, return_index=True, return_inverse=True)
    aligned = align(words, stems, h[first], r[first])
    shared: list[FloatArray] = [column[pair_of_cell] for column in aligned]
    of_h = words.lengths[h].astype(float)
    of_r = words.lengths[r].astype(float)
    return np.stack([*shared, of_h, of_r])
