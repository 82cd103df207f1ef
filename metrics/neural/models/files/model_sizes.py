"""The size of a model by its configuration and by the headers of its weights, before anything loads it.

Configurations of different families name the same size differently; here a key belongs to the bound (see `Limits`) of
the first pattern that its name matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import check_regular
from ....storage.limits import limits, more

# Keys that say nothing else: what they hold must be whole numbers.
SIZES: Mapping[str, re.Pattern[str]] = {
    "tokens": re.compile(r"(\w+_)?vocab_size"),
    "layers": re.compile(
        r"num_hidden_layers|n_layers?|num_layers|num_(en|de)coder_layers|(en|de)coder_layers|"
        r"num_attention_heads|num_key_value_heads|n_heads?|num_heads|(en|de)coder_attention_heads|"
        r"num_(local_)?experts|n_routed_experts"
    ),
    "width": re.compile(
        r"(\w+_)?hidden_size|(\w+_)?intermediate_size|embedding_size|d_model|d_ff|d_kv|d_inner|n_embd|n_inner|"
        r"(en|de)coder_ffn_dim|head_dim|_?num_labels"
    ),
    "positions": re.compile(r"max_position_embeddings|n_positions|n_ctx"),
}
# Keys that may say something else: a whole number in them is in bounds.
LIKE_SIZES: Mapping[str, re.Pattern[str]] = {
    "layers": re.compile(r"\w*(layer|head|expert)s?"),
    "width": re.compile(r"\w*_dim|dim"),
}
# Sizes that a model of any family has, and that its family would choose where a configuration leaves them out.
NEEDED: Mapping[str, re.Pattern[str]] = {
    "num_hidden_layers": re.compile(r"\w*layers?"),
    "hidden_size": re.compile(r"(\w+_)?hidden_size|d_model|n_embd|(hidden_|embed_)?dim"),
    "vocab_size": re.compile(r"(?!type_)(\w+_)?vocab_size"),
}
PARTS = 4  # configurations inside configurations
FIX = "Fetch the model's files again"
# How many times the numbers of its files a model may have: copies, and parts that no metric reads.
MAX_RATIO, FEW_NUMBERS = 2, 1 << 22
# Of the length of the header, with which a safetensors file begins.
LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file of weights by its header: the shapes of its tensors by their names."""

    path: Path
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def num_elements(self) -> int:
        """Number of its weights."""
        return sum(map(prod, self.shapes.values()))


def read_header(path: Path) -> TensorFile:
    """The header of a safetensors file; the library holds it against the file, shape by shape.

    Raises:
        InputError: the file is not whole, or its header is too large or broken.
    """
    from safetensors import SafetensorError, safe_open

    size = check_regular(path, FIX).st_size
    with open(path, "rb") as file:
        header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
    bound = limits().file_bytes
    if bound < header_bytes <= size:
        problem = f"its header has {header_bytes} bytes, at most {bound} are read"
        raise InputError(problem, where=str(path), fix=more("file_bytes"))
    try:
        with safe_open(path, framework="numpy") as tensors:
            names = tensors.keys()
            limits().check("entries", len(names), str(path), what="tensors")
            return TensorFile(
                path, {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
            )
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).removeprefix("Error while deserializing header: ")
        problem = f"not whole: {' '.join(reason.split())[:160]}"
        raise InputError(problem, where=str(path), fix=FIX) from error


def check_numbers(config: Any, where: str) -> None:
    """Looks at the sizes in a configuration and in those of its parts.

    Raises:
        InputError: one is no whole number, below 0 or over its bound; with its key.
    """
    for key, value in _sizes(config):
        plain = key.rpartition(".")[2]
        place = f"{where}: {key}"
        name = _name(SIZES, plain)
        if name:
            _check_whole(value, place)
        name = name or _name(LIKE_SIZES, plain)
        if name and type(value) is int:
            _check_bound(name, value, place)


def check_needed(config: Mapping[str, Any], where: str) -> None:
    """Whether a configuration says how large its model is.

    Raises:
        InputError: it leaves a size out, so that the model would be as large as its family usually is.
    """
    said = {key.rpartition(".")[2] for key, value in _sizes(config) if type(value) is int}
    for name, pattern in NEEDED.items():
        if not any(map(pattern.fullmatch, said)):
            problem = "is missing, so that the model might have any size"
            raise InputError(problem, where=f"{where}: {name}", fix=FIX)


def check_elements(needed: int, held: int, where: str) -> None:
    """Raises ModelLoadError for a model of far more numbers than its files hold, before it takes their memory."""
    if needed > MAX_RATIO * held + FEW_NUMBERS:
        problem = f"its configuration needs {needed} numbers, its files hold {held}"
        raise ModelLoadError(problem, where=where, fix=FIX)


def check_weights(config: Mapping[str, Any], files: Sequence[TensorFile], where: str) -> None:
    """Whether weights can be those of a model of this configuration.

    A layer has at least one tensor, and one row of tokens' vectors is as wide as an embedding.

    Raises:
        ModelLoadError: they are too few; tells the numbers.
    """
    tensors = sum(len(file.shapes) for file in files)
    elements = sum(file.num_elements for file in files)
    layers = _number(config, "num_hidden_layers")
    vocabulary = _number(config, "vocab_size")
    widths = [
        _number(config, key) for key in ("embedding_size", "input_embedding_size", "hidden_size")
    ]
    width = min((number for number in widths if number), default=0)
    shared = "num_hidden_groups" in config  # layers of ALBERT are copies of a few
    quantized = "quantization_config" in config
    if layers > tensors and not shared:
        problem = f"num_hidden_layers is {layers}, its files hold {tensors} tensors"
    elif vocabulary * width > elements and not quantized:
        problem = (
            f"{vocabulary} tokens with {width} numbers each, its files hold {elements} numbers"
        )
    else:
        return
    raise ModelLoadError(problem, where=where, fix=FIX)


def _sizes(config: Any, parts: int = PARTS) -> Iterator[tuple[str, Any]]:
    """Keys and values of a configuration and of those inside it; a list of numbers, as of layers, one by one."""
    if not isinstance(config, Mapping):
        return
    for key, value in config.items():
        if isinstance(value, Mapping):
            for inner, number in _sizes(value, parts - 1) if parts else ():
                yield f"{key}.{inner}", number
        elif isinstance(value, list):
            for number in value:
                yield key, number
        else:
            yield key, value


def _name(patterns: Mapping[str, re.Pattern[str]], key: str) -> str:
    """The bound that a key belongs to; empty if none."""
    return next((name for name, pattern in patterns.items() if pattern.fullmatch(key)), "")


def _check_whole(value: Any, where: str) -> None:
    """Raises InputError for what is no whole number from 0; null, which leaves the size to the model, is none."""
    if value is None or (type(value) is int and value >= 0):
        return
    problem = f"found {excerpt(value)}, expected a whole number from 0"
    raise InputError(problem, where=where, fix=FIX)


def _check_bound(name: str, value: int, where: str) -> None:
    bound = getattr(limits(), name)
    if value > bound:
        problem = f"found {excerpt(value)}, at most {bound} {name} are read"
        raise InputError(problem, where=where, fix=more(name))


def _number(config: Mapping[str, Any], key: str) -> int:
    """A size, 0 if it is not there."""
    value = config.get(key)
    return value if type(value) is int else 0
