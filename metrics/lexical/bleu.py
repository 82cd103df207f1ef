"""BLEU (Papineni et al. 2002) of single segments: n-gram precision with a brevity penalty, 0 to 100, higher is better.

    BLEU = BP exp( 1/N sum_n ln p_n ),   p_n = matches_n / |h|_n,   BP = min(1, exp(1 - |r| / |h|))
N is the largest order that the hypothesis has (effective order), and precisions of 0 are smoothed as `smooth_method`
says (Chen and Cherry 2014). Several references clip together and the closest length counts. Not symmetric; without any
shared word, or for an empty text, 0. Equal to sacrebleu's ``sentence_score`` with ``effective_order=True``; the corpus
score is sacrebleu's ``corpus_score``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..base import Metric
from ..representations import Block, FloatArray, IntArray, Reps, by_block, cell_rows
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Item
from .ngrams import matches
from .tokenizers import tokenizer_for, word_splitter
from .word_columns import numbered, packed, unpacked


class StatisticsScorer(Scorer):
    """Values of segments with several references, and of a corpus, from statistics of each segment."""

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H] of every block, clipped over all its references together."""
        values = []
        for block in blocks:
            rows = [self._counts(reps, int(h), block.references) for h in block.hypotheses]
            values.append(self._segment_values(np.array(rows).T))
        return values

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Statistics of the first hypothesis of every block, [n, statistics]; `_counts` says which."""
        rows = []
        for block in blocks:
            hypothesis = int(block.hypotheses[0])
            rows.append(self._counts(reps, hypothesis, block.references))
        return np.array(rows)

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """Values [n] of one-hypothesis blocks, and their statistics [n, statistics]."""
        statistics = self.statistics(reps, blocks)
        return self._segment_values(statistics.T), statistics

    def aggregate(self, statistics: FloatArray) -> float:
        """The corpus score of the summed statistics."""
        sums = statistics.sum(axis=0)[:, None]
        return float(self._corpus_values(sums)[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The corpus scores [b] of b summed statistics."""
        return self._corpus_values(sums.T)

    @abstractmethod
    def _counts(self, reps: Reps, hypothesis: int, references: IntArray) -> list[float]:
        """The statistics of one segment."""

    @abstractmethod
    def _segment_values(self, columns: FloatArray) -> FloatArray:
        """Values [n] of the statistics of segments, [statistics, n]."""

    @abstractmethod
    def _corpus_values(self, columns: FloatArray) -> FloatArray:
        """Values [n] of summed statistics, [statistics, n]."""


SMOOTH_VALUES = {"none": 0.0, "floor": 0.1, "add-k": 1.0, "exp": 0.0}  # sacrebleu's defaults
STEP = 1 << 13  # cells worked on at once, so that buffers stay in cache
NO_PRECISION = -9999999999.0  # sacrebleu's logarithm of 0
Columns = Sequence[FloatArray]  # one array [cells] per order


@settings
class BLEU(Metric):
    """Sentence BLEU with sacrebleu's tokenizers and smoothing.

    Args:
        tokenize: a sacrebleu tokenizer: 13a, zh, ja-mecab, ko-mecab, intl, char, none, flores200, ...
        lowercase: whether case is ignored.
        max_ngram_order: N.
        smooth_method: exp, floor, add-k or none.
        smooth_value: of floor and add-k; sacrebleu's default if null.
        effective_order: whether orders the hypothesis is too short for are left out.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    max_ngram_order: Annotated[int, Field(ge=1, le=16)] = 4
    smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp"
    smooth_value: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    effective_order: bool = True
    name: ClassVar[str] = "bleu"
    info: ClassVar[Info] = Info(
        summary="word n-gram precision with brevity penalty (sacrebleu)",
        papers=("papineni2002bleu", "post2018call"),
        bounds=(0, 100),
        multi_reference="custom",
    )

    def for_language(self, lang: str) -> BLEU:
        """The tokenizer that sacrebleu takes for Chinese, Japanese and Korean, if none was chosen."""
        tokenizer = tokenizer_for(lang)
        return self.with_defaults(tokenize=tokenizer) if tokenizer else self

    def load(self) -> BLEUScorer:
        """The scorer with its tokenizer.

        Raises:
            InputError: there is no such tokenizer.
            ModelLoadError: the tokenizer needs a package or a file that is not there.
        """
        return BLEUScorer(self)


class BLEUScorer(StatisticsScorer):
    """Represents a text by its words; the rest is counting."""

    def __init__(self, metric: BLEU) -> None:
        self.info = metric.info
        self.metric = metric
        self.split = word_splitter(metric.tokenize, metric.lowercase, metric.name)
        self.smooth_value = SMOOTH_VALUES[metric.smooth_method]
        if metric.smooth_value is not None:
            self.smooth_value = metric.smooth_value

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        tokens = [self.split(str(item.text)) for item in items]
        columns, counts = packed(tokens)
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """BLEU [H, R] of every block."""
        words, local = numbered(reps, blocks)
        order = self.metric.max_ngram_order
        matched = list(matches(words, local, order))  # [cells] per order
        h, r = cell_rows(local)
        of_h = words.lengths[h].astype(float)
        of_r = words.lengths[r].astype(float)
        values = np.empty(len(h))
        for start in range(0, len(h), STEP):
            s = slice(start, start + STEP)
            length, closest = of_h[s], of_r[s]
            correct = [values_of_order[s] for values_of_order in matched]
            totals = [np.maximum(length - n, 0) for n in range(order)]
            values[s] = self._bleu(
                correct,
                totals,
                length,
                closest,
                self.metric.effective_order,
            )
        return by_block(values, blocks)

    def _counts(self, reps: Reps, hypothesis: int, references: IntArray) -> list[float]:
        """|h|, |r|, matches and n-grams of every order, [2 + 2 N]."""
        order = self.metric.max_ngram_order
        words, *others = unpacked(reps, np.concatenate(([hypothesis], references)))
        # An n-gram counts as often as the reference with most of it has it.
        most: Counter[tuple[str, ...]] = Counter()
        for other in others:
            most |= _ngrams(other, order)
        correct = [0] * order
        for gram, count in _ngrams(words, order).items():
            correct[len(gram) - 1] += min(count, most[gram])
        # Of two references equally close in length the shorter counts.
        lengths = map(len, others)
        closest = min(lengths, key=lambda length: (abs(length - len(words)), length))
        totals = [max(len(words) - n, 0) for n in range(order)]
        return [len(words), closest, *correct, *totals]

    def _segment_values(self, columns: FloatArray) -> FloatArray:
        return self._from_statistics(columns, self.metric.effective_order)

    def _corpus_values(self, columns: FloatArray) -> FloatArray:
        return self._from_statistics(columns, effective_order=False)  # every order counts

    def _from_statistics(self, rows: FloatArray, effective_order: bool) -> FloatArray:
        """BLEU [cells] of statistics [2 + 2 N, cells]."""
        middle = 2 + self.metric.max_ngram_order
        correct = [*rows[2:middle]]
        totals = [*rows[middle:]]
        return self._bleu(correct, totals, rows[0], rows[1], effective_order)

    def _bleu(
        self,
        correct: Columns,
        total: Columns,
        length: FloatArray,
        closest: FloatArray,
        effective: bool,
    ) -> FloatArray:
        """The formula above, elementwise, [cells].

        Args:
            correct: matches_n, an array [cells] for every order.
            total: |h|_n, the same.
            length: |h|, [cells].
            closest: |r|, [cells].
            effective: whether N is the largest order that the hypothesis has.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            penalty = np.where(length < closest, np.exp(1 - closest / length), 1.0)
        logs = orders = np.zeros(1)  # sum of ln p_n, and orders in it
        halvings: Any = np.ones(1)
        going: Any = True  # whether the hypothesis has this order and all below
        for n, (matched, grams) in enumerate(zip(correct, total, strict=True)):
            # Smooth: add-k adds to both counts beyond unigrams, the others stand in for 0 matches.
            added = 0.0
            if self.metric.smooth_method == "add-k" and n:
                added = self.smooth_value
            hits = matched + added
            possible = grams + added
            going = going & (possible > 0)
            missed = going & (hits == 0)
            halvings = np.where(missed, halvings * 2, halvings)
            numerator = np.where(missed, self._smoothed(halvings), 100 * hits)
            precision = numerator / np.maximum(possible, 1e-300)
            # A precision of 0 has NO_PRECISION as its logarithm; an order that the hypothesis lacks has it too, unless
            # N is effective and the order adds nothing.
            positive = going & (precision > 0)
            otherwise = NO_PRECISION * (going | (not effective))
            with np.errstate(divide="ignore"):
                logs = logs + np.where(positive, np.log(precision), otherwise)
            orders = orders + going
        num_orders = np.maximum(orders, 1) if effective else len(correct)
        any_match = sum(correct) > 0
        return np.where(any_match, penalty * np.exp(logs / num_orders), 0.0)

    def _smoothed(self, halvings: FloatArray) -> FloatArray | float:
        """100 times the numerator that stands in for 0 matches."""
        if self.metric.smooth_method == "exp":
            return 100 / halvings
        return 100 * self.smooth_value if self.metric.smooth_method == "floor" else 0.0


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """Counts of all n-grams of 1 to `order` words."""
    counts: Counter[tuple[str, ...]] = Counter()
    for n in range(1, order + 1):
        starts = range(len(words) - n + 1)
        counts.update(tuple(words[i : i + n]) for i in starts)
    return counts
