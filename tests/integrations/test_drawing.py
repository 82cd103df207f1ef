"""Drawing from a vocabulary: by definition, and the same tokens from the highest logits as from all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.integrations.huggingface.sampling import CUTOFFS, drawing, drawn

from ..support.examples import examples

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


def plainly(logits: Any, chance: Any, method: Any, cutoff: float | None) -> Any:
    """Tokens [rows] from the whole vocabulary in order."""
    return drawn(logits, chance, method, cutoff, top=1 << 30)


def cut(logits: Any, method: str, cutoff: float | None) -> Any:
    """Logits [rows, vocabulary] with -inf for what a method does not keep, by its definition."""
    from transformers import EpsilonLogitsWarper

    if cutoff is None:
        return logits
    if method == "epsilon":
        return EpsilonLogitsWarper(cutoff)(None, logits)
    probabilities = logits.double().softmax(dim=1)
    if method == "nucleus":
        order = logits.sort(dim=1, descending=True, stable=True).indices
        ordered = probabilities.gather(1, order)
        gone = torch.zeros_like(logits, dtype=torch.bool)
        gone.scatter_(1, order, ordered.cumsum(dim=1) - ordered >= cutoff)
    else:
        entropy = -(probabilities * probabilities.log()).nansum(dim=1, keepdim=True)
        distance = (probabilities.log() + entropy).abs()
        farther, order = distance.sort(dim=1, stable=True)
        before = (probabilities.gather(1, order).cumsum(dim=1) < cutoff).sum(dim=1, keepdim=True)
        gone = distance > farther.gather(1, before.clamp(max=logits.shape[1] - 1)) + 1e-9
    return logits.masked_fill(gone, -torch.inf)


def by_definition(logits: Any, chance: Any, method: str, cutoff: float | None) -> Any:
    """The first token at which the cumulated probability of what is kept passes chance."""
    cumulated = cut(logits, method, cutoff).double().softmax(dim=1).cumsum(dim=1)
    return torch.searchsorted(cumulated, chance[:, None], right=True)[:, 0]


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_tokens_are_drawn_by_definition(way: Any, rounded: bool) -> None:
    torch.manual_seed(0)
    for scale in (0.3, 1.0, 4.0):
        logits = torch.randn(4, 5_000) * scale
        if rounded:  # as models have them that compute so: many are equal
            logits = logits.bfloat16().float()
        chance = torch.rand(4, dtype=torch.float64)
        expected = by_definition(logits, chance, *way).tolist()
        assert drawn(logits, chance, *way).tolist() == expected
        if rounded:
            assert drawn(logits.bfloat16(), chance, *way).tolist() == expected


@examples(25)
@given(problems(), st.sampled_from([*WAYS, *WAYS, *EXTREME_WAYS]), st.sampled_from([1, 5, 128]))
def test_the_same_tokens_from_the_highest_logits(
    problem: tuple[Any, Any], way: tuple[Any, Any], top: int
) -> None:
    logits, chance = problem
    before = logits.clone()
    expected = plainly(logits, chance, *way)
    method, cutoff = way
    assert drawn(logits, chance, method, cutoff, top).tolist() == expected.tolist()
    assert bool((logits.gather(1, expected[:, None]) > -math.inf).all())
    assert torch.equal(logits, before)


@pytest.mark.parametrize("way", WAYS)
def test_the_same_tokens_where_chance_stands_on_a_border(way: Any) -> None:
    torch.manual_seed(0)
    row = torch.randn(1, 700) * 2
    cumulated = cut(row, *way).double().softmax(dim=1).cumsum(dim=1)[0]
    for border in (cumulated, torch.nextafter(cumulated, torch.zeros(()).double())):
        chance = border.clamp(max=1 - 2**-53)
        logits = row.expand(len(chance), -1)
        expected = plainly(logits, chance, *way)
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
    for cutoff in probabilities.gather(1, order).cumsum(dim=1)[0, :600:47].tolist():
        for near in (cutoff, cutoff - 1e-12, cutoff + 1e-12, cutoff - 1e-6, cutoff + 1e-6):
            expected = plainly(logits, chance, method, near)
            assert drawn(logits, chance, method, near).tolist() == expected.tolist()


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


def test_what_is_no_number_is_drawn_alike() -> None:
    for value in (math.nan, math.inf):
        logits = torch.zeros(2, 600)
        logits[1, 3] = value
        chance = torch.tensor([0.3, 0.3], dtype=torch.float64)
        for way in WAYS:
            expected = plainly(logits, chance, *way)
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
    warped = logits / temperature
    if method in WARPERS:
        warper = getattr(logits_process, WARPERS[method])
        warped = warper(CUTOFFS[method])(None, warped)
    for step in range(3):
        u = torch.from_numpy(chance[:, step].copy())
        expected = by_definition(warped, u, "ancestral", None)
        scores = draws(None, logits)
        assert scores.argmax(dim=1).tolist() == expected.tolist()
        assert (scores > -math.inf).sum(dim=1).tolist() == [1] * 6
