"""Whether systems differ under a metric: paired tests by document, intervals, and clusters of systems.

Approximate randomisation (Yeh 2000; Riezler and Maxwell 2005): two systems change places on every document with
probability 1/2; p is the share of draws whose absolute difference of corpus scores is at least the observed one, with
the draw at hand counted: (1 + as large) / (1 + draws). All 2^D assignments are enumerated where they are no more.
Paired bootstrap (Koehn 2004): documents are drawn with replacement; intervals are percentiles of the scores, and p is
that of sacrebleu, (1 + #{|d*| - mean |d*| > |d|}) / (1 + draws), which looks at one tail.
Of m pairs some are significant by chance. Corrected p-values: Holm (1979), p_(i) of the i-th smallest raised to
max_{j <= i} (m - j + 1) p_(j), bounds the chance of any false one; Benjamini and Hochberg (1995) the expected share of
false ones among those found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError, unknown
from ...metrics.representations import FloatArray, IntArray
from .statistics import DRAWS, STEP, assignments, scipy_stats
from .system_scores import Scored

Correction = Literal["none", "holm", "fdr"]
CORRECTIONS = ("none", "holm", "fdr")

CLOSE = 1e-9  # relative: differences this close are equal


class Pair(NamedTuple):
    """Two systems under one metric."""

    a: int
    b: int
    difference: float  # of the scores, a - b
    p: float  # approximate randomisation, two-sided
    p_bootstrap: float
    low: float  # interval of the difference
    high: float
    p_corrected: float  # p for that many pairs; p itself without a correction


class Verdicts(NamedTuple):
    """All systems under one metric."""

    scores: FloatArray  # [S]
    low: FloatArray  # [S], intervals
    high: FloatArray
    pairs: tuple[Pair, ...]  # a < b
    clusters: IntArray  # [S], from 1, the best
    exact: bool  # all assignments were enumerated
    unit: str = "document"  # of the draws
    units: int = 0

    def p_values(self) -> FloatArray:
        """Corrected p of every pair, [S, S], 1 on the diagonal."""
        found = np.ones((len(self.scores), len(self.scores)))
        for pair in self.pairs:
            found[pair.a, pair.b] = found[pair.b, pair.a] = pair.p_corrected
        return found

    def of(self, systems: Sequence[int]) -> Verdicts:
        """The same of some systems, by ascending index; clusters keep their numbers."""
        place = {system: i for i, system in enumerate(systems)}
        pairs = [
            p._replace(a=place[p.a], b=place[p.b])
            for p in self.pairs
            if p.a in place and p.b in place
        ]
        kept = list(systems)
        return self._replace(
            scores=self.scores[kept],
            low=self.low[kept],
            high=self.high[kept],
            pairs=tuple(pairs),
            clusters=self.clusters[kept],
        )


def judge(
    scored: Scored,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.05,
    progress: Callable[[int], None] = lambda done: None,
    correction: Correction = "none",
) -> Verdicts:
    """Scores, intervals at 1 - level, and tests of all pairs of systems; clusters by corrected p.

    Raises:
        InputError: draws or level are out of range.
    """
    if draws < 1 or not 0 < level < 1:
        raise InputError(
            f"found {draws} draws at level {level}",
            where="compare",
            fix="Give draws > 0, 0 < level < 1",
        )
    scores = scored.system_scores()
    samples = np.concatenate(
        [scored.resampled(copies) for copies in _resamples(scored.n_documents, draws, seed)], 1
    )
    indices = list(combinations(range(len(scores)), 2))
    large, total, exact = _randomised(scored, scores, indices, draws, seed, progress)
    p = large / total if exact else (1 + large) / (1 + total)
    pairs = []
    for (a, b), own, raised in zip(
        indices, p.tolist(), corrected(p, correction).tolist(), strict=True
    ):
        drawn, difference = samples[a] - samples[b], float(scores[a] - scores[b])
        low, high = _interval(drawn[None], level)
        tail = _bootstrap_p(drawn, difference)
        pairs.append(Pair(a, b, difference, own, tail, float(low[0]), float(high[0]), raised))
    low, high = _interval(samples, level)
    one = np.ones(len(scores), np.int64)
    found = Verdicts(scores, low, high, tuple(pairs), one, exact, scored.unit, scored.n_documents)
    return found._replace(clusters=clusters(scored.sign * scores, found.p_values(), level))


def corrected(p: FloatArray, how: Correction) -> FloatArray:
    """p-values [m] of one family of tests, each at least as large as before.

    Raises:
        InputError: an unknown correction.

    >>> corrected(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    """
    if how not in CORRECTIONS:
        raise unknown("correction", how, CORRECTIONS, where="correction")
    if how == "none" or not len(p):
        return p
    if how == "fdr":
        return np.asarray(scipy_stats().false_discovery_control(p), np.float64)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    found = np.empty(len(p))
    found[order] = np.minimum(raised, 1)
    return found


def least_p(units: int) -> float:
    """The smallest p of so many units: of all 2^units assignments, two differ as much as the one at hand.

    >>> least_p(5)
    0.0625
    """
    return float(2.0 ** (1 - units))


def _resamples(documents: int, draws: int, seed: int) -> Iterator[IntArray]:
    """How often each document is drawn, [some draws, D]."""
    random = np.random.default_rng([seed, 1])
    step = max(1, STEP // documents)
    for start in range(0, draws, step):
        yield random.multinomial(
            documents, np.full(documents, 1 / documents), size=min(step, draws - start)
        )


def _randomised(
    scored: Scored,
    scores: FloatArray,
    indices: Sequence[tuple[int, int]],
    draws: int,
    seed: int,
    progress: Callable[[int], None],
) -> tuple[IntArray, int, bool]:
    """Of every pair, how many draws differ at least as much as observed; how many draws; whether these are all."""
    large = np.zeros(len(indices), np.int64)
    total, exact, masks = assignments(scored.n_documents, draws, [seed, 2])
    for swapped in masks:
        for swaps in scored.swaps(swapped):
            for i, (a, b) in enumerate(indices):
                x, y = swaps.pair(a, b)
                close = CLOSE * max(abs(scores[a]), abs(scores[b]))
                large[i] += np.count_nonzero(~(np.abs(x - y) < abs(scores[a] - scores[b]) - close))
        progress(len(swapped))
    return large, total, exact


def _bootstrap_p(drawn: FloatArray, difference: float) -> float:
    sizes = np.abs(drawn[~np.isnan(drawn)])  # a draw may have no rated document
    if not len(sizes) or np.isnan(difference):
        return float("nan")
    return float(1 + np.count_nonzero(sizes - sizes.mean() > abs(difference))) / (1 + len(sizes))


def _interval(samples: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Percentiles of rows [n, draws]."""
    low, high = np.percentile(samples, [50 * level, 100 - 50 * level], axis=1)
    return low, high


def clusters(utilities: FloatArray, p: FloatArray, level: float) -> IntArray:
    """Clusters from 1: every member of one is better, and significantly so, than every member of those after it.

    >>> clusters(np.array([3.0, 2.0, 1.0]), np.array([[1, 0.3, 0.01], [0.3, 1, 0.01], [0.01, 0.01, 1]]), 0.05)
    array([1, 1, 2])
    """
    order = np.argsort(-utilities, kind="stable")
    found = np.ones(len(order), np.int64)
    for i in range(1, len(order)):
        apart = bool((p[np.ix_(order[:i], order[i:])] < level).all())
        found[order[i]] = found[order[i - 1]] + apart
    return found
