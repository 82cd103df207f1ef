"""Elementwise functions whose bytes do not depend on where a number stands in a tensor, nor on the threads.

torch computes a tensor some registers at a time and the numbers left over one by one, at its end and at the end of
each thread's share. Of SiLU, sigmoid, GELU by tanh and others the two ways round differently. Here a thread's share is
always whole registers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

# Numbers that torch computes at once are a divisor of this, on any processor and in any precision.
REGISTERS = 64
# Of most functions, a tensor of at most this many numbers is computed by one thread, and threads get no less each; of
# GELU all threads get as many.
SHARE = 1 << 15
# Modules of torch and transformers that are computed alike either way, or are not elementwise.
LEFT_ALONE = {
    "GELUActivation",
    "GLU",
    "Identity",
    "LinearActivation",
    "LogSoftmax",
    "ReLU",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Tanh",
}
_FAMILIES = ("torch.nn.modules.activation", "transformers.activations")


def elementwise(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x), of the same shape; `function` is elementwise and may write into what it gets."""
    size = x.numel()
    num_threads = torch.get_num_threads()
    if x.device.type != "cpu" or not size:
        return function(x)
    unit = num_threads * REGISTERS
    if size % unit == 0 and (num_threads == 1 or size <= SHARE):
        return function(x.contiguous())
    numbers = x.reshape(-1)
    parts = []
    start = 0
    # As many numbers as give every thread one share, then shares that one thread or all compute, then the rest.
    for step in (num_threads * SHARE, max(1, SHARE // unit) * unit):
        while size - start >= step:
            parts.append(function(numbers[start : start + step]))
            start += step
    rest = pad(numbers[start:], (0, -(size - start) % unit))
    parts.append(function(rest)[: size - start])
    return torch.cat(parts).view(x.shape)


class Elementwise(nn.Module):
    """An activation, computed by `elementwise`."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """The activation of every number."""
        return elementwise(self.activation, x)


def use_elementwise(model: nn.Module) -> None:
    """Makes the activations of a model compute by `elementwise`, but those that need it not."""
    for module in list(model.modules()):
        if isinstance(module, Elementwise):
            continue
        for name, layer in list(module.named_children()):
            kind = type(layer)
            is_activation = kind.__module__ in _FAMILIES and kind.__name__ not in LEFT_ALONE
            # One with weights knows the place of a number.
            if is_activation and not list(layer.parameters()):
                setattr(module, name, Elementwise(layer))
