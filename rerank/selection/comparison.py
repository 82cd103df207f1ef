"""Systems compared under every layer of scores, and the metrics with people where they judged.

`ScoreCube` is the cube that a comparison holds: layers (metrics, then dimensions of human scores) x systems x documents
and their segments. Verdicts on systems and the agreement of metrics with people are functions of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.optional_packages import failures_named
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
from .judged_systems import human_layer
from .ratings import People
from .significance import Correction, Verdicts, in_units, judge, segments_of_unit
from .statistics import DRAWS, Number
from .system_scores import DocumentOutputs, Layer, check_distinct, check_systems, score_systems

T = TypeVar("T", SystemAgreement, SegmentAgreement)
_COUNTS = frozenset({"systems", "segments"})  # added up over sets
_UNAVERAGED = frozenset({"epsilon"})  # means nothing on the scale of another set


@dataclass(frozen=True, eq=False)
class ScoreCube:
    """Scores of systems by every layer: [layers, systems, columns], NaN where there is none.

    Args:
        layers: names of metrics, then of dimensions of human scores.
        systems: their names.
        sizes: the number of segments of each document, [D].
        values: the first D columns are corpus scores of documents, the others scores of their segments, in order; NaN
            for those of a layer that scores whole documents.
    """

    layers: tuple[str, ...]
    systems: tuple[str, ...]
    sizes: tuple[int, ...]
    values: FloatArray

    @classmethod
    def of(cls, layers: Sequence[Layer], documents: Sequence[DocumentOutputs]) -> ScoreCube:
        """The scores of layers; a layer may lack systems."""
        systems = check_systems(documents)
        sizes = tuple(document.segments for document in documents)
        values = np.full((len(layers), len(systems), len(sizes) + sum(sizes)), np.nan)
        for layer, own in zip(layers, values, strict=True):
            rows = [systems.index(name) for name in layer.systems]
            own[rows, : len(sizes)] = layer.document_scores()
            if layer.segments is not None:
                own[rows, len(sizes) :] = layer.segments
        return cls(tuple(layer.name for layer in layers), systems, sizes, values)

    @property
    def documents(self) -> FloatArray:
        """Corpus scores of documents, [layers, systems, D]."""
        return self.values[:, :, : len(self.sizes)]

    @property
    def segments(self) -> FloatArray:
        """Scores of segments, [layers, systems, segments]."""
        return self.values[:, :, len(self.sizes) :]

    def has_segments(self, layer: int) -> bool:
        """Whether a layer scores segments."""
        return not bool(np.isnan(self.segments[layer]).all())

    def by_document(self, layer: int) -> Iterator[FloatArray]:
        """The scores of the segments of each document, [systems, segments]."""
        return iter(np.split(self.segments[layer], np.cumsum(self.sizes)[:-1], axis=1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreCube):
            return NotImplemented
        named = (self.layers, self.systems, self.sizes) == (
            other.layers,
            other.systems,
            other.sizes,
        )
        return named and np.array_equal(self.values, other.values, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class MetricAgreement:
    """A metric against people: on whole systems, and on segments or documents (`unit`)."""

    metric: str
    unit: str
    systems: SystemAgreement
    segments: SegmentAgreement


@dataclass(frozen=True)
class MetricTest:
    """Two metrics against the same judgements: p that they agree equally well; None where it is not defined."""

    a: str
    b: str
    p_pearson: Number  # PERM-BOTH
    p_accuracy: Number  # PERM-BOTH
    p_williams: Number
    p_segments: Number = None  # PERM-BOTH, tau-b within segments


@dataclass(frozen=True)
class MetaEvaluation:
    """People's scores in one dimension, and every metric against them."""

    scores: Verdicts
    agreement: tuple[MetricAgreement, ...]
    tests: tuple[MetricTest, ...]


@dataclass(frozen=True)
class SystemComparison:
    """Systems under every metric, and every metric against every dimension of human scores.

    Args:
        settings: how systems were compared: input, level, draws, seed, correction, unit; also baseline, ids_unknown.
        versions: of the packages.
        metrics: verdicts by each metric.
        human: by each dimension of human scores.
        people: figures of annotators.
        documents: the texts, and judgements of the dimensions that are compared.
        scores: layers are metrics, then dimensions.
    """

    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    metrics: tuple[Verdicts, ...]
    human: tuple[MetaEvaluation, ...]
    people: People
    documents: tuple[DocumentOutputs, ...]
    scores: ScoreCube

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the file."""
        return self.scores.systems

    @property
    def level(self) -> float:
        """Of significance."""
        return float(self.settings["level"])


def compare_systems(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]] = (),
    *,
    input: str = "",
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
        input: the name of the documents, for the settings of the comparison.
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
    check_distinct(metrics)
    block_size = segments_of_unit(unit)
    sizes = [document.segments for document in documents]

    def judged(layer: Layer) -> Verdicts:
        drawn = in_units(layer, sizes, block_size)
        return judge(drawn, draws, seed, level, drawing, correction)

    layers = [score_systems(metric, documents, cache, reading, meter) for metric in metrics]
    people = [human_layer(dimension, lower, documents) for dimension, lower in human]
    verdicts = [judged(layer) for layer in layers]
    num_draws = min(draws, METRIC_DRAWS)
    settings = {"input": input, "level": level, "draws": draws, "seed": seed}
    meta = [
        meta_evaluation(layers, verdicts, layer, judged(layer), num_draws, seed) for layer in people
    ]
    scores = ScoreCube.of([*layers, *people], documents)
    dimensions = [dimension for dimension, _ in human]
    return SystemComparison(
        settings={**settings, "correction": correction, "unit": unit},
        versions={"discorank": version("discorank")},
        metrics=tuple(verdicts),
        human=tuple(meta),
        people=People(),
        documents=tuple(_compared(document, scores.systems, dimensions) for document in documents),
        scores=scores,
    )


def _compared(
    document: DocumentOutputs, systems: Sequence[str], dimensions: Sequence[str]
) -> DocumentOutputs:
    """A document with the judgements of the systems and dimensions that are compared."""
    human, ratings = {}, {}
    for dimension in dimensions:
        scores, rated = document.human.get(dimension, {}), document.ratings.get(dimension, {})
        human[dimension] = {name: scores[name] for name in systems if name in scores}
        if texts := {name: rated[name] for name in systems if name in rated}:
            ratings[dimension] = texts
    texts_of_systems = {name: document.systems[name] for name in systems}
    return replace(document, systems=texts_of_systems, human=human, ratings=ratings)


def meta_evaluation(
    layers: Sequence[Layer],
    verdicts: Sequence[Verdicts],
    human: Layer,
    judged: Verdicts,
    draws: int = METRIC_DRAWS,
    seed: int = 0,
) -> MetaEvaluation:
    """Every metric against people's scores, on the systems that people judged."""
    agreement = []
    for metric, verdict in zip(layers, verdicts, strict=True):
        utilities, people = _utilities([metric, human], human.systems)
        by_document = metric.segments is None or human.segments is None
        unit = "document" if by_document else "segment"
        of_systems = system_agreement(verdict, judged)
        of_segments = segment_agreement(utilities, people)
        agreement.append(MetricAgreement(metric.name, unit, of_systems, of_segments))
    tests = [
        _metric_test(layers[a], layers[b], verdicts[a], verdicts[b], human, judged, draws, seed)
        for a, b in combinations(range(len(layers)), 2)
    ]
    return MetaEvaluation(judged, tuple(agreement), tuple(tests))


def _metric_test(
    a: Layer,
    b: Layer,
    verdicts_a: Verdicts,
    verdicts_b: Verdicts,
    human: Layer,
    judged: Verdicts,
    draws: int,
    seed: int,
) -> MetricTest:
    """Two metrics against people's scores of the systems that they judged."""
    systems = human.systems
    means = with_ties(judged.utilities(systems))
    first, second = _utilities([a, b], systems)
    scored_by_both = ~np.isnan(np.concatenate((first, second))).any(axis=0)
    first, second = first[:, scored_by_both], second[:, scored_by_both]
    # per document where people judged these whole
    x, y, people = _utilities([a, b, human], systems)
    # pairs of systems that a metric has not scored are not among those that people judged
    people = np.where(np.isnan(x) | np.isnan(y), np.nan, people)
    x, y = (np.where(np.isnan(table), np.nanmean(table), table) for table in (x, y))
    return MetricTest(
        a.name,
        b.name,
        p_pearson=perm_both(first, second, means, "pearson", draws, seed),
        p_accuracy=perm_both(first, second, means, "pairwise_accuracy", draws, seed),
        p_williams=williams(verdicts_a.utilities(systems), verdicts_b.utilities(systems), means),
        p_segments=perm_both_segments(x, y, with_ties(people), draws, seed),
    )


def _utilities(layers: Sequence[Layer], systems: Sequence[str]) -> list[FloatArray]:
    """Utilities [S, n] of some systems, per segment where all layers have them, else per document."""
    by_document = any(layer.segments is None for layer in layers)
    utilities = []
    for layer in layers:
        scores = layer.document_scores() if by_document else np.asarray(layer.segments)
        rows = [layer.systems.index(name) for name in systems]
        utilities.append(layer.sign * scores[rows])
    return utilities


class MeanAgreement(NamedTuple):
    """A metric against a dimension of human scores; means where a set has the number, and sums of counts."""

    metric: str
    human: str
    sets: int
    systems: SystemAgreement
    segments: SegmentAgreement


def mean_agreements(comparisons: Sequence[SystemComparison]) -> list[MeanAgreement]:
    """One for every metric and dimension, in order of appearance, each set counting once."""
    sets: dict[tuple[str, str], list[MetricAgreement]] = {}
    for comparison in comparisons:
        for human in comparison.human:
            for agreement in human.agreement:
                sets.setdefault((agreement.metric, human.scores.name), []).append(agreement)
    means = []
    for (metric, dimension), agreements in sets.items():
        systems = _mean([agreement.systems for agreement in agreements])
        segments = _mean([agreement.segments for agreement in agreements])
        means.append(MeanAgreement(metric, dimension, len(agreements), systems, segments))
    return means


def _mean(rows: Sequence[T]) -> T:
    """The mean of the numbers there are in every field; counts are added up."""
    means: dict[str, Any] = {}
    for name in (field.name for field in fields(rows[0])):
        known = [value for row in rows if (value := getattr(row, name)) is not None]
        if name in _COUNTS:
            means[name] = sum(known)
        elif known and name not in _UNAVERAGED:
            means[name] = sum(known) / len(known)
    return type(rows[0])(**means)


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
