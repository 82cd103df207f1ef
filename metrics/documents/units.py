"""Units of documents: sentences, each two neighbours as one, and the empty text that stands for no sentence.

Each distinct unit of a list, a text in its own document's context, is there once; a document is numbers of units.
Values of units of many pairs of documents lie side by side along the last axis, [N, M, P]; documents shorter than N or
M sentences are filled up with their first units. What is not finite becomes -inf: it is never chosen where there is
something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..representations import FloatArray, IntArray
from ..text.texts import Document, Item, preceding

LONGEST = 2  # sentences that a unit may have
Span = tuple[int, int]  # first sentence, and the one behind the last


@dataclass(frozen=True)
class DocumentUnits:
    """The units of some documents.

    Args:
        items: the distinct units.
        of_length: the index among them of the 1, 2, ... `LONGEST` sentences from every sentence on, for each document;
            that of no sentence is 0.
        masses: a whole number for every sentence of every document.
        spans: the sentences of every unit where units are windows, which are never two as one.
    """

    items: tuple[Item, ...]
    of_length: tuple[tuple[IntArray, ...], ...]
    masses: tuple[IntArray, ...]
    spans: tuple[tuple[Span, ...], ...] | None = None

    def sentences(self, document: int, first: int, length: int) -> Span:
        """The sentences of so many units from one on."""
        if self.spans is None:
            return first, first + length
        return self.spans[document][first][0], self.spans[document][first + length - 1][1]

    @property
    def num_sentences(self) -> IntArray:
        """Sentences of every document, [documents]."""
        return np.array([len(masses) for masses in self.masses], np.int64)

    def __len__(self) -> int:
        return len(self.masses)


def sentences_of(item: Item) -> tuple[str, ...]:
    """The sentences of an item, at least one; a plain text is one sentence."""
    if isinstance(item.text, Document):
        return tuple(item.text.sentences) or ("",)
    return (item.text,)


def span(item: Item, first: int, length: int, k: int) -> Item:
    """Some sentences of an item as one text, in the context of the k before; its own context comes before its first."""
    sentences = sentences_of(item)
    context = preceding((*item.context, *sentences), len(item.context) + first, k)
    return Item(" ".join(sentences[first : first + length]), context, item.side)


def units_of(documents: Sequence[Item], k: int, longest: int, by_length: bool) -> DocumentUnits:
    """The units of documents.

    Args:
        documents: the texts, in their context.
        k: sentences of context that a unit has.
        longest: how many sentences a unit has at most, up to `LONGEST`.
        by_length: whether the mass of a sentence is its number of letters, or 1.
    """
    side = documents[0].side if documents else "target"
    index_of: dict[Item, int] = {}  # behind that of no sentence, which an empty sentence is not
    of_length: list[list[IntArray]] = [[] for _ in range(LONGEST)]
    masses = []
    for document in documents:
        num_sentences = len(sentences_of(document))
        for length in range(1, LONGEST + 1):
            num_units = max(0, num_sentences - length + 1) if length <= longest else 0
            units = [span(document, first, length, k) for first in range(num_units)]
            indices = [index_of.setdefault(unit, len(index_of) + 1) for unit in units]
            of_length[length - 1].append(np.array(indices, np.int64))
        masses.append(letters_of(document, by_length))
    return DocumentUnits(
        (Item("", (), side), *index_of), tuple(map(tuple, of_length)), tuple(masses)
    )


def letters_of(document: Item, by_length: bool) -> IntArray:
    """The mass of every sentence; of a document without letters all are alike."""
    sentences = sentences_of(document)
    if by_length:
        letters = np.array([len("".join(text.split())) for text in sentences], np.int64)
        if letters.any():
            return letters
    return np.ones(len(sentences), np.int64)


class UnitValues(Protocol):
    """Utilities of units of P pairs of documents, given by the numbers of their rows and columns, [P] each."""

    def matched(self, rows: IntArray, columns: IntArray, a: int, b: int) -> FloatArray:
        """Of a sentences with b sentences, from the i-th and j-th on, [N - a + 1, M - b + 1, P]."""

    def skipped(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Of every row's and every column's sentence without a counterpart, [N, P] and [M, P]."""


class MatrixValues:
    """Utilities out of a matrix.

    Args:
        matrix: utilities of all units of the rows with all of the columns.
        rows: the documents of the rows.
        columns: the documents of the columns.
    """

    def __init__(self, matrix: FloatArray, rows: DocumentUnits, columns: DocumentUnits) -> None:
        self.matrix = np.where(np.isfinite(matrix), matrix, -np.inf)
        self.rows, self.columns = rows, columns

    def matched(self, rows: IntArray, columns: IntArray, a: int, b: int) -> FloatArray:
        """As `UnitValues` has it."""
        row = side_by_side([self.rows.of_length[a - 1][r] for r in rows.tolist()])
        column = side_by_side([self.columns.of_length[b - 1][c] for c in columns.tolist()])
        return np.asarray(self.matrix[row[:, None, :], column[None, :, :]])

    def skipped(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """As `UnitValues` has it: with the empty text."""
        row = side_by_side([self.rows.of_length[0][r] for r in rows.tolist()])
        column = side_by_side([self.columns.of_length[0][c] for c in columns.tolist()])
        return self.matrix[row, 0], self.matrix[0, column]


class LengthValues:
    """How alike the shares are that units have in the masses of their documents: the smaller share by the larger one.

    What is skipped is worth nothing. It needs no common language, after Gale and Church (1993).
    """

    def __init__(self, rows: DocumentUnits, columns: DocumentUnits) -> None:
        self.rows, self.columns = rows, columns

    def matched(self, rows: IntArray, columns: IntArray, a: int, b: int) -> FloatArray:
        """As `UnitValues` has it."""
        row = neighbours(shares(self.rows, rows), a)[:, None, :]
        column = neighbours(shares(self.columns, columns), b)[None, :, :]
        larger = np.maximum(row, column)
        return np.where(larger > 0, np.minimum(row, column) / np.where(larger > 0, larger, 1), 1)

    def skipped(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """As `UnitValues` has it."""
        return np.zeros_like(shares(self.rows, rows)), np.zeros_like(shares(self.columns, columns))


def side_by_side(rows: Sequence[IntArray]) -> IntArray:
    """Arrays of different lengths as columns, filled up with 0, [longest, P]."""
    longest = max(map(len, rows), default=0)
    filled = np.zeros((longest, len(rows)), np.int64)
    for i, row in enumerate(rows):
        filled[: len(row), i] = row
    return filled


def shares(units: DocumentUnits, documents: IntArray) -> FloatArray:
    """The share of every sentence in its document's mass, [N, P]; 0 where there is none."""
    masses = side_by_side([units.masses[d] for d in documents.tolist()])
    return np.asarray(masses / masses.sum(axis=0))


def neighbours(values: FloatArray, length: int) -> FloatArray:
    """The sums of so many neighbours, [N - length + 1, P]; of numbers [N, P]."""
    sums = values[: len(values) - length + 1]
    for further in range(1, length):
        sums = sums + values[further : len(values) - length + 1 + further]
    return sums
