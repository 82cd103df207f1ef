"""Values of units of many pairs of documents, side by side, out of one matrix or of their lengths.

Pairs lie along the last axis, [N, M, P]; documents shorter than N or M sentences are filled up with their first units.
What is not finite becomes -inf: it is never chosen where there is something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..representations import FloatArray, IntArray
from .document_units import DocumentUnits


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

    What is skipped is worth nothing. A stand-in for texts of two languages, after Gale and Church (1993).
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
