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
        return cls(values, np.concatenate((np.zeros(1, np.int64), lengths.cumsum())))

    @classmethod
    def of_rows(cls, rows: Sequence[Array]) -> Self:
        """Joins rows of one dtype."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls.of_lengths(np.concatenate(rows) if rows else np.empty(0), lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Length of every row, [rows]."""
        return np.diff(self.offsets)

    def __getitem__(self, rows: IntArray) -> Self:
        lengths = self.lengths[rows]
        offsets = np.concatenate((np.zeros(1, np.int64), lengths.cumsum()))
        where = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return type(self)(self.values[where], offsets)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self.offsets.nbytes


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
        return (
            parts[0]
            if len(parts) == 1
            else Reps({n: _concat([p[n] for p in parts]) for n in parts[0].columns})
        )

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

    hypotheses: IntArray
    references: IntArray
    source: int = -1

    @property
    def square(self) -> bool:
        """Hypotheses and references are one array (MBR over its own candidates)."""
        return self.hypotheses is self.references

    @property
    def cells(self) -> int:
        """Values that `compare` returns for it."""
        return len(self.hypotheses) * max(1, len(self.references))


def turned(blocks: Sequence[Block]) -> list[bool]:
    """Whether each block is the one before it the other way round, rows as columns; a square one never is.

    A scorer of which some part is symmetric computes that once for both.
    """
    found = [False] * len(blocks)
    for i, (a, b) in enumerate(pairwise(blocks), 1):
        found[i] = (
            not (found[i - 1] or a.square or b.square)
            and a.source == b.source
            and np.array_equal(a.hypotheses, b.references)
            and np.array_equal(a.references, b.hypotheses)
        )
    return found


def cell_rows(blocks: Sequence[Block]) -> tuple[IntArray, IntArray]:
    """Rows of the hypothesis and of the reference of every cell of every block, [cells] each."""
    high = np.fromiter((len(block.hypotheses) for block in blocks), np.int64, len(blocks))
    wide = np.fromiter((len(block.references) for block in blocks), np.int64, len(blocks))
    each = np.repeat(wide, high)  # cells in the row of every hypothesis
    h = np.repeat(np.concatenate([block.hypotheses for block in blocks]), each)
    first = np.repeat(wide.cumsum() - wide, high)  # where its references begin
    place = np.arange(len(h)) + np.repeat(first - each.cumsum() + each, each)
    return h, np.concatenate([block.references for block in blocks]).take(place)


def by_block(values: FloatArray, blocks: Sequence[Block]) -> list[FloatArray]:
    """Values [cells] of all blocks one after the other as the matrix [H, R] of each."""
    ends = np.cumsum([block.cells for block in blocks])[:-1]
    return [
        u.reshape(len(b.hypotheses), -1)
        for u, b in zip(np.split(values, ends), blocks, strict=True)
    ]


def _concat(columns: Sequence[Any]) -> Array | Ragged:
    if not isinstance(columns[0], Ragged):
        return np.concatenate(columns)
    lengths = np.concatenate([column.lengths for column in columns])
    return Ragged.of_lengths(np.concatenate([column.values for column in columns]), lengths)
