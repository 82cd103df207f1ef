"""Monotone alignment: the best way through two documents in beads of 1-1, 1-2, 2-1, 2-2, 1-0 and 0-1 units.

    u(h, r) = max over alignments of sum over beads of (A + B) / 2 u(bead)
    D(i, j) = max over beads (a, b) of D(i - a, j - b) + gain(i - a .. i, j - b .. j),   D(0, 0) = 0

after Gale and Church (1993), with gains in place of their costs. A sentence has a share of its document, in sum 1; A
and B are those of a bead's sentences. A bead of 1-0 or 0-1 is compared with the empty text. One sentence with one
sentence is their value.

Many pairs of documents are aligned at once, one anti-diagonal i + j after the other: a step works on [cells of the
anti-diagonal, P] numbers. A pair's result depends on its own units alone, to the last bit. Of equally good beads the
first in the order of `BEADS` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import FloatArray, IntArray
from .units import (
    LONGEST,
    DocumentUnits,
    LengthValues,
    UnitValues,
    neighbours,
    shares,
    side_by_side,
)

Bead = tuple[int, int]  # how many units of the rows' text, and of the columns'
BEADS: tuple[Bead, ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 0), (0, 1))
CELLS = 1 << 18  # pairs of sentences worked on at once


class Gains(NamedTuple):
    """Gains of every bead of P pairs of texts; texts shorter than N or M units are filled up with anything.

    A gain of -inf forbids a bead; beads that `matched` lacks are forbidden too.
    """

    # (a, b): [N - a + 1, M - b + 1, P], from row i and column j on
    matched: Mapping[Bead, FloatArray]
    rows: FloatArray  # [N, P], of a row's unit alone
    columns: FloatArray  # [M, P], of a column's unit alone


class Beads(NamedTuple):
    """Beads of many pairs, those of a pair one after the other in the order of the texts."""

    pair: IntArray  # [beads]
    row: IntArray  # [beads], its first unit
    rows: IntArray  # [beads], how many: 0, 1 or 2
    column: IntArray
    columns: IntArray


class Paths(NamedTuple):
    """The best way through every pair."""

    values: FloatArray  # [P], summed gains; -inf where every way is forbidden
    chosen: NDArray[np.int8]  # [N + 1, M + 1, P], the bead that ends there; -1 for none
    num_rows: IntArray  # [P]
    num_columns: IntArray  # [P]

    def beads(self) -> Beads:
        """The beads of all pairs; none of a pair whose every way is forbidden."""
        shapes = np.array(BEADS)
        pair = np.arange(len(self.values))
        i, j = self.num_rows.copy(), self.num_columns.copy()
        steps = []
        while len(pair):
            bead = self.chosen[i, j, pair]
            on_way = bead >= 0
            pair, i, j, bead = pair[on_way], i[on_way], j[on_way], bead[on_way]
            rows, columns = shapes[bead].T.reshape(2, -1)
            i, j = i - rows, j - columns
            steps.append(np.stack([pair, i, rows, j, columns]))
        taken = np.concatenate(steps, axis=1) if steps else np.empty((5, 0), np.int64)
        pair, row, _, column, _ = taken
        order = np.lexsort((column, row, pair))
        return Beads(*taken[:, order])


def monotone(gains: Gains, num_rows: IntArray, num_columns: IntArray) -> Paths:
    """The best way through P pairs of texts.

    Args:
        gains: what beads add.
        num_rows: units of the rows' text of every pair, [P].
        num_columns: units of the columns' text of every pair, [P].
    """
    (height, num_pairs), width = gains.rows.shape, len(gains.columns)
    # D(i, j) stands at [i + 2, j + 2]: beads that would begin before the texts find -inf
    best = np.full((height + 1 + LONGEST, width + 1 + LONGEST, num_pairs), -np.inf)
    best[LONGEST, LONGEST] = 0.0
    chosen = np.full((height + 1, width + 1, num_pairs), -1, np.int8)
    for diagonal in range(1, height + width + 1):
        _diagonal(gains, best, chosen, diagonal)
    ends = num_rows + LONGEST, num_columns + LONGEST, np.arange(num_pairs)
    return Paths(best[ends], chosen, num_rows, num_columns)


def _diagonal(gains: Gains, best: FloatArray, chosen: NDArray[np.int8], diagonal: int) -> None:
    """Fills in the cells with i + j = `diagonal`."""
    height, width = len(gains.rows), len(gains.columns)
    for number, (a, b) in enumerate(BEADS):
        # the cells in which the bead can end
        i = np.arange(max(a, diagonal - width), min(height, diagonal - b) + 1)
        j = diagonal - i
        gain = _gain(gains, (a, b), i, j)
        if gain is None or not len(i):
            continue
        cells = i + LONGEST, j + LONGEST
        known, reached = best[cells], best[i + LONGEST - a, j + LONGEST - b] + gain
        better = reached > known
        best[cells] = np.where(better, reached, known)
        chosen[i, j] = np.where(better, np.int8(number), chosen[i, j])


def _gain(gains: Gains, bead: Bead, i: IntArray, j: IntArray) -> FloatArray | None:
    """The gains of the beads that end in some cells, [cells, P]; None where the bead is forbidden."""
    if bead == (1, 0):
        return gains.rows[i - 1]
    if bead == (0, 1):
        return gains.columns[j - 1]
    if bead not in gains.matched:
        return None
    return np.asarray(gains.matched[bead][i - bead[0], j - bead[1]])


class Links(NamedTuple):
    """Beads of some pairs of documents, and their shares of the value."""

    row: IntArray  # [links], the document of the rows
    column: IntArray  # [links]
    row_unit: IntArray  # [links], its number among the units
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
    """Beads of all documents of the rows with all of the columns."""
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
        _numbers(pairs.rows, pairs.row)[1, 0],
        _numbers(pairs.columns, pairs.column)[1, 0],
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
            matched[a, b] = _gain_of(share, pairs.values.matched(pairs.row, pairs.column, a, b))
    rows, columns = pairs.values.skipped(pairs.row, pairs.column)
    gains = Gains(matched, _gain_of(row_shares, rows), _gain_of(column_shares, columns))
    return monotone(gains, pairs.num_rows, pairs.num_columns)


def _longest(units: DocumentUnits, of_units: FloatArray) -> int:
    """How many units stand as one at most, of numbers [N, P] of documents."""
    return len(of_units) if units.spans is None else 1


def _gain_of(share: FloatArray, values: FloatArray) -> FloatArray:
    """Contributions of values to that of the documents, half their share on both sides; -inf stays."""
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
        units.append(_numbers(documents, numbers)[length, first, beads.pair])
        ends = np.vstack([np.zeros(len(numbers)), shares(documents, numbers).cumsum(axis=0)])
        share += 0.5 * (ends[first + length, beads.pair] - ends[first, beads.pair])
    row_unit, column_unit = units
    return Links(pairs.row[beads.pair], pairs.column[beads.pair], row_unit, column_unit, share)


def _numbers(units: DocumentUnits, documents: IntArray) -> IntArray:
    """The units of 0, 1, ... sentences from every sentence on, and behind the last one, [lengths, N + 1, P]."""
    num_sentences = units.num_sentences[documents].max(initial=0) + 1
    numbers = np.zeros((LONGEST + 1, num_sentences, len(documents)), np.int64)
    for length in range(1, LONGEST + 1):
        of_length = side_by_side([units.of_length[length - 1][d] for d in documents.tolist()])
        numbers[length, : len(of_length)] = of_length
    return numbers


def beads_by_length(rows: DocumentUnits, columns: DocumentUnits) -> Beads:
    """The beads of one document with another, aligned by length."""
    only = np.zeros(1, np.int64)
    return _paths(DocumentPairs(LengthValues(rows, columns), rows, columns, only, only)).beads()
