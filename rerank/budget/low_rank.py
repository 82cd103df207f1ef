"""Low-rank completion (Trabelsi et al. 2024, PMBR): a part of the pairs at random, the others by a factorisation.

    min over P, Q of  sum over computed pairs (u(h, r) - p(h) q(r))^2 + lambda (|P|^2 + |Q|^2)
by alternating least squares; utilities are standardised before. Pairs that were computed keep their utilities.
Each block of a few hypotheses has pseudo-references of its own, so that a request is a block.
"""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray
from .observed import Observed
from .requests import BoolArray, Found, Search
from .survivors import affordable_rows, only

RANK = 8
REGULARISATION = 0.1
ITERATIONS = 30
ROWS = 4  # hypotheses with the same pseudo-references


def low_rank(observed: Observed) -> Search:
    """The means [H] of the completed rows."""
    problem, random = observed.problem, observed.problem.random()
    rows = affordable_rows(observed)
    count = min(len(problem.columns), observed.left // len(rows))
    shuffled = random.permutation(rows)
    for top in range(0, len(rows), ROWS):
        drawn = random.choice(problem.columns, count, replace=False)
        yield from observed.ask(np.sort(shuffled[top : top + ROWS]), np.sort(drawn))
    if not observed.known.any():
        return Found(np.full(problem.num_rows, np.nan))
    completed = np.where(observed.known, observed.utilities, completion(observed))
    shares = problem.shares
    return Found(only(np.where(shares > 0, completed * shares, 0.0).sum(axis=1), rows))


def completion(observed: Observed) -> FloatArray:
    """The factorisation of the computed pairs, [H, R]."""
    values = observed.utilities[observed.known]
    centre, unit = float(values.mean()), float(values.std()) or 1.0
    scaled = np.where(observed.known, (observed.utilities - centre) / unit, 0.0)
    random = observed.problem.random()
    right = random.standard_normal((scaled.shape[1], RANK)) / np.sqrt(RANK)
    left = np.zeros((scaled.shape[0], RANK))
    for _ in range(ITERATIONS):
        left = _solved(scaled, observed.known, right)
        right = _solved(scaled.T, observed.known.T, left)
    return np.asarray(centre + unit * left @ right.T)


def _solved(values: FloatArray, seen: BoolArray, factors: FloatArray) -> FloatArray:
    """The other factors [n, k] by least squares, from values [n, m] that are 0 where not seen and factors [m, k]."""
    products = factors[:, :, None] * factors[:, None, :]
    gram = np.tensordot(seen.astype(np.float64), products, 1)
    gram += REGULARISATION * np.eye(factors.shape[1])
    return np.asarray(np.linalg.solve(gram, (values @ factors)[:, :, None])[:, :, 0])
