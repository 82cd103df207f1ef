"""Drawing from a vocabulary: the fast ways draw the tokens of the plain one, whatever the logits and the chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.integrations.huggingface import sampling
from discorank.integrations.huggingface.sampling import (
    drawing,
    drawn,
    drawn_above,
    drawn_by_blocks,
    drawn_plainly,
    warpers,
)

torch = pytest.importorskip("torch")

EPSILONS = (None, 0.02, 0.3, 3e-4)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any]:
    """Logits [rows, vocabulary] with ties, spikes and impossible tokens, and chance [rows] with its extremes."""
    rows = draw(st.integers(1, 5))
    vocabulary = draw(st.sampled_from([1, 2, 7, 511, 512, 513, 1024, 3001]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = rng.normal(size=(rows, vocabulary)) * draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    logits = logits.round(draw(st.sampled_from([0, 1, 6])))
    possible = rng.random(logits.shape) >= draw(st.sampled_from([0.0, 0.5, 0.99]))
    possible[:, rng.integers(vocabulary)] = True
    logits = np.where(possible, logits, -math.inf).astype(np.float32)
    extremes = np.array([0.0, 5e-324, 0.5, 1 - 2**-53])
    chance = np.where(rng.random(rows) < 0.3, rng.choice(extremes, rows), rng.random(rows))
    return torch.from_numpy(logits), torch.from_numpy(chance)


@bounded(max_examples=300, deadline=None, database=None)
@given(problems(), st.sampled_from(EPSILONS))
def test_the_same_tokens_as_the_plain_way(problem: tuple[Any, Any], epsilon: float | None) -> None:
    logits, chance = problem
    expected = drawn_plainly(logits, chance, epsilon)
    assert drawn(logits, chance, epsilon).tolist() == expected.tolist()
    assert bool((logits.gather(1, expected[:, None]) > -math.inf).all())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_same_tokens_where_chance_stands_on_a_border(epsilon: float | None) -> None:
    torch.manual_seed(0)
    row = torch.randn(1, 700) * 2
    cut = row
    for warper in warpers("epsilon", epsilon, 1.0):
        cut = warper(None, cut)
    cumulated = cut.double().softmax(dim=1).cumsum(dim=1)[0]
    for border in (cumulated, torch.nextafter(cumulated, torch.zeros(()).double())):
        chance = border.clamp(max=1 - 2**-53)
        logits = row.expand(len(chance), -1)
        expected = drawn_plainly(logits, chance, epsilon)
        assert drawn(logits, chance, epsilon).tolist() == expected.tolist()


def test_a_token_at_the_threshold_is_left_to_the_plain_way() -> None:
    # probabilities of .02 and of .02 less or more than float32 can tell
    level = math.log(0.02 / 0.98)
    for shift in (0.0, 1e-7, -1e-7, 1e-4, -1e-4):
        logits = torch.tensor([[0.0, level + shift]])
        chance = torch.tensor([0.995], dtype=torch.float64)
        assert drawn_above(logits, chance, 0.02).tolist() == [-1]
        assert torch.equal(drawn(logits, chance, 0.02), drawn_plainly(logits, chance, 0.02))


def test_the_fast_ways_are_seldom_unsure() -> None:
    torch.manual_seed(0)
    logits = torch.randn(400, 5000) * 3
    chance = torch.rand(400, dtype=torch.float64)
    assert int((drawn_by_blocks(logits, chance) < 0).sum()) <= 4
    assert int((drawn_above(logits, chance, 0.02) < 0).sum()) <= 40


def test_what_is_no_number_is_as_in_the_plain_way() -> None:
    for value in (math.nan, math.inf):
        logits = torch.zeros(2, 600)
        logits[1, 3] = value
        chance = torch.tensor([0.3, 0.3], dtype=torch.float64)
        for epsilon in EPSILONS:
            expected = drawn_plainly(logits, chance, epsilon)
            assert drawn(logits, chance, epsilon).tolist() == expected.tolist()


@pytest.mark.parametrize("method", ["epsilon", "nucleus", "typical", "ancestral"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_processor_draws_behind_every_cut(method: Any, temperature: float) -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 900) * 3
    chance = np.random.default_rng(0).random((6, 3))
    cuts = warpers(method, sampling.CUTOFFS[method], temperature)
    draws = drawing(chance, cuts)
    for step in range(3):
        cut = logits
        for warper in cuts:
            cut = warper(None, cut)
        expected = drawn_plainly(cut, torch.from_numpy(chance[:, step].copy()))
        scores = draws(None, logits)
        assert scores.argmax(dim=1).tolist() == expected.tolist()
        assert (scores > -math.inf).sum(dim=1).tolist() == [1] * 6
