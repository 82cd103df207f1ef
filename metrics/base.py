"""Metrics (`Metric`): settings from which a scorer is loaded, and scores, corpus scores and utilities by it.

Arguments are checked here: lists of texts, one entry per hypothesis where that is needed.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any, Self, final

from .errors import InputError, excerpt
from .execution import evaluate, segment_scores
from .execution.evaluate import compared, plan_of
from .execution.segment_scores import explanations_of
from .execution.store import Store
from .metric_settings import MetricSettings
from .optional_packages import failures_named
from .reading_plan import comparisons_of
from .representations import FloatArray
from .spec.checked_settings import settings
from .text.texts import NO_CONTEXT, Comparison, Context, Document, Text, aligned, paired


@settings
class Metric(MetricSettings, ABC):
    """Settings of a metric: a frozen dataclass made by `@settings`, equal, hashable and picklable.

    The scorer is loaded on first use and never pickled.
    """

    @property
    def parts(self) -> tuple[tuple[float, Metric], ...]:
        """(weight, metric) terms of the utility; one for a plain metric, several for a `Mix`."""
        return ((1.0, self),)

    @property
    def innermost(self) -> Metric:
        """The metric itself; of a wrapper the metric in it."""
        return self

    def mapped(self, change: Callable[[Metric], Metric]) -> Metric:
        """The metric that `change` makes of this one; a `Mix` changes every part."""
        return change(self)

    def split(self, texts: Sequence[Text]) -> Sequence[Text]:
        """The texts as documents of sentences, where a wrapper makes them so."""
        return texts

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Flags of a list: what its reader should know of how the metric reads these texts; none by default."""
        return ()

    @final
    def score(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> FloatArray:
        """The paper's number of every hypothesis, float64 [n].

        A metric that waits for corpus state (`unfitted`) takes it from all references that are given.

        Args:
            hypotheses: n texts.
            references: one text or a list of texts per hypothesis; several combine the metric's own way.
            sources: one text per hypothesis, for metrics that read it.
            documents: a document id per hypothesis, needed when the metric has context.

        Raises:
            InputError: lengths that disagree, something missing, a list where a text belongs.

        Warns:
            TruncationWarning: texts were too long for the model.
        """
        segments = self.segments(hypotheses, references, sources, documents)
        metric = self._fitted_to(segments)
        store = Store(metric.scorer)
        values = segment_scores.scores(metric, segments, store)
        comparisons = [c for segment in segments for c in compared(metric, segment)]
        evaluate.warn_of_truncation(metric, store, comparisons)
        return values

    @final
    def corpus(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None = None,
        sources: Sequence[Text] | None = None,
        documents: Sequence[str] | None = None,
    ) -> float:
        """The metric's own corpus score; arguments and errors as `score`."""
        segments = self.segments(hypotheses, references, sources, documents)
        if not segments:
            where = f"{self.name}.corpus"
            raise InputError("no hypotheses", where=where, fix="A corpus has at least one segment")
        metric = self._fitted_to(segments)
        _, statistics = segment_scores.scores_and_statistics(metric, segments)
        with failures_named(metric.signature()):
            return metric.scorer.aggregate(statistics)

    def _fitted_to(self, segments: Sequence[Comparison]) -> Self:
        """The metric with corpus state from the references of these segments, if it waits for some."""
        if not (self.unfitted and self.info.needs_references):
            return self
        return self.fit([item.text for segment in segments for item in segment.references])

    @final
    def pairwise(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None = None,
        context: Context | None = None,
    ) -> FloatArray:
        """Utilities, float64 [H, R] with a row per hypothesis ([H, 1] when reference-free); higher is better.

        Raises:
            InputError: a missing source, a context given to a metric that reads none, a list where a text belongs.
        """
        if context and not self.reads.context:
            raise InputError(
                f"{self.signature()} reads no context",
                where="context",
                fix="Set context=k in the metric",
            )
        comparison = self.comparison(hypotheses, references, source, context or NO_CONTEXT)
        store = Store(self.scorer)
        (matrix,) = evaluate.matrices(self, [comparison], store)
        values = self.utility_sign * matrix
        evaluate.warn_of_truncation(self, store, comparisons_of([plan_of(self, comparison)]))
        return values

    @final
    def explain(
        self,
        hypothesis: Text,
        references: Sequence[Text] = (),
        source: Text | None = None,
        context: Context | None = None,
    ) -> list[dict[str, Any]]:
        """Why a hypothesis got its values: the scorer's JSON data per reference, or once where it reads none.

        A segment metric that reads documents gives the data of their sentences one after the other, or, of aligned
        ones, what belongs together with its share of the value and its own value.

        Raises:
            InputError: as `pairwise`.
        """
        comparison = self.comparison([hypothesis], references, source, context or NO_CONTEXT)
        return explanations_of(self, comparison)

    @final
    def comparison(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text],
        source: Text | None,
        context: Context,
    ) -> Comparison:
        """The items of one list as this metric reads them; what it does not read is left out.

        Raises:
            InputError: a missing source, or what is not a list of texts.
        """
        _check_texts(hypotheses, "hypotheses")
        if references is not hypotheses:
            _check_texts(references, "references")
        if self.needs_source and source is None:
            fix = "Give the source of the list"
            raise InputError(f"{self.name} needs the source", where="source", fix=fix)
        rows = self.split(hypotheses)
        columns = rows if references is hypotheses else self.split(references)
        used_source = None
        if self.reads_source and source is not None:
            (used_source,) = self.split([source])
        read = columns if self.info.needs_references else ()
        return paired(rows, read, used_source, context.last(self.reads.context))

    @final
    def segments(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text | Sequence[Text]] | None,
        sources: Sequence[Text | None] | None,
        documents: Sequence[str] | None,
    ) -> list[Comparison]:
        """The items of aligned segments as this metric reads them; errors as `score`.

        A source may be None: all are where the source is not needed, or it is an error.
        """
        _check_texts(hypotheses, "hypotheses")
        used: list[list[Text]] = [[] for _ in hypotheses]
        if self.info.needs_references:
            used = _reference_lists(as_long_as(hypotheses, references, "references", self.name))
        used_sources = self._used_sources(hypotheses, sources)
        if documents is not None:
            as_long_as(hypotheses, documents, "documents", self.name)
        k = self.reads.context
        if k and len(set(map(len, used))) > 1:
            problem = "context needs the same number of references in every segment"
            fix = "Leave out the references that only some segments have"
            raise InputError(problem, where="references", fix=fix)
        return aligned(
            self.split(hypotheses),
            [self.split(own) for own in used],
            None if used_sources is None else self.split(used_sources),
            documents,
            k,
            self.reads.context_from,
        )

    def _used_sources(
        self, hypotheses: Sequence[Text], sources: Sequence[Text | None] | None
    ) -> Sequence[Text] | None:
        """The source of every hypothesis, or None where none is read."""
        has_any = sources is not None and (not sources or any(s is not None for s in sources))
        if not (self.needs_source or (self.reads_source and has_any)):
            return None
        used = as_long_as(hypotheses, sources if has_any else None, "sources", self.name)
        self.check_sources(used, [f"sources[{i}]" for i in range(len(used))])
        _check_texts(used, "sources")
        return used

    @final
    def check_sources(self, sources: Sequence[object], places: Sequence[str]) -> None:
        """Raises InputError for the first place without a source, where it is needed or read and others have one."""
        missing = [place for source, place in zip(sources, places, strict=True) if source is None]
        if not missing or not self.reads_source:
            return
        if self.needs_source:
            raise InputError(f"{self.name} needs the source", where=missing[0], fix="Give it")
        if len(missing) < len(places):
            problem = f"no source: {self.name} reads it where it is given, and others have one"
            fix = "Give it to all, or to none: scores with and without it do not compare"
            raise InputError(problem, where=missing[0], fix=fix)


def as_long_as(
    hypotheses: Sequence[Any], values: Sequence[Any] | None, name: str, metric: str
) -> Sequence[Any]:
    """The argument `name` of a metric.

    Raises:
        InputError: it is missing, not a list, or has not one entry per hypothesis.
    """
    fix = f"Give {name}, one entry per hypothesis"
    if values is None:
        raise InputError(f"{metric} needs {name}", where=name, fix=fix)
    if isinstance(values, str | Document) or not isinstance(values, Sequence):
        raise InputError(f"found {excerpt(values)}, expected a list", where=name, fix=fix)
    if len(values) != len(hypotheses):
        problem = f"{len(values)} {name} for {len(hypotheses)} hypotheses"
        raise InputError(problem, where=name, fix=fix)
    return values


def _reference_lists(references: Sequence[Text | Sequence[Text]]) -> list[list[Text]]:
    """The references of every segment as a list, from one text or a list of at least one text each."""
    lists = [[entry] if isinstance(entry, str | Document) else entry for entry in references]
    for i, texts in enumerate(lists):
        _check_texts(texts, f"references[{i}]")
        if not texts:
            raise InputError("no reference", where=f"references[{i}]", fix="Give at least one text")
    return [list(texts) for texts in lists]


def _check_texts(texts: Sequence[Any], where: str) -> None:
    """Raises InputError unless `texts` is a list of strings and Documents."""
    if isinstance(texts, str | Document) or not isinstance(texts, Sequence):
        problem = f"found {excerpt(texts)}, expected a list of texts"
        raise InputError(problem, where=where, fix="Put one text in a list")
    if {type(text) for text in texts} <= {str}:  # as most are
        return
    for i, text in enumerate(texts):
        if not isinstance(text, str | Document):
            problem = f"found {excerpt(text)}, expected a string"
            fix = "A document is written discorank.Document([...])"
            raise InputError(problem, where=f"{where}[{i}]", fix=fix)
