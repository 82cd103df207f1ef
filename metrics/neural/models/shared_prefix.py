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
from .attention import Spans


class Targets(NamedTuple):
    """Texts as labels, and which of these are scored."""

    ids: Ragged  # n rows of labels
    prefix_lengths: IntArray  # [n] labels up to the first scored one, itself counted
    num_scored: IntArray  # [n] labels that are scored, one after the other

    def prefix_key(self, row: int) -> bytes:
        """The labels up to the first scored one: targets of one key share their prefix."""
        start = self.ids.offsets[row]
        end = start + self.prefix_lengths[row]
        return self.ids.values[start:end].tobytes()

    def num_tokens(self, rows: IntArray) -> int:
        """Number of tokens that the decoder reads of the targets in rows [m] for one source."""
        rows = rows[self.num_scored[rows] > 0]
        prefixes: dict[bytes, int] = {}
        for row in rows.tolist():
            prefixes[self.prefix_key(row)] = int(self.prefix_lengths[row])
        rests = self.num_scored[rows] - 1  # [m]
        return sum(prefixes.values()) + int(rests.sum())


class SourceTargetPair(NamedTuple):
    """A target to be scored given a source; in sorted pairs, what can be shared is adjacent."""

    source_length: int
    source: int  # row of the source
    prefix_key: bytes
    num_scored: int
    target: int  # row of the target


def pairs_of(rows: IntArray, lengths: IntArray, targets: Targets) -> list[SourceTargetPair]:
    """The pairs of rows [n, 2], source and target, in that order; lengths: of the sources, [sources]."""
    distinct = np.unique(rows[:, 1]).tolist()
    keys = {target: targets.prefix_key(target) for target in distinct}
    return [
        SourceTargetPair(
            source_length=int(lengths[source]),
            source=source,
            prefix_key=keys[target],
            num_scored=int(targets.num_scored[target]),
            target=target,
        )
        for source, target in rows.tolist()
    ]


def batches(
    pairs: Sequence[SourceTargetPair], targets: Targets, budget: int
) -> Iterator[Sequence[SourceTargetPair]]:
    """Consecutive pairs that are at most `budget` tokens together, on both sides (one pair may be more)."""
    start = used = 0
    for i, pair in enumerate(pairs):
        prefix = int(targets.prefix_lengths[pair.target])
        alone = pair.source_length + prefix + pair.num_scored - 1
        shared = _shared_tokens(pairs[i - 1], pair, prefix) if i > start else 0
        added = alone - shared
        if i > start and used + added > budget:
            yield pairs[start:i]
            # A new batch shares nothing with the last one.
            start = i
            used = 0
            added = alone
        used += added
    if pairs:
        yield pairs[start:]


def _shared_tokens(last: SourceTargetPair, pair: SourceTargetPair, prefix: int) -> int:
    """Tokens of a pair that have been read for the one before it."""
    if last.source != pair.source:
        return 0
    if last.prefix_key != pair.prefix_key:
        return pair.source_length
    return pair.source_length + prefix


class DecoderPass:
    """The tokens that the decoder reads for some pairs: first every prefix, then the rest of every target.

    Attributes:
        sources: rows of the sources, each once, [sources].
        source_of: place in `sources` of the source of each sequence, [sequences].
        prefix_of: number of the prefix that each pair's target begins with, [pairs].
        spans: the sequences, one after the other: prefixes, then as many rests as pairs.
        before: for each of them the prefix that it follows, an empty one if it is a prefix itself.
        inputs: tokens read, [tokens].
        places: their places in their texts, [tokens].
        scored: the tokens whose states are scored, [scored].
        labels: what is to follow these, [scored].
    """

    def __init__(self, pairs: Sequence[SourceTargetPair], targets: Targets) -> None:
        # A prefix is read once for each source; the target of any of its pairs has its labels.
        pair_with = {(pair.source, pair.prefix_key): pair for pair in pairs}
        prefix_numbers = {key: number for number, key in enumerate(pair_with)}
        prefix_of = [prefix_numbers[pair.source, pair.prefix_key] for pair in pairs]
        self.prefix_of = np.array(prefix_of)
        sequences = [*pair_with.values(), *pairs]
        num_prefixes = len(pair_with)

        # Sources are numbered as they come.
        distinct = dict.fromkeys(pair.source for pair in pairs)
        source_numbers = {source: number for number, source in enumerate(distinct)}
        self.sources = np.array(list(source_numbers))
        self.source_of = np.array([source_numbers[pair.source] for pair in sequences])

        # The state before a label scores it: of n scored labels, the prefix's last state scores one, the rest n - 1.
        target = np.array([pair.target for pair in sequences])  # [sequences]
        is_prefix = np.arange(len(sequences)) < num_prefixes  # [sequences]
        prefix_lengths = targets.prefix_lengths[target]  # [sequences]
        length = np.where(is_prefix, prefix_lengths, targets.num_scored[target] - 1)
        self.spans = Spans.of_lengths(length)
        self.before = self.spans.behind(self.prefix_of)

        # A prefix begins at the first place of its text, a rest behind the prefix.
        first_place = np.where(is_prefix, 0, prefix_lengths)  # [sequences]
        self.places = self.spans.places + np.repeat(first_place, length)

        # What is read is the label before the one that is to follow, and at the first place the last one.
        offsets = targets.ids.offsets
        first_label = np.repeat(offsets[target], length)  # [tokens]
        last_label = np.repeat(offsets[target + 1] - 1, length)  # [tokens]
        following = first_label + self.places  # [tokens]
        read = np.where(self.places == 0, last_label, following - 1)  # [tokens]
        self.inputs = targets.ids.values[read]

        # Scored are the last state of every prefix and all states of the rests.
        prefix_ends = (self.spans.start + length - 1)[:num_prefixes]  # [prefixes]
        first_rest = int(length[is_prefix].sum())
        rests = np.arange(first_rest, len(following))  # [tokens of rests]
        self.scored = np.concatenate((prefix_ends, rests))
        self.labels = targets.ids.values[following[self.scored]]

    def sums(self, values: FloatArray) -> FloatArray:
        """Of values of the scored states [scored], the sum for each pair, [pairs]."""
        num_prefixes = len(self.source_of) - len(self.prefix_of)
        # The first values are those of the prefixes, one each.
        totals: FloatArray = values[self.prefix_of]
        rest_lengths = self.spans.length[num_prefixes:]  # [pairs]
        pair = np.repeat(np.arange(len(totals)), rest_lengths)  # [scored of rests]
        np.add.at(totals, pair, values[num_prefixes:])
        return totals
