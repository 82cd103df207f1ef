"""chrF (Popović 2015) and chrF++ (2017): character n-gram F-score, 0 to 100, higher is better.

    P_n = matches_n / |h|_n,   R_n = matches_n / |r|_n,   P and R their means over the orders that both texts have,
    chrF = 100 (1 + beta^2) P R / (beta^2 P + R).
chrF++ adds word n-grams to the same means. Symmetric only for beta = 1. White space is removed; two texts without a
common order (an empty text) score 0. Of several references the best counts. Equal to sacrebleu's CHRF. With
`eps_smoothing`, as in chrF++.py, Moses and NLTK, it is the mean of F_n over all orders, where P_n and R_n are 1e-16
for an order that a text does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from ..base import Metric
from ..representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    best_cells,
    by_block,
    cell_rows,
    transposed,
)
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Item
from .ngrams import matches
from .word_columns import numbered, packed

EPSILON = 1e-16  # of `eps_smoothing`
STEP = 1 << 13  # cells worked on at once, so that buffers stay in cache
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
        eps_smoothing: whether the score is the mean of F-scores over all orders, as in chrF++.py.
    """

    char_order: Annotated[int, Field(ge=1, le=16)] = 6
    word_order: Annotated[int, Field(ge=0, le=8)] = 0
    beta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    lowercase: bool = False
    whitespace: bool = False
    eps_smoothing: bool = False
    name: ClassVar[str] = "chrf"
    info: ClassVar[Info] = Info(
        summary="character n-gram F-score (sacrebleu); chrf++ adds words",
        papers=("popovic2015chrf", "post2018call"),
        bounds=(0, 100),
    )

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The paper of chrF, or of chrF++ with words."""
        return (
            "popovic2017chrf" if settings.get("word_order") else "popovic2015chrf",
            "post2018call",
        )

    def load(self) -> ChrFScorer:
        """The scorer."""
        return ChrFScorer(self)


class ChrFScorer(Scorer):
    """Represents a text by its code points, and its words for chrF++; everything else is counting."""

    def __init__(self, metric: ChrF) -> None:
        self.info = metric.info
        self.metric = metric
        self.factor = metric.beta**2

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Code points (and words), and the number of code points."""
        texts = [str(item.text) for item in items]
        if self.metric.lowercase:
            texts = [text.lower() for text in texts]
        characters = texts
        if not self.metric.whitespace:
            # most white space are blanks: without these, splitting finds a single word
            characters = ["".join(text.replace(" ", "").split()) for text in texts]
        lengths = np.fromiter(map(len, characters), np.int64, len(characters))
        encoded = "".join(characters).encode("utf-32-le", "surrogatepass")
        points = np.frombuffer(encoded, np.uint32)
        columns: dict[str, Ragged | IntArray] = {"points": Ragged.of_lengths(points, lengths)}
        if self.metric.word_order:
            words, _ = packed([_separated(text) for text in texts])
            columns |= words
        return Reps(columns), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """chrF [H, R] of every block."""
        if self.metric.eps_smoothing:
            return by_block(self._smoothed(self._levels(reps, blocks)), blocks)
        # A block that is the one before it transposed has its sums with precision and recall exchanged.
        is_transposed = transposed(blocks)
        one_way = [block for block, again in zip(blocks, is_transposed, strict=True) if not again]
        precision, recall, orders = self._sums(self._levels(reps, one_way))
        values = iter(by_block(self._f(precision, recall, orders), one_way))
        if not any(is_transposed):
            return list(values)
        turned_values = by_block(self._f(recall, precision, orders), one_way)
        matrices: list[FloatArray] = []
        num_blocks = 0
        for again in is_transposed:
            matrices.append(turned_values[num_blocks - 1].T if again else next(values))
            num_blocks += not again
        return matrices

    def _sums(self, levels: Iterable[_Level]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of P_n and of R_n, and the number of orders that both texts have, [cells] each."""
        first, *others = levels
        precision, recall, orders = np.zeros((3, len(first.of_h)))
        for level in (first, *others):
            level.add(precision, recall, orders)
        return precision, recall, orders

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """n-grams of h and of r and matches, for every order, of the best reference, [n, 3 (C + W)]."""
        return self.values_and_statistics(reps, blocks)[1]

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """chrF [n] of one-hypothesis blocks, and the statistics of their best references."""
        levels = list(self._levels(reps, blocks))
        for level in levels:
            level.keep_matches()
        smooth = self.metric.eps_smoothing
        values = self._smoothed(levels) if smooth else self._f(*self._sums(levels))
        best = best_cells(values, blocks)
        statistics = np.concatenate([level.statistics(best) for level in levels], axis=1)
        return values[best], statistics

    def aggregate(self, statistics: FloatArray) -> float:
        """chrF of the summed statistics."""
        sums = statistics.sum(axis=0, keepdims=True)
        return float(self.aggregate_sums(sums, np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """chrF [b] of b summed statistics."""
        by_order = sums.reshape(len(sums), -1, 3)
        of_h, of_r, matched = np.moveaxis(by_order, 2, 0)  # [b, orders]
        if self.metric.eps_smoothing:
            total = np.zeros(len(sums))
            for counts in zip(of_h.T, of_r.T, matched.T, strict=True):
                total += self._f_of_order(*counts)
            return 100 * total / by_order.shape[1]
        orders = np.count_nonzero((of_h > 0) & (of_r > 0), axis=1)
        precision = (matched / np.maximum(of_h, 1)).sum(axis=1)
        recall = (matched / np.maximum(of_r, 1)).sum(axis=1)
        return self._f(precision, recall, orders)

    def _levels(self, reps: Reps, blocks: Sequence[Block]) -> Iterator[_Level]:
        """Characters, and words for chrF++."""
        yield _Level(reps["points"], blocks, self.metric.char_order)
        if self.metric.word_order:
            yield _Level(*numbered(reps, blocks), self.metric.word_order)

    def _f(
        self, precision: FloatArray, recall: FloatArray, orders: FloatArray | IntArray
    ) -> FloatArray:
        """The formula above, elementwise: the same operations for any number of cells.

        Args:
            precision: sum of P_n over some orders, [cells].
            recall: sum of R_n, [cells].
            orders: orders that both texts have, [cells].
        """
        values = np.empty(len(precision))
        for s in _pieces(len(values)):
            p = precision[s] / np.maximum(orders[s], 1)
            r = recall[s] / np.maximum(orders[s], 1)
            denominator = self.factor * p + r
            divisor = np.where(denominator > 0, denominator, 1)
            values[s] = 100 * (1 + self.factor) * p * r / divisor
        return values

    def _smoothed(self, levels: Iterable[_Level]) -> FloatArray:
        """The mean of F_n over all orders, [cells]."""
        total, num_orders = np.zeros(0), 0
        for level in levels:
            for n, matched in enumerate(level.matches):
                of_r = np.maximum(level.of_r - n, 0)
                of_h = np.maximum(level.of_h - n, 0) * (of_r > 0)
                f = self._f_of_order(of_h, of_r, matched)
                total = total + f if num_orders else f
                num_orders += 1
        return 100 * total / num_orders

    def _f_of_order(self, of_h: FloatArray, of_r: FloatArray, matched: FloatArray) -> FloatArray:
        """F_n from n-grams of h and of r and matches, elementwise, in sacrebleu's order of operations."""
        precision = np.where(of_h > 0, matched / np.maximum(of_h, 1), EPSILON)
        recall = np.where(of_r > 0, matched / np.maximum(of_r, 1), EPSILON)
        denominator = self.factor * precision + recall
        divisor = np.where(denominator > 0, denominator, 1)
        f = (1 + self.factor) * precision * recall / divisor
        return np.where(denominator > 0, f, EPSILON)


def _pieces(cells: int) -> list[slice]:
    """All cells, STEP at a time."""
    return [slice(start, start + STEP) for start in range(0, cells, STEP)]


class _Level:
    """Characters or words of all pairs of some blocks, up to an n-gram order."""

    def __init__(self, symbols: Ragged, blocks: Sequence[Block], order: int) -> None:
        self.order = order
        self.matches: Iterable[FloatArray] = matches(symbols, blocks, order)  # of every order
        h, r = cell_rows(blocks)
        lengths = symbols.lengths.astype(np.float64)
        self.of_h = lengths.take(h)  # symbols of the hypothesis, [cells]
        self.of_r = lengths.take(r)  # symbols of the reference, [cells]

    def keep_matches(self) -> None:
        """Has the matches of all orders counted at once, so that they can be read more than once."""
        self.matches = list(self.matches)

    def add(self, precision: FloatArray, recall: FloatArray, orders: FloatArray) -> None:
        """Adds P_n and R_n of every order, and how many orders both texts have, to [cells]."""
        pieces = _pieces(len(orders))
        for n, matched in enumerate(self.matches):
            # A text of n symbols has no n-gram of n + 1, and so no match: any divisor will do.
            for s in pieces:
                ngrams_h = np.maximum(self.of_h[s] - n, 1)
                ngrams_r = np.maximum(self.of_r[s] - n, 1)
                precision[s] += matched[s] / ngrams_h
                recall[s] += matched[s] / ngrams_r
        orders += np.minimum(np.minimum(self.of_h, self.of_r), self.order)

    def statistics(self, cells: IntArray) -> FloatArray:
        """n-grams of h (0 if r has none, as in sacrebleu) and of r, and matches, for every order, [cells, 3 order]."""
        h, r = self.of_h[cells], self.of_r[cells]
        columns = []
        for n, matched in enumerate(self.matches):
            of_h = np.maximum(h - n, 0)
            of_r = np.maximum(r - n, 0)
            columns += [of_h * (of_r > 0), of_r, matched[cells]]
        return np.stack(columns, axis=1)


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
