"""Whether systems differ under a layer of scores: paired tests by document, intervals, and clusters of systems.

Approximate randomisation (Yeh 2000; Riezler and Maxwell 2005): two systems change places on every document with
probability 1/2; p is the share of draws whose absolute difference of corpus scores is at least the observed one, with
the draw at hand counted: (1 + as large) / (1 + draws). All 2^D assignments are enumerated where they are no more.
Paired bootstrap (Koehn 2004): documents are drawn with replacement; intervals are percentiles of the scores, and p is
that of sacrebleu, (1 + #{|d*| - mean |d*| > |d|}) / (1 + draws), which looks at one tail.
Of m pairs some are significant by chance. Corrected p-values: Holm (1979), p_(i) of the i-th smallest raised to
max_{j <= i} (m - j + 1) p_(j), bounds the chance of any false one; Benjamini and Hochberg (1995) the expected share of
false ones among those found.

Draws take whole documents, or blocks of segments where there are few documents. Segments of one document are not
independent: they share a subject, a style and a translation of every name. Draws of blocks take them for independent,
so intervals come out too narrow and p too small, the more so the shorter the blocks. Only the draws change: metrics
read their documents as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, repeat
from typing import Literal, get_args

import numpy as np

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.representations import FloatArray, IntArray
from ..choice import TIE
from .statistics import (
    DRAWS,
    MAX_CELLS,
    Number,
    assignments,
    clean,
    false_discovery_control,
    share_as_large,
)
from .system_scores import Layer, Part

Correction = Literal["none", "holm", "fdr"]


@dataclass(frozen=True)
class SystemPair:
    """The test of two systems by number, a < b.

    Args:
        a, b: numbers of the systems.
        difference: the score of a minus that of b.
        p: two-sided, by approximate randomisation, corrected for the number of pairs if asked for.
        low, high: the interval of the difference.
        p_uncorrected, p_bootstrap: of randomisation and bootstrap, without a correction.
        common: segments that are compared, where these differ between pairs.
    """

    a: int
    b: int
    difference: Number
    p: float
    low: Number
    high: Number
    p_uncorrected: Number = None
    p_bootstrap: Number = None
    common: int | None = None


@dataclass(frozen=True)
class Verdicts:
    """All systems under one layer of scores: a number per system, a test per pair; None where there is no number.

    Args:
        name: of the layer, the metric's signature.
        higher_is_better: the direction of the scores.
        systems: their names.
        scores: corpus scores.
        low, high: their intervals.
        clusters: from 1, the best.
        pairs: in order, a < b.
        exact: whether all assignments were enumerated.
        cuts: segments that were too long to be read whole.
        unit: what was drawn.
        units: how many there are.
        judged: segments with a score of each system, where these differ.
    """

    name: str
    higher_is_better: bool
    systems: tuple[str, ...]
    scores: tuple[Number, ...]
    low: tuple[Number, ...]
    high: tuple[Number, ...]
    clusters: tuple[int, ...]
    pairs: tuple[SystemPair, ...]
    exact: bool
    cuts: int = 0
    unit: str = "document"
    units: int | None = None
    judged: tuple[int, ...] | None = None

    @property
    def order(self) -> list[int]:
        """The systems, best first; those without a score last."""
        sign = -1.0 if self.higher_is_better else 1.0
        keys = [(score is None, sign * (score or 0.0)) for score in self.scores]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def utilities(self, systems: Sequence[str]) -> FloatArray:
        """Scores of some systems, higher is better, NaN for none."""
        scores = dict(zip(self.systems, self.scores, strict=True))
        sign = 1.0 if self.higher_is_better else -1.0
        return sign * np.array([scores[name] for name in systems], float)

    def pair(self, a: int, b: int) -> SystemPair | None:
        """The test of two systems, in either order; None of one and itself."""
        return self._pairs.get((min(a, b), max(a, b)))

    def p(self, a: int, b: int) -> float:
        """p of two systems; 1 of one and itself."""
        pair = self.pair(a, b)
        return 1.0 if pair is None else pair.p

    def is_better(self, a: int, b: int, level: float) -> bool:
        """True if system `a` is significantly better than `b`, by its score and by the test of the pair."""
        pair = self.pair(a, b)
        if pair is None or pair.p >= level or pair.difference is None:
            return False
        first, second = self.scores[pair.a], self.scores[pair.b]
        if first is None or second is None or pair.difference * (first - second) <= 0:
            return False  # equal, or the segments that both have in common order them the other way round
        return ((first > second) == self.higher_is_better) == (pair.a == a)

    def ranks(self, system: int, level: float) -> tuple[int, int]:
        """The best and the worst rank a system may have, as WMT gives them.

        The best is 1 + the number of systems significantly better than it, the worst S - the number of those that it
        is significantly better than.
        """
        systems = range(len(self.systems))
        num_better = sum(self.is_better(other, system, level) for other in systems)
        num_worse = sum(self.is_better(system, other, level) for other in systems)
        return 1 + num_better, len(self.systems) - num_worse

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], SystemPair]:
        return {(pair.a, pair.b): pair for pair in self.pairs}


def judge(
    layer: Layer,
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
        problem = f"found {draws} draws at level {level}"
        raise InputError(problem, where="compare", fix="Give draws > 0, 0 < level < 1")
    scores = layer.system_scores()
    (samples,) = _samples([layer], draws, seed)
    # pairs without a common segment are not tested
    pairs = {(a, b): SystemPair(a, b, None, 1.0, None, None, common=0) for a, b in _pairs(layer)}
    exact = True
    for contests in _by_size(layer.contests()):
        is_whole = contests[0] is layer
        drawn = [samples] if is_whole else _samples(contests, draws, seed)
        own_scores = [scores if is_whole else contest.system_scores() for contest in contests]
        p_values, all_drawn = _randomised(contests, own_scores, draws, seed, progress)
        exact &= all_drawn
        tests = map(_tests, contests, own_scores, drawn, p_values, repeat(level))
        for contest, own_tests in zip(contests, tests, strict=True):
            for pair in own_tests:
                a, b = (layer.systems.index(contest.systems[s]) for s in (pair.a, pair.b))
                common = None if is_whole else contest.parts[0].rows.shape[1]
                pairs[a, b] = replace(pair, a=a, b=b, common=common)
    tested = list(pairs.values())
    p_corrected = corrected(np.array([pair.p for pair in tested]), correction).tolist()
    tested = [
        replace(pair, p=p, p_uncorrected=pair.p)
        for pair, p in zip(tested, p_corrected, strict=True)
    ]
    low, high = _interval(samples, level)
    verdicts = Verdicts(
        layer.name,
        layer.higher_is_better,
        layer.systems,
        scores=tuple(map(clean, scores)),
        low=tuple(map(clean, low)),
        high=tuple(map(clean, high)),
        clusters=(),  # until they are known
        pairs=tuple(tested),
        exact=exact,
        cuts=layer.cuts,
        unit=layer.unit,
        units=layer.n_documents,
        judged=layer.num_judged(),
    )
    return replace(verdicts, clusters=clusters(verdicts, level))


def _by_size(contests: Iterable[Layer]) -> list[list[Layer]]:
    """Layers of equally many documents, which share their draws."""
    by_size: dict[int, list[Layer]] = {}
    for contest in contests:
        by_size.setdefault(contest.n_documents, []).append(contest)
    return list(by_size.values())


def _pairs(layer: Layer) -> list[tuple[int, int]]:
    return list(combinations(range(len(layer.systems)), 2))


def _tests(
    layer: Layer, scores: FloatArray, samples: FloatArray, p_values: list[float], level: float
) -> Iterator[SystemPair]:
    """The tests of a layer's pairs, from scores [S], resampled ones [S, draws] and p of every pair."""
    for (a, b), p in zip(_pairs(layer), p_values, strict=True):
        difference, drawn = float(scores[a] - scores[b]), samples[a] - samples[b]
        if layer.n_documents == 1:
            drawn[:] = np.nan  # resamples of one document do not vary
        low, high = _interval(drawn[None], level)
        p_bootstrap = clean(_bootstrap_p(drawn, difference))
        interval = clean(low[0]), clean(high[0])
        yield SystemPair(a, b, clean(difference), p, *interval, p_bootstrap=p_bootstrap)


def corrected(p: FloatArray, correction: Correction) -> FloatArray:
    """p-values [m] of one family of tests, each at least as large as before.

    Raises:
        InputError: an unknown correction.

    >>> corrected(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    """
    if correction not in get_args(Correction):
        raise unknown("correction", correction, get_args(Correction), where="correction")
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


def _samples(layers: Sequence[Layer], draws: int, seed: int) -> list[FloatArray]:
    """Scores of the same resampled documents under each of some layers, [S, draws]."""
    random = np.random.default_rng([seed, 1])
    num_documents = layers[0].n_documents
    chances = np.full(num_documents, 1 / num_documents)
    step = max(1, MAX_CELLS // num_documents)
    samples: list[list[FloatArray]] = [[] for _ in layers]
    for start in range(0, draws, step):
        # how often each document is drawn, [step, D]
        copies = random.multinomial(num_documents, chances, size=min(step, draws - start))
        for own, layer in zip(samples, layers, strict=True):
            own.append(layer.resampled(copies))
    return [np.concatenate(own, axis=1) for own in samples]


def _randomised(
    layers: Sequence[Layer],
    scores: Sequence[FloatArray],
    draws: int,
    seed: int,
    progress: Callable[[int], None],
) -> tuple[list[list[float]], bool]:
    """p of every layer's pairs, from its scores [S] and those after swaps; and whether all swaps were enumerated."""
    least = [
        [_least_large(own[a], own[b]) for a, b in _pairs(layer)]
        for layer, own in zip(layers, scores, strict=True)
    ]
    large = [[0] * len(own) for own in least]
    total, exact, masks = assignments(layers[0].n_documents, draws, [seed, 2])
    for swapped in masks:
        for layer, observed, counts in zip(layers, least, large, strict=True):
            for swaps in layer.swaps(swapped):
                for i, (a, b) in enumerate(_pairs(layer)):
                    x, y = swaps.pair(a, b)
                    counts[i] += int(np.count_nonzero(~(np.abs(x - y) < observed[i])))
        progress(len(swapped))
    return [[share_as_large(count, total, exact) for count in counts] for counts in large], exact


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


def clusters(verdicts: Verdicts, level: float) -> tuple[int, ...]:
    """Clusters from 1: every member of one is better, and significantly so, than every member of those after it."""
    order = verdicts.order
    numbers = [1] * len(order)
    for i in range(1, len(order)):
        is_apart = all(verdicts.is_better(a, b, level) for a in order[:i] for b in order[i:])
        numbers[order[i]] = numbers[order[i - 1]] + is_apart
    return tuple(numbers)


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
    fix = "Give document, segment, or a number of segments"
    raise InputError(f"found {excerpt(unit)}", where="unit", fix=fix)


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


def in_units(layer: Layer, segments: Sequence[int], size: int | None) -> Layer:
    """The same scores, drawn by blocks of `size` successive segments; the last block of a document may be shorter.

    What scores whole documents is drawn by document whatever the size; see `Layer.unit`.

    Args:
        layer: by document.
        segments: how many each document has, [D].
        size: of a block; None for documents.
    """
    if size is None:
        return layer
    for part in layer.parts:
        rows_of_documents = np.bincount(part.owner)
        if not np.array_equal(rows_of_documents, segments):
            return layer
    owner = blocks(segments, size)
    parts = tuple(Part(part.weight, part.scorer, part.rows, owner) for part in layer.parts)
    return replace(layer, parts=parts, unit="segment" if size == 1 else f"{size} segments")


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
