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

The alignment is exact, of many pairs of texts at once. A place (i, j) of a pair matches where word i of one text and
word j of the other have equal stems. Places are taken in this order, each if both its words are still free:
    equal words before equal stems; long runs of matches on a diagonal before short ones; near the main diagonal
    before far from it; left before right.
So as many words are aligned as can be, first equal ones, in few chunks. The order is strict among places that share a
word, and the same from either side: the alignment is symmetric. It is made in rounds that take every place which
comes first of all free places of both its words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from ..base import Metric
from ..errors import InputError
from ..representations import (
    Array,
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
from .tokenizers import porter_stemmer, sacrebleu_tokenizer, tokenizer_for
from .word_columns import numbered, owners, packed, ranges

PLACES = 1 << 19  # matching places of the pairs aligned together
MAX_PLACES = 1 << 23  # of one pair


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
    totals = AlignedWords(*np.zeros((3, len(h))))
    index = _Index(stems)
    for pairs in _tiles(index, stems, h, r):
        tile = _aligned(words, index, h[pairs], r[pairs])
        for total, values in zip(totals, tile, strict=True):
            total[pairs] = values
    return totals


def _align_compiled(words: Ragged, stems: Ragged, h: IntArray, r: IntArray) -> AlignedWords:
    """`align` by the kernel in C."""
    _, offsets, num_stems, longest = word_arguments(stems)

    def fill(h: IntArray, r: IntArray, aligned: FloatArray) -> None:
        symbols = words.values, stems.values, offsets, num_stems
        too_many = compiled.kernels.word_alignments(*symbols, longest, MAX_PLACES, h, r, aligned)
        _check_size(too_many)

    return AlignedWords(*by_reference(fill, h, r, np.empty((3, len(h)))))


class _Index:
    """Where each stem stands in each row.

    The words of all rows are sorted by key = row * number of stems + stem; those of one key are a run.
    """

    def __init__(self, stems: Ragged) -> None:
        self.stems = stems
        self.num_stems = int(stems.values.max(initial=0)) + 1
        key = owners(stems.lengths) * self.num_stems + stems.values
        self.words = np.argsort(key, kind="stable")  # indices into all words, by key
        self.keys, self.starts, self.counts = np.unique(
            key[self.words],
            return_index=True,
            return_counts=True,
        )

    def runs(self, row: IntArray, stem: IntArray) -> tuple[IntArray, IntArray]:
        """Where in `self.words` the words of a stem in a row begin, and how many there are, [queries] each."""
        if not len(self.keys):
            nowhere = np.zeros(len(row), np.int64)
            return nowhere, nowhere
        key = row * self.num_stems + stem
        run = np.searchsorted(self.keys, key)
        run = np.minimum(run, len(self.keys) - 1)
        present = self.keys[run] == key
        return self.starts[run], np.where(present, self.counts[run], 0)


def _tiles(index: _Index, stems: Ragged, h: IntArray, r: IntArray) -> Iterator[IntArray]:
    """All pairs that share a stem, as indices into `h` and `r`, about PLACES matching places at a time."""
    longest = int(stems.lengths[h].max(initial=1))
    step = max(1, PLACES // max(1, longest))
    for start in range(0, len(h), step):
        # Count the matching places of so many pairs that they have about PLACES words.
        pairs = np.arange(start, min(start + step, len(h)))
        pair, word = _words_of(stems, h[pairs])
        row_r = r[pairs][pair]
        _, matching = index.runs(row_r, stems.values[word])
        places = np.bincount(pair, matching, len(pairs)).astype(np.int64)  # [pairs]
        _check_size(int(places.max(initial=0)))
        # Cut where the running sum passes a multiple of PLACES.
        sharing = np.flatnonzero(places)
        tile = places[sharing].cumsum() // PLACES
        for number in np.unique(tile).tolist():
            yield pairs[sharing[tile == number]]


def _check_size(places: int) -> None:
    if places > MAX_PLACES:
        raise InputError(
            f"{places} pairs of equal words",
            where="a text of few different words",
            fix="Give its sentences as a Document, or leave it out",
        )


def _words_of(texts: Ragged, rows: IntArray) -> tuple[IntArray, IntArray]:
    """All words of some rows: index of the row in `rows`, and of the word in `texts.values`, [words] each."""
    lengths = texts.lengths[rows]
    return owners(lengths), ranges(texts.offsets[rows], lengths)


class _Places(NamedTuple):
    """Matching places (i, j) of some pairs, by pair, i and j, [places] each."""

    pair: IntArray
    h: IntArray  # the words, as indices into the words of all texts
    r: IntArray
    i: IntArray  # the words, as places in their texts
    j: IntArray

    @property
    def longest(self) -> int:
        """Words of the longest text, as far as they match."""
        return int(max(self.i.max(), self.j.max())) + 1


def _matching(words: Ragged, index: _Index, h: IntArray, r: IntArray) -> _Places:
    """The places of pairs `h`, `r` whose stems are equal."""
    # Every word of h meets the run of its stem in r.
    pair, word = _words_of(words, h)
    starts, counts = index.runs(r[pair], index.stems.values[word])
    pair = np.repeat(pair, counts)
    word_h = np.repeat(word, counts)
    word_r = index.words[ranges(starts, counts)]
    i = word_h - words.offsets[h][pair]
    j = word_r - words.offsets[r][pair]
    return _Places(pair, word_h, word_r, i, j)


def _aligned(words: Ragged, index: _Index, h: IntArray, r: IntArray) -> AlignedWords:
    """Equal words, equal stems and chunks of pairs `h`, `r` that share a stem."""
    places = _matching(words, index, h, r)
    equal = words.values[places.h] == words.values[places.r]
    order = _order(places, equal)
    taken = _taken(places, order, words.lengths[h], words.lengths[r])

    # A chunk begins where a place does not follow the last one on its diagonal.
    pair = places.pair[taken]
    i = places.i[taken]
    j = places.j[taken]
    same_pair = pair[1:] == pair[:-1]
    next_i = i[1:] == i[:-1] + 1
    next_j = j[1:] == j[:-1] + 1
    follows = np.zeros(len(pair), np.bool_)
    follows[1:] = same_pair & next_i & next_j
    num_equal = np.bincount(pair[equal[taken]], minlength=len(h))
    num_aligned = np.bincount(pair, minlength=len(h))
    num_chunks = np.bincount(pair[~follows], minlength=len(h))
    num_stems = num_aligned - num_equal
    return AlignedWords(
        num_equal.astype(float),
        num_stems.astype(float),
        num_chunks.astype(float),
    )


def _order(places: _Places, equal: Array) -> IntArray:
    """The places in the order in which they are taken.

    The criteria are packed into one number, the weightier the higher; with all texts of `size` words or fewer:
        factor                   values         criterion
        (size + 1) * size^2      0, 1           whether only the stems are equal
        size^2                   0 to size      size - matches in a row on the diagonal
        size                     0 to size - 1  distance from the main diagonal
        1                        0 to size - 1  the smaller of i and j

    Args:
        places: all matching places.
        equal: whether their words are equal, [places].
    """
    size = places.longest
    short = size - _run_lengths(places, size)
    rank = ~equal * (size + 1) + short
    rank = rank * size + np.abs(places.i - places.j)
    return np.argsort(rank * size + np.minimum(places.i, places.j))


def _run_lengths(places: _Places, size: int) -> IntArray:
    """How many places in a row on its diagonal every place stands among; texts have `size` words at most."""
    # Sort by pair, diagonal and i; neighbours on a diagonal have keys that differ by 1.
    diagonal = places.j - places.i + size  # 1 to 2 size - 1
    line = places.pair * 2 * size + diagonal
    key = line * (size + 1) + places.i
    order = np.argsort(key)
    starts = np.flatnonzero(np.diff(key[order], prepend=-2) != 1)
    sizes = np.diff(starts, append=len(order))
    lengths = np.empty(len(order), np.int64)
    lengths[order] = np.repeat(sizes, sizes)
    return lengths


def _taken(places: _Places, order: IntArray, of_h: IntArray, of_r: IntArray) -> IntArray:
    """The places that are aligned, by pair and word of h, as indices into all places.

    Args:
        places: all matching places.
        order: they in the order in which they are taken, [places].
        of_h: words of the text h of every pair, [pairs].
        of_r: words of the text r of every pair, [pairs].
    """
    # Number the words of all pairs on either side.
    first_word_h = of_h.cumsum() - of_h  # [pairs]
    first_word_r = of_r.cumsum() - of_r
    word_h = places.i + first_word_h[places.pair]  # [places]
    word_r = places.j + first_word_r[places.pair]
    # Each word's first place in the order, as a rank among the places that are left; -1 once it is aligned.
    first_h = np.zeros(int(of_h.sum()), np.int64)
    first_r = np.zeros(int(of_r.sum()), np.int64)
    taken = np.zeros(len(order), np.bool_)
    while len(order):
        # Write the ranks backwards: the last writer of a word is its first place.
        rank = np.arange(len(order))
        h = word_h[order]
        r = word_r[order]
        first_h[h[::-1]] = rank[::-1]
        first_r[r[::-1]] = rank[::-1]
        # Take the places that are first for both their words, and drop all places of these words.
        best = (first_h[h] == rank) & (first_r[r] == rank)
        taken[order[best]] = True
        first_h[h[best]] = -1
        first_r[r[best]] = -1
        free = (first_h[h] >= 0) & (first_r[r] >= 0)
        order = order[free]
    return np.flatnonzero(taken)


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
        self.tokenizer = sacrebleu_tokenizer(metric.tokenize, metric.name)
        self.stem = porter_stemmer(metric.name) if metric.stemmer else None

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words, their stems, and their number."""
        tokens = [self._split(str(item.text).rstrip()) for item in items]
        columns, counts = packed(tokens)
        if self.stem:
            vocabulary = {word for words in tokens for word in words}
            stems = {word: self.stem(word) or word for word in vocabulary}
            tokens = [[stems[word] for word in words] for words in tokens]
        stem_columns, _ = packed(tokens)
        return Reps({**columns, "stems": stem_columns["words"]}), counts

    def _split(self, text: str) -> list[str]:
        if self.metric.lowercase:
            text = text.lower()
        words: list[str] = self.tokenizer(text).split()
        return words

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
