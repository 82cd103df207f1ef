"""Centroids (Deguchi et al. 2024, CBMBR): one pseudo-reference stands for each cluster, with the cluster's weight.

    mu(h) ~ sum_k W_k u(h, r_k),   W_k the weight of cluster k, r_k the pseudo-reference nearest to its centre
Clusters are those of weighted k-means (k-means++ at first) over the columns of the cheap utilities: pseudo-references
are near each other if the cheap utility compares them alike with all hypotheses.
"""

from __future__ import annotations

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, IntArray
from .observed import Observed
from .regressors import regressors_of
from .requests import Found, Search
from .survivors import affordable_rows, only

ITERATIONS = 20


def centroids(observed: Observed) -> Search:
    """The weighted means [H] over the clusters' pseudo-references.

    Raises:
        InputError: there are no cheap utilities of pairs.
    """
    problem = observed.problem
    if problem.prior is None:
        fix = "Give a cheap utility of pairs, or take another method"
        raise InputError("no cheap utilities to cluster by", where="centroids", fix=fix)
    rows = affordable_rows(observed)
    count = min(len(problem.columns), observed.left // len(rows))
    points = regressors_of(problem).cheap[:, :, problem.columns].reshape(-1, len(problem.columns)).T
    weights = problem.shares.sum(axis=0)[problem.columns]
    cluster, centres = k_means(points, weights / weights.sum(), count, problem.random())
    nearest = [_nearest_member(points, cluster, k, centre) for k, centre in enumerate(centres)]
    # no pseudo-reference is in two clusters, and empty clusters have none
    kept = [k for k, member in enumerate(nearest) if member is not None]
    chosen = problem.columns[[member for member in nearest if member is not None]]
    order = np.argsort(chosen)
    yield from observed.ask(rows, chosen[order])
    total = np.stack([problem.shares[:, problem.columns[cluster == k]].sum(axis=1) for k in kept])
    counting = np.where(total.T > 0, observed.utilities[:, chosen], 0.0)
    with np.errstate(invalid="ignore"):  # rows of infinities have no mean
        return Found(only((counting * total.T).sum(axis=1), rows))


def k_means(
    points: FloatArray, weights: FloatArray, count: int, random: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """The cluster of each point [n] and the centres [k, d]; weights [n] sum to 1."""
    centres = _spread_centres(points, weights, count, random)
    cluster = _nearest(points, centres)
    for _ in range(ITERATIONS):
        for k in range(count):
            members = cluster == k
            if members.any():
                centres[k] = np.average(points[members], axis=0, weights=weights[members])
        moved = _nearest(points, centres)
        if (moved == cluster).all():
            break
        cluster = moved
    return cluster, centres


def _spread_centres(
    points: FloatArray, weights: FloatArray, count: int, random: np.random.Generator
) -> FloatArray:
    """k-means++ (Arthur and Vassilvitskii 2007): each next centre with probability by its squared distance."""
    chosen = [int(random.choice(len(points), p=weights))]
    distances = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    for _ in range(count - 1):
        chances = weights * distances
        if not chances.sum() > 0:
            break  # all points are centres
        chosen.append(int(random.choice(len(points), p=chances / chances.sum())))
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    centres = points[chosen].copy()
    if len(centres) < count:
        centres = np.vstack([centres, np.repeat(centres[:1], count - len(centres), axis=0)])
    return centres


def _nearest(points: FloatArray, centres: FloatArray) -> IntArray:
    """The nearest centre of each point, the first of several."""
    products = points @ centres.T
    return np.asarray(np.argmin((centres**2).sum(axis=1) - 2 * products, axis=1), np.int64)


def _nearest_member(
    points: FloatArray, cluster: IntArray, k: int, centre: FloatArray
) -> int | None:
    """The point of a cluster that is nearest to its centre, None of an empty cluster."""
    members = np.flatnonzero(cluster == k)
    if not len(members):
        return None
    distances = ((points[members] - centre) ** 2).sum(axis=1)
    return int(members[np.argmin(distances)])
