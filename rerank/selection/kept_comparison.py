"""What is kept of a comparison of systems: texts, scores and tests as plain rows, from which a report can be made.

Numbers that are none (NaN) are None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Annotated, Any

from ...metrics.spec.checked_settings import Field
from .agreement import SegmentAgreement, SystemAgreement
from .comparison import MetaEvaluation, SystemComparison, clean
from .document_outputs import DocumentOutputs, Judgements
from .significance import Verdicts
from .system_scores import Scored

Number = Annotated[float, Field(allow_inf_nan=False)] | None


@dataclass(frozen=True)
class KeptPair:
    """Two systems by number: a's score minus b's with its interval; p of the randomisation, corrected if asked for."""

    a: int
    b: int
    difference: Number
    p: float
    low: Number
    high: Number


@dataclass(frozen=True)
class KeptScores:
    """Systems under a metric, or under people's judgement: a number per system, a test per pair."""

    name: str
    higher_is_better: bool
    systems: tuple[str, ...]
    scores: tuple[Number, ...]
    low: tuple[Number, ...]
    high: tuple[Number, ...]
    clusters: tuple[int, ...]
    pairs: tuple[KeptPair, ...]
    exact: bool
    cuts: int = 0
    unit: str = "document"  # of the draws
    units: int | None = None

    @property
    def order(self) -> list[int]:
        """The systems, best first; those without a score last."""
        sign = -1.0 if self.higher_is_better else 1.0
        keys = [(score is None, sign * (score or 0.0)) for score in self.scores]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def p(self, a: int, b: int) -> float:
        """p of two systems; 1 of one and itself."""
        return self._p_values.get((min(a, b), max(a, b)), 1.0)

    def is_better(self, a: int, b: int, level: float) -> bool:
        """Whether system `a` is significantly better than `b`."""
        score_a, score_b = self.scores[a], self.scores[b]
        if self.p(a, b) >= level or score_a is None or score_b is None or score_a == score_b:
            return False
        return (score_a > score_b) == self.higher_is_better

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
    def _p_values(self) -> dict[tuple[int, int], float]:
        return {(pair.a, pair.b): pair.p for pair in self.pairs}


@dataclass(frozen=True)
class KeptAgreement:
    """A metric against people: statistics of whole systems, and of segments or documents (`unit`), by name."""

    metric: str
    unit: str
    systems: Mapping[str, Number]
    segments: Mapping[str, Number]


@dataclass(frozen=True)
class KeptTest:
    """p that two metrics agree equally well with people."""

    a: str
    b: str
    p_pearson: Number
    p_accuracy: Number
    p_williams: Number
    p_segments: Number = None


@dataclass(frozen=True)
class KeptHuman:
    """People's scores in one dimension, and every metric against them."""

    scores: KeptScores
    agreement: tuple[KeptAgreement, ...]
    tests: tuple[KeptTest, ...]


@dataclass(frozen=True)
class KeptDocument:
    """A document's texts and scores; `scores` by metric [systems], `segments` by metric [systems, segments]."""

    id: str
    whole: bool
    source: tuple[str, ...] | None
    systems: Mapping[str, tuple[str, ...]]
    references: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, tuple[Number, ...]]
    segments: Mapping[str, tuple[tuple[Number, ...], ...]]
    human: Mapping[str, Mapping[str, tuple[Number, ...] | float]]


@dataclass(frozen=True)
class KeptTable:
    """A table as it was printed."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class KeptComparison:
    """A comparison as it was saved."""

    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    metrics: tuple[KeptScores, ...]
    human: tuple[KeptHuman, ...]
    documents: tuple[KeptDocument, ...]
    choosers: tuple[KeptTable, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the file."""
        return self.metrics[0].systems

    @property
    def level(self) -> float:
        """Of significance."""
        return float(self.settings["level"])


def kept(
    comparison: SystemComparison,
    settings: Mapping[str, Any],
    choosers: Sequence[KeptTable] = (),
) -> KeptComparison:
    """What is saved of a comparison; settings (level, draws, seed, ...) and tables of choosers are kept as they are."""
    metrics = []
    for scored, verdicts in zip(comparison.scored, comparison.verdicts, strict=True):
        metrics.append(_scores(scored, verdicts))
    return KeptComparison(
        settings=dict(settings),
        versions={"discorank": version("discorank")},
        metrics=tuple(metrics),
        human=tuple(_human(meta, comparison.scored) for meta in comparison.meta),
        documents=tuple(_documents(comparison)),
        choosers=tuple(choosers),
    )


def _scores(scored: Scored, verdicts: Verdicts) -> KeptScores:
    pairs = []
    for pair in verdicts.pairs:
        kept_pair = KeptPair(
            pair.a,
            pair.b,
            difference=clean(pair.difference),
            p=pair.p_corrected,
            low=clean(pair.low),
            high=clean(pair.high),
        )
        pairs.append(kept_pair)
    return KeptScores(
        name=scored.name,
        higher_is_better=scored.higher_is_better,
        systems=scored.systems,
        scores=tuple(map(clean, verdicts.scores)),
        low=tuple(map(clean, verdicts.low)),
        high=tuple(map(clean, verdicts.high)),
        clusters=tuple(verdicts.clusters.tolist()),
        pairs=tuple(pairs),
        exact=verdicts.exact,
        cuts=scored.cuts,
        unit=verdicts.unit,
        units=verdicts.units,
    )


def _human(meta: MetaEvaluation, scored: Sequence[Scored]) -> KeptHuman:
    names = [metric.name for metric in scored]
    agreement = []
    for name, unit, systems, segments in zip(
        names,
        meta.units,
        meta.systems,
        meta.segments,
        strict=True,
    ):
        agreement.append(KeptAgreement(name, unit, _numbers(systems), _numbers(segments)))
    tests = []
    for test in meta.tests:
        p_values = (test.p_pearson, test.p_accuracy, test.p_williams, test.p_segments)
        tests.append(KeptTest(names[test.a], names[test.b], *p_values))
    return KeptHuman(_scores(meta.human, meta.verdicts), tuple(agreement), tuple(tests))


def _numbers(statistics: SystemAgreement | SegmentAgreement) -> dict[str, Number]:
    """Statistics by name, NaN as None."""
    numbers: dict[str, Number] = {}
    for name, value in statistics._asdict().items():
        numbers[name] = clean(value) if isinstance(value, int | float) else None
    return numbers


def _documents(comparison: SystemComparison) -> Iterator[KeptDocument]:
    """Every document with its part of all scores."""
    by_document = {scored.name: scored.document_scores() for scored in comparison.scored}
    by_segment = {}
    for scored in comparison.scored:
        if scored.segments is not None:
            by_segment[scored.name] = scored.segments
    start = 0
    for d, document in enumerate(comparison.documents):
        end = start + document.segments
        segments = {}
        for name, table in by_segment.items():
            segments[name] = tuple(tuple(map(clean, row)) for row in table[:, start:end])
        yield KeptDocument(
            id=document.id,
            whole=document.whole,
            source=document.source,
            systems={name: document.systems[name] for name in comparison.systems},
            references=dict(document.references),
            scores={name: tuple(map(clean, table[:, d])) for name, table in by_document.items()},
            segments=segments,
            human=_judgements(comparison, document),
        )
        start = end


def _judgements(
    comparison: SystemComparison, document: DocumentOutputs
) -> dict[str, dict[str, Judgements]]:
    """People's scores of a document, by dimension and by system: those of all systems, then of other judged texts."""
    names = list(comparison.systems)
    for meta in comparison.meta:
        names += meta.human.systems
    judgements = {}
    for meta in comparison.meta:
        scores = document.human.get(meta.human.name, {})
        by_system = {name: scores[name] for name in dict.fromkeys(names) if name in scores}
        judgements[meta.human.name] = by_system
    return judgements
