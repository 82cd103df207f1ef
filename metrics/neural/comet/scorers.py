"""Scorers of COMET's models: by the vectors of texts, and by texts side by side in one sequence.

Regression models, those of SEScore2 too, have one vector per text and a head over vectors of pairs. Unified models
(UniTE, CometKiwi) have a head over the first vector of a sequence: every pair is a forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...execution.batches import in_batches
from ...representations import (
    TRUNCATION_COLUMN,
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    by_hypothesis,
    cell_rows,
    hypothesis_rows,
)
from ...text.texts import Item
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.model_scorers import EncoderScorer, JoinedScorer
from ..models.settings import ContextModelMetric
from .network import Head, Mixer, PairHead, source_features
from .side_by_side import JoinedTexts, SideBySide


class RegressionScorer(EncoderScorer):
    """Represents a text by its pooled vector; compares by the head, with references or without."""

    def __init__(
        self, metric: ContextModelMetric, reader: Reader, encoder: Encoder, mixer: Mixer, head: Head
    ) -> None:
        super().__init__(metric, encoder, reader)
        self.mixer = mixer
        self.head = head
        self.in_context = metric.context > 0
        self.pair_head: PairHead | None = None
        if metric.info.needs_references:
            self.pair_head = PairHead(head, metric.info.needs_source)

    def represent(self, prepared: Reps) -> Reps:
        """The pooled vectors, "embedding" float32 [rows, d]."""
        width = self.encoder.config.hidden_size
        embedding = np.empty((len(prepared), width), np.float32)
        all_layers = self.mixer.shares is not None
        for rows, states in self.encoder.states(prepared["ids"], all_layers=all_layers):
            starts = prepared["start"][rows] if self.in_context else None
            embedding[rows] = self.mixer.vectors(states, starts).cpu().numpy()
        return Reps({"embedding": embedding})

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        with self.encoder.torch.inference_mode():
            if self.pair_head is not None:
                return self.pair_head.compare(self._vectors(reps["embedding"]), blocks)
            return self._against_source(reps["embedding"], blocks)

    def _against_source(self, embedding: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, 1] of every block; embedding: [rows, d]."""
        hypotheses, sources = hypothesis_rows(blocks)
        h = self._vectors(embedding[hypotheses])  # [hypotheses, d]
        s = self._vectors(embedding[sources])  # [hypotheses, d]
        return by_hypothesis(self.head.whole(source_features(h, s)), blocks)

    def _vectors(self, embedding: Any) -> Any:
        """An array [n, d] as a tensor on the encoder's device."""
        return self.encoder.torch.from_numpy(embedding).to(self.encoder.device)


class UnifiedScorer(JoinedScorer):
    """Represents a text by its ids; compares by the encoder and the head."""

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        mixer: Mixer,
        head: Head,
        segments: Sequence[str],
        joining: SideBySide,
    ) -> None:
        self.info = metric.info
        self.reader = reader
        self.encoder = encoder
        self.mixer = mixer
        self.head = head
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)
        self.with_source = "src" in segments
        self.with_reference = "ref" in segments
        self.joining = joining
        self.max_tokens = joining.max_tokens

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids."""
        read = self.reader.read(items)
        ids = read["ids"]
        return Reps({"ids": ids, TRUNCATION_COLUMN: read[TRUNCATION_COLUMN]}), ids.lengths

    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """One for every hypothesis with its source, and with its references one or two for every pair."""
        return self.joining.lengths(lengths, block, self.with_source, self.with_reference)

    def flops(self, lengths: IntArray) -> float:
        """Those of the encoder."""
        return self.encoder.flops(lengths)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The head's value, or the mean of it over the readings that there are, [H, R] or [H, 1]."""
        ids = reps["ids"]
        readings: list[list[FloatArray]] = []
        if self.with_source:
            h, s = hypothesis_rows(blocks)
            readings.append(by_hypothesis(self._values(ids, [h, s]), blocks))
        if self.with_reference:
            h, r = cell_rows(blocks)
            readings.append(by_block(self._values(ids, [h, r]), blocks))
            if self.with_source:
                cells = [block.cells for block in blocks]
                s = np.repeat([block.source for block in blocks], cells)
                readings.append(by_block(self._values(ids, [h, s, r]), blocks))
        return [_mean(matrices) for matrices in zip(*readings, strict=True)]

    def _values(self, ids: Ragged, parts: Sequence[IntArray]) -> FloatArray:
        """The head's value of every sequence made of one row of each part, [n]; parts: rows of the texts, [n] each."""
        joined = self.joining.sequences(ids, parts)
        batches, places = in_batches(
            joined.ids.lengths, self.batch_tokens, lambda numbers: self._first(joined.take(numbers))
        )
        with self.encoder.torch.inference_mode():
            first = self.encoder.torch.from_numpy(np.concatenate(batches)[places])  # [n, d]
            return self.head.whole(first.to(self.encoder.device))

    def _first(self, joined: JoinedTexts) -> Any:
        """The first vector of the mix, float32 [n, d]."""
        width = self.encoder.config.hidden_size
        vectors = np.empty((len(joined.ids), width), np.float32)
        all_layers = self.mixer.shares is not None
        for rows, states in self.encoder.states(joined.ids, all_layers, joined.types):
            vectors[rows] = self.mixer.vectors(states, None).cpu().numpy()
        return vectors


def _mean(matrices: Sequence[FloatArray]) -> FloatArray:
    """The mean of matrices [H, R] or [H, 1], element by element."""
    total: FloatArray = sum(matrices[1:], matrices[0])
    return total / len(matrices)
