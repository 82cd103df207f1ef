"""What a chooser believes before anything is judged, from sets that were: weights and losses by strength.

Every set counts alike, however large. Its texts are valued with systems' means from its other documents, as in
`chooser_fit`; weights are drawn to consensus alone as if that had been seen on as many segments as one set has. No text
of a set, and no judgement, stands in what is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...metrics.representations import FloatArray
from .chooser_fit import Defaults, chosen_errors, clustered_mean, cross_fitted, effects, ridge_sums
from .measured import MeasuredTexts

CONSENSUS = (
    0.1  # the weight of consensus that nothing speaks against, in sigma for a standard deviation
)


def defaults_of(sets: Sequence[MeasuredTexts]) -> Defaults:
    """The defaults that some sets make, all with the same utility and features."""
    num_features = sets[0].columns.shape[2]
    prepared = []
    for data in sets:
        judged = data.rows(data.judged)
        _, sigma = effects(judged.errors, judged.document)
        prepared.append((judged, sigma, cross_fitted(judged)))
    alone = np.zeros(1 + num_features)
    alone[0] = CONSENSUS
    num_strengths = len(prepared[0][2])
    weights = [_pooled(prepared, k, alone) for k in range(num_strengths)]
    weights[-1] = np.eye(1 + num_features)[0]
    errors = [chosen_errors(*of_set, np.stack(weights)) for of_set in prepared]
    best = int(np.mean([np.nanmean(own, axis=1) for own in errors], axis=0).argmin())
    losses, spreads = _between_sets(prepared, [own - own[best] for own in errors])
    return Defaults(np.stack(weights), losses, spreads)


def _between_sets(
    prepared: Sequence[tuple[MeasuredTexts, float, FloatArray]],
    differences: Sequence[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """The mean over sets of every strength's loss [K], and its standard deviation between sets, noise taken off."""
    means, variances = [], []
    for (judged, _, _), own in zip(prepared, differences, strict=True):
        pairs = [
            clustered_mean(row[~np.isnan(row)], judged.document[~np.isnan(row)]) for row in own
        ]
        means.append([mean for mean, _ in pairs])
        variances.append([variance for _, variance in pairs])
    losses, spreads = [], []
    for own, noise in zip(np.array(means).T, np.array(variances).T, strict=True):
        between = float(own.var(ddof=1)) - float(noise[np.isfinite(noise)].mean())
        losses.append(float(own.mean()))
        spreads.append(max(0.0, between) ** 0.5)
    return np.array(losses), np.array(spreads)


def _pooled(
    prepared: Sequence[tuple[MeasuredTexts, float, FloatArray]],
    k: int,
    alone: FloatArray,
) -> FloatArray:
    """The weights [1 + F] of one strength, over all sets."""
    products = np.eye(len(alone))
    targets = alone.copy()
    for judged, sigma, consensus in prepared:
        own_products, own_targets = ridge_sums(judged, sigma, consensus[k])
        size = judged.errors.size
        products = products + own_products / size
        targets = targets + own_targets / size
    return np.asarray(np.linalg.solve(products, targets), np.float64)
