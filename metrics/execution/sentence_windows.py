"""Windows of sentences: overlapping parts of documents that fit a model, so that nothing of a long one is cut.

The windows of a document of n sentences have at most k of them; each begins s behind the one before, the last one ends
with the document. Where k sentences are too many for the model a window has as many as fit, at least one, and the next
one begins at its end at the latest. A sentence has the mean of the windows that it is in, a document the mean of its
sentences, so that a window has the share

    w_j = 1/n sum over sentences i of window j of 1/c_i,   c_i = number of windows that have i

Two documents are compared at equal places, each being 0 to 1 long: window i of one and window j of the other, laid end
to end with their shares w, count as much as they overlap. Where windows are the same that is window by window. Windows
depend on their document and its source alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..representations import TRUNCATION_COLUMN, Block, FloatArray, IntArray
from ..scorer import Scoring
from ..text.texts import Item, Truncation
from .document_folds import Links
from .document_units import DocumentUnits, Span, letters_of, sentences_of, span

Spans = tuple[Span, ...]
PARTS = 2520  # of a sentence's mass; a multiple of all numbers up to 10


class WindowRule(NamedTuple):
    """How documents are cut: at most so many sentences, and how many further the next window begins."""

    length: int
    stride: int

    def spans(self, longest: Sequence[int]) -> Spans:
        """The windows of a document, of which so many sentences fit from each on, [n], at most `length`."""
        spans: list[Span] = []
        num_sentences, start, stop = len(longest), 0, 0
        while stop < num_sentences:
            # the last window has its full length, if that fits
            last = max(0, num_sentences - self.length)
            start = min(start, last) if last + longest[last] == num_sentences else start
            stop = start + longest[start]
            spans.append((start, stop))
            start = min(start + self.stride, stop)
        return tuple(spans)


def windows_of(
    metric: Scoring, documents: Sequence[Item], source: Item | None
) -> Mapping[Item, Spans]:
    """The windows of every document, and of the source.

    A window fits if the model reads all of it, and all of the same sentences of a source that has as many; of models
    that read texts side by side, if it does so beside a text as long as the window.
    """
    reading = metric.documents
    rule = WindowRule(reading.windows or 1, reading.step)
    fitting = _Fitting(metric, rule.length)
    windows = {}
    for document in dict.fromkeys(documents):
        windows[document] = rule.spans(fitting.longest(document, source))
    if source is not None:
        windows[source] = rule.spans(fitting.longest(source, source))
    return windows


class _Fitting(NamedTuple):
    """How many sentences of documents fit the model of a metric, of so many at most."""

    metric: Scoring
    length: int

    def longest(self, document: Item, source: Item | None) -> list[int]:
        """How many sentences fit from each on, at least 1."""
        num_sentences = len(sentences_of(document))
        longest = [min(self.length, num_sentences - first) for first in range(num_sentences)]
        if source is None or len(sentences_of(source)) != num_sentences:
            source = document if source is not None else None
        starts = list(range(num_sentences)) if self.metric.info.bucketed else []
        while starts:
            spans = [(first, first + longest[first]) for first in starts]
            is_cut = self._are_cut(document, source, spans)
            starts = [
                first
                for first, cut in zip(starts, is_cut, strict=True)
                if cut and longest[first] > 1
            ]
            for first in starts:
                longest[first] -= 1
        return longest

    def _are_cut(self, document: Item, source: Item | None, spans: Sequence[Span]) -> list[bool]:
        """Whether the model does not read all of the windows of these sentences, alone or side by side."""
        windows = self._windows(document, spans)
        sources = [] if source is None else self._windows(source, spans)
        scorer = self.metric.scorer
        prepared, _ = scorer.prepare([*windows, *sources])
        column = prepared.columns.get(TRUNCATION_COLUMN)
        truncation = np.zeros(len(windows) + len(sources)) if column is None else np.asarray(column)
        are_cut = []
        for row in range(len(windows)):
            own = np.array([row])
            source_row = len(windows) + row if sources else -1
            lost = max(truncation[row], truncation[source_row] if sources else 0)
            together = scorer.pair_truncation(prepared, Block(own, own, source_row))
            are_cut.append(max(lost, together) >= Truncation.TEXT)
        return are_cut

    def _windows(self, document: Item, spans: Sequence[Span]) -> list[Item]:
        context = self.metric.reads.context
        return [span(document, start, stop - start, context) for start, stop in spans]


def shares_of(spans: Spans, of_sentences: IntArray) -> FloatArray:
    """The share of every window, [windows], from those of sentences, [n]; in sum theirs."""
    counts = _counts(spans, len(of_sentences))
    return np.array([(of_sentences / counts)[start:stop].sum() for start, stop in spans])


def _masses_of(spans: Spans, of_sentences: IntArray) -> IntArray:
    """Shares as whole numbers; exact where `PARTS` is a multiple of every c_i, else rounded."""
    counts = _counts(spans, len(of_sentences))
    parts = np.rint(of_sentences * PARTS / counts).astype(np.int64)
    return np.array([parts[start:stop].sum() for start, stop in spans], np.int64)


def _counts(spans: Spans, num_sentences: int) -> IntArray:
    """How many windows have each sentence, [n]."""
    counts = np.zeros(num_sentences, np.int64)
    for start, stop in spans:
        counts[start:stop] += 1
    return counts


def links_by_place(rows: DocumentUnits, columns: DocumentUnits) -> Links:
    """Which windows overlap in all documents of the rows with all of the columns, and by what share."""
    parts = []
    for r, of_row in enumerate(rows.masses):
        for c, of_column in enumerate(columns.masses):
            i, j, share = _overlaps(of_row, of_column)
            pair = np.full_like(i, r), np.full_like(i, c)
            parts.append(Links(*pair, rows.of_length[0][r][i], columns.of_length[0][c][j], share))
    return Links.concat(parts)


def _overlaps(rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Which of two rows of masses overlap, each laid end to end and of length 1: their numbers, and by how much."""
    # where each ends, in whole numbers of one sum
    row_ends, column_ends = rows.cumsum() * columns.sum(), columns.cumsum() * rows.sum()
    ends = np.union1d(row_ends, column_ends)  # of every stretch of one row and one column
    share = np.diff(ends, prepend=0) / ends[-1]
    return np.searchsorted(row_ends, ends), np.searchsorted(column_ends, ends), share


def window_units(
    documents: Sequence[Item], windows: Mapping[Item, Spans], k: int, by_length: bool
) -> DocumentUnits:
    """Windows as the units of documents, never two as one; arguments as `units_of`."""
    side = documents[0].side if documents else "target"
    place: dict[Item, int] = {}
    places, masses = [], []
    for document in documents:
        spans = windows[document]
        units = [span(document, start, stop - start, k) for start, stop in spans]
        own = [place.setdefault(unit, len(place) + 1) for unit in units]
        places.append(np.array(own, np.int64))
        masses.append(_masses_of(spans, letters_of(document, by_length)))
    none = tuple(np.empty(0, np.int64) for _ in documents)
    spans_of_documents = tuple(windows[document] for document in documents)
    nothing = Item("", (), side)
    of_length = tuple(places), none
    return DocumentUnits((nothing, *place), of_length, tuple(masses), spans_of_documents)
