"""Linear layers by oneDNN: the same values, each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from discorank.metrics.neural.models import linear_products
from discorank.metrics.neural.models.linear_products import (
    LinearLayer,
    linear,
    linear_in_slices,
    linear_in_tiles,
    products_on,
    use_linear_products,
)


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("width", [16, 32, 768])
def test_values_are_those_of_torch(width: int) -> None:
    x, weight, bias = drawn(1, 48, width), drawn(64, width), drawn(64)
    for b in (None, bias):
        expected = functional.linear(x.double(), weight.double(), None if b is None else b.double())
        assert linear(x, weight, b).shape == (1, 48, 64)
        assert (linear(x, weight, b) - expected).abs().max() < 1e-5 * width


Product = Callable[..., torch.Tensor]
PRODUCTS = [linear, linear_in_slices]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("width", [16, 96, 768, 1024])
def test_a_number_depends_on_no_other_row(width: int, product: Product) -> None:
    x, weight = drawn(512, width), drawn(3 * width, width)
    whole = product(x, weight)
    for rows in (16, 48, 80, 256, 496):
        assert torch.equal(product(x[:rows], weight), whole[:rows])
        assert torch.equal(product(x[-rows:].clone(), weight), whole[-rows:])
        columns = 3 * width // 32 * 16
        assert torch.equal(product(x[:rows], weight[:columns]), whole[:rows, :columns])


@pytest.mark.parametrize("product", [linear, linear_in_tiles])
@pytest.mark.parametrize("width", [64, 512, 1024])
def test_a_number_in_bfloat16_depends_on_no_other_row(width: int, product: Product) -> None:
    x, weight = drawn(1024, width).bfloat16(), drawn(512, width).bfloat16()
    whole = product(x, weight)
    for rows in (16, 48, 272, 752):
        assert torch.equal(product(x[:rows], weight), whole[:rows])
        assert torch.equal(product(x[-rows:].clone(), weight), whole[-rows:])


@pytest.mark.parametrize("shape", [(1, 32), (256, 512), (2, 300, 513), (600, 1500)])
def test_slices_and_tiles_add_up(shape: tuple[int, ...]) -> None:
    x, weight, bias = drawn(*shape), drawn(48, shape[-1]), drawn(48)
    for b in (None, bias):
        expected = functional.linear(x.double(), weight.double(), None if b is None else b.double())
        for product in (linear_in_slices, linear_in_tiles):
            result = product(x, weight, b)
            assert result.shape == expected.shape
            assert (result - expected).abs().max() < 1e-5 * shape[-1]


def test_what_onednn_does_not_compute_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = drawn(16, 32), drawn(32, 32)
    double = linear(x.double(), weight.double())
    assert torch.equal(double, functional.linear(x.double(), weight.double()))
    monkeypatch.setattr(linear_products, "ONEDNN", None)
    assert torch.equal(linear(x, weight), linear_in_slices(x, weight))


@pytest.mark.parametrize("stands_alone", [True, False])
def test_bfloat16_is_cut_into_tiles_where_rows_depend_on_each_other(
    stands_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = drawn(300, 32).bfloat16(), drawn(32, 32).bfloat16()
    monkeypatch.setattr(linear_products, "_bfloat16_stands_alone", lambda: stands_alone)
    rows: list[int] = []

    def counted(x: torch.Tensor, *_: Any) -> torch.Tensor:
        rows.append(len(x))
        return x

    monkeypatch.setattr(functional, "linear", counted)
    linear(x, weight)
    assert rows == ([300] if stands_alone else [256, 256])


def test_a_model_keeps_its_weights() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16))
    model.requires_grad_(requires_grad=False)
    before, names = model(drawn(16, 32)), model.state_dict()
    use_linear_products(model)
    assert isinstance(model[0], LinearLayer)
    assert model.state_dict().keys() == names.keys()
    assert torch.equal(model.state_dict()["2.weight"], names["2.weight"])
    assert (model(drawn(16, 32)) - before).abs().max() < 1e-5


def test_gradients_are_those_of_torch() -> None:
    with torch.inference_mode(mode=False):
        x, weight = drawn(16, 32).clone(), drawn(32, 32).clone().requires_grad_()
        (own,) = torch.autograd.grad(linear(x, weight).square().sum(), [weight])
        (expected,) = torch.autograd.grad(functional.linear(x, weight).square().sum(), [weight])
    assert torch.equal(own, expected)


def test_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    capability = torch.backends.cpu.get_cpu_capability()
    assert products_on("cuda") == "torch"
    monkeypatch.setattr(linear_products, "ONEDNN", None)
    assert products_on("cpu") == f"torch {capability}"
    monkeypatch.setattr(linear_products, "ONEDNN", functional.linear)
    assert products_on("cpu") == f"oneDNN {capability}"


def layers_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    return [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]


def test_encoders_and_decoders_compute_so() -> None:
    from discorank import load_metric
    from tests.support.learned_golden import GOLDEN

    xcomet = GOLDEN / "xcomet" / "models"
    tiny = Path(__file__).parents[3] / "golden" / "docmetrics" / "models"
    metrics = [
        load_metric("bleurt", model=str(GOLDEN / "bleurt" / "models" / "tiny-bleurt-20")),
        load_metric(
            "xcomet", model=str(xcomet / "tiny-xcomet"), encoder_path=str(xcomet / "tiny-xlmr-xl")
        ),
        load_metric("bertscore", model=str(tiny / "tiny-roberta"), layer=2),
        load_metric("bartscore", model=str(tiny / "tiny-bart")),
    ]
    for metric in metrics:
        scorer: Any = getattr(metric, "scorer")  # noqa: B009  a sum has none
        model = scorer.encoder.model if hasattr(scorer, "encoder") else scorer.model.model
        layers = layers_of(model)
        assert layers
        assert all(isinstance(layer, LinearLayer) for layer in layers)


def test_values_of_two_libraries_do_not_share_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from discorank import load_metric

    tiny = Path(__file__).parents[3] / "golden" / "docmetrics" / "models"
    metric: Any = load_metric("bertscore", model=str(tiny / "tiny-roberta"), layer=2)
    identities = set()
    for product in (None, functional.linear):
        monkeypatch.setattr(linear_products, "ONEDNN", product)
        identities.add(metric.identity(torch.device("cpu")))
    assert len(identities) == 2


def test_a_product_whose_rows_depend_on_others_is_not_used() -> None:
    def by_count(x: torch.Tensor, weight: torch.Tensor, *_: Any) -> torch.Tensor:
        wide = x.double() if len(x) > 100 else x
        return functional.linear(wide, weight.to(wide.dtype)).float()

    def by_row(x: torch.Tensor, weight: torch.Tensor, *_: Any) -> torch.Tensor:
        parts = [functional.linear(x[i : i + 16], weight) for i in range(0, len(x), 16)]
        return torch.cat(parts)

    assert not linear_products.rows_stand_alone(by_count)
    assert linear_products.rows_stand_alone(by_row)
