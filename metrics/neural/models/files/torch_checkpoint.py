"""Torch checkpoints, read by torch's own loader of weights and plain values; classes of a file are never imported.

A checkpoint is a zip archive of one pickle, ``data.pkl``, and of one entry of raw numbers per storage. torch admits
weights and plain values alone; every other name in the pickle is given a `Stub`, which does nothing. What torch leaves
open is checked here:

    entries that unpack to more than the file           the directory of the archive, before torch reads it
    a pickle, or names in it, without end               `file_bytes`, `CLASSES`
    makers of memory or of copies in the pickle         `MAKERS`, refused by their names
    tuples in tuples in the pickle                      `TUPLE_SIZE`, `INSTRUCTIONS`
    one number repeated, one storage in many tensors    `TorchCheckpoint.tensors`
    modules that hold each other                        `TorchCheckpoint.tensors`

It knows no model.
"""

from __future__ import annotations

import pickletools
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import check_archive
from ....storage.limits import limits, more

FETCH = "Fetch the file again"
# Distinct classes that one file names and torch does not admit; a whole module names some fifty.
CLASSES = 1 << 10
# Tensors and modules in one tree, characters in the name of one.
ENTRIES, NAME_CHARACTERS = 1 << 16, 1 << 10
# How often the numbers of a file may be in tensors: tied weights are there up to four times.
COPIES = 8
# Values in a tuple and the tuples in it: shapes and arguments of tensors have few.
TUPLE_SIZE = 1 << 12
# Of a pickle; a tensor has some forty.
INSTRUCTIONS = 1 << 22
# Admitted by torch, but they fill memory, or copy tensors that repeat a number.
MAKERS = re.compile(
    rb"c(?:__builtin__|builtins)\nbytearray\n|ctorch\._utils\n_rebuild_device_tensor_from_\w+\n"
)
# Modules of which torch admits nothing, not even under another meaning.
BLOCKED = ("sys", "os", "posix", "nt")
_registering = Lock()


class Stub:
    """Stands for an object of a class that is not imported: keeps its attributes, and does nothing."""

    __slots__ = ("attributes",)
    path: ClassVar[str] = "unnamed"
    attributes: dict[Any, Any]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A stub, whatever the file calls its class with."""
        stub = super().__new__(cls)
        stub.attributes = {}
        return stub

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.attributes.update(part)

    def __repr__(self) -> str:
        return f"<{self.path}>"


@dataclass(frozen=True, slots=True)
class TorchCheckpoint:
    """The content of a file: plain values, tensors mapped from it, and a `Stub` for every other object."""

    path: Path
    root: Any

    def tensors(self, part: Any) -> dict[str, Any]:
        """The tensors in a part of the content; writing to them leaves the file as it is.

        Args:
            part: a mapping of names to tensors, or a pickled torch module; of that come its parameters and persistent
                buffers and those of the modules below it, under the names and in the order of its state dict.

        Raises:
            ModelLoadError: `part` is neither, a value is not a tensor, or tensors have more numbers than the file.
        """
        try:
            named = part.items() if isinstance(part, dict) else self._walk(part)
            tensors = {name: self._tensor(name, value) for name, value in named}
        except (AttributeError, TypeError, ValueError) as error:
            problem = f"found {excerpt(part)}, expected tensors by name or a torch module"
            raise self.error(problem) from error
        num_bytes = sum(tensor.nbytes for tensor in tensors.values())
        size = self.path.stat().st_size
        if num_bytes > COPIES * size:
            raise self.error(f"its tensors have {num_bytes} bytes, the file has {size}")
        return tensors

    def error(self, problem: str, fix: str = FETCH) -> ModelLoadError:
        """An error about this file."""
        return ModelLoadError(problem, where=str(self.path), fix=fix)

    def _tensor(self, name: Any, value: Any) -> Any:
        """A dense tensor without gradient that repeats none of its numbers."""
        import torch

        if not isinstance(name, str) or len(name) > NAME_CHARACTERS:
            raise self.error(f"found a tensor called {excerpt(name)}, expected a short text")
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise self.error(f"{name} is {excerpt(value)}, expected a tensor")
        if value.device.type != "cpu" or value.untyped_storage().nbytes() < value.nbytes:
            shape = tuple(value.shape)
            raise self.error(f"{name} has fewer numbers than its shape {excerpt(shape)} says")
        return value.detach()

    def _walk(self, module: Stub) -> Iterator[tuple[str, Any]]:
        """Names and values below a module; a module held twice is walked twice, as torch does."""
        waiting: list[tuple[str, Any]] = [(name, value) for name, value in _members("", module)]
        for _ in range(ENTRIES):
            if not waiting:
                return
            name, value = waiting.pop()
            if not (isinstance(value, Stub) and "_modules" in value.attributes):
                yield name, value
                continue
            waiting += _members(f"{name}.", value)
            if len(name) > NAME_CHARACTERS or len(waiting) > ENTRIES:
                break
        raise self.error(f"its modules hold each other, or more than {ENTRIES} parts")


def _members(prefix: str, module: Stub) -> list[tuple[str, Any]]:
    """Names and values of what a module holds, the last first: parameters, persistent buffers, modules."""
    members: list[tuple[str, Any]] = []
    for kind in ("_modules", "_buffers", "_parameters"):
        held = module.attributes.get(kind) or {}
        passing = module.attributes.get("_non_persistent_buffers_set") or ()
        members += [
            (f"{prefix}{name}", value)
            for name, value in reversed(held.items())
            if value is not None and not (kind == "_buffers" and name in passing)
        ]
    return members


def read_torch_checkpoint(path: str | Path) -> TorchCheckpoint:
    """The content of a checkpoint, without running any of it.

    Raises:
        ModelLoadError: the file cannot be read, is not a whole archive as torch writes it, is over a bound, or names
            what no weights need.
    """
    import torch

    path = Path(path)
    check_torch_checkpoint(path)
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        stubs = _stubs(path, names)
        # torch keeps one list of what is admitted for all threads.
        with _registering, torch.serialization.safe_globals(stubs):
            root = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        return TorchCheckpoint(path, root)
    except ModelLoadError:
        raise
    except Exception as error:  # a damaged or hostile file can raise anything
        problem = f"its pickle or its weights are damaged ({type(error).__name__})"
        raise _refused(path, problem) from error


def check_torch_checkpoint(path: Path) -> None:
    """Looks at a checkpoint without torch: whether it unpacks to more than the file, or its pickle asks for memory.

    Raises:
        ModelLoadError: it does, is no whole archive, or over a bound.
    """
    pickled = _pickle_of(path)
    maker = MAKERS.search(pickled)
    if maker:
        name = maker[0][1:-1].decode().replace("\n", ".")
        raise _refused(path, f"its pickle names {name}, which no weights need")
    try:
        _check_tuples(pickled)
    except InputError as error:
        raise _refused(path, error.problem) from None
    except Exception:  # noqa: S110  not a pickle: torch says why
        pass


class _Stack:
    """The stack of a pickle, followed without making anything: how many values each value holds, itself counted.

    Values in a tuple count as often as they are in it; all values but tuples count as one.
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._marks: list[int] = []  # how many values are before each
        self._memo: dict[int, int] = {}

    def follow(self, code: pickletools.OpcodeInfo, argument: Any) -> None:
        """Do what an instruction does; raises InputError for a tuple that is too large."""
        name, sizes = code.name, self._sizes
        if name == "MARK":
            self._marks.append(len(sizes))
        elif name == "POP" and self._marks and self._marks[-1] == len(sizes):
            self._marks.pop()
        elif name == "DUP":
            sizes.append(sizes[-1])
        elif name == "MEMOIZE" or name.endswith("PUT"):
            self._memo[len(self._memo) if argument is None else int(argument)] = sizes[-1]
        elif name.endswith("GET"):
            sizes.append(self._memo[int(argument)])
        else:
            self._replace(code)

    def _replace(self, code: pickletools.OpcodeInfo) -> None:
        """Put the values that any other instruction makes in the place of those that it takes."""
        before = code.stack_before
        start = len(self._sizes) - len(before)
        if pickletools.markobject in before:
            start = self._marks.pop() - before.index(pickletools.markobject)
        size = 1
        if "TUPLE" in code.name:
            size += sum(self._sizes[start:])
            if size > TUPLE_SIZE:
                raise InputError("its pickle holds tuples in tuples without end")
        self._sizes[start:] = [size] * len(code.stack_after)


def _check_tuples(pickled: bytes) -> None:
    """Raises InputError for tuples in tuples without end, as Python's hash of them crashes, or does not end."""
    stack = _Stack()
    for number, (code, argument, _) in enumerate(pickletools.genops(pickled)):
        if number >= INSTRUCTIONS:
            raise InputError(f"its pickle has more than {INSTRUCTIONS} instructions")
        stack.follow(code, argument)


def _pickle_of(path: Path) -> bytes:
    """The pickle of an archive in which nothing is compressed and every name is there once."""
    try:
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_entries(path, entries)
            pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
            pickles = [entry for entry in pickles if entry.filename.count("/") == 1]
            if len(pickles) != 1:
                raise _refused(path, "not a checkpoint of torch: no data.pkl")
            size, bound = pickles[0].file_size, limits().file_bytes
            if size > bound:
                problem = f"data.pkl has {size} bytes, at most {bound} expected"
                raise _refused(path, problem, more("file_bytes"))
            return archive.read(pickles[0])
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise _refused(path, problem, "Give a checkpoint") from error
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError) as error:
        fix = "torch 1.6 and later write zip archives; of a Git LFS pointer, fetch the file itself"
        raise _refused(path, f"not a whole zip archive: {error}", fix) from error


def _check_entries(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    """Raises ModelLoadError for entries that have other bytes than in the file, or one name."""
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise _refused(path, f"{entry.filename} is compressed", "Save it with torch.save")
        if entry.file_size != entry.compress_size:
            raise _refused(path, f"{entry.filename} is not where the zip archive says")
    # torch looks entries up in either case
    names = {entry.filename.lower() for entry in entries}
    num_bytes = sum(entry.file_size for entry in entries)
    if len(names) < len(entries) or num_bytes > path.stat().st_size:
        raise _refused(path, f"its entries have {num_bytes} bytes, more than the file, or one name")


def _stubs(path: Path, names: list[str]) -> list[Any]:
    """A stub for every name that torch does not admit, with that name; mappings with a default are plain ones."""
    if len(names) > CLASSES:
        raise _refused(path, f"its pickle names more than {CLASSES} classes")
    stubs: list[Any] = []
    for name in names:
        if name.partition(".")[0] in BLOCKED:
            raise _refused(path, f"its pickle names {name!r:.80}, which no weights need")
        stub = type(name, (Stub,), {"path": name, "__slots__": ()})
        stubs.append((_plain_mapping if name == "collections.defaultdict" else stub, name))
    return stubs


def _plain_mapping(*_: Any) -> dict[Any, Any]:
    """A mapping in the place of one with a default, to be filled."""
    return {}


def _refused(path: Path, problem: str, fix: str = FETCH) -> ModelLoadError:
    return ModelLoadError(problem, where=str(path), fix=fix)
