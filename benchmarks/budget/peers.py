"""The approximate decoders of mbrs 0.1.8, rebuilt from their formulas, over a whole matrix of which they see a part.

They return values [H] and the number of pairs they used. Pruning has no budget: it stops by its own schedule, and a
curve comes from its setting alpha. Its decoders by centroids and by aggregation need representations of a metric
(COMET; BLEU, chrF and COMET), which utilities with costly pairs do not have; `centroids` of our own has the formula of
the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discorank.metrics.representations import FloatArray

SCHEDULE = (8, 16, 32, 64, 128, 256)
RANK, REGULARISATION, ITERATIONS, TOLERANCE = 8, 0.1, 30, 1e-4


class Peer(NamedTuple):
    values: FloatArray  # [H]
    pairs: int


def pruning(matrix: FloatArray, weights: FloatArray, alpha: float, seed: int) -> Peer:
    """Confidence pruning over the first 8, 16, ... references of the list, until one hypothesis or no step is left.

    Rows pruned earlier keep no value. Copies of references are columns of their own, in random order; the number of
    pairs is as many as are the same share of the distinct ones.
    """
    random = np.random.default_rng(seed)
    num_rows, num_distinct = matrix.shape
    copies_of = np.repeat(np.arange(num_distinct), weights.astype(np.int64))
    matrix = matrix[:, random.permutation(copies_of)]
    num_columns = len(copies_of)
    left = np.arange(num_rows)
    pairs = used = 0
    for step in SCHEDULE:
        size = min(step, num_columns)
        pairs += len(left) * (size - used)
        used = size
        means = matrix[left, :used].mean(axis=1)
        copies = random.multinomial(used, np.full(used, 1 / used), 500)
        drawn = matrix[left, :used] @ copies.T / used
        left = left[(drawn >= drawn[np.argmax(means)]).mean(axis=1) > 1 - alpha]
        if len(left) <= 1 or used == num_columns:
            break
    values = np.full(num_rows, np.nan)
    values[left] = matrix[left, :used].mean(axis=1)
    return Peer(values, round(pairs * num_distinct / num_columns))


def sampled(matrix: FloatArray, weights: FloatArray, pairs: int, seed: int) -> Peer:
    """The plain decoder over as many references, drawn from all copies, as the pairs allow for every hypothesis."""
    count = max(1, min(len(weights), pairs // len(matrix)))
    random = np.random.default_rng(seed)
    columns = random.choice(len(weights), count, replace=False, p=weights / weights.sum())
    return Peer(matrix[:, columns].mean(axis=1), count * len(matrix))


def low_rank(matrix: FloatArray, weights: FloatArray, pairs: int, seed: int) -> Peer:
    """PMBR: pairs drawn evenly, and alternating least squares; computed pairs are replaced by their reconstruction."""
    random = np.random.default_rng(seed)
    seen = np.zeros(matrix.shape, bool)
    seen.flat[random.choice(matrix.size, pairs, replace=False)] = True
    known = np.where(seen, matrix, 0.0)
    left = random.standard_normal((len(matrix), RANK)) * 0.1
    right = random.standard_normal((matrix.shape[1], RANK)) * 0.1
    before = 1e5
    for _ in range(ITERATIONS):
        left = _solved(known, seen, right)
        right = _solved(known.T, seen.T, left)
        loss = float(np.mean((matrix - left @ right.T)[seen] ** 2))
        if abs(before - loss) <= TOLERANCE:
            break
        before = loss
    return Peer(left @ right.T @ (weights / weights.sum()), pairs)


def _solved(known: FloatArray, seen: FloatArray, factors: FloatArray) -> FloatArray:
    products = factors[:, :, None] * factors[:, None, :]
    gram = np.tensordot(seen.astype(np.float64), products, 1) + REGULARISATION * np.eye(RANK)
    return np.asarray(np.linalg.solve(gram, (known @ factors)[:, :, None])[:, :, 0])
