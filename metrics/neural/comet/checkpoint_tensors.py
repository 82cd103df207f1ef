"""The tensors of a COMET checkpoint, each checked when it is taken: its shape, its type, and that it is finite.

None may be missing and, once the encoder, the mix and the estimator have been taken, none left over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import ModelLoadError, excerpt

# How names of tensors begin.
ENCODER = "encoder.model."
SCALAR = "layerwise_attention.scalar_parameters."
GAMMA = "layerwise_attention.gamma"
# Buffers that old encoders saved, heads and buffers that only training or word labels need.
UNUSED = re.compile(
    r"encoder\.model\.(embeddings\.(position_ids|token_type_ids)|pooler\..+)"
    r"|layerwise_attention\.dropout_(mask|fill)|(hidden2tag|wordloss|(train|val)_(metrics|corr|mcc))\..+"
)


class CheckpointTensors:
    """The tensors of a checkpoint, each checked when it is taken.

    Args:
        path: the checkpoint, for messages.
        state: its state dict, as it was read: neither names nor values are trusted.
    """

    def __init__(self, path: Path, state: Mapping[str, Any]) -> None:
        self.path = path
        # What has not been taken yet.
        self.left: dict[str, Any] = {}
        for key, value in state.items():
            name = str(key)
            if not UNUSED.fullmatch(name):
                self.left[name] = value

    def encoder(self) -> dict[str, Any]:
        """The state dict of the encoder."""
        names = [name for name in self.left if name.startswith(ENCODER)]
        if not names:
            raise self.error(f"it has no tensors of an encoder ({ENCODER}*)")
        return {name.removeprefix(ENCODER): self.take(name) for name in names}

    def estimator(self, hidden_sizes: list[int]) -> tuple[tuple[Any, Any], ...]:
        """Weight [out, in] and bias [out] of every linear layer."""
        inputs = [None, *hidden_sizes]
        outputs = [*hidden_sizes, 1]
        # An activation and a dropout stand between two, so that every third place is one.
        names = [f"estimator.ff.{3 * place}" for place in range(len(outputs))]
        needed = []
        for name in names:
            needed += [f"{name}.weight", f"{name}.bias"]
        self.demand(needed)
        layers = []
        for name, into, out in zip(names, inputs, outputs, strict=True):
            weight = self.take(f"{name}.weight", out, into)
            bias = self.take(f"{name}.bias", out)
            layers.append((weight, bias))
        return tuple(layers)

    def mix(self, needed: bool) -> tuple[Any | None, Any | None]:
        """Weights of the layers [layers + 1] and gamma [1]; None in a model without a mix that needs none."""
        import torch

        count = sum(name.startswith(SCALAR) for name in self.left)
        if not needed and not count and GAMMA not in self.left:
            return None, None
        names = [f"{SCALAR}{layer}" for layer in range(max(count, 1))]
        self.demand([*names, GAMMA])
        scalars = torch.cat([self.take(name, 1) for name in names])
        gamma = self.take(GAMMA, 1)
        return scalars, gamma

    def all_used(self) -> None:
        """Raises ModelLoadError if there are tensors that have not been taken."""
        if self.left:
            names = _first(self.left)
            raise self.error(f"it has tensors that no COMET model of its class uses: {names}")

    def demand(self, names: Iterable[str]) -> None:
        """Raises ModelLoadError if there are no such tensors."""
        missing = [name for name in names if name not in self.left]
        if missing:
            raise self.error(f"it lacks tensors: {_first(missing)}")

    def take(self, name: str, *shape: int | None) -> Any:
        """The tensor, without gradient, of that shape (None for any width) or of any with one or two dimensions."""
        import torch

        value = self.left.pop(name)
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise self.error(f"{name} is {excerpt(value)}, expected a tensor")
        floating = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if value.dtype not in floating:
            raise self.error(f"{name} is of {value.dtype}, expected floating point")
        actual = tuple(value.shape)
        if value.untyped_storage().nbytes() < value.nbytes or not value.numel():
            raise self.error(f"{name} has fewer numbers than its shape {actual} says, or none")
        if not _fits(actual, shape):
            widths = ["any" if width is None else str(width) for width in shape]
            expected = " x ".join(widths) or "one or two dimensions"
            raise self.error(f"{name} has shape {actual}, expected {expected}")
        value = value.detach()
        # An infinite or undefined number anywhere shows in the least or the greatest.
        extremes = torch.stack(torch.aminmax(value))  # [2]
        if not extremes.isfinite().all():
            raise self.error(f"{name} holds numbers that are not finite")
        return value

    def error(self, problem: str) -> ModelLoadError:
        """What is wrong with these tensors."""
        fix = "The checkpoint is not whole, or not of this class"
        return ModelLoadError(problem, where=str(self.path), fix=fix)


def _fits(actual: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    """Whether a shape is the expected one; without one, whether it has one or two dimensions."""
    if not expected:
        return len(actual) in (1, 2)
    if len(actual) != len(expected):
        return False
    return all(want in (None, have) for want, have in zip(expected, actual, strict=True))


def _first(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    listed = list(names)
    text = ", ".join(listed[:4])
    if len(listed) > 4:
        text += f" and {len(listed) - 4} more"
    return text
