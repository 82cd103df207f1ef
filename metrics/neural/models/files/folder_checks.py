"""Looks at the files of a model before anything loads it: kinds and sizes of files, numbers of the configuration.

Nothing here imports torch or transformers, and nothing reads more than the bounds of `Limits` allow, so that what
cannot be a model is refused at once. A tensor is looked at by its entry in the header of its file alone.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import YAML_BYTES, begins_as_archive, check_regular, read_small_file
from ....storage.json_and_yaml import parse_small_json
from ....storage.limits import limits, more
from .gguf_files import SUFFIX, check_gguf, is_gguf, read_gguf
from .model_sizes import check_needed, check_numbers, check_weights, read_header
from .torch_checkpoint import check_torch_checkpoint

CONFIG = "config.json"
FIX, FETCH = "Is this the folder of a transformers model?", "Fetch the model again"
# Weights that an index names: files of the folder itself.
SHARD = re.compile(r"[\w.-]+\.(safetensors|bin)")
# What the loaders of models open, by their names; other files in a folder are not looked at.
SMALL_FILES = (
    CONFIG,
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "adapter_config.json",
    "special_tokens_map.json",
    "sescore2.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*.index.json",
    "chat_template.*",
    "*.jinja",
)
YAML_FILES = ("hparams.yaml",)
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.ckpt", "*.pt", "*.pth")
TOKENIZER_FILES = (
    "tokenizer*.json",
    "added_tokens.json",
    "vocab.*",
    "vocab*.json",
    "vocab*.txt",
    "merges.txt",
    "dict*.txt",
    "*.model",
    "*.spm",
    "*.bpe*",
    "*.tiktoken",
)
# Folders in it whose files are opened, too.
INSIDE = {"checkpoints": "*.ckpt", "additional_chat_templates": "*.jinja"}
# Of which a folder that holds a model has at least one.
SIGNS = (CONFIG, "hparams.yaml", "*.ckpt", "checkpoints", "modules.json")
TENSORFLOW = "saved_model.pb"


def check_model(path: Path, weights: bool = True) -> None:
    """Looks at a model's folder, or at its one file.

    Args:
        path: the folder or file.
        weights: whether its weights will be loaded, not its configuration and tokenizer alone.

    Raises:
        ModelLoadError: there are no weights; a file that its loaders would open is a device, a pipe or a folder, or
            too large; the configuration is no JSON object, lacks a size or has numbers that no model has; the weights
            are not whole, or cannot be those of such a model.
    """
    try:
        if path.is_dir():
            _check_folder(path, weights)
        else:
            check_regular(path, "Give a model's folder or file")
            _check_weights_of(path)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ModelLoadError(problem, where=str(error.filename or path), fix=FIX) from error
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix or FIX) from None


def gguf_file_in(path: Path) -> Path | None:
    """The one GGUF file of a folder that has no other weights, None of any other path.

    Raises:
        ModelLoadError: it has several, or cannot be listed.
    """
    if not path.is_dir():
        return None
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ModelLoadError(problem, where=str(path), fix=FIX) from error
    files = [name for name in names if name.endswith(SUFFIX)]
    if not files or any(_matches(name, (*WEIGHT_FILES, *INSIDE)) for name in names):
        return None
    if len(files) > 1:
        problem = f"holds {len(files)} GGUF files"
        raise ModelLoadError(problem, where=str(path), fix=f"Name one: {path / files[0]}")
    return path / files[0]


def _check_folder(folder: Path, weights: bool) -> None:
    """Raises InputError or ModelLoadError as `check_model` does."""
    names = sorted(os.listdir(folder))
    if TENSORFLOW in names:
        fix = "Take the converted form for torch; of BLEURT such as lucadiliello/BLEURT-20"
        raise ModelLoadError("is a SavedModel of TensorFlow", where=str(folder), fix=fix)
    if not any(_matches(name, SIGNS) for name in names):
        raise ModelLoadError(f"there is no {CONFIG} in it", where=str(folder), fix=FIX)
    for name in names:
        _check_file(folder / name, name)
    for inside, pattern in INSIDE.items():
        for file in sorted((folder / inside).glob(pattern)):
            _check_file(file, file.name)
    if CONFIG in names:
        _check_config(folder, weights and "modules.json" not in names)


def _check_file(path: Path, name: str) -> None:
    """Raises InputError for a file of a known name that is no file, or too large; small ones are read and parsed."""
    if _matches(name, WEIGHT_FILES):
        check_regular(path, FIX)
    elif _matches(name, SMALL_FILES):
        data = read_small_file(path, FIX)
        if name.endswith(".json") and name != "modules.json":
            _check_object(parse_small_json(data, str(path), FIX), path)
    elif _matches(name, YAML_FILES):
        read_small_file(path, FIX, YAML_BYTES)
    elif _matches(name, TOKENIZER_FILES):
        bound = limits().file_bytes
        if check_regular(path, FIX).st_size > bound:
            problem = f"larger than {bound} bytes"
            raise InputError(problem, where=str(path), fix=more("file_bytes"))


def _check_object(value: Any, path: Path) -> None:
    if not isinstance(value, dict):
        problem = f"found {excerpt(value)}, expected a JSON object"
        raise InputError(problem, where=str(path), fix=FIX)


def _check_config(folder: Path, weights: bool) -> None:
    """Raises InputError for a configuration of numbers that no model has, or other weights than its own."""
    path = folder / CONFIG
    config = parse_small_json(read_small_file(path, FIX), str(path), FIX)
    check_numbers(config, str(path))
    files = [read_header(file) for file in _tensor_files(folder)]
    archives = sorted(folder.glob("pytorch_model*.bin"))
    if weights and "model_type" in config:
        check_needed(config, str(path))
        if not files and not any(
            _matches(name, (*WEIGHT_FILES, *INSIDE)) for name in os.listdir(folder)
        ):
            problem = "no weights, expected model.safetensors or pytorch_model.bin"
            raise ModelLoadError(problem, where=str(folder), fix=FIX)
    for file in archives:
        _check_archive_of(file)
    if files:
        check_weights(config, files, str(folder))


def num_elements(path: Path) -> int:
    """How many numbers the weights of a model's folder or GGUF file hold; of a pickle, as many as its bytes.

    Raises:
        InputError, ModelLoadError: as `check_model` does.
    """
    if is_gguf(path):
        return sum(int(tensor.n_elements) for tensor in read_gguf(path).tensors)
    counts = [read_header(file).num_elements for file in _tensor_files(path)]
    return sum(counts) or sum(file.stat().st_size for file in path.glob("pytorch_model*.bin"))


def _tensor_files(folder: Path) -> list[Path]:
    """The files of weights in safetensors: those that the index names if there is one, else all."""
    index = folder / "model.safetensors.index.json"
    return shards_of(index) if index.exists() else sorted(folder.glob("*.safetensors"))


def shards_of(index: Path) -> list[Path]:
    """The files of weights that an index names, in order of their names.

    Raises:
        InputError: it is no index, or names anything but files of its folder.
    """
    about = parse_small_json(read_small_file(index, FIX), str(index), FIX)
    shards = about.get("weight_map") if isinstance(about, dict) else None
    if not isinstance(shards, dict):
        raise InputError("no weight_map", where=str(index), fix=FIX)
    for name in shards.values():
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            problem = f"found {excerpt(name)}, expected the name of a file in the folder"
            raise InputError(problem, where=str(index), fix=FETCH)
        check_regular(index.parent / name, FETCH)
    return [index.parent / name for name in sorted(set(shards.values()))]


def _check_weights_of(path: Path) -> None:
    """Raises InputError or ModelLoadError for a model's one file."""
    if is_gguf(path):
        check_gguf(path)
    else:
        _check_archive_of(path)


def _check_archive_of(path: Path) -> None:
    """Raises InputError or ModelLoadError for weights that are not whole or over a bound; passes over other files."""
    if path.suffix == ".safetensors":
        read_header(path)
    elif _matches(path.name, WEIGHT_FILES) and begins_as_archive(path):
        check_torch_checkpoint(path)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
