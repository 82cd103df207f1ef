"""Agreement of a metric with people under the names of the WMT metrics task: a coefficient of rows, and its average.

`Coefficient` names what is computed of a row (`score_rows`), `averaged` takes the mean over rows where it is defined.
Pearson, Spearman, Kendall's tau-b and tau-c are scipy's; counts of pairs are those of `pair_counts`; "tau_opt" and
"acc_opt" are tau23 and acc23 with calibrated ties (`pair_differences`); "pearson_pairwise_differences" is Pearson of
the differences of all pairs of systems of a segment, pooled over segments. All scores are higher-is-better.
A row in which one side does not vary has no correlation: it leaves the mean, or counts as 0 (`nan_as_zero`). Where
nothing is left the value is None (the task's own tool writes 0).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError
from ....metrics.representations import FloatArray
from ....metrics.spec.checked_settings import Field, settings
from ..correlation import scipy_stats
from ..pair_differences import PairDifferences
from .pair_counts import kendall_like, pair_counts
from .score_rows import Averaging, Row, check_tables, score_rows

Statistic = Literal[
    "pearson",
    "spearman",
    "kendall_b",
    "kendall_c",
    "accuracy",
    "tau23",
    "acc23",
    "tau_opt",
    "acc_opt",
    "kendall_like",
    "pearson_pairwise_differences",
]
CALIBRATED = ("tau_opt", "acc_opt")
# of which rows without variation have none
_SCIPY = {"pearson": "pearsonr", "spearman": "spearmanr"}


@settings
class Coefficient:
    """What is computed of a metric's and people's scores.

    Args:
        statistic: its name.
        averaging: "none": all texts are one row; "sys": a row per system; "item": a row per segment.
        epsilon: of tau23 and acc23: metric scores at most this far apart are tied.
        threshold: of kendall_like: pairs that people put less far apart do not count.
        nan_as_zero: whether a row without a correlation counts as 0.
        micro: whether rows are weighted by their texts (of kendall_like: their pairs); None: kendall_like alone.
        sample_rate: of tau_opt and acc_opt: the share of pairs that are drawn.
        seed: of that draw.
    """

    statistic: Statistic
    averaging: Averaging = "none"
    epsilon: Annotated[float, Field(ge=0)] = 0.0
    threshold: Annotated[float, Field(ge=0)] = 0.0
    nan_as_zero: bool = False
    micro: bool | None = None
    sample_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0


class Averaged(NamedTuple):
    """A coefficient averaged over rows."""

    value: float | None  # None where no row has one
    counted: int  # rows, or the sum of their weights
    epsilon: float | None = None  # of calibrated ties


def averaged(coefficient: Coefficient, human: FloatArray, metric: FloatArray) -> Averaged:
    """The coefficient of scores [S, N], nan where people gave none.

    Raises:
        InputError: shapes differ, a text lacks the metric's score, or there are too many pairs.
    """
    if coefficient.statistic == "pearson_pairwise_differences":
        return _pooled_differences(coefficient, human, metric)
    rows = score_rows(human, metric, coefficient.averaging)
    if coefficient.statistic in CALIBRATED:
        return _calibrated(coefficient, rows)
    values = [row_value(coefficient, row) for row in rows]
    return _mean(coefficient, values)


def _mean(coefficient: Coefficient, values: Sequence[tuple[float, int]]) -> Averaged:
    """The mean of rows' values, each with its weight."""
    is_micro = coefficient.micro
    if is_micro is None:
        is_micro = coefficient.statistic == "kendall_like"
    total, count = 0.0, 0
    for value, size in values:
        if np.isnan(value) and not coefficient.nan_as_zero:
            continue
        weight = size if is_micro else 1
        total += 0.0 if np.isnan(value) else weight * value
        count += weight
    return Averaged(total / count if count else None, count)


def row_value(coefficient: Coefficient, row: Row) -> tuple[float, int]:
    """The coefficient of one row, nan where it is not defined, and the weight of the row."""
    human, metric = row
    name = coefficient.statistic
    if name == "kendall_like":
        return kendall_like(human, metric, coefficient.threshold)
    if name in ("accuracy", "acc23", "tau23"):
        counts = pair_counts(human, metric, coefficient.epsilon)
        return (counts.tau23() if name == "tau23" else counts.acc23()), len(human)
    return correlation(name, human, metric), len(human)


def correlation(name: str, human: FloatArray, metric: FloatArray) -> float:
    """Pearson, Spearman, tau-b or tau-c of a row, nan where one side does not vary."""
    if np.ptp(human) == 0 or np.ptp(metric) == 0:
        return float("nan")
    stats = scipy_stats()
    with warnings.catch_warnings():
        # values that hardly vary: the number is as good as it gets
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        if name in _SCIPY:
            return float(getattr(stats, _SCIPY[name])(human, metric).statistic)
        return float(stats.kendalltau(human, metric, variant=name[-1]).statistic)


def _calibrated(coefficient: Coefficient, rows: Sequence[Row]) -> Averaged:
    """tau23 or acc23 at the epsilon where it is highest."""
    pairs = PairDifferences.within_rows(rows)
    if coefficient.sample_rate < 1:
        pairs = pairs.sampled(coefficient.sample_rate, np.random.default_rng(coefficient.seed))
    calibration = pairs.calibrated()
    if calibration is None:
        return Averaged(None, 0)
    accuracy, epsilon = calibration
    value = accuracy if coefficient.statistic == "acc_opt" else 2 * accuracy - 1
    return Averaged(value, len(np.unique(pairs.group)), epsilon)


def _pooled_differences(
    coefficient: Coefficient, human: FloatArray, metric: FloatArray
) -> Averaged:
    """Pearson of the differences of all ordered pairs of systems of a segment, of all segments together.

    Both orders of a pair are there, so differences have mean 0, and half of them suffice.
    """
    if coefficient.averaging != "item":
        raise InputError(
            f"averaging is {coefficient.averaging!r}",
            where="pearson_pairwise_differences",
            fix="It takes pairs of systems on a segment: averaging item",
        )
    check_tables(human, metric)
    products = human_squares = metric_squares = 0.0
    for a in range(len(human) - 1):
        by_human = human[a] - human[a + 1 :]  # [systems after a, N]
        by_metric = metric[a] - metric[a + 1 :]
        is_known = ~np.isnan(by_human)
        x, y = by_human[is_known], by_metric[is_known]
        products += float(x @ y)
        human_squares += float(x @ x)
        metric_squares += float(y @ y)
    if not (human_squares and metric_squares):
        return Averaged(0.0, 1) if coefficient.nan_as_zero else Averaged(None, 0)
    return Averaged(products / float(np.sqrt(human_squares) * np.sqrt(metric_squares)), 1)
