"""Linear layers by oneDNN where torch has it, on a CPU in float32: on some CPUs twice as fast as torch's own choice.

A row of the product depends on no other row and not on how many rows there are, as long as these are a multiple of 16.
Where a library does not keep to that by itself, it is given products whose shape does not depend on the rows:

* float32 without oneDNN: slices of 512 inputs, added up in order. MKL cuts longer sums by the size of the product.
* bfloat16 on processors with AMX: tiles of 256 rows, the last one filled up with zeros.

Which library multiplies is a matter of the build of torch and of the processor: a choice by speed would change the last
bits of values from one start to the next, and from worker to worker. `products_on` names it, for run files and cached
representations.

Log-probabilities of labels under a softmax over a large vocabulary are products too, without an array of all logits:

    log p(y | h) = w_y . h + b_y - log sum_v exp(w_v . h + b_v)

A slice of the vocabulary is multiplied at a time, for all states together, and its logits are added to a sum that is
kept relative to the greatest logit so far: a slice stays in the processor's cache, and the head's weights are read once
for all states. The slices are the same whatever states there are, so a value depends on its own state alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

# Numbers of rows that are tried.
TRIED = (16, 48, 272)
# Inputs that torch sums in one product in float32, and rows of one product in bfloat16.
MAX_SUMMED = 512
TILE = 256


def _onednn() -> Any:
    """oneDNN's product as torch compiles to it; None in builds without it, and where its rows depend on each other."""
    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return None
    product = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if product is None:
        return None

    def linear_by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = product(x, weight, bias, "none", [], "")
        return result

    return linear_by_onednn if rows_stand_alone(linear_by_onednn) else None


def rows_stand_alone(product: Any, dtype: torch.dtype = torch.float32) -> bool:
    """Whether rows are the same bytes beside few and many others.

    oneDNN's are not in float32 with AVX and without AVX2, and in bfloat16 with AMX. product: called as `linear`.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 512, generator=generator).to(dtype)
    weight = torch.randn(512, 512, generator=generator).to(dtype)
    with torch.inference_mode():
        whole = product(x, weight, None)
        parts = [(slice(rows), product(x[:rows], weight, None)) for rows in TRIED]
    return all(torch.equal(part, whole[rows]) for rows, part in parts)


@cache
def _bfloat16_stands_alone() -> bool:
    """Whether torch's rows in bfloat16 do, on this processor."""
    return rows_stand_alone(functional.linear, torch.bfloat16)


ONEDNN = _onednn()


def products_on(device: str) -> str:
    """The backend of matrix products in float32 on a kind of device, on a CPU with its instruction set."""
    if device != "cpu":
        return "torch"
    library = "torch" if ONEDNN is None else "oneDNN"
    return f"{library} {torch.backends.cpu.get_cpu_capability()}"


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, [..., out]; x: [..., in], weight: [out, in], bias: [out].

    Where gradients are needed torch computes it, as oneDNN's product has none.
    """
    is_trained = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    product: Any = functional.linear
    if x.device.type == "cpu" and not is_trained:
        if x.dtype == torch.float32:
            product = ONEDNN or linear_in_slices
        elif x.dtype == torch.bfloat16 and not _bfloat16_stands_alone():
            product = linear_in_tiles
    result: Tensor = product(x, weight, bias)
    return result


def linear_in_slices(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` as a sum over slices of `MAX_SUMMED` inputs, in their order."""
    result = functional.linear(x[..., :MAX_SUMMED], weight[:, :MAX_SUMMED], bias)
    for start in range(MAX_SUMMED, x.shape[-1], MAX_SUMMED):
        inputs = slice(start, start + MAX_SUMMED)
        result += functional.linear(x[..., inputs], weight[:, inputs])
    return result


def linear_in_tiles(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` by products of `TILE` rows each."""
    rows = x.reshape(-1, x.shape[-1])  # [n, in]
    result = rows.new_empty(len(rows), len(weight))
    for start in range(0, len(rows), TILE):
        tile = rows[start : start + TILE]
        filled = functional.pad(tile, (0, 0, 0, TILE - len(tile)))
        result[start : start + TILE] = functional.linear(filled, weight, bias)[: len(tile)]
    return result.view(*x.shape[:-1], len(weight))


class LinearLayer(nn.Linear):
    """A layer of torch's, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b."""
        return linear(x, self.weight, self.bias)


def use_linear_products(model: nn.Module) -> None:
    """Makes all linear layers of a model compute by `linear`; their weights stay where they are.

    GPT-2 calls its layers convolutions and has their weights transposed: those are copied.
    """
    from transformers.pytorch_utils import Conv1D

    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if type(layer) is nn.Linear:
                setattr(module, name, _own_layer(layer.weight, layer.bias))
            elif type(layer) is Conv1D:
                weight = nn.Parameter(layer.weight.data.t().contiguous(), requires_grad=False)
                setattr(module, name, _own_layer(weight, layer.bias))


def _own_layer(weight: Any, bias: Any) -> LinearLayer:
    """A layer with these weights, [out, in] and [out]."""
    width_out, width_in = weight.shape
    with torch.device("meta"):
        layer = LinearLayer(width_in, width_out, bias is not None)
    layer.weight = weight
    if bias is not None:
        layer.bias = bias
    return layer


# Words of the vocabulary in a slice; on a GPU fewer calls count for more than the cache.
SLICE, GPU_SLICE = 4096, 1 << 16


def label_log_probabilities(states: Any, weight: Any, bias: Any, rows: Any, labels: Any) -> Any:
    """Of every label under its state, float64 [m], at most 0.

    Args:
        states: [n, d], n a multiple of 16.
        weight: of the head, [vocabulary, d].
        bias: [vocabulary].
        rows: of the labels' states, [m].
        labels: [m].
    """
    import torch

    lowest = torch.finfo(torch.float32).min
    greatest = states.new_full((len(states),), lowest, dtype=torch.float32)  # [n]
    total = torch.zeros_like(greatest, dtype=torch.float64)  # [n], relative to the greatest
    own = states.new_empty(len(labels), dtype=torch.float32)  # [m] logit of the label
    size = SLICE if states.device.type == "cpu" else GPU_SLICE
    for start in range(0, len(weight), size):
        part = slice(start, start + size)
        logits = linear(states, weight[part], bias[part]).float()  # [n, slice]

        # The labels that are in this slice.
        place = labels - start
        is_here = (place >= 0) & (place < logits.shape[1])
        here = logits[rows, place.clamp(0, logits.shape[1] - 1)]
        own = torch.where(is_here, here, own)

        # The sum so far and this slice's, both relative to the greatest logit so far.
        now = torch.maximum(greatest, logits.amax(dim=1))
        total *= (greatest - now).double().exp()
        total += logits.sub_(now[:, None]).exp_().sum(dim=1)
        greatest = now
    log_probabilities = own.double() - greatest.double()[rows] - total.log()[rows]
    # Rounding may leave a probability above 1.
    return log_probabilities.clamp(max=0)
