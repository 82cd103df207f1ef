"""Scorer of MetricX: every pair is a forward pass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...execution.batches import in_batches
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Passes, Scorer
from ...text.texts import Item, Truncation
from ..comet.head import by_hypothesis, hypothesis_rows
from ..models.context_tokens import broken_up, special_tokens
from ..models.settings import ModelMetric
from .input_parts import InputParts, Part

# The least and the greatest number of mistakes that the paper's number stands for.
LOWEST, HIGHEST = 0.0, 25.0


class MetricXScorer(Scorer):
    """Represents a text by its ids; compares by the network.

    Args:
        metric: the metric.
        network: a `T5Regression`.
        parts: what it reads.
        batch_tokens: tokens of one batch.
    """

    def __init__(
        self, metric: ModelMetric, network: Any, parts: InputParts, batch_tokens: int
    ) -> None:
        self.info = metric.info
        self.network = network
        self.parts = parts
        self.special = special_tokens(parts.tokenizer)
        self.batch_tokens = batch_tokens
        self.identity = metric.identity(network.device)
        self.reads_source = "source" in parts.parts
        self.reads_reference = "reference" in parts.parts

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids of every window: the sentence behind its context, a blank between sentences."""
        windows = [item.window for item in items]
        texts = [window.encode("utf-8", "replace").decode() for window in windows]
        ids = Ragged.of_rows(self.parts.ids([broken_up(text, self.special) for text in texts]))
        return Reps({"ids": ids}), ids.lengths

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of all sequences of a block, before any truncation."""
        lengths = reps["ids"].lengths
        num_references = len(block.references) if self.reads_reference else 1
        num_sequences = len(block.hypotheses) * num_references
        cost = int(lengths[block.hypotheses].sum()) * num_references
        cost += self.parts.num_name_tokens * num_sequences
        if self.reads_reference:
            cost += int(lengths[block.references].sum()) * len(block.hypotheses)
        if self.reads_source:
            cost += int(lengths[block.source]) * num_sequences
        return cost

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every pair, or for every hypothesis without references."""
        lengths = self._lengths(reps["ids"], self._rows([block]))
        return Passes(lengths, self.network.flops(lengths))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest sequence of a block loses its end."""
        lengths = reps["ids"].lengths
        longest = self.parts.num_name_tokens + int(lengths[block.hypotheses].max(initial=0))
        if self.reads_reference:
            longest += int(lengths[block.references].max(initial=0))
        if self.reads_source:
            longest += int(lengths[block.source])
        return Truncation.TEXT if longest > self.parts.room else Truncation.NONE

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        values = self._values(reps["ids"], self._rows(blocks))
        return by_block(values, blocks) if self.reads_reference else by_hypothesis(values, blocks)

    def _rows(self, blocks: Sequence[Block]) -> dict[Part, IntArray]:
        """The rows of the texts of every sequence of all blocks, [sequences] for each part."""
        if self.reads_reference:
            hypotheses, references = cell_rows(blocks)
            cells = [block.cells for block in blocks]
            sources = np.repeat([block.source for block in blocks], cells)
        else:
            hypotheses, sources = hypothesis_rows(blocks)
            references = hypotheses
        rows: dict[Part, IntArray] = {"candidate": hypotheses}
        if self.reads_reference:
            rows["reference"] = references
        if self.reads_source:
            rows["source"] = sources
        return rows

    def _lengths(self, ids: Ragged, rows: dict[Part, IntArray]) -> IntArray:
        """Tokens of every sequence that are read, [n]; rows: of its texts, [n] each."""
        lengths = np.full(len(rows["candidate"]), self.parts.num_name_tokens)
        for of_part in rows.values():
            lengths = lengths + ids.lengths[of_part]
        read: IntArray = np.minimum(lengths, self.parts.room)
        return read

    def _values(self, ids: Ragged, rows: dict[Part, IntArray]) -> FloatArray:
        """The paper's number of every sequence, [n]; rows: of its texts, [n] each."""
        lengths = self._lengths(ids, rows)
        run = partial(self._batch, ids, rows)
        batches, places = in_batches(lengths, self.batch_tokens, run)
        raw = np.concatenate(batches)[places]
        return np.clip(raw, LOWEST, HIGHEST)

    def _batch(self, ids: Ragged, rows: dict[Part, IntArray], numbers: IntArray) -> FloatArray:
        """Values, not yet clamped, of some sequences [batch]."""
        sequences = []
        for number in numbers:
            texts = {}
            for part, of_part in rows.items():
                start, end = ids.offsets[of_part[number]], ids.offsets[of_part[number] + 1]
                texts[part] = ids.values[start:end]
            sequences.append(self.parts.sequence(texts))
        scores: FloatArray = self.network.scores(Ragged.of_rows(sequences))
        return scores
