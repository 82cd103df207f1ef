"""A matrix of values [H, R] in tiles, each some hypotheses against some references.

A large matrix need not be whole anywhere: its tiles are compared one after the other, here or on several workers, and
each can be reduced at once. So that sums of its rows do not depend on tiles, columns are cut only where numpy's own
pairwise summation halves a row: the sum of a range of columns is that of its two halves, and so is added up again.
Tiles beside the diagonal of a square matrix come with the same ones transposed, which share some or all of the work. It
knows neither scorers nor weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, sqrt
from typing import NamedTuple

# The most hypotheses and references of a tile of a large matrix: what is counted of them stays in the cache.
WIDEST = 720
UNCUT = 128  # so many numbers are summed up in one go
ROWS = 16  # a matrix that is not large is cut into multiples of this number of rows
Range = tuple[int, int]  # from, to


class Tile(NamedTuple):
    """A part of a list's matrix: rows from `top` to `bottom`, columns from `left` to `right`."""

    place: int  # which of some lists
    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> range:
        """Its rows."""
        return range(self.top, self.bottom)

    @property
    def columns(self) -> range:
        """Its columns."""
        return range(self.left, self.right)

    def is_transposed(self, other: Tile) -> bool:
        """Whether this is another tile of the same list with rows as columns."""
        return self == (other.place, other.left, other.right, other.top, other.bottom)


def is_large(num_rows: int, num_columns: int) -> bool:
    """Whether a matrix is compared in tiles even by one process."""
    return num_rows * num_columns > WIDEST**2


def middle(left: int, right: int) -> int:
    """Where a range of more than `UNCUT` columns is halved, as in numpy's pairwise summation."""
    half = (right - left) // 2
    return left + half - half % 8


def halved(length: int, count: int = 1) -> list[Range]:
    """All columns in at least `count` ranges (if that is possible) of at most `WIDEST`, by halving the widest ones."""
    ranges = [(0, length)]
    while True:
        widths = [right - left for left, right in ranges]
        widest = max(widths)
        if widest <= UNCUT or (widest <= WIDEST and len(ranges) >= count):
            return ranges
        i = widths.index(widest)
        left, right = ranges[i]
        cut = middle(left, right)
        ranges[i : i + 1] = [(left, cut), (cut, right)]


def tiles_of(
    place: int, num_rows: int, num_columns: int, is_square: bool, count: int = 1
) -> Iterator[list[Tile]]:
    """All tiles of a list's matrix, in `count` steps or more as far as possible; a large one is cut in any case.

    Args:
        place: which list it is.
        num_rows: hypotheses.
        num_columns: references; one where there is none.
        is_square: whether hypotheses and references are the same.
        count: into how many steps to cut it.
    """
    large = is_large(num_rows, num_columns)
    if is_square:
        # n ranges give n (n + 1) / 2 steps; the smallest n with `count` of them or more
        num_ranges = ceil((sqrt(8 * count + 1) - 1) / 2)
        ranges = halved(num_rows, num_ranges) if large else _even(num_rows, num_ranges)
        if len(ranges) >= num_ranges or not large:
            yield from _triangle(place, ranges)
            return
    columns = halved(num_columns) if large else [(0, num_columns)]
    widest = max(right - left for left, right in columns)
    num_ranges = ceil(count / len(columns))
    if large:
        num_ranges = max(num_ranges, ceil(num_rows * widest / WIDEST**2))
    for rows in _even(num_rows, num_ranges):
        for column_range in columns:
            yield [Tile(place, *rows, *column_range)]


def _triangle(place: int, ranges: Sequence[Range]) -> Iterator[list[Tile]]:
    """A square matrix cut both ways, a tile beside the diagonal with the same one transposed."""
    for i, rows in enumerate(ranges):
        for columns in ranges[i + 1 :]:
            yield [Tile(place, *rows, *columns), Tile(place, *columns, *rows)]
    for rows in ranges:
        yield [Tile(place, *rows, *rows)]


def _even(num_rows: int, count: int) -> list[Range]:
    """At most `count` ranges of multiples of `ROWS` that cover all rows."""
    size = ceil(num_rows / count / ROWS) * ROWS
    return [(top, min(top + size, num_rows)) for top in range(0, num_rows, size)]


def with_their_transposed(tiles: Sequence[Tile]) -> Iterator[list[Tile]]:
    """The tiles in order, each with the one after it if that is the same one transposed."""
    i = 0
    while i < len(tiles):
        size = 2 if i + 1 < len(tiles) and tiles[i + 1].is_transposed(tiles[i]) else 1
        if tiles[i].top == tiles[i].left:  # on the diagonal
            size = 1
        yield list(tiles[i : i + size])
        i += size
