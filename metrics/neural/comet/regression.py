"""Scorer of the regression models of COMET and SEScore2: one vector per text, a head over vectors of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...representations import Block, FloatArray, IntArray, Reps
from ...scorer import Passes, Scorer
from ...text.texts import Item
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.pass_flops import texts_of
from ..models.settings import ContextModelMetric
from .head import Head, PairHead, by_hypothesis, hypothesis_rows, source_features
from .pooling import Mixer


class RegressionScorer(Scorer):
    """Represents a text by its pooled vector; compares by the head, with references or without."""

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        mixer: Mixer,
        head: Head,
    ) -> None:
        self.info = metric.info
        self.reader = reader
        self.encoder = encoder
        self.mixer = mixer
        self.head = head
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)
        self.in_context = metric.context > 0
        self.pair_head: PairHead | None = None
        if metric.info.needs_references:
            self.pair_head = PairHead(head, metric.info.needs_source)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids and where the sentence starts."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every text."""
        lengths = reps["ids"].lengths[texts_of(block)]
        return Passes(lengths, self.encoder.flops(lengths))

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

    def _against_source(
        self,
        embedding: Any,
        blocks: Sequence[Block],
    ) -> list[FloatArray]:
        """Values [H, 1] of every block; embedding: [rows, d]."""
        hypotheses, sources = hypothesis_rows(blocks)
        h = self._vectors(embedding[hypotheses])  # [hypotheses, d]
        s = self._vectors(embedding[sources])  # [hypotheses, d]
        return by_hypothesis(self.head.whole(source_features(h, s)), blocks)

    def _vectors(self, embedding: Any) -> Any:
        """An array [n, d] as a tensor on the encoder's device."""
        return self.encoder.torch.from_numpy(embedding).to(self.encoder.device)
