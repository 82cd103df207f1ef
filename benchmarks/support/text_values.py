"""Values of the texts of many segments at once: consensus, standardised within segments, and what is chosen.

They are those of `MBRDecoder` and `Reranker` with ``normalize="zscore"``, as arrays of n segments and S texts.
"""

from __future__ import annotations

import numpy as np

from discorank.metrics.representations import FloatArray, IntArray

CLOSE = 1e-9  # what is within this of the best, relatively, is as good


def standard(values: FloatArray) -> FloatArray:
    """Values [n, S] less their mean, over their standard deviation, within segments; 0 where they do not vary."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviations = values.std(axis=1, keepdims=True)
    varies = (np.ptp(values, axis=1, keepdims=True) > 0) & (deviations > 0)
    return np.asarray(np.where(varies, centred / np.where(varies, deviations, 1.0), 0.0))


def consensus(utilities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Standardised expected utilities [n, S] of [n, S, S]; pseudo-references weigh alike, or by weights [S]."""
    if weights is None:
        weights = np.ones(utilities.shape[2])
    return standard(utilities @ (weights / weights.sum()))


def prior_weights(means: FloatArray, sigma: float, strength: float) -> FloatArray:
    """The weights of systems [S] with these mean errors, exp(-k m / sigma), the best system's 1."""
    return np.asarray(np.exp(-strength * (means - means.min()) / sigma))


def chosen(values: FloatArray) -> IntArray:
    """The best of every row [n, S], the first of those that are equally good, [n]."""
    best = values.max(axis=1, keepdims=True)
    return np.asarray((values >= best - CLOSE * np.abs(best)).argmax(axis=1))
