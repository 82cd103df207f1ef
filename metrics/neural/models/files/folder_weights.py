"""The weights in the folder of a transformers model, by name, in any of the four forms that such folders have.

    model.safetensors,  model.safetensors.index.json and its shards,
    pytorch_model.bin,  pytorch_model.bin.index.json and its shards

Nothing of a file is run, and nothing outside the folder is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import read_small_file
from ....storage.json_and_yaml import parse_small_json
from .torch_archive import open_archive

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
FORMS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
# The shards that an index names: files of the folder itself.
SHARD = re.compile(r"[\w.-]+\.(safetensors|bin)")
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
        if path.is_file():
            return _shards(path) if form.endswith(".json") else [path]
    problem = f"no weights, expected {SAFETENSORS} or {PICKLE} or an index of their shards"
    raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")


def _shards(index: Path) -> list[Path]:
    """The files that an index names, in order of their names."""
    try:
        weight_map = parse_small_json(read_small_file(index, FIX), str(index), FIX)["weight_map"]
        names = sorted(set(weight_map.values()))
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelLoadError(f"is no index ({error})", where=str(index), fix=FIX) from error
    for name in names:
        if not SHARD.fullmatch(name):
            problem = f"names the shard {excerpt(name)}, expected a file of the folder"
            raise ModelLoadError(problem, where=str(index), fix=FIX)
        if not (index.parent / name).is_file():
            raise ModelLoadError(f"its shard {name} is not there", where=str(index), fix=FIX)
    return [index.parent / name for name in names]


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
    import torch

    open_archive(file)  # refuses what is no archive of torch, before torch reads it
    state = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    if not isinstance(state, dict):
        raise ModelLoadError(f"found {excerpt(state)}, expected tensors", where=str(file), fix=FIX)
    return {name: tensor for name, tensor in state.items() if not (skip and skip.fullmatch(name))}
