"""Greedy matching against its definition in double precision, and the same bytes however pairs are put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.neural import bertscore as token_scorer
from discorank.metrics.neural.bertscore import best_matches
from discorank.metrics.representations import Block, FloatArray, Ragged

CPU = torch.device("cpu")
Matches = tuple[FloatArray, FloatArray]
LENGTHS = st.lists(
    st.integers(0, 40) | st.sampled_from([0, 1, 15, 16, 17, 32, 33]), min_size=1, max_size=14
)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def made(lengths: Sequence[int], seed: int, d: int = 32) -> tuple[Ragged, Ragged]:
    """Unit vectors and weights, of which a fifth is 0; of every fifth text all are."""
    r = np.random.default_rng(seed)
    vectors = r.normal(size=(sum(lengths), d)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = r.random(sum(lengths)).astype(np.float32) * (r.random(sum(lengths)) > 0.2)
    text = np.repeat(np.arange(len(lengths)), lengths)
    weights[text % 5 == 4] = 0
    sizes = np.array(lengths, np.int64)
    return Ragged.of_lengths(vectors, sizes), Ragged.of_lengths(weights.astype(np.float32), sizes)


def row(x: Ragged, i: int) -> FloatArray:
    return x.values[x.offsets[i] : x.offsets[i + 1]].astype(np.float64)


def plain(vectors: Ragged, weights: Ragged, h: int, r: int) -> tuple[float, float]:
    """P and R of one pair, from the equation."""
    cosines = row(vectors, h) @ row(vectors, r).T
    means = []
    for side, axis in ((h, 1), (r, 0)):
        weight = row(weights, side)
        nothing = not cosines.size or not weight.sum()
        means.append(0.0 if nothing else float(weight @ cosines.max(axis=axis) / weight.sum()))
    return means[0], means[1]


def same(matches: Matches, other: Matches) -> bool:
    return all(
        a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(matches, other, strict=True)
    )


def rows_of(n: int, seed: int) -> Block:
    """Rows in any order, against as many others or fewer, some of them the same."""
    r = np.random.default_rng(seed)
    return Block(r.integers(0, n, r.integers(1, n + 1)), r.integers(0, n, r.integers(1, n + 1)))


@given(LENGTHS, st.integers(0, 1000), st.booleans())
@settings(deadline=None, max_examples=8)
def test_is_the_equation(lengths: list[int], seed: int, square: bool) -> None:
    vectors, weights = made(lengths, seed)
    every = np.random.default_rng(seed).permutation(len(lengths))
    block = Block(every, every) if square else rows_of(len(lengths), seed)
    p, r = best_matches(CPU, vectors, weights, block)
    for i, h in enumerate(block.hypotheses.tolist()):
        for j, other in enumerate(block.references.tolist()):
            assert (p[i, j], r[i, j]) == pytest.approx(plain(vectors, weights, h, other), abs=1e-5)


@given(LENGTHS, st.integers(0, 1000), st.integers(1, 4))
@settings(deadline=None, max_examples=10)
def test_a_pair_has_the_same_bytes_in_every_block(
    lengths: list[int], seed: int, threads: int
) -> None:
    torch.set_num_threads(threads)
    vectors, weights = made(lengths, seed)
    every = np.arange(len(lengths))
    p, r = best_matches(CPU, vectors, weights, Block(every, every))
    assert p.tobytes() == r.T.tobytes()
    block = rows_of(len(lengths), seed)
    where = np.ix_(block.hypotheses, block.references)
    assert same(best_matches(CPU, vectors, weights, block), (p[where], r[where]))
    for i in range(len(every)):
        for j in {0, i, len(every) - 1}:
            alone = best_matches(CPU, vectors, weights, Block(every[[i]], every[[j]]))
            assert same(alone, (p[[i]][:, [j]], r[[i]][:, [j]]))


@given(LENGTHS, st.integers(0, 1000), st.tuples(st.integers(1, 100), st.integers(1, 100)))
@settings(deadline=None, max_examples=8)
def test_tiles_do_not_matter(lengths: list[int], seed: int, tile: tuple[int, int]) -> None:
    vectors, weights = made(lengths, seed)
    every = np.arange(len(lengths))
    for block in (Block(every, every), rows_of(len(lengths), seed)):
        whole = best_matches(CPU, vectors, weights, block)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(token_scorer, "CPU_TILE", tile)
            assert same(best_matches(CPU, vectors, weights, block), whole)


@pytest.mark.parametrize("threads", [1, 3])
def test_at_the_size_of_real_models(threads: int) -> None:
    torch.set_num_threads(threads)
    lengths = np.random.default_rng(0).integers(20, 70, 40).tolist()
    vectors, weights = made(lengths, 0, d=768)
    every = np.arange(len(lengths))
    p, r = best_matches(CPU, vectors, weights, Block(every, every))
    assert p.tobytes() == r.T.tobytes()
    for i, j in ((0, 0), (3, 31), (31, 3), (39, 12)):
        assert (p[i, j], r[i, j]) == pytest.approx(plain(vectors, weights, i, j), abs=1e-5)
        assert same(
            best_matches(CPU, vectors, weights, Block(every[[i]], every[[j]])),
            (p[[i]][:, [j]], r[[i]][:, [j]]),
        )
    columns = best_matches(CPU, vectors, weights, Block(every, every[5:6]))
    assert same(columns, (p[:, 5:6], r[:, 5:6]))
    assert same(best_matches(CPU, vectors, weights, Block(every[5:6], every)), (p[5:6], r[5:6]))


def test_texts_without_tokens_or_weights_are_0() -> None:
    vectors, weights = made([3, 0, 2, 0], 1)
    weights.values[:3] = 0
    every = np.arange(4)
    p, r = best_matches(CPU, vectors, weights, Block(every, every))
    assert (p[[0, 1, 3]] == 0).all()
    assert (p[2, [1, 3]] == 0).all()
    assert p[2, 0] == pytest.approx(plain(vectors, weights, 2, 0)[0], abs=1e-6) != 0
    assert p.tobytes() == r.T.tobytes()
    p, r = best_matches(CPU, vectors, weights, Block(every[1:2], every[3:]))
    assert p.tolist() == r.tolist() == [[0]]
