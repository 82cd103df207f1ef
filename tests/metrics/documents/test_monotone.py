"""Monotone alignment: as a plain recursion over all ways has it, whatever stands beside a pair."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.documents.aligned import BEADS, Bead, monotone
from discorank.metrics.representations import FloatArray, IntArray

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)
Gains = dict[Bead, FloatArray]
sizes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5)


def drawn(shapes: list[tuple[int, int]], seed: int) -> Gains:
    """Gains of pairs of these sizes; a fifth of the beads is forbidden."""
    height, width = (max(side) for side in zip(*shapes, strict=True))
    r = np.random.default_rng(seed)

    def gains(*shape: int) -> FloatArray:
        values = r.normal(size=(*shape, len(shapes)))
        return np.where(r.random(values.shape) < 0.2, -np.inf, values)

    return {
        (a, b): gains(height - a + 1, width - b + 1) for a, b in BEADS if a <= height and b <= width
    }


def gain(gains: Gains, p: int, i: int, j: int, a: int, b: int) -> float:
    """Of the bead that ends before row i and column j."""
    return float(gains[a, b][i - a, j - b, p])


def best_by_recursion(gains: Gains, p: int, rows: int, columns: int) -> float:
    @cache
    def best(i: int, j: int) -> float:
        if i == j == 0:
            return 0.0
        ways = [-np.inf]
        for a, b in BEADS:
            if a <= i and b <= j:
                ways.append(best(i - a, j - b) + gain(gains, p, i, j, a, b))
        return max(ways)

    return best(rows, columns)


def beads_of(beads: IntArray, p: int) -> list[tuple[int, ...]]:
    """(row, rows, column, columns) of a pair."""
    return [tuple(row[1:]) for row in beads.T.tolist() if row[0] == p]


@given(shapes=sizes, seed=st.integers(0, 10**6))
@BOUNDED
def test_values_are_those_of_a_plain_recursion(shapes: list[tuple[int, int]], seed: int) -> None:
    gains = drawn(shapes, seed)
    num_rows, num_columns = np.array(shapes).T
    paths = monotone(gains, num_rows, num_columns)
    beads = paths.beads()
    for p, (rows, columns) in enumerate(shapes):
        assert paths.values[p] == best_by_recursion(gains, p, rows, columns)
        # the beads follow one another to the end, and add up to the value
        i = j = 0
        total = 0.0
        for row, a, column, b in beads_of(beads, p):
            assert (row, column) == (i, j)
            i, j = i + a, j + b
            total += gain(gains, p, i, j, a, b)
        if np.isfinite(paths.values[p]):
            assert (i, j) == (rows, columns)
            assert total == paths.values[p]
        else:
            assert (i, j) == (0, 0)


@given(shapes=sizes, seed=st.integers(0, 10**6))
@BOUNDED
def test_a_pair_is_aligned_as_if_alone(shapes: list[tuple[int, int]], seed: int) -> None:
    gains = drawn(shapes, seed)
    num_rows, num_columns = np.array(shapes).T
    together = monotone(gains, num_rows, num_columns).values
    for p, (rows, columns) in enumerate(shapes):
        own = {
            (a, b): values[: rows - a + 1, : columns - b + 1, [p]]
            for (a, b), values in gains.items()
            if a <= rows and b <= columns
        }
        alone = monotone(own, num_rows[[p]], num_columns[[p]]).values
        assert alone.tobytes() == together[[p]].tobytes()


@pytest.mark.parametrize(
    ("better", "expected"),
    [
        ((1, 1), [(0, 1, 0, 1), (1, 1, 1, 1)]),
        ((2, 2), [(0, 2, 0, 2)]),
        ((1, 2), [(0, 1, 0, 2), (1, 1, 2, 0)]),
        ((2, 1), [(0, 2, 0, 1), (2, 0, 1, 1)]),
    ],
)
def test_worked_beads(better: Any, expected: list[tuple[int, ...]]) -> None:
    """Two sentences against two; one kind of bead is worth much where it can begin first."""
    gains = {(a, b): np.full((3 - a, 3 - b, 1), 0.0 if a and b else -0.5) for a, b in BEADS}
    gains[better][0, 0] = 5.0
    if better == (1, 1):
        gains[better][1, 1] = 5.0
    two = np.array([2])
    beads = monotone(gains, two, two).beads()
    assert beads_of(beads, 0) == expected
