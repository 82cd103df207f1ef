"""The expected utility of every hypothesis, which minimum Bayes risk decoding maximises, in its two exact forms.

    mu(h) = sum_r w(r) u(h, r) / sum_r w(r)

From the utility matrix it takes O(H R). A utility whose expectation the scorer can compute from averaged references
(`Info.linear`) takes O(H + R) and needs no matrix. Without the self pair, the weight that a hypothesis has as its own
pseudo-reference is left out of both sums:

    mu(h_i) = (sum_r w(r) u(h_i, r) - own_i u(h_i, h_i)) / (sum_r w(r) - own_i)

The values of the parts of a sum can be normalised within their list, so that weights mean the same in every list.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ...metrics.execution.evaluate import Folded, Tile, middle
from ...metrics.mixture import Utility, added
from ...metrics.representations import Block, FloatArray, Reps
from ...metrics.scorer import Scorer
from ..choice import TIE
from .interface import Result

CELLS = 1 << 20  # of a matrix that are weighted at once
NO_WEIGHT = 1e-9  # a smaller share of all weights is rounding: nothing remains
CANCELLED = 1e-6  # a difference smaller than this share of its terms has lost too many digits
Normalize = Literal["none", "zscore", "minmax", "rank"]
# sums of squares of numbers up to here are finite, and those of differences from here on are above 0
MAX_SQUARED, MIN_SQUARED = 1e150, 1e-150


def expected_utility(
    matrix: FloatArray, weights: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Expected utilities [H] from a matrix [H, R] under weights [R] of any positive scale.

    With `own` [H], the weight of one copy of each hypothesis as its own pseudo-reference, the matrix is square and that
    weight is left out; where none remains the expectation is NaN. The order of a row's sum depends on R alone. A row
    with a pair that is not finite has an expectation that is not; one of finite pairs has a finite one, whatever their
    size.
    """
    num_rows, num_columns = matrix.shape
    sums = np.empty(num_rows)
    step = max(1, CELLS // max(1, num_columns))
    for top in range(0, num_rows, step):
        rows = matrix[top : top + step]
        sums[top : top + step] = weighted_sums(rows, weights, own, top)
    values = expected_of_sums(sums, weights, own)
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        row_weights = weights.copy()
        if own is not None:
            row_weights[i] -= own[i]
        values[i] = _scaled_mean(matrix[i], row_weights, weights.sum())
    return values


def expected_utilities(matrices: FloatArray, weights: FloatArray) -> FloatArray:
    """`expected_utility` of lists of one shape at once, [lists, H], from [lists, H, R] and weights [lists, R].

    Each list has the same bits as alone, but for one with an expectation that is not finite, which needs more care.
    """
    of_columns = weights[:, None, :]
    counting = np.where(of_columns > 0, matrices, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = (counting * of_columns).sum(axis=2)
    return np.asarray(sums / weights.sum(axis=1)[:, None])


def weighted_sums(
    values: FloatArray,
    weights: FloatArray,
    own: FloatArray | None = None,
    top: int = 0,
    left: int = 0,
) -> FloatArray:
    """The weighted sum [rows] of every row of a part [rows, columns] of a matrix, without its own weight.

    Args:
        values: of the part.
        weights: of all references, [R].
        own: as in `expected_utility`, [H].
        top: the part's first row in the matrix.
        left: the part's first column.
    """
    num_rows, num_columns = values.shape
    part_weights = weights[left : left + num_columns]
    # a reference of weight 0 does not count, not even where its utility is NaN or infinite
    counting = np.where(part_weights > 0, values, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        weighted = np.multiply(counting, part_weights, order="C")
        if own is not None:
            # the diagonal counts with what remains of its weight
            both = np.arange(max(top, left), min(top + num_rows, left + num_columns))
            remaining = weights[both] - own[both]
            diagonal = np.where(remaining > 0, values[both - top, both - left], 0.0)
            weighted[both - top, both - left] = diagonal * remaining
        return np.asarray(weighted.sum(axis=1))


def _scaled_mean(utilities: FloatArray, weights: FloatArray, total: float) -> float:
    """The weighted mean of a row [R], which overflows nowhere; NaN where no weight of the `total` remains."""
    counts = weights > 0
    values, weights = utilities[counts], weights[counts]
    if not weights.sum() > NO_WEIGHT * total:
        return float("nan")
    largest = float(np.abs(values).max())
    if not largest or not np.isfinite(largest):
        with np.errstate(invalid="ignore", over="ignore"):
            return float((values * weights).sum())  # as the sum is: NaN, or infinite
    mean = float((values / largest * weights).sum() / weights.sum()) * largest
    # rounding may lead beyond the largest
    return min(max(mean, float(values.min())), float(values.max()))


def expected_of_sums(
    sums: FloatArray, weights: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Expected utilities [H] from the weighted sums [H] of all columns."""
    total = weights.sum()
    if own is None:
        return np.asarray(sums / total)
    return _means(sums, total - own, total)


class TiledSums:
    """The weighted sums of a large matrix's rows from those of its tiles, with the bytes of the whole matrix.

    A range of columns is the sum of its two halves, down to the ranges that the tiles have: numpy's pairwise summation
    of a whole row adds up in the same order, so neither tiles nor workers change the last bit.

    Args:
        num_rows: H.
        num_columns: R.
    """

    def __init__(self, num_rows: int, num_columns: int) -> None:
        self.num_rows = num_rows
        self.num_columns = num_columns
        self.of_columns: dict[range, FloatArray] = {}  # [H] by range of columns

    def add(self, tile: Tile, sums: FloatArray) -> None:
        """Takes the sums [rows] of a tile."""
        if tile.columns not in self.of_columns:
            self.of_columns[tile.columns] = np.zeros(self.num_rows)
        self.of_columns[tile.columns][tile.top : tile.bottom] = sums

    def whole(self) -> FloatArray:
        """The sums [H] of all columns."""
        return self._range(0, self.num_columns)

    def _range(self, left: int, right: int) -> FloatArray:
        """The sums [H] of a range of columns."""
        if range(left, right) in self.of_columns:
            return self.of_columns[range(left, right)]
        cut = middle(left, right)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._range(left, cut) + self._range(cut, right)


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


def has_weight(weights: FloatArray, own: FloatArray | None) -> Any:
    """For which hypotheses some weight remains without their own, bool [H]; all of them where nothing is left out."""
    if own is None:
        return slice(None)
    total = weights.sum()
    return total - own > NO_WEIGHT * total


def _means(sums: FloatArray, remaining: FloatArray, total: float) -> FloatArray:
    """Weighted sums [H] over the weights that remain [H]; NaN where none does."""
    has_weight = remaining > NO_WEIGHT * total
    return np.where(has_weight, sums / np.where(has_weight, remaining, 1.0), np.nan)


def normalized(values: FloatArray, normalize: Normalize) -> FloatArray:
    """One feature of a list, [N], as `Reranker.normalize` says; a feature that does not vary becomes 0.

    What is not finite stays as it is, so that it never wins, and changes no other value. The order of the values is
    kept whatever their size.

    >>> normalized(np.array([1.0, 3.0, 2.0]), "minmax").tolist()
    [0.0, 1.0, 0.5]
    """
    if normalize == "none":
        return values
    if normalize == "rank":
        ranks = np.array([(values < value).mean() for value in values])
        return np.where(np.isfinite(values), ranks, values)
    given, values = values, _in_range(values)
    finite = values[np.isfinite(values)]
    if not len(finite) or not finite.max() > finite.min():
        return np.where(np.isfinite(values), 0.0, values)
    if normalize == "zscore":
        scaled = (values - finite.mean()) / finite.std()
    else:
        scaled = (values - finite.min()) / (finite.max() - finite.min())
    return _in_order(scaled, given)


def _in_order(scaled: FloatArray, given: FloatArray) -> FloatArray:
    """The scaled values, of which those that the scale made equal keep the order of the values given.

    Beside a value that is far larger than all others, these come to lie closer than a tie. From the highest down, each
    is then lower than the one before by more than a tie, unless the values given are a tie themselves.
    """
    order = [i for i in np.argsort(-given, kind="stable").tolist() if np.isfinite(given[i])]
    for higher, lower in pairwise(order):
        with np.errstate(over="ignore"):
            difference = given[higher] - given[lower]
        apart = 4 * TIE * max(1.0, abs(scaled[higher]))
        is_apart = difference > TIE * abs(given[higher])
        limit = scaled[higher] - (apart if is_apart else 0.0)
        scaled[lower] = min(scaled[lower], limit) if difference else limit
    return scaled


def _in_range(values: FloatArray) -> FloatArray:
    """The values, scaled and shifted alike where squares and differences of theirs would overflow or vanish."""
    is_finite = np.isfinite(values)
    if not is_finite.any():
        return values
    # as the largest number may be the reciprocal of none, values are divided
    largest = float(np.abs(values[is_finite]).max())
    if largest > MAX_SQUARED:
        values = values / largest
    low, high = float(values[is_finite].min()), float(values[is_finite].max())
    if 0 < high - low < MIN_SQUARED:
        values = (values - low) / (high - low)
    return values


def combined_values(utility: Utility, result: Result, normalize: Normalize = "none") -> FloatArray:
    """Expected utilities [H]: the weighted sum of the parts' expectations, distances negated, each normalised first.

    Raises:
        MetricError: as `added`.
    """
    columns = [
        normalized(part.utility_sign * values, normalize)
        for (_, part), values in zip(utility.parts, result.values, strict=True)
    ]
    weights = [weight for weight, _ in utility.parts]
    with np.errstate(over="ignore", invalid="ignore"):
        if len(columns) == 1:
            # -0 becomes 0, as in a sum
            total = np.asarray(weights[0] * columns[0] + 0.0, np.float64)
        else:
            total = np.asarray((np.array(weights)[:, None] * np.array(columns)).sum(axis=0))
    if np.isfinite(total).all():
        return total
    total = np.zeros(total.shape)
    for weight, column in zip(weights, columns, strict=True):
        total = added(total, weight, column, utility.signature())
    return total


def combined_matrix(utility: Utility, result: Result) -> FloatArray | None:
    """The utility matrix [H, R] in the same way, if the task kept its matrices; errors as well."""
    if not result.matrices:
        return None
    matrix = np.zeros(1)
    for (weight, part), part_matrix in zip(utility.parts, result.matrices, strict=True):
        matrix = added(matrix, weight * part.utility_sign, part_matrix, utility.signature())
    return matrix
