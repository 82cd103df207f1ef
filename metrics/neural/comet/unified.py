"""Scorer of COMET's unified models (UniTE, CometKiwi): texts side by side in one sequence, a head on its first vector.

    FIRST mt LAST LAST src LAST,   FIRST mt LAST LAST ref LAST,   FIRST mt LAST LAST src LAST LAST ref LAST

Every pair is a forward pass of its own.
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
    cell_rows,
)
from ...scorer import Scorer
from ...text.texts import Item, Truncation
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.settings import ContextModelMetric
from .head import Head
from .pooling import Mixer


class UnifiedScorer(Scorer):
    """Represents a text by its ids; compares by the encoder and the head."""

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        mixer: Mixer,
        head: Head,
        segments: Sequence[str],
    ) -> None:
        self.info, self.reader, self.encoder, self.mixer, self.head = (
            metric.info,
            reader,
            encoder,
            mixer,
            head,
        )
        self.batch_tokens, self.identity = encoder.batch_tokens, metric.identity(encoder.device)
        self.with_source, self.with_reference = "src" in segments, "ref" in segments
        self.max_tokens = encoder.max_tokens

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids."""
        read = self.reader.read(items)
        return Reps({"ids": read["ids"], TRUNCATION_COLUMN: read[TRUNCATION_COLUMN]}), read[
            "ids"
        ].lengths

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of all sequences of a block."""
        lengths = reps["ids"].lengths
        h, s = int(lengths[block.hypotheses].sum()), int(lengths[block.source])
        if not self.with_reference:
            return h + s * len(block.hypotheses)
        r = int(lengths[block.references].sum())
        pairs = h * len(block.references) + r * len(block.hypotheses)
        return 2 * pairs + s * block.cells if self.with_source else pairs

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest sequence of a block loses its end."""
        lengths = reps["ids"].lengths
        longest = int(lengths[block.hypotheses].max(initial=0))
        longest += int(lengths[block.source]) if self.with_source else 0
        longest += int(lengths[block.references].max(initial=0)) if self.with_reference else 0
        return Truncation.TEXT if longest > self.max_tokens else Truncation.NONE

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The head's value, or the mean of it over the readings that there are, [H, R] or [H, 1]."""
        ids = reps["ids"]
        found: list[list[FloatArray]] = []
        if self.with_source:
            h = np.concatenate([block.hypotheses for block in blocks])
            s = np.repeat(
                [block.source for block in blocks], [len(block.hypotheses) for block in blocks]
            )
            alone = np.split(
                self._values(ids, [h, s]), np.cumsum([len(b.hypotheses) for b in blocks])[:-1]
            )
            found.append([values[:, None] for values in alone])
        if self.with_reference:
            h, r = cell_rows(blocks)
            found.append(by_block(self._values(ids, [h, r]), blocks))
            if self.with_source:
                s = np.repeat([block.source for block in blocks], [block.cells for block in blocks])
                found.append(by_block(self._values(ids, [h, s, r]), blocks))
        return [sum(some[1:], some[0]) / len(found) for some in zip(*found, strict=True)]

    def _values(self, ids: Ragged, parts: Sequence[IntArray]) -> FloatArray:
        """The head's value of every sequence made of one row of each part, [n]."""
        text = [ids.values[a:b] for a, b in zip(ids.offsets[:-1], ids.offsets[1:], strict=True)]
        sequences = Ragged.of_rows(
            [self._joined([text[i] for i in rows]) for rows in zip(*parts, strict=True)]
        )
        found, places = in_batches(
            sequences.lengths, self.batch_tokens, lambda some: self._first(sequences[some])
        )
        with self.encoder.torch.inference_mode():
            first = self.encoder.torch.from_numpy(np.concatenate(found)[places]).to(
                self.encoder.device
            )
            return self.head.whole(first)

    def _joined(self, parts: Sequence[IntArray]) -> IntArray:
        """The sequence; what is too long loses its right end, the last token too, as in the released code."""
        _, *rest = parts
        last = parts[0][-1:]
        return np.concatenate([parts[0], *(x for part in rest for x in (last, part[1:]))])[
            : self.max_tokens
        ]

    def _first(self, sequences: Ragged) -> Any:
        """The first vector of the mix, float32 [n, d]."""
        found = np.empty((len(sequences), self.encoder.config.hidden_size), np.float32)
        for rows, states in self.encoder.states(
            sequences, all_layers=self.mixer.shares is not None
        ):
            found[rows] = self.mixer.vectors(states, None).cpu().numpy()
        return found
