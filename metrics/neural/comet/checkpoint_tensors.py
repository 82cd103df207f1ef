"""The tensors of a COMET checkpoint, each checked when it is taken: its shape, its type, and that it is finite.

None may be missing and, once the encoder, the mix and the estimator have been taken, none left over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import ModelLoadError, excerpt

ENCODER, MIX = "encoder.model.", "layerwise_attention."
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
        by_name = {str(name): value for name, value in state.items()}
        self.left = {name: value for name, value in by_name.items() if not UNUSED.fullmatch(name)}

    def encoder(self) -> dict[str, Any]:
        """The state dict of the encoder."""
        names = [name for name in self.left if name.startswith(ENCODER)]
        if not names:
            raise self.error(f"it has no tensors of an encoder ({ENCODER}*)")
        return {name.removeprefix(ENCODER): self.take(name) for name in names}

    def estimator(self, hidden_sizes: list[int]) -> tuple[tuple[Any, Any], ...]:
        """Weight [out, in] and bias [out] of every linear layer.

        An activation and a dropout stand between two, so that every third place is one.
        """
        names = [f"estimator.ff.{3 * place}" for place in range(len(hidden_sizes) + 1)]
        self.demand(f"{name}.{part}" for name in names for part in ("weight", "bias"))
        layers = []
        inputs = [None, *hidden_sizes]
        outputs = [*hidden_sizes, 1]
        for name, into, out in zip(names, inputs, outputs, strict=True):
            weight = self.take(f"{name}.weight", out, into)
            bias = self.take(f"{name}.bias", out)
            layers.append((weight, bias))
        return tuple(layers)

    def mix(self, needed: bool) -> tuple[Any | None, Any | None]:
        """Weights of the layers [layers + 1] and gamma [1]; None in a model without a mix that needs none."""
        import torch

        count = sum(name.startswith(f"{MIX}scalar_parameters.") for name in self.left)
        if not needed and not count and f"{MIX}gamma" not in self.left:
            return None, None
        names = [f"{MIX}scalar_parameters.{layer}" for layer in range(max(count, 1))]
        self.demand([*names, f"{MIX}gamma"])
        scalars = torch.cat([self.take(name, 1) for name in names])
        return scalars, self.take(f"{MIX}gamma", 1)

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
        if value.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise self.error(f"{name} is of {value.dtype}, expected floating point")
        actual = tuple(value.shape)
        if value.untyped_storage().nbytes() < value.nbytes or not value.numel():
            raise self.error(f"{name} has fewer numbers than its shape {actual} says, or none")
        if not _fits(actual, shape):
            widths = ["any" if width is None else str(width) for width in shape]
            expected = " x ".join(widths) or "one or two dimensions"
            raise self.error(f"{name} has shape {actual}, expected {expected}")
        if not torch.stack(torch.aminmax(value.detach())).isfinite().all():
            raise self.error(f"{name} holds numbers that are not finite")
        return value.detach()

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
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more
