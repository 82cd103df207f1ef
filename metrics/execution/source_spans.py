"""Which sentences of the source stand beside each sentence of a document, where numbers of sentences may differ.

Where they are equal, the sentence of the same number. Else documents are aligned by length (`LengthValues`); source
sentences without a counterpart belong to the one before, and a sentence without one reads what the one before reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..text.texts import Item
from .document_folds import beads_by_length
from .document_units import DocumentUnits, Span, sentences_of, span, units_of


def with_sources(
    columns: DocumentUnits, documents: Sequence[Item], source: Item, k: int
) -> tuple[DocumentUnits, tuple[Item, ...]]:
    """The units with their sources: a unit that has several is there once for each, and the source of every unit."""
    spans = source_spans(documents, source)
    nothing = columns.items[0], Item("", (), "source")
    place: dict[tuple[Item, Item], int] = {}
    of_length = []
    for length, of_documents in enumerate(columns.of_length, 1):
        places = []
        for document, units in enumerate(of_documents):
            own = []
            for first, unit in enumerate(units.tolist()):
                begin, end = columns.sentences(document, first, length)
                start, stop = spans[document][begin][0], spans[document][end - 1][1]
                text = span(source, start, stop - start, k)
                own.append(place.setdefault((columns.items[unit], text), len(place) + 1))
            places.append(np.array(own, np.int64))
        of_length.append(tuple(places))
    items, sources = zip(nothing, *place, strict=True)
    return replace(columns, items=items, of_length=tuple(of_length)), sources


def source_spans(documents: Sequence[Item], source: Item) -> list[list[Span]]:
    """The source sentences of every sentence of every document."""
    num_sources = len(sentences_of(source))
    spans = []
    for document in documents:
        count = len(sentences_of(document))
        if count == num_sources:
            spans.append([(at, at + 1) for at in range(count)])
        elif 1 in (count, num_sources):
            spans.append([(0, num_sources)] * count)
        else:
            spans.append(_spans(document, source, count, num_sources))
    return spans


def _spans(document: Item, source: Item, count: int, num_sources: int) -> list[Span]:
    """The source sentences of every sentence, by length."""
    units = units_of([document], 0, 1, by_length=True), units_of([source], 0, 1, by_length=True)
    beads = beads_by_length(*units)
    spans: list[Span | None] = [None] * count
    for row, rows, column, columns in zip(*beads[1:], strict=True):
        if rows and columns:
            for at in range(row, row + rows):
                spans[at] = (int(column), int(column + columns))
    return _filled(spans, num_sources)


def _filled(spans: list[Span | None], num_sources: int) -> list[Span]:
    """Spans that cover the whole source."""
    starts = sorted({own[0] for own in spans if own is not None}) or [0]
    stops = dict(zip(starts, [*starts[1:], num_sources], strict=True))
    filled = []
    start = starts[0]
    for own in spans:
        start = start if own is None else own[0]
        filled.append((0 if start == starts[0] else start, stops[start]))
    return filled
