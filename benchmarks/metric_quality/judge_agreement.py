"""How two judges of the same candidates agree, and what a choice gains under a judge: figures with their draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from benchmarks.support.judged_lists import JudgedLists
from benchmarks.support.resampling import Resampling
from discorank import load_metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.normalization import normalized
from discorank.rerank.tuning.candidate_features import features

UTILITIES = ("chrf", "chrf + 100*rouge-l")
TIED = 1e-9


class Pair:
    """One language pair under all judges and averages of judges.

    Args:
        data: the lists.
        resampling: of the segments of this pair alone.
        standard: name of the judge that others are held against.
    """

    def __init__(self, data: JudgedLists, resampling: Resampling, standard: str) -> None:
        self.data, self.resampling = data, resampling
        self.standard = self.scores(standard)

    def scores(self, judge: str) -> FloatArray:
        """Scores [segments, candidates] of a judge, or the mean of several ("A+B"), each divided by its deviation."""
        columns = [self.data.judges.index(name) for name in judge.split("+")]
        own = self.data.scores[:, :, columns]
        return np.asarray((own / own.std(axis=(0, 1))).mean(axis=2))

    @cached_property
    def consensus(self) -> dict[str, FloatArray]:
        """The share of every candidate in what MBR chooses, [segments, candidates], by utility."""
        return {utility: best_shares(values) for utility, values in self._expected.items()}

    @property
    def expected(self) -> FloatArray:
        """Expected utilities [segments, candidates] under the last utility."""
        return self._expected[UTILITIES[-1]]

    @cached_property
    def _expected(self) -> dict[str, FloatArray]:
        return {
            utility: np.stack(features(load_metric(utility), self.data.records, "candidates"))
            for utility in UTILITIES
        }

    def by_consensus(self, judge: str) -> FloatArray:
        """What a judge chooses, the candidate of the highest expected utility where it finds several best."""
        return best_shares(self.scores(judge), self.expected)

    def beside_consensus(self, judge: str) -> FloatArray:
        """What is chosen by the sum of expected utility and a judge, each standardised within its list."""
        columns = zip(self.expected, self.scores(judge), strict=True)
        sums = [normalized(a, "zscore") + normalized(b, "zscore") for a, b in columns]
        return best_shares(np.stack(sums))

    def system_scores(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean scores of systems, [1, systems] and in every draw [resamples, systems]."""
        return scores.mean(axis=0)[None], self.resampling.means(scores)


def centred(scores: FloatArray) -> FloatArray:
    """Scores less the mean of their segment."""
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def signs(scores: FloatArray) -> IntArray:
    """Which of two candidates is better, for all pairs of every segment, [segments, pairs] of -1, 0 and 1."""
    i, j = np.triu_indices(scores.shape[1], 1)
    difference = scores[:, i] - scores[:, j]
    return np.asarray(np.where(np.abs(difference) <= TIED, 0, np.sign(difference)), dtype=np.int8)


def best_shares(scores: FloatArray, among: FloatArray | None = None) -> FloatArray:
    """The candidates that a judge finds best, equal shares of 1 in every segment, [segments, candidates].

    With `among` a tie goes to those of the best that have most of it.
    """
    best = scores >= scores.max(axis=1, keepdims=True) - TIED
    if among is not None:
        inside = np.where(best, among, -np.inf)
        best = inside >= inside.max(axis=1, keepdims=True) - TIED
    return np.asarray(best / best.sum(axis=1, keepdims=True))


class Figure:
    """A number of one pair and its draws; figures of several pairs are averaged."""

    def __init__(self, value: float, draws: FloatArray) -> None:
        self.value, self.draws = value, draws

    @classmethod
    def mean(cls, figures: Sequence[Figure]) -> Figure:
        """The mean over pairs."""
        value = float(np.mean([figure.value for figure in figures]))
        return cls(value, np.mean([figure.draws for figure in figures], axis=0))

    def less(self, other: Figure) -> Figure:
        """The difference, draw by draw."""
        return Figure(self.value - other.value, self.draws - other.draws)


def _ratio(pair: Pair, above: FloatArray, below: FloatArray) -> Figure:
    """The ratio of two means over segments, [segments] each."""
    draws = pair.resampling.means(np.stack([above, below], axis=1))
    return Figure(float(above.mean() / below.mean()), draws[:, 0] / draws[:, 1])


def correlation(pair: Pair, first: FloatArray, second: FloatArray) -> Figure:
    """r of two judges within segments."""
    x, y = centred(first), centred(second)
    products = np.stack([(x * y).mean(axis=1), (x * x).mean(axis=1), (y * y).mean(axis=1)], axis=1)

    def r(means: FloatArray) -> FloatArray:
        return np.asarray(means[..., 0] / np.sqrt(means[..., 1] * means[..., 2]))

    return Figure(float(r(products.mean(axis=0))), r(pair.resampling.means(products)))


def accuracy(pair: Pair, first: FloatArray, second: FloatArray) -> Figure:
    """The share of pairs of candidates on which two judges say the same."""
    same = (signs(first) == signs(second)).mean(axis=1)
    return _ratio(pair, same, np.ones_like(same))


def ties(pair: Pair, scores: FloatArray) -> Figure:
    """The share of pairs of candidates with one score."""
    tied = (signs(scores) == 0).mean(axis=1)
    return _ratio(pair, tied, np.ones_like(tied))


def systems(pair: Pair, first: FloatArray, second: FloatArray) -> Figure:
    """Pearson's r of the mean scores of systems."""

    def r(x: FloatArray, y: FloatArray) -> FloatArray:
        x, y = centred(x), centred(y)
        return np.asarray((x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1)))

    (a, a_draws), (b, b_draws) = pair.system_scores(first), pair.system_scores(second)
    return Figure(float(r(a, b)[0]), r(a_draws, b_draws))


def gained(pair: Pair, shares: FloatArray, judge: FloatArray) -> Figure:
    """How far a choice goes from a random candidate (0) to the judge's own choice (100), under that judge."""
    chosen = (shares * judge).sum(axis=1) - judge.mean(axis=1)
    figure = _ratio(pair, chosen, judge.max(axis=1) - judge.mean(axis=1))
    return Figure(100 * figure.value, 100 * figure.draws)
