"""Columnar representations: named arrays with one row per item, ragged where rows differ in length.

`Block` names the rows of one candidate list. Columnar so that a thousand representations move between processes,
caches and batches as a few arrays. It knows neither metrics nor texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Array = NDArray[Any]

# The column that says what was left out of every item, a `Truncation`; the name is stored in caches.
TRUNCATION_COLUMN = "cut"


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different lengths: row i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Array  # [total, ...]
    offsets: IntArray  # [rows + 1]

    @classmethod
    def of_lengths(cls, values: Array, lengths: IntArray) -> Self:
        """Rows of the given lengths that stand one after the other in `values`."""
        return cls(values, _offsets(lengths))

    @classmethod
    def of_rows(cls, rows: Sequence[Array]) -> Self:
        """Joins rows of one dtype."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.concatenate(rows) if rows else np.empty(0)
        return cls.of_lengths(values, lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Length of every row, [rows]."""
        return np.diff(self.offsets)

    def __getitem__(self, rows: IntArray) -> Self:
        lengths = self.lengths[rows]
        offsets = _offsets(lengths)
        # the place of every value in `self.values`: its place in the result, moved by as much as its row moves
        moves = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        places = np.arange(offsets[-1]) + moves
        return type(self)(self.values[places], offsets)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self.offsets.nbytes


def _offsets(lengths: IntArray) -> IntArray:
    """Where rows of these lengths begin, and where the last one ends, [rows + 1]."""
    start = np.zeros(1, np.int64)
    return np.concatenate((start, lengths.cumsum()))


@dataclass(frozen=True, slots=True)
class Reps:
    """Representations of some items, one row each."""

    columns: Mapping[str, Array | Ragged]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def take(self, rows: IntArray) -> Reps:
        """The given rows, in that order."""
        return Reps({name: column[rows] for name, column in self.columns.items()})

    @staticmethod
    def concat(parts: Sequence[Reps]) -> Reps:
        """All rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        columns = {}
        for name in parts[0].columns:
            columns[name] = _concat([part[name] for part in parts])
        return Reps(columns)

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Flat named arrays, for a cache or the wire; `from_arrays` is the inverse."""
        for name, column in self.columns.items():
            if isinstance(column, Ragged):
                yield f"{name}.values", column.values
                yield f"{name}.offsets", column.offsets
            else:
                yield name, column

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array]) -> Reps:
        """The representations whose `arrays` these are."""
        columns: dict[str, Array | Ragged] = {}
        for name, array in arrays.items():
            if name.endswith(".values"):
                stem = name.removesuffix(".values")
                columns[stem] = Ragged(array, arrays[f"{stem}.offsets"])
            elif not name.endswith(".offsets"):
                columns[name] = array
        return Reps(columns)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(column.nbytes for column in self.columns.values())


class Block(NamedTuple):
    """One list as rows of a Reps: distinct hypotheses against distinct references (none when reference-free)."""

    hypotheses: IntArray  # [H]
    references: IntArray  # [R]
    source: int = -1

    @property
    def square(self) -> bool:
        """Hypotheses and references are one array (MBR over its own candidates)."""
        return self.hypotheses is self.references

    @property
    def cells(self) -> int:
        """Values that `compare` returns for it."""
        return len(self.hypotheses) * max(1, len(self.references))


def transposed(blocks: Sequence[Block]) -> list[bool]:
    """Whether each block is the one before it the other way round, rows as columns; a square one never is.

    A scorer of which some part is symmetric computes that once for both.
    """
    is_transposed = [False] * len(blocks)
    for i, (a, b) in enumerate(pairwise(blocks), 1):
        if is_transposed[i - 1] or a.square or b.square:
            continue
        is_transposed[i] = (
            a.source == b.source
            and np.array_equal(a.hypotheses, b.references)
            and np.array_equal(a.references, b.hypotheses)
        )
    return is_transposed


def with_transposed(
    matrices: Sequence[FloatArray], is_transposed: Sequence[bool]
) -> list[FloatArray]:
    """The matrices of all blocks from those of the blocks that are not the one before them transposed."""
    rest = iter(matrices)
    result: list[FloatArray] = []
    for again in is_transposed:
        result.append(result[-1].T if again else next(rest))
    return result


def cell_rows(blocks: Sequence[Block]) -> tuple[IntArray, IntArray]:
    """Rows of the hypothesis and of the reference of every cell of every block, [cells] each."""
    hypotheses = np.concatenate([block.hypotheses for block in blocks])
    references = np.concatenate([block.references for block in blocks])
    # H and R of every block, [blocks]
    num_hypotheses = np.fromiter((len(b.hypotheses) for b in blocks), np.int64, len(blocks))
    num_references = np.fromiter((len(b.references) for b in blocks), np.int64, len(blocks))
    # for every hypothesis (every row of a matrix): its number of cells, and where the references of its block begin
    row_cells = np.repeat(num_references, num_hypotheses)
    first_reference = np.repeat(num_references.cumsum() - num_references, num_hypotheses)
    # for every cell: its hypothesis, and the place of its reference, which is as far behind the first reference of
    # the row as the cell is behind the first cell of the row
    h = np.repeat(hypotheses, row_cells)
    first_cell = row_cells.cumsum() - row_cells
    places = np.arange(len(h)) + np.repeat(first_reference - first_cell, row_cells)
    return h, references.take(places)


def hypothesis_rows(blocks: Sequence[Block]) -> tuple[IntArray, IntArray]:
    """Rows of every hypothesis of every block and of its source, [hypotheses] each."""
    num_hypotheses = [len(block.hypotheses) for block in blocks]
    hypotheses = np.concatenate([block.hypotheses for block in blocks])
    sources = np.repeat([block.source for block in blocks], num_hypotheses)
    return hypotheses, sources


def by_hypothesis(values: FloatArray, blocks: Sequence[Block]) -> list[FloatArray]:
    """Values [hypotheses] of all blocks one after the other as the column [H, 1] of each."""
    num_hypotheses = [len(block.hypotheses) for block in blocks]
    ends = np.cumsum(num_hypotheses)[:-1]
    return [part[:, None] for part in np.split(values, ends)]


def by_block(values: FloatArray, blocks: Sequence[Block]) -> list[FloatArray]:
    """Values [cells] of all blocks one after the other as the matrix [H, R] of each."""
    ends = np.cumsum([block.cells for block in blocks])[:-1]
    parts = np.split(values, ends)
    return [
        part.reshape(len(block.hypotheses), -1) for part, block in zip(parts, blocks, strict=True)
    ]


def best_cells(values: FloatArray, blocks: Sequence[Block]) -> IntArray:
    """The cell with the highest value of every one-hypothesis block, [blocks], among the cells of all of them."""
    best = []
    start = 0
    for matrix in by_block(values, blocks):
        best.append(start + int(matrix.argmax()))
        start += matrix.size
    return np.array(best, np.int64)


def _concat(columns: Sequence[Any]) -> Array | Ragged:
    if not isinstance(columns[0], Ragged):
        return np.concatenate(columns)
    lengths = np.concatenate([column.lengths for column in columns])
    values = np.concatenate([column.values for column in columns])
    return Ragged.of_lengths(values, lengths)
