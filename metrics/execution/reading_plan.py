"""How a list is read: comparisons, and how their matrices are folded into the matrix of the list.

A plan is pieces whose matrices [H, columns] stand side by side; what a piece's comparisons give is folded as soon as
they are there. A part of a plan, some rows with some columns, has the same values as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..representations import FloatArray
from ..text.texts import Comparison
from .tiles import Tile


def mean(matrices: Sequence[FloatArray]) -> FloatArray:
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


class Piece(Protocol):
    """Comparisons that make some columns of a list's matrix."""

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """What is compared."""

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The columns [H, columns] from the matrices of the comparisons."""


class MeanPiece(NamedTuple):
    """Comparisons whose mean makes some columns of a list's matrix."""

    comparisons: Sequence[Comparison]

    def fold(self, matrices: Sequence[FloatArray]) -> FloatArray:
        """The mean."""
        return mean(matrices)


class Plan(Protocol):
    """How one list is read."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """What its columns are made of, from left to right."""

    def part(self, tile: Tile) -> Plan:
        """How a tile of its matrix is read."""


class PlanOfMeans(NamedTuple):
    """Each piece is the mean of its comparisons; one piece for all columns, or one for each."""

    pieces: Sequence[MeanPiece]

    def part(self, tile: Tile) -> PlanOfMeans:
        """How a tile of its matrix is read."""
        pieces, references = self.pieces, slice(tile.left, tile.right)
        if len(pieces) > 1:  # one for every reference
            pieces, references = pieces[references], slice(None)
        parts = []
        for piece in pieces:
            parts.append(MeanPiece([_part(unit, tile, references) for unit in piece.comparisons]))
        return PlanOfMeans(parts)


def _part(unit: Comparison, tile: Tile, references: slice) -> Comparison:
    """The tile's rows against some references; square where it stands on the diagonal of a square comparison."""
    rows = unit.hypotheses[tile.top : tile.bottom]
    is_square = unit.references is unit.hypotheses
    if is_square and (tile.top, tile.bottom) == (tile.left, tile.right):
        return Comparison(rows, rows, unit.source)
    return Comparison(rows, unit.references[references], unit.source)


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
