"""Documents read in overlapping windows of sentences that fit a model (`Windows`), so that nothing long is cut.

    u(h, r) = sum over windows j of w_j u(h_j, r_j),   w_j = 1/n sum over sentences i of window j of 1/c_i

The windows of a document of n sentences have at most k of them; each begins s behind the one before, the last one ends
with the document. Where k sentences are too many for the model a window has as many as fit, at least one, and the next
one begins at its end at the latest. A sentence has the mean of the c_i windows that it is in, a document the mean of
its sentences.

Documents of the same windows are compared window by window. Others, as they have other numbers of sentences or one of
them needs shorter windows, are compared at equal positions, each being 0 to 1 long: window i of one and window j of the
other, laid end to end with their shares w, count as much as they overlap. `Aligned` around windows aligns them instead.
A metric without references reads a window beside the same sentences of the source. Windows depend on their document and
its source alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError
from ..metric_settings import MetricSettings
from ..reading_plan import Link
from ..representations import TRUNCATION_COLUMN, Block, FloatArray
from ..spec.checked_settings import Field, settings
from ..text.texts import Comparison, Item, Truncation
from .aligned import AlignedPlan, OwnMeans, Pairing, UnitPiece, check_own_context
from .wrapper import Span, Spans, Wrapper, num_windows, sentences_of, span


@settings
class Windows(Wrapper):
    """Whole documents in overlapping windows of sentences, of fewer where these do not fit the model.

    Args:
        size: sentences of a window.
        stride: how many sentences further the next window begins; half a window if not given.
    """

    size: Annotated[int, Field(ge=1)] = 4
    stride: Annotated[int, Field(ge=1)] | None = None
    wrapper_name: ClassVar[str] = "windows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric.by_units:
            fix = f"Put the windows inside: aligned(windows(METRIC,size={self.size}))"
            raise InputError("around a metric that compares units", where="windows", fix=fix)
        if self.stride is not None and self.stride > self.size:
            raise InputError(
                f"stride={self.stride} beside size={self.size} leaves sentences out",
                where="windows",
                fix=f"Set a stride of at most {self.size}",
            )

    @property
    def by_units(self) -> bool:
        """Whether documents are compared unit by unit: they are."""
        return True

    def unit_plan(self, comparison: Comparison) -> WindowPlan:
        """Window by window.

        Raises:
            InputError: every hypothesis is to be read in the context of every reference.
        """
        return WindowPlan(self, comparison, self.windows_of(comparison))

    def windows_of(self, comparison: Comparison) -> Mapping[Item, Spans]:
        """The windows of every document, and of the source."""
        rule = WindowRule(self.size, self.stride or max(1, self.size // 2))
        return windows_of(self, rule, comparison)


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
    metric: MetricSettings, rule: WindowRule, comparison: Comparison
) -> Mapping[Item, Spans]:
    """The windows of every document, and of the source.

    A window fits if the model reads all of it, and all of the same sentences of a source that has as many; of models
    that read texts side by side, if it does so beside a text as long as the window.
    """
    fitting = _Fitting(metric, rule.length)
    windows = {}
    source = comparison.source
    for document in dict.fromkeys((*comparison.hypotheses, *comparison.references)):
        windows[document] = rule.spans(fitting.longest(document, source))
    if source is not None:
        windows[source] = rule.spans(fitting.longest(source, source))
    return windows


class _Fitting(NamedTuple):
    """How many sentences of documents fit the model of a metric, of so many at most."""

    metric: MetricSettings
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


class WindowPiece(NamedTuple):
    """Windows that pair by position: the mean of their comparisons by the shares of the windows, [windows]."""

    comparisons: Sequence[Comparison]
    shares: FloatArray

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """The windows of the only pair, each with its share and value."""
        values = [float(matrix[0, 0]) for matrix in matrices]
        return list(map(Link, self.comparisons, self.weights, values))

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
        windows: those of every document, and of the source.

    Raises:
        InputError: every hypothesis is to be read in the context of every reference.
    """

    metric: MetricSettings
    comparison: Comparison
    windows: Mapping[Item, Spans]

    def __post_init__(self) -> None:
        check_own_context(self.metric)

    @property
    def counts_once(self) -> bool:
        """Whether every sentence is in one unit: windows overlap."""
        return False

    def part(self, rows: range, columns: range) -> WindowPlan:
        """How some rows with some columns of the list's matrix are read."""
        return replace(self, comparison=self.comparison.part(rows, columns))

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """The alignment of the only pair of this list."""
        (part,) = self._parts()
        (piece,) = part.pieces
        return piece.links(matrices)

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
        if of_rows != of_columns or not self._has_source_of(of_rows):
            by_position = Pairing("position", by_length=False)
            return AlignedPlan(self.metric, part, by_position, self.windows).pieces
        windows = [self._window(part, start, stop) for start, stop in of_rows]
        return [WindowPiece(windows, window_shares(of_rows))]

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


def window_shares(spans: Spans) -> FloatArray:
    """The summed shares 1 / c_i of the sentences of every window, [windows]."""
    of_sentences = 1 / num_windows(spans, spans[-1][1])
    return np.array([of_sentences[start:stop].sum() for start, stop in spans])


def _by_windows(
    documents: Sequence[Item], windows: Mapping[Item, Spans]
) -> Mapping[Spans, list[int]]:
    """The numbers of the documents that have the same windows."""
    parts: dict[Spans, list[int]] = {}
    for i, document in enumerate(documents):
        parts.setdefault(windows[document], []).append(i)
    return parts
