"""Log-probabilities of labels slice by slice: those of a softmax over all logits, each by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.neural.models import linear_products
from discorank.metrics.neural.models.linear_products import (
    label_log_probabilities as log_probabilities,
)

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)
WIDTH = 16


def drawn(seed: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def of_each(states: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """One label under every state."""
    return log_probabilities(states, weight, bias, torch.arange(len(states)), labels)


def plainly(states: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """By all logits at once, in double precision."""
    logits = states.double() @ weight.double().T + bias.double()
    return logits.log_softmax(dim=1).gather(1, labels[:, None])[:, 0]


@given(
    rows=st.sampled_from([16, 48, 80]),
    vocabulary=st.integers(1, 300),
    size=st.sampled_from([16, 64, 100, 4096]),
    scale=st.sampled_from([0.0, 0.1, 1.0, 8.0]),
    shift=st.sampled_from([0.0, 30.0, -500.0]),
    seed=st.integers(0, 99),
)
@BOUNDED
def test_values_are_those_of_a_softmax(
    rows: int, vocabulary: int, size: int, scale: float, shift: float, seed: int
) -> None:
    states, weight = drawn(seed, rows, WIDTH), scale * drawn(seed + 1, vocabulary, WIDTH)
    bias = drawn(seed + 2, vocabulary) + shift
    labels = torch.arange(rows) * 7919 % vocabulary
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(linear_products, "SLICE", size)
        values = of_each(states, weight, bias, labels)
    expected = plainly(states, weight, bias, labels)
    assert values.dtype == torch.float64
    assert (values <= 0).all()
    # single precision holds a logit to its 24 binary digits
    largest = float((states @ weight.T + bias).abs().max())
    assert (values - expected).abs().max() <= 1e-6 * max(1.0, largest)


def test_a_state_by_itself_has_the_same_bytes() -> None:
    threads = torch.get_num_threads()
    states, weight, bias = drawn(0, 512, WIDTH), drawn(1, 9001, WIDTH), drawn(2, 9001)
    labels = torch.arange(512) * 7919 % 9001
    with torch.inference_mode():
        whole = of_each(states, weight, bias, labels)
        for count, rows in ((1, 16), (2, 48), (3, 512)):
            torch.set_num_threads(count)
            for part in (slice(0, rows), slice(512 - rows, 512)):
                values = of_each(states[part].clone(), weight, bias, labels[part])
                assert torch.equal(values, whole[part])
    torch.set_num_threads(threads)


def test_words_that_cannot_follow() -> None:
    """Their logits are minus infinity, in whole slices too."""
    states, weight = drawn(0, 16, WIDTH), drawn(1, 5000, WIDTH)
    bias = torch.full((5000,), -float("inf"))
    bias[4500:] = 0
    labels = torch.arange(16) + 4600
    with torch.inference_mode():
        values = of_each(states, weight, bias, labels)
        expected = plainly(states, weight[4500:], bias[4500:], labels - 4500)
        assert (values - expected).abs().max() < 1e-5
        assert of_each(states, weight, bias, labels * 0)[0] == -float("inf")
