"""How a metric of segments reads whole documents: by sentence where they have equally many, else as joined texts.

A metric in a wrapper that compares them unit by unit, aligned or in windows, says itself how (`unit_plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..errors import InputError
from ..metric_settings import MetricSettings
from ..reading_plan import MeanPiece, Plan, PlanOfMeans, comparisons_of
from ..scorer import Reading
from ..text.texts import Comparison, Document, Item, preceding

_PLAIN = frozenset({str})


def lift(
    metric: MetricSettings, comparison: Comparison, *, strict: bool = False
) -> list[Comparison]:
    """The comparisons whose mean is the value of this one: itself, or one per sentence of its documents.

    A segment metric reads documents sentence by sentence where all have equally many sentences, each in the context of
    its own document (if `strict` and the metric says so, hypotheses in that of the first reference). Where they have
    not, it reads their joined text, or raises if `strict`.

    Raises:
        InputError: sentence counts differ and `strict` is set.
    """
    if metric.info.unit == "document":
        return [comparison]
    counts = _sentence_counts(comparison)
    if not counts:
        return [comparison]
    smallest = min(counts)
    if len(counts) == 1 and smallest > 0:
        return [
            _aligned_sentence(metric.reads, comparison, at, lend=strict) for at in range(smallest)
        ]
    if strict:
        lengths = ["a plain text" if n < 0 else f"{n} sentences" for n in sorted(counts)]
        raise InputError(
            f"{metric.name} reads documents sentence by sentence, found {', '.join(lengths)}",
            where="documents",
            fix=f"Align the sentences, aligned({metric.name}), or join each document into one text",
        )
    return [_mapped(comparison, lambda item: item._replace(text=str(item.text)))]


def is_joined(metric: MetricSettings, comparison: Comparison) -> bool:
    """Whether documents of unequal sentence counts are compared as joined text."""
    by_sentence = metric.info.unit == "segment" and not metric.by_units
    return by_sentence and len(_sentence_counts(comparison)) > 1


def is_by_units(metric: MetricSettings, comparison: Comparison) -> bool:
    """Whether documents are compared unit by unit, whatever their sentence counts; plain texts are not."""
    return metric.by_units and bool(_sentence_counts(comparison))


def _sentence_counts(comparison: Comparison) -> set[int]:
    """The different sentence counts of the texts, -1 for a plain text; empty if all are plain."""
    items = comparison.hypotheses
    if comparison.references is not comparison.hypotheses:
        items += comparison.references
    if comparison.source is not None:
        items += (comparison.source,)
    if {type(item.text) for item in items} <= _PLAIN:
        return set()
    counts = {_sentence_count(item) for item in items}
    return set() if counts == {-1} else counts  # strings of numpy's are plain too


def _sentence_count(item: Item) -> int:
    return len(item.text.sentences) if isinstance(item.text, Document) else -1


def _mapped(comparison: Comparison, read: Callable[[Item], Item]) -> Comparison:
    """The comparison of what `read` makes of every item; a square one stays square."""
    rows = tuple(map(read, comparison.hypotheses))
    is_square = comparison.references is comparison.hypotheses
    columns = rows if is_square else tuple(map(read, comparison.references))
    source = None if comparison.source is None else read(comparison.source)
    return Comparison(rows, columns, source)


def _aligned_sentence(reads: Reading, comparison: Comparison, at: int, lend: bool) -> Comparison:
    """The comparison of one sentence of every text."""
    aligned = _mapped(comparison, partial(_sentence, at=at, k=reads.context))
    if not (lend and reads.context and reads.context_from == "reference" and aligned.references):
        return aligned
    lent = aligned.references[0].context
    hypotheses = tuple(item._replace(context=lent) for item in aligned.hypotheses)
    return replace(aligned, hypotheses=hypotheses)


def _sentence(item: Item, at: int, k: int) -> Item:
    """One sentence of an item, in the context of the k before it; those of a document follow its own context."""
    sentences = item.text.sentences if isinstance(item.text, Document) else (item.text,)
    context = preceding((*item.context, *sentences), len(item.context) + at, k)
    return Item(sentences[at], context, item.side)


def plan_of(metric: MetricSettings, comparison: Comparison) -> Plan:
    """How the matrix of a list is made: of one column of comparisons whose mean it is, or of units or windows.

    A metric that reads documents in every context has a column, and so H representations, for each reference.
    """
    if is_by_units(metric, comparison):
        return metric.unit_plan(comparison)
    everywhere = metric.reads.everywhere and comparison.references
    if not everywhere or len(_sentence_counts(comparison)) != 1:
        return PlanOfMeans([MeanPiece(lift(metric, comparison))])
    columns = [replace(comparison, references=(reference,)) for reference in comparison.references]
    return PlanOfMeans([MeanPiece(lift(metric, column, strict=True)) for column in columns])


def compared(metric: MetricSettings, segment: Comparison) -> list[Comparison]:
    """All that is compared for the score of a segment."""
    if is_by_units(metric, segment):
        return comparisons_of([metric.unit_plan(segment)])
    return lift(metric, segment, strict=True)
