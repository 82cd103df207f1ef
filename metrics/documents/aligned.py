"""Documents compared unit by unit (`Aligned`): which units are compared with which, and what that says of documents.

Sentences are aligned monotonically, two neighbours of one document standing against one or two of the other (see
`monotone`), by the metric's own values, by those of a cheaper metric, or by the lengths of sentences. The share of a
sentence in its document is that of its letters.

Each distinct unit is represented once. All units of the hypotheses are compared with all of the references in one
matrix, or, where a proxy metric has found what belongs together, each with its own counterparts alone. A metric that
reads source and reference reads a reference's units beside the sentences of the source that stand where they do: the
sentence of the same number where numbers are equal, else by length. One without references is aligned with the source;
one that reads neither has the mean over sentences.

Monotone alignment: the best way through two documents in beads of 1-1, 1-2, 2-1, 2-2, 1-0 and 0-1 units.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import Metric
from ..errors import InputError, excerpt
from ..execution.store import Store
from ..metric_settings import MetricSettings
from ..reading_plan import Link
from ..representations import FloatArray, IntArray
from ..spec.checked_settings import Converted, Field, settings
from ..text.texts import Comparison, Item
from .wrapper import (
    LONGEST,
    DocumentUnits,
    Span,
    Spans,
    Wrapper,
    sentences_of,
    span,
    units_of,
)

PIECE_CELLS = 1 << 22  # of a matrix of units that is whole in memory
PROXY_ROWS = 256  # units that a proxy metric compares with all others at once
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
        return units_of(documents, context, longest or LONGEST, by_length, self.windows)

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
        if isinstance(by, Metric):
            return links_of(utilities_in(_proxy_utilities(by, rows, columns)), rows, columns)
        return links_of(likeness_of_lengths, rows, columns)


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
            values = utilities_in(self.sign * matrix)
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
            links = links_of(utilities_in(self.sign * matrix), *self.sides[:2])
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
    rows, columns = (
        PaddedDocuments.of(units_of([text], 0, 1, by_length=True), [0])
        for text in (document, source)
    )
    beads = best_paths(likeness_of_lengths, rows, columns).beads()
    spans: list[Span | None] = [None] * count
    for row, num_rows, column, num_columns in zip(*beads[1:], strict=True):
        if num_rows and num_columns:
            for at in range(row, row + num_rows):
                spans[at] = (int(column), int(column + num_columns))
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


Bead = tuple[int, int]  # how many units of the rows' text, and of the columns'
BEADS: tuple[Bead, ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 0), (0, 1))
CELLS = 1 << 18  # pairs of sentences worked on at once


class PaddedDocuments(NamedTuple):
    """P documents as columns of arrays; those of fewer than N sentences are filled up."""

    units: IntArray  # [LONGEST + 1, N + 1, P], of 0, 1, ... sentences from each on; 0 where there is none
    shares: FloatArray  # [N, P], of sentences in their documents; 0 where there is none
    lengths: IntArray  # [P], sentences
    longest: int  # how many units stand as one at most

    @classmethod
    def of(cls, units: DocumentUnits, documents: Sequence[int]) -> PaddedDocuments:
        """Some of the documents, by number."""
        masses = [units.masses[document] for document in documents]
        lengths = np.array([len(own) for own in masses], np.int64)
        numbers = np.zeros((LONGEST + 1, lengths.max(initial=0) + 1, len(documents)), np.int64)
        padded = np.zeros(numbers.shape[1:], np.int64)[:-1]
        for p, document in enumerate(documents):
            padded[: lengths[p], p] = masses[p]
            for length, of_documents in enumerate(units.of_length, 1):
                own = of_documents[document]
                numbers[length, : len(own), p] = own
        longest = len(padded) if units.spans is None else 1
        return cls(numbers, padded / padded.sum(axis=0), lengths, longest)

    def of_length(self, length: int) -> IntArray:
        """The units of so many sentences, [N - length + 1, P]."""
        return self.units[length, : len(self.shares) - length + 1]

    def shares_of(self, length: int) -> FloatArray:
        """The summed shares of so many neighbours, [N - length + 1, P]."""
        num_rows = len(self.shares) - length + 1
        total = np.zeros((num_rows, len(self.lengths)))
        for further in range(length):
            total = total + self.shares[further : num_rows + further]
        return total


# Utilities of a units as one with b units as one, from the i-th and j-th on, [N - a + 1, M - b + 1, P]; of 0 units, of
# those without a counterpart. What is not finite is -inf: it is chosen only where there is nothing else.
Utilities = Callable[[PaddedDocuments, PaddedDocuments, int, int], FloatArray]


def utilities_in(matrix: FloatArray) -> Utilities:
    """The utilities in a matrix of all units; those of units without a counterpart are those with the empty text."""
    finite = np.where(np.isfinite(matrix), matrix, -np.inf)

    def utilities(rows: PaddedDocuments, columns: PaddedDocuments, a: int, b: int) -> FloatArray:
        return np.asarray(finite[rows.of_length(a)[:, None], columns.of_length(b)])

    return utilities


def likeness_of_lengths(
    rows: PaddedDocuments, columns: PaddedDocuments, a: int, b: int
) -> FloatArray:
    """The smaller share by the larger one, of those that units have in their documents; 0 without a counterpart.

    It needs no common language, after Gale and Church (1993).
    """
    row, column = rows.shares_of(a)[:, None], columns.shares_of(b)
    larger = np.maximum(row, column)
    likeness = np.minimum(row, column) / np.where(larger > 0, larger, 1)
    return np.where((larger > 0) | (not (a and b)), likeness, 1)


class Paths(NamedTuple):
    """The best way through P pairs of documents."""

    values: FloatArray  # [P], summed gains; -inf where every way is forbidden
    chosen: NDArray[np.int8]  # [N + 1, M + 1, P], the bead that ends there; -1 for none
    num_rows: IntArray  # [P]
    num_columns: IntArray  # [P]

    def beads(self) -> IntArray:
        """The beads of all pairs, [5, beads]: pair, first row, rows, first column, columns.

        Those of a pair stand one after the other in the order of the texts; a forbidden pair has none.
        """
        shapes = np.array(BEADS)
        pair = np.arange(len(self.values))
        i, j = self.num_rows, self.num_columns
        steps = [np.empty((5, 0), np.int64)]
        while len(pair):
            bead = self.chosen[i, j, pair]
            on_way = bead >= 0
            pair = pair[on_way]
            rows, columns = shapes[bead[on_way]].T
            i, j = i[on_way] - rows, j[on_way] - columns
            steps.append(np.stack([pair, i, rows, j, columns]))
        beads = np.concatenate(steps, axis=1)
        return beads[:, np.lexsort((beads[3], beads[1], beads[0]))]


def monotone(gains: Mapping[Bead, FloatArray], num_rows: IntArray, num_columns: IntArray) -> Paths:
    """The best way through P pairs of texts.

    Args:
        gains: what every bead adds, [N - a + 1, M - b + 1, P] from row i and column j on; -inf forbids one, and beads
            without gains are forbidden too. Texts shorter than N or M units are filled up with anything.
        num_rows: units of the rows' text of every pair, [P].
        num_columns: units of the columns' text of every pair, [P].
    """
    height, width, num_pairs = len(gains[1, 0]), gains[0, 1].shape[1], len(num_rows)
    # D(i, j) stands at [i + 2, j + 2]: beads that would begin before the texts find -inf
    best = np.full((height + 1 + LONGEST, width + 1 + LONGEST, num_pairs), -np.inf)
    best[LONGEST, LONGEST] = 0.0
    chosen = np.full((height + 1, width + 1, num_pairs), -1, np.int8)
    for diagonal in range(1, height + width + 1):
        for number, (a, b) in enumerate(BEADS):
            if (a, b) not in gains:
                continue
            # the cells in which the bead can end
            i = np.arange(max(a, diagonal - width), min(height, diagonal - b) + 1)
            j = diagonal - i
            cells = i + LONGEST, j + LONGEST
            reached = best[i + LONGEST - a, j + LONGEST - b] + gains[a, b][i - a, j - b]
            better = reached > best[cells]
            best[cells] = np.where(better, reached, best[cells])
            chosen[i, j] = np.where(better, np.int8(number), chosen[i, j])
    ends = num_rows + LONGEST, num_columns + LONGEST, np.arange(num_pairs)
    return Paths(best[ends], chosen, num_rows, num_columns)


def best_paths(utilities: Utilities, rows: PaddedDocuments, columns: PaddedDocuments) -> Paths:
    """The best alignments of pairs of documents; one sentence with one sentence is one bead in any case."""
    is_single = (rows.lengths == 1) & (columns.lengths == 1)
    gains = {}
    for a, b in BEADS:
        if a > rows.longest or b > columns.longest:
            continue
        values = utilities(rows, columns, a, b)
        is_allowed = np.isfinite(values) & ~(is_single & (a * b == 0))
        share = rows.shares_of(a)[:, None] + columns.shares_of(b)
        gains[a, b] = np.where(is_allowed, 0.5 * share * np.where(is_allowed, values, 0.0), -np.inf)
    paths = monotone(gains, rows.lengths, columns.lengths)
    paths.chosen[1, 1, is_single] = 0
    return paths


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


def values_of_documents(
    utilities: Utilities, rows: DocumentUnits, columns: DocumentUnits
) -> FloatArray:
    """The utilities of all documents of the rows with all of the columns, [H, R]; nan where there is no finite one."""
    result = np.empty((len(rows), len(columns)))
    for row, column in _batches(rows, columns):
        values = best_paths(utilities, *_padded(rows, columns, row, column)).values
        result[row, column] = np.where(np.isfinite(values), values, np.nan)
    return result


def links_of(utilities: Utilities, rows: DocumentUnits, columns: DocumentUnits) -> Links:
    """Beads of all documents of the rows with all of the columns."""
    parts = []
    for row, column in _batches(rows, columns):
        padded = _padded(rows, columns, row, column)
        pair, *beads = best_paths(utilities, *padded).beads()
        share = np.zeros(len(pair))
        units = []
        for documents, first, length in zip(padded, beads[::2], beads[1::2], strict=True):
            units.append(documents.units[length, first, pair])
            ends = np.vstack([np.zeros(len(row)), documents.shares.cumsum(axis=0)])
            share += 0.5 * (ends[first + length, pair] - ends[first, pair])
        row_unit, column_unit = units
        parts.append(Links(row[pair], column[pair], row_unit, column_unit, share))
    return Links.concat(parts)


def _padded(
    rows: DocumentUnits, columns: DocumentUnits, row: IntArray, column: IntArray
) -> tuple[PaddedDocuments, PaddedDocuments]:
    """The two documents of every pair."""
    return PaddedDocuments.of(rows, row.tolist()), PaddedDocuments.of(columns, column.tolist())


def _batches(rows: DocumentUnits, columns: DocumentUnits) -> Iterator[tuple[IntArray, IntArray]]:
    """All pairs, those of like sizes together, about `CELLS` pairs of sentences at a time."""
    row, column = map(np.ravel, np.indices((len(rows), len(columns))))
    num_rows, num_columns = rows.num_sentences[row], columns.num_sentences[column]
    order = np.lexsort((num_columns, num_rows))
    start = height = width = 0
    for at, pair in enumerate(order.tolist()):
        height, width = max(height, num_rows[pair]), max(width, num_columns[pair])
        if (at + 1 - start) * height * width > CELLS and at > start:
            yield row[order[start:at]], column[order[start:at]]
            start, height, width = at, num_rows[pair], num_columns[pair]
    if len(order):
        yield row[order[start:]], column[order[start:]]
