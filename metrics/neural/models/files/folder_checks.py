"""Checks of a model's files before anything loads it: kinds and sizes of files, loops in the configuration.

Nothing here imports torch or transformers, and nothing reads more than the bounds of `Limits` allow. The bytes of the
weights bound the model itself: `pretrained` counts its numbers while it is built without memory, so of a configuration
only what is repeated (layers, heads, experts, labels) is looked at here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import begins_as_archive, check_regular, read_small_file
from ....storage.json_and_yaml import parse_small_json
from ....storage.limits import limits, more
from .gguf_files import SUFFIX, check_gguf, is_gguf, read_gguf
from .torch_checkpoint import check_torch_checkpoint

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
FIX, FETCH = "Is this the folder of a transformers model?", "Fetch the model again"
# Weights that an index names: files of the folder itself.
SHARD = re.compile(r"[\w.-]+\.(safetensors|bin)")
# The files that loaders of models open, by their names; other files in a folder are not looked at.
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.ckpt", "*.pt", "*.pth")
TOKENIZER_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
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
# Objects of JSON, which are parsed; and files that are only not too large.
OBJECTS = (
    CONFIG,
    "tokenizer_config.json",
    "generation_config.json",
    "*processor_config.json",
    "adapter_config.json",
    "sentence_*_config.json",
    "config_sentence_transformers.json",
    "special_tokens_map.json",
    "sescore2.json",
    "*.index.json",
)
OTHER_FILES = (*TOKENIZER_FILES, "modules.json", "hparams.yaml", "chat_template.*", "*.jinja")
# Folders in it whose files are opened, too.
INSIDE = {"checkpoints": "*.ckpt", "additional_chat_templates": "*.jinja"}
# A folder that holds a model has at least one of these.
SIGNS = (CONFIG, "hparams.yaml", "*.ckpt", "checkpoints", "modules.json")
TENSORFLOW = "saved_model.pb"
# Keys of what a class of transformers repeats in a loop, and the limit on their values. The number of a single layer
# (vision_feature_layer) may be below 0.
REPEATED = {
    "layers": re.compile(r"(\w+_)?(layers|heads|experts|depths?)|n_(layer|head)|attention_types"),
    "entries": re.compile(r"_?num_labels"),
}
# Keys of the longest text that a model reads.
POSITIONS = re.compile(r"max_position_embeddings|n_positions")
# Of the length of the header, with which a safetensors file begins.
LENGTH_BYTES = 8


def check_model(path: Path, weights: bool = True) -> None:
    """Check a model's folder, or its one file.

    Args:
        path: the folder or file.
        weights: whether its weights will be loaded, not its configuration and tokenizer alone.

    Raises:
        ModelLoadError: there are no weights, or they are not whole; a file that its loaders would open is a device, a
            pipe or a folder, or too large; the configuration is not a JSON object, or repeats something too often.
    """
    try:
        if path.is_dir():
            _check_folder(path, weights)
        elif is_gguf(path):
            check_gguf(path)
        else:
            check_regular(path, "Give a model's folder or file")
            _check_weights(path)
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
    files = [folder / name for name in names]
    files += [file for inside, own in INSIDE.items() for file in (folder / inside).glob(own)]
    for file in files:
        _check_file(file)
    has_weights = any(_matches(name, (*WEIGHT_FILES, *INSIDE, "modules.json")) for name in names)
    is_model = CONFIG in names and "model_type" in _settings(folder / CONFIG)
    if weights and is_model and not has_weights:
        problem = "no weights, expected model.safetensors or pytorch_model.bin"
        raise ModelLoadError(problem, where=str(folder), fix=FIX)
    for file in (*tensor_files(folder), *sorted(folder.glob("pytorch_model*.bin"))):
        _check_weights(file)


def _check_file(path: Path) -> None:
    """Raises InputError for what is not a file under a name that loaders open, or too large; settings are parsed."""
    if _matches(path.name, WEIGHT_FILES):
        check_regular(path, FIX)
    elif _matches(path.name, OBJECTS):
        for key, value in _numbers(_settings(path)):
            _check_repeated(key.rpartition(".")[2], value, f"{path}: {key}")
    elif (
        _matches(path.name, OTHER_FILES) and check_regular(path, FIX).st_size > limits().file_bytes
    ):
        problem = f"larger than {limits().file_bytes} bytes"
        raise InputError(problem, where=str(path), fix=more("file_bytes"))


def _settings(path: Path) -> dict[str, Any]:
    """The JSON object in a file; raises InputError."""
    values = parse_small_json(read_small_file(path, FIX), str(path), FIX)
    if not isinstance(values, dict):
        problem = f"found {excerpt(values)}, expected a JSON object"
        raise InputError(problem, where=str(path), fix=FIX)
    return values


def _numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The whole numbers of settings, those inside objects and lists too, each with its dotted key."""
    waiting: list[tuple[str, Any]] = list(settings.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{key}.{inner}", inside) for inner, inside in value.items()]
        elif isinstance(value, list):
            waiting += [(key, inside) for inside in value]
        elif type(value) is int:
            yield key, value


def _check_repeated(key: str, number: int, where: str) -> None:
    """Raises InputError for more layers, heads, experts or labels than are read, or fewer than none; or positions."""
    if number < 0 and POSITIONS.fullmatch(key):
        raise InputError(f"found {number}, expected 0 or more", where=where, fix=FETCH)
    for limit, pattern in REPEATED.items():
        bound = getattr(limits(), limit)
        if pattern.fullmatch(key) and not 0 <= number <= bound:
            problem = f"found {excerpt(number)}, expected 0 to {bound}"
            raise InputError(problem, where=where, fix=more(limit))


def num_elements(path: Path) -> int:
    """How many numbers the weights of a model's folder or GGUF file hold; of a pickle, as many as its bytes.

    Raises:
        InputError: a file is not whole.
    """
    if is_gguf(path):
        return sum(int(tensor.n_elements) for tensor in read_gguf(path).tensors)
    held = sum(map(num_in_header, tensor_files(path)))
    return held or sum(file.stat().st_size for file in path.glob("pytorch_model*.bin"))


def tensor_files(folder: Path) -> list[Path]:
    """The files of weights in safetensors: those that the index names if there is one, else all."""
    index = folder / INDEX
    return shards_of(index) if index.exists() else sorted(folder.glob("*.safetensors"))


def shards_of(index: Path) -> list[Path]:
    """The files of weights that an index names, in order of their names.

    Raises:
        InputError: it is not an index, or names anything but files of its folder.
    """
    shards = _settings(index).get("weight_map")
    if not isinstance(shards, dict):
        raise InputError("no weight_map", where=str(index), fix=FIX)
    for name in shards.values():
        if not isinstance(name, str) or not SHARD.fullmatch(name):
            problem = f"found {excerpt(name)}, expected the name of a file in the folder"
            raise InputError(problem, where=str(index), fix=FETCH)
        check_regular(index.parent / name, FETCH)
    return [index.parent / name for name in sorted(set(shards.values()))]


def _check_weights(path: Path) -> None:
    """Raises InputError or ModelLoadError for weights that are not whole or over a bound; passes over other files."""
    if path.suffix == ".safetensors":
        num_in_header(path)
    elif _matches(path.name, WEIGHT_FILES) and begins_as_archive(path):
        check_torch_checkpoint(path)


def num_in_header(path: Path) -> int:
    """How many numbers a safetensors file holds; the library holds its header against it, shape by shape.

    Raises:
        InputError: the file is not whole, or its header is too large or broken.
    """
    from safetensors import SafetensorError, safe_open

    size, bound = check_regular(path, FETCH).st_size, limits().file_bytes
    with open(path, "rb") as file:
        header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if bound < header_bytes <= size:
        problem = f"its header has {header_bytes} bytes, at most {bound} are read"
        raise InputError(problem, where=str(path), fix=more("file_bytes"))
    try:
        with safe_open(path, framework="numpy") as tensors:
            names = tensors.keys()
            limits().check("entries", len(names), str(path), what="tensors")
            return sum(prod(tensors.get_slice(name).get_shape()) for name in names)
    except (SafetensorError, OSError) as error:
        problem = f"not whole: {' '.join(str(error).split())[:160]}"
        raise InputError(problem, where=str(path), fix=FETCH) from error


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
