"""How many forward passes, and calls of servers, deciding some lists takes, before any model is loaded or asked.

Texts are tokenised and prompts filled, nothing else. Equal requests count once, over all lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..metrics.base import Metric
from ..metrics.execution.by_sentence import compared, is_by_units, lift
from ..metrics.execution.meter import Meter
from ..metrics.execution.store import Fresh, Store
from ..metrics.representations import Block, Reps
from ..metrics.scorer import Scorer
from ..metrics.text.texts import NO_CONTEXT, Comparison, Text


class PassCounts:
    """Counts of the lists so far.

    Args:
        metric: the metric.
        scorer: its `unloaded` scorer.
    """

    def __init__(self, metric: Metric, scorer: Scorer) -> None:
        self.metric, self.scorer = metric.with_scorer(scorer), scorer
        self.passes = 0
        self.tokens = 0
        self.flops = 0.0
        self.requests: dict[bytes, int] = {}  # about how many tokens each has, by its key
        self.num_answered: Callable[[Sequence[bytes]], int] = lambda keys: 0

    def add(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None,
    ) -> None:
        """Counts one list, all pairs of it, without context; one that lacks a source it needs costs nothing."""
        if self.metric.needs_source and source is None:
            return
        self.add_comparison(self.metric.comparison(hypotheses, references, source, NO_CONTEXT))

    def add_comparison(self, comparison: Comparison) -> None:
        """Counts one list with the context of its items."""
        in_units = is_by_units(self.metric, comparison)
        parts = (compared if in_units else lift)(self.metric, comparison)
        for part in parts:
            prepared, block = self._prepared(part)
            requested = self.scorer.requested(prepared, block)
            if requested is not None:
                self.requests |= requested.tokens
                self.num_answered = requested.num_answered
            passes = self.scorer.passes(prepared, block)
            self.passes += len(passes.lengths)
            self.tokens += int(passes.lengths.sum())
            self.flops += passes.flops

    def calls(self) -> dict[str, int]:
        """The calls of servers that lists need, those already answered, and about how many tokens prompts have."""
        keys = list(self.requests)
        return {
            "calls": len(keys),
            "kept_answers": self.num_answered(keys),
            "prompt_tokens": sum(self.requests.values()),
        }

    def _prepared(self, comparison: Comparison) -> tuple[Reps, Block]:
        """The texts of a comparison as the scorer prepares them, and its block."""
        texts = [*comparison.hypotheses, *comparison.references]
        if comparison.source is not None:
            texts.append(comparison.source)
        rows = {item: row for row, item in enumerate(dict.fromkeys(texts))}
        prepared, lengths = self.scorer.prepare(list(rows))
        fresh = Fresh(prepared, lengths, np.zeros(len(rows), np.int64))
        (block,) = Store.holding(self.scorer, rows, fresh, Meter()).add([comparison])
        return prepared, block
