"""GGUF files: what is refused before anything is made of them, and how transformers is handed one.

    "GGUF" | version u32 | tensors u64 | entries u64 | entries (key, type, value) | tensors (name, shape, type, offset)

and then, from a multiple of the alignment on, the numbers of the tensors. The package gguf reads them, but follows any
length in a file, and makes several arrays of every token. `_Bounds` keeps its reader inside the file and the bounds of
`Limits`, and reads arrays whole; transformers, which reads a file again for the configuration, the weights and the
tokenizer, is given the reader that has read it last.

transformers is handed the file alone, with no other file of its folder. The weights are made into plain ones of the
dtype asked for, each in its turn, so that little more than one model is in memory. Nothing is fetched: transformers may
know kernels that compute with packed weights, on the hub.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any, cast

import numpy as np

from ....errors import DiscorankError, InputError, ModelLoadError
from ....optional_packages import require
from ....storage.bounded_files import check_regular
from ....storage.limits import limits, more

SUFFIX = ".gguf"
# Nothing is fetched, no code is run.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
# Codes of types of values.
TEXT, ARRAY = 8, 9
# Keys of what is repeated: layers, heads and experts. Those of how it was quantized count texts.
COUNT = re.compile(r"(?!quantize\.).*_count")


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file, by its name."""
    return path.suffix == SUFFIX


def check_gguf(path: Path) -> None:
    """Check that a GGUF file is whole and within the bounds.

    Raises:
        InputError: it is not.
        ModelLoadError: the packages that read it are not installed; it is one part of several.
    """
    require(str(path), "gguf", "accelerate")
    check_regular(path, "Give a GGUF file")
    fields = read_gguf(path).fields
    for key, field in fields.items():
        number = field.contents() if field.types[0] != ARRAY else 0
        if COUNT.fullmatch(key) and type(number) is int:
            limits().check("layers", number, f"{path}: {key}")
    parts = fields.get("split.count")
    if parts is not None and parts.contents() != 1:
        fix = "Join the parts: llama-gguf-split --merge"
        raise ModelLoadError(f"is one part of {parts.contents()}", where=str(path), fix=fix)


def read_gguf(path: str | os.PathLike[str], *_: Any) -> Any:
    """The package's reader of a file, the one that read it last if the file is as it was then.

    Raises:
        InputError: the file is not whole, or its header is over a bound.
    """
    state = os.stat(path)
    try:
        return _read(str(path), limits(), state.st_ino, state.st_size, state.st_mtime_ns)
    except DiscorankError:
        raise
    except Exception as error:  # the package raises many kinds
        reason = str(error.args[0]) if error.args else type(error).__name__
        problem = f"by the package gguf, {' '.join(reason.split())[:160]}"
        raise _broken(str(path), problem) from error


@lru_cache(maxsize=1)
def _read(path: str, *_: Any) -> Any:
    from gguf.gguf_reader import GGUFReader

    return type("BoundedReader", (_Bounds, GGUFReader), {})(path)


class _Bounds:
    """Bounds for the reader of the package: the end of the file, those of `Limits`; arrays are read whole."""

    data: Any
    gguf_scalar_to_np: Any
    tensors: list[Any]

    def __init__(self, path: str) -> None:
        self.where = path
        self.bound = limits().file_bytes  # offset that the header may reach
        self.num_items = 0  # of all arrays
        self.num_texts = 0  # names of entries and tensors, and texts that are not in arrays
        super().__init__(path)  # type: ignore[call-arg]

    @property
    def package(self) -> Any:
        """The reader of the package."""
        return super()

    def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **more_: Any) -> Any:
        """As the package's; raises InputError behind the end of the file or of the longest header."""
        self._check_end(int(offset) + np.dtype(dtype).itemsize * int(count))
        return self.package._get(offset, dtype, count, *order, **more_)

    def _check_end(self, end: int) -> None:
        if end > len(self.data):
            raise _broken(self.where, f"{end} bytes are named, it has {len(self.data)}")
        if end > self.bound:
            problem = f"its header has more than {self.bound} bytes"
            raise InputError(problem, where=self.where, fix=more("file_bytes"))

    def _get_str(self, offset: int) -> Any:
        """As the package's; raises InputError for more entries and tensors than are read."""
        self.num_texts += 1
        limits().check("entries", self.num_texts, self.where)
        return self.package._get_str(offset)

    def _build_tensors(self, start: int, fields: Any) -> None:
        """As the package's; raises InputError for tensors without numbers, or that share some."""
        self.bound = len(self.data)
        self.package._build_tensors(start, fields)
        end = 0
        for offset, size, name in sorted((t.data_offset, t.n_bytes, t.name) for t in self.tensors):
            if offset < end or not size:
                raise _broken(self.where, f"{name!r:.60} is empty or begins inside another tensor")
            end = offset + size

    def _get_field_parts(self, offset: int, kind: int) -> Any:
        """As the package's: bytes, parts, the numbers of the parts that are values, and types."""
        if kind != ARRAY:
            return self.package._get_field_parts(offset, kind)
        from gguf.constants import GGUFValueType

        kind, length = int(self._get(offset, "<u4")[0]), int(self._get(offset + 4, "<u8")[0])
        start = offset + 12
        self.num_items += length
        limits().check("tokens", self.num_items, self.where, what="items in arrays")
        item = GGUFValueType(kind)
        if kind == TEXT:
            values, end = self._texts(start, length)
        elif item in self.gguf_scalar_to_np:
            numbers = self._get(start, self.gguf_scalar_to_np[item], length)
            # of a number the first item is read
            values, end = numbers.reshape(-1, 1).tolist(), start + numbers.nbytes
        else:
            raise _broken(self.where, f"an array of the type {kind}")
        types = [GGUFValueType.ARRAY, item] if length else [GGUFValueType.ARRAY]
        return end - offset, values, list(range(length)), types

    def _texts(self, offset: int, count: int) -> tuple[list[Any], int]:
        """So many texts behind their lengths, as bytes, and the offset behind them."""
        data = memoryview(self.data)
        length_of = struct.Struct("<Q").unpack_from
        longest = min(len(data), self.bound)
        texts = []
        for _ in range(count):
            start = offset + 8
            offset = start + (length_of(data, offset)[0] if start <= longest else 0)
            if offset > longest:
                self._check_end(offset)
            texts.append(bytes(data[start:offset]))
        return texts, offset


def _broken(where: str, problem: str) -> InputError:
    return InputError(f"not whole: {problem}", where=where, fix="Fetch the file again")


@contextmanager
def source_of(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder that ``from_pretrained`` is given for a model, and its arguments; an empty one for a GGUF file."""
    if not is_gguf(path):
        yield path, dict(LOCAL)
        return
    with TemporaryDirectory() as empty, _bounded_reader():
        yield Path(empty), {**LOCAL, "gguf_file": str(path.absolute())}


_patching = RLock()


@contextmanager
def _bounded_reader() -> Iterator[None]:
    """transformers reads GGUF files by `read_gguf`, and without a progress bar, inside a ``with``."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils

    package, loading = cast(Any, gguf), cast(Any, modeling_gguf_pytorch_utils)
    with _patching:
        before = package.GGUFReader, package.get_tensor_name_map, loading.tqdm
        package.GGUFReader = read_gguf
        # asked for again by every module of the model
        package.get_tensor_name_map = cache(before[1])
        loading.tqdm = lambda items, **about: items
        try:
            yield
        finally:
            package.GGUFReader, package.get_tensor_name_map, loading.tqdm = before


def with_own_tokens(tokenizer: Any) -> Any:
    """The tokenizer of a GGUF file without tokens that the file does not have, and its model no embedding for.

    transformers gives every byte-level tokenizer a token <|endoftext|>, behind the last one of the file if need be.
    """
    from tokenizers import Tokenizer

    count = tokenizer.vocab_size
    if len(tokenizer) <= count:
        return tokenizer
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < count]
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
    return tokenizer


def unpacked(config: Any) -> dict[str, Any]:
    """The arguments of ``from_pretrained`` with which the weights of a GGUF file are unpacked; config: its own."""
    import transformers

    settings: Any = getattr(transformers, "GgufConfig", None)  # younger versions
    more = {} if settings is None else {"quantization_config": settings(dequantize=True)}
    return {"config": config, **more}


def as_plain(model: Any) -> Any:
    """The model without the marks of a quantized one, which it is no longer."""
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, name):
            delattr(model.config, name)
    for name in ("hf_quantizer", "quantization_method"):
        if hasattr(model, name):
            delattr(model, name)
    model.is_quantized = False
    return model
