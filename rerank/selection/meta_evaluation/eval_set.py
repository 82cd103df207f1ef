"""One test set in one language pair as the WMT metrics task keeps it: texts, documents, people's and metrics' scores.

Scores are arrays per system, one number for the system, or one per document or segment; nan where people gave none.
Nothing is averaged from segments up: scores of systems are those that are given. Every score is higher-is-better. Which
systems and metrics count follows from the references that metrics read (`systems_scored`, `metrics_scored`); systems
come sorted by name.

A metric of ours joins them (`score_eval_set`): its score of a system or a document is its own corpus score of the
segments (BLEU and chrF pool counts), negated where lower is better. A reference that the metric reads is not scored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.execution.cache import Cache
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ..system_scores import DocumentOutputs, score_systems

Level = Literal["sys", "doc", "seg"]
LEVELS: tuple[Level, ...] = ("sys", "doc", "seg")
ALL_REFERENCES = "all"
Texts = tuple[str | None, ...]  # None: no text was supplied
Scores = Mapping[str, FloatArray]  # by system


class DocumentPlace(NamedTuple):
    """A document: its segments are start <= i < stop."""

    name: str
    domain: str
    start: int
    stop: int


class MetricName(NamedTuple):
    """A metric and the references it read, none for one without references."""

    base: str
    references: frozenset[str]

    @classmethod
    def parse(cls, written: str, references: Iterable[str]) -> MetricName:
        """From ``BASE-REFS``: REFS is ``src``, ``all`` (of these references), or names joined by dots.

        Raises:
            InputError: no dash, or a reference that is not there.

        >>> MetricName.parse("Free-QE-src", ["refA"])
        MetricName(base='Free-QE', references=frozenset())
        """
        base, dash, joined = written.rpartition("-")
        if not (dash and base):
            raise InputError(
                f"found {written!r:.80}, expected METRIC-REFERENCES",
                where="metric",
                fix="Such as BLEU-refA, or COMETKiwi-src",
            )
        known = frozenset(references)
        names = {"src": frozenset[str](), "all": known}.get(joined, frozenset(joined.split(".")))
        for name in sorted(names - known):
            raise unknown("reference", name, known, where=f"metric {written!r:.80}")
        return cls(base, names)

    def __str__(self) -> str:
        return f"{self.base}-{'.'.join(sorted(self.references)) or 'src'}"

    def displayed(self, primary: Iterable[str]) -> str:
        """The name in tables: ``*`` before what is not primary, ``[noref]`` behind what reads no reference."""
        star = "" if self.base in set(primary) else "*"
        return f"{star}{self.base}{'' if self.references else '[noref]'}"


@dataclass(frozen=True, slots=True)
class Standards:
    """Defaults of a test set in a language pair.

    Args:
        reference: the main reference, or "all".
        human_scores: the standard human scores by level.
        outliers: systems that do not count.
        close_references: references so close to the main one that they are no systems.
        primary: the metrics that are primary submissions.
    """

    reference: str = "refA"
    human_scores: Mapping[Level, str] = field(default_factory=dict)
    outliers: frozenset[str] = frozenset()
    close_references: frozenset[str] = frozenset()
    primary: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class EvalSet:
    """A test set in a language pair.

    Args:
        name: of the test set, such as wmt24.
        language_pair: such as en-de.
        documents: in order of their segments.
        sources: N texts.
        references, outputs: N texts by name; a reference that is judged too stands in both.
        human_scores: by name and level.
        metric_scores: by metric and level, of every output but the references it reads.
        standards: what is taken for granted.
    """

    name: str
    language_pair: str
    documents: tuple[DocumentPlace, ...]
    sources: Texts
    references: Mapping[str, Texts]
    outputs: Mapping[str, Texts]
    human_scores: Mapping[tuple[str, Level], Scores] = field(default_factory=dict)
    metric_scores: Mapping[tuple[MetricName, Level], Scores] = field(default_factory=dict)
    standards: Standards = field(default_factory=Standards)

    @property
    def human_systems(self) -> frozenset[str]:
        """The references that are outputs, too."""
        return frozenset(self.references) & frozenset(self.outputs)

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """All metrics with scores, sorted by name."""
        return tuple(sorted({name for name, _ in self.metric_scores}, key=str))

    def length(self, level: Level) -> int:
        """How many scores a system has at a level."""
        return {"sys": 1, "doc": len(self.documents), "seg": len(self.sources)}[level]

    def standard_human_scores(self, level: Level, human_scores: str | None = None) -> str:
        """The name given, or the standard one of the level; raises InputError if there are no such scores."""
        name = human_scores or self.standards.human_scores.get(level)
        known = sorted(name for name, of_level in self.human_scores if of_level == level)
        if name is None:
            raise InputError(
                f"no standard human scores at level {level}",
                where=f"{self.name} {self.language_pair}",
                fix=f"Name one of: {', '.join(known) or 'none'}",
            )
        if name not in known:
            where = f"{self.name} {self.language_pair}, level {level}"
            raise unknown("human scores", name, known, where=where)
        return name

    def main_references(self, references: Sequence[str] = ()) -> frozenset[str]:
        """Those given, or the standard one, or all; raises InputError for one that is not there."""
        names = frozenset(references) or frozenset((self.standards.reference,))
        if names == {ALL_REFERENCES} and ALL_REFERENCES not in self.references:
            return frozenset(self.references)
        for name in sorted(names - frozenset(self.references)):
            raise unknown("reference", name, self.references, where=self.language_pair)
        return names

    def systems_scored(
        self,
        human_scores: str,
        level: Level,
        *,
        human: bool = False,
        outliers: bool = False,
        references: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """The systems that count, sorted: those with a human score, but for main and close references.

        Args:
            human_scores: their name.
            level: of the scores.
            human: whether the other references are systems.
            outliers: whether outliers are.
            references: the main references; the standard one if not given.
        """
        excluded = self.main_references(references) | self.standards.close_references
        excluded |= frozenset() if human else self.human_systems
        excluded |= frozenset() if outliers else self.standards.outliers
        scores = self.human_scores[self.standard_human_scores(level, human_scores), level]
        rated = {system for system, values in scores.items() if not np.isnan(values).all()}
        return tuple(sorted(rated & self.outputs.keys() - excluded))

    def metrics_scored(
        self, level: Level, *, references: Sequence[str] = (), primary: bool = False
    ) -> tuple[MetricName, ...]:
        """The metrics with scores at a level that read no reference but the main ones, sorted; or the primary ones."""
        main = self.main_references(references)
        wanted = self.standards.primary if primary else frozenset[str]()
        return tuple(
            name
            for name in self.metrics
            if (name, level) in self.metric_scores
            and name.references <= main
            and (not wanted or name.base in wanted)
        )

    def human_table(self, name: str, level: Level, systems: Sequence[str]) -> FloatArray:
        """People's scores [S, units], nan where there are none."""
        none = np.full(self.length(level), np.nan)
        scores = self.human_scores.get((name, level), {})
        return np.array([scores.get(system, none) for system in systems])

    def metric_table(self, metric: MetricName, level: Level, systems: Sequence[str]) -> FloatArray:
        """A metric's scores [S, units]; raises InputError where a system has none."""
        scores = self.metric_scores.get((metric, level), {})
        if lacking := [system for system in systems if system not in scores]:
            fix = "Score every output but the references that the metric reads"
            problem = f"no score of system {lacking[0]!r:.80}"
            raise InputError(problem, where=f"{metric} ({level})", fix=fix)
        return np.array([scores[system] for system in systems])

    def with_metric(
        self, metric: MetricName, scores: Mapping[Level, Scores], primary: bool = True
    ) -> EvalSet:
        """The set with one more metric, in place of one of its name and references."""
        added = {(metric, level): by_system for level, by_system in scores.items()}
        standards = self.standards
        if primary and standards.primary:
            standards = replace(standards, primary=standards.primary | {metric.base})
        return replace(self, metric_scores={**self.metric_scores, **added}, standards=standards)


def score_eval_set(
    metric: Utility,
    eval_set: EvalSet,
    references: Sequence[str] = (),
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
    meter: Meter | None = None,
) -> EvalSet:
    """The test set with one more metric.

    Args:
        metric: what scores.
        eval_set: the texts; one that was not supplied is scored as an empty one.
        references: those the metric reads, if it reads any; the standard one if not given.
        cache: what models made of texts in earlier runs.
        progress: told how many more documents have been read.
        meter: counts the work.

    Raises:
        InputError: a reference is not there, or a text cannot be read.
        MetricError: a score is no number.
    """
    reads_references = any(part.info.needs_references for _, part in metric.parts)
    read = eval_set.main_references(references) if reads_references else frozenset[str]()
    name = MetricName(base_name(metric), read)
    documents = eval_documents(eval_set, sorted(read))
    scored = score_systems(metric, documents, cache, progress, meter)
    tables: dict[Level, FloatArray] = {
        "sys": scored.system_scores()[:, None],
        "doc": scored.document_scores(),
    }
    if scored.segments is not None:
        tables["seg"] = scored.segments
    scores: dict[Level, Scores] = {
        level: dict(zip(scored.systems, scored.sign * table, strict=True))
        for level, table in tables.items()
    }
    return eval_set.with_metric(name, scores)


def base_name(metric: Utility) -> str:
    """The metric's signature as the name of files: no white space, no slash."""
    return re.sub(r"[\s/\0]+", "_", metric.signature()).lstrip(".")


def eval_documents(eval_set: EvalSet, references: Sequence[str]) -> list[DocumentOutputs]:
    """The documents with all outputs but the references that are read."""
    documents = []
    for document in eval_set.documents:
        inside = slice(document.start, document.stop)

        def of(texts: Sequence[str | None], inside: slice = inside) -> tuple[str, ...]:
            return tuple(text or "" for text in texts[inside])

        outputs = {
            name: of(texts)
            for name, texts in sorted(eval_set.outputs.items())
            if name not in references
        }
        read = {name: of(eval_set.references[name]) for name in references}
        sources = eval_set.sources[inside]
        source = None if None in sources else of(eval_set.sources)
        documents.append(DocumentOutputs(document.name, False, source, outputs, read, {}))
    return documents
