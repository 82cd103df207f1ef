"""What a metric is called with, checked, as the items that it reads: texts of one list, or of aligned segments.

What a metric does not read is left out of the items; a text is split into sentences where its settings say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .errors import InputError
from .scorer import Info, Reading
from .text.arguments import as_long_as, check_equally_many, check_texts, reference_lists
from .text.sentence_splitting import as_document
from .text.texts import Comparison, Context, Text, aligned, paired


class ReadingSettings(Protocol):
    """What settings say of the texts that a metric reads."""

    @property
    def name(self) -> str:
        """Of the metric, for messages."""

    @property
    def info(self) -> Info:
        """Its facts."""

    @property
    def reads(self) -> Reading:
        """How much context it reads, and whose."""

    @property
    def needs_source(self) -> bool:
        """Whether the source must be given."""

    @property
    def reads_source(self) -> bool:
        """Whether the source is read where it is given."""

    @property
    def split_sentences(self) -> str | None:
        """How texts become documents of sentences, if they do."""


def comparison_of_list(
    metric: ReadingSettings,
    hypotheses: Sequence[Text],
    references: Sequence[Text],
    source: Text | None,
    context: Context,
) -> Comparison:
    """The items of one list; raises InputError for what is no list of texts, or a missing source."""
    check_texts(hypotheses, "hypotheses")
    if references is not hypotheses:
        check_texts(references, "references")
    if metric.needs_source and source is None:
        fix = "Give the source of the list"
        raise InputError(f"{metric.name} needs the source", where="source", fix=fix)
    rows = _split(metric, hypotheses)
    columns = rows if references is hypotheses else _split(metric, references)
    used_source = None
    if metric.reads_source and source is not None:
        (used_source,) = _split(metric, [source])
    return paired(
        rows,
        columns if metric.info.needs_references else (),
        used_source,
        context.last(metric.reads.context),
    )


def comparisons_of_segments(
    metric: ReadingSettings,
    hypotheses: Sequence[Text],
    references: Sequence[Text | Sequence[Text]] | None,
    sources: Sequence[Text | None] | None,
    documents: Sequence[str] | None,
) -> list[Comparison]:
    """The items of aligned segments.

    Raises:
        InputError: lengths that disagree, something missing, a list where a text belongs.
    """
    check_texts(hypotheses, "hypotheses")
    used_references: list[list[Text]] = [[] for _ in hypotheses]
    if metric.info.needs_references:
        entries = as_long_as(hypotheses, references, "references", metric.name)
        used_references = reference_lists(entries)
    used_sources = _used_sources(metric, hypotheses, sources)
    if documents is not None:
        as_long_as(hypotheses, documents, "documents", metric.name)
    if metric.reads.context:
        check_equally_many(used_references)
    return aligned(
        _split(metric, hypotheses),
        [_split(metric, own) for own in used_references],
        None if used_sources is None else _split(metric, used_sources),
        documents,
        metric.reads.context,
        metric.reads.context_from,
    )


def check_sources(
    metric: ReadingSettings, sources: Sequence[object], places: Sequence[str]
) -> None:
    """Raises InputError for the first place without a source, where it is needed or read and others have one."""
    missing = [place for source, place in zip(sources, places, strict=True) if source is None]
    if not missing or not metric.reads_source:
        return
    if metric.needs_source:
        raise InputError(f"{metric.name} needs the source", where=missing[0], fix="Give it")
    if len(missing) < len(places):
        raise InputError(
            f"no source: {metric.name} reads it where it is given, and others have one",
            where=missing[0],
            fix="Give it to all, or to none: scores with and without it do not compare",
        )


def _used_sources(
    metric: ReadingSettings, hypotheses: Sequence[Text], sources: Sequence[Text | None] | None
) -> Sequence[Text] | None:
    """The source of every hypothesis, or None where none is read."""
    has_any = sources is not None and (not sources or any(s is not None for s in sources))
    if not (metric.needs_source or (metric.reads_source and has_any)):
        return None
    used = as_long_as(hypotheses, sources if has_any else None, "sources", metric.name)
    check_sources(metric, used, [f"sources[{i}]" for i in range(len(used))])
    check_texts(used, "sources")
    return used


def _split(metric: ReadingSettings, texts: Sequence[Text]) -> Sequence[Text]:
    """The texts as documents of sentences, where that is set; a text of one sentence stays a text."""
    if metric.split_sentences is None:
        return texts
    return [as_document(text, metric.split_sentences) for text in texts]
