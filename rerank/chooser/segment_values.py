"""Values of the texts of segments: expected utility under a prior over systems, standardised, and the best text.

Arrays are of n segments and S systems; a text that a system lacks is nan everywhere and counts for nothing.
"""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray


def pseudo_weights(means: FloatArray, sigma: float, strength: float) -> FloatArray:
    """w of systems [..., S], as `Prior.weights`; of a system without a text the mean is infinite."""
    gaps = means - means.min(axis=-1, keepdims=True)
    if not strength:
        return np.where(np.isinf(gaps), 0.0, 1.0)
    return np.asarray(np.exp(-strength * gaps / sigma))


def expected(utilities: FloatArray, means: FloatArray, sigma: float, strength: float) -> FloatArray:
    """Standardised expected utilities, [n, S]; nan of texts that are missing."""
    is_missing = np.isnan(np.diagonal(utilities, axis1=1, axis2=2))
    if not is_missing.any():
        weights = pseudo_weights(means, sigma, strength)
        return standard(utilities @ (weights / weights.sum()))
    weights = pseudo_weights(np.where(is_missing, np.inf, means), sigma, strength)
    shares = weights / weights.sum(axis=1, keepdims=True)
    sums = np.einsum("nhr,nr->nh", np.nan_to_num(utilities), shares)
    return standard(np.where(is_missing, np.nan, sums))


def standard(values: FloatArray) -> FloatArray:
    """Values [n, S] less their mean, over their standard deviation, within segments; 0 where they do not vary.

    A nan stays one and counts for nothing.
    """
    centred = values - np.nanmean(values, axis=1, keepdims=True)
    deviations = np.nanstd(values, axis=1, keepdims=True)
    varies = np.nanmax(values, axis=1, keepdims=True) > np.nanmin(values, axis=1, keepdims=True)
    varies &= deviations > 0  # squares of the least differences vanish
    none = np.where(np.isnan(values), np.nan, 0.0)
    return np.asarray(np.where(varies, centred / np.where(varies, deviations, 1), none))


def first_best(values: FloatArray) -> IntArray:
    """The best of every row [n, S], within rounding the first, [n]; a nan is never the best."""
    best = np.nanmax(values, axis=1, keepdims=True)
    return np.asarray((values >= best - 1e-9 * np.abs(best)).argmax(axis=1))
