"""Agreement of a metric with people under the names of the WMT metrics task: a coefficient of rows, and its average.

Tables of people's and a metric's scores, [S, N] by system and segment, are averaged over rows: averaging "none" takes
all texts as one row, "sys" a row per system (over segments), "item" a row per segment (over systems). What people did
not score (nan) goes, with the metric's score of it, and so does a row of fewer than two texts. A row in which one side
does not vary has no correlation and leaves the mean. Where nothing is left the value is None (the task's own tool
writes 0). Of several language pairs the row of each counts by its pairs of texts. All scores are higher-is-better.

Pearson, Spearman and tau-b are the usual ones. With C concordant and D discordant pairs, B tied by both, of n in all,
people's ties T and the metric's U:
    tau_b = (C - D) / sqrt((n - T)(n - U))
    accuracy = acc23 = (C + B) / n            tau23 = 2 acc23 - 1                           (Deutsch et al. 2023)
Ties are exact; in acc23 and tau23 the metric also ties what differs by at most epsilon, which "tau_opt" and "acc_opt"
calibrate (`PairDifferences`).

Soft pairwise accuracy, as the task computes it since 2024 (Thompson et al. 2024): for systems i < j in the order given,
p_ij is the share of draws of signs with
    sum_n +-(x_in - x_jn) >= sum_n (x_in - x_jn),
one-sided ("i is better than j"), ties counted; the value is 1 - mean |p_human - p_metric| over pairs. All pairs, people
and metric share one matrix of signs [draws, N] of numpy's default generator with seed 4, as the task's tool draws it.
Because ties count, p_ij + p_ji > 1 where there are some, so the value depends on the order of the systems: sort them.
Scores and sums are of single precision there, so that rounding decides ties. Segments that people did not score for
every system are left out for all, so that rows stay aligned. `agreement.system_agreement` has the definition that
compare shows by default: two-sided draws of documents, halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError
from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ..statistics import MAX_SIGNS, PairDifferences, correlation, mean_ranks, pair_counts, pearsons

Averaging = Literal["none", "sys", "item"]
AVERAGINGS: tuple[Averaging, ...] = ("none", "sys", "item")
SOFT: Literal["soft_pairwise_accuracy"] = "soft_pairwise_accuracy"
CALIBRATED = ("tau_opt", "acc_opt")
DRAWS, SEED = 1000, 4  # of signs
Tables = Sequence[FloatArray]  # scores [S, N] of every language pair
Statistic = Literal[
    "pearson",
    "spearman",
    "kendall_b",
    "accuracy",
    "tau23",
    "acc23",
    "tau_opt",
    "acc_opt",
    "soft_pairwise_accuracy",
]


@settings
class Coefficient:
    """A correlation of a metric's and people's scores.

    Args:
        statistic: its name.
        averaging: "none": all texts are one row; "sys": a row per system; "item": a row per segment.
        epsilon: of tau23 and acc23: metric scores at most this far apart are tied.
    """

    statistic: Statistic
    averaging: Averaging = "none"
    epsilon: Annotated[float, Field(ge=0)] = 0.0


class Averaged(NamedTuple):
    """A coefficient averaged over rows."""

    value: float | None  # None where no row has one
    counted: int  # rows
    epsilon: float | None = None  # of calibrated ties


class Agreement:
    """A coefficient with people's scores, of one metric or of many at once.

    Args:
        coefficient: what is computed.
        human: people's scores, nan where they gave none.
        seed: of the signs of soft pairwise accuracy.
    """

    def __init__(self, coefficient: Coefficient, human: Tables, seed: int = SEED) -> None:
        self.coefficient = coefficient
        self._human = human
        self._used = [~np.isnan(table) for table in human]  # cells that count
        if coefficient.statistic == SOFT:
            self._used = [np.broadcast_to(used.all(axis=0), used.shape) for used in self._used]
        self.people = np.concatenate([t[used] for t, used in zip(human, self._used, strict=True)])
        self.rows: list[IntArray] = []  # the cells of each
        start = 0
        for used in self._used:
            self.rows += _rows(used, coefficient.averaging, start)
            start += int(np.count_nonzero(used))
        self._soft: SoftAccuracy | None = None
        if coefficient.statistic == SOFT and self.people.size and len(human[0]) > 1:
            self._soft = SoftAccuracy(self.people.reshape(len(human[0]), -1), seed)

    def cells(self, metric: Tables) -> FloatArray:
        """The scores of a metric that count, [cells].

        Raises:
            InputError: shapes differ, or a text that people scored lacks the metric's score.
        """
        check_tables(self._human, metric)
        return np.concatenate([t[used] for t, used in zip(metric, self._used, strict=True)])

    def averaged(self, metric: Tables) -> Averaged:
        """The coefficient of a metric; errors as `cells`, and for too many pairs."""
        cells = self.cells(metric)
        if self.coefficient.statistic in CALIBRATED:
            calibration = self.pairs(cells).calibrated()
            if calibration is None:
                return Averaged(None, 0)
            accuracy, epsilon = calibration
            is_tau = self.coefficient.statistic == "tau_opt"
            return Averaged(2 * accuracy - 1 if is_tau else accuracy, len(self.rows), epsilon)
        values, counted = self.values(cells[None])
        return Averaged(None if np.isnan(values[0]) else float(values[0]), int(counted[0]))

    def pairs(self, cells: FloatArray) -> PairDifferences:
        """The pairs of texts within rows."""
        return PairDifferences.within_rows([(self.people[row], cells[row]) for row in self.rows])

    def values(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The coefficient, if it is not calibrated, of many metrics [b, cells]: [b], nan where it is not defined.

        Returns:
            the values, and how many rows (of soft pairwise accuracy, systems) have one, [b].
        """
        undefined = np.full(len(cells), np.nan)
        if self.coefficient.statistic == SOFT:
            systems = np.full(len(cells), len(self._human[0]))
            return (undefined if self._soft is None else self._soft.values(cells)), systems
        totals, weights, counted = np.zeros((3, len(cells)))
        for row in self.rows:
            numerators, denominators = row_values(self.coefficient, self.people[row], cells[:, row])
            is_defined = denominators > 0
            counted += is_defined
            if len(self._human) > 1:
                totals += numerators
                weights += denominators
                continue
            values = np.divide(numerators, denominators, out=undefined.copy(), where=is_defined)
            totals += np.where(is_defined, values, 0.0)
            weights += is_defined
        return np.divide(totals, weights, out=undefined, where=weights > 0), counted


def _rows(used: FloatArray, averaging: Averaging, start: int) -> list[IntArray]:
    """The numbers, from `start`, of the cells [S, N] that are used in each row of two texts or more."""
    numbers = start + np.cumsum(used.ravel()).reshape(used.shape) - 1
    if averaging == "none":
        rows = [numbers[used]]
    elif averaging == "sys":
        rows = [own[is_used] for own, is_used in zip(numbers, used, strict=True)]
    else:
        rows = [own[is_used] for own, is_used in zip(numbers.T, used.T, strict=True)]
    return [row for row in rows if len(row) > 1]


def row_values(
    coefficient: Coefficient, human: FloatArray, metrics: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Numerators and denominators [b] of people's scores [n] with each row of metrics [b, n]; over 0: not defined."""
    name, n = coefficient.statistic, len(human)
    if name == "pearson":
        return pearsons(human, metrics)
    if name == "spearman":
        return pearsons(mean_ranks(human), np.array([mean_ranks(metric) for metric in metrics]))
    if name == "kendall_b" and n > MAX_SIGNS:
        taus = np.array([correlation("tau_b", human, metric) for metric in metrics])
        return np.nan_to_num(taus), (~np.isnan(taus)).astype(float)
    counts = pair_counts(human, metrics, coefficient.epsilon)
    if name == "kendall_b":
        return counts.balance, np.sqrt(counts.ranked * counts.human_ranked)
    numerators = 2 * counts.agreed - counts.pairs if name == "tau23" else counts.agreed
    return numerators, np.full(len(metrics), float(counts.pairs))


class SoftAccuracy:
    """Soft pairwise accuracy against the same people's scores.

    Args:
        human: scores [S, N] without holes, of two systems at least.
        seed: of the signs.
    """

    def __init__(self, human: FloatArray, seed: int = SEED) -> None:
        self._shape = human.shape
        self._pairs = np.triu_indices(len(human), 1)
        uniform = np.random.default_rng(seed).random((DRAWS, human.shape[1]), dtype=np.float32)
        # a half is rounded to the even number, 0
        self._signs = 2 * np.rint(uniform) - 1
        self._p_human = self.p(human[None])  # [1, pairs]

    def values(self, metrics: FloatArray) -> FloatArray:
        """The values [b] of scores [b, S * N]."""
        p_metric = self.p(metrics.reshape(-1, *self._shape))
        gaps = np.abs(p_metric - self._p_human)
        return np.asarray(1 - gaps.mean(axis=1))

    def p(self, scores: FloatArray) -> FloatArray:
        """p_ij of scores [b, S, N], [b, pairs]."""
        a, b = self._pairs
        tables = np.ascontiguousarray(scores, np.float32)
        totals = tables.sum(axis=2)
        least = totals[:, a] - totals[:, b]
        p = np.empty(least.shape)
        for i, table in enumerate(tables):
            sums = self._signs @ table.T  # [draws, S]
            p[i] = np.mean(sums[:, a] - sums[:, b] >= least[i], axis=0)
        return p


def check_tables(human: Tables, metric: Tables) -> None:
    """Raises InputError unless tables are of one shape [S, N] and the metric scores whatever people scored."""
    for people, scores in zip(human, metric, strict=True):
        if people.ndim != 2 or scores.shape != people.shape:
            problem = f"people's scores {people.shape}, the metric's {scores.shape}"
            fix = "Give tables of the same systems and segments"
            raise InputError(problem, where="agreement", fix=fix)
        lacking = np.argwhere(~np.isnan(people) & ~np.isfinite(scores))
        if len(lacking):
            system, segment = lacking[0]
            problem = (
                f"the metric has no score of system {system}, segment {segment}, but people have"
            )
            fix = "Score every text, or leave the system out"
            raise InputError(problem, where="agreement", fix=fix)
