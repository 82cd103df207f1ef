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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

import numpy as np

from ....metrics.representations import FloatArray, IntArray
from ....metrics.spec.checked_settings import Field, settings
from ...choice import TIE
from ..statistics import assignments, standardised
from .coefficients import CALIBRATED, Agreement, Tables

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


Test = Callable[[str, str], Permutation | None]  # of two metrics by name, the better one first


def share_as_large(differences: FloatArray, observed: float) -> float:
    """The share of draws [draws] that reach the observed difference, to 1e-9."""
    return float(np.mean(differences >= observed - TIE))


def permutation_test(
    agreement: Agreement, first: Tables, second: Tables, drawn: DrawSettings | None = None
) -> Permutation | None:
    """The test of two metrics; None where the agreement of one of the two is not defined.

    Raises:
        InputError: shapes differ, or a text lacks a metric's score.
    """
    scores = standardised(agreement.cells(first), agreement.cells(second))
    if scores is None:
        return None
    x, y = scores
    of_first, of_second = agreement.values(np.stack((x, y)))[0]
    observed = float(of_first - of_second)
    if np.isnan(observed):
        return None
    masks = _Masks(x.size, drawn or DrawSettings())
    differences = (
        np.nan_to_num(agreement.values(np.where(swapped, y, x))[0])
        - np.nan_to_num(agreement.values(np.where(swapped, x, y))[0])
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
        """The test by the differences of blocks of draws."""
        may_stop = self._block is not None and not self._exact
        return _concluded(observed, differences, self._exact, may_stop)


def _concluded(
    observed: float, differences: Iterable[FloatArray], exact: bool, may_stop: bool
) -> Permutation:
    """The test by the differences of blocks of draws, taken until p needs no more of them."""
    drawn = np.zeros(0)
    for of_block in differences:
        drawn = np.concatenate((drawn, of_block))
        if may_stop and not SURE <= share_as_large(drawn, observed) <= LOST:
            break
    return Permutation(observed, share_as_large(drawn, observed), len(drawn), exact, drawn)


def paired_tests(agreement: Agreement, metrics: Mapping[str, Tables], drawn: DrawSettings) -> Test:
    """The test of any two of many metrics, which share what does not depend on the other metric of a pair.

    Calibrated accuracy is tested by pairs, other coefficients as by `permutation_test`, to rounding; errors as there.
    """
    coefficient = agreement.coefficient
    if coefficient.statistic in CALIBRATED:
        return _CalibratedTests(agreement, metrics, drawn)
    if (coefficient.statistic, coefficient.averaging) == ("pearson", "none"):
        return _PearsonTests(agreement, metrics, drawn)
    return lambda better, worse: permutation_test(agreement, metrics[better], metrics[worse], drawn)


class _CalibratedTests:
    """The tests of any two metrics by pairs; each metric is calibrated once."""

    def __init__(
        self, agreement: Agreement, metrics: Mapping[str, Tables], drawn: DrawSettings
    ) -> None:
        self._drawn = drawn
        self._scale = 2.0 if agreement.coefficient.statistic == "tau_opt" else 1.0
        self._right: dict[str, IntArray] = {}  # whether a metric is right about a pair, [pairs]
        weights = np.zeros(0)
        for name, metric in metrics.items():
            pairs = agreement.pairs(agreement.cells(metric))
            if (calibration := pairs.calibrated()) is not None:
                self._right[name] = pairs.right(calibration[1]).astype(np.int8)
                weights = weights if len(weights) else pairs.weights()
        self._weights = weights
        # pairs of one weight are one binomial
        self._unique_weights, self._group = np.unique(weights, return_inverse=True)

    def __call__(self, better: str, worse: str) -> Permutation | None:
        if not self._right:
            return None
        one_right = self._right[better] - self._right[worse]  # +1, -1 or 0 by pair, [pairs]
        observed = self._scale * float(one_right @ self._weights)
        counts = np.bincount(self._group[one_right != 0], minlength=len(self._unique_weights))
        drawn = self._differences(counts)
        return _concluded(observed, drawn, exact=False, may_stop=self._drawn.block is not None)

    def _differences(self, counts: IntArray) -> Iterator[FloatArray]:
        """The differences of blocks of draws, where only one is right about so many pairs of each weight."""
        random = np.random.default_rng([self._drawn.seed, 2])
        step = self._drawn.block or self._drawn.draws
        for start in range(0, self._drawn.draws, step):
            size = min(step, self._drawn.draws - start)
            right = random.binomial(counts, 0.5, size=(size, len(counts)))
            yield self._scale * (2 * right - counts) @ self._unique_weights


class _PearsonTests:
    """`permutation_test` of any two metrics by Pearson's correlation of all texts, from sums that all pairs share.

    Where a mask m is 1 the scores z of a draw are y, elsewhere x. So sum z = sum x + m.y - m.x, and the same of z^2 and
    of z h with people's centred scores h: products of the masks with (x, x^2, x h) of every metric are all it needs.
    """

    def __init__(
        self, agreement: Agreement, metrics: Mapping[str, Tables], drawn: DrawSettings
    ) -> None:
        self._agreement, self._metrics, self._drawn = agreement, metrics, drawn
        people = agreement.people
        scores = {name: standardised(agreement.cells(own)) for name, own in metrics.items()}
        varying = {name: own[0] for name, own in scores.items() if own is not None}
        self._n = people.size
        if not self._n or np.ptp(people) == 0:
            varying = {}
        self._place = {name: i for i, name in enumerate(varying)}
        if not varying:
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
            first, second = self._metrics[better], self._metrics[worse]
            return permutation_test(self._agreement, first, second, self._drawn)
        observed = float(self._values[x] - self._values[y])
        return _Masks(self._n, self._drawn).concluded(observed, differences)
