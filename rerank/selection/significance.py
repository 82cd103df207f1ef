"""Whether systems differ under a metric: paired tests by document, intervals, and clusters of systems.

Approximate randomisation (Yeh 2000; Riezler and Maxwell 2005): two systems change places on every document with
probability 1/2; p is the share of draws whose absolute difference of corpus scores is at least the observed one, with
the draw at hand counted: (1 + as large) / (1 + draws). All 2^D assignments are enumerated where they are no more.
Paired bootstrap (Koehn 2004): documents are drawn with replacement; intervals are percentiles of the scores, and p is
that of sacrebleu, (1 + #{|d*| - mean |d*| > |d|}) / (1 + draws), which looks at one tail.
Of m pairs some are significant by chance. Corrected p-values: Holm (1979), p_(i) of the i-th smallest raised to
max_{j <= i} (m - j + 1) p_(j), bounds the chance of any false one; Benjamini and Hochberg (1995) the expected share of
false ones among those found.

What the draws of tests take: whole documents, or blocks of segments where there are few documents.

Segments of one document are not independent: they share a subject, a style and a translation of every name. Draws of
blocks take them for independent, so intervals come out too narrow and p too small, the more so the shorter the blocks.
Only the draws change: metrics read their documents as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.representations import FloatArray, IntArray
from ..choice import TIE
from .statistics import DRAWS, MAX_CELLS, assignments, false_discovery_control
from .system_scores import Part, Scored

Correction = Literal["none", "holm", "fdr"]
CORRECTIONS = ("none", "holm", "fdr")


class SystemPair(NamedTuple):
    """Two systems under one metric."""

    a: int  # number of the system
    b: int
    difference: float  # of the scores, a - b
    p: float  # approximate randomisation, two-sided
    p_bootstrap: float
    low: float  # interval of the difference
    high: float
    p_corrected: float  # p for the number of pairs; p itself without a correction
    common: int | None = None  # segments that are compared, where these differ between pairs

    def is_against(self, scores: FloatArray) -> bool:
        """True if the difference has the opposite sign of that of the systems' scores, [S], or does not exist."""
        return not self.difference * (scores[self.a] - scores[self.b]) >= 0


class Verdicts(NamedTuple):
    """All systems under one metric."""

    scores: FloatArray  # [S]
    low: FloatArray  # [S], intervals
    high: FloatArray
    pairs: tuple[SystemPair, ...]  # a < b
    clusters: IntArray  # [S], from 1, the best
    exact: bool  # all assignments were enumerated
    unit: str = "document"  # of the draws
    units: int = 0
    judged: tuple[int, ...] | None = (
        None  # segments with a score of each system, where these differ
    )

    def p_values(self) -> FloatArray:
        """Corrected p of every pair, [S, S]; 1 on the diagonal, and where the pair contradicts the order of scores."""
        p = np.ones((len(self.scores), len(self.scores)))
        for pair in self.pairs:
            if pair.is_against(self.scores):
                continue
            p[pair.a, pair.b] = pair.p_corrected
            p[pair.b, pair.a] = pair.p_corrected
        return p

    def of(self, systems: Sequence[int]) -> Verdicts:
        """The same of some systems, by ascending index; clusters keep their numbers."""
        indices = list(systems)
        new_index = {system: i for i, system in enumerate(indices)}
        pairs = []
        for pair in self.pairs:
            if pair.a in new_index and pair.b in new_index:
                pairs.append(pair._replace(a=new_index[pair.a], b=new_index[pair.b]))
        return self._replace(
            scores=self.scores[indices],
            low=self.low[indices],
            high=self.high[indices],
            pairs=tuple(pairs),
            clusters=self.clusters[indices],
            judged=None if self.judged is None else tuple(self.judged[i] for i in indices),
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
    samples = _samples(scored, draws, seed)
    indices = list(combinations(range(len(scores)), 2))
    drawn_pairs: dict[tuple[int, int], FloatArray] = {}
    p_values: dict[tuple[int, int], float] = {}
    exact = True
    for documents, pairs_there in scored.pairs_by_documents().items():
        drawn_pairs |= _drawn_pairs(scored, documents, pairs_there, samples, draws, seed)
        large, total, all_drawn = _randomised(
            scored, documents, scores, pairs_there, draws, seed, progress
        )
        p_there = large / total if all_drawn else (1 + large) / (1 + total)
        p_values |= zip(pairs_there, p_there.tolist(), strict=True)
        exact &= all_drawn
    p = np.array([p_values[pair] for pair in indices])
    p_corrected = corrected(p, correction)
    pairs = []
    for i, (a, b) in enumerate(indices):
        drawn_differences = drawn_pairs[a, b]
        first, second = scored.pair_scores(a, b, scores)
        difference = first - second
        low, high = _interval(drawn_differences[None], level)
        pair = SystemPair(
            a,
            b,
            difference,
            p=float(p[i]),
            p_bootstrap=_bootstrap_p(drawn_differences, difference),
            low=float(low[0]),
            high=float(high[0]),
            p_corrected=float(p_corrected[i]),
            common=scored.num_common(a, b),
        )
        pairs.append(pair)
    low, high = _interval(samples, level)
    verdicts = Verdicts(
        scores,
        low,
        high,
        tuple(pairs),
        np.ones(len(scores), np.int64),  # until they are known
        exact,
        scored.unit,
        scored.n_documents,
        judged=None if (judged := scored.num_judged()) is None else tuple(judged.tolist()),
    )
    numbers = clusters(scored.sign * scores, verdicts.p_values(), level)
    return verdicts._replace(clusters=numbers)


def corrected(p: FloatArray, correction: Correction) -> FloatArray:
    """p-values [m] of one family of tests, each at least as large as before.

    Raises:
        InputError: an unknown correction.

    >>> corrected(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS, where="correction")
    if correction == "none" or not len(p):
        return p
    if correction == "fdr":
        return false_discovery_control(p)
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    ascending = np.maximum.accumulate(p[order] * factors)
    raised = np.empty(len(p))
    raised[order] = np.minimum(ascending, 1)
    return raised


def _samples(scored: Scored, draws: int, seed: int) -> FloatArray:
    """Scores of resampled documents, [S, draws]."""
    resamples = _resamples(scored.n_documents, draws, seed)
    return np.concatenate([scored.resampled(copies) for copies in resamples], axis=1)


def _drawn_pairs(
    scored: Scored,
    documents: tuple[int, ...] | None,
    pairs: Sequence[tuple[int, int]],
    samples: FloatArray,
    draws: int,
    seed: int,
) -> dict[tuple[int, int], FloatArray]:
    """Differences [draws] of pairs in resamples of the documents that both systems have."""
    if documents is None:
        return {(a, b): samples[a] - samples[b] for a, b in pairs}
    if len(documents) == 1:  # whose resamples do not vary
        return dict.fromkeys(pairs, np.full(draws, np.nan))
    differences: list[FloatArray] = []
    for copies in _resamples(len(documents), draws, seed):
        spread = _spread(copies, documents, scored.n_documents)
        differences.append(scored.pair_differences(spread, pairs))
    rows = np.concatenate(differences, axis=1)
    return dict(zip(pairs, rows, strict=True))


def _spread(draws: IntArray, documents: Sequence[int], num_documents: int) -> IntArray:
    """Draws [b, n] of some documents as draws [b, D] of all, 0 for the others."""
    spread = np.zeros((len(draws), num_documents), np.int64)
    spread[:, list(documents)] = draws
    return spread


def _resamples(documents: int, draws: int, seed: int) -> Iterator[IntArray]:
    """How often each document is drawn, [draws, D], some draws at a time."""
    random = np.random.default_rng([seed, 1])
    chances = np.full(documents, 1 / documents)
    step = max(1, MAX_CELLS // documents)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        yield random.multinomial(documents, chances, size=size)


def _randomised(
    scored: Scored,
    documents: tuple[int, ...] | None,
    scores: FloatArray,
    pairs: Sequence[tuple[int, int]],
    draws: int,
    seed: int,
    progress: Callable[[int], None],
) -> tuple[IntArray, int, bool]:
    """Of every pair, how many draws differ at least as much as observed; how many draws; whether these are all."""
    large = np.zeros(len(pairs), np.int64)
    num_documents = scored.n_documents if documents is None else len(documents)
    total, exact, masks = assignments(num_documents, draws, [seed, 2])
    observed = np.array([_least_large(*scored.pair_scores(a, b, scores)) for a, b in pairs])
    for swapped in masks:
        swapped_documents = (
            swapped if documents is None else _spread(swapped, documents, scored.n_documents)
        )
        for swaps in scored.swaps(swapped_documents):
            for i, (a, b) in enumerate(pairs):
                x, y = swaps.pair(a, b)
                is_small = np.abs(x - y) < observed[i]
                large[i] += np.count_nonzero(~is_small)
        progress(len(swapped))
    return large, total, exact


def _least_large(a: float, b: float) -> float:
    """The smallest difference that counts as large as that of two scores."""
    size = max(abs(a), abs(b))
    return abs(a - b) - TIE * size


def _bootstrap_p(drawn: FloatArray, difference: float) -> float:
    """p of a difference from differences [draws] of resamples, as sacrebleu computes it; 1 if all are 0."""
    sizes = np.abs(drawn[~np.isnan(drawn)])  # a draw may have no rated document
    if not len(sizes) or np.isnan(difference):
        return float("nan")
    if not sizes.any():
        return 1.0
    large = np.count_nonzero(sizes - sizes.mean() > abs(difference))
    return float(1 + large) / (1 + len(sizes))


def _interval(samples: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Percentiles [n] of rows [n, draws]."""
    shares = [50 * level, 100 - 50 * level]
    # draws without a judged segment of a system have no score of it
    some = ~np.isnan(samples).all(axis=1)
    bounds = np.full((2, len(samples)), np.nan)
    bounds[:, some] = np.nanpercentile(samples[some], shares, axis=1)
    return bounds[0], bounds[1]


def clusters(utilities: FloatArray, p: FloatArray, level: float) -> IntArray:
    """Clusters from 1: every member of one is better, and significantly so, than every member of those after it.

    >>> clusters(np.array([3.0, 2.0, 1.0]), np.array([[1, 0.3, 0.01], [0.3, 1, 0.01], [0.01, 0.01, 1]]), 0.05)
    array([1, 1, 2])
    """
    order = np.argsort(-utilities, kind="stable")
    numbers = np.ones(len(order), np.int64)
    for i in range(1, len(order)):
        across = p[np.ix_(order[:i], order[i:])]  # of the systems before i and those from i on
        is_apart = bool((across < level).all())
        numbers[order[i]] = numbers[order[i - 1]] + is_apart
    return numbers


def segments_of_unit(unit: str | int) -> int | None:
    """How many segments a unit has, None for a document.

    Raises:
        InputError: it is neither "document" nor "segment" nor a number above 0.

    >>> segments_of_unit("document"), segments_of_unit("segment"), segments_of_unit("10"), segments_of_unit(5)
    (None, 1, 10, 5)
    """
    if unit == "document":
        return None
    if unit == "segment":
        return 1
    if isinstance(unit, int) or (unit.isascii() and unit.isdigit()):
        size = int(unit)
        if size > 0 and not isinstance(unit, bool):
            return size
    raise InputError(
        f"found {excerpt(unit)}",
        where="unit",
        fix="Give document, segment, or a number of segments",
    )


def unit_of(unit: str | int, documents: int, level: float) -> str | int:
    """The unit meant by "auto": documents, or segments where no p could be below the level with so few documents."""
    if unit != "auto":
        return unit
    return "segment" if least_p(documents) >= level else "document"


def least_p(units: int) -> float:
    """The smallest p of this number of units: of all 2^units assignments, two differ as much as the one at hand.

    >>> least_p(5)
    0.0625
    """
    return float(min(1.0, 2.0 ** (1 - units)))


def in_units(scored: Scored, segments: Sequence[int], size: int | None) -> Scored:
    """The same scores, drawn by blocks of `size` successive segments; the last block of a document may be shorter.

    What scores whole documents is drawn by document whatever the size; `Scored.unit` tells.

    Args:
        scored: by document.
        segments: how many each document has, [D].
        size: of a block; None for documents.
    """
    if size is None:
        return scored
    for part in scored.parts:
        rows_of_documents = np.bincount(part.owner)
        if not np.array_equal(rows_of_documents, segments):
            return scored
    owner = blocks(segments, size)
    parts = tuple(Part(part.weight, part.scorer, part.rows, owner) for part in scored.parts)
    return replace(scored, parts=parts, unit="segment" if size == 1 else f"{size} segments")


def blocks(segments: Sequence[int], size: int) -> IntArray:
    """The block of every segment, [segments].

    >>> blocks([3, 1], 2).tolist()
    [0, 0, 1, 2]
    """
    num_blocks = -(-np.asarray(segments) // size)  # of every document, rounded up
    first_blocks = np.cumsum(num_blocks) - num_blocks
    numbers = []
    for first, num_segments in zip(first_blocks, segments, strict=True):
        numbers.append(first + np.arange(num_segments) // size)
    return np.asarray(np.concatenate(numbers), np.int64)
