"""Whether one metric agrees with people better than another: PERM-BOTH as the WMT metrics task runs it.

Deutsch et al. (2021): both metrics' scores are standardised over all texts that people scored; every score changes
places with the other metric's with probability 1/2; p is the share of draws whose difference of agreement is at least
the observed one. One-sided: p that the metric named better is no better. At the level of systems what changes places
is the scores of systems, S of them, so that all 2^S assignments can be enumerated.
`perm_both`, which compare shows by default, exchanges segments under the mean of a system, two-sided.
Differences within 1e-9 of the observed one count as large as it. A metric that does not vary has no test.

Whether one metric's calibrated accuracy is better than another's, by exchanging pairs (Deutsch et al. 2023).

Epsilon of each metric is calibrated once, on all its scores. A draw exchanges the two metrics' differences of each pair
with probability 1/2; as the epsilons stay, what changes places is whether the pair is right. With k_g pairs of group g
that only one of the two gets right, each weighing w_g, the difference of a draw is
    sum_g w_g (2 B_g - k_g),   B_g ~ Binomial(k_g, 1/2),
which is drawn as such. One-sided: p is the share of draws at least as large as the observed difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ...choice import TIE
from ..statistics import PairDifferences, assignments
from .averaged_correlations import (
    CALIBRATED,
    Coefficient,
    averaged,
    check_tables,
    row_cells,
    row_values,
    score_rows,
)
from .soft_accuracy import SEED, SoftAccuracy

ENUMERATED = 1 << 12  # assignments that are enumerated rather than drawn
SURE = 0.02  # a test stops early below this p
LOST = 0.5  # and above this


@settings
class DrawSettings:
    """How a test draws.

    Args:
        draws: how many assignments; all of them if there are at most 4096 or as many as draws.
        seed: of the draws.
        block: after every block of this size the test stops if p < 0.02 or p > 0.5; None: it runs to its end.
    """

    draws: Annotated[int, Field(ge=1)] = 1000
    seed: Annotated[int, Field(ge=0)] = 0
    block: Annotated[int, Field(ge=1)] | None = None


class Permutation(NamedTuple):
    """A test whether the first of two metrics is better."""

    difference: float  # of agreement, first less second
    p: float
    draws: int
    exact: bool  # all assignments were enumerated
    differences: FloatArray  # of every draw, [draws]

    @property
    def p_strict(self) -> float:
        """The share of draws whose difference is larger than the observed one, not as large."""
        return float(np.mean(self.differences > self.difference + TIE))


Measure = Callable[[FloatArray], FloatArray]  # of metric scores [b, cells], the agreement [b]


def permutation_test(
    human: FloatArray,
    first: FloatArray,
    second: FloatArray,
    coefficient: Coefficient,
    drawn: DrawSettings | None = None,
) -> Permutation | None:
    """The test for scores [S, N] by one coefficient; None where the agreement of one of the two is not defined.

    Raises:
        InputError: shapes differ, or a text lacks a metric's score.
    """
    check_tables(human, first, second)
    is_scored = ~np.isnan(human)
    if coefficient.statistic in CALIBRATED:
        x, y = _standardised(first)[is_scored], _standardised(second)[is_scored]
    else:
        x, y = _standardised(first[is_scored]), _standardised(second[is_scored])
    measure = measure_of(coefficient, human)
    return _tested(x, y, measure, drawn or DrawSettings())


def soft_accuracy_test(
    human: FloatArray,
    first: FloatArray,
    second: FloatArray,
    drawn: DrawSettings | None = None,
    seed_of_signs: int = SEED,
) -> Permutation | None:
    """The test for soft pairwise accuracy of scores [S, N], over the segments that people scored for every system."""
    check_tables(human, first, second)
    is_rated = ~np.isnan(human).any(axis=0)
    people = human[:, is_rated]
    if len(people) < 2 or not people.size:
        return None
    agreement = SoftAccuracy(people, seed_of_signs)
    x = _standardised(first[:, is_rated].ravel())
    y = _standardised(second[:, is_rated].ravel())
    return _tested(x, y, agreement.values, drawn or DrawSettings())


def joint_accuracy_test(
    tables: Sequence[tuple[FloatArray, FloatArray, FloatArray]],
    drawn: DrawSettings | None = None,
) -> Permutation | None:
    """The test for accuracy over several language pairs; of each, scores of people, first and second metric [S, 1].

    Accuracy is that of all pairs of systems within a language pair; scores are standardised over all of them.
    """
    rows, people, x, y = [], [], [], []
    start = 0
    for human, first, second in tables:
        check_tables(human, first, second)
        is_scored = ~np.isnan(human)
        rows.append(np.arange(start, start + int(is_scored.sum())))
        start += len(rows[-1])
        people.append(human[is_scored])
        x.append(first[is_scored])
        y.append(second[is_scored])
    coefficient = Coefficient("acc23")
    weights = [len(row) * (len(row) - 1) // 2 for row in rows]
    judged = np.concatenate(people)

    def measure(cells: FloatArray) -> FloatArray:
        total = np.zeros(len(cells))
        for row, weight in zip(rows, weights, strict=True):
            if weight:
                total += weight * row_values(coefficient, judged[row], cells[:, row])
        return total / max(1, sum(weights))

    standardised = [_standardised(np.concatenate(scores)) for scores in (x, y)]
    return _tested(standardised[0], standardised[1], measure, drawn or DrawSettings())


def _standardised(scores: FloatArray) -> FloatArray:
    """Scores of mean 0 and standard deviation 1; all nan if they do not vary."""
    if scores.size == 0 or np.ptp(scores) == 0:
        return np.full(scores.shape, np.nan)
    return np.asarray((scores - scores.mean()) / scores.std())


def measure_of(coefficient: Coefficient, human: FloatArray) -> Measure:
    """The averaged coefficient of many scores [b, cells] of the texts that people scored, in the order of the table."""
    is_scored = ~np.isnan(human.ravel())
    if coefficient.statistic in (*CALIBRATED, "pearson_pairwise_differences"):
        return lambda cells: _one_by_one(coefficient, human, is_scored, cells)
    place = np.cumsum(is_scored) - 1  # of a cell of the table among those scored
    rows = [place[row] for row in row_cells(human, coefficient.averaging)]
    people = human.ravel()[is_scored]
    return lambda cells: _averages(coefficient, people, rows, cells)


def _one_by_one(
    coefficient: Coefficient, human: FloatArray, is_scored: IntArray, cells: FloatArray
) -> FloatArray:
    """The plain way: a table for every draw."""
    values = []
    for row in cells:
        table = np.full(human.size, np.nan)
        table[is_scored] = row
        values.append(averaged(coefficient, human, table.reshape(human.shape)).value)
    return np.array([np.nan if value is None else value for value in values])


def _averages(
    coefficient: Coefficient, people: FloatArray, rows: Sequence[IntArray], cells: FloatArray
) -> FloatArray:
    """Means over rows, nan where none has a value."""
    totals = np.zeros(len(cells))
    weights = np.zeros(len(cells))
    for row in rows:
        values = row_values(coefficient, people[row], cells[:, row])
        weight = _weight(coefficient, people[row])
        is_defined = ~np.isnan(values)
        totals += np.where(is_defined, weight * values, 0.0)
        weights += weight if coefficient.nan_as_zero else weight * is_defined
    undefined = np.full(len(cells), np.nan)
    return np.asarray(np.divide(totals, weights, out=undefined, where=weights > 0))


def _weight(coefficient: Coefficient, human: FloatArray) -> int:
    """The weight of a row, as `averaged_correlations.averaged` has it."""
    is_kendall_like = coefficient.statistic == "kendall_like"
    is_micro = is_kendall_like if coefficient.micro is None else coefficient.micro
    if not is_micro:
        return 1
    if not is_kendall_like:
        return len(human)
    a, b = np.triu_indices(len(human), 1)
    return int(np.count_nonzero(np.abs(human[a] - human[b]) >= coefficient.threshold))


def _tested(
    x: FloatArray, y: FloatArray, measure: Measure, drawn: DrawSettings
) -> Permutation | None:
    """The test of standardised scores [cells]."""
    if not x.size or np.isnan(x).any() or np.isnan(y).any():
        return None
    of_first, of_second = measure(np.stack((x, y)))
    observed = float(of_first - of_second)
    if np.isnan(observed):
        return None
    count, exact, masks = assignments(x.size, max(drawn.draws, ENUMERATED), [drawn.seed, 2])
    if not exact:
        count, exact, masks = assignments(x.size, drawn.draws, [drawn.seed, 2])
    step = drawn.block or 100
    differences: list[FloatArray] = []
    for mask in masks:
        for start in range(0, len(mask), step):
            swapped = mask[start : start + step].astype(bool)
            one_way = np.nan_to_num(measure(np.where(swapped, y, x)))
            other_way = np.nan_to_num(measure(np.where(swapped, x, y)))
            differences.append(one_way - other_way)
            done = sum(map(len, differences))
            if not exact and drawn.block and done < count and _decided(differences, observed):
                return _permutation(observed, differences, exact)
    return _permutation(observed, differences, exact)


def _decided(differences: Sequence[FloatArray], observed: float) -> bool:
    """Whether p of the draws so far needs no more of them."""
    p = share_as_large(np.concatenate(differences), observed)
    return p < SURE or p > LOST


def _permutation(observed: float, differences: Sequence[FloatArray], exact: bool) -> Permutation:
    drawn = np.concatenate(differences)
    return Permutation(observed, share_as_large(drawn, observed), len(drawn), exact, drawn)


def share_as_large(differences: FloatArray, observed: float) -> float:
    """The share of draws [draws] that reach the observed difference, to 1e-9."""
    return float(np.mean(differences >= observed - TIE))


def pair_permutation_test(
    human: FloatArray,
    first: FloatArray,
    second: FloatArray,
    coefficient: Coefficient,
    drawn: DrawSettings | None = None,
) -> Permutation | None:
    """The test for scores [S, N] by tau_opt or acc_opt; None without pairs; errors as `averaged`."""
    settings = drawn or DrawSettings()
    scale = 1.0 if coefficient.statistic == "acc_opt" else 2.0
    right_and_weights = _right_by_one(human, first, second, coefficient)
    if right_and_weights is None:
        return None
    one_right, weights = right_and_weights  # +1, -1 or 0 by pair, [pairs]
    observed = scale * float(one_right @ weights)
    is_split = one_right != 0
    unique_weights, counts = np.unique(weights[is_split], return_counts=True)
    random = np.random.default_rng([settings.seed, 2])
    step = settings.block or settings.draws
    drawn_differences = np.zeros(0)
    for start in range(0, settings.draws, step):
        size = min(step, settings.draws - start)
        # groups of one weight are one binomial
        right = random.binomial(counts, 0.5, size=(size, len(counts)))
        differences = scale * (2 * right - counts) @ unique_weights
        drawn_differences = np.concatenate((drawn_differences, differences))
        p = share_as_large(drawn_differences, observed)
        if settings.block and (p < SURE or p > LOST):
            break
    return Permutation(
        observed,
        share_as_large(drawn_differences, observed),
        len(drawn_differences),
        False,
        drawn_differences,
    )


def _right_by_one(
    human: FloatArray, first: FloatArray, second: FloatArray, coefficient: Coefficient
) -> tuple[FloatArray, FloatArray] | None:
    """+1 where only the first metric is right about a pair, -1 where only the second; and weights; [pairs]."""
    right = []
    weights = np.zeros(0)
    for metric in (first, second):
        pairs = PairDifferences.within_rows(score_rows(human, metric, coefficient.averaging))
        calibration = pairs.calibrated()
        if calibration is None:
            return None
        _, epsilon = calibration
        weights = pairs.weights()
        right.append(pairs.right(epsilon))
    return right[0].astype(float) - right[1], weights
