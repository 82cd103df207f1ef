"""From values of units to values of documents: monotone alignment of many pairs at once.

    u(h, r) = max over alignments of sum over beads of (A + B) / 2 u(bead)

A sentence's share of its document is a_i or b_j, in sum 1; A and B are those of a bead's sentences. A bead of 1-0 or
0-1 is compared with the empty text. One sentence with one sentence is their value. A pair's value depends on its own
units alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..alignment.monotone import BEADS, LONGEST, Beads, Gains, Paths, monotone
from ..representations import FloatArray, IntArray
from .document_units import DocumentUnits
from .unit_values import LengthValues, UnitValues, neighbours, shares, side_by_side

CELLS = 1 << 18  # pairs of sentences worked on at once


class Links(NamedTuple):
    """What is compared with what in some pairs of documents, and what share of the value it has."""

    row: IntArray  # [links], the document of the rows
    column: IntArray  # [links]
    row_unit: IntArray  # [links], its place among the units
    column_unit: IntArray
    share: FloatArray

    @classmethod
    def concat(cls, parts: Sequence[Links]) -> Links:
        """All links in order."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class DocumentPairs(NamedTuple):
    """P pairs of documents and the utilities of their units."""

    values: UnitValues
    rows: DocumentUnits
    columns: DocumentUnits
    row: IntArray  # [P], number of the document
    column: IntArray

    def some(self, which: NDArray[np.bool_]) -> DocumentPairs:
        """Some of the pairs."""
        return self._replace(row=self.row[which], column=self.column[which])

    @property
    def num_rows(self) -> IntArray:
        """Sentences of every pair's first document, [P]."""
        return self.rows.num_sentences[self.row]

    @property
    def num_columns(self) -> IntArray:
        """Sentences of every pair's second document, [P]."""
        return self.columns.num_sentences[self.column]

    @property
    def are_single(self) -> NDArray[np.bool_]:
        """Whether one sentence stands against one, [P]."""
        return np.asarray((self.num_rows == 1) & (self.num_columns == 1))


def values_of_documents(
    values: UnitValues, rows: DocumentUnits, columns: DocumentUnits
) -> FloatArray:
    """The utilities of all documents of the rows with all of the columns, [H, R]; nan where there is no finite one."""
    result = np.empty((len(rows), len(columns)))
    for pairs in _batches(values, rows, columns):
        of_pairs = _paths(pairs).values
        of_single = values.matched(pairs.row, pairs.column, 1, 1)[0, 0]
        of_pairs = np.where(pairs.are_single, of_single, of_pairs)
        result[pairs.row, pairs.column] = np.where(np.isfinite(of_pairs), of_pairs, np.nan)
    return result


def links_of(values: UnitValues, rows: DocumentUnits, columns: DocumentUnits) -> Links:
    """What is compared with what in all documents of the rows with all of the columns."""
    parts = []
    for pairs in _batches(values, rows, columns):
        is_single = pairs.are_single
        parts.append(_single_links(pairs.some(is_single)))
        others = pairs.some(~is_single)
        if len(others.row):
            parts.append(_monotone_links(others))
    return Links.concat(parts)


def _single_links(pairs: DocumentPairs) -> Links:
    """One sentence with one sentence."""
    row_unit, column_unit = (
        _places(pairs.rows, pairs.row)[1, 0],
        _places(pairs.columns, pairs.column)[1, 0],
    )
    return Links(pairs.row, pairs.column, row_unit, column_unit, np.ones(len(pairs.row)))


def _batches(
    values: UnitValues, rows: DocumentUnits, columns: DocumentUnits
) -> Iterator[DocumentPairs]:
    """All pairs, those of like sizes together, about `CELLS` pairs of sentences at a time."""
    row, column = map(np.ravel, np.indices((len(rows), len(columns))))
    num_rows, num_columns = rows.num_sentences[row], columns.num_sentences[column]
    order = np.lexsort((num_columns, num_rows))
    start = height = width = 0
    for at, pair in enumerate(order.tolist()):
        height, width = max(height, num_rows[pair]), max(width, num_columns[pair])
        if (at + 1 - start) * height * width > CELLS and at > start:
            part = order[start:at]
            yield DocumentPairs(values, rows, columns, row[part], column[part])
            start, height, width = at, num_rows[pair], num_columns[pair]
    if len(order):
        yield DocumentPairs(values, rows, columns, row[order[start:]], column[order[start:]])


def _paths(pairs: DocumentPairs) -> Paths:
    """The best monotone alignments."""
    row_shares, column_shares = shares(pairs.rows, pairs.row), shares(pairs.columns, pairs.column)
    matched = {}
    for a, b in BEADS:
        fits_rows = a <= _longest(pairs.rows, row_shares)
        if a and b and fits_rows and b <= _longest(pairs.columns, column_shares):
            share = neighbours(row_shares, a)[:, None] + neighbours(column_shares, b)
            matched[a, b] = _gain(share, pairs.values.matched(pairs.row, pairs.column, a, b))
    rows, columns = pairs.values.skipped(pairs.row, pairs.column)
    gains = Gains(matched, _gain(row_shares, rows), _gain(column_shares, columns))
    return monotone(gains, pairs.num_rows, pairs.num_columns)


def _longest(units: DocumentUnits, of_units: FloatArray) -> int:
    """How many units stand as one at most, of numbers [N, P] of documents."""
    return len(of_units) if units.spans is None else 1


def _gain(share: FloatArray, values: FloatArray) -> FloatArray:
    """What values add to that of the documents, half their share on both sides; -inf stays, whatever the share."""
    is_finite = np.isfinite(values)
    return np.where(is_finite, 0.5 * share * np.where(is_finite, values, 0.0), -np.inf)


def _monotone_links(pairs: DocumentPairs) -> Links:
    """The beads of the best alignments."""
    beads = _paths(pairs).beads()
    share = np.zeros(len(beads.pair))
    units = []
    for documents, numbers, first, length in (
        (pairs.rows, pairs.row, beads.row, beads.rows),
        (pairs.columns, pairs.column, beads.column, beads.columns),
    ):
        units.append(_places(documents, numbers)[length, first, beads.pair])
        ends = np.vstack([np.zeros(len(numbers)), shares(documents, numbers).cumsum(axis=0)])
        share += 0.5 * (ends[first + length, beads.pair] - ends[first, beads.pair])
    row_unit, column_unit = units
    return Links(pairs.row[beads.pair], pairs.column[beads.pair], row_unit, column_unit, share)


def _places(units: DocumentUnits, documents: IntArray) -> IntArray:
    """The places of 0, 1, ... sentences from every sentence on, and behind the last one, [lengths, N + 1, P]."""
    num_sentences = units.num_sentences[documents].max(initial=0) + 1
    places = np.zeros((LONGEST + 1, num_sentences, len(documents)), np.int64)
    for length in range(1, LONGEST + 1):
        of_length = side_by_side([units.of_length[length - 1][d] for d in documents.tolist()])
        places[length, : len(of_length)] = of_length
    return places


def beads_by_length(rows: DocumentUnits, columns: DocumentUnits) -> Beads:
    """The beads of one document with another, aligned by length."""
    only = np.zeros(1, np.int64)
    return _paths(DocumentPairs(LengthValues(rows, columns), rows, columns, only, only)).beads()
