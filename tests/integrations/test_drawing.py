"""Drawing from a vocabulary: the fast ways draw the tokens of the plain one, whatever the logits and the chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.integrations.huggingface.sampling import (
    CUTOFFS,
    FLOAT_SLACK,
    cut_plainly,
    drawing,
    drawn,
    drawn_plainly,
    drawn_surely,
)

torch = pytest.importorskip("torch")

WAYS: list[tuple[Any, float | None]] = [
    ("ancestral", None),
    *(("epsilon", cutoff) for cutoff in (0.02, 0.3, 3e-4)),
    *(("nucleus", cutoff) for cutoff in (0.9, 0.5, 0.05, 0.999)),
    *(("typical", cutoff) for cutoff in (0.9, 0.2, 0.99)),
]
EXTREME_WAYS: list[tuple[Any, float | None]] = [
    ("epsilon", 1e-9),
    ("epsilon", 1 - 1e-9),
    *(("nucleus", cutoff) for cutoff in (1.0, 1 - 1e-12, 1e-12, 5e-324)),
    *(("typical", cutoff) for cutoff in (1.0, 1 - 1e-12, 1e-12, 5e-324)),
]
VOCABULARIES = [1, 2, 7, 127, 128, 129, 511, 512, 513, 1024, 3001]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any]:
    """Logits [rows, vocabulary] with ties, spikes and impossible tokens, and chance [rows] with its extremes."""
    rows = draw(st.integers(1, 5))
    vocabulary = draw(st.sampled_from(VOCABULARIES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = rng.normal(size=(rows, vocabulary)) * draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    logits = logits.round(draw(st.sampled_from([0, 1, 6])))
    # far from 0, as of models that do not centre their logits, up to what float32 holds
    logits = logits * draw(st.sampled_from([1.0, 1.0, 1.0, 1e6, 1e36]))
    logits = (logits + draw(st.sampled_from([0.0, 0.0, 1e4, -3e38]))).clip(-3.3e38, 3.3e38)
    possible = rng.random(logits.shape) >= draw(st.sampled_from([0.0, 0.5, 0.99]))
    possible[:, rng.integers(vocabulary)] = True
    logits = np.where(possible, logits, -math.inf).astype(np.float32)
    extremes = np.array([0.0, 5e-324, 0.5, 1 - 2**-53])
    chance = np.where(rng.random(rows) < 0.3, rng.choice(extremes, rows), rng.random(rows))
    dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    scores = torch.from_numpy(logits)
    if dtype == torch.float16:
        scores = scores.clamp(min=-6e4, max=6e4).masked_fill(scores == -math.inf, -math.inf)
    return scores.to(dtype), torch.from_numpy(chance)


@bounded(max_examples=150, deadline=None, database=None)
@given(problems(), st.sampled_from([*WAYS, *WAYS, *EXTREME_WAYS]))
def test_the_same_tokens_as_the_plain_way(problem: tuple[Any, Any], way: Any) -> None:
    logits, chance = problem
    before = logits.clone()
    expected = drawn_plainly(logits, chance, *way)
    assert drawn(logits, chance, *way).tolist() == expected.tolist()
    assert bool((logits.gather(1, expected[:, None]) > -math.inf).all())
    assert torch.equal(logits, before)


def test_logits_of_bfloat16_stand_for_themselves() -> None:
    torch.manual_seed(0)
    logits = (torch.randn(50, 3000) * 3).bfloat16()
    chance = torch.rand(50, dtype=torch.float64)
    for way in WAYS:
        expected = drawn_plainly(logits.float(), chance, *way).tolist()
        assert drawn_plainly(logits, chance, *way).tolist() == expected
        assert drawn(logits, chance, *way).tolist() == expected


@pytest.mark.parametrize("way", [("nucleus", 0.9), ("typical", 0.9), ("epsilon", 1e-4)])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0])
def test_the_same_tokens_where_many_are_kept(way: Any, scale: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 40_003) * scale
    chance = torch.rand(4, dtype=torch.float64)
    expected = drawn_plainly(logits, chance, *way)
    assert drawn(logits, chance, *way).tolist() == expected.tolist()


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_tokens_over_a_larger_vocabulary(way: Any, rounded: bool) -> None:
    torch.manual_seed(0)
    for scale in (1.0, 2.0, 4.0):
        logits = torch.randn(8, 20_000) * scale
        if rounded:  # as models have them that compute so: many are equal
            logits = logits.bfloat16().float()
        chance = torch.rand(8, dtype=torch.float64)
        expected = drawn_plainly(logits, chance, *way)
        assert drawn(logits, chance, *way).tolist() == expected.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_the_same_tokens_where_chance_stands_on_a_border(way: Any) -> None:
    torch.manual_seed(0)
    row = torch.randn(1, 700) * 2
    cumulated = cut_plainly(row, *way).double().softmax(dim=1).cumsum(dim=1)[0]
    for border in (cumulated, torch.nextafter(cumulated, torch.zeros(()).double())):
        chance = border.clamp(max=1 - 2**-53)
        logits = row.expand(len(chance), -1)
        expected = drawn_plainly(logits, chance, *way)
        assert drawn(logits, chance, *way).tolist() == expected.tolist()


@pytest.mark.parametrize("method", ["nucleus", "typical"])
def test_the_same_tokens_where_the_cutoff_stands_on_a_border(method: Any) -> None:
    torch.manual_seed(0)
    row = torch.randn(1, 700) * 2
    probabilities = row.double().softmax(dim=1)
    key = row if method == "nucleus" else -(row - (probabilities * row).sum()).abs()
    order = key.sort(descending=True, stable=True).indices
    chance = torch.rand(9, dtype=torch.float64)
    logits = row.expand(9, -1)
    for cutoff in probabilities.gather(1, order).cumsum(dim=1)[0, :600:23].tolist():
        for near in (cutoff, cutoff - 1e-12, cutoff + 1e-12, cutoff - 1e-6, cutoff + 1e-6):
            expected = drawn_plainly(logits, chance, method, near)
            assert drawn(logits, chance, method, near).tolist() == expected.tolist()


def test_a_token_at_the_threshold_is_left_to_the_plain_way() -> None:
    # probabilities of .02 and of .02 less or more than float32 can tell
    level = math.log(0.02 / 0.98)
    for shift in (0.0, 1e-7, -1e-7, 1e-4, -1e-4):
        logits = torch.tensor([[0.0, level + shift]])
        chance = torch.tensor([0.995], dtype=torch.float64)
        assert drawn_surely(logits, chance, "epsilon", 0.02).tolist() == [-1]
        expected = drawn_plainly(logits, chance, "epsilon", 0.02)
        assert torch.equal(drawn(logits, chance, "epsilon", 0.02), expected)


@pytest.mark.parametrize(
    ("cutoff", "kept"), [(0.2, [0]), (0.3, [0, 1]), (0.6, [0, 1, 2]), (0.8, [0, 1, 2, 3])]
)
def test_of_equally_probable_tokens_a_nucleus_has_those_of_lower_ids(
    cutoff: float, kept: list[int]
) -> None:
    logits = torch.zeros(400, 4)
    chance = torch.linspace(0, 1 - 1e-9, 400, dtype=torch.float64)
    assert sorted(set(drawn(logits, chance, "nucleus", cutoff).tolist())) == kept


def test_typical_tokens_leave_out_what_is_too_probable() -> None:
    # of .5 and 50 of .01: the entropy is 2.65, log .01 = -4.61, log .5 = -.69: the single token is further from it
    logits = torch.log(torch.tensor([[0.41] + [0.59 / 20] * 20]))
    chance = torch.linspace(0, 1 - 1e-9, 200, dtype=torch.float64)
    tokens = drawn(logits.expand(200, -1), chance, "typical", 0.5)
    assert sorted(set(tokens.tolist())) == list(range(1, 21))


@pytest.mark.parametrize(
    ("method", "most_unsure"), [("ancestral", 8), ("epsilon", 40), ("nucleus", 8), ("typical", 8)]
)
def test_the_fast_way_is_seldom_unsure(method: Any, most_unsure: int) -> None:
    torch.manual_seed(0)
    logits = torch.randn(400, 5000) * 3
    chance = torch.rand(400, dtype=torch.float64)
    tokens = drawn_surely(logits, chance, method, CUTOFFS[method])
    assert int((tokens < 0).sum()) <= most_unsure


@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0, 20.0])
def test_float32_is_as_exact_as_is_counted_on(scale: float) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(8, 50_048) * scale).view(8, -1, 128)
    sums = []
    for each in (logits, logits.double()):
        shares = each.flatten(1).softmax(dim=1).view(each.shape)
        cumulated = shares.sum(dim=2).double().cumsum(dim=1)
        sums.append(cumulated / cumulated[:, -1:])  # a factor of a whole row does not matter
    assert float((sums[0] - sums[1]).abs().max()) < FLOAT_SLACK / 4


def test_what_is_no_number_is_as_in_the_plain_way() -> None:
    for value in (math.nan, math.inf):
        logits = torch.zeros(2, 600)
        logits[1, 3] = value
        chance = torch.tensor([0.3, 0.3], dtype=torch.float64)
        for way in WAYS:
            expected = drawn_plainly(logits, chance, *way)
            assert drawn(logits, chance, *way).tolist() == expected.tolist()


WARPERS = {
    "epsilon": "EpsilonLogitsWarper",
    "nucleus": "TopPLogitsWarper",
    "typical": "TypicalLogitsWarper",
}


@pytest.mark.parametrize("method", ["epsilon", "nucleus", "typical", "ancestral"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_processor_draws_from_what_transformers_keeps(method: Any, temperature: float) -> None:
    from transformers.generation import logits_process

    torch.manual_seed(1)
    logits = torch.randn(6, 900) * 3
    chance = np.random.default_rng(0).random((6, 3))
    draws = drawing(chance, method, CUTOFFS[method], temperature)
    cut = logits / temperature
    if method in WARPERS:
        cut = getattr(logits_process, WARPERS[method])(CUTOFFS[method])(None, cut)
    for step in range(3):
        expected = drawn_plainly(cut, torch.from_numpy(chance[:, step].copy()))
        scores = draws(None, logits)
        assert scores.argmax(dim=1).tolist() == expected.tolist()
        assert (scores > -math.inf).sum(dim=1).tolist() == [1] * 6
