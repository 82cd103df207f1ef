"""How many forward passes deciding some lists takes, before any model is loaded: texts are tokenised, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..metrics.base import Metric
from ..metrics.execution.by_sentence import lift
from ..metrics.execution.meter import Meter
from ..metrics.execution.store import Fresh, Store
from ..metrics.scorer import Passes, Scorer
from ..metrics.text.texts import NO_CONTEXT, Comparison, Text


class PassCounts:
    """Counts of the lists so far.

    Args:
        metric: the metric.
        scorer: its `unloaded` scorer.
    """

    def __init__(self, metric: Metric, scorer: Scorer) -> None:
        self.metric, self.scorer = metric, scorer
        self.passes = 0
        self.tokens = 0
        self.flops = 0.0

    def add(
        self, hypotheses: Sequence[Text], references: Sequence[Text], source: Text | None
    ) -> None:
        """Counts one list, all pairs of it, without context; one that lacks a source it needs costs nothing."""
        if self.metric.needs_source and source is None:
            return
        comparison = self.metric.comparison(hypotheses, references, source, NO_CONTEXT)
        for part in lift(self.metric, comparison):
            passes = self._passes(part)
            self.passes += len(passes.lengths)
            self.tokens += int(passes.lengths.sum())
            self.flops += passes.flops

    def _passes(self, comparison: Comparison) -> Passes:
        texts = [*comparison.hypotheses, *comparison.references]
        if comparison.source is not None:
            texts.append(comparison.source)
        rows = {item: row for row, item in enumerate(dict.fromkeys(texts))}
        prepared, lengths = self.scorer.prepare(list(rows))
        fresh = Fresh(prepared, lengths, np.zeros(len(rows), np.int64))
        (block,) = Store.holding(self.scorer, rows, fresh, Meter()).add([comparison])
        return self.scorer.passes(prepared, block)
