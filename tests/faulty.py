"""Utilities that are slow, fail to load or take their worker down, for tests of engines on other processes."""

from __future__ import annotations

import os
import time
from typing import ClassVar

from discorank.metrics.base import Info, Metric, Scorer
from discorank.metrics.errors import ModelLoadError
from discorank.metrics.settings import settings


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
