"""The tensors of a safetensors file by its header, without loading one.

The file begins with the length of its header (8 bytes), a JSON object that says of every tensor its type, shape and
place, and then the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ....errors import InputError, excerpt
from ....storage.bounded_files import check_regular
from ....storage.json_and_yaml import parse_small_json
from ....storage.limits import limits, more

FETCH = "Fetch the file again"
LENGTH_BYTES = 8
METADATA = "__metadata__"
# Bits of one number, by the name of its type; tensors of other types are taken as they say.
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorFile:
    """What the header of a file of weights says.

    Attributes:
        path: the file.
        shapes: of every tensor, by its name.
    """

    path: Path
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def num_elements(self) -> int:
        """How many numbers it holds."""
        return sum(map(prod, self.shapes.values()))


def read_header(path: Path) -> TensorFile:
    """The header of a safetensors file.

    Raises:
        InputError: the file is not whole, its header too large or broken, or says of a tensor what cannot be.
    """
    size = check_regular(path, FETCH).st_size
    with open(path, "rb") as file:
        start = file.read(LENGTH_BYTES)
        header_bytes = int.from_bytes(start, "little")
        bound = limits().json_bytes
        if len(start) < LENGTH_BYTES:
            raise _broken(path, f"it has {size} bytes")
        if header_bytes > size - LENGTH_BYTES:
            raise _broken(path, f"its header has {header_bytes} bytes, the file has {size}")
        if header_bytes > bound:
            problem = f"its header has {header_bytes} bytes, at most {bound} are read"
            raise InputError(problem, where=str(path), fix=more("json_bytes"))
        header = parse_small_json(file.read(header_bytes), str(path), FETCH)
    if not isinstance(header, dict):
        raise _broken(path, f"its header is {excerpt(header)}, expected an object")
    header.pop(METADATA, None)
    limits().check("tensors", len(header), str(path))
    room = size - LENGTH_BYTES - header_bytes
    return TensorFile(
        path, {name: _shape(path, name, about, room) for name, about in header.items()}
    )


def _shape(
    path: Path,
    name: str,
    about: Any,
    room: int,
) -> tuple[int, ...]:
    """The shape of a tensor; its numbers must stand in the `room` bytes behind the header."""
    if not isinstance(about, dict):
        raise _broken(path, f"{name!r:.60} is {excerpt(about)}")
    shape: Any = about.get("shape")
    offsets: Any = about.get("data_offsets")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise _broken(path, f"{name!r:.60} has the shape {excerpt(shape)} at {excerpt(offsets)}")
    first, end = offsets
    bits = BITS.get(str(about.get("dtype")))
    if not first <= end <= room or (bits and prod(shape) * bits != 8 * (end - first)):
        kind = f"{about.get('dtype')!r:.20} {excerpt(shape)}"
        problem = f"{name!r:.60}, {kind}, stands at {excerpt(offsets)} of {room} bytes"
        raise _broken(path, problem)
    return tuple(shape)


def _are_counts(values: Any) -> bool:
    """Whether these are whole numbers from 0."""
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _broken(path: Path, problem: str) -> InputError:
    return InputError(f"not whole: {problem}", where=str(path), fix=FETCH)
