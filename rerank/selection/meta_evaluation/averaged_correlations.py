"""Agreement of a metric with people under the names of the WMT metrics task: a coefficient of rows, and its average.

Tables of people's and a metric's scores, [S, N] by system and segment, are averaged over rows: averaging "none" takes
all texts as one row, "sys" a row per system (over segments), "item" a row per segment (over systems). What people did
not score (nan) goes, with the metric's score of it; a row of fewer than two texts is none. A row in which one side does
not vary has no correlation: it leaves the mean, or counts as 0 (`nan_as_zero`). Where nothing is left the value is None
(the task's own tool writes 0). All scores are higher-is-better.

Pearson, Spearman, tau-b and tau-c are the usual ones. With C concordant and D discordant pairs, B tied by both, of n in
all, people's ties T and the metric's U:
    tau_b = (C - D) / sqrt((n - T)(n - U))     tau_c = 2 m (C - D) / (N^2 (m - 1)), m the fewer distinct values of N
    agreement = acc23 = (C + B) / n            tau23 = 2 acc23 - 1                          (Deutsch et al. 2023)
Ties are exact; in acc23 and tau23 the metric also ties what differs by at most epsilon, which "tau_opt" and "acc_opt"
calibrate (`PairDifferences`). KendallLike takes pairs that people put at least a threshold apart: concordant if
strictly in the same order, discordant otherwise, (C - D) / (C + D). At threshold 0 people's ties pass too, and count
as discordant; it is none of the taus of WMT 2012 to 2014. "pearson_pairwise_differences" is Pearson of the differences
of all pairs of systems of a segment, pooled over segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ..statistics import PairDifferences, correlation, mean_ranks

Averaging = Literal["none", "sys", "item"]
AVERAGINGS = ("none", "sys", "item")
Row = tuple[FloatArray, FloatArray]  # people's scores [n], the metric's [n]
BLOCK_CELLS = 1 << 20  # pairs of rows at once
MAX_PAIRS = 1 << 14  # of a row for tau-b; longer ones are sorted
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

    @property
    def is_micro(self) -> bool:
        """Whether rows are weighted."""
        return self.statistic == "kendall_like" if self.micro is None else self.micro


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
    check_tables(human, metric)
    if coefficient.statistic == "pearson_pairwise_differences":
        return _pooled_differences(coefficient, human, metric)
    if coefficient.statistic in CALIBRATED:
        return _calibrated(coefficient, score_rows(human, metric, coefficient.averaging))
    rows = row_cells(human, coefficient.averaging)
    values, counted = averages(coefficient, human.ravel(), rows, metric.reshape(1, -1))
    return Averaged(None if np.isnan(values[0]) else float(values[0]), int(counted[0]))


def averages(
    coefficient: Coefficient, people: FloatArray, rows: Sequence[IntArray], cells: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The coefficient of people's scores [cells] with many of a metric [b, cells], averaged over rows.

    Returns:
        the means [b], nan where no row has a value, and the weight of the rows that count, [b].
    """
    totals = np.zeros(len(cells))
    weights = np.zeros(len(cells))
    for row in rows:
        values, size = row_values(coefficient, people[row], cells[:, row])
        weight = size if coefficient.is_micro else 1
        is_defined = ~np.isnan(values)
        totals += np.where(is_defined, weight * values, 0.0)
        weights += weight if coefficient.nan_as_zero else weight * is_defined
    undefined = np.full(len(cells), np.nan)
    return np.divide(totals, weights, out=undefined, where=weights > 0), weights


def row_values(
    coefficient: Coefficient, human: FloatArray, metrics: FloatArray
) -> tuple[FloatArray, int]:
    """The coefficient of people's scores [n] with each row of metrics [b, n], [b], nan where it is not defined.

    Returns:
        the values, and the weight of the row.
    """
    name, n = coefficient.statistic, len(human)
    if name == "kendall_like":
        return kendall_like(human, metrics, coefficient.threshold)
    if name == "pearson":
        return _pearsons(human, metrics), n
    if name == "spearman":
        ranks = np.array([mean_ranks(metric) for metric in metrics])
        return _pearsons(mean_ranks(human), ranks), n
    if name == "kendall_b" and n * (n - 1) // 2 > MAX_PAIRS:
        return np.array([correlation("tau_b", human, metric) for metric in metrics]), n
    counts = pair_counts(human, metrics, coefficient.epsilon)
    if name == "kendall_b":
        numerators, denominators = counts.balance, np.sqrt(counts.ranked * counts.human_ranked)
    elif name == "kendall_c":
        numerators, denominators = counts.balance, _tau_c_denominators(human, metrics)
    else:
        numerators = 2 * counts.agreed - counts.pairs if name == "tau23" else counts.agreed
        denominators = np.full(len(metrics), float(counts.pairs))
    undefined = np.full(len(metrics), np.nan)
    return np.divide(numerators, denominators, out=undefined, where=denominators > 0), n


class OrderCounts(NamedTuple):
    """Pairs of a row by each of b metrics."""

    agreed: FloatArray  # ordered as people do, ties included, [b]
    balance: FloatArray  # concordant less discordant, [b]
    ranked: FloatArray  # not tied by the metric, [b]
    human_ranked: int  # not tied by people
    pairs: int


def pair_counts(human: FloatArray, metrics: FloatArray, epsilon: float = 0.0) -> OrderCounts:
    """The counts of people's scores [n] and a metric's [b, n].

    >>> pair_counts(np.array([1.0, 2, 2]), np.array([[5.0, 5, 7]]))
    OrderCounts(agreed=array([1.]), balance=array([1.]), ranked=array([2.]), human_ranked=2, pairs=3)
    """
    agreed, balance, ranked = np.zeros((3, len(metrics)))
    human_ranked = 0
    for by_human, by_metric in _differences(human, metrics):
        human_signs = np.sign(by_human)
        signs = np.where(np.abs(by_metric) <= epsilon, 0.0, np.sign(by_metric))
        agreed += np.count_nonzero(signs == human_signs, axis=1)
        balance += signs @ human_signs
        ranked += np.count_nonzero(signs, axis=1)
        human_ranked += int(np.count_nonzero(human_signs))
    return OrderCounts(agreed, balance, ranked, human_ranked, len(human) * (len(human) - 1) // 2)


def kendall_like(
    human: FloatArray, metrics: FloatArray, threshold: float = 0.0
) -> tuple[FloatArray, int]:
    """KendallLike of people's scores [n] and a metric's [b, n], nan without pairs; and how many pairs count.

    >>> kendall_like(np.array([1.0, 2, 2]), np.array([[5.0, 6, 7]]))
    (array([0.33333333]), 3)
    """
    concordant = np.zeros(len(metrics))
    total = 0
    for by_human, by_metric in _differences(human, metrics):
        apart = np.abs(by_human) >= threshold
        concordant += np.count_nonzero(by_metric[:, apart] * by_human[apart] > 0, axis=1)
        total += int(np.count_nonzero(apart))
    undefined = np.full(len(metrics), np.nan)
    return (2 * concordant - total) / total if total else undefined, total


def _differences(human: FloatArray, metrics: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Differences of all pairs i < j of a row, [pairs] and [b, pairs], some i at a time."""
    n = len(human)
    step = max(1, BLOCK_CELLS // max(1, n * len(metrics)))
    for start in range(0, n, step):
        stop = min(start + step, n)
        # pairs (i, j) of the block with j > i
        i, j = np.triu_indices(stop - start, 1, n - start)
        i, j = start + i, start + j
        yield human[i] - human[j], metrics[:, i] - metrics[:, j]


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


def _tau_c_denominators(human: FloatArray, metrics: FloatArray) -> FloatArray:
    """n^2 (m - 1) / 2m, with m the smaller number of distinct values; 0 where nothing varies."""
    ascending = np.sort(metrics, axis=1)
    num_distinct = 1 + np.count_nonzero(np.diff(ascending, axis=1), axis=1)
    m = np.minimum(num_distinct, len(np.unique(human)))
    return np.asarray(len(human) ** 2 * (m - 1) / (2 * m))


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
