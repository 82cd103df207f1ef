"""Passes of a decoder over many pairs of a source and a target: what several of them share, and what is scored.

    log p(y_a ... y_b | y_<a, x) = sum_{t=a..b} log p(y_t | y_<t, x)

The decoder starts from the last label of a text and then reads its labels in order. What it reads up to the first
scored one is the prefix, read once for all targets that share it given the same source; the rest of every target
follows. This holds arrays alone and knows no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...representations import FloatArray, IntArray, Ragged
from .span_attention import Spans


class Targets(NamedTuple):
    """Texts as labels, and which of these are scored."""

    ids: Ragged
    prefix: IntArray  # [n] labels up to the first scored one, itself counted
    scored: IntArray  # [n] labels that are scored, one after the other

    def shared(self, row: int) -> bytes:
        """What targets of the same prefix have in common."""
        start = self.ids.offsets[row]
        return self.ids.values[start : start + self.prefix[row]].tobytes()

    def tokens(self, rows: IntArray) -> int:
        """How many tokens are read of these targets for one source."""
        rows = rows[self.scored[rows] > 0]
        prefixes = {self.shared(row): int(self.prefix[row]) for row in rows.tolist()}
        return sum(prefixes.values()) + int((self.scored[rows] - 1).sum())


class Pair(NamedTuple):
    """A target to be scored given a source; in sorted pairs, what can be shared is adjacent."""

    source_length: int
    source: int
    shared: bytes
    scored: int
    target: int


def pairs_of(rows: IntArray, lengths: IntArray, targets: Targets) -> list[Pair]:
    """The pairs of rows [n, 2], source and target, in that order; lengths: of the sources."""
    shared = {target: targets.shared(target) for target in np.unique(rows[:, 1]).tolist()}
    return [
        Pair(int(lengths[source]), source, shared[target], int(targets.scored[target]), target)
        for source, target in rows.tolist()
    ]


def batches(pairs: Sequence[Pair], targets: Targets, budget: int) -> Iterator[Sequence[Pair]]:
    """Consecutive pairs that are at most `budget` tokens together, on both sides (one pair may be more)."""
    start = used = 0
    for i, pair in enumerate(pairs):
        prefix = int(targets.prefix[pair.target])
        alone = pair.source_length + prefix + pair.scored - 1
        more = alone - (_common(pairs[i - 1], pair, prefix) if i > start else 0)
        if i > start and used + more > budget:
            yield pairs[start:i]
            start, used, more = i, 0, alone
        used += more
    if pairs:
        yield pairs[start:]


def _common(last: Pair, pair: Pair, prefix: int) -> int:
    """Tokens that have been read for the last pair."""
    if last.source != pair.source:
        return 0
    return pair.source_length + (prefix if last.shared == pair.shared else 0)


class Pass:
    """What the decoder reads for some pairs: first every prefix, then the rest of every target.

    Attributes:
        sources: rows of the sources.
        source: for each sequence, which of them, [sequences].
        spans: the sequences, one after the other.
        before: for each of them the prefix that it follows, an empty one if it is a prefix itself.
        inputs: tokens read, [tokens].
        places: their places in their texts, [tokens].
        scored: the tokens whose states are scored, [scored].
        labels: what is to follow these, [scored].
    """

    def __init__(self, pairs: Sequence[Pair], targets: Targets) -> None:
        first = {(pair.source, pair.shared): pair for pair in pairs}  # some pair for each prefix
        prefixes = {key: number for number, key in enumerate(first)}
        numbers = {
            source: number
            for number, source in enumerate(dict.fromkeys(pair.source for pair in pairs))
        }
        self.prefix_of = np.array([prefixes[pair.source, pair.shared] for pair in pairs])
        self.sources = np.array(list(numbers))
        read = [*first.values(), *pairs]
        self.source = np.array([numbers[pair.source] for pair in read])

        target = np.array([pair.target for pair in read])
        is_prefix = np.arange(len(read)) < len(first)
        prefix = targets.prefix[target]
        self.spans = Spans.of_lengths(np.where(is_prefix, prefix, targets.scored[target] - 1))
        none, followed = np.zeros(len(first), np.int64), self.spans[self.prefix_of]
        self.before = Spans(
            np.concatenate((none, followed.start)), np.concatenate((none, followed.length))
        )

        length = self.spans.length
        self.places = self.spans.places + np.repeat(np.where(is_prefix, 0, prefix), length)
        offsets = targets.ids.offsets
        begin, last = np.repeat(offsets[target], length), np.repeat(offsets[target + 1] - 1, length)
        label = begin + self.places
        self.inputs = targets.ids.values[np.where(self.places == 0, last, label - 1)]
        ends = (self.spans.start + length - 1)[: len(first)]
        self.scored = np.concatenate((ends, np.arange(int(length[is_prefix].sum()), len(label))))
        self.labels = targets.ids.values[label[self.scored]]

    def sums(self, found: FloatArray) -> FloatArray:
        """Of values of the scored states [scored], the sum for each pair, [pairs]."""
        n = len(self.source) - len(self.prefix_of)  # prefixes
        total: FloatArray = found[self.prefix_of]  # prefixes come first
        np.add.at(total, np.repeat(np.arange(len(total)), self.spans.length[n:]), found[n:])
        return total
