"""Tables of ``compare`` on the annotators and the spans that they marked.

--raters   every annotator in figures, and how far they agree
--spans    errors that metrics mark against those that people marked
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.wmt.judgements import with_judged, with_means_of_raters
from ....metrics.base import Metric
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import Rare, settings
from ....report.choices import marked_errors
from ....report.summary_text import short_names
from ....rerank.selection.ratings import (
    SpanAgreement,
    SpanComparison,
    rated_texts,
    rater_agreement,
    rater_figures,
)
from ....rerank.selection.system_scores import DocumentOutputs, RatedSpan
from ....tables import Column, Table, numbers, whole, words
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
    documents: list[DocumentOutputs], keys: Sequence[HumanKey], values: Mapping[str, Any]
) -> list[DocumentOutputs]:
    """The documents with the scores in files of judgements."""
    if values["judged"]:
        if len(keys) != 1:
            fix = "Give the key of their scores, such as --human esa"
            raise InputError("join the scores of one key", where="--judged", fix=fix)
        name = keys[0].name
        rows = [row for path in values["judged"] for row in read_judged_file(path, name)]
        documents = with_judged(documents, rows, name)
        documents = with_means_of_raters(documents, keys[0].name)
    return documents


def may_lack(keys: Sequence[HumanKey], values: Mapping[str, Any]) -> tuple[HumanKey, ...]:
    """The keys, which documents may lack where judgements are in files of their own."""
    if not values["judged"]:
        return tuple(keys)
    return tuple(replace(key, may_lack=True) for key in keys)


def people_tables(
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    metrics: Sequence[Utility],
    values: Mapping[str, Any],
) -> list[Table]:
    """The tables that the options ask for, of every dimension of people's scores.

    Args:
        documents: with their judgements.
        human: the dimensions, each with whether lower is better.
        metrics: that may mark errors.
        values: of the options.
    """
    asked = [name for name in ("raters", "spans") if values[name]]
    if asked and not human:
        problem = "there are no human scores"
        raise InputError(problem, where=f"--{asked[0]}", fix="Name their key with --human")
    tables: list[Table] = []
    for dimension, _ in human:
        _warn_of_lone_raters(documents, dimension, values)
        if values["raters"]:
            tables += rater_tables(documents, dimension)
        if values["spans"]:
            tables.append(span_table(documents, dimension, metrics, values["quiet"]))
    return tables


def _warn_of_lone_raters(
    documents: Sequence[DocumentOutputs], dimension: str, values: Mapping[str, Any]
) -> None:
    """Warns of annotators who saw one system only."""
    figures = rater_figures(documents, dimension)
    lone = [one.rater for one in figures if one.systems == 1]
    if lone and len({system for d in documents for system in d.ratings.get(dimension, ())}) > 1:
        names = ", ".join(lone[:5]) + ("" if len(lone) <= 5 else f" and {len(lone) - 5} more")
        say(
            f"warning: {dimension}: {names} rated one system only: how strict they are cannot be told from how good "
            "it is",
            values["quiet"],
        )


def rater_tables(documents: Sequence[DocumentOutputs], dimension: str) -> list[Table]:
    """Annotators, and pairs of them."""
    figures = [{"human": dimension, **f._asdict()} for f in rater_figures(documents, dimension)]
    if not figures:
        fix = "Read a file with ratings, or give them with --judged"
        raise InputError(f"{dimension} has no single ratings", where="--raters", fix=fix)
    agreement = [{"human": dimension, **a._asdict()} for a in rater_agreement(documents, dimension)]
    columns = [
        words("annotator", "rater"),
        whole("ratings", "ratings"),
        whole("systems", "systems"),
        *numbers({"mean": "mean", "deviation": "spread"}),
        Column("error-free", ("error_free",), _share),
        *numbers({"seconds": "seconds"}),
    ]
    tables = [
        Table(f"{dimension}: annotators", columns, figures, "raters", ("human", "rater")),
    ]
    if agreement:
        heads = {"pearson": "Pearson", "tau": "tau-b in segments", "span_f1": "span F1"}
        columns = [words("annotator", "a"), words("other", "b"), whole("texts", "texts")]
        columns += numbers(heads)
        title = f"{dimension}: agreement of annotators on the texts that both rated"
        keys = ("human", "a", "b")
        tables.append(Table(title, columns, agreement, "rater_agreement", keys))
    return tables


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def span_table(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    metrics: Sequence[Utility],
    quiet: bool,
) -> Table:
    """Every metric that marks errors against people's spans, and annotators against each other."""
    marking = [(metric, part) for metric in metrics for part in [_marking(metric)] if part]
    rated = [
        (document, system, i, [r.spans for r in ratings if r.spans is not None])
        for document, system, i, ratings in rated_texts(documents, dimension)
    ]
    rated = [one for one in rated if one[3]]
    if not rated:
        problem = f"nobody marked spans in {dimension}"
        raise InputError(problem, where="--spans", fix="Read ratings with spans")
    rows = [_span_row("other annotators", dimension, _among_people(rated))]
    with Counted("texts", len(rated) * len(marking), quiet) as progress:
        for metric, part in marking:
            comparison = SpanComparison()
            for document, system, i, markings in rated:
                text, predicted = _marked(part, document, system, i)
                progress.more(1)
                if predicted is None:
                    continue
                for gold in markings:
                    comparison.add(text, gold, predicted)
            if comparison.agreement.error_free.texts:
                rows.append(_span_row(metric.signature(), dimension, comparison.agreement))
    if len(rows) == 1 and metrics:
        say(
            "warning: none of the metrics marks errors: xcomet and judges that list errors do",
            quiet,
        )
    names = short_names([metric.signature() for metric in metrics])
    columns = [
        Column("marked by", ("metric",), lambda name: str(names.get(name, name)), is_words=True),
        whole("ratings", "ratings"),
        *numbers({"precision": "precision", "recall": "recall", "f1": "character F1"}),
        *numbers({"free_precision": "error-free precision", "free_recall": "recall"}),
        *numbers({"free_f1": "error-free F1"}),
    ]
    title = f"{dimension}: errors marked, against those of every annotator"
    return Table(title, columns, rows, "spans", ("human", "metric"))


_RatedWithSpans = tuple[DocumentOutputs, str, int, list[tuple[RatedSpan, ...]]]


def _among_people(rated: Sequence[_RatedWithSpans]) -> SpanAgreement:
    """Every annotator of a text against every other."""
    comparison = SpanComparison()
    for document, system, i, markings in rated:
        text = _text(document, system, i)
        for a, gold in enumerate(markings):
            for b, predicted in enumerate(markings):
                if a != b:
                    comparison.add(text, gold, predicted)
    return comparison.agreement


def _span_row(name: str, dimension: str, comparison: SpanAgreement) -> dict[str, Any]:
    characters, free = comparison.characters, comparison.error_free
    row: dict[str, Any] = {"human": dimension, "metric": name, "ratings": free.texts}
    figures = {
        "precision": characters.precision,
        "recall": characters.recall,
        "f1": characters.f1,
        "free_precision": free.precision,
        "free_recall": free.recall,
        "free_f1": free.f1,
    }
    return row | {name: value if free.texts else None for name, value in figures.items()}


def _marking(metric: Utility) -> Metric | None:
    """The metric, if it is one alone that may mark errors."""
    parts = [part for _, part in metric.parts]
    one = parts[0] if len(parts) == 1 else None
    return one if one is not None and "error" in one.info.reasons else None


def _text(document: DocumentOutputs, system: str, i: int) -> str:
    return (document.systems.get(system) or document.references[system])[i]


def _marked(
    metric: Metric, document: DocumentOutputs, system: str, i: int
) -> tuple[str, tuple[RatedSpan, ...] | None]:
    """A text and the errors that a metric marks in it; None where it says nothing."""
    text = _text(document, system, i)
    references = [texts[i] for name, texts in document.references.items() if name != system]
    source = None if document.source is None else document.source[i]
    if metric.info.needs_references and not references:
        return text, None
    reasons: Iterator[Mapping[str, Any]] = iter(metric.explain(text, references[:1], source))
    errors = marked_errors(text, next(reasons, {}))
    if errors is None:
        return text, None
    return text, tuple(RatedSpan(e.start, e.end, e.severity) for e in errors)
