"""The settings and weights in a model's folder, each checked when it is taken.

    *.json                                             settings, as a dataclass says
    model.safetensors, pytorch_model.bin               weights
    model.safetensors.index.json, pytorch_model.bin.index.json   which shards have the weights

Of weights none is missing, left over, of another shape or type, or not finite. Nothing of a file is run, and nothing
outside the folder is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ....errors import InputError, ModelLoadError
from ....spec.checked_settings import from_json
from ....storage.bounded_files import read_small_file
from ....storage.json_and_yaml import parse_small_json
from .folder_checks import shards_of
from .torch_checkpoint import read_torch_checkpoint

T = TypeVar("T")
WHOLE_FOLDER = "Give the folder of the whole model, or fetch it again"


def read_settings(file: Path, kind: type[T]) -> T:
    """The settings in a file, as a dataclass or a list of one; further keys are passed over.

    Raises:
        ModelLoadError: it cannot be read, is no JSON, or a setting is missing, of another type or out of range.
    """
    try:
        data = read_small_file(file, WHOLE_FOLDER)
        values = parse_small_json(data, str(file), WHOLE_FOLDER)
        return from_json(kind, values, str(file), WHOLE_FOLDER)
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error


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
        """An error about these tensors."""
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


SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
FORMS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
FIX = "Fetch the files again"


def read_weights(folder: Path, skip: re.Pattern[str] | None = None) -> dict[str, Any]:
    """The tensors of a model's folder on the CPU, in the precision of the files; copies, as a file may change.

    Args:
        folder: the model's folder.
        skip: a pattern of whole names that are not read.

    Raises:
        ModelLoadError: there are no weights, a shard is missing or damaged, or a name comes twice.
    """
    tensors: dict[str, Any] = {}
    for file in weight_files(folder):
        for name, tensor in _read(file, skip).items():
            if name in tensors:
                raise ModelLoadError(f"two tensors named {name}", where=str(file), fix=FIX)
            tensors[name] = tensor
    return tensors


def read_row(folder: Path, name: str, row: int) -> Any:
    """One row of a matrix of a model's folder, without loading the others.

    Raises:
        ModelLoadError: as `read_weights`, or there is no such matrix or row.
    """
    for file in weight_files(folder):
        tensors = _read(file, re.compile(rf"(?!{re.escape(name)}$).*"), row)
        if name in tensors:
            return tensors[name]
    raise ModelLoadError(f"{name} is missing", where=str(folder), fix=FIX)


def weight_files(folder: Path) -> list[Path]:
    """The files with the weights of a folder, in the first form that is there.

    Raises:
        ModelLoadError: there are none, or the index is damaged or names a file that is not there.
    """
    for form in FORMS:
        path = folder / form
        if path.is_file() and not form.endswith(".json"):
            return [path]
        if path.is_file():
            try:
                return shards_of(path)
            except InputError as error:
                raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
    problem = f"no weights, expected {SAFETENSORS} or {PICKLE} or an index of their shards"
    raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")


def _read(file: Path, skip: re.Pattern[str] | None, row: int | None = None) -> Mapping[str, Any]:
    """The tensors of one file, or one row of each."""
    try:
        if file.suffix == ".safetensors":
            return _of_safetensors(file, skip, row)
        tensors = _of_pickle(file, skip)
        return {name: (x if row is None else x[row]).clone() for name, x in tensors.items()}
    except ModelLoadError:
        raise
    except Exception as error:  # damaged files: many kinds
        line = str(error).strip().partition("\n")[0][:200]
        raise ModelLoadError(f"cannot be read: {line}", where=str(file), fix=FIX) from error


def _of_safetensors(file: Path, skip: re.Pattern[str] | None, row: int | None) -> Mapping[str, Any]:
    from safetensors import safe_open

    with safe_open(file, framework="pt", device="cpu") as tensors:
        names = [name for name in tensors.keys() if not (skip and skip.fullmatch(name))]  # noqa: SIM118  no mapping
        if row is not None:
            return {name: tensors.get_slice(name)[row].clone() for name in names}
        return {name: tensors.get_tensor(name).clone() for name in names}


def _of_pickle(file: Path, skip: re.Pattern[str] | None) -> Mapping[str, Any]:
    checkpoint = read_torch_checkpoint(file)
    tensors = checkpoint.tensors(checkpoint.root)
    return {name: tensor for name, tensor in tensors.items() if not (skip and skip.fullmatch(name))}
