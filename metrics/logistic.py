"""Weights of metrics from preferences (Joty et al. 2017, section 3.2): logistic regression on pairs, without a bias.

    p(a better than b) = 1 / (1 + exp(-w (x_a - x_b))),     x_i = (u_i - min_i) / (max_i - min_i)
    J(w) = sum_pairs log(1 + exp(-w d)) + penalty |w|^2,    d = x_better - x_worse
Minimised by Newton's method; J is strictly convex. A metric that does not vary has x = 0, so its weight is 0.

Metrics of one kind agree so much that few preferences tell their weights apart, and then their plain mean is hard to
beat. So weights may be `centred`: penalty |w - mean(w)|^2 stands in place of penalty |w|^2 (the mean has
MEAN_PENALTY), which makes them more alike the less the preferences say; it is for differences in comparable `units`.

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
MEAN_PENALTY = 0.01  # of the mean of centred weights
MAX_STEPS = 100  # of Newton's method
PRECISION = 1e-12


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
    """How weights are fitted; see `fit`."""

    penalty: float
    positive: bool = False
    centred: bool = False


def units(differences: FloatArray) -> FloatArray:
    """How much every feature differs within pairs, the root of the mean square, [features]; 1 if it never does."""
    roots = np.sqrt((differences**2).mean(axis=0))
    return np.where(roots > 0, roots, 1)


def loss(weights: FloatArray, differences: FloatArray) -> FloatArray:
    """log(1 + exp(-w d)) of every pair, [pairs], from weights [features] and differences [pairs, features]."""
    return np.logaddexp(0, -(differences @ weights))


def fit(differences: FloatArray, fitting: Fitting, shares: FloatArray | None = None) -> FloatArray:
    """The weights that minimise J, [features], from differences better less worse, [pairs, features].

    Args:
        differences: of the scaled features.
        fitting: the penalty, above 0; whether no weight may be negative (Newton's steps are then projected; Bertsekas
            1982); whether weights are centred.
        shares: how much every pair counts, [pairs]; 1 each if None.
    """
    counts = np.ones(len(differences)) if shares is None else shares  # [pairs]
    num_features = differences.shape[1]
    weights = np.zeros(num_features)
    # The penalty is the quadratic form w P w, where `mean` (0 unless centred) is the projection to the mean of w.
    mean = np.full((num_features, num_features), fitting.centred / max(1, num_features))
    penalties = fitting.penalty * (np.eye(num_features) - mean) + MEAN_PENALTY * mean  # P

    def objective(w: FloatArray) -> float:
        return float(counts @ loss(w, differences) + w @ penalties @ w)

    for _ in range(MAX_STEPS):
        # gradient and Hessian of J; `wrong` is 1 - p of every pair
        wrong = np.exp(-np.logaddexp(0, differences @ weights))
        gradient = 2 * penalties @ weights - differences.T @ (counts * wrong)
        curvature = (differences.T * (counts * wrong * (1 - wrong))) @ differences
        hessian = curvature + 2 * penalties
        # Newton's step for the weights that are not held at 0
        free = ~(fitting.positive & (weights <= 0) & (gradient >= 0))
        step = np.zeros_like(weights)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        moved = _descended(objective, weights, step, fitting.positive)
        change = np.abs(moved - weights).max(initial=0)
        done = change < PRECISION * (1 + np.abs(weights).max(initial=0))
        weights = moved
        if done:
            break
    return weights


def _descended(
    objective: Callable[[FloatArray], float],
    weights: FloatArray,
    step: FloatArray,
    positive: bool,
) -> FloatArray:
    """The weights after the step, halved as often as it takes not to raise the objective."""
    size = 1.0
    before = objective(weights)
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

    def hashed(name: str) -> tuple[int, str]:
        return crc32(name.encode("utf-8", "surrogatepass")), name

    names = sorted(set(groups), key=hashed)
    if len(names) < 2:
        raise InputError(
            f"{len(names)} documents",
            where="cross-validation",
            fix="Give preferences of two or more",
        )
    num_folds = min(count, len(names))
    fold_of = {name: i % num_folds for i, name in enumerate(names)}
    return np.array([fold_of[group] for group in groups])


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
    group_numbers = np.unique(groups, return_inverse=True)[1]
    trials = []
    for penalty in penalties:
        margins = _held_out_margins(differences, fold, Fitting(penalty, positive, centred))
        right = (margins > 0) + 0.5 * (margins == 0)
        share = float(right.mean())
        deviations = np.bincount(group_numbers, right - share)  # summed in every group
        error = float(np.sqrt((deviations**2).sum()) / len(right))
        mean_loss = float(np.logaddexp(0, -margins).mean())
        trials.append(Tried(penalty, share, error, mean_loss))
    best = max(trials, key=lambda trial: trial.right)
    as_good = [trial.penalty for trial in trials if trial.right >= best.right - best.error]
    return max(as_good), trials


def _held_out_margins(differences: FloatArray, fold: IntArray, fitting: Fitting) -> FloatArray:
    """w d of every pair under weights that were fitted without the pairs of its fold, [pairs]."""
    margins = np.zeros(len(differences))
    for held_out in range(int(fold.max()) + 1):
        weights = fit(differences[fold != held_out], fitting)
        margins[fold == held_out] = differences[fold == held_out] @ weights
    return margins


def intervals(
    differences: FloatArray,
    groups: Sequence[str],
    fitting: Fitting,
    draws: int = 200,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """The 2.5 % and 97.5 % quantiles of every weight when groups are drawn with replacement, [features] each."""
    names = sorted(set(groups))
    group_numbers = np.array([names.index(group) for group in groups])
    random = np.random.default_rng(seed)
    size = len(names)
    weights = []
    for _ in range(draws):
        drawn = random.integers(size, size=size)
        times = np.bincount(drawn, minlength=size)  # how often every group was drawn
        weights.append(fit(differences, fitting, times[group_numbers]))
    low, high = np.quantile(weights, [0.025, 0.975], axis=0)
    return low, high
