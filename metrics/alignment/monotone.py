"""Monotone alignment: the best way through two texts in beads of 1-1, 1-2, 2-1, 2-2, 1-0 and 0-1 units.

    D(i, j) = max over beads (a, b) of D(i - a, j - b) + gain(i - a .. i, j - b .. j),   D(0, 0) = 0

after Gale and Church (1993), with gains in place of their costs. Many pairs of texts are aligned at once, one
anti-diagonal i + j after the other: a step works on [cells of the anti-diagonal, P] numbers. A pair's result depends on
its own gains alone, to the last bit. Of equally good beads the first in the order of `BEADS` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import FloatArray, IntArray

Bead = tuple[int, int]  # how many units of the rows' text, and of the columns'
BEADS: tuple[Bead, ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 0), (0, 1))
LONGEST = 2  # units of one side of a bead


class Gains(NamedTuple):
    """What every bead of P pairs of texts adds; texts shorter than N or M units are filled up with anything.

    A gain of -inf forbids a bead; beads that `matched` lacks are forbidden too.
    """

    # (a, b): [N - a + 1, M - b + 1, P], from row i and column j on
    matched: Mapping[Bead, FloatArray]
    rows: FloatArray  # [N, P], of a row's unit alone
    columns: FloatArray  # [M, P], of a column's unit alone


class Beads(NamedTuple):
    """Beads of many pairs, those of a pair one after the other in the order of the texts."""

    pair: IntArray  # [beads]
    row: IntArray  # [beads], its first unit
    rows: IntArray  # [beads], how many: 0, 1 or 2
    column: IntArray
    columns: IntArray


class Paths(NamedTuple):
    """The best way through every pair."""

    values: FloatArray  # [P], summed gains; -inf where every way is forbidden
    chosen: NDArray[np.int8]  # [N + 1, M + 1, P], the bead that ends there; -1 for none
    num_rows: IntArray  # [P]
    num_columns: IntArray  # [P]

    def beads(self) -> Beads:
        """The beads of all pairs; none of a pair whose every way is forbidden."""
        shapes = np.array(BEADS)
        pair = np.arange(len(self.values))
        i, j = self.num_rows.copy(), self.num_columns.copy()
        steps = []
        while len(pair):
            bead = self.chosen[i, j, pair]
            on_way = bead >= 0
            pair, i, j, bead = pair[on_way], i[on_way], j[on_way], bead[on_way]
            rows, columns = shapes[bead].T.reshape(2, -1)
            i, j = i - rows, j - columns
            steps.append(np.stack([pair, i, rows, j, columns]))
        taken = np.concatenate(steps, axis=1) if steps else np.empty((5, 0), np.int64)
        pair, row, _, column, _ = taken
        order = np.lexsort((column, row, pair))
        return Beads(*taken[:, order])


def monotone(gains: Gains, num_rows: IntArray, num_columns: IntArray) -> Paths:
    """The best way through P pairs of texts.

    Args:
        gains: what beads add.
        num_rows: units of the rows' text of every pair, [P].
        num_columns: units of the columns' text of every pair, [P].
    """
    (height, num_pairs), width = gains.rows.shape, len(gains.columns)
    # D(i, j) stands at [i + 2, j + 2]: beads that would begin before the texts find -inf
    best = np.full((height + 1 + LONGEST, width + 1 + LONGEST, num_pairs), -np.inf)
    best[LONGEST, LONGEST] = 0.0
    chosen = np.full((height + 1, width + 1, num_pairs), -1, np.int8)
    for diagonal in range(1, height + width + 1):
        _diagonal(gains, best, chosen, diagonal)
    ends = num_rows + LONGEST, num_columns + LONGEST, np.arange(num_pairs)
    return Paths(best[ends], chosen, num_rows, num_columns)


def _diagonal(gains: Gains, best: FloatArray, chosen: NDArray[np.int8], diagonal: int) -> None:
    """Fills in the cells with i + j = `diagonal`."""
    height, width = len(gains.rows), len(gains.columns)
    for number, (a, b) in enumerate(BEADS):
        # the cells in which the bead can end
        i = np.arange(max(a, diagonal - width), min(height, diagonal - b) + 1)
        j = diagonal - i
        gain = _gain(gains, (a, b), i, j)
        if gain is None or not len(i):
            continue
        cells = i + LONGEST, j + LONGEST
        known, reached = best[cells], best[i + LONGEST - a, j + LONGEST - b] + gain
        better = reached > known
        best[cells] = np.where(better, reached, known)
        chosen[i, j] = np.where(better, np.int8(number), chosen[i, j])


def _gain(gains: Gains, bead: Bead, i: IntArray, j: IntArray) -> FloatArray | None:
    """The gains of the beads that end in some cells, [cells, P]; None where the bead is forbidden."""
    if bead == (1, 0):
        return gains.rows[i - 1]
    if bead == (0, 1):
        return gains.columns[j - 1]
    if bead not in gains.matched:
        return None
    return np.asarray(gains.matched[bead][i - bead[0], j - bead[1]])
