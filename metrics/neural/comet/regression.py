"""Scorer of the regression models of COMET and SEScore2: one vector per text, a head over vectors of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...representations import Block, FloatArray, IntArray, Reps
from ...scorer import Scorer
from ...text.texts import Item
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.settings import ContextModelMetric
from .head import Head, PairHead, source_features
from .pooling import Mixer


class RegressionScorer(Scorer):
    """Represents a text by its pooled vector; compares by the head, with references or without."""

    def __init__(
        self, metric: ContextModelMetric, reader: Reader, encoder: Encoder, mixer: Mixer, head: Head
    ) -> None:
        self.info, self.reader, self.encoder, self.mixer, self.head = (
            metric.info,
            reader,
            encoder,
            mixer,
            head,
        )
        self.batch_tokens, self.identity = encoder.batch_tokens, metric.identity(encoder.device)
        self.in_context = metric.context > 0
        self.pairs = (
            PairHead(head, metric.info.needs_source) if metric.info.needs_references else None
        )

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids and where the sentence starts."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def represent(self, prepared: Reps) -> Reps:
        """The pooled vectors, "embedding" float32 [rows, d]."""
        found = np.empty((len(prepared), self.encoder.config.hidden_size), np.float32)
        for rows, states in self.encoder.states(
            prepared["ids"], all_layers=self.mixer.shares is not None
        ):
            starts = prepared["start"][rows] if self.in_context else None
            found[rows] = self.mixer.vectors(states, starts).cpu().numpy()
        return Reps({"embedding": found})

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        with self.encoder.torch.inference_mode():
            if self.pairs is not None:
                return self.pairs.compare(self._vectors(reps["embedding"]), blocks)
            return self._against_source(reps["embedding"], blocks)

    def _against_source(self, embedding: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        h = embedding[np.concatenate([block.hypotheses for block in blocks])]
        s = embedding[
            np.repeat(
                [block.source for block in blocks], [len(block.hypotheses) for block in blocks]
            )
        ]
        values = self.head.whole(source_features(self._vectors(h), self._vectors(s)))
        ends = np.cumsum([len(block.hypotheses) for block in blocks])[:-1]
        return [part[:, None] for part in np.split(values, ends)]

    def _vectors(self, embedding: Any) -> Any:
        return self.encoder.torch.from_numpy(embedding).to(self.encoder.device)
