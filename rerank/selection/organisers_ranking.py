"""Rankings of systems by people's scores as the organisers of WMT make them, rule by rule.

wmt25  every wave of annotation is a row of segments. Two systems are paired in the same wave and, with two waves, each
       wave of one with the other wave of the other; Wilcoxon's signed-rank test of the differences, one-sided,
       at half the level. MQM has one wave, and its tests pair as they stand.
wmt24  scores of a segment are averaged. Wilcoxon's test in every domain, two-sided; the p-values of domains become one
       by Stouffer's method, p = 1 - Phi(sum Phi^-1(1 - p_d) / sqrt(D)). A system's score is the mean over domains.
wmt26  scores of a segment are averaged. One system is better than another if the lower end of a one-sided bootstrap
       interval (BCa, 100 draws) of the mean paired difference, or of the difference of unpaired means, is above 0.
       The organisers' draws have no seed, so that close pairs differ from run to run; here they have one.

Systems are ordered by mean. In wmt25 and wmt26 a system's rank goes from behind the nearest better-placed system that
beats it to before the nearest worse-placed one that it beats, and a cluster ends where all ranks above end and all
below begin (wmt26: where every system above beats every one below). As the organisers' script of 2026 prints it, the
last rank is only that of the last system: others that beat nobody end at the one before. In wmt24 ranks count all that
beat it and all it beats, and a cluster ends where no pair across it is undecided.

All of them take segments for independent; `significance` draws documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from .statistics import scipy_stats

Rule = Literal["wmt24", "wmt25", "wmt26"]
Pair = tuple[str, str]


class RankedSystem(NamedTuple):
    """A system in a ranking.

    Args:
        system: its name.
        score: the mean that orders it.
        ranks: the best and the worst that it may have.
        cluster: from 1, the best.
        domains: the mean by domain, where there are any; None where it has no score there.
    """

    system: str
    score: float
    ranks: tuple[int, int]
    cluster: int
    domains: Mapping[str, float | None]


class OrganisersRanking(NamedTuple):
    """The systems, best first, and which beat which.

    Args:
        rule: whose.
        systems: best first.
        p_values: of the better-placed against the worse-placed system; None under wmt26, which has no p.
        beats: pairs of a system and one that it beats significantly.
    """

    rule: Rule
    systems: tuple[RankedSystem, ...]
    p_values: Mapping[Pair, float | None]
    beats: frozenset[Pair]


def organisers_ranking(
    waves: Mapping[str, Sequence[Sequence[float | None]]],
    domains: Sequence[str | None],
    rule: Rule,
    higher_is_better: bool = True,
    level: float = 0.05,
    seed: int = 0,
) -> OrganisersRanking:
    """The systems as a rule of WMT ranks them.

    Args:
        waves: scores by system, [waves, segments], None where one is missing; of all systems alike.
        domains: of every segment; None where it is not known.
        rule: whose.
        higher_is_better: the direction of the scores.
        level: of significance, of which wmt25 takes half on one side.
        seed: of the draws of wmt26.

    Raises:
        InputError: no system has a score.
        ModelLoadError: scipy is not installed.
    """
    sign = 1.0 if higher_is_better else -1.0
    tables: dict[str, FloatArray] = {
        name: sign * np.array([[np.nan if x is None else x for x in wave] for wave in by_wave])
        for name, by_wave in waves.items()
    }
    if not tables:
        raise InputError("no system has a score", where="human", fix="Look at the names of systems")
    if rule != "wmt25":
        tables = {name: _mean_wave(table)[None] for name, table in tables.items()}
    places = [domain or "" for domain in domains]
    means = {name: _domain_means(table, places) for name, table in tables.items()}
    score = {name: _score(tables[name], means[name], rule) for name in tables}
    order = sorted(tables, key=lambda name: -score[name])
    decide = _tests(rule, tables, places, level, seed)
    p_values: dict[Pair, float | None] = {}
    beats: set[Pair] = set()
    for i, better in enumerate(order):
        for worse in order[i + 1 :]:
            p_values[better, worse], is_better = decide(better, worse)
            if is_better:
                beats.add((better, worse))
    ranks = [_ranks(order, i, beats, rule) for i in range(len(order))]
    clusters = _clusters(order, ranks, beats, rule)
    ranked = []
    for i, name in enumerate(order):
        by_domain = {d: None if np.isnan(x) else sign * x for d, x in means[name].items() if d}
        ranked.append(RankedSystem(name, sign * score[name], ranks[i], clusters[i], by_domain))
    return OrganisersRanking(rule, tuple(ranked), p_values, frozenset(beats))


def _mean_wave(table: FloatArray) -> FloatArray:
    """The mean over waves [waves, segments] of every segment, nan where there is no score."""
    counts = (~np.isnan(table)).sum(axis=0)
    sums = np.nansum(table, axis=0)
    means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return np.asarray(means)


def _domain_means(table: FloatArray, places: Sequence[str]) -> dict[str, float]:
    """The mean of all scores by domain, in order of name; nan where there is none."""
    names = np.array(places, dtype=object)
    means = {}
    for domain in sorted(set(places)):
        inside = table[:, names == domain]
        known = inside[~np.isnan(inside)]
        means[domain] = float(known.mean()) if len(known) else float("nan")
    return means


def _score(table: FloatArray, by_domain: Mapping[str, float], rule: Rule) -> float:
    """The score that orders a system: wmt24's is the mean over domains."""
    if rule == "wmt24":
        known = [mean for mean in by_domain.values() if not np.isnan(mean)]
        return float(np.mean(known))
    return float(table[~np.isnan(table)].mean())


Decision = tuple[float | None, bool]


def _tests(
    rule: Rule, tables: Mapping[str, FloatArray], places: Sequence[str], level: float, seed: int
) -> Callable[[str, str], Decision]:
    """How a rule decides whether the first of two systems is better."""
    if rule == "wmt25":
        return lambda a, b: _wmt25(tables[a], tables[b], level)
    if rule == "wmt24":
        return lambda a, b: _wmt24(tables[a][0], tables[b][0], places, level)
    return lambda a, b: _wmt26(tables[a][0], tables[b][0], level, seed)


def _wmt25(a: FloatArray, b: FloatArray, level: float) -> Decision:
    """p of better scores [waves, segments], every wave of one system against each wave of the other."""
    count = len(a)
    crossed = [a - np.roll(b, shift, axis=0) for shift in range(count)]
    p = _wilcoxon(np.concatenate(crossed).ravel(), "greater")
    return p, p < level / 2


def _wmt24(a: FloatArray, b: FloatArray, places: Sequence[str], level: float) -> Decision:
    """p of differences [segments], joined over domains."""
    stats = scipy_stats()
    differences, names = a - b, np.array(places, dtype=object)
    p_values = []
    for domain in sorted(set(places)):
        inside = differences[names == domain]
        if not np.isnan(inside).all():
            p_values.append(_wilcoxon(inside, "two-sided"))
    if not p_values:
        return 1.0, False
    z = stats.norm.ppf(1 - np.array(p_values)).sum() / np.sqrt(len(p_values))
    p = float(1 - stats.norm.cdf(z))
    return p, p < level


def _wilcoxon(differences: FloatArray, alternative: str) -> float:
    """p of Wilcoxon's signed-rank test; 1 where no difference is left."""
    known = differences[~np.isnan(differences)]
    if not len(known) or not known.any():
        return 1.0
    with catch_warnings():
        simplefilter("ignore")  # of samples that are small for the normal distribution
        return float(scipy_stats().wilcoxon(known, alternative=alternative).pvalue)


BOOTSTRAP_DRAWS = 100  # of the organisers


def _wmt26(a: FloatArray, b: FloatArray, level: float, seed: int) -> Decision:
    """Whether an interval of paired or of unpaired differences lies above 0; no p."""
    differences = (a - b)[~np.isnan(a - b)]
    own, other = a[~np.isnan(a)], b[~np.isnan(b)]
    is_better = len(differences) >= 2 and bool((differences > 0).any())
    is_better = is_better and _low((differences,), np.mean, level, seed) > 0
    if not is_better and min(len(own), len(other)) >= 2:
        is_better = _low((own, other), _difference_of_means, level, seed) > 0
    return None, is_better


def _difference_of_means(x: FloatArray, y: FloatArray, axis: int = -1) -> FloatArray:
    return np.asarray(np.mean(x, axis=axis) - np.mean(y, axis=axis))


def _low(samples: tuple[FloatArray, ...], statistic: Any, level: float, seed: int) -> float:
    """The lower end of a one-sided bootstrap interval; nan where it has none."""
    with catch_warnings():
        simplefilter("ignore")  # of samples without variance
        interval = scipy_stats().bootstrap(
            samples,
            statistic=statistic,
            vectorized=True,
            n_resamples=BOOTSTRAP_DRAWS,
            confidence_level=1 - level,
            alternative="greater",
            rng=np.random.default_rng(seed),
        )
    return float(interval.confidence_interval.low)


def _ranks(order: Sequence[str], i: int, beats: set[Pair], rule: Rule) -> tuple[int, int]:
    """The ranks that the system in place i may have."""
    name = order[i]
    beaten_by = [n for n in range(i) if (order[n], name) in beats]
    beaten = [n for n in range(i + 1, len(order)) if (name, order[n]) in beats]
    if rule == "wmt24":
        return len(beaten_by) + 1, len(order) - len(beaten)
    last = len(order)
    if rule == "wmt26":
        last = max(i + 1, last - 1)
    return max(beaten_by, default=-1) + 2, min(beaten, default=last)


def _clusters(
    order: Sequence[str], ranks: Sequence[tuple[int, int]], beats: set[Pair], rule: Rule
) -> list[int]:
    """The cluster of every system."""
    numbers = [1]
    for i in range(1, len(order)):
        if rule == "wmt25":
            ends = all(high <= i for _, high in ranks[:i])
            ends = ends and all(low > i for low, _ in ranks[i:])
        else:
            ends = all((above, below) in beats for above in order[:i] for below in order[i:])
        numbers.append(numbers[-1] + ends)
    return numbers
