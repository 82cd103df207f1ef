"""What one metric says of every system's texts: values and statistics of each segment or document, read in batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution import segment_scores
from ...metrics.execution.by_sentence import compared
from ...metrics.execution.cache import Cache
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.representations import FloatArray, IntArray
from ...metrics.text.texts import Text
from .document_outputs import DocumentOutputs

BATCH = 4096  # segments of a system read at once, in whole documents


class MetricReading(NamedTuple):
    """What one metric says of all systems; a row is a segment, or a document for metrics of these."""

    values: FloatArray  # [S, rows]
    statistics: FloatArray  # [S, rows, columns]
    owner: IntArray  # the document of every row, [rows]
    cuts: int  # texts that were too long to be read whole


def read_by_metric(
    metric: Metric,
    documents: Sequence[DocumentOutputs],
    systems: Sequence[str],
    cache: Cache | None,
    progress: Callable[[int], None],
    meter: Meter | None = None,
) -> MetricReading:
    """Reads all documents, some at a time."""
    metric.check_sources(
        [document.source for document in documents],
        [f"{document.where}: source" for document in documents],
    )
    values: list[list[FloatArray]] = [[] for _ in systems]
    statistics: list[list[FloatArray]] = [[] for _ in systems]
    cuts = 0
    for batch in _batches(documents):
        _check_references(metric, batch)
        store = Store(metric.scorer, cache, meter)
        for s, system in enumerate(systems):
            segments = _comparisons(metric, batch, system)
            batch_values, rows = segment_scores.scores_and_statistics(metric, segments, store)
            places = _places(metric, batch, system)
            may_lack = metric.info.may_lack
            segment_scores.check_scores(metric.signature(), batch_values, places, may_lack)
            values[s].append(batch_values)
            statistics[s].append(rows)
            for segment in segments:
                cuts += store.truncation_of(compared(metric, segment)) > 0
        progress(len(batch))
    by_document = metric.info.unit == "document"
    rows_of = [1 if by_document else document.segments for document in documents]
    return MetricReading(
        values=np.array([np.concatenate(pieces) for pieces in values]),
        statistics=np.array([np.concatenate(pieces) for pieces in statistics]),
        owner=np.repeat(np.arange(len(documents)), rows_of),
        cuts=cuts,
    )


def _places(metric: Metric, batch: Sequence[DocumentOutputs], system: str) -> list[str]:
    """Where the texts of a system stand, those of `_comparisons` one by one."""
    places = []
    for document in batch:
        place = f"document {document.id!r:.80}, system {system!r:.80}"
        if metric.info.unit == "document":
            places.append(place)
        else:
            places += [f"{place}, segment {i}" for i in range(document.segments)]
    return places


def _comparisons(metric: Metric, batch: Sequence[DocumentOutputs], system: str) -> list[Any]:
    """The aligned texts of one system as the metric reads them."""
    by_document = metric.info.unit == "document"
    hypotheses: list[Text] = []
    references: list[list[Text]] = []  # of every hypothesis
    sources: list[Text] = []
    owners: list[str] = []
    for document in batch:
        units = document.units(document.systems[system], by_document)
        columns = [document.units(texts, by_document) for texts in document.references.values()]
        hypotheses += units
        references += [[column[i] for column in columns] for i in range(len(units))]
        if document.source is not None:
            sources += document.units(document.source, by_document)
        owners += [document.id] * len(units)
    try:
        return metric.segments(
            hypotheses,
            references,
            sources or None,
            owners,
        )
    except InputError as error:
        match = re.fullmatch(r"\w+\[(\d+)\].*", error.where)
        place = f"document {owners[int(match[1])]!r:.80}: " if match else ""
        where = f"{place}system {system!r:.80}: {error.where}"
        raise InputError(error.problem, where=where, fix=error.fix) from None


def _check_references(metric: Metric, batch: Sequence[DocumentOutputs]) -> None:
    """Raises InputError for a document that lacks the reference that the metric needs."""
    for document in batch:
        if metric.info.needs_references and not document.references:
            raise InputError(
                f"{metric.name} needs a reference",
                where=f"{document.where}: references",
                fix="Add references to every document, or take metrics that need none",
            )


def _batches(documents: Sequence[DocumentOutputs]) -> Iterator[list[DocumentOutputs]]:
    """Documents in order, as many at a time as have `BATCH` segments together."""
    batch: list[DocumentOutputs] = []
    num_segments = 0
    for document in documents:
        batch.append(document)
        num_segments += document.segments
        if num_segments >= BATCH:
            yield batch
            batch = []
            num_segments = 0
    if batch:
        yield batch
