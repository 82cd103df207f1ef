"""Scorers whose corpus score is made of counts, summed over segments: BLEU and NIST, clipped over all references."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..representations import Block, FloatArray, IntArray, Reps
from ..scorer import Scorer


class StatisticsScorer(Scorer):
    """Values of segments with several references, and of a corpus, from statistics of each segment."""

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H] of every block, clipped over all its references together."""
        values = []
        for block in blocks:
            rows = [self._counts(reps, int(h), block.references) for h in block.hypotheses]
            values.append(self._segment_values(np.array(rows).T))
        return values

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Statistics of the first hypothesis of every block, [n, statistics]; `_counts` says which."""
        rows = []
        for block in blocks:
            hypothesis = int(block.hypotheses[0])
            rows.append(self._counts(reps, hypothesis, block.references))
        return np.array(rows)

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """Values [n] of one-hypothesis blocks, and their statistics [n, statistics]."""
        statistics = self.statistics(reps, blocks)
        return self._segment_values(statistics.T), statistics

    def aggregate(self, statistics: FloatArray) -> float:
        """The corpus score of the summed statistics."""
        sums = statistics.sum(axis=0)[:, None]
        return float(self._corpus_values(sums)[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The corpus scores [b] of b summed statistics."""
        return self._corpus_values(sums.T)

    @abstractmethod
    def _counts(self, reps: Reps, hypothesis: int, references: IntArray) -> list[float]:
        """The statistics of one segment."""

    @abstractmethod
    def _segment_values(self, columns: FloatArray) -> FloatArray:
        """Values [n] of the statistics of segments, [statistics, n]."""

    @abstractmethod
    def _corpus_values(self, columns: FloatArray) -> FloatArray:
        """Values [n] of summed statistics, [statistics, n]."""
