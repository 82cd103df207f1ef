"""Documents compared unit by unit (`Aligned`): which units are compared with which, and what that says of documents.

Sentences are aligned monotonically, two neighbours of one document standing against one or two of the other (see
`monotone`), by the metric's own values, by those of a cheaper metric, or by the lengths of sentences. The share of a
sentence in its document is that of its letters.

Each distinct unit is represented once. All units of the hypotheses are compared with all of the references in one
matrix, or, where a proxy metric has found what belongs together, each with its own counterparts alone. A metric that
reads source and reference reads a reference's units beside the sentences of the source that stand where they do: the
sentence of the same number where numbers are equal, else by length. One without references is aligned with the source;
one that reads neither has the mean over sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from ..base import Metric
from ..errors import InputError, excerpt
from ..execution.store import Store
from ..metric_settings import MetricSettings
from ..reading_plan import Link
from ..representations import FloatArray, IntArray
from ..spec.checked_settings import Converted, Field, settings
from ..text.texts import Comparison, Item
from .monotone import Links, beads_by_length, links_of, values_of_documents
from .units import (
    LONGEST,
    DocumentUnits,
    LengthValues,
    MatrixValues,
    Span,
    UnitValues,
    letters_of,
    sentences_of,
    span,
    units_of,
)
from .wrapper import Spans, Wrapper

PIECE_CELLS = 1 << 22  # of a matrix of units that is whole in memory
PROXY_ROWS = 256  # units that a proxy metric compares with all others at once
PARTS = 2520  # of a sentence's mass; a multiple of all numbers up to 10
Cells = tuple[IntArray, IntArray]  # some rows and columns of a matrix
Proxy = Metric | Literal["length"]


def _proxy(value: object) -> Proxy | None:
    """The finder of an alignment: none, a metric that compares texts with references, or lengths."""
    if value is None or value == "length":
        return value
    if isinstance(value, Metric) and value.info.needs_references and not value.needs_source:
        return value
    raise InputError(
        f"by = {excerpt(value)}: expected a metric that compares texts, or length",
        where="aligned",
        fix='Write by="chrf", by="length", or leave it out',
    )


class Pairing(NamedTuple):
    """How units of two documents are put side by side.

    Args:
        by: what finds the alignment: the metric itself (None), a cheaper one, lengths; "position" aligns nothing.
        skip: the value of a unit without a counterpart; that with the empty text if not given.
        by_length: whether a sentence has the share of its letters in its document, or all have the same.
    """

    by: Proxy | Literal["position"] | None = None
    skip: float | None = None
    by_length: bool = True

    @property
    def compares_with_nothing(self) -> bool:
        """Whether units are compared with the empty text, as what stays without a counterpart."""
        return self.by != "position" and self.skip is None


@settings
class Aligned(Wrapper):
    """Documents of any numbers of sentences, sentence by sentence along their best monotone alignment.

    Args:
        by: what finds the alignment in place of the metric: another metric (in a signature its text), or "length".
        weights: the share of a sentence in its document: length (of its letters) or sentences (all alike).
        skip: what a sentence without a counterpart is worth; its value with the empty text if not given.
    """

    by: Annotated[Metric | Literal["length"] | None, Converted(_proxy)] = None
    weights: Literal["length", "sentences"] = "length"
    skip: Annotated[float, Field(allow_inf_nan=False)] | None = None
    wrapper_name: ClassVar[str] = "aligned"
    wrapper_papers: ClassVar[tuple[str, ...]] = ("gale1993program",)

    @property
    def by_units(self) -> bool:
        """Whether documents are compared unit by unit: they are."""
        return True

    def unit_plan(self, comparison: Comparison) -> AlignedPlan:
        """The sentences, or the windows of the metric inside, along their alignment.

        Raises:
            InputError: every hypothesis is to be read in the context of every reference.
        """
        pairing = Pairing(self.by, self.skip, self.weights == "length")
        windows = self.windows_of(comparison)
        return AlignedPlan(self, comparison, pairing, windows)


@dataclass(frozen=True)
class AlignedPlan:
    """How a list of documents is read unit by unit.

    Args:
        metric: the metric.
        comparison: the documents.
        pairing: how units are put side by side.
        windows: those of every document, where units are windows of sentences.

    Raises:
        InputError: every hypothesis is to be read in the context of every reference.
    """

    metric: MetricSettings
    comparison: Comparison
    pairing: Pairing
    windows: Mapping[Item, Spans] | None = None

    def __post_init__(self) -> None:
        check_own_context(self.metric)

    @property
    def counts_once(self) -> bool:
        """Whether units are sentences, each in one of them; windows overlap."""
        return self.windows is None

    def part(self, rows: range, columns: range) -> AlignedPlan:
        """How some rows with some columns of the list's matrix are read."""
        return replace(self, comparison=self.comparison.part(rows, columns))

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """The alignment of the only pair of this list."""
        (piece,) = self.pieces
        return piece.links(matrices)

    @cached_property
    def pieces(self) -> Sequence[UnitPiece | OwnMeans]:
        """The comparisons of the matrix."""
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
        context, by_length = self.metric.reads.context, self.pairing.by_length
        if self.windows is not None:
            return window_units(documents, self.windows, context, by_length)
        return units_of(documents, context, longest or LONGEST, by_length)

    def _piece(self, sides: Sides) -> UnitPiece:
        """All hypotheses against some references, or against the source."""
        sign = 1.0 if self.metric.info.higher_is_better else -1.0
        skips = self.pairing.compares_with_nothing
        if self.pairing.by is None:
            # the empty text stands first on both sides
            first = 0 if skips else 1
            num_rows, num_columns = sides.shape
            cells = sides.of_one_source(np.arange(first, num_rows), np.arange(first, num_columns))
            return UnitPiece(self.pairing.skip, sign, sides, cells)
        links = self._links(sides)
        is_compared = (links.row_unit > 0) & (links.column_unit > 0) | skips
        needed = np.stack([links.row_unit, links.column_unit])[:, is_compared]
        rows, columns = np.unique(needed, axis=1)
        cells = []
        for row in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows)) + 1):
            if len(row):
                cells += sides.of_one_source(rows[row[:1]], columns[row])
        return UnitPiece(self.pairing.skip, sign, sides, cells, links)

    def _links(self, sides: Sides) -> Links:
        """Pairs of units to compare: by their position, or as lengths or a proxy metric find."""
        rows, columns, by = sides.rows, sides.columns, self.pairing.by
        if by == "position":
            return links_by_position(rows, columns)
        values: UnitValues = LengthValues(rows, columns)
        if isinstance(by, Metric):
            values = MatrixValues(_proxy_utilities(by, rows, columns), rows, columns)
        return links_of(values, rows, columns)


def _proxy_utilities(proxy: Metric, rows: DocumentUnits, columns: DocumentUnits) -> FloatArray:
    """The utilities of all units by a cheaper metric."""
    store = Store(proxy.scorer)
    matrices = []
    for start in range(0, len(rows.items), PROXY_ROWS):
        part = rows.items[start : start + PROXY_ROWS]
        blocks = store.add([Comparison(part, columns.items)])
        matrices += proxy.scorer.compare(store.reps, blocks)
    return proxy.utility_sign * np.concatenate(matrices)


class UnitPiece(NamedTuple):
    """Units of some documents that are compared, and how their values become those of documents.

    Args:
        skip: the value of a unit without a counterpart; that with the empty text if None.
        sign: of utilities.
        sides: the units.
        cells: which of them are compared.
        known_links: what belongs together, where something else than the metric found it.
    """

    skip: float | None
    sign: float
    sides: Sides
    cells: Sequence[Cells]
    known_links: Links | None = None

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The units to compare."""
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

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """The alignment."""
        matrix, links = self.matrix(matrices), self.known_links
        if links is None:
            links = links_of(self._utilities(matrix), *self.sides[:2])
        result = []
        for row, column, share in zip(links.row_unit, links.column_unit, links.share, strict=True):
            comparison = self.sides.comparison(np.array([row]), np.array([column]))
            result.append(Link(comparison, float(share), float(matrix[row, column])))
        return result

    def matrix(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The values of all units; nan where nothing was compared."""
        matrix = np.full(self.sides.shape, np.nan)
        for (rows, columns), values in zip(self.cells, matrices, strict=True):
            matrix[np.ix_(rows, columns)] = values
        if self.skip is not None:
            matrix[0, 1:] = matrix[1:, 0] = self.skip
        return matrix

    def _utilities(self, matrix: FloatArray) -> MatrixValues:
        return MatrixValues(self.sign * matrix, *self.sides[:2])


def check_own_context(metric: MetricSettings) -> None:
    """Raises InputError if hypotheses are to be read in the context of every reference."""
    if metric.reads.everywhere:
        raise InputError(
            f'{metric.name} has context_from="reference"',
            where=metric.signature(),
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

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """Nothing belongs to anything."""
        return []

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The means, [H, 1]."""
        (values,) = matrices
        means = []
        for indices, masses in zip(self.rows.of_length[0], self.rows.masses, strict=True):
            means.append((values[indices - 1, 0] * (masses / masses.sum())).sum())
        return np.array(means)[:, None]


def with_sources(
    columns: DocumentUnits, documents: Sequence[Item], source: Item, k: int
) -> tuple[DocumentUnits, tuple[Item, ...]]:
    """The units with their sources: a unit that has several is there once for each, and the source of every unit."""
    spans = source_spans(documents, source)
    nothing = columns.items[0], Item("", (), "source")
    index_of: dict[tuple[Item, Item], int] = {}
    of_length = []
    for length, of_documents in enumerate(columns.of_length, 1):
        indices = []
        for document, units in enumerate(of_documents):
            own = []
            for first, unit in enumerate(units.tolist()):
                begin, end = columns.sentences(document, first, length)
                start, stop = spans[document][begin][0], spans[document][end - 1][1]
                text = span(source, start, stop - start, k)
                own.append(index_of.setdefault((columns.items[unit], text), len(index_of) + 1))
            indices.append(np.array(own, np.int64))
        of_length.append(tuple(indices))
    items, sources = zip(nothing, *index_of, strict=True)
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


def window_units(
    documents: Sequence[Item], windows: Mapping[Item, Spans], k: int, by_length: bool
) -> DocumentUnits:
    """Windows as the units of documents, never two as one; arguments as `units_of`."""
    side = documents[0].side if documents else "target"
    index_of: dict[Item, int] = {}
    indices, masses = [], []
    for document in documents:
        spans = windows[document]
        units = [span(document, start, stop - start, k) for start, stop in spans]
        own = [index_of.setdefault(unit, len(index_of) + 1) for unit in units]
        indices.append(np.array(own, np.int64))
        masses.append(_masses_of(spans, letters_of(document, by_length)))
    none = tuple(np.empty(0, np.int64) for _ in documents)
    spans_of_documents = tuple(windows[document] for document in documents)
    nothing = Item("", (), side)
    of_length = tuple(indices), none
    return DocumentUnits((nothing, *index_of), of_length, tuple(masses), spans_of_documents)


def _masses_of(spans: Spans, of_sentences: IntArray) -> IntArray:
    """Shares as whole numbers; exact where `PARTS` is a multiple of every c_i, else rounded."""
    counts = _counts(spans, len(of_sentences))
    parts = np.rint(of_sentences * PARTS / counts).astype(np.int64)
    return np.array([parts[start:stop].sum() for start, stop in spans], np.int64)


def shares_of(spans: Spans, of_sentences: IntArray) -> FloatArray:
    """The share of every window, [windows], from those of sentences, [n]; in sum theirs."""
    counts = _counts(spans, len(of_sentences))
    return np.array([(of_sentences / counts)[start:stop].sum() for start, stop in spans])


def _counts(spans: Spans, num_sentences: int) -> IntArray:
    """How many windows have each sentence, [n]."""
    counts = np.zeros(num_sentences, np.int64)
    for start, stop in spans:
        counts[start:stop] += 1
    return counts


def links_by_position(rows: DocumentUnits, columns: DocumentUnits) -> Links:
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
