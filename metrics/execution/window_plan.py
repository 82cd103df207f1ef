"""Documents compared window by window: by position where two have the same windows, else by place or alignment.

    u(h, r) = sum over windows j of w_j u(h_j, r_j)

with the shares w_j of `sentence_windows`. Documents whose windows differ, as they have other numbers of sentences or
one of them needs shorter windows, are compared as `AlignedPlan` compares units: as `align` says, by their place where
it says nothing. A metric without references reads a window beside the same sentences of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..representations import FloatArray
from ..scorer import Scoring
from ..text.texts import Comparison, Item
from .aligned_plan import AlignedPlan, OwnMeans, UnitPiece, check_own_context
from .document_units import letters_of, sentences_of, span
from .sentence_windows import Spans, shares_of, windows_of
from .tiles import Tile


class WindowPiece(NamedTuple):
    """Windows that pair by position: the mean of their comparisons by the shares of the windows, [windows]."""

    comparisons: Sequence[Comparison]
    shares: FloatArray

    @property
    def weights(self) -> list[float]:
        """The shares, in sum 1."""
        weights: list[float] = (self.shares / self.shares.sum()).tolist()
        return weights

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The mean, added up in the order of the windows; of a single window its own values."""
        first, *others = matrices
        if not others:
            return first
        weights = self.weights
        with np.errstate(over="ignore", invalid="ignore"):
            total: FloatArray = weights[0] * first
            for weight, matrix in zip(weights[1:], others, strict=True):
                total = total + weight * matrix
        return total


class MatrixPart(NamedTuple):
    """Some rows with some columns of the matrix, and the pieces that these columns are made of."""

    rows: list[int]
    columns: list[int]
    pieces: Sequence[WindowPiece | UnitPiece | OwnMeans]

    def fold(self, matrices: Iterator[FloatArray]) -> FloatArray:
        """The part of the matrix, [rows, columns], from the next matrices."""
        parts = [piece.fold([next(matrices) for _ in piece.comparisons]) for piece in self.pieces]
        return np.concatenate(parts, axis=1)


class PartedPiece(NamedTuple):
    """Parts that make a matrix of this shape."""

    parts: Sequence[MatrixPart]
    shape: tuple[int, int]

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """Those of all parts, in order."""
        pieces = [piece for part in self.parts for piece in part.pieces]
        return [comparison for piece in pieces for comparison in piece.comparisons]

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The matrix."""
        result = np.empty(self.shape)
        values = iter(matrices)
        for part in self.parts:
            result[np.ix_(part.rows, part.columns)] = part.fold(values)
        return result


@dataclass(frozen=True)
class WindowPlan:
    """How a list of documents is read window by window.

    Args:
        metric: the metric.
        comparison: the documents.
        known: the windows of every document; computed if not given.

    Raises:
        InputError: every hypothesis is to be read in the context of every reference.
    """

    metric: Scoring
    comparison: Comparison
    known: Mapping[Item, Spans] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_own_context(self.metric)

    def part(self, tile: Tile) -> WindowPlan:
        """How a tile of the list's matrix is read."""
        rows, columns = range(tile.top, tile.bottom), range(tile.left, tile.right)
        return WindowPlan(self.metric, self.comparison.part(rows, columns), self.windows)

    @cached_property
    def windows(self) -> Mapping[Item, Spans]:
        """The windows of every document and of the source."""
        if self.known is not None:
            return self.known
        comparison = self.comparison
        documents = (*comparison.hypotheses, *comparison.references)
        return windows_of(self.metric, documents, comparison.source)

    @property
    def of_pair(self) -> MatrixPart:
        """Of one hypothesis and at most one reference: how they are read."""
        (part,) = self._parts()
        return part

    @cached_property
    def pieces(self) -> Sequence[PartedPiece]:
        """All parts in one piece."""
        num_columns = len(self.comparison.references) if self.metric.info.needs_references else 1
        shape = len(self.comparison.hypotheses), num_columns
        return [PartedPiece(list(self._parts()), shape)]

    def _parts(self) -> Iterator[MatrixPart]:
        """The rows of one kind of windows with the columns of one kind."""
        needs_references = self.metric.info.needs_references
        of_columns = _by_windows(self.comparison.references, self.windows)
        for spans, rows in _by_windows(self.comparison.hypotheses, self.windows).items():
            if not needs_references:
                part = self.comparison.part(rows, [])
                yield MatrixPart(rows, [0], self._pieces(part, spans, spans))
                continue
            for other, columns in of_columns.items():
                part = self.comparison.part(rows, columns)
                yield MatrixPart(rows, columns, self._pieces(part, spans, other))

    def _pieces(
        self, part: Comparison, of_rows: Spans, of_columns: Spans
    ) -> Sequence[WindowPiece | UnitPiece | OwnMeans]:
        """How documents of one kind of windows are read with those of another."""
        is_aligned = self.metric.documents.align != "join"
        if is_aligned or of_rows != of_columns or not self._has_source_of(of_rows):
            return AlignedPlan(self.metric, part, self.windows).pieces
        of_sentences = letters_of(part.hypotheses[0], by_length=False)
        windows = [self._window(part, start, stop) for start, stop in of_rows]
        return [WindowPiece(windows, shares_of(of_rows, of_sentences))]

    def _has_source_of(self, spans: Spans) -> bool:
        """Whether the source, if there is one, has as many sentences as documents of these windows."""
        source = self.comparison.source
        return source is None or len(sentences_of(source)) == spans[-1][1]

    def _window(self, part: Comparison, start: int, stop: int) -> Comparison:
        """The comparison of one window of every document."""

        def read(item: Item) -> Item:
            return span(item, start, stop - start, self.metric.reads.context)

        rows = tuple(map(read, part.hypotheses))
        is_square = part.references is part.hypotheses
        columns = rows if is_square else tuple(map(read, part.references))
        return Comparison(rows, columns, None if part.source is None else read(part.source))


def _by_windows(
    documents: Sequence[Item], windows: Mapping[Item, Spans]
) -> Mapping[Spans, list[int]]:
    """The numbers of the documents that have the same windows."""
    parts: dict[Spans, list[int]] = {}
    for i, document in enumerate(documents):
        parts.setdefault(windows[document], []).append(i)
    return parts
