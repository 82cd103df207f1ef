"""The best that a weighted sum of features could choose, weights found on the very texts that are chosen: a ceiling.

No rule that learns one vector of weights of these features for all given sets, from however many judgements, does
better on the same texts than the best vector. The search goes through the weights in turn, over a grid, until none
helps; it starts from the first feature alone and from several random weights, so it is a local optimum, found from many
sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser.segment_values import first_best

GRID = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])
GRID = np.concatenate([-GRID[:0:-1], GRID])
STARTS, ROUNDS = 8, 20


class ScoredFeatures(NamedTuple):
    """One set.

    Args:
        columns: features of every text, standardised within segments, [n, S, F].
        scores: lower is better, [n, S].
    """

    columns: FloatArray
    scores: FloatArray

    def choices(self, weights: FloatArray) -> IntArray:
        """What is chosen by weights [F], [n]."""
        return first_best(self.columns @ weights)

    def loss(self, weights: FloatArray) -> float:
        """The mean score of what is chosen less that of all texts, over the scores' deviation."""
        found = self.scores[np.arange(len(self.scores)), self.choices(weights)]
        return float((found.mean() - self.scores.mean()) / self.scores.std())


def hindsight_weights(sets: Sequence[ScoredFeatures]) -> FloatArray:
    """The weights [F] with the least mean loss over some sets, each counting alike."""
    num_features = sets[0].columns.shape[2]
    random = np.random.default_rng(0)
    starts = [np.eye(num_features)[0], *random.normal(size=(STARTS, num_features)) / 3]
    found = [_climbed(sets, start) for start in starts]
    return min(found, key=lambda weights: _mean_loss(sets, weights))


def _mean_loss(sets: Sequence[ScoredFeatures], weights: FloatArray) -> float:
    return float(np.mean([own.loss(weights) for own in sets]))


def _climbed(sets: Sequence[ScoredFeatures], start: FloatArray) -> FloatArray:
    weights, least = start.copy(), _mean_loss(sets, start)
    for _ in range(ROUNDS):
        before = least
        for feature in range(len(weights)):
            for value in GRID:
                tried = weights.copy()
                tried[feature] = value
                loss = _mean_loss(sets, tried)
                if loss < least - 1e-12:
                    weights, least = tried, loss
        if least == before:
            break
    return weights
