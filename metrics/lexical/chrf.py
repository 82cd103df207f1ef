"""chrF (Popović 2015) and chrF++ (2017): character n-gram F-score, 0 to 100, higher is better.

    P_n = matches_n / |h|_n,   R_n = matches_n / |r|_n,   P and R their means over the orders that both texts have,
    chrF = 100 (1 + beta^2) P R / (beta^2 P + R).
chrF++ adds word n-grams to the same means. Symmetric only for beta = 1. White space is removed; two texts without a
common order (an empty text) score 0. Of several references the best counts. Equal to sacrebleu's CHRF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from ..base import Info, Metric, Scorer
from ..reps import Block, FloatArray, IntArray, Ragged, Reps
from ..settings import settings
from ..texts import Item
from .ngrams import matches
from .words import numbered, packed

PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@settings
class ChrF(Metric):
    """chrF2 by default; chrF++ with ``word_order=2``.

    Args:
        char_order: longest character n-gram.
        word_order: longest word n-gram, 0 for chrF.
        beta: how much more recall counts than precision.
        lowercase: whether case is ignored.
        whitespace: whether white space is kept in character n-grams.
    """

    char_order: Annotated[int, Field(ge=1, le=16)] = 6
    word_order: Annotated[int, Field(ge=0, le=8)] = 0
    beta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    lowercase: bool = False
    whitespace: bool = False
    name: ClassVar[str] = "chrf"
    info: ClassVar[Info] = Info(
        summary="character n-gram F-score (sacrebleu); chrf++ adds words", paper="Popović 2015, 2017", bounds=(0, 100)
    )

    def load(self) -> ChrFScorer:
        """The scorer."""
        return ChrFScorer(self)


class ChrFScorer(Scorer):
    """Represents a text by its code points, and its words for chrF++; everything else is counting."""

    def __init__(self, metric: ChrF) -> None:
        self.info, self.metric, self.factor = metric.info, metric, metric.beta**2

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Code points (and words), and the number of code points."""
        texts = [str(item.text) for item in items]
        if self.metric.lowercase:
            texts = [text.lower() for text in texts]
        kept = texts if self.metric.whitespace else ["".join(text.split()) for text in texts]
        lengths = np.fromiter(map(len, kept), np.int64, len(kept))
        points = np.frombuffer("".join(kept).encode("utf-32-le", "surrogatepass"), np.uint32)
        columns: dict[str, Ragged | IntArray] = {"points": Ragged.of_lengths(points, lengths)}
        if self.metric.word_order:
            columns |= packed([_separated(text) for text in texts])[0]
        return Reps(columns), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """chrF [H, R] of every block."""
        values = self._f(self._counts(reps, blocks))
        ends = np.cumsum([block.cells for block in blocks])[:-1]
        return [u.reshape(len(b.hypotheses), -1) for u, b in zip(np.split(values, ends), blocks, strict=True)]

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """n-grams of h and of r and matches, for every order, of the best reference, [n, 3 (C + W)]."""
        counts = list(self._counts(reps, blocks))
        values = self._f(counts)
        starts = np.concatenate(([0], np.cumsum([len(b.references) for b in blocks])))
        best = [s + int(values[s:e].argmax()) for s, e in pairwise(starts)]
        rows = [(np.where(of_r > 0, of_h, 0), of_r, found) for found, of_h, of_r in counts]
        return np.stack([column[best] for row in rows for column in row], axis=1)

    def aggregate(self, statistics: FloatArray) -> float:
        """chrF of the summed statistics."""
        sums = statistics.sum(axis=0).reshape(-1, 3, 1)
        return float(self._f((found, of_h, of_r) for of_h, of_r, found in sums)[0])

    def _counts(self, reps: Reps, blocks: Sequence[Block]) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Per order: matches, hypothesis n-grams, reference n-grams [cells] of all pairs of all blocks."""
        yield from _matched(reps["points"], blocks, self.metric.char_order)
        if self.metric.word_order:
            yield from _matched(*numbered(reps, blocks), self.metric.word_order)

    def _f(self, counts: Iterable[tuple[FloatArray, FloatArray, FloatArray]]) -> FloatArray:
        """The formula above, order by order and elementwise: the same operations for any number of cells."""
        p = r = orders = np.zeros(1)
        for found, of_h, of_r in counts:
            both = (of_h > 0) & (of_r > 0)
            p = p + np.where(both, found / np.maximum(of_h, 1), 0)
            r = r + np.where(both, found / np.maximum(of_r, 1), 0)
            orders = orders + both
        p, r = p / np.maximum(orders, 1), r / np.maximum(orders, 1)
        below = self.factor * p + r
        return 100 * (1 + self.factor) * p * r / np.where(below > 0, below, 1)


def _matched(
    symbols: Ragged, blocks: Sequence[Block], order: int
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    lengths = symbols.lengths
    h = np.concatenate([np.repeat(b.hypotheses, len(b.references)) for b in blocks])
    r = np.concatenate([np.tile(b.references, len(b.hypotheses)) for b in blocks])
    same = h == r
    for less, found in enumerate(matches(symbols, blocks, order)):
        grams = np.maximum(lengths - less, 0).astype(float)  # [rows]
        of_h, of_r = grams[h], grams[r]
        yield np.where(same, of_h, found), of_h, of_r


def _separated(text: str) -> list[str]:
    """Words with one punctuation mark split off, at the end or else at the start, as chrF++ reads them."""
    words = []
    for word in text.split():
        if len(word) > 1 and word[-1] in PUNCTUATION:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in PUNCTUATION:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words
