"""Whether one metric's calibrated accuracy is better than another's, by exchanging pairs (Deutsch et al. 2023).

Epsilon of each metric is calibrated once, on all its scores. A draw exchanges the two metrics' differences of each pair
with probability 1/2; as the epsilons stay, what changes places is whether the pair is right. With k_g pairs of group g
that only one of the two gets right, each weighing w_g, the difference of a draw is
    sum_g w_g (2 B_g - k_g),   B_g ~ Binomial(k_g, 1/2),
which is drawn as such. One-sided: p is the share of draws at least as large as the observed difference.
"""

from __future__ import annotations

import numpy as np

from ....metrics.representations import FloatArray
from ..pair_differences import PairDifferences
from .averaged_correlations import Coefficient
from .cell_permutation import LOST, SURE, DrawSettings, Permutation, share_as_large
from .score_rows import score_rows


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
