"""Utilities that are slow, fail to load or take their worker down, for tests of engines on other processes."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from discorank.metrics.base import Info, Metric, Scorer
from discorank.metrics.errors import ModelLoadError
from discorank.metrics.reps import Block, FloatArray, IntArray, Ragged, Reps
from discorank.metrics.settings import settings
from discorank.metrics.texts import Item


def overlap(hypothesis: str, reference: str) -> float:
    """Shared words, after a little while."""
    time.sleep(0.0003)
    return float(len(set(hypothesis.split()) & set(reference.split())))


def deadly(hypothesis: str, reference: str) -> float:
    """Shared words; a text "kill" ends the process."""
    if hypothesis == "kill":
        os._exit(1)
    return overlap(hypothesis, reference)


def endless(hypothesis: str, reference: str) -> float:
    """Shared words; a text "hang" takes for ever."""
    if hypothesis == "hang":
        time.sleep(3600)
    return overlap(hypothesis, reference)


class Squatter:
    """Holds cores."""


@settings
class Missing(Metric):
    """A metric whose model is not there."""

    name: ClassVar[str] = "faulty:Missing"
    info: ClassVar[Info] = Info(summary="toy", paper="none")

    def load(self) -> Scorer:
        raise ModelLoadError("not on this node", where="model", fix="Copy it there")


def sleepy(hypothesis: str, reference: str) -> float:
    """Shared words; a text "sleep" takes a second."""
    if hypothesis == "sleep":
        time.sleep(1)
    return overlap(hypothesis, reference)


@settings
class Hungry(Metric):
    """Shared words; at most 100 pairs, and 8 texts, fit into the memory at once."""

    name: ClassVar[str] = "tests.faulty:Hungry"
    info: ClassVar[Info] = Info(summary="toy", paper="none", bucketed=True)

    def load(self) -> Scorer:
        return HungryScorer()


class HungryScorer(Scorer):
    """Refuses what does not fit."""

    info = Hungry.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        words = [sorted({zlib.crc32(word.encode()) for word in str(item.text).split()}) for item in items]
        lengths = np.array([len(some) for some in words], np.int64)
        return Reps({"words": Ragged.of_rows([np.array(some, np.int64) for some in words])}), lengths

    def represent(self, prepared: Reps) -> Reps:
        if len(prepared) > 8:
            raise MemoryError
        return prepared

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        import torch

        if sum(block.cells for block in blocks) > 100:
            raise torch.OutOfMemoryError
        sets = [set(reps["words"][np.array([row])].values.tolist()) for row in range(len(reps))]
        return [
            np.array([[float(len(sets[h] & sets[r])) for r in block.references] for h in block.hypotheses])
            for block in blocks
        ]
