"""Reads a torch checkpoint as inert data: no class of the file is imported and nothing that it names is called.

A torch checkpoint is a zip archive (see `torch_archive`) of one pickle, ``data.pkl``, and of one entry of raw numbers
per storage. Here the pickle builds only plain values and `Inert` objects that remember what they stood for; tensors are
made afterwards, on request, as views of the mapped file whose every size, stride and offset has been checked. So a
hostile file yields an object named ``posix.system`` and not its effect. It knows no model.

What a pickle can do, and what stands in its way:

    names a class or function       `_Unpickler.find_class` makes an empty class of that name, and looks nothing up
    calls what it named             `Inert` keeps the arguments of the call
    sets its state, fills it        `Inert.__setstate__` takes dictionaries, `_dropped` takes nothing
    names a storage                 `_Unpickler.persistent_load` keeps the name; `_numbers` checks it, when asked
    makes a tensor of any view      `_tensor` checks that the view stays inside its storage
    makes room without bounds       limits on bytes, memo places, classes, parts, characters and dimensions, below
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

from ....errors import excerpt
from ....storage.limits import limits
from .torch_archive import Archive, open_archive

__all__ = ["Inert", "InertCheckpoint", "open_archive", "read_inert"]

# Distinct classes in one file.
NAMES = 1 << 12
# Tensors and modules in one tree.
ENTRIES = 1 << 16
# Characters in the name of a tensor.
NAME_CHARACTERS = 1 << 10
# Numbers along one dimension, or from one to the next.
EXTENT = 1 << 48
DIMENSIONS = 64
# Class of a storage: torch's name for its numbers, and bytes of each.
STORAGES = {
    "torch.DoubleStorage": ("float64", 8),
    "torch.FloatStorage": ("float32", 4),
    "torch.HalfStorage": ("float16", 2),
    "torch.BFloat16Storage": ("bfloat16", 2),
    "torch.LongStorage": ("int64", 8),
    "torch.IntStorage": ("int32", 4),
    "torch.ShortStorage": ("int16", 2),
    "torch.CharStorage": ("int8", 1),
    "torch.ByteStorage": ("uint8", 1),
    "torch.BoolStorage": ("bool", 1),
}
# Makers of tensors, called with: storage, offset, size, stride, requires_grad, hooks and perhaps metadata.
TENSORS = frozenset({"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"})
# Makers of parameters, called with a tensor first.
PARAMETERS = frozenset(
    {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"}
)


class Inert:
    """Stands for an object of the file: the name of its class or maker, what that was called with, what it holds."""

    __slots__ = ("arguments", "attributes")
    path: ClassVar[str] = "unnamed"
    arguments: tuple[Any, ...]
    attributes: dict[Any, Any]

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Keeps the arguments of what the file would have called."""
        inert = super().__new__(cls)
        inert.arguments, inert.attributes = arguments, {}
        return inert

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, dict):
                self.attributes.update(part)

    def __call__(self, *_: Any, **__: Any) -> Self:
        """Itself: what the file would have called stays undone."""
        return self

    def __repr__(self) -> str:
        return f"<{self.path}>"

    def _dropped(self, *_: Any) -> None:
        """Takes what a list, a set or a mapping of a class of its own contained; no weights are kept so."""

    append = extend = add = __setitem__ = _dropped

    @property
    def is_module(self) -> bool:
        """Whether it stood for a torch module."""
        return "_modules" in self.attributes


class _InertStorage(Inert):
    """The numbers that tensors share, by the name of their entry; its arguments are what the pickle names it by."""

    __slots__ = ()
    path = "storage"


class _Ordered(dict[Any, Any]):
    """In place of an OrderedDict; without attributes, so that none can hide a method."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Version numbers of modules, of no use here."""


# The only classes that are not inert: containers, which hold what the file puts in and do nothing.
_PLAIN = {"collections.OrderedDict": _Ordered, "builtins.set": set, "__builtin__.set": set}


class _Unpickler(pickle.Unpickler):
    """Every name becomes a class of its own below `Inert`; none is looked up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._classes: dict[str, type] = {}

    def find_class(self, module: str, name: str) -> type:
        path = f"{module}.{name}"
        if path not in self._classes:
            if len(self._classes) == NAMES:
                raise pickle.UnpicklingError(f"more than {NAMES} classes")
            self._classes[path] = _PLAIN.get(path) or _inert_class(path)
        return self._classes[path]

    def persistent_load(self, pid: Any) -> _InertStorage:
        return _InertStorage(*pid) if isinstance(pid, tuple) else _InertStorage(pid)


def _inert_class(path: str) -> type:
    """An empty class below `Inert` that has the path of a class in the file for a name."""
    return type(path, (Inert,), {"path": path, "__slots__": ()})


class _Numbers(NamedTuple):
    """Where the numbers of a storage are in the file."""

    dtype: str
    first_byte: int
    length: int


@dataclass(frozen=True, slots=True)
class InertCheckpoint:
    """A checkpoint's content: plain values, and `Inert` wherever the file named a class."""

    archive: Archive
    root: Any

    def tensors(self, part: Any) -> dict[str, Any]:
        """The tensors in a part of the content, as views of the mapped file; writing to them leaves the file as it is.

        Args:
            part: a mapping of names to tensors, or a pickled torch module; of that come its parameters and persistent
                buffers and those of the modules below it, under the names and in the order of its state dict.

        Raises:
            ModelLoadError: `part` is neither, a value is no tensor, or a tensor does not fit what the file holds.
        """
        if isinstance(part, dict):
            named = iter(part.items())
        elif isinstance(part, Inert) and part.is_module:
            named = self._walk(part)
        else:
            raise self.archive.error(
                f"found {excerpt(part)}, expected tensors by name or a torch module"
            )
        return {self._name(name): self._tensor(name, value) for name, value in named}

    def _name(self, name: Any) -> str:
        """The name of a tensor or module, if it is one."""
        if not isinstance(name, str) or len(name) > NAME_CHARACTERS:
            problem = f"found a tensor called {excerpt(name)}, expected a short text"
            raise self.archive.error(problem)
        return name

    def _walk(self, module: Inert) -> Iterator[tuple[str, Any]]:
        """Names and values below a module; a module held twice is walked twice, as torch does."""
        waiting: list[tuple[str, Any]] = [("", module)]
        for _ in range(ENTRIES):
            if not waiting:
                return
            prefix, value = waiting.pop()
            if not (isinstance(value, Inert) and value.is_module):
                yield prefix, value
            elif len(prefix) > NAME_CHARACTERS or len(waiting) > ENTRIES:
                break
            else:
                waiting += reversed(list(self._members(prefix, value)))
        raise self.archive.error(f"its modules hold each other, or more than {ENTRIES} parts")

    def _members(self, prefix: str, module: Inert) -> Iterator[tuple[str, Any]]:
        """Names and values of the parameters, persistent buffers and modules that a module holds."""
        passing = module.attributes.get("_non_persistent_buffers_set") or ()
        for kind in ("_parameters", "_buffers", "_modules"):
            members = module.attributes.get(kind) or {}
            if not isinstance(members, dict) or not isinstance(passing, (set, tuple)):
                owner = prefix or "the module"
                problem = f"{owner} has {excerpt(members)} as {kind}, expected a mapping"
                raise self.archive.error(problem)
            for name, value in members.items():
                if value is None or (kind == "_buffers" and name in passing):
                    continue
                path = self._name(name)
                if prefix:
                    path = f"{prefix}.{path}"
                yield path, value

    def _tensor(self, name: str, value: Any) -> Any:
        """The tensor that an inert call of a maker describes, once its whole view is known to lie inside the file."""
        import torch

        while isinstance(value, Inert) and value.path in PARAMETERS and value.arguments:
            value = value.arguments[0]
        is_tensor = isinstance(value, Inert) and value.path in TENSORS
        if not is_tensor or len(value.arguments) < 4:
            raise self.archive.error(f"{name} is {excerpt(value)}, expected a tensor")
        storage, offset, size, stride, *rest = value.arguments
        numbers = self._numbers(name, storage)
        # Behind requires_grad and hooks there may be metadata, which no plain tensor has.
        is_plain = rest[2:] in ([], [None], [{}])
        if not is_plain or not _inside(offset, size, stride, numbers.length):
            view = f"size {excerpt(size)}, stride {excerpt(stride)}, offset {excerpt(offset)}"
            problem = f"{name} points outside its storage of {numbers.length} numbers: {view}"
            raise self.archive.error(problem)
        dtype = getattr(torch, numbers.dtype)
        if 0 in size:
            return torch.empty(size, dtype=dtype)
        data: Any = self.archive.data
        first = numbers.first_byte
        # torch aligns its entries, other writers need not: then the numbers are copied.
        if first % dtype.itemsize:
            end = first + numbers.length * dtype.itemsize
            data = bytearray(data[first:end])
            first = 0
        flat = torch.frombuffer(data, dtype=dtype, count=numbers.length, offset=first)  # [length]
        return flat.as_strided(size, stride, offset)

    def _numbers(self, name: str, storage: Any) -> _Numbers:
        """Where the numbers of a storage are; `name` is that of the tensor which needs them.

        The pickle names a storage by five values: "storage", its class, the name of its entry, a device, a count.
        """
        identity = storage.arguments if isinstance(storage, _InertStorage) else ()
        dtype, width = _number_type(identity)
        entry = f"data/{identity[2]}" if dtype else ""
        if not dtype or entry not in self.archive.spans:
            raise self.archive.error(f"{name} has no storage in the file: {excerpt(identity)}")
        first_byte, size = self.archive.spans[entry]
        count = identity[4]
        if size != count * width:
            expected = f"{excerpt(count)} numbers of {width} bytes"
            raise self.archive.error(f"{name} should have {expected}, {entry} has {size} bytes")
        return _Numbers(dtype, first_byte, count)


def _number_type(identity: tuple[Any, ...]) -> tuple[str, int]:
    """Type of the numbers of a storage, and bytes of each, from what names it; "" and 0 if it is no such name."""
    if len(identity) != 5:
        return "", 0
    mark, storage_class, entry, _, count = identity
    if mark != "storage" or not isinstance(entry, str) or type(count) is not int:
        return "", 0
    path = getattr(storage_class, "path", "")
    return STORAGES.get(path, ("", 0))


def _inside(
    offset: Any,
    size: Any,
    stride: Any,
    count: int,
) -> bool:
    """Whether a view stays in a storage of `count` numbers and repeats none of them."""
    if not (isinstance(size, tuple) and isinstance(stride, tuple)):
        return False
    if len(size) != len(stride) or len(stride) > DIMENSIONS:
        return False
    numbers = (offset, *size, *stride)
    if not all(type(number) is int and 0 <= number <= EXTENT for number in numbers):
        return False
    last = offset
    for length, step in zip(size, stride, strict=True):
        last += (length - 1) * step
    return 0 in size or (prod(size) <= count and last < count)


def read_inert(archive: Archive) -> InertCheckpoint:
    """The content of a checkpoint, without running any of it.

    Raises:
        ModelLoadError: the pickle is too large or damaged.
    """
    data = archive.read("data.pkl", limits().pickle_bytes)
    try:
        _check_memo(data)
        return InertCheckpoint(archive, _Unpickler(data).load())
    except Exception as error:  # a damaged or hostile pickle can raise anything
        raise archive.error(
            f"its pickle is damaged: {type(error).__name__}: {str(error)[:120]}"
        ) from error


def _check_memo(data: bytes) -> None:
    """Raises UnpicklingError if a pickle numbers a memo place beyond its length: room up to it would be made."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name.endswith("PUT") and (argument or 0) > len(data):
            raise pickle.UnpicklingError(f"place {argument} in a pickle of {len(data)} bytes")
