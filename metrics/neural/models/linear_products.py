"""Linear layers by oneDNN where torch has it, on a CPU in float32: on some CPUs twice as fast as torch's own choice.

A row of the product depends on no other row and not on how many rows there are, as long as these are a multiple of 16.
Which library multiplies is a matter of the build of torch and of the processor: a choice by speed would change the last
bits of values from one start to the next, and from worker to worker. `products_on` names it, for run files and cached
representations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

# Numbers of rows that are tried.
TRIED = (16, 48, 272)


def _onednn() -> Any:
    """oneDNN's product as torch compiles to it; None in builds without it, and where its rows depend on each other."""
    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return None
    product = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return product if product is not None and rows_stand_alone(product) else None


def rows_stand_alone(product: Any) -> bool:
    """Whether rows are the same bytes beside few and many others: with AVX and without AVX2 they are not.

    product: called as oneDNN's.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 512, generator=generator)
    weight = torch.randn(512, 512, generator=generator)
    with torch.inference_mode():
        whole = product(x, weight, None, "none", [], "")
        parts = [(slice(rows), product(x[:rows], weight, None, "none", [], "")) for rows in TRIED]
    return all(torch.equal(part, whole[rows]) for rows, part in parts)


ONEDNN = _onednn()


def products_on(device: str) -> str:
    """What multiplies in float32 on a kind of device, and on a CPU with which instructions."""
    if device != "cpu":
        return "torch"
    library = "torch" if ONEDNN is None else "oneDNN"
    return f"{library} {torch.backends.cpu.get_cpu_capability()}"


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, [..., out]; x: [..., in], weight: [out, in], bias: [out].

    Where gradients are needed torch computes it, as oneDNN's product has none.
    """
    is_trained = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    is_other = x.device.type != "cpu" or x.dtype != torch.float32
    if ONEDNN is None or is_other or is_trained:
        return functional.linear(x, weight, bias)
    product: Tensor = ONEDNN(x, weight, bias, "none", [], "")
    return product


class LinearLayer(nn.Linear):
    """A layer of torch's, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b."""
        return linear(x, self.weight, self.bias)


def use_linear_products(model: nn.Module) -> None:
    """Makes all linear layers of a model compute by `linear`; their weights stay where they are.

    GPT-2 calls its layers convolutions and has their weights turned: those are copied.
    """
    from transformers.pytorch_utils import Conv1D

    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if type(layer) is nn.Linear:
                setattr(module, name, _own_layer(layer.weight, layer.bias))
            elif type(layer) is Conv1D:
                turned = nn.Parameter(layer.weight.data.t().contiguous(), requires_grad=False)
                setattr(module, name, _own_layer(turned, layer.bias))


def _own_layer(weight: Any, bias: Any) -> LinearLayer:
    """A layer with these weights, [out, in] and [out]."""
    width_out, width_in = weight.shape
    with torch.device("meta"):
        layer = LinearLayer(width_in, width_out, bias is not None)
    layer.weight = weight
    if bias is not None:
        layer.bias = bias
    return layer
