"""Coefficients of one row of people's scores with many rows of a metric's scores at once, as draws of a test need them.

The same values as `averaged_correlations.row_value`, to rounding; nan where one side does not vary.
"""

from __future__ import annotations

import numpy as np

from ....metrics.representations import FloatArray
from ..correlation import scipy_stats
from .averaged_correlations import Coefficient, row_value

_MAX_PAIRS = 1 << 14  # of a row; longer ones are taken one by one


def row_values(coefficient: Coefficient, human: FloatArray, metrics: FloatArray) -> FloatArray:
    """The coefficient of people's scores [n] with each row of metrics [b, n], [b]."""
    name, n = coefficient.statistic, len(human)
    if name == "pearson":
        return _pearsons(human, metrics)
    if name == "spearman":
        ranks = scipy_stats().rankdata
        return _pearsons(ranks(human), ranks(metrics, axis=1))
    if n * (n - 1) // 2 > _MAX_PAIRS:
        values = [row_value(coefficient, (human, metric))[0] for metric in metrics]
        return np.array(values)
    return _of_pairs(coefficient, human, metrics)


def _pearsons(human: FloatArray, metrics: FloatArray) -> FloatArray:
    """Pearson's correlation."""
    undefined = np.full(len(metrics), np.nan)
    if np.ptp(human) == 0:
        return undefined
    x = human - human.mean()
    y = metrics - metrics.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(x) * np.linalg.norm(y, axis=1)
    varies = np.ptp(metrics, axis=1) > 0
    return np.asarray(np.divide(y @ x, norms, out=undefined, where=varies))


def _of_pairs(coefficient: Coefficient, human: FloatArray, metrics: FloatArray) -> FloatArray:
    """What counts of pairs make."""
    a, b = np.triu_indices(len(human), 1)
    by_human = human[a] - human[b]  # [pairs]
    by_metric = metrics[:, a] - metrics[:, b]  # [b, pairs]
    if coefficient.statistic == "kendall_like":
        return _kendall_likes(coefficient.threshold, by_human, by_metric)
    human_signs = np.sign(by_human)
    is_tied = np.abs(by_metric) <= coefficient.epsilon
    metric_signs = np.where(is_tied, 0, np.sign(by_metric))
    if coefficient.statistic in ("accuracy", "acc23", "tau23"):
        accuracy = (metric_signs == human_signs).mean(axis=1)
        return np.asarray(2 * accuracy - 1 if coefficient.statistic == "tau23" else accuracy)
    balance = metric_signs @ human_signs  # concordant less discordant
    if coefficient.statistic == "kendall_b":
        denominators = np.sqrt(
            np.count_nonzero(metric_signs, axis=1) * float(np.count_nonzero(human_signs))
        )
    else:
        denominators = _tau_c_denominators(human, metrics)
    undefined = np.full(len(metrics), np.nan)
    return np.asarray(np.divide(balance, denominators, out=undefined, where=denominators > 0))


def _kendall_likes(threshold: float, by_human: FloatArray, by_metric: FloatArray) -> FloatArray:
    """KendallLike of differences [pairs] and [b, pairs]."""
    apart = np.abs(by_human) >= threshold
    total = np.count_nonzero(apart)
    if not total:
        return np.full(len(by_metric), np.nan)
    concordant = np.count_nonzero(by_metric[:, apart] * by_human[apart] > 0, axis=1)
    return np.asarray((2 * concordant - total) / total)


def _tau_c_denominators(human: FloatArray, metrics: FloatArray) -> FloatArray:
    """n^2 (m - 1) / 2m, with m the smaller number of distinct values; 0 where nothing varies."""
    ascending = np.sort(metrics, axis=1)
    num_distinct = 1 + np.count_nonzero(np.diff(ascending, axis=1), axis=1)
    m = np.minimum(num_distinct, len(np.unique(human)))
    return np.asarray(len(human) ** 2 * (m - 1) / (2 * m))
