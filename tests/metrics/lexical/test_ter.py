"""TER beside the table of cases: blocks that move, and Tercom's limits."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import ter as sacrebleu

from discorank.metrics.lexical.ter import TER


def peer(hypotheses: list[str], references: list[str]) -> np.ndarray:
    metric = sacrebleu.TER()
    return np.array([[metric.sentence_score(h, [r]).score for r in references] for h in hypotheses])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefghijkl"), min_size=8, max_size=40),
    st.randoms(use_true_random=False),
)
def test_equals_sacrebleu_on_moved_blocks(base: list[str], chance: random.Random) -> None:
    texts = [" ".join(moved(base, chance)) for _ in range(3)]
    np.testing.assert_allclose(TER().pairwise(texts, texts), -peer(texts, texts), atol=1e-9)


def moved(base: list[str], chance: random.Random) -> list[str]:
    out = list(base)
    for _ in range(chance.randint(0, 3)):
        start, size, target = (
            chance.randrange(len(out)),
            chance.randint(1, 12),
            chance.randrange(len(out)),
        )
        block, out = out[start : start + size], out[:start] + out[start + size :]
        out[target:target] = block
    return out


@pytest.mark.parametrize(
    ("lengths", "vocabulary"),
    [
        ((90, 80), 200),  # farther apart than the beam
        ((1, 3, 30, 200), 8),  # a reference so long that the beam widens
        ((26, 25, 24, 70), 40),
        ((55, 60), 2),  # more shifts than are tried
        ((70, 130, 400), 900),  # more words than a byte counts
    ],
)
def test_equals_sacrebleu_at_the_limits(lengths: tuple[int, ...], vocabulary: int) -> None:
    chance = random.Random(7)
    texts = [" ".join(str(chance.randrange(vocabulary)) for _ in range(n)) for n in lengths]
    np.testing.assert_allclose(TER().pairwise(texts, texts), -peer(texts, texts), atol=1e-9)


def test_a_shift_reaches_over_fifty_words_and_no_farther() -> None:
    tail = [f"w{i}" for i in range(60)]
    texts = [" ".join([*tail[:n], "x", "y", *tail[n:]]) for n in (0, 48, 50, 51, 60)]
    u = TER().pairwise(texts, texts)
    np.testing.assert_allclose(u, -peer(texts, texts), atol=1e-9)
    np.testing.assert_allclose(u[0] * -0.62, [0, 1, 1, 4, 4], atol=1e-9)


@pytest.mark.parametrize(("size", "edits"), [(10, 1), (20, 2), (21, 3)])
def test_a_shift_moves_ten_words_at_most(size: int, edits: int) -> None:
    block, rest = [f"b{i}" for i in range(size)], [f"r{i}" for i in range(30)]
    score = TER().score([" ".join(block + rest)], [" ".join(rest + block)])
    assert score == [100 * (edits / (size + 30))]
