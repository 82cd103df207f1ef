"""Means over pseudo-references that a few bad ones cannot upset, in the place of the weighted mean.

    trimmed            the weighted mean without the lowest and the highest share of all weight; a pair at a bound
                       counts with the part of its weight that is left (Tukey 1962)
    median-of-means    the weighted median of the means of groups of pseudo-references (Nemirovsky and Yudin 1983)

One pseudo-reference of weight w moves a trimmed mean by a bounded amount while w is at most the share, and a median of
means while the groups that hold a bad one have less than half of the weight. Groups are blocks of nearly equal numbers
in the order of the texts' digests, so they depend neither on the order of candidates nor on chance. Both means need all
pairs of a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np

from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Document, Text
from .expectation import CELLS, NO_WEIGHT

Mean = Literal["mean", "trimmed", "median-of-means"]
ROUNDING = 1e-12  # a smaller share of all weight is rounding


class Estimator(NamedTuple):
    """How the utilities of a list's hypotheses are averaged over its pseudo-references.

    Args:
        share: of the weight, left out at either end, for a trimmed mean.
        groups: numbers of the pseudo-references of each group, for a median of means; none for a trimmed mean.
    """

    share: float = 0.0
    groups: tuple[IntArray, ...] = ()


@dataclass(frozen=True, slots=True)
class RobustMean:
    """A robust mean.

    Args:
        kind: which.
        trim: the share of a trimmed mean.
        num_groups: the number of groups of a median of means; as many as there are texts where these are fewer.
    """

    kind: Mean
    trim: float
    num_groups: int

    def of(self, references: Sequence[Text]) -> Estimator:
        """The estimator for a list with these distinct pseudo-references."""
        if self.kind == "trimmed":
            return Estimator(self.trim)
        digests = [_digest(text) for text in references]
        in_order = sorted(range(len(references)), key=digests.__getitem__)
        num_groups = max(1, min(self.num_groups, len(references)))
        blocks = np.array_split(np.array(in_order, np.int64), num_groups)
        return Estimator(groups=tuple(blocks))


def _digest(text: Text) -> bytes:
    plain = list(text.sentences) if isinstance(text, Document) else text
    return blake2b(json.dumps(plain).encode(), digest_size=16).digest()


def robust_expected_utility(
    matrix: FloatArray, weights: FloatArray, own: FloatArray | None, estimator: Estimator
) -> FloatArray:
    """Robust expected utilities [H] from a matrix [H, R] under weights [R] of any positive scale.

    `own` is left out as by `expected_utility`. A row without weight, or with a counting pair that is not a number, is
    NaN; an infinite pair counts as the farthest of all. Values depend on no order of rows or columns, to the last bit.
    """
    num_rows, num_columns = matrix.shape
    values = np.empty(num_rows)
    step = max(1, CELLS // max(1, num_columns))
    for top in range(0, num_rows, step):
        rows = matrix[top : top + step]
        remaining = _remaining(len(rows), weights, own, top)
        # a reference of weight 0 does not count, whatever its utility
        counting = np.where(remaining > 0, rows, 0.0)
        if estimator.groups:
            means = _median_of_means(counting, remaining, estimator.groups)
        else:
            means = _trimmed(counting, remaining, estimator.share)
        unknown = np.isnan(counting).any(axis=1)
        has_weight = remaining.sum(axis=1) > NO_WEIGHT * weights.sum()
        values[top : top + step] = np.where(has_weight & ~unknown, means, np.nan)
    return values


def _remaining(num_rows: int, weights: FloatArray, own: FloatArray | None, top: int) -> FloatArray:
    """The weights [rows, R] of some rows from `top` on, without a row's own copy."""
    remaining = np.tile(weights, (num_rows, 1))
    if own is not None:
        rows = np.arange(num_rows)
        left = weights[top + rows] - own[top : top + num_rows]
        remaining[rows, top + rows] = np.where(left > NO_WEIGHT * weights.sum(), left, 0.0)
    return remaining


def _trimmed(values: FloatArray, weights: FloatArray, share: float) -> FloatArray:
    """The trimmed mean [rows] of values [rows, R] under weights [rows, R]."""
    values, weights = _sorted(values, weights)
    above = np.cumsum(weights, axis=1)
    total = above[:, -1:]
    below = above - weights
    # how much of a value's weight lies between the two bounds
    kept = np.minimum(above, (1 - share) * total) - np.maximum(below, share * total)
    kept = np.where(kept > ROUNDING * total, kept, 0.0)
    return _means(values, kept)


def _median_of_means(
    values: FloatArray, weights: FloatArray, groups: Sequence[IntArray]
) -> FloatArray:
    """The weighted median [rows] of the means of groups of columns of values [rows, R]."""
    weight_of_group = np.stack([weights[:, group].sum(axis=1) for group in groups], axis=1)
    means = np.stack([_means(values[:, group], weights[:, group]) for group in groups], axis=1)
    means, weight_of_group = _sorted(means, weight_of_group)
    above = np.cumsum(weight_of_group, axis=1)
    half, rounding = above[:, -1:] / 2, ROUNDING * above[:, -1:]
    # the first group that reaches half of the weight, and the first beyond: two where it is exactly half
    lower = np.argmax(above >= half - rounding, axis=1)
    upper = np.argmax(above > half + rounding, axis=1)
    rows = np.arange(len(means))
    first, second = means[rows, lower], means[rows, upper]
    return np.asarray(np.where(lower == upper, first, first / 2 + second / 2))


def _sorted(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both by value in every row, equal values by weight, so that sums do not depend on the order of columns."""
    order = np.lexsort((weights, values), axis=1)
    return np.take_along_axis(values, order, 1), np.take_along_axis(weights, order, 1)


def _means(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted means [rows] of values [rows, columns], 0 where a row has no weight."""
    counting = np.where(weights > 0, values, 0.0)
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = (counting * weights).sum(axis=1)
        return np.asarray(sums / np.where(total > 0, total, 1.0))
