"""A user's Python function as a metric: called once per pair of distinct texts, trusted with nothing else.

u(hypothesis, reference) -> float        higher is better
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Metric
from .errors import MetricError, is_interrupt
from .representations import Block, FloatArray, IntArray, Reps
from .scorer import Info, Scorer
from .text.texts import Item, Text


@dataclass(frozen=True)
class Function(Metric):
    """Any callable of two texts; its signature is ``module:name``, by which it is found again, unless labelled."""

    call: Callable[[Text, Text], float]
    label: str = ""
    info: ClassVar[Info] = Info(
        summary="a Python function of two texts", unit="document", costly_pairs=True
    )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Where the function is found again."""
        if self.label:
            return self.label
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        return f"{self.call.__module__}:{name}"

    def signature(self) -> str:
        """The name: a function has no settings."""
        return self.name

    def load(self) -> FunctionScorer:
        """The function, ready to be called."""
        return FunctionScorer(self)


class FunctionScorer(Scorer):
    """Keeps the texts as they are and calls the function for each pair."""

    def __init__(self, metric: Function) -> None:
        self.info, self.metric = metric.info, metric

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The texts themselves, and their lengths in characters."""
        texts = np.empty(len(items), object)
        texts[:] = [item.text for item in items]
        lengths = np.array([len(str(text)) for text in texts], np.int64)
        return Reps({"text": texts}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """One call per pair.

        Raises:
            MetricError: the function raised, or returned something that is not a number.
        """
        texts = reps["text"]
        matrices = []
        for block in blocks:
            references = texts[block.references]
            rows = [[self._value(h, r) for r in references] for h in texts[block.hypotheses]]
            matrices.append(np.array(rows))
        return matrices

    def _value(self, hypothesis: Text, reference: Text) -> float:
        """The function's value of a pair; whatever goes wrong in it is a MetricError."""
        try:
            value: Any = self.metric.call(hypothesis, reference)
            return float(value)
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise MetricError(f"{type(error).__name__}: {error}", where=self.metric.name) from error
