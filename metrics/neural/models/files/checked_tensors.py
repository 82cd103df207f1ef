"""The tensors of a model file, each checked when it is taken: its shape, its type, and that it is finite.

None may be missing and, once a model has taken its own, none left over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ....errors import ModelLoadError


class CheckedTensors:
    """The tensors of a model, each checked when it is taken.

    Args:
        path: the file or folder, for messages.
        state: its state dict; shapes and numbers are not trusted.
        unused: a pattern of whole names that no score depends on; they are left out.
    """

    def __init__(self, path: Path, state: Mapping[str, Any], unused: re.Pattern[str]) -> None:
        self.path = path
        # What has not been taken yet.
        self.left: dict[str, Any] = {}
        for key, value in state.items():
            name = str(key)
            if not unused.fullmatch(name):
                self.left[name] = value

    def state_of(self, module: Any, name_in_file: Callable[[str], str]) -> dict[str, Any]:
        """The state dict of a module of torch: every weight that it has, each of its shape.

        name_in_file: the name here of a weight of the module.
        """
        shapes = {name: tuple(weight.shape) for name, weight in module.state_dict().items()}
        self.demand(name_in_file(name) for name in shapes)
        return {name: self.take(name_in_file(name), *shape) for name, shape in shapes.items()}

    def linear(self, name: str, out: int | None, into: int | None) -> tuple[Any, Any]:
        """Weight [out, in] and bias [out] of a linear layer."""
        self.demand([f"{name}.weight", f"{name}.bias"])
        weight = self.take(f"{name}.weight", out, into)
        return weight, self.take(f"{name}.bias", weight.shape[0])

    def all_used(self) -> None:
        """Raises ModelLoadError if there are tensors that have not been taken."""
        if self.left:
            names = _first(self.left)
            raise self.error(f"it has tensors that no model of its class uses: {names}")

    def demand(self, names: Iterable[str]) -> None:
        """Raises ModelLoadError if there are no such tensors."""
        missing = [name for name in names if name not in self.left]
        if missing:
            raise self.error(f"it lacks tensors: {_first(missing)}")

    def take(self, name: str, *shape: int | None) -> Any:
        """The tensor, without gradient, of that shape (None for any width) or of any with one or two dimensions."""
        import torch

        value = self.left.pop(name)
        floating = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        if value.dtype not in floating:
            raise self.error(f"{name} is of {value.dtype}, expected floating point")
        actual = tuple(value.shape)
        if not value.numel():
            raise self.error(f"{name} has no numbers: its shape is {actual}")
        if not _fits(actual, shape):
            widths = ["any" if width is None else str(width) for width in shape]
            expected = " x ".join(widths) or "one or two dimensions"
            raise self.error(f"{name} has shape {actual}, expected {expected}")
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
