"""Bases of scorers with a model: a forward pass for every text, or one for every pair of texts read together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...representations import Block, IntArray, Reps
from ...scorer import Passes, Scorer
from ...text.texts import Item, Truncation
from .context_tokens import Reader
from .encoder import Encoder
from .settings import ModelMetric


class EncoderScorer(Scorer):
    """Represents every text by a pass of an encoder; pairs are algebra.

    Args:
        metric: the metric.
        encoder: makes states of ids.
        reader: makes ids of texts.
    """

    def __init__(self, metric: ModelMetric, encoder: Encoder, reader: Reader | None) -> None:
        self.info = metric.info
        self.encoder = encoder
        self.reader: Any = reader
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and where the sentence starts behind its context."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every text."""
        sources = [block.source] if block.source >= 0 else []
        rows = np.unique(np.concatenate((block.hypotheses, block.references, sources)))
        lengths = reps["ids"].lengths[rows.astype(np.int64)]
        return Passes(lengths, self.encoder.flops(lengths))


class JoinedScorer(Scorer):
    """Reads the texts of a pair in one sequence: every pair is a forward pass.

    Attributes:
        max_tokens: of a sequence; what is longer is cut.
    """

    max_tokens: int

    @abstractmethod
    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """Tokens of every sequence of a block before any cut, [sequences]; lengths: of all texts, [rows]."""

    @abstractmethod
    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of all sequences of a block, before any cut."""
        return int(self.sequence_lengths(reps["ids"].lengths, block).sum())

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every sequence."""
        lengths = self.sequence_lengths(reps["ids"].lengths, block)
        read = np.minimum(lengths, self.max_tokens)
        return Passes(read, self.flops(read))

    def longest(self, reps: Reps, block: Block) -> int:
        """Tokens of the longest sequence of a block before any cut."""
        return int(self.sequence_lengths(reps["ids"].lengths, block).max(initial=0))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest sequence of a block loses its end."""
        return Truncation.TEXT if self.longest(reps, block) > self.max_tokens else Truncation.NONE
