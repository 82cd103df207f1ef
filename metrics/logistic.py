"""Weights of metrics from preferences (Joty et al. 2017, section 3.2): logistic regression on pairs, without a bias.

    p(a better than b) = 1 / (1 + exp(-w (x_a - x_b))),     x_i = (u_i - min_i) / (max_i - min_i)
    J(w) = sum_pairs log(1 + exp(-w d)) + penalty |w|^2,    d = x_better - x_worse
Minimised by Newton's method; J is strictly convex. A metric that does not vary has x = 0, so its weight is 0.

Metrics of one kind agree so much that few preferences tell their weights apart, and then their plain mean is hard to
beat. So weights may be `centred`: penalty |w - mean(w)|^2 stands in place of penalty |w|^2 (the mean has LEAST), which
makes them more alike the less the preferences say; it is for differences in comparable `units`.

The penalty is chosen by cross-validation over groups (documents): the largest that is as good as the best within one
standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from .errors import InputError
from .representations import FloatArray, IntArray

PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0)
LEAST = 0.01  # penalty of the mean of centred weights
STEPS, PRECISION = 100, 1e-12


class Scale(NamedTuple):
    """Least and largest value of every feature in the training data, [features]."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Scale:
        """The scale of some rows of features, [rows, features]."""
        return cls(values.min(axis=0), values.max(axis=0))

    @property
    def spread(self) -> FloatArray:
        """1 / (high - low), 0 for a feature that does not vary."""
        width = self.high - self.low
        return np.divide(1, width, out=np.zeros_like(width), where=width > 0)

    def scaled(self, values: FloatArray) -> FloatArray:
        """The values with the training data at 0 to 1; others are not clipped."""
        return (values - self.low) * self.spread


class Fitting(NamedTuple):
    """How weights are found."""

    penalty: float
    positive: bool = False
    centred: bool = False


def units(differences: FloatArray) -> FloatArray:
    """How much every feature differs within pairs, the root of the mean square, [features]; 1 if it never does."""
    found = np.sqrt((differences**2).mean(axis=0))
    return np.where(found > 0, found, 1)


def loss(weights: FloatArray, differences: FloatArray) -> FloatArray:
    """log(1 + exp(-w d)) of every pair, [pairs]."""
    return np.logaddexp(0, -(differences @ weights))


def fit(differences: FloatArray, how: Fitting, shares: FloatArray | None = None) -> FloatArray:
    """The weights that minimise J, [features], from differences better less worse, [pairs, features].

    Args:
        differences: of the scaled features.
        how: the penalty, above 0; whether no weight may be negative (Newton's steps are then projected; Bertsekas
            1982); whether weights are centred.
        shares: how much every pair counts, [pairs]; 1 each if None.
    """
    counts = np.ones(len(differences)) if shares is None else shares
    weights = np.zeros(differences.shape[1])
    mean = np.full((len(weights), len(weights)), how.centred / max(1, len(weights)))
    penalties = how.penalty * (np.eye(len(weights)) - mean) + LEAST * mean

    def objective(w: FloatArray) -> float:
        return float(counts @ loss(w, differences) + w @ penalties @ w)

    for _ in range(STEPS):
        wrong = np.exp(-np.logaddexp(0, differences @ weights))  # 1 - p
        gradient = 2 * penalties @ weights - differences.T @ (counts * wrong)
        curvature = (differences.T * (counts * wrong * (1 - wrong))) @ differences
        free = ~(how.positive & (weights <= 0) & (gradient >= 0))
        step = np.zeros_like(weights)
        inner = (curvature + 2 * penalties)[np.ix_(free, free)]
        step[free] = np.linalg.solve(inner, gradient[free])
        moved = _descended(objective, weights, step, how.positive)
        done = np.abs(moved - weights).max(initial=0) < PRECISION * (
            1 + np.abs(weights).max(initial=0)
        )
        weights = moved
        if done:
            break
    return weights


def _descended(
    objective: Callable[[FloatArray], float], weights: FloatArray, step: FloatArray, positive: bool
) -> FloatArray:
    """The weights after the longest of ever halved steps that does not raise the objective."""
    size, before = 1.0, objective(weights)
    while size > PRECISION:
        moved = weights - size * step
        moved = np.maximum(moved, 0) if positive else moved
        if objective(moved) <= before:
            return np.asarray(moved)
        size /= 2
    return weights


def folds(groups: Sequence[str], count: int = 5) -> IntArray:
    """A fold for every pair, [pairs]: groups in the order of a hash of their names, dealt out in turn.

    Raises:
        InputError: there are fewer than two groups.
    """
    names = sorted(
        set(groups), key=lambda name: (crc32(name.encode("utf-8", "surrogatepass")), name)
    )
    if len(names) < 2:
        raise InputError(
            f"{len(names)} documents",
            where="cross-validation",
            fix="Give preferences of two or more",
        )
    fold = {name: i % min(count, len(names)) for i, name in enumerate(names)}
    return np.array([fold[group] for group in groups])


class Tried(NamedTuple):
    """How a penalty does on pairs held out."""

    penalty: float
    right: float  # share of pairs put right, a tie counts half
    error: float  # standard error of that share, over groups
    loss: float  # mean


def choose_penalty(
    differences: FloatArray,
    groups: Sequence[str],
    positive: bool = False,
    centred: bool = False,
    penalties: Sequence[float] = PENALTIES,
) -> tuple[float, list[Tried]]:
    """The largest penalty that puts as many pairs right as the best one, within its standard error; and all tried.

    Many weights do nearly as well on the pairs at hand; this takes the calmest of them.
    """
    fold = folds(groups)
    number = np.unique(groups, return_inverse=True)[1]
    tried = []
    for penalty in penalties:
        margins = np.zeros(len(differences))
        for held in range(int(fold.max()) + 1):
            weights = fit(differences[fold != held], Fitting(penalty, positive, centred))
            margins[fold == held] = differences[fold == held] @ weights
        right = (margins > 0) + 0.5 * (margins == 0)
        share = float(right.mean())
        error = float(np.sqrt((np.bincount(number, right - share) ** 2).sum()) / len(right))
        tried.append(Tried(penalty, share, error, float(np.logaddexp(0, -margins).mean())))
    best = max(tried, key=lambda one: one.right)
    return max(one.penalty for one in tried if one.right >= best.right - best.error), tried


def intervals(
    differences: FloatArray, groups: Sequence[str], how: Fitting, draws: int = 200, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """The 2.5 % and 97.5 % quantiles of every weight when groups are drawn with replacement, [features] each."""
    names = sorted(set(groups))
    number = np.array([names.index(group) for group in groups])
    random = np.random.default_rng(seed)
    size, found = len(names), []
    for _ in range(draws):
        times = np.bincount(random.integers(size, size=size), minlength=size)
        found.append(fit(differences, how, times[number]))
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return low, high
