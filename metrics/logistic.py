"""Weights of metrics from preferences (Joty et al. 2017, section 3.2): logistic regression on pairs, without a bias.

    p(a better than b) = 1 / (1 + exp(-w (x_a - x_b))),     x_i = (u_i - min_i) / (max_i - min_i)
    J(w) = sum_pairs log(1 + exp(-w d)) + penalty |w|^2,    d = x_better - x_worse
Minimised by Newton's method; J is strictly convex. A metric that does not vary has x = 0, so its weight is 0. The
penalty is chosen by cross-validation over groups (documents), by the mean loss of pairs held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from .errors import InputError
from .reps import FloatArray, IntArray

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
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


def loss(weights: FloatArray, differences: FloatArray) -> FloatArray:
    """log(1 + exp(-w d)) of every pair, [pairs]."""
    return np.logaddexp(0, -(differences @ weights))


def fit(differences: FloatArray, penalty: float, shares: FloatArray | None = None) -> FloatArray:
    """The weights that minimise J, [features], from differences better less worse, [pairs, features].

    Args:
        differences: of the scaled features.
        penalty: of the squared weights, above 0.
        shares: how much every pair counts, [pairs]; 1 each if None.
    """
    counts = np.ones(len(differences)) if shares is None else shares
    weights = np.zeros(differences.shape[1])
    identity = np.eye(len(weights))

    def objective(w: FloatArray) -> float:
        return float(counts @ loss(w, differences) + penalty * w @ w)

    for _ in range(STEPS):
        wrong = np.exp(-np.logaddexp(0, differences @ weights))  # 1 - p
        gradient = 2 * penalty * weights - differences.T @ (counts * wrong)
        curvature = (differences.T * (counts * wrong * (1 - wrong))) @ differences + 2 * penalty * identity
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while objective(weights - size * step) > objective(weights) and size > PRECISION:
            size /= 2
        weights = weights - size * step
        if np.abs(size * step).max(initial=0) < PRECISION * (1 + np.abs(weights).max(initial=0)):
            break
    return weights


def folds(groups: Sequence[str], count: int = 5) -> IntArray:
    """A fold for every pair, [pairs]: groups in the order of a hash of their names, dealt out in turn.

    Raises:
        InputError: there are fewer than two groups.
    """
    names = sorted(set(groups), key=lambda name: (crc32(name.encode("utf-8", "surrogatepass")), name))
    if len(names) < 2:
        raise InputError(f"{len(names)} documents", where="cross-validation", fix="Give preferences of two or more")
    fold = {name: i % min(count, len(names)) for i, name in enumerate(names)}
    return np.array([fold[group] for group in groups])


def choose_penalty(
    differences: FloatArray, groups: Sequence[str], penalties: Sequence[float] = PENALTIES
) -> tuple[float, list[float]]:
    """The penalty whose pairs held out lose least (the largest of equals), and the mean loss of each."""
    fold = folds(groups)
    losses = []
    for penalty in penalties:
        total = 0.0
        for held in range(int(fold.max()) + 1):
            weights = fit(differences[fold != held], penalty)
            total += float(loss(weights, differences[fold == held]).sum())
        losses.append(total / len(differences))
    best = max(i for i, value in enumerate(losses) if value <= min(losses) + 1e-12)
    return penalties[best], losses


def intervals(
    differences: FloatArray, groups: Sequence[str], penalty: float, draws: int = 200, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """The 2.5 % and 97.5 % quantiles of every weight when groups are drawn with replacement, [features] each."""
    names = sorted(set(groups))
    number = np.array([names.index(group) for group in groups])
    random = np.random.default_rng(seed)
    found = [
        fit(
            differences,
            penalty,
            np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))[number],
        )
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return low, high
