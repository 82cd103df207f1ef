"""Reads a torch checkpoint as inert data: no class of the file is imported and nothing that it names is called.

A torch checkpoint is a zip archive of one pickle (``data.pkl``) and of one entry of raw numbers per storage. Here the
pickle builds only plain values and `Inert` objects that remember what they stood for; tensors are made afterwards, on
request, as views of the mapped file whose every size, stride and offset has been checked. So a hostile file yields an
object named ``posix.system`` and not its effect. It knows no model.
"""

from __future__ import annotations

import io
import mmap
import pickle
import pickletools
import struct
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Self

from ...errors import ModelLoadError, excerpt

PICKLE_BYTES = 1 << 26  # structure only, numbers stand outside: real ones are below 10 MB
NAMES = 1 << 12  # distinct classes in one file
ENTRIES = 1 << 16  # tensors and modules in one tree
NAME_CHARACTERS = 1 << 10
EXTENT = 1 << 48  # of one dimension
DIMENSIONS = 64
FETCH = "Fetch the file again"
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
TENSORS = frozenset({"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"})
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
        """What the file wants made of `arguments`."""
        made = super().__new__(cls)
        made.arguments, made.attributes = arguments, {}
        return made

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.attributes.update(part)

    def __call__(self, *_: Any, **__: Any) -> Self:
        """Itself: what the file wants called stays undone."""
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


class _Storage(Inert):
    """The numbers that tensors share, by the name of their entry."""

    __slots__ = ()
    path = "storage"


class _Ordered(dict[Any, Any]):
    """In place of an OrderedDict; without attributes, so that none can hide a method."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Version numbers of modules, of no use here."""


_PLAIN = {"collections.OrderedDict": _Ordered, "builtins.set": set, "__builtin__.set": set}


class _Unpickler(pickle.Unpickler):
    """Every name becomes a class of its own below `Inert`; none is looked up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._named: dict[str, type] = {}

    def find_class(self, module: str, name: str) -> type:
        path = f"{module}.{name}"
        if path not in self._named:
            if len(self._named) == NAMES:
                raise pickle.UnpicklingError(f"more than {NAMES} classes")
            self._named[path] = _PLAIN.get(path) or type(
                path, (Inert,), {"path": path, "__slots__": ()}
            )
        return self._named[path]

    def persistent_load(self, pid: Any) -> _Storage:
        return _Storage(*pid) if isinstance(pid, tuple) else _Storage(pid)


@dataclass(frozen=True, slots=True)
class Archive:
    """A checkpoint file mapped into memory; its pages are read when they are used."""

    path: Path
    data: mmap.mmap
    spans: Mapping[str, tuple[int, int]]  # of every entry: its first byte, its bytes

    def read(self, entry: str, limit: int) -> bytes:
        """The bytes of a small entry.

        Raises:
            ModelLoadError: it is larger than `limit` bytes.
        """
        start, size = self.spans[entry]
        if size > limit:
            raise self.error(f"{entry} has {size} bytes, at most {limit} expected")
        return self.data[start : start + size]

    def error(self, found: str, fix: str = FETCH) -> ModelLoadError:
        """What is wrong with this file."""
        return ModelLoadError(found, where=str(self.path), fix=fix)


@dataclass(frozen=True, slots=True)
class InertCheckpoint:
    """A checkpoint's content: plain values, and `Inert` wherever the file named a class."""

    archive: Archive
    root: Any

    def tensors(self, found: Any) -> dict[str, Any]:
        """The tensors in a part of the content, as views of the mapped file; writing to them leaves the file as it is.

        Args:
            found: a mapping of names to tensors, or a pickled torch module; of that come its parameters and persistent
                buffers and those of the modules below it, under the names and in the order of its state dict.

        Raises:
            ModelLoadError: `found` is neither, a value is no tensor, or a tensor does not fit what the file holds.
        """
        if isinstance(found, dict):
            named = iter(found.items())
        elif isinstance(found, Inert) and found.is_module:
            named = self._walk(found)
        else:
            raise self.archive.error(
                f"found {excerpt(found)}, expected tensors by name or a torch module"
            )
        return {self._name(name): self._tensor(name, value) for name, value in named}

    def _name(self, name: Any) -> str:
        if not isinstance(name, str) or len(name) > NAME_CHARACTERS:
            raise self.archive.error(
                f"found a tensor called {excerpt(name)}, expected a short text"
            )
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
                waiting += reversed(list(self._held(prefix, value)))
        raise self.archive.error(f"its modules hold each other, or more than {ENTRIES} parts")

    def _held(self, prefix: str, module: Inert) -> Iterator[tuple[str, Any]]:
        passing = module.attributes.get("_non_persistent_buffers_set") or ()
        for kind in ("_parameters", "_buffers", "_modules"):
            held = module.attributes.get(kind) or {}
            if not isinstance(held, dict) or not isinstance(passing, (set, tuple)):
                raise self.archive.error(
                    f"{prefix or 'the module'} has {excerpt(held)} as {kind}, expected a mapping"
                )
            for name, value in held.items():
                if value is not None and not (kind == "_buffers" and name in passing):
                    yield f"{prefix}.{self._name(name)}" if prefix else self._name(name), value

    def _tensor(self, name: str, found: Any) -> Any:
        import torch

        while isinstance(found, Inert) and found.path in PARAMETERS and found.arguments:
            found = found.arguments[0]
        if not (isinstance(found, Inert) and found.path in TENSORS and len(found.arguments) >= 4):
            raise self.archive.error(f"{name} is {excerpt(found)}, expected a tensor")
        storage, offset, size, stride, *rest = found.arguments
        kind, first, count = self._storage(name, storage)
        if rest[2:] not in ([], [None], [{}]) or not _inside(offset, size, stride, count):
            shape = f"size {excerpt(size)}, stride {excerpt(stride)}, offset {excerpt(offset)}"
            raise self.archive.error(
                f"{name} points outside its storage of {count} numbers: {shape}"
            )
        dtype = getattr(torch, kind)
        if 0 in size:
            return torch.empty(size, dtype=dtype)
        data: Any = self.archive.data
        if first % dtype.itemsize:  # torch aligns its entries; others need not
            data, first = bytearray(data[first : first + count * dtype.itemsize]), 0
        return torch.frombuffer(data, dtype=dtype, count=count, offset=first).as_strided(
            size, stride, offset
        )

    def _storage(self, name: str, storage: Any) -> tuple[str, int, int]:
        """Type of number, first byte and count of numbers of a storage."""
        said = storage.arguments if isinstance(storage, _Storage) else ()
        known = (
            len(said) == 5
            and said[0] == "storage"
            and isinstance(said[2], str)
            and type(said[4]) is int
        )
        kind, width = STORAGES.get(getattr(said[1], "path", ""), ("", 0)) if known else ("", 0)
        entry = f"data/{said[2]}" if kind else ""
        if entry not in self.archive.spans:
            raise self.archive.error(f"{name} has no storage in the file: {excerpt(said)}")
        first, size = self.archive.spans[entry]
        if size != said[4] * width:
            wanted = f"{excerpt(said[4])} numbers of {width} bytes"
            raise self.archive.error(f"{name} should have {wanted}, {entry} has {size} bytes")
        return kind, first, said[4]


def open_archive(path: str | Path) -> Archive:
    """Maps a checkpoint file and finds its entries.

    Raises:
        ModelLoadError: the file cannot be read, is not a whole zip archive as torch writes it (one folder with
            ``data.pkl``, nothing compressed), or was written with another order of bytes.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            entries = archive.infolist()
    except OSError as error:
        raise ModelLoadError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="Give a checkpoint"
        ) from error
    except (zipfile.BadZipFile, RuntimeError, ValueError, struct.error) as error:
        written = (
            "torch 1.6 and later write zip archives; of a Git LFS pointer, fetch the file itself"
        )
        raise ModelLoadError(
            f"not a whole zip archive: {error}", where=str(path), fix=written
        ) from error
    spans = {entry.filename: _span(path, data, entry) for entry in entries}
    roots = [
        name.removesuffix("data.pkl")
        for name in spans
        if name.endswith("/data.pkl") and name.count("/") == 1
    ]
    if len(roots) != 1:
        raise ModelLoadError("not a checkpoint of torch: no data.pkl", where=str(path), fix=FETCH)
    root = roots[0]
    found = Archive(
        path, data, {n.removeprefix(root): span for n, span in spans.items() if n.startswith(root)}
    )
    order = (
        found.read("byteorder", 16).decode("latin-1") if "byteorder" in found.spans else "little"
    )
    if order != sys.byteorder:
        raise found.error(
            f"its bytes are in {order!r} order, here they are {sys.byteorder}",
            "Save it on this machine",
        )
    return found


def read_inert(archive: Archive) -> InertCheckpoint:
    """The content of a checkpoint, without running any of it.

    Raises:
        ModelLoadError: the pickle is too large or damaged.
    """
    data = archive.read("data.pkl", PICKLE_BYTES)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name.endswith("PUT") and (argument or 0) > len(
                data
            ):  # would make room for as many
                raise pickle.UnpicklingError(f"place {argument} in a pickle of {len(data)} bytes")
        return InertCheckpoint(archive, _Unpickler(data).load())
    except Exception as error:  # a damaged or hostile pickle can raise anything
        raise archive.error(
            f"its pickle is damaged: {type(error).__name__}: {str(error)[:120]}"
        ) from error


def _span(path: Path, data: mmap.mmap, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """First byte and bytes of a stored entry; the name before them need not be as long as the directory says."""
    header = data[entry.header_offset : entry.header_offset + 30]
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ModelLoadError(
            f"{entry.filename} is compressed", where=str(path), fix="Save it with torch.save"
        )
    if len(header) == 30 and header.startswith(b"PK\3\4"):
        first = entry.header_offset + 30 + sum(struct.unpack_from("<HH", header, 26))
        if entry.file_size == entry.compress_size <= len(data) - first:
            return first, entry.file_size
    raise ModelLoadError(
        f"{entry.filename} is not where the zip archive says", where=str(path), fix=FETCH
    )


def _inside(offset: Any, size: Any, stride: Any, count: int) -> bool:
    """Whether a view stays in a storage of `count` numbers and repeats none of them."""
    if not (
        isinstance(size, tuple)
        and isinstance(stride, tuple)
        and len(size) == len(stride) <= DIMENSIONS
    ):
        return False
    if not all(
        type(number) is int and 0 <= number <= EXTENT for number in (offset, *size, *stride)
    ):
        return False
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    return 0 in size or (prod(size) <= count and last < count)
