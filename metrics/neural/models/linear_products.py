"""Linear layers by oneDNN where torch has it, on a CPU in float32: on some CPUs twice as fast as torch's own choice.

A row of the product depends on no other row and not on how many rows there are, as long as these are a multiple of 16.
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


# Words of the vocabulary in a slice.
SLICE = 4096


def label_log_probabilities(states: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """Of the label of every state, float64 [n], at most 0.

    Args:
        states: [n, d], n a multiple of 16.
        weight: of the head, [vocabulary, d].
        bias: [vocabulary].
        labels: [n].
    """
    import torch

    lowest = torch.finfo(torch.float32).min
    greatest = states.new_full((len(states),), lowest, dtype=torch.float32)  # [n]
    total = torch.zeros_like(greatest, dtype=torch.float64)  # [n], relative to the greatest
    own = torch.empty_like(greatest)  # [n] logit of the label
    for start in range(0, len(weight), SLICE):
        part = slice(start, start + SLICE)
        logits = linear(states, weight[part], bias[part]).float()  # [n, slice]

        # The labels that are in this slice.
        place = labels - start
        is_here = (place >= 0) & (place < logits.shape[1])
        here = logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
        own = torch.where(is_here, here, own)

        # The sum so far and this slice's, both relative to the greatest logit so far.
        now = torch.maximum(greatest, logits.amax(dim=1))
        total *= (greatest - now).double().exp()
        total += logits.sub_(now[:, None]).exp_().sum(dim=1)
        greatest = now
    log_probabilities = own.double() - greatest.double() - total.log()
    # Rounding may leave a probability above 1.
    return log_probabilities.clamp(max=0)
