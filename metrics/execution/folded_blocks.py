"""Blocks without repeated texts, and matrices of the whole from those of the distinct ones."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..representations import Block, FloatArray, IntArray


class Folded(NamedTuple):
    """A block without its repeated rows and columns, in order of first appearance, and where each of them went."""

    block: Block
    hypotheses: IntArray | None  # [H] place among the distinct hypotheses; None if nothing repeats
    references: IntArray | None

    @classmethod
    def of(cls, block: Block) -> Self:
        """The distinct rows of a block; the block itself if nothing repeats."""
        rows, row_places = _distinct(block.hypotheses)
        columns, column_places = (rows, row_places) if block.square else _distinct(block.references)
        if row_places is None and column_places is None:
            return cls(block, None, None)
        return cls(Block(rows, columns, block.source), row_places, column_places)

    def spread(self, u: FloatArray) -> FloatArray:
        """The matrix of the whole block from that of the distinct one."""
        if self.hypotheses is not None:
            u = u[self.hypotheses]
        return u if self.references is None else u[:, self.references]


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray | None]:
    """The distinct rows in order of first appearance; the place of each row among them, None if nothing repeats."""
    numbers = rows.tolist()
    if len(set(numbers)) == len(numbers):
        return rows, None
    number: dict[int, int] = {}
    places = [number.setdefault(row, len(number)) for row in numbers]
    return np.array(list(number), np.int64), np.array(places, np.int64)
