"""How a list is read: comparisons, and how their matrices are folded into the matrix of the list.

A plan is pieces whose matrices [H, columns] stand side by side; what a piece's comparisons give is folded as soon as
they are there. A part of a plan, some rows with some columns, has the same values as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from .representations import FloatArray
from .text.texts import Comparison


class Link(NamedTuple):
    """Two units of documents that belong together, their share of the value of these, and their own value."""

    comparison: Comparison
    share: float
    value: float


class Piece(Protocol):
    """Comparisons that make some columns of a list's matrix."""

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """All of them."""

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The columns [H, columns] from the matrices of the comparisons."""


class Plan(Protocol):
    """How one list is read."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """The comparisons of its columns, from left to right."""

    def part(self, rows: range, columns: range) -> Plan:
        """How some rows with some columns of its matrix are read."""


class UnitPlan(Plan, Protocol):
    """How one list is read unit by unit: parts of its documents are compared in place of these."""

    @property
    def counts_once(self) -> bool:
        """Whether every sentence is in one unit, so that counts of units add up to those of documents."""

    def links(self, matrices: Sequence[FloatArray]) -> list[Link]:
        """The alignment of the only pair of this list, from the matrices of its comparisons."""


class MeanPiece(NamedTuple):
    """Comparisons whose mean makes some columns of a list's matrix."""

    comparisons: Sequence[Comparison]

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The mean of matrices of one shape."""
        first, *others = matrices
        if not others:
            return first
        with np.errstate(over="ignore", invalid="ignore"):
            result = sum(others, first) / len(matrices)
            if np.isfinite(result).all():
                return result
            # the sum may be too large for a number where the mean is not
            return sum((matrix / len(matrices) for matrix in others), first / len(matrices))


class PlanOfMeans(NamedTuple):
    """Each piece is the mean of its comparisons; one piece for all columns, or one for each."""

    pieces: Sequence[MeanPiece]

    def part(self, rows: range, columns: range) -> PlanOfMeans:
        """How some rows with some columns of its matrix are read."""
        pieces = self.pieces
        if len(pieces) > 1:  # one for every reference
            pieces = pieces[columns.start : columns.stop]
            columns = range(1)
        parts = []
        for piece in pieces:
            parts.append(MeanPiece([unit.part(rows, columns) for unit in piece.comparisons]))
        return PlanOfMeans(parts)


def comparisons_of(plans: Sequence[Plan]) -> list[Comparison]:
    """All that is compared, in order."""
    return [
        comparison for plan in plans for piece in plan.pieces for comparison in piece.comparisons
    ]


def folded(plan: Plan, matrices: Iterator[FloatArray]) -> FloatArray:
    """The matrix [H, R] of a list, from the matrices of its comparisons in order."""
    columns = []
    for piece in plan.pieces:
        columns.append(piece.fold([next(matrices) for _ in piece.comparisons]))
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
