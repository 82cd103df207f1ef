"""Agreement of a metric with people under the names of the WMT metrics task: a coefficient of rows, and its average.

`Coefficient` names what is computed of a row (`score_rows`), `averaged` takes the mean over rows where it is defined.
Pearson, Spearman, Kendall's tau-b and tau-c are scipy's; counts of pairs are those of `pair_counts`; "tau_opt" and
"acc_opt" are tau23 and acc23 with calibrated ties (`PairDifferences`); "pearson_pairwise_differences" is Pearson of
the differences of all pairs of systems of a segment, pooled over segments. All scores are higher-is-better.
A row in which one side does not vary has no correlation: it leaves the mean, or counts as 0 (`nan_as_zero`). Where
nothing is left the value is None (the task's own tool writes 0).

Tables of people's and a metric's scores, [S, N] by system and segment, as the rows over which agreement is averaged.

Averaging "none" takes all texts as one row, "sys" a row per system (over segments), "item" a row per segment (over
systems). What people did not score (nan) goes, with the metric's score of it; a row of fewer than two texts is none.

Counts of the pairs of a row that people and a metric order alike, and the coefficients made of them.

With C concordant and D discordant pairs, H tied by people only, M by the metric only, B by both, of n in all:
    agreement = acc23 = (C + B) / n     tau23 = (C + B - D - H - M) / n     (Deutsch et al. 2023)
Ties are exact; the metric also ties what differs by at most epsilon. KendallLike takes pairs that people put at least
a threshold apart: concordant if strictly in the same order, discordant otherwise, (C - D) / (C + D). At threshold 0
people's ties pass too, and count as discordant; it is none of the taus of WMT 2012 to 2014.

Coefficients of one row of people's scores with many rows of a metric's scores at once, as draws of a test need them.

The same values as `averaged_correlations.row_value`, to rounding; nan where one side does not vary.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.optional_packages import imported
from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ..statistics import PairDifferences

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
    """A correlation of a metric's and people's scores.

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


def scipy_stats() -> Any:
    """scipy.stats; raises ModelLoadError where scipy is not installed."""
    return imported("scipy.stats", "statistics")


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


Averaging = Literal["none", "sys", "item"]
AVERAGINGS = ("none", "sys", "item")
Row = tuple[FloatArray, FloatArray]  # people's scores [n], the metric's [n]


def row_cells(human: FloatArray, averaging: Averaging) -> list[IntArray]:
    """The cells of a table [S, N] that make each row, as indices into the flattened table.

    Raises:
        InputError: an unknown averaging.
    """
    if averaging not in AVERAGINGS:
        raise unknown("averaging", averaging, AVERAGINGS, where="averaging")
    cells = np.arange(human.size).reshape(human.shape)
    groups = {"none": [cells.ravel()], "sys": list(cells), "item": list(cells.T)}[averaging]
    is_scored = ~np.isnan(human.ravel())
    rows = [group[is_scored[group]] for group in groups]
    return [row for row in rows if len(row) > 1]


def score_rows(human: FloatArray, metric: FloatArray, averaging: Averaging) -> list[Row]:
    """The rows of two tables; errors as `check_tables` and `row_cells`."""
    check_tables(human, metric)
    flat_human, flat_metric = human.ravel(), metric.ravel()
    return [(flat_human[row], flat_metric[row]) for row in row_cells(human, averaging)]


def check_tables(human: FloatArray, *metrics: FloatArray) -> None:
    """Raises InputError unless tables are of one shape [S, N] and metrics score whatever people scored."""
    for metric in metrics:
        if human.ndim != 2 or metric.shape != human.shape:
            raise InputError(
                f"people's scores {human.shape}, the metric's {metric.shape}",
                where="agreement",
                fix="Give tables of the same systems and segments",
            )
        lacking = ~np.isnan(human) & ~np.isfinite(metric)
        if lacking.any():
            system, segment = np.argwhere(lacking)[0]
            raise InputError(
                f"the metric has no score of system {system}, segment {segment}, but people have",
                where="agreement",
                fix="Score every text, or leave the system out",
            )


_BLOCK_CELLS = 1 << 20  # pairs of a row at once


class OrderCounts(NamedTuple):
    """Pairs of one row."""

    concordant: int
    discordant: int
    human_ties: int  # tied by people only
    metric_ties: int  # tied by the metric only
    both_ties: int

    @property
    def pairs(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def agreed(self) -> int:
        """Those that both order alike, ties included."""
        return self.concordant + self.both_ties

    def acc23(self) -> float:
        """The share of pairs that both order alike; nan without pairs."""
        return self.agreed / self.pairs if self.pairs else float("nan")

    def tau23(self) -> float:
        """2 acc23 - 1; nan without pairs."""
        return (2 * self.agreed - self.pairs) / self.pairs if self.pairs else float("nan")


def pair_counts(human: FloatArray, metric: FloatArray, epsilon: float = 0.0) -> OrderCounts:
    """The counts of a row, both [n].

    >>> pair_counts(np.array([1.0, 2, 2]), np.array([5.0, 5, 7]))
    OrderCounts(concordant=1, discordant=0, human_ties=1, metric_ties=1, both_ties=0)
    """
    counts = np.zeros(5, np.int64)
    for by_human, by_metric in _differences(human, metric):
        human_tied = by_human == 0
        metric_tied = np.abs(by_metric) <= epsilon
        both_ordered = ~human_tied & ~metric_tied
        alike = both_ordered & ((by_human > 0) == (by_metric > 0))
        num_alike = np.count_nonzero(alike)
        counts += (
            num_alike,
            np.count_nonzero(both_ordered) - num_alike,
            np.count_nonzero(human_tied & ~metric_tied),
            np.count_nonzero(~human_tied & metric_tied),
            np.count_nonzero(human_tied & metric_tied),
        )
    return OrderCounts(*counts.tolist())


def kendall_like(
    human: FloatArray, metric: FloatArray, threshold: float = 0.0
) -> tuple[float, int]:
    """KendallLike of a row, both [n], nan without pairs; and how many pairs count.

    >>> kendall_like(np.array([1.0, 2, 2]), np.array([5.0, 6, 7]))
    (0.3333333333333333, 3)
    """
    concordant = total = 0
    for by_human, by_metric in _differences(human, metric):
        apart = np.abs(by_human) >= threshold
        concordant += int(np.count_nonzero(apart & (by_human * by_metric > 0)))
        total += int(np.count_nonzero(apart))
    return ((2 * concordant - total) / total if total else float("nan")), total


def _differences(human: FloatArray, metric: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Differences of all pairs i < j of a row, some i at a time."""
    n = len(human)
    step = max(1, _BLOCK_CELLS // max(1, n))
    for start in range(0, n, step):
        stop = min(start + step, n)
        # pairs (i, j) of the block with j > i
        i, j = np.triu_indices(stop - start, 1, n - start)
        yield human[start + i] - human[start + j], metric[start + i] - metric[start + j]


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
    """The coefficient from counts of pairs."""
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
