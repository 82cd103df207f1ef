"""Documents compared unit by unit: which units of a list are compared with which, and what that says of documents.

Each distinct unit is represented once. All units of the hypotheses are compared with all of the references in one
matrix, or, where a stand-in has found what belongs together, each with its own counterparts alone. A metric that reads
source and reference reads a reference's units beside the sentences of the source that stand where they do (by length);
one without references is aligned with the source; one that reads neither has the mean over sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..representations import FloatArray, IntArray
from ..scorer import Scoring
from ..text.texts import Comparison, Item
from .document_folds import Links, links_of, values_of_documents
from .document_units import DocumentUnits, sentences_of, units_of
from .reading_plan import Piece
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
    def pieces(self) -> Sequence[Piece]:
        """What the matrix is made of."""
        comparison = self.comparison
        rows = self._units(comparison.hypotheses)
        if not self.metric.info.needs_references:
            if comparison.source is None:
                return [Piece([Comparison(rows.items)], partial(_means, rows))]
            columns = self._units([comparison.source])
            return [self._piece(Sides(rows, columns, columns.items, has_references=False))]
        parts = list(_parts(comparison.references, PIECE_CELLS // len(rows.items)))
        is_square = comparison.references is comparison.hypotheses and len(parts) == 1
        pieces = []
        for part in parts:
            sides = Sides(rows, rows if is_square else self._units(part))
            if comparison.source is not None:
                context = self.metric.reads.context
                sides = Sides(rows, *with_sources(sides.columns, part, comparison.source, context))
            pieces.append(self._piece(sides))
        return pieces

    def _units(self, documents: Sequence[Item]) -> DocumentUnits:
        reading, context = self.metric.documents, self.metric.reads.context
        if self.windows is not None:
            return window_units(documents, self.windows, context, reading.by_length)
        return units_of(documents, context, reading.longest, reading.by_length)

    def _piece(self, sides: Sides) -> Piece:
        """All hypotheses against some references, or against the source."""
        reading = self.metric.documents
        sign = 1.0 if self.metric.info.higher_is_better else -1.0

        if reading.align != "join" and reading.align_by == "metric":
            # the empty text stands first on both sides
            first = 0 if reading.skips else 1
            num_rows, num_columns = sides.shape
            cells = sides.of_one_source(np.arange(first, num_rows), np.arange(first, num_columns))

            def fold(matrices: Sequence[FloatArray]) -> FloatArray:
                matrix = sign * _with_skips(sides.matrix(cells, matrices), reading.align_skip)
                values = MatrixValues(matrix, sides.rows, sides.columns)
                return sign * values_of_documents(reading, values, sides.rows, sides.columns)

            return Piece(sides.comparisons(cells), fold)

        links = self._links(sides)
        cells = []
        is_compared = (links.row_unit > 0) & (links.column_unit > 0) | reading.skips
        for row in np.unique(links.row_unit[is_compared]):
            columns = np.unique(links.column_unit[is_compared & (links.row_unit == row)])
            cells += sides.of_one_source(np.array([row]), columns)

        def fold_links(matrices: Sequence[FloatArray]) -> FloatArray:
            matrix = _with_skips(sides.matrix(cells, matrices), reading.align_skip)
            shape = len(sides.rows), len(sides.columns)
            pair = np.ravel_multi_index((links.row, links.column), shape)
            worth = links.share * matrix[links.row_unit, links.column_unit]
            return np.asarray(np.bincount(pair, worth, shape[0] * shape[1]).reshape(shape))

        return Piece(sides.comparisons(cells), fold_links)

    def _links(self, sides: Sides) -> Links:
        """What is compared with what: windows by their place where no alignment is set, else as a stand-in finds."""
        reading = self.metric.documents
        if reading.align == "join":
            return links_by_place(sides.rows, sides.columns)
        values = stand_in_values(reading.align_by, sides.rows, sides.columns)
        return links_of(reading, values, sides.rows, sides.columns)


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

    def comparisons(self, cells: Sequence[Cells]) -> list[Comparison]:
        """What is compared for some cells."""
        return [self._comparison(rows, columns) for rows, columns in cells]

    def _comparison(self, rows: IntArray, columns: IntArray) -> Comparison:
        hypotheses = tuple(self.rows.items[row] for row in rows.tolist())
        source = None if self.sources is None else self.sources[columns[0]]
        if not self.has_references:
            return Comparison(hypotheses, (), source)
        if self.rows is self.columns and np.array_equal(rows, columns):
            return Comparison(hypotheses, hypotheses, source)
        references = tuple(self.columns.items[column] for column in columns.tolist())
        return Comparison(hypotheses, references, source)

    def matrix(self, cells: Sequence[Cells], matrices: Sequence[FloatArray]) -> FloatArray:
        """The matrix of all units; nan where nothing was compared."""
        matrix = np.full(self.shape, np.nan)
        for (rows, columns), values in zip(cells, matrices, strict=True):
            matrix[np.ix_(rows, columns)] = values
        return matrix


def _with_skips(matrix: FloatArray, skip: float | None) -> FloatArray:
    """The matrix with what is set for the empty text, which stands first on both sides."""
    if skip is not None:
        matrix[0, 1:] = matrix[1:, 0] = skip
    return matrix


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


def _means(rows: DocumentUnits, matrices: Sequence[FloatArray]) -> FloatArray:
    """The means over their own sentences, weighed by mass, [H, 1]."""
    (values,) = matrices
    means = []
    for places, masses in zip(rows.of_length[0], rows.masses, strict=True):
        means.append((values[places, 0] * (masses / masses.sum())).sum())
    return np.array(means)[:, None]
