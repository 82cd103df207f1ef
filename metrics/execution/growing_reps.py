"""Representations that rows are added to without copying those that are there.

The arrays of all columns have room behind their rows, half as much again whenever they move, so that n rows that come
one by one are copied O(n) times together. What was read from `reps` before rows came is as it was.
"""

from __future__ import annotations

import numpy as np

from ..representations import Array, Ragged, Reps


class GrowingReps:
    """Representations in arrays with room; `reps` has the rows so far.

    Args:
        reps: the first rows; their arrays are kept as they are.
    """

    def __init__(self, reps: Reps) -> None:
        self.reps = reps
        self._rooms = {name: Room(array) for name, array in reps.arrays()}

    @property
    def nbytes(self) -> int:
        """Bytes held, the room that is free among them."""
        return sum(room.array.nbytes for room in self._rooms.values())

    def add(self, more: Reps) -> None:
        """Adds rows of the same columns; all of them, or none where that fails."""
        columns: dict[str, Array | Ragged] = {}
        for name, column in self.reps.columns.items():
            new = more.columns[name]
            if isinstance(column, Ragged) and isinstance(new, Ragged):
                columns[name] = self._longer(name, column, new)
            else:
                columns[name] = self._rooms[name].extended(len(column), np.asarray(new))
        self.reps = Reps(columns)

    def _longer(self, name: str, column: Ragged, new: Ragged) -> Ragged:
        """A ragged column and the rows behind it."""
        num_values = len(column.values)
        ends = num_values + new.lengths.cumsum()
        values = self._rooms[f"{name}.values"].extended(num_values, new.values)
        offsets = self._rooms[f"{name}.offsets"].extended(len(column.offsets), ends)
        return Ragged(values, offsets)


class Room:
    """An array of which only the first rows may be in use."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def extended(self, used: int, new: Array) -> Array:
        """The rows in use and the new ones behind them, [used + new, ...]; errors as `np.concatenate`."""
        array, size = self.array, used + len(new)
        fits = (
            size <= len(array)
            and new.shape[1:] == array.shape[1:]
            and np.result_type(new.dtype, array.dtype) == array.dtype
        )
        if not fits:
            both = np.concatenate((array[:used], new))
            self.array = array = np.empty((size + size // 2, *both.shape[1:]), both.dtype)
            array[:size] = both
        elif len(new):
            array[used:size] = new
        return array[:size]
