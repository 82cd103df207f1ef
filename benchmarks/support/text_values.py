"""Consensus of the texts of many segments at once: what `MBRDecoder` expects, standardised within segments."""

from __future__ import annotations

import numpy as np

from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.segment_values import standard


def consensus(utilities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Standardised expected utilities [n, S] of [n, S, S]; pseudo-references weigh alike, or by weights [S]."""
    if weights is None:
        weights = np.ones(utilities.shape[2])
    return standard(utilities @ (weights / weights.sum()))
