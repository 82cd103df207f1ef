"""NIST (Doddington 2002): shared n-grams by how much they tell, 0 upwards, higher is better.

    NIST = BP sum_{n=1..5} (sum of Info of shared n-grams) / |h|_n
    Info(w_1 ... w_n) = log2( #(w_1 ... w_{n-1}) / #(w_1 ... w_n) ),   BP = exp(-4.216 ln^2 min(1, |h| / |r|))
BP is 1/2 where the hypothesis has two thirds of the reference's words. # counts n-grams in a set of texts, as a rule
all references of a test set: give them to `fit`, or name a file of them. Rare n-grams tell more; one that these texts
lack counts as seen once. Several references clip together, and |r| is their average length. Not symmetric; an empty
text scores 0. Computed as in mteval-v13a, whose corpus score `corpus` gives; information is rounded to 2^-26 bits, so
that sums are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from math import inf, log
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from ..base import Metric
from ..errors import InputError
from ..representations import Block, FloatArray, IntArray, Ragged, Reps, by_block
from ..scorer import Info
from ..spec.checked_settings import Field, settings
from ..storage.checksums import DIGITS, MARK, check_file, path_of
from ..text.sentence_splitting import numbered_lines
from ..text.texts import Document, Item, Text
from .bleu import StatisticsScorer
from .ngrams import matches
from .tokenizers import tokenizer_for, word_splitter
from .word_columns import localised, numbered, packed, unpacked


class _Level(NamedTuple):
    """The n-grams of one order; an n-gram's place is its index."""

    keys: IntArray  # sorted: place of the first n - 1 words * words known + last word
    counts: FloatArray


class Information(NamedTuple):
    """Counts of the n-grams of some texts.

    Tables of information are sorted arrays: an n-gram is the number of its first n - 1 words in the table before, and
    its last word.
    """

    numbers: dict[str, int]  # of the words
    levels: tuple[_Level, ...]
    total: int  # words

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], order: int) -> Self:
        """Counts all n-grams of 1 to `order` words."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        word = np.array([number for row in rows for number in row], np.int64)
        left = _left(lengths)
        place = np.zeros(len(word), np.int64)  # of the n words that start at every word
        levels = []
        for n in range(order):
            # Where a word more follows, the n-gram becomes one of the next order.
            here = np.flatnonzero(left > n)
            keys, longer, counts = np.unique(
                place[here] * len(numbers) + word[here + n],
                return_inverse=True,
                return_counts=True,
            )
            place[here] = longer
            levels.append(_Level(keys, counts.astype(float)))
        return cls(numbers, tuple(levels), len(word))

    def bits(self, texts: Sequence[Sequence[str]]) -> FloatArray:
        """Info of the n-grams that start at every word of some texts, [words, order]; 0 where there is none."""
        lengths = np.array([len(words) for words in texts], np.int64)
        numbers = [self.numbers.get(word, -1) for words in texts for word in words]
        word = np.array(numbers, np.int64)
        left = _left(lengths)
        information = np.zeros((len(word), len(self.levels)))
        place = np.zeros(len(word), np.int64)  # of the first n words; -1 if unknown
        before = np.full(len(word), max(1.0, self.total))  # how often they were seen, at least once
        for n, level in enumerate(self.levels):
            # Look up the n-grams with a word more; they are unknown where either part is.
            here = np.flatnonzero(left > n)
            first = place[here]
            last = word[here + n]
            both_known = (first >= 0) & (last >= 0)
            keys = np.where(both_known, first * len(self.numbers) + last, -1)
            at = np.searchsorted(level.keys, keys)
            known = at < len(level.keys)
            known[known] = level.keys[at[known]] == keys[known]
            # An unknown one counts as seen once.
            counts = np.ones(len(here))
            counts[known] = level.counts[at[known]]
            information[here, n] = np.log2(before[here] / counts)
            place[here] = np.where(known, at, -1)
            before[here] = counts
        return information


def _left(lengths: IntArray) -> IntArray:
    """How many words are left in its text from every word on, itself too, [words]."""
    ends = np.repeat(lengths.cumsum(), lengths)
    return ends - np.arange(int(lengths.sum()))


FITTED = f"fitted{MARK}"
BETA = log(0.5) / log(1.5) ** 2
UNIT = 1 << 26


@settings
class NIST(Metric):
    """NIST with mteval's tokenizer and brevity penalty.

    Args:
        information: a file of texts, one per line, in which n-grams are counted; without it, `fit` counts them.
        order: the longest n-grams.
        tokenize: as in `BLEU`.
        lowercase: whether case is ignored.
    """

    information: str | None = None
    order: Annotated[int, Field(ge=1, le=16)] = 5
    tokenize: str = "13a"
    lowercase: bool = True
    name: ClassVar[str] = "nist"
    info: ClassVar[Info] = Info(
        summary="shared n-grams weighted by information (needs information= or fit)",
        papers=("doddington2002nist",),
        bounds=(0, inf),
        multi_reference="custom",
    )

    def __post_init__(self) -> None:
        if self.information is not None and not self.information.startswith(FITTED):
            object.__setattr__(self, "information", check_file(self.information))

    @property
    def unfitted(self) -> bool:
        """Whether there are no texts to count n-grams in."""
        return self.information is None

    def fit(self, texts: Sequence[Text]) -> NIST:
        """The metric with counts from these texts, if no file was named."""
        if not self.unfitted:
            return self
        split = word_splitter(self.tokenize, self.lowercase, self.name)
        words = [split(sentence) for text in texts for sentence in _sentences(text)]
        # The counts do not depend on the order of the texts, and neither does their digest.
        lines = sorted(map(" ".join, words))
        digest = sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
        fitted = replace(self, information=FITTED + digest[:DIGITS])
        fitted.__dict__["counted"] = Information.of(words, self.order)
        return fitted

    def with_defaults(self, **values: Any) -> Self:
        """As every metric; once fitted, it stays as it is."""
        return self if "counted" in self.__dict__ else super().with_defaults(**values)

    def for_language(self, lang: str) -> Self:
        """The tokenizer that sacrebleu takes for Chinese, Japanese and Korean, if none was chosen."""
        tokenizer = tokenizer_for(lang)
        return self.with_defaults(tokenize=tokenizer) if tokenizer else self

    def check_files(self) -> None:
        """As every metric."""
        if self.information is not None and not self.information.startswith(FITTED):
            check_file(self.information)

    def load(self) -> NISTScorer:
        """The scorer with its counts.

        Raises:
            InputError: there are no texts to count n-grams in, or no such tokenizer.
        """
        return NISTScorer(self, self.__dict__.get("counted") or self._counted())

    def _counted(self) -> Information:
        """The counts in the file that `information` names."""
        if self.information is None or self.information.startswith(FITTED):
            fix = 'Name a file of texts like the references, one per line: nist(information="FILE"), or call fit(texts)'
            raise InputError("no texts to count n-grams in", where=self.name, fix=fix)
        path = path_of(self.information)
        split = word_splitter(self.tokenize, self.lowercase, self.name)
        lines = numbered_lines(path, "Name a UTF-8 text file, one text per line")
        return Information.of((split(line) for _, line in lines), self.order)


def _sentences(text: Text) -> Iterable[str]:
    return text.sentences if isinstance(text, Document) else (text,)


class NISTScorer(StatisticsScorer):
    """Represents a text by its words and the information of its n-grams."""

    def __init__(self, metric: NIST, counted: Information) -> None:
        self.info = metric.info
        self.order = metric.order
        self.counted = counted
        self.split = word_splitter(metric.tokenize, metric.lowercase, metric.name)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words and their number; the information of the n-grams that start at each in steps of 1 / UNIT."""
        tokens = [self.split(str(item.text)) for item in items]
        columns, counts = packed(tokens)
        steps = np.rint(self.counted.bits(tokens) * UNIT).astype(np.int64)
        return Reps({**columns, "information": Ragged.of_lengths(steps, counts)}), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """NIST [H, R] of every block."""
        words, local = numbered(reps, blocks)
        rows, _ = localised(blocks)
        information = reps["information"][rows].values
        lengths = words.lengths.astype(float)
        shared_of_orders = [
            by_block(values, local) for values in matches(words, local, self.order, information)
        ]
        matrices = []
        for block, *shared in zip(local, *shared_of_orders, strict=True):
            of_h = lengths[block.hypotheses][:, None]
            of_r = lengths[block.references][None, :]
            ngrams = [np.maximum(of_h - n, 0) for n in range(self.order)]
            matrices.append(_nist(shared, ngrams, of_h, of_r))
        return matrices

    def _counts(self, reps: Reps, hypothesis: int, references: IntArray) -> list[float]:
        """|h|, mean |r|, information shared and n-grams of every order, [2 + 2 order]."""
        words, *others = unpacked(reps, np.concatenate(([hypothesis], references)))
        information = reps["information"][np.array([hypothesis])].values
        shared = []
        for n in range(1, self.order + 1):
            # An n-gram may match as often as the reference with most of it has it.
            left: Counter[tuple[str, ...]] = Counter()
            for other in others:
                left |= Counter(_ngrams(other, n))
            matched = 0
            for i, gram in enumerate(_ngrams(words, n)):
                if left[gram]:
                    left[gram] -= 1
                    matched += int(information[i, n - 1])
            shared.append(matched)
        mean_length = sum(map(len, others)) / len(others)
        ngrams = [max(len(words) - n, 0) for n in range(self.order)]
        return [len(words), mean_length, *shared, *ngrams]

    def _segment_values(self, columns: FloatArray) -> FloatArray:
        middle = 2 + self.order
        shared = [*columns[2:middle]]
        ngrams = [*columns[middle:]]
        return _nist(shared, ngrams, columns[0], columns[1])

    def _corpus_values(self, columns: FloatArray) -> FloatArray:
        return self._segment_values(columns)


def _ngrams(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    starts = range(len(words) - n + 1)
    return (tuple(words[i : i + n]) for i in starts)


def _nist(
    shared: Sequence[FloatArray],
    ngrams: Sequence[FloatArray],
    of_h: FloatArray,
    of_r: FloatArray,
) -> FloatArray:
    """The formula above, elementwise.

    Args:
        shared: information of the shared n-grams in steps of 1 / UNIT, an array for every order.
        ngrams: |h|_n, the same.
        of_h: |h|.
        of_r: |r|.
    """
    total = np.zeros(1)
    for information, count in zip(shared, ngrams, strict=True):
        total = total + information / (UNIT * np.maximum(count, 1))
    ratio = np.minimum(of_h / np.maximum(of_r, 1), 1)
    log_ratio = np.log(np.maximum(ratio, 1e-300))
    penalty = np.exp(BETA * log_ratio**2)
    return np.asarray(total * penalty)
