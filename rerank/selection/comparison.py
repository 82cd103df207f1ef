"""Compares systems under several metrics, and the metrics with people where they judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from .agreement import (
    SegmentAgreement,
    SystemAgreement,
    segment_agreement,
    system_agreement,
    with_ties,
)
from .document_outputs import DocumentOutputs
from .metric_tests import DRAWS as METRIC_DRAWS
from .metric_tests import perm_both, perm_both_segments, williams
from .resampling_units import in_units, segments_of_unit
from .significance import Correction, Verdicts, judge
from .statistics import DRAWS
from .system_scores import Scored, human_scored, score_systems


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
        return self.scored[0].systems


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
) -> SystemComparison:
    """Scores, tests and, with human scores, the agreement of the metrics with them.

    Args:
        metrics: at least one.
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

    Raises:
        InputError: no metrics, texts that a metric cannot read, judgements of no system, settings out of range.
    """
    if not metrics:
        raise InputError("no metrics", where="compare", fix="Give at least one")
    size, segments = segments_of_unit(unit), [document.segments for document in documents]

    def judged(one: Scored) -> Verdicts:
        return judge(in_units(one, segments, size), draws, seed, level, drawing, correction)

    scored = tuple(score_systems(metric, documents, cache, reading) for metric in metrics)
    verdicts = tuple(map(judged, scored))
    meta = []
    for dimension, lower in human:
        people = human_scored(dimension, lower, documents)
        meta.append(
            meta_evaluation(
                scored, verdicts, people, judged(people), min(draws, METRIC_DRAWS), seed
            )
        )
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
    kept = [scored[0].systems.index(name) for name in human.systems]
    own = [verdict.of(kept) for verdict in verdicts]
    systems = [
        system_agreement(v, judged, one.sign, human.sign)
        for v, one in zip(own, scored, strict=True)
    ]
    segments = []
    for one in scored:
        own_segments, people = _utilities([one, human])
        segments.append(segment_agreement(own_segments[kept], people))
    means = human.sign * with_ties(judged.scores)
    corpus = [one.sign * verdict.scores for one, verdict in zip(scored, own, strict=True)]
    tests = []
    for a, b in combinations(range(len(scored)), 2):
        x, y = (table[kept] for table in _utilities([scored[a], scored[b]]))
        first, second, people = _utilities([scored[a], scored[b], human])
        tests.append(
            MetricTest(
                a,
                b,
                perm_both(x, y, means, "pearson", draws, seed),
                perm_both(x, y, means, "pairwise_accuracy", draws, seed),
                williams(corpus[a], corpus[b], means),
                perm_both_segments(first[kept], second[kept], with_ties(people), draws, seed),
            )
        )
    units = [
        "document" if one.segments is None or human.segments is None else "segment"
        for one in scored
    ]
    return MetaEvaluation(
        human, judged, tuple(systems), tuple(segments), tuple(units), tuple(tests)
    )


def _utilities(scored: Sequence[Scored]) -> list[FloatArray]:
    """Utilities [S, n] per segment where all have them, else per document."""
    tables = [one.segments for one in scored]
    return [
        one.sign
        * (one.document_scores() if any(own is None for own in tables) else np.asarray(table))
        for one, table in zip(scored, tables, strict=True)
    ]


def clean(value: float) -> float | None:
    """The number, None where it is not one.

    >>> clean(float("nan")), clean(0.5)
    (None, 0.5)
    """
    return float(value) if np.isfinite(value) else None
