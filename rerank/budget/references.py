"""The order in which pseudo-references are used, so that the first ones, whatever their number, represent all."""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Problem
from .regressors import Regressors


def representative_order(problem: Problem, features: Regressors) -> IntArray:
    """The pseudo-references that count, in an order by herding (Welling 2009); without cheap utilities by draws.

    Each next one is the one most along what the mean over those so far lacks of the mean over all by their weights, in
    the space of the columns of the cheap utilities: one that compares all hypotheses alike never comes first.
    """
    columns = problem.columns
    weights = problem.shares.sum(axis=0)[columns]
    if not len(features.cheap):
        # heavier ones tend to be drawn earlier (Efraimidis and Spirakis 2006)
        keys = np.log(problem.random().uniform(size=len(columns))) / weights
        return columns[np.argsort(-keys, kind="stable")]
    points = features.cheap[:, :, columns]
    points = points - points.mean(axis=1, keepdims=True)
    points = points.reshape(-1, len(columns)).T
    return columns[_herded(points, weights / weights.sum())]


def _herded(points: FloatArray, weights: FloatArray) -> IntArray:
    """An order of points [n, d] whose beginnings have about the weighted mean of all."""
    products = points @ points.T
    with_mean = products @ weights
    with_chosen = np.zeros(len(points))
    is_left = np.ones(len(points), bool)
    order = []
    for count in range(len(points)):
        gains = np.where(is_left, (count + 1) * with_mean - with_chosen, -np.inf)
        best = int(np.argmax(gains))
        order.append(best)
        is_left[best] = False
        with_chosen += products[best]
    return np.array(order, np.int64)
