"""Documents compared unit by unit: which units of a list are compared with which, and what that says of documents.

Each distinct unit is represented once. All units of the hypotheses are compared with all of the references in one
matrix, or, where a stand-in has found what belongs together, each with its own counterparts alone. A metric that reads
source and reference reads a reference's units beside the sentences of the source that stand where they do (by length);
one without references is aligned with the source; one that reads neither has the mean over sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..representations import FloatArray, IntArray
from ..scorer import DocumentReading, Scoring
from ..text.texts import Comparison, Item
from .document_folds import Links, links_of, values_of_documents
from .document_units import DocumentUnits, sentences_of, units_of
from .sentence_windows import Spans, links_by_place, window_units
from .source_spans import with_sources
from .stand_in import stand_in_values
from .tiles import Tile
from .unit_values import MatrixValues

PIECE_CELLS = 1 << 22  # of a matrix of units that is whole in memory
Cells = tuple[IntArray, IntArray]  # some rows and columns of it


@dataclass(frozen=True)
class AlignedPlan:
    """How a list of documents is read unit by unit.

    Args:
        metric: the metric.
        comparison: the documents.
        windows: those of every document, where units are windows of sentences.

    Raises:
        InputError: every hypothesis is to be read in the context of every reference.
    """

    metric: Scoring
    comparison: Comparison
    windows: Mapping[Item, Spans] | None = None

    def __post_init__(self) -> None:
        check_own_context(self.metric)

    def part(self, tile: Tile) -> AlignedPlan:
        """How a tile of the list's matrix is read."""
        rows, columns = range(tile.top, tile.bottom), range(tile.left, tile.right)
        return AlignedPlan(self.metric, self.comparison.part(rows, columns), self.windows)

    @cached_property
    def pieces(self) -> Sequence[UnitPiece | OwnMeans]:
        """What the matrix is made of."""
        comparison = self.comparison
        context = self.metric.reads.context
        rows = self._units(comparison.hypotheses)
        if not self.metric.info.needs_references:
            if comparison.source is None:
                return [OwnMeans(self._units(comparison.hypotheses, longest=1))]
            columns = self._units([comparison.source])
            return [self._piece(Sides(rows, columns, columns.items, has_references=False))]
        parts = list(_parts(comparison.references, PIECE_CELLS // len(rows.items)))
        is_square = comparison.references is comparison.hypotheses and len(parts) == 1
        pieces: list[UnitPiece | OwnMeans] = []
        for part in parts:
            sides = Sides(rows, rows if is_square else self._units(part))
            if comparison.source is not None:
                sides = Sides(rows, *with_sources(sides.columns, part, comparison.source, context))
            pieces.append(self._piece(sides))
        return pieces

    def _units(self, documents: Sequence[Item], longest: int | None = None) -> DocumentUnits:
        reading, context = self.metric.documents, self.metric.reads.context
        if self.windows is not None:
            return window_units(documents, self.windows, context, reading.by_length)
        return units_of(documents, context, longest or reading.longest, reading.by_length)

    def _piece(self, sides: Sides) -> UnitPiece:
        """All hypotheses against some references, or against the source."""
        reading = self.metric.documents
        sign = 1.0 if self.metric.info.higher_is_better else -1.0
        if reading.align != "join" and reading.align_by == "metric":
            # the empty text stands first on both sides
            first = 0 if reading.skips else 1
            num_rows, num_columns = sides.shape
            cells = sides.of_one_source(np.arange(first, num_rows), np.arange(first, num_columns))
            return UnitPiece(reading, sign, sides, cells)
        links = self._links(sides)
        is_compared = (links.row_unit > 0) & (links.column_unit > 0) | reading.skips
        needed = np.stack([links.row_unit, links.column_unit])[:, is_compared]
        rows, columns = np.unique(needed, axis=1)
        cells = []
        for row in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows)) + 1):
            if len(row):
                cells += sides.of_one_source(rows[row[:1]], columns[row])
        return UnitPiece(reading, sign, sides, cells, links)

    def _links(self, sides: Sides) -> Links:
        """What is compared with what: windows by their place where no alignment is set, else as a stand-in finds."""
        reading = self.metric.documents
        if reading.align == "join":
            return links_by_place(sides.rows, sides.columns)
        values = stand_in_values(reading.align_by, sides.rows, sides.columns)
        return links_of(values, sides.rows, sides.columns)


class UnitPiece(NamedTuple):
    """Units of some documents that are compared, and how their values become those of documents.

    Args:
        reading: how documents are aligned.
        sign: of utilities.
        sides: the units.
        cells: which of them are compared.
        known_links: what belongs together, where a stand-in found it.
    """

    reading: DocumentReading
    sign: float
    sides: Sides
    cells: Sequence[Cells]
    known_links: Links | None = None

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """What is compared."""
        return [self.sides.comparison(rows, columns) for rows, columns in self.cells]

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The values of documents, [H, columns], from those of units."""
        matrix = self.matrix(matrices)
        if self.known_links is None:
            values = self._utilities(matrix)
            return self.sign * values_of_documents(values, *self.sides[:2])
        links = self.known_links
        shape = len(self.sides.rows), len(self.sides.columns)
        pair = np.ravel_multi_index((links.row, links.column), shape)
        worth = links.share * matrix[links.row_unit, links.column_unit]
        return np.asarray(np.bincount(pair, worth, shape[0] * shape[1]).reshape(shape))

    def links(self, matrices: Sequence[FloatArray]) -> Links:
        """What belongs together."""
        if self.known_links is not None:
            return self.known_links
        values = self._utilities(self.matrix(matrices))
        return links_of(values, *self.sides[:2])

    def matrix(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The values of all units; nan where nothing was compared."""
        matrix = np.full(self.sides.shape, np.nan)
        for (rows, columns), values in zip(self.cells, matrices, strict=True):
            matrix[np.ix_(rows, columns)] = values
        if self.reading.align_skip is not None:
            matrix[0, 1:] = matrix[1:, 0] = self.reading.align_skip
        return matrix

    def _utilities(self, matrix: FloatArray) -> MatrixValues:
        return MatrixValues(self.sign * matrix, *self.sides[:2])


def check_own_context(metric: Scoring) -> None:
    """Raises InputError if hypotheses are to be read in the context of every reference."""
    if metric.reads.everywhere:
        setting = "windows" if metric.documents.windows else "align"
        raise InputError(
            f'{metric.name} has context_from="reference" beside {setting}',
            where=setting,
            fix="Leave out context_from: parts of documents are read in the context of their own document",
        )


class Sides(NamedTuple):
    """Units of hypotheses, and of references or of the source.

    Args:
        rows: the units of the hypotheses.
        columns: the units of the references, or of the source.
        sources: the source that each of the columns is read with; None for none.
        has_references: whether columns are references, or sources alone.
    """

    rows: DocumentUnits
    columns: DocumentUnits
    sources: tuple[Item, ...] | None = None
    has_references: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix of all units."""
        return len(self.rows.items), len(self.columns.items)

    def of_one_source(self, rows: IntArray, columns: IntArray) -> list[Cells]:
        """Some rows with some columns, those of one source together."""
        if self.sources is None:
            return [(rows, columns)]
        by_source: dict[Item, list[int]] = {}
        for column in columns.tolist():
            by_source.setdefault(self.sources[column], []).append(column)
        return [(rows, np.array(some)) for some in by_source.values()]

    def comparison(self, rows: IntArray, columns: IntArray) -> Comparison:
        """Some rows with some columns of one source."""
        hypotheses = tuple(self.rows.items[row] for row in rows.tolist())
        source = None if self.sources is None else self.sources[columns[0]]
        if not self.has_references:
            return Comparison(hypotheses, (), source)
        if self.rows is self.columns and np.array_equal(rows, columns):
            return Comparison(hypotheses, hypotheses, source)
        references = tuple(self.columns.items[column] for column in columns.tolist())
        return Comparison(hypotheses, references, source)


def _parts(documents: Sequence[Item], max_units: int) -> Iterator[Sequence[Item]]:
    """Documents in order, as many at a time as have so many units together; at least one."""
    start = num_units = 0
    for i, document in enumerate(documents):
        added = 2 * len(sentences_of(document))
        if num_units + added > max_units and i > start:
            yield documents[start:i]
            start, num_units = i, 0
        num_units += added
    yield documents[start:]


class OwnMeans(NamedTuple):
    """Documents that are compared with nothing: the means over their own sentences, weighed by mass."""

    rows: DocumentUnits

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """Every sentence by itself."""
        return [Comparison(self.rows.items[1:])]

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The means, [H, 1]."""
        (values,) = matrices
        means = []
        for places, masses in zip(self.rows.of_length[0], self.rows.masses, strict=True):
            means.append((values[places - 1, 0] * (masses / masses.sum())).sum())
        return np.array(means)[:, None]
