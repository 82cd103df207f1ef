"""COMET's head over pairs against its definition in double precision, and the same bytes whatever shares a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.neural.comet import network as estimator
from discorank.metrics.neural.comet.network import Head, PairHead, product, source_features
from discorank.metrics.representations import Block, FloatArray

D, ROWS = 32, 24
SHAPES: list[tuple[int, ...]] = [(48, 24), (37,), (40, 7, 9)]
LISTS = st.lists(
    st.tuples(st.integers(1, 20), st.none() | st.integers(1, 20)), min_size=1, max_size=8
)
FINAL: Sequence[Callable[[Any], Any] | None] = [None, torch.nn.Sigmoid()]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@cache
def layers(into: int, hidden: tuple[int, ...]) -> list[tuple[Any, Any]]:
    torch.manual_seed(len(hidden))
    widths = (into, *hidden, 1)
    pairs = pairwise(widths)
    return [(torch.randn(out, into) * 2 * into**-0.5, torch.randn(out)) for into, out in pairs]


@cache
def vectors(n: int = ROWS, d: int = D) -> Any:
    torch.manual_seed(n)
    return torch.randn(n, d)


def head_of(
    hidden: tuple[int, ...], final: Callable[[Any], Any] | None = None, blocks: int = 6, d: int = D
) -> Head:
    return Head(layers(blocks * d, hidden), torch.Tensor.tanh_, final)


def plain(
    features: Sequence[Any], hidden: tuple[int, ...], final: Callable[[Any], Any] | None
) -> float:
    """The feed-forward network in double precision."""
    x = torch.cat(list(features))
    *inner, (weight, bias) = layers(len(x), hidden)
    for first, second in inner:
        x = (first.double() @ x + second).tanh()
    x = weight.double() @ x + bias
    return float(x if final is None else final(x))


def plain_pair(
    e: Any, i: int, j: int, k: int, hidden: tuple[int, ...], final: Callable[[Any], Any] | None
) -> float:
    h, r, s = (e[row].double() for row in (i, j, k))
    return plain((h, r, h * r, (h - r).abs(), h * s, (h - s).abs()), hidden, final)


def blocks_of(lists: Sequence[tuple[int, int | None]], seed: int) -> list[Block]:
    """Blocks of so many hypotheses, and as many references as said, or the hypotheses themselves."""
    r = np.random.default_rng(seed)
    blocks = []
    for high, wide in lists:
        h = r.permutation(ROWS)[:high]
        blocks.append(
            Block(h, h if wide is None else r.integers(0, ROWS, wide), int(r.integers(ROWS)))
        )
    return blocks


def compared(head: Head, e: Any, blocks: Sequence[Block]) -> list[FloatArray]:
    with torch.inference_mode():
        return PairHead(head).compare(e, blocks)


def same(values: Sequence[FloatArray], other: Sequence[FloatArray]) -> bool:
    return all(
        a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(values, other, strict=True)
    )


@given(LISTS, st.integers(0, 1000), st.sampled_from(SHAPES), st.sampled_from(FINAL))
@settings(deadline=None, max_examples=8)
def test_is_the_definition(
    lists: list[tuple[int, int | None]],
    seed: int,
    hidden: tuple[int, ...],
    final: Callable[[Any], Any] | None,
) -> None:
    blocks = blocks_of(lists, seed)
    matrices = compared(head_of(hidden, final), vectors(), blocks)
    r = np.random.default_rng(seed)
    for block, u in zip(blocks, matrices, strict=True):
        assert u.shape == (len(block.hypotheses), len(block.references))
        for i, j in {(int(r.integers(len(u))), int(r.integers(u.shape[1]))) for _ in range(6)}:
            rows = int(block.hypotheses[i]), int(block.references[j]), block.source
            assert u[i, j] == pytest.approx(plain_pair(vectors(), *rows, hidden, final), abs=1e-5)


@given(LISTS, st.integers(0, 1000), st.sampled_from(SHAPES), st.integers(1, 4))
@settings(deadline=None, max_examples=8)
def test_a_pair_has_the_same_bytes_in_every_call(
    lists: list[tuple[int, int | None]], seed: int, hidden: tuple[int, ...], threads: int
) -> None:
    torch.set_num_threads(threads)
    blocks, head = blocks_of(lists, seed), head_of(hidden)
    together = compared(head, vectors(), blocks)
    assert same([compared(head, vectors(), [block])[0] for block in blocks], together)
    assert same(compared(head, vectors(), blocks[::-1]), together[::-1])
    for block, u in zip(blocks, together, strict=True):
        columns = block.references.copy()  # no longer square
        assert same(compared(head, vectors(), [block._replace(references=columns)]), [u])
        i, j = seed % len(u), seed % u.shape[1]
        alone = Block(block.hypotheses[[i]], block.references[[j]], block.source)
        assert same(compared(head, vectors(), [alone]), [u[[i]][:, [j]]])
        turned = Block(block.hypotheses[::-1].copy(), block.references[::-1].copy(), block.source)
        assert same(compared(head, vectors(), [turned]), [np.ascontiguousarray(u[::-1, ::-1])])


@given(LISTS, st.integers(0, 1000), st.integers(1, 100))
@settings(deadline=None, max_examples=6)
def test_products_of_any_size_give_the_same_bytes(
    lists: list[tuple[int, int | None]], seed: int, pairs: int
) -> None:
    blocks, head = blocks_of(lists, seed), head_of((48, 24))
    whole = compared(head, vectors(), blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator, "CPU_PAIRS", pairs)
        assert same(compared(head, vectors(), blocks), whole)


@pytest.mark.parametrize("threads", [1, 3])
def test_at_the_size_of_real_models(threads: int) -> None:
    torch.set_num_threads(threads)
    hidden, e = (3072, 1024), vectors(20, 768)
    head, every = head_of(hidden, d=768), np.arange(19)
    (u,) = compared(head, e, [Block(every, every, 19)])
    for i, j in ((0, 0), (3, 11), (11, 3)):
        assert same(compared(head, e, [Block(every[[i]], every[[j]], 19)]), [u[[i]][:, [j]]])
    other = Block(every[2:], every[:1], 19)
    assert same(
        compared(head, e, [other, Block(every, every, 4)]),
        [u[2:, :1], *compared(head, e, [Block(every, every, 4)])],
    )
    assert u[3, 11] == pytest.approx(plain_pair(e, 3, 11, 19, hidden, None), abs=1e-5)


@given(st.integers(1, ROWS), st.sampled_from(SHAPES), st.sampled_from(FINAL), st.integers(1, 4))
@settings(deadline=None, max_examples=6)
def test_without_references(
    n: int, hidden: tuple[int, ...], final: Callable[[Any], Any] | None, threads: int
) -> None:
    torch.set_num_threads(threads)
    head, e, s = head_of(hidden, final, blocks=4), vectors(), vectors().flip(0)
    with torch.inference_mode():
        values = head.whole(source_features(e[:n], s[:n]))
        assert same([values], [head.whole(source_features(e, s))[:n]])
    h, source = e[n - 1].double(), s[n - 1].double()
    value = plain((h, source, h * source, (h - source).abs()), hidden, final)
    assert values[-1] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17])
def test_product_has_as_many_rows_as_it_got(n: int) -> None:
    x, weight = vectors()[:n], layers(6 * D, (48, 24))[0][0][:, :D]
    bias = torch.arange(48.0)
    assert product(x, weight).shape == (n, 48)
    assert torch.allclose(product(x, weight), x @ weight.T, atol=1e-5)
    assert torch.allclose(product(x, weight, bias), x @ weight.T + bias, atol=1e-5)
