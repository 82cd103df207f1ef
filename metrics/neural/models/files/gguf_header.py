"""The metadata and tensors of a GGUF file by its header, looked at before any library reads the file.

    "GGUF" | version u32 | tensors u64 | entries u64 | entries (key, type, value) | tensors (name, shape, type, place)
and then, from a multiple of the alignment on, the numbers of the tensors. Texts and arrays stand behind their lengths.
Every length, count and place is held against the size of the file and the bounds of `Limits` before it is followed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from ....errors import InputError, ModelLoadError, excerpt
from ....optional_packages import require
from ....storage.bounded_files import check_regular
from ....storage.limits import limits, more
from .model_numbers import check_numbers, check_weights
from .tensor_headers import FETCH, TensorFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DIMENSIONS = 4
ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 16
# Codes of types: how struct reads one value.
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
TEXT, ARRAY = 8, 9
# Keys behind the name of the architecture, and what a configuration of transformers calls them.
NUMBERS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "d_kv",
    "context_length": "max_position_embeddings",
    "expert_count": "num_experts",
    "vocab_size": "vocab_size",
}


def check_gguf(path: Path) -> None:
    """Looks at a GGUF file: whether it is whole, within the bounds, and of a model whose weights it holds.

    Raises:
        InputError: it is not whole, or says of itself what cannot be.
        ModelLoadError: the packages that read it are not installed; it is one part of several; its weights cannot be
            those of such a model.
    """
    require(str(path), "gguf", "accelerate")
    header = read_gguf_header(path)
    where = str(path)
    if header.metadata.get("split.count", 1) != 1:
        problem = f"is one part of {header.metadata['split.count']}"
        raise ModelLoadError(problem, where=where, fix="Join the parts: llama-gguf-split --merge")
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise _broken(where, "no general.architecture")
    config = {}
    for key, name in NUMBERS.items():
        value = header.metadata.get(f"{architecture}.{key}")
        if value is not None:
            config[name] = value
    config.setdefault("vocab_size", header.array_lengths.get("tokenizer.ggml.tokens", 0))
    check_numbers(config, where)
    if type(config.get("hidden_size")) is int:
        check_weights(config, [TensorFile(path, header.shapes)], where)


@dataclass(slots=True)
class GgufHeader:
    """What the header says.

    Attributes:
        metadata: numbers, truth values and texts by their keys.
        array_lengths: of the arrays, by their keys.
        shapes: of the tensors, by their names.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    array_lengths: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of a GGUF file; raises InputError for one that is not whole, or larger than the bounds."""
    size = check_regular(path, FETCH).st_size
    with open(path, "rb") as file:
        return _Reader(file, str(path), size).header()


class _Reader:
    """Reads a header from the front to the back; nothing behind the end of the file, or over a bound, is believed."""

    def __init__(self, file: BinaryIO, where: str, size: int) -> None:
        self.file, self.where, self.size = file, where, size
        self.at = 0
        self.num_items = 0  # of all arrays

    def header(self) -> GgufHeader:
        """The whole header."""
        magic = self.bytes(len(MAGIC))
        if magic != MAGIC:
            raise _broken(self.where, f"it begins with {magic!r}, expected {MAGIC!r}")
        version = self.number("I")
        if version not in VERSIONS:
            known = " or ".join(map(str, VERSIONS))
            problem = f"version {version} of GGUF, expected {known} (little-endian)"
            raise InputError(problem, where=self.where, fix="Convert the model again")
        num_tensors, num_entries = self.number("Q"), self.number("Q")
        limits().check("tensors", num_tensors, self.where)
        limits().check("members", num_entries, self.where)
        header = GgufHeader()
        for _ in range(num_entries):
            self.entry(header)
        places = [self.tensor(header) for _ in range(num_tensors)]
        self.check_places(header.metadata.get("general.alignment", ALIGNMENT), places)
        return header

    def entry(self, header: GgufHeader) -> None:
        """Reads a key and its value."""
        key, kind = self.text(), self.number("I")
        if key in header.metadata or key in header.array_lengths:
            raise _broken(self.where, f"the key {key!r:.60} stands there twice")
        if kind == ARRAY:
            header.array_lengths[key] = self.array(key)
        elif kind == TEXT:
            header.metadata[key] = self.text()
        else:
            header.metadata[key] = self.number(self.scalar(kind, key))

    def array(self, key: str) -> int:
        """Passes over an array; its length."""
        kind = self.number("I")
        length: int = self.number("Q")
        self.num_items += length
        if self.num_items > limits().vocabulary:
            problem = f"arrays of more than {limits().vocabulary} items (up to {key!r:.60})"
            raise InputError(problem, where=self.where, fix=more("vocabulary"))
        if kind == TEXT:
            for _ in range(length):
                self.skip(self.number("Q"))
        else:
            self.skip(length * struct.calcsize(self.scalar(kind, key)))
        return length

    def tensor(self, header: GgufHeader) -> tuple[str, int, int]:
        """Reads what is said of a tensor: its name, the place of its numbers and their bytes."""
        name, dimensions = self.text(), self.number("I")
        if name in header.shapes:
            raise _broken(self.where, f"the tensor {name!r:.60} stands there twice")
        if not 1 <= dimensions <= DIMENSIONS:
            raise _broken(self.where, f"{name!r:.60} has {dimensions} dimensions")
        sizes = [self.number("Q") for _ in range(dimensions)]
        kind, place = self.number("I"), self.number("Q")
        block, block_bytes = _block_sizes().get(kind, (0, 0))
        if not block or sizes[0] % block or not all(sizes):
            raise _broken(self.where, f"{name!r:.60} is {excerpt(sizes)} of the type {kind}")
        header.shapes[name] = tuple(reversed(sizes))
        return name, place, prod(sizes) // block * block_bytes

    def check_places(self, alignment: Any, places: list[tuple[str, int, int]]) -> None:
        """Raises InputError unless the numbers of all tensors stand in the file, none of them twice."""
        if type(alignment) is not int or not 1 <= alignment <= MAX_ALIGNMENT:
            raise _broken(self.where, f"general.alignment is {excerpt(alignment)}")
        if alignment & (alignment - 1):
            raise _broken(self.where, f"general.alignment is {alignment}, no power of two")
        room = self.size - self.at - -self.at % alignment
        end = 0
        for name, place, num_bytes in sorted(places, key=lambda tensor: tensor[1:]):
            if not end <= place <= room - num_bytes or place % alignment:
                problem = f"{name!r:.60} stands at {place}, {num_bytes} bytes of {room}"
                raise _broken(self.where, problem)
            end = place + num_bytes

    def scalar(self, kind: int, key: str) -> str:
        """How struct reads a value of a type."""
        if kind not in SCALARS:
            raise _broken(self.where, f"{key!r:.60} is of the type {kind}")
        return SCALARS[kind]

    def number(self, form: str) -> Any:
        """One number of a form of struct."""
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(form)))[0]

    def text(self) -> str:
        """A text behind its length."""
        data = self.bytes(self.number("Q"))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise _broken(self.where, f"{data[:40]!r} is no UTF-8") from None

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        self.advance(count)
        data = self.file.read(count)
        if len(data) < count:
            raise _broken(self.where, "it became shorter while it was read")
        return data

    def skip(self, count: int) -> None:
        """Passes over bytes."""
        self.advance(count)
        self.file.seek(count, os.SEEK_CUR)

    def advance(self, count: int) -> None:
        """Raises InputError if there are not so many bytes more, or the header becomes larger than is read."""
        if count > self.size - self.at:
            raise _broken(self.where, f"{count} bytes at {self.at}, the file has {self.size}")
        self.at += count
        if self.at > limits().tokenizer_bytes:
            problem = f"its header has more than {limits().tokenizer_bytes} bytes"
            raise InputError(problem, where=self.where, fix=more("tokenizer_bytes"))


def _block_sizes() -> Mapping[int, tuple[int, int]]:
    """By the code of a type of numbers: how many stand in a block, and the bytes of one."""
    from gguf import GGML_QUANT_SIZES

    return {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}


def _broken(where: str, problem: str) -> InputError:
    return InputError(f"not whole: {problem}", where=where, fix=FETCH)
