"""Scorer of BLEURT: every pair is a forward pass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...execution.batches import in_batches
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Passes, Scorer
from ...text.texts import Item, Truncation
from ..comet.head import Head
from ..models.encoder import Encoder
from ..models.settings import ModelMetric
from .pair_tokens import SPECIAL, Lengths, PairTokens, kept_lengths


class BleurtScorer(Scorer):
    """Represents a text by its ids; compares by the encoder and the head."""

    def __init__(
        self,
        metric: ModelMetric,
        tokens: PairTokens,
        encoder: Encoder,
        head: Head,
        max_tokens: int,
    ) -> None:
        self.info = metric.info
        self.tokens = tokens
        self.encoder = encoder
        self.head = head
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)
        self.max_tokens = max_tokens

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids of every window: the sentence behind its context, a blank between sentences."""
        windows = [item.window for item in items]
        whole = [window.encode("utf-8", "replace").decode() for window in windows]
        ids = Ragged.of_rows(self.tokens.ids(whole))
        return Reps({"ids": ids}), ids.lengths

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of all sequences of a block, before any truncation."""
        lengths = reps["ids"].lengths
        num_hypotheses, num_references = len(block.hypotheses), len(block.references)
        of_hypotheses = int(lengths[block.hypotheses].sum()) * num_references
        of_references = int(lengths[block.references].sum()) * num_hypotheses
        return of_hypotheses + of_references + SPECIAL * block.cells

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every pair."""
        hypotheses, references = cell_rows([block])
        lengths = reps["ids"].lengths
        kept = kept_lengths(lengths[references], lengths[hypotheses], self.max_tokens)
        of_pairs = kept.reference + kept.hypothesis + SPECIAL
        return Passes(of_pairs, self.encoder.flops(of_pairs))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest pair of a block loses tokens."""
        lengths = reps["ids"].lengths
        longest_hypothesis = int(lengths[block.hypotheses].max(initial=0))
        longest_reference = int(lengths[block.references].max(initial=0))
        longest = longest_hypothesis + longest_reference + SPECIAL
        return Truncation.TEXT if longest > self.max_tokens else Truncation.NONE

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block."""
        hypotheses, references = cell_rows(blocks)
        lengths = reps["ids"].lengths
        kept = kept_lengths(lengths[references], lengths[hypotheses], self.max_tokens)

        def first_states(pairs: IntArray) -> Any:
            of_pairs = Lengths(kept.reference[pairs], kept.hypothesis[pairs])
            return self._first_states(reps["ids"], references[pairs], hypotheses[pairs], of_pairs)

        batches, places = in_batches(
            kept.reference + kept.hypothesis + SPECIAL, self.batch_tokens, first_states
        )
        with self.encoder.torch.inference_mode():
            first = self.encoder.torch.from_numpy(np.concatenate(batches)[places])  # [pairs, d]
            return by_block(self.head.whole(first.to(self.encoder.device)), blocks)

    def _first_states(
        self, ids: Ragged, references: IntArray, hypotheses: IntArray, kept: Lengths
    ) -> Any:
        """State of the first token of pairs, float32 [pairs, d]; rows of the texts, [pairs], and their kept lengths."""
        # [CLS] reference [SEP] hypothesis [SEP]; type 1 from the hypothesis on
        sequences, types = [], []
        sep = [self.tokens.sep]
        for r, h, num_r, num_h in zip(references, hypotheses, *kept, strict=True):
            start_r, start_h = ids.offsets[r], ids.offsets[h]
            reference = ids.values[start_r : start_r + num_r]
            hypothesis = ids.values[start_h : start_h + num_h]
            sequence = np.concatenate(([self.tokens.cls], reference, sep, hypothesis, sep))
            sequences.append(sequence)
            types.append((np.arange(len(sequence)) >= num_r + 2).astype(np.int64))
        # batches come in the order of their lengths
        width = self.encoder.config.hidden_size
        first = np.empty((len(sequences), width), np.float32)
        states = self.encoder.states(Ragged.of_rows(sequences), types=Ragged.of_rows(types))
        for rows, layers in states:
            first[rows] = layers[-1][:, 0].cpu().numpy()
        return first
