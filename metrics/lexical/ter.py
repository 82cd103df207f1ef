"""TER (Snover et al. 2006): translation edit rate, 0 upwards, lower is better.

    TER = 100 edits / |r|,   edits = shifts + insertions + deletions + substitutions
Shifts move a block of words of the hypothesis to where the reference has it; each counts one, and they are taken
greedily while they pay. Not symmetric. An empty hypothesis costs |r| edits; against an empty reference the rate is 100,
or 0 if both are empty. Of several references the fewest edits count, over the average reference length. Equal to
sacrebleu's TER, with Tercom's limits: blocks of 10 words, shifts over 50, 1000 shifts tried, a beam of 25.

Pairs that the words alone decide are never aligned: edits >= max(|h|, |r|) - clipped word matches, a bound no shift
changes, and one that pairs without a common word attain. Only pairs above it go through the search: by the kernel in C,
many times faster than sacrebleu, which searches where there is no kernel, or the reference is very long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, ClassVar

import numpy as np

from ..base import Metric
from ..representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..text.texts import Item
from . import compiled
from .compiled.pairs_of_rows import by_reference, word_arguments
from .ngrams import matches
from .word_columns import equal_texts, numbered, packed, row

# a reference so many times longer than its hypothesis moves the kernel's window too fast
MAX_RATIO = 16


@settings
class TER(Metric):
    """Sentence TER with sacrebleu's settings.

    Args:
        normalized: whether punctuation is split off as in Tercom.
        no_punct: whether punctuation is removed.
        asian_support: whether `normalized` and `no_punct` treat Asian characters.
        case_sensitive: whether case counts.
    """

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False
    name: ClassVar[str] = "ter"
    info: ClassVar[Info] = Info(
        summary="edits with block shifts per reference word (sacrebleu)",
        papers=("snover2006ter", "post2018call"),
        higher_is_better=False,
        bounds=(0, inf),
        multi_reference="custom",
        costly_pairs=True,
    )

    def load(self) -> TERScorer:
        """The scorer with its tokenizer."""
        return TERScorer(self)


class TERScorer(Scorer):
    """Represents a text by its words; edits are counted for all pairs of a call together."""

    def __init__(self, metric: TER) -> None:
        from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

        self.info = metric.info
        self.tokenizer: Any = TercomTokenizer(
            normalized=metric.normalized,
            no_punct=metric.no_punct,
            asian_support=metric.asian_support,
            case_sensitive=metric.case_sensitive,
        )

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        texts = (str(item.text).rstrip() for item in items)
        columns, counts = packed([self.tokenizer(text).split() for text in texts])
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """TER [H, R] of every block."""
        matrices = []
        for edits, lengths in _edits(reps, blocks):
            matrices.append(_rate(edits, lengths[None, :]))
        return matrices

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """TER [H] of every block: the fewest edits over the average reference length."""
        values = []
        for edits, lengths in _edits(reps, blocks):
            fewest = edits.min(axis=1)
            values.append(_rate(fewest, _mean(lengths)))
        return values

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """TER [n] of one-hypothesis blocks; fewest edits and average reference length, [n, 2]."""
        statistics = self.statistics(reps, blocks)
        return _rate(statistics[:, 0], statistics[:, 1]), statistics

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Fewest edits and average reference length, [n, 2]."""
        rows = []
        for edits, lengths in _edits(reps, blocks):
            rows.append((edits.min(), _mean(lengths)))
        return np.array(rows)

    def aggregate(self, statistics: FloatArray) -> float:
        """TER of the summed statistics."""
        edits, length = statistics.sum(axis=0)
        return float(_rate(edits, length))

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """TER [b] of b summed statistics."""
        return _rate(sums[:, 0], sums[:, 1])


def _mean(lengths: FloatArray) -> FloatArray:
    return lengths.sum() / len(lengths)  # type: ignore[no-any-return]


def _rate(edits: FloatArray, length: FloatArray) -> FloatArray:
    """100 edits / length, elementwise; without a length 100 if there are edits, else 0."""
    divisor = np.where(length > 0, length, 1)
    return 100 * np.where(length > 0, edits / divisor, edits > 0)


def _edits(reps: Reps, blocks: Sequence[Block]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Edits [H, R] and reference lengths [R] of every block; equal pairs of texts are compared once per call."""
    words, local = numbered(reps, blocks)
    common = next(matches(words, local, 1)).astype(np.int64)  # word matches [cells]

    # Find the different pairs of texts.
    text = equal_texts(words)
    h, r = cell_rows(local)
    key = text[h] * len(text) + text[r]
    _, first, pair_of_cell = np.unique(key, return_index=True, return_inverse=True)
    h = h[first]
    r = r[first]
    common = common[first]

    # Start from the lower bound; search the pairs that it does not decide.
    differ = text[h] != text[r]
    longer = np.maximum(words.lengths[h], words.lengths[r])
    edits = np.where(differ, longer - common, 0)  # [pairs]
    undecided = np.flatnonzero(differ & (common > 0))
    if compiled.kernels is not None:
        narrow = words.lengths[r[undecided]] <= MAX_RATIO * words.lengths[h[undecided]]
        pairs, undecided = undecided[narrow], undecided[~narrow]
        edits[pairs] = _compiled(words, h[pairs], r[pairs], edits[pairs])
    edits[undecided] = _plain(words, h[undecided], r[undecided])

    matrices = by_block(edits[pair_of_cell].astype(float), local)
    for block, matrix in zip(local, matrices, strict=True):
        yield matrix, words.lengths[block.references].astype(float)


def _plain(words: Ragged, h: IntArray, r: IntArray) -> IntArray:
    """The fewest edits of rows `h` and `r`, none empty, by sacrebleu, [pairs]."""
    from sacrebleu.metrics.lib_ter import translation_edit_rate

    pairs = zip(h.tolist(), r.tolist(), strict=True)
    edits = [
        translation_edit_rate(row(words, i).tolist(), row(words, j).tolist())[0] for i, j in pairs
    ]
    return np.array(edits, np.int64)


def _compiled(words: Ragged, h: IntArray, r: IntArray, floor: IntArray) -> IntArray:
    """As `_plain`, by the kernel in C; references at most `MAX_RATIO` times as long, `floor` lower bounds."""
    fill = partial(compiled.kernels.shift_edits, *word_arguments(words))
    return by_reference(fill, h, r, floor)
