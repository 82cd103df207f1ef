"""The expected utility of every hypothesis, which minimum Bayes risk decoding maximises, in its two exact forms.

    mu(h) = sum_r w(r) u(h, r) / sum_r w(r)

From the utility matrix it takes O(H R). A utility whose expectation the scorer can compute from averaged references
(`Info.linear`) takes O(H + R) and needs no matrix. Without the self pair, the weight that a hypothesis has as its own
pseudo-reference is left out of both sums:

    mu(h_i) = (sum_r w(r) u(h_i, r) - own_i u(h_i, h_i)) / (sum_r w(r) - own_i)
"""

from __future__ import annotations

import numpy as np

from ..metrics.execution.evaluate import Folded
from ..metrics.representations import Block, FloatArray, Reps
from ..metrics.scorer import Scorer

NO_WEIGHT = 1e-9  # a smaller share of all weights is rounding: nothing remains
CANCELLED = 1e-6  # a difference smaller than this share of its terms has lost too many digits


def expected_utility(
    matrix: FloatArray, weights: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Expected utilities [H] from a matrix [H, R] under weights [R] of any positive scale.

    With `own` [H], the weight of one copy of each hypothesis as its own pseudo-reference, the matrix is square and that
    weight is left out; where none remains the expectation is NaN. The order of a row's sum depends on R alone. A row
    with a pair that is not finite has an expectation that is not; one of finite pairs has a finite one, whatever their
    size.
    """
    total = weights.sum()
    # a reference of weight 0 does not count, not even where its utility is NaN or infinite
    counting = np.where(weights > 0, matrix, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        weighted = np.multiply(counting, weights, order="C")
        if own is None:
            values = np.asarray(weighted.sum(axis=1) / total)
        else:
            # the diagonal counts with what remains of its weight
            remaining = weights - own
            diagonal = np.where(remaining > 0, np.diagonal(matrix), 0.0)
            np.fill_diagonal(weighted, diagonal * remaining)
            values = _means(weighted.sum(axis=1), total - own, total)
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        row_weights = weights.copy()
        if own is not None:
            row_weights[i] -= own[i]
        values[i] = _scaled_mean(matrix[i], row_weights, total)
    return values


def _scaled_mean(utilities: FloatArray, weights: FloatArray, total: float) -> float:
    """The weighted mean of a row [R], which overflows nowhere; NaN where no weight of the `total` remains."""
    counts = weights > 0
    values, weights = utilities[counts], weights[counts]
    if not weights.sum() > NO_WEIGHT * total:
        return float("nan")
    largest = float(np.abs(values).max())
    if not largest or not np.isfinite(largest):
        with np.errstate(invalid="ignore"):
            return float((values * weights).sum())  # as the sum is: NaN, or infinite
    mean = float((values / largest * weights).sum() / weights.sum()) * largest
    # rounding may lead beyond the largest
    return min(max(mean, float(values.min())), float(values.max()))


def linear_expected_utility(
    scorer: Scorer,
    reps: Reps,
    block: Block,
    folded: Folded,
    weights: FloatArray,
    own: FloatArray | None = None,
) -> FloatArray:
    """The same [H] without the matrix, by `Scorer.expected`; `folded` is the block without repeated rows."""
    total = weights.sum()
    # a repeated reference counts once, with the summed weight of its copies
    pooled: FloatArray = weights
    if folded.references is not None:
        distinct = len(folded.block.references)
        pooled = np.asarray(np.bincount(folded.references, weights, distinct), np.float64)
    expected = scorer.expected(reps, [folded.block], [pooled / total])[0]
    if folded.hypotheses is not None:
        expected = expected[folded.hypotheses]
    if own is None:
        return expected
    return _without_self(scorer, reps, block, expected, weights, own)


def _without_self(
    scorer: Scorer,
    reps: Reps,
    block: Block,
    expected: FloatArray,
    weights: FloatArray,
    own: FloatArray,
) -> FloatArray:
    """Expectations [H] of a square block with the self pairs taken out of `expected` [H]."""
    total = weights.sum()
    # u(h, h) of every hypothesis
    pairs = [Block(row[None], row[None], block.source) for row in block.hypotheses]
    self_utilities = np.concatenate([u.ravel() for u in scorer.compare(reps, pairs)])
    # the weighted sums without them
    remaining = expected * total - own * self_utilities
    values = _means(remaining, total - own, total)
    # where the self pair was most of the weight or of the value, the subtraction cancels too many digits
    is_cancelled = (own > total / 2) | (
        np.abs(remaining) < CANCELLED * np.abs(own * self_utilities)
    )
    for i in np.flatnonzero(is_cancelled & ~np.isnan(values)):
        values[i] = _of_others(scorer, reps, block, weights, own, int(i))
    return values


def _of_others(
    scorer: Scorer, reps: Reps, block: Block, weights: FloatArray, own: FloatArray, i: int
) -> float:
    """The expectation of hypothesis i, computed anew with its own weight left out beforehand."""
    is_self = np.arange(len(weights)) == i
    others = np.where(is_self, weights - own[i], weights)
    row = Block(block.hypotheses[i : i + 1], block.references, block.source)
    return float(scorer.expected(reps, [row], [others / others.sum()])[0][0])


def _means(sums: FloatArray, remaining: FloatArray, total: float) -> FloatArray:
    """Weighted sums [H] over the weights that remain [H]; NaN where none does."""
    has_weight = remaining > NO_WEIGHT * total
    return np.where(has_weight, sums / np.where(has_weight, remaining, 1.0), np.nan)
