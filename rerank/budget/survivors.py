"""Which hypotheses remain: the best of some by a value, those in front winning ties."""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Observed


def affordable_rows(observed: Observed) -> IntArray:
    """All hypotheses, or as many of the first ones, which are the best by the cheap utility, as a pair each allows."""
    return np.arange(min(observed.problem.num_rows, observed.left))


def best(values: FloatArray, among: IntArray, count: int) -> IntArray:
    """The `count` of these hypotheses with the highest values [H], in ascending order; what is NaN comes last."""
    descending = np.argsort(-values[among], kind="stable")
    return np.sort(among[descending[:count]])


def only(values: FloatArray, among: IntArray) -> FloatArray:
    """The values [H] of these hypotheses, NaN for the others."""
    kept = np.full(len(values), np.nan)
    kept[among] = values[among]
    return kept
