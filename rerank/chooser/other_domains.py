"""How much a judged segment of another domain counts beside one of the domain itself, by leaving documents out.

    w = argmin_w sum_d sum_(i in d, s) (y_is - m_s(w))^2,     both less their means over the judged systems of segment i
over the documents d of the domain, or blocks of ten segments of one document, in five folds: m(w) are systems' means
(`selection.shrinkage`) from the other folds, every segment of which counts 1, and from the other domain, every segment
of which counts w. Where domains agree on systems w is 1, where they do not the least; with fewer than four documents
it is `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .chooser_fit import effects, folding_units, folds

WEIGHTS = (1.0, 0.3, 0.1, 0.03)
DEFAULT = 0.3
FEWEST = 4  # documents


def learned_weight(errors: FloatArray, document: IntArray, is_other: FloatArray) -> float:
    """w.

    Args:
        errors: of both domains, nan where nobody judged, [n, S].
        document: its number, [n].
        is_other: 1 for segments of the other domain, else 0, [n].
    """
    own = np.flatnonzero(is_other == 0)
    if len(np.unique(folding_units(document[own]))) < FEWEST:
        return DEFAULT
    losses = [held_out_loss(errors, document, is_other, weight) for weight in WEIGHTS]
    return WEIGHTS[int(np.argmin(losses))]


def held_out_loss(
    errors: FloatArray, document: IntArray, is_other: FloatArray, weight: float
) -> float:
    """The sum of squares above, for one weight."""
    own = np.flatnonzero(is_other == 0)
    weights = np.where(is_other > 0, weight, 1.0)
    fold = folds(document[own])
    total = 0.0
    for held in range(int(fold.max()) + 1):
        tested = own[fold == held]
        rest = np.setdiff1d(np.arange(len(errors)), tested)
        means, _ = effects(errors[rest], document[rest], weights[rest])
        left = errors[tested] - means
        left = left[(~np.isnan(left)).any(axis=1)]
        total += float(np.nansum((left - np.nanmean(left, axis=1, keepdims=True)) ** 2))
    return total


def weights_of(
    other: Sequence[bool], weight: float | None, errors: FloatArray, document: IntArray
) -> tuple[FloatArray, float]:
    """The weight of every segment, [n], and w: what is given, or learned where that is None.

    Args:
        other: whether each document is of another domain.
        weight: w.
        errors, document: as for `learned_weight`.
    """
    is_other = np.array(other, float)[document]
    w = learned_weight(errors, document, is_other) if weight is None else weight
    return np.where(is_other > 0, w, 1.0), w
