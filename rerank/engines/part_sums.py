"""Values of a list's candidates on one scale, so that weights of sums mean the same in every list."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from ...metrics.mixture import Utility, added
from ...metrics.representations import FloatArray
from ..choice import TIE
from .interface import Result

Normalize = Literal["none", "zscore", "minmax", "rank"]
# sums of squares of numbers up to here are finite, and those of differences from here on are above 0
MAX_SQUARED, MIN_SQUARED = 1e150, 1e-150


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
    if normalize != "none":
        return _sum_of_normalized(utility, result, normalize)
    factors = [weight * part.utility_sign for weight, part in utility.parts]
    with np.errstate(over="ignore", invalid="ignore"):
        if len(factors) == 1:
            # -0 becomes 0, as in a sum
            values = np.asarray(factors[0] * result.values[0] + 0.0, np.float64)
        else:
            of_parts = np.array(factors)[:, None] * result.values
            values = np.asarray(of_parts.sum(axis=0), np.float64)
    if np.isfinite(values).all():
        return values
    values = np.zeros(values.shape)
    for factor, part_values in zip(factors, result.values, strict=True):
        values = added(values, factor, part_values, utility.signature())
    return values


def _sum_of_normalized(utility: Utility, result: Result, normalize: Normalize) -> FloatArray:
    """The weighted sum of the parts' expectations [H], each as a utility and normalised within the list."""
    values = np.zeros(result.values.shape[1])
    for (weight, part), part_values in zip(utility.parts, result.values, strict=True):
        column = normalized(part.utility_sign * part_values, normalize)
        values = added(values, weight, column, utility.signature())
    return values


def combined_matrix(utility: Utility, result: Result) -> FloatArray | None:
    """The utility matrix [H, R] in the same way, if the task kept its matrices; errors as well."""
    if not result.matrices:
        return None
    matrix = np.zeros(1)
    for (weight, part), part_matrix in zip(utility.parts, result.matrices, strict=True):
        matrix = added(matrix, weight * part.utility_sign, part_matrix, utility.signature())
    return matrix
