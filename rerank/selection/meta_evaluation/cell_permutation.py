"""Whether one metric agrees with people better than another: PERM-BOTH as the WMT metrics task runs it.

Deutsch et al. (2021): both metrics' scores are standardised over all texts that people scored; every score changes
places with the other metric's with probability 1/2; p is the share of draws whose difference of agreement is at least
the observed one. One-sided: p that the metric named better is no better. At the level of systems what changes places
is the scores of systems, S of them, so that all 2^S assignments can be enumerated.
`perm_both`, which compare shows by default, exchanges segments under the mean of a system, two-sided.
Differences within 1e-9 of the observed one count as large as it. A metric that does not vary has no test.

Calibrated accuracy is tested by exchanging pairs (Deutsch et al. 2023). Epsilon of each metric is calibrated once, on
all its scores. A draw exchanges the two metrics' differences of each pair with probability 1/2; as the epsilons stay,
what changes places is whether the pair is right. With k_g pairs of group g that only one of the two gets right, each
weighing w_g, the difference of a draw is
    sum_g w_g (2 B_g - k_g),   B_g ~ Binomial(k_g, 1/2),
which is drawn as such. One-sided: p is the share of draws at least as large as the observed difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ...choice import TIE
from ..statistics import PairDifferences, assignments
from .averaged_correlations import (
    CALIBRATED,
    Coefficient,
    averages,
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
    x, y = _standardised(first[is_scored]), _standardised(second[is_scored])
    return _tested(x, y, measure_of(coefficient, human), drawn or DrawSettings())


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
                total += weight * row_values(coefficient, judged[row], cells[:, row])[0]
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
    place = np.cumsum(is_scored) - 1  # of a cell of the table among those scored
    rows = [place[row] for row in row_cells(human, coefficient.averaging)]
    people = human.ravel()[is_scored]
    return lambda cells: averages(coefficient, people, rows, cells)[0]


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
    masks = _Masks(x.size, drawn)
    differences = (
        np.nan_to_num(measure(np.where(swapped, y, x)))
        - np.nan_to_num(measure(np.where(swapped, x, y)))
        for swapped in masks
    )
    return masks.concluded(observed, differences)


class _Masks:
    """Which of n cells change places in every draw: blocks of masks [block, n], and where a test ends."""

    def __init__(self, n: int, drawn: DrawSettings) -> None:
        draws = drawn.draws if n >= 63 or 2**n > ENUMERATED else max(drawn.draws, ENUMERATED)
        self._count, self._exact, self._chunks = assignments(n, draws, [drawn.seed, 2])
        self._block = drawn.block

    def __iter__(self) -> Iterator[IntArray]:
        step = self._block or 100
        for chunk in self._chunks:
            for start in range(0, len(chunk), step):
                yield chunk[start : start + step].astype(bool)

    def concluded(self, observed: float, differences: Iterable[FloatArray]) -> Permutation:
        """The test by the differences of blocks of draws, taken until p needs no more of them."""
        taken: list[FloatArray] = []
        for of_block in differences:
            taken.append(of_block)
            done = sum(map(len, taken))
            if self._exact or not self._block or done >= self._count:
                continue
            p = share_as_large(np.concatenate(taken), observed)
            if p < SURE or p > LOST:
                break
        drawn = np.concatenate(taken)
        p = share_as_large(drawn, observed)
        return Permutation(observed, p, len(drawn), self._exact, drawn)


def share_as_large(differences: FloatArray, observed: float) -> float:
    """The share of draws [draws] that reach the observed difference, to 1e-9."""
    return float(np.mean(differences >= observed - TIE))


Test = Callable[[str, str], Permutation | None]  # of two metrics by name, the better one first


def paired_tests(
    human: FloatArray,
    metrics: Mapping[str, FloatArray],
    coefficient: Coefficient,
    drawn: DrawSettings,
) -> Test:
    """The test of any two of many metrics [S, N], which share what does not depend on the other metric of a pair.

    Calibrated accuracy is tested by pairs, other coefficients as by `permutation_test`, to rounding; errors as there.
    """
    if coefficient.statistic in CALIBRATED:
        return _CalibratedTests(human, metrics, coefficient, drawn)
    if (coefficient.statistic, coefficient.averaging) == ("pearson", "none"):
        return _PearsonTests(human, metrics, drawn)
    return lambda better, worse: permutation_test(
        human, metrics[better], metrics[worse], coefficient, drawn
    )


class _CalibratedTests:
    """The tests of any two metrics by pairs; each metric is calibrated once."""

    def __init__(
        self,
        human: FloatArray,
        metrics: Mapping[str, FloatArray],
        coefficient: Coefficient,
        drawn: DrawSettings,
    ) -> None:
        self._drawn = drawn
        self._scale = 1.0 if coefficient.statistic == "acc_opt" else 2.0
        self._right: dict[str, IntArray] = {}  # whether a metric is right about a pair, [pairs]
        self._weights = np.zeros(0)
        for name, metric in metrics.items():
            pairs = PairDifferences.within_rows(score_rows(human, metric, coefficient.averaging))
            calibration = pairs.calibrated()
            if calibration is None:
                return
            self._right[name] = pairs.right(calibration[1]).astype(np.int8)
            if not len(self._weights):
                self._weights = pairs.weights()
        # pairs of one weight are one binomial
        self._unique_weights, self._group = np.unique(self._weights, return_inverse=True)

    def __call__(self, better: str, worse: str) -> Permutation | None:
        if not self._right:
            return None
        one_right = self._right[better] - self._right[worse]  # +1, -1 or 0 by pair, [pairs]
        observed = self._scale * float(one_right @ self._weights)
        counts = np.bincount(self._group[one_right != 0], minlength=len(self._unique_weights))
        random = np.random.default_rng([self._drawn.seed, 2])
        step = self._drawn.block or self._drawn.draws
        differences = np.zeros(0)
        for start in range(0, self._drawn.draws, step):
            size = min(step, self._drawn.draws - start)
            right = random.binomial(counts, 0.5, size=(size, len(counts)))
            drawn = self._scale * (2 * right - counts) @ self._unique_weights
            differences = np.concatenate((differences, drawn))
            p = share_as_large(differences, observed)
            if self._drawn.block and (p < SURE or p > LOST):
                break
        p = share_as_large(differences, observed)
        return Permutation(observed, p, len(differences), False, differences)


class _PearsonTests:
    """`permutation_test` of any two metrics by Pearson's correlation of all texts, from sums that all pairs share.

    Where a mask m is 1 the scores z of a draw are y, elsewhere x. So sum z = sum x + m.y - m.x, and the same of z^2 and
    of z h with people's centred scores h: products of the masks with (x, x^2, x h) of every metric are all it needs.
    """

    def __init__(
        self, human: FloatArray, metrics: Mapping[str, FloatArray], drawn: DrawSettings
    ) -> None:
        check_tables(human, *metrics.values())
        self._human, self._metrics, self._drawn = human, metrics, drawn
        is_scored = ~np.isnan(human)
        people = human[is_scored]
        standardised = {name: _standardised(table[is_scored]) for name, table in metrics.items()}
        varying = {name: x for name, x in standardised.items() if not np.isnan(x).any()}
        self._place = {name: i for i, name in enumerate(varying)}
        self._n = people.size
        if not varying or not self._n or np.ptp(people) == 0:
            self._place = {}
            return
        centred = people - people.mean()
        self._norm = float(np.linalg.norm(centred))
        rows = [row for x in varying.values() for row in (x, x * x, x * centred)]
        columns = np.stack(rows, axis=1)  # [n, metrics * 3]
        shape = (-1, len(varying), 3)
        self._totals = columns.sum(axis=0).reshape(shape)[0]
        self._blocks = [
            (mask.astype(float) @ columns).reshape(shape) for mask in _Masks(self._n, drawn)
        ]
        self._values = self._correlations(self._totals)  # [metrics]

    def _correlations(self, sums: FloatArray) -> FloatArray:
        """Pearson's correlation by sums [b, 3] of z, z^2 and z h; nan where z hardly varies."""
        spread = sums[:, 1] - sums[:, 0] ** 2 / self._n
        spread[spread < 1e-6 * self._n] = np.nan
        return np.asarray(sums[:, 2] / (self._norm * np.sqrt(spread)))

    def __call__(self, better: str, worse: str) -> Permutation | None:
        if better not in self._place or worse not in self._place:
            return None
        x, y = self._place[better], self._place[worse]
        differences = []
        for sums in self._blocks:
            moved = sums[:, y] - sums[:, x]
            one_way = self._correlations(self._totals[x] + moved)
            differences.append(one_way - self._correlations(self._totals[y] - moved))
        if any(np.isnan(of_block).any() for of_block in differences):
            # a draw that hardly varies: sums are too coarse for it
            coefficient = Coefficient("pearson")
            first, second = self._metrics[better], self._metrics[worse]
            return permutation_test(self._human, first, second, coefficient, self._drawn)
        observed = float(self._values[x] - self._values[y])
        return _Masks(self._n, self._drawn).concluded(observed, differences)
