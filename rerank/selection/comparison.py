"""Compares systems under several metrics, and the metrics with people where they judged.

Means over several sets: how far metrics agree with people, each set counting once.

Metrics that learn from a corpus, here the references of all documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.execution.failures import failures_named
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Text
from .agreement import DRAWS as METRIC_DRAWS
from .agreement import (
    SegmentAgreement,
    SystemAgreement,
    perm_both,
    perm_both_segments,
    segment_agreement,
    system_agreement,
    williams,
    with_ties,
)
from .judged_systems import human_scored
from .significance import Correction, Verdicts, in_units, judge, segments_of_unit
from .statistics import DRAWS
from .system_scores import DocumentOutputs, Scored, check_systems, score_systems


class MetricTest(NamedTuple):
    """Two metrics against the same judgements: p that they agree equally well; None where it is not defined."""

    a: int
    b: int
    p_pearson: float | None  # PERM-BOTH
    p_accuracy: float | None  # PERM-BOTH
    p_williams: float | None
    p_segments: float | None  # PERM-BOTH, tau-b within segments


class MetaEvaluation(NamedTuple):
    """All metrics against one dimension of human scores."""

    human: Scored
    verdicts: Verdicts  # of the human scores
    systems: tuple[SystemAgreement, ...]  # of every metric
    segments: tuple[SegmentAgreement, ...]
    units: tuple[str, ...]  # what `segments` compares: "segment" or "document"
    tests: tuple[MetricTest, ...]


class SystemComparison(NamedTuple):
    """Systems under every metric, and every metric against every dimension of human scores."""

    documents: tuple[DocumentOutputs, ...]
    scored: tuple[Scored, ...]
    verdicts: tuple[Verdicts, ...]
    meta: tuple[MetaEvaluation, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the file."""
        return check_systems(self.documents)


def compare_systems(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]] = (),
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.05,
    unit: str | int = "document",
    correction: Correction = "none",
    cache: Cache | None = None,
    reading: Callable[[int], None] = lambda done: None,
    drawing: Callable[[int], None] = lambda done: None,
    meter: Meter | None = None,
) -> SystemComparison:
    """Scores, tests and, with human scores, the agreement of the metrics with them.

    Args:
        metrics: none if human scores alone compare the systems.
        documents: all with the same systems.
        human: dimensions of human scores, each with whether lower is better.
        draws: of the randomisation and the bootstrap; tests between metrics take at most 1000.
        seed: of all draws.
        level: of significance; intervals cover 1 - level.
        unit: what draws take: "document", "segment", or how many successive segments of a document.
        correction: of p-values, over the pairs of systems under one metric.
        cache: what models made of texts in earlier runs.
        reading: told how many more documents a metric has read.
        drawing: told how many more draws were made.
        meter: counts the work of metrics.

    Raises:
        InputError: neither metrics nor human scores, texts that a metric cannot read, judgements of no system, settings
            out of range.
    """
    if not metrics and not human:
        fix = "Give at least one metric, or human scores"
        raise InputError("neither metrics nor human scores", where="compare", fix=fix)
    block_size = segments_of_unit(unit)
    segments = [document.segments for document in documents]

    def judged(scored: Scored) -> Verdicts:
        drawn = in_units(scored, segments, block_size)
        return judge(drawn, draws, seed, level, drawing, correction)

    scored = tuple(score_systems(metric, documents, cache, reading, meter) for metric in metrics)
    verdicts = tuple(judged(by_metric) for by_metric in scored)
    metric_draws = min(draws, METRIC_DRAWS)
    meta = []
    for dimension, lower in human:
        people = human_scored(dimension, lower, documents)
        meta.append(meta_evaluation(scored, verdicts, people, judged(people), metric_draws, seed))
    return SystemComparison(tuple(documents), scored, verdicts, tuple(meta))


def meta_evaluation(
    scored: Sequence[Scored],
    verdicts: Sequence[Verdicts],
    human: Scored,
    judged: Verdicts,
    draws: int = METRIC_DRAWS,
    seed: int = 0,
) -> MetaEvaluation:
    """Every metric against people's scores, on the systems that people judged."""
    systems = [scored[0].systems.index(name) for name in human.systems] if scored else []
    by_metric = [verdict.of(systems) for verdict in verdicts]
    system_agreements = []
    segment_agreements = []
    units = []
    for metric, verdict in zip(scored, by_metric, strict=True):
        system_agreements.append(system_agreement(verdict, judged, metric.sign, human.sign))
        utilities, people = _utilities([metric, human])
        segment_agreements.append(segment_agreement(utilities[systems], people))
        by_document = metric.segments is None or human.segments is None
        units.append("document" if by_document else "segment")
    means = human.sign * with_ties(judged.scores)
    tests = _metric_tests(scored, by_metric, human, means, systems, draws, seed)
    return MetaEvaluation(
        human,
        judged,
        tuple(system_agreements),
        tuple(segment_agreements),
        tuple(units),
        tuple(tests),
    )


def _metric_tests(
    scored: Sequence[Scored],
    by_metric: Sequence[Verdicts],
    human: Scored,
    means: FloatArray,
    systems: Sequence[int],
    draws: int,
    seed: int,
) -> list[MetricTest]:
    """All pairs of metrics against people's mean utilities of some systems; `by_metric` is of these systems."""
    corpus = []
    for metric, verdict in zip(scored, by_metric, strict=True):
        corpus.append(metric.sign * verdict.scores)
    tests = []
    for a, b in combinations(range(len(scored)), 2):
        first, second = _utilities([scored[a], scored[b]])
        first, second = _scored_by_both(first[systems], second[systems])
        # per document where people judged these whole
        x, y, people = _utilities([scored[a], scored[b], human])
        # pairs of systems that a metric has not scored are none that people judged
        people = np.where(np.isnan(x[systems]) | np.isnan(y[systems]), np.nan, people)
        x, y = (np.where(np.isnan(table), np.nanmean(table), table) for table in (x, y))
        test = MetricTest(
            a,
            b,
            p_pearson=perm_both(first, second, means, "pearson", draws, seed),
            p_accuracy=perm_both(first, second, means, "pairwise_accuracy", draws, seed),
            p_williams=williams(corpus[a], corpus[b], means),
            p_segments=perm_both_segments(x[systems], y[systems], with_ties(people), draws, seed),
        )
        tests.append(test)
    return tests


def _scored_by_both(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Utilities [S, n] of the segments for which both metrics have a score of every system."""
    has_scores = ~np.isnan(np.concatenate((first, second))).any(axis=0)
    return first[:, has_scores], second[:, has_scores]


def _utilities(scored: Sequence[Scored]) -> list[FloatArray]:
    """Utilities [S, n] per segment where all have them, else per document."""
    tables = [by_metric.segments for by_metric in scored]
    by_document = any(table is None for table in tables)
    utilities = []
    for by_metric, table in zip(scored, tables, strict=True):
        scores = by_metric.document_scores() if by_document else np.asarray(table)
        utilities.append(by_metric.sign * scores)
    return utilities


def clean(value: float) -> float | None:
    """The number, None where it is not one.

    >>> clean(float("nan")), clean(0.5)
    (None, 0.5)
    """
    return float(value) if np.isfinite(value) else None


_COUNTS = frozenset({"systems", "segments"})  # added up
_UNAVERAGED = frozenset({"epsilon"})  # means nothing on the scale of another set


class MeanAgreement(NamedTuple):
    """A metric against a dimension of human scores; means where a set has the number, and sums of counts."""

    metric: str
    human: str
    sets: int
    systems: SystemAgreement
    segments: SegmentAgreement


def mean_agreements(comparisons: Sequence[SystemComparison]) -> list[MeanAgreement]:
    """One for every metric and dimension, in order of appearance."""
    sets: dict[tuple[str, str], list[tuple[SystemAgreement, SegmentAgreement]]] = {}
    for comparison in comparisons:
        for meta in comparison.meta:
            rows = zip(comparison.scored, meta.systems, meta.segments, strict=True)
            for scored, systems, segments in rows:
                key = (scored.name, meta.human.name)
                sets.setdefault(key, []).append((systems, segments))
    means = []
    for (metric, human), agreements in sets.items():
        of_systems = _means([systems._asdict() for systems, _ in agreements])
        of_segments = _means([segments._asdict() for _, segments in agreements])
        means.append(
            MeanAgreement(
                metric,
                human,
                len(agreements),
                SystemAgreement(**of_systems),
                SegmentAgreement(**of_segments),
            )
        )
    return means


def _means(rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """The mean or sum of every column."""
    return {name: _mean_or_sum(name, [row[name] for row in rows]) for name in rows[0]}


def _mean_or_sum(name: str, values: Iterable[float | None]) -> float | None:
    """The mean of the numbers there are, None where there is none; counts are added up."""
    known = [value for value in values if value is not None]
    if name in _COUNTS:
        return sum(known)
    if name in _UNAVERAGED or not known:
        return None
    return sum(known) / len(known)


def fitted_to_references(metric: Utility, documents: Sequence[DocumentOutputs]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    references: list[Text] = []
    for document in documents:
        for texts in document.references.values():
            references += texts
    with failures_named(metric.signature()):
        return metric.fit(references)
