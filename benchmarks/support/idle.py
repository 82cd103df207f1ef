"""A metric that does nothing for a while: to see what everything around a metric costs."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import ClassVar

import numpy as np

from discorank.metrics.base import Metric
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item


@settings
class Idle(Metric):
    """Zeros, after a while."""

    seconds: float = 0.0  # per list
    name: ClassVar[str] = f"{__name__}:Idle"
    info: ClassVar[Info] = Info(summary="zeros")

    def load(self) -> Scorer:
        return IdleScorer(self)


class IdleScorer(Scorer):
    def __init__(self, metric: Idle) -> None:
        self.info, self.seconds = metric.info, metric.seconds

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        return Reps({"nothing": np.zeros(len(items))}), np.ones(len(items), np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        sleep(self.seconds * len(blocks))
        return [np.zeros((len(block.hypotheses), len(block.references))) for block in blocks]
