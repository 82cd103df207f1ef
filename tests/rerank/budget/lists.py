"""Synthetic lists for plans: a costly utility that a cheap one tells something of."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np

from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.plan import Estimate, plan
from discorank.rerank.budget.posterior import Request
from discorank.rerank.engines.expectation import expected_utility

T = TypeVar("T")


def drive(
    steps: Generator[Request, FloatArray, T], utilities: Callable[[Request], FloatArray]
) -> T:
    """Run a plan over a function that computes a block of utilities [rows, columns]."""
    try:
        request = next(steps)
        while True:
            request = steps.send(utilities(request))
    except StopIteration as end:
        result: T = end.value
        return result


def matrices(seed: int, size: int = 16, noise: float = 0.6) -> tuple[FloatArray, FloatArray]:
    """A costly and a cheap utility [N, N]: good rows, easy columns, likeness and noise; a text is most like itself."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(size, 3))
    likeness = points @ points.T / 3
    rows, columns = 0.5 * random.normal(size=(size, 1)), random.normal(size=size)
    cheap = likeness + columns + 0.5 * rows + 0.5 * random.normal(size=(size, size))
    costly = likeness + columns + rows + noise * random.normal(size=(size, size))
    np.fill_diagonal(cheap, cheap.max() + 1)
    np.fill_diagonal(costly, costly.max() + 1)
    return costly, cheap


def blocks_of(matrix: FloatArray) -> Callable[[Request], FloatArray]:
    """What answers requests from a whole matrix."""
    return lambda request: matrix[np.ix_(request.rows, request.columns)]


def estimate_of(matrix: FloatArray, cheap: FloatArray, pairs: int, **settings: object) -> Estimate:
    """The estimate for a list of equally weighted texts; cheap utilities are [H, R] or [K, H, R]."""
    prior = cheap.reshape(-1, *matrix.shape)
    num_rows, num_columns = matrix.shape
    weights = np.ones(num_columns)
    steps = plan(weights, num_rows, None, prior, pairs=pairs, **settings)  # type: ignore[arg-type]
    return drive(steps, blocks_of(matrix))


def regret_of(estimate: Estimate, matrix: FloatArray) -> float:
    """What the choice loses, in standard deviations of the expected utilities."""
    exact = expected_utility(matrix, np.ones(matrix.shape[1]))
    reached = exact[np.nanargmax(estimate.values)]
    return float((exact.max() - reached) / exact.std())
