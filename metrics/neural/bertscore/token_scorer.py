"""Scorer of BERTScore: a text is the unit vectors of its tokens and their weights, a pair their best matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps, turned
from ...scorer import Passes, Scorer
from ...text.texts import Item
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.pass_flops import texts_of
from ..models.settings import ContextModelMetric
from .document_frequencies import inverse
from .matching import best_matches


class BERTScorer(Scorer):
    """Represents a text by the unit vectors of its tokens and their weights.

    Args:
        metric: the settings that all metrics with a model share.
        reader: makes ids of texts.
        encoder: makes vectors of ids; its last layer is the one that is matched.
        measure: which of these values is the score.
        sentence_only: only the tokens of the sentence are matched, not those of its context or special ones.
        frequencies: document frequencies of tokens; None where all weigh the same.
        binary_idf: of the inverse document frequency, only whether it is 0 counts.
        baseline: P, R and F of unrelated texts [3], by which scores are rescaled; None where they are not.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        *,
        measure: Literal["P", "R", "F"],
        sentence_only: bool,
        frequencies: Counter[int] | None,
        binary_idf: bool,
        baseline: FloatArray | None,
    ) -> None:
        self.info = metric.info
        self.reader = reader
        self.encoder = encoder
        self.measure = measure
        self.sentence_only = sentence_only
        self.frequencies = frequencies
        self.binary_idf = binary_idf
        self.baseline = baseline
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, where the sentence starts, and which tokens are matched with which weight."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every text."""
        lengths = reps["ids"].lengths[texts_of(block)]
        return Passes(lengths, self.encoder.flops(lengths))

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "vectors" [tokens, d] and "weights" [tokens] of what may be matched."""
        ids, starts = prepared["ids"], prepared["start"]
        normalize = self.encoder.torch.nn.functional.normalize
        vectors: list[Any] = [None] * len(ids)
        for rows, (states,) in self.encoder.states(ids):
            units = normalize(states, dim=-1).cpu().numpy()  # [rows, length, d]
            for row, unit in zip(rows.tolist(), units, strict=True):
                vectors[row] = unit[self._matched(starts[row], len(unit))]

        all_weights = self._weights(ids, starts)  # [tokens]
        bounds = zip(ids.offsets[:-1], ids.offsets[1:], starts, strict=True)
        weights = [
            all_weights[first:end][self._matched(start, end - first)]
            for first, end, start in bounds
        ]
        return Reps(
            {
                "vectors": Ragged.of_rows(vectors),
                "weights": Ragged.of_rows(weights),
                "empty": prepared["own"] == 0,
            }
        )

    def _matched(self, start: int, length: int) -> slice:
        """The tokens that may be matched, of a text of this length whose sentence begins at `start`."""
        return slice(start, length - 1) if self.sentence_only else slice(0, length)

    def _weights(self, ids: Ragged, starts: IntArray) -> Any:
        """Weight of every token, float32 [tokens]: none for context and special tokens; starts: [rows]."""
        lengths = ids.lengths
        first = np.repeat(ids.offsets[:-1], lengths)  # [tokens]
        place = np.arange(len(ids.values)) - first  # [tokens]
        begun = place >= np.repeat(starts, lengths)  # [tokens]
        ended = place >= np.repeat(lengths - 1, lengths)  # [tokens]
        own = begun & ~ended
        if self.frequencies is None:
            return own.astype(np.float32)
        idf = inverse(self.frequencies, ids.values)
        if self.binary_idf:
            idf = (idf != 0).astype(np.float32)
        return idf * own

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The chosen one of P, R and F of every pair, [H, R]."""
        matrices: list[FloatArray] = []
        p = r = np.empty((0, 0))
        for block, is_turned in zip(blocks, turned(blocks), strict=True):
            # What is precision of a pair is recall of the same one the other way round.
            if is_turned:
                p, r = r.T, p.T
            else:
                p, r = self._matches(reps, block)
            matrices.append(self._values(reps, block, p, r)[self.measure])
        return matrices

    def _matches(self, reps: Reps, block: Block) -> tuple[FloatArray, FloatArray]:
        """P and R of every pair, [H, R] each, neither rescaled nor set to 0 for empty texts."""
        return best_matches(self.encoder.device, reps["vectors"], reps["weights"], block)

    def _values(
        self,
        reps: Reps,
        block: Block,
        p: FloatArray,
        r: FloatArray,
    ) -> dict[str, FloatArray]:
        """P, R and F of every pair, [H, R] each, from unscaled P and R [H, R], which this sets to 0 for empty texts."""
        empty = reps["empty"]
        no_hypothesis = empty[block.hypotheses][:, None]  # [H, 1]
        no_reference = empty[block.references][None, :]  # [1, R]
        nothing = no_hypothesis | no_reference  # [H, R]
        p[nothing] = r[nothing] = 0
        total = p + r
        f = np.zeros_like(total)
        np.divide(2 * p * r, total, out=f, where=total != 0)
        baseline = np.zeros(3) if self.baseline is None else self.baseline
        values = zip("PRF", (p, r, f), baseline, strict=True)
        return {name: (value - base) / (1 - base) for name, value, base in values}

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """P, R and F of a pair."""
        pair = Block(block.hypotheses[[hypothesis]], block.references[[reference]])
        values = self._values(reps, pair, *self._matches(reps, pair))
        return {name: float(value[0, 0]) for name, value in values.items()}
