"""Elementwise functions: the same bytes wherever a number stands, with any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discorank.metrics.neural.comet.checkpoint import ACTIVATIONS
from discorank.metrics.neural.models.elementwise import (
    REGISTERS,
    SHARE,
    Elementwise,
    elementwise,
    use_elementwise,
)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(nn, name)() for name in ACTIVATIONS},
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu by tanh": nn.GELU(approximate="tanh"),
}


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    threads = torch.get_num_threads()
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)


def drawn(*shape: int) -> Tensor:
    return 4 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_depends_on_no_other(name: str) -> None:
    function, x = FUNCTIONS[name], drawn(40, 31)
    torch.set_num_threads(1)
    whole = elementwise(function, x.clone())
    assert (whole - function(x.clone())).abs().max() < 1e-5
    for rows in (slice(1), slice(3), slice(-7, None), slice(0, 40, 3)):
        assert torch.equal(elementwise(function, x[rows].clone()), whole[rows])
    strided = torch.stack([x, x], dim=2)[..., 0]
    assert torch.equal(elementwise(function, strided), whole)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_have_whole_registers(name: str) -> None:
    function, x = FUNCTIONS[name], drawn(7, SHARE + 48)
    torch.set_num_threads(1)
    # As many numbers as are whole registers; none of the ends is in a thread's share.
    expected = function(x.view(-1)[: x.numel() // REGISTERS * REGISTERS].clone())
    for threads in (1, 2, 3, 5, 8):
        torch.set_num_threads(threads)
        values = elementwise(function, x.clone()).view(-1)
        assert torch.equal(values[: len(expected)], expected)


def test_nothing_stays_nothing() -> None:
    assert elementwise(functional.silu, torch.empty(0, 16)).shape == (0, 16)


def test_activations_of_a_model_are_wrapped_once() -> None:
    model = nn.Sequential(
        nn.SiLU(), nn.ReLU(), nn.PReLU(), nn.Softmax(dim=1), nn.Sequential(nn.ELU())
    )
    use_elementwise(model)
    use_elementwise(model)
    kinds = [type(layer).__name__ for layer in model.modules()]
    assert kinds == [
        *("Sequential", "Elementwise", "SiLU", "ReLU", "PReLU", "Softmax"),
        *("Sequential", "Elementwise", "ELU"),
    ]
    assert isinstance(model[0], Elementwise)
