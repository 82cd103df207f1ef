"""The settings and weights in a model's folder, each checked when it is taken.

    *.json                                             settings, as a dataclass says
    model.safetensors, pytorch_model.bin               weights
    model.safetensors.index.json, pytorch_model.bin.index.json   which shards have the weights

Of weights none is missing, left over, of another shape or type, or not finite. Nothing of a file is run, and nothing
outside the folder is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
NOT_WHOLE = "The checkpoint is not whole, or not of this class"
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
FORMS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
FIX = "Fetch the files again"


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


def load_strictly(module: Any, state: Mapping[str, Any], path: Path) -> Any:
    """A torch module with the tensors of a state dict, which are those that it has, of their shapes, and numbers.

    Args:
        module: the module, usually on the device "meta".
        state: its state dict, without gradients; the module holds these tensors, in their precision.
        path: the file or folder, for messages.

    Raises:
        ModelLoadError: a tensor is missing, left over, of another shape, not floating point or not finite.
    """
    try:
        module.load_state_dict(state, assign=True)
    except RuntimeError as error:
        # Behind its first line torch names what is missing, unexpected or of another shape.
        problem = " ".join(str(error).partition(":")[2].split())[:400].rstrip(".")
        raise ModelLoadError(problem, where=str(path), fix=NOT_WHOLE) from error
    check_finite(module.named_parameters(), path)
    return module.requires_grad_(False)


def check_finite(weights: Iterable[tuple[str, Any]], path: Path) -> None:
    """Raises ModelLoadError for a weight that is not a finite number: attention may hide it from the outputs."""
    import torch

    for name, weight in weights:
        # An infinite or undefined number anywhere shows in the least or the greatest.
        if not weight.is_floating_point():
            raise ModelLoadError(f"{name} is of {weight.dtype}", where=str(path), fix=NOT_WHOLE)
        if weight.numel() and not torch.stack(weight.detach().aminmax()).isfinite().all():
            problem = f"{name} holds numbers that are not finite"
            fix = "The file is damaged, or training went wrong: get another"
            raise ModelLoadError(problem, where=str(path), fix=fix)


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
