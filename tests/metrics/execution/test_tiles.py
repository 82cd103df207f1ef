"""Tiles of large matrices: they cover every cell once, and neither values nor sums depend on them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.execution import evaluate as tiling
from discorank.metrics.execution.evaluate import (
    UNCUT,
    Tile,
    halved,
    is_large,
    matrices,
    tiles_of,
    with_their_transposed,
)
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Context
from discorank.rerank.engines.expectation import (
    TiledSums,
    expected_of_sums,
    expected_utility,
    weighted_sums,
)

from ...support.lists import WORDS

SMALL = 150  # side of tiles in tests


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "WIDEST", SMALL)


@given(length=st.integers(1, 10_000), count=st.integers(1, 40), widest=st.integers(UNCUT, 2000))
@bounded(max_examples=50, deadline=None)
def test_ranges_cover_all_columns(length: int, count: int, widest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiling, "WIDEST", widest)
        ranges = halved(length, count)
    assert [column for left, right in ranges for column in range(left, right)] == [*range(length)]
    assert max(right - left for left, right in ranges) <= widest


@given(
    rows=st.integers(1, 700),
    columns=st.integers(1, 700),
    is_square=st.booleans(),
    count=st.integers(1, 60),
)
@bounded(max_examples=50, deadline=None)
def test_every_cell_is_in_one_tile(rows: int, columns: int, is_square: bool, count: int) -> None:
    columns = rows if is_square else columns
    cells = np.zeros((rows, columns), np.int64)
    tiles = [tile for step in tiles_of(7, rows, columns, is_square, count) for tile in step]
    for tile in tiles:
        assert tile.place == 7
        cells[tile.top : tile.bottom, tile.left : tile.right] += 1
    assert (cells == 1).all()
    if is_large(rows, columns):
        assert all(
            (tile.bottom - tile.top) * (tile.right - tile.left) <= 1.5 * SMALL**2 for tile in tiles
        )
    assert [tile for step in with_their_transposed(tiles) for tile in step] == tiles


def test_turned_tiles_stay_together() -> None:
    tiles = [Tile(0, 0, 5, 5, 9), Tile(0, 5, 9, 0, 5), Tile(0, 0, 5, 0, 5), Tile(0, 5, 9, 5, 9)]
    assert [len(step) for step in with_their_transposed(tiles)] == [2, 1, 1]


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 500),
    columns=st.integers(1, 900),
    is_square=st.booleans(),
    count=st.integers(1, 30),
    own=st.booleans(),
    special=st.booleans(),
)
@bounded(max_examples=25, deadline=None)
def test_sums_of_tiles_are_those_of_the_whole_to_the_last_bit(
    seed: int, rows: int, columns: int, is_square: bool, count: int, own: bool, special: bool
) -> None:
    """Numpy's own sum of the weighted matrix is the anchor, and no value is rounded the same way twice."""
    random = np.random.default_rng(seed)
    columns = rows if is_square else columns
    matrix = np.exp(random.normal(size=(rows, columns), scale=6))
    weights = random.random(columns) * (random.random(columns) > 0.1) + 1e-3 * (columns == 1)
    own_weights = weights * random.random(columns) if own and is_square else None
    if special:
        matrix[random.random(matrix.shape) > 0.999] = np.nan
        matrix[random.random(matrix.shape) > 0.999] = np.inf
    sums = TiledSums(rows, columns)
    for step in tiles_of(0, rows, columns, is_square, count if is_large(rows, columns) else 1):
        for tile in step:
            values = matrix[tile.top : tile.bottom, tile.left : tile.right]
            sums.add(tile, weighted_sums(values, weights, own_weights, tile.top, tile.left))
    expected = expected_of_sums(sums.whole(), weights, own_weights)
    assert expected.tobytes() == _at_once(matrix, weights, own_weights).tobytes()
    whole = expected_utility(matrix, weights, own_weights)
    assert whole.tobytes() == expected.tobytes()


def _at_once(matrix: FloatArray, weights: FloatArray, own: FloatArray | None) -> FloatArray:
    """The definition, without tiles."""
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.where(weights > 0, matrix, 0.0) * weights
        total = weights.sum()
        if own is None:
            return np.asarray(weighted.sum(axis=1) / total)
        rest = weights - own
        np.fill_diagonal(weighted, np.where(rest > 0, np.diagonal(matrix), 0.0) * rest)
        has_weight = total - own > 1e-9 * total
        return np.where(
            has_weight, weighted.sum(axis=1) / np.where(has_weight, total - own, 1.0), np.nan
        )


@pytest.mark.parametrize("name", ["chrf++", "bleu", "rouge-l"])
@pytest.mark.parametrize("is_square", [True, False])
def test_tiles_have_the_values_of_the_whole(
    name: str, is_square: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = random.Random(1)
    texts = [" ".join(r.choices(WORDS, k=r.randint(0, 9))) for _ in range(400)]
    texts = list(dict.fromkeys(texts))[:320]
    metric = load_metric(name).parts[0][1]
    references = texts if is_square else [*texts[:200], *texts[:13]]
    comparison = metric.comparison(texts, references, None, Context())
    assert is_large(len(texts), len(references))
    (tiled,) = matrices(metric, [comparison])
    monkeypatch.setattr(tiling, "WIDEST", 1 << 20)
    (whole,) = matrices(metric, [comparison])
    assert tiled.tobytes() == whole.tobytes()
