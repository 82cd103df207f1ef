"""Figures of ``compare`` on the annotators and the spans that they marked.

--raters   every annotator in figures, and how far they agree
--spans    errors that metrics mark against those that people marked
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Annotated, Any, ClassVar

from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.wmt.judgements import with_judged, with_means_of_raters
from ....metrics.base import Metric
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import Rare, settings
from ....report.choices import marked_errors
from ....rerank.selection.ratings import (
    Markings,
    People,
    RaterAgreement,
    RaterFigures,
    SpanAgreement,
    rated_texts,
    rater_agreement,
    rater_figures,
    span_agreement,
    text_of,
)
from ....rerank.selection.system_scores import DocumentOutputs, RatedSpan
from ...options.system_outputs import read_judged_file
from ...terminal.console import Counted, say


@settings
class PeopleOptions:
    """Those who judged, beside the systems.

    Args:
        judged: files of judgements of the same texts, which join those of the input: JSON lines, logs of
            Pearmut, or CSV files of Appraise.
        raters: print every annotator's figures, and how far annotators agree.
        spans: compare the errors that metrics mark with those that people marked.
    """

    heading: ClassVar = "judgements"

    judged: tuple[str, ...] = ()
    raters: bool = False
    spans: Annotated[bool, Rare()] = False


def with_judgements(
    documents: list[DocumentOutputs], keys: Sequence[HumanKey], judged: Sequence[str]
) -> list[DocumentOutputs]:
    """The documents with the scores in files of judgements."""
    if judged:
        if len(keys) != 1:
            fix = "Give the key of their scores, such as --human esa"
            raise InputError("join the scores of one key", where="--judged", fix=fix)
        name = keys[0].name
        rows = [row for path in judged for row in read_judged_file(path, name)]
        documents = with_judged(documents, rows, name)
        documents = with_means_of_raters(documents, keys[0].name)
    return documents


def may_lack(keys: Sequence[HumanKey], judged: Sequence[str]) -> tuple[HumanKey, ...]:
    """The keys, which documents may lack where judgements are in files of their own."""
    if not judged:
        return tuple(keys)
    return tuple(replace(key, may_lack=True) for key in keys)


def people_of(
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    metrics: Sequence[Utility],
    options: PeopleOptions,
) -> People:
    """The figures that the options ask for, of every dimension of people's scores.

    Args:
        documents: with their judgements.
        human: the dimensions, each with whether lower is better.
        metrics: that may mark errors.
        options: which figures.
    """
    asked = [name for name in ("raters", "spans") if getattr(options, name)]
    if asked and not human:
        problem = "there are no human scores"
        raise InputError(problem, where=f"--{asked[0]}", fix="Name their key with --human")
    raters: list[RaterFigures] = []
    agreement: list[RaterAgreement] = []
    spans: list[SpanAgreement] = []
    for dimension, _ in human:
        figures = rater_figures(documents, dimension)
        _warn_of_lone_raters(figures, documents, dimension)
        if options.raters:
            if not figures:
                fix = "Read a file with ratings, or give them with --judged"
                raise InputError(f"{dimension} has no single ratings", where="--raters", fix=fix)
            raters += figures
            agreement += rater_agreement(documents, dimension)
        if options.spans:
            spans += span_figures(documents, dimension, metrics)
    return People(tuple(raters), tuple(agreement), tuple(spans))


def _warn_of_lone_raters(
    figures: Sequence[RaterFigures],
    documents: Sequence[DocumentOutputs],
    dimension: str,
) -> None:
    """Warns of annotators who saw one system only."""
    lone = [one.rater for one in figures if one.systems == 1]
    if lone and len({system for d in documents for system in d.ratings.get(dimension, ())}) > 1:
        names = ", ".join(lone[:5]) + ("" if len(lone) <= 5 else f" and {len(lone) - 5} more")
        say(
            f"warning: {dimension}: {names} rated one system only: how strict they are cannot be told from how good "
            "it is"
        )


def span_figures(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    metrics: Sequence[Utility],
) -> list[SpanAgreement]:
    """Annotators against each other, and every metric that marks errors against their spans."""
    marking = [metric.parts[0][1] for metric in metrics if _marks_errors(metric)]
    marked = [
        (document, system, i, [r.spans for r in ratings if r.spans is not None])
        for document, system, i, ratings in rated_texts(documents, dimension)
    ]
    rated = [one for one in marked if one[3]]
    if not rated:
        problem = f"nobody marked spans in {dimension}"
        raise InputError(problem, where="--spans", fix="Read ratings with spans")
    among_people: list[Markings] = []
    for document, system, i, spans in rated:
        text = text_of(document, system, i)
        among_people += [(text, gold, other) for gold, other in permutations(spans, 2)]
    rows = [span_agreement(dimension, "other annotators", among_people)]
    with Counted("texts", len(rated) * len(marking)) as progress:
        for metric in marking:
            if markings := list(_against_metric(metric, rated, progress.more)):
                rows.append(span_agreement(dimension, metric.signature(), markings))
    if len(rows) == 1 and metrics:
        say("warning: none of the metrics marks errors: xcomet and judges that list errors do")
    return rows


def _against_metric(
    metric: Metric,
    rated: Sequence[tuple[DocumentOutputs, str, int, Sequence[Sequence[RatedSpan]]]],
    progress: Callable[[int], None],
) -> Iterator[Markings]:
    """The markings of annotators, each with that of a metric, of texts of which it says something."""
    for document, system, i, spans in rated:
        predicted = _marked(metric, document, system, i)
        progress(1)
        if predicted is not None:
            text = text_of(document, system, i)
            yield from ((text, gold, predicted) for gold in spans)


def _marks_errors(metric: Utility) -> bool:
    """Whether it is one metric alone that may mark errors."""
    return len(metric.parts) == 1 and "error" in metric.parts[0][1].info.reasons


def _marked(
    metric: Metric, document: DocumentOutputs, system: str, i: int
) -> tuple[RatedSpan, ...] | None:
    """The errors that a metric marks in a text; None where it says nothing."""
    text = text_of(document, system, i)
    references = [texts[i] for name, texts in document.references.items() if name != system]
    source = None if document.source is None else document.source[i]
    if metric.info.needs_references and not references:
        return None
    reasons: Iterator[Mapping[str, Any]] = iter(metric.explain(text, references[:1], source))
    errors = marked_errors(text, next(reasons, {}))
    if errors is None:
        return None
    return tuple(RatedSpan(e.start, e.end, e.severity) for e in errors)
