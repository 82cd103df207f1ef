"""The order in which pseudo-references are used, so that the first ones, whatever their number, represent all."""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .features import Features
from .observed import Problem


def representative_order(problem: Problem, features: Features) -> IntArray:
    """The pseudo-references that count, in an order by herding (Welling 2009); without cheap utilities by draws.

    Each next one brings the mean over those so far closest to the mean over all by their weights, in the space of the
    columns of the cheap utilities.
    """
    columns = problem.columns
    weights = problem.shares.sum(axis=0)[columns]
    if features.cheap is None:
        # heavier ones tend to be drawn earlier (Efraimidis and Spirakis 2006)
        keys = np.log(problem.random().uniform(size=len(columns))) / weights
        return columns[np.argsort(-keys, kind="stable")]
    points = features.cheap[:, columns].T
    points = points - points.mean(axis=1, keepdims=True)
    return columns[_herded(points, weights / weights.sum())]


def _herded(points: FloatArray, weights: FloatArray) -> IntArray:
    """An order of points [n, d] whose beginnings have about the weighted mean of all."""
    gram = points @ points.T
    to_mean = gram @ weights
    own = np.diag(gram).copy()
    with_chosen = np.zeros(len(points))
    # squared distance of the mean of k + 1 points to the mean of all, without what is the same for every next point
    left = np.ones(len(points), bool)
    order = []
    for count in range(len(points)):
        distances = (own + 2 * with_chosen) / (count + 1) - 2 * to_mean
        distances[~left] = np.inf
        nearest = int(np.argmin(distances))
        order.append(nearest)
        left[nearest] = False
        with_chosen += gram[nearest]
    return np.array(order, np.int64)
