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
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any, cast

import numpy as np

from ....errors import DiscorankError, InputError, ModelLoadError, excerpt
from ....optional_packages import require
from ....storage.bounded_files import check_regular
from ....storage.limits import limits, more
from .model_sizes import TensorFile, check_needed, check_numbers, check_weights

SUFFIX = ".gguf"
# Nothing is fetched, no code is run.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
DIMENSIONS = 4
TEXT, ARRAY = 8, 9
# Codes of types: how struct reads one value.
SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
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


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file, by its name."""
    return path.suffix == SUFFIX


def check_gguf(path: Path) -> None:
    """Looks at a GGUF file: whether it is whole, within the bounds, and of a model whose weights it holds.

    Raises:
        InputError: it is not whole, or says of itself what cannot be.
        ModelLoadError: the packages that read it are not installed; it is one part of several; its weights cannot be
            those of such a model.
    """
    require(str(path), "gguf", "accelerate")
    where = str(path)
    check_regular(path, "Give a GGUF file")
    reader = read_gguf(path)
    parts = _value(reader, "split.count")
    if parts not in (None, 1):
        fix = "Join the parts: llama-gguf-split --merge"
        raise ModelLoadError(f"is one part of {parts}", where=where, fix=fix)
    architecture = _value(reader, "general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise _broken(where, "no general.architecture")
    config = {name: _value(reader, f"{architecture}.{key}") for key, name in NUMBERS.items()}
    config = {name: value for name, value in config.items() if value is not None}
    tokens = reader.fields.get("tokenizer.ggml.tokens")
    config.setdefault("vocab_size", 0 if tokens is None else len(tokens.data))
    check_numbers(config, where)
    check_needed(config, where)
    if type(config.get("hidden_size")) is int:
        shapes = {one.name: tuple(reversed(one.shape.tolist())) for one in reader.tensors}
        check_weights(config, [TensorFile(path, shapes)], where)


def _value(reader: Any, key: str) -> Any:
    """The number, truth value or text of a key; None where there is none, or an array."""
    field = reader.fields.get(key)
    return None if field is None or field.types[0] == ARRAY else field.contents()


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
    byte_order: str
    tensors: list[Any]

    def __init__(self, path: str) -> None:
        self.where = path
        self.bound = limits().file_bytes  # offset that the header may reach
        self.num_items = 0  # of all arrays
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

    def _build_fields(self, offset: int, count: Any) -> Any:
        if self.byte_order != "I":
            fix = "Convert the model again"
            raise InputError("its bytes are in the other order", where=self.where, fix=fix)
        limits().check("entries", int(count), self.where, what="members")
        return self.package._build_fields(offset, count)

    def _build_tensor_info(self, offset: int, count: Any) -> Any:
        limits().check("entries", int(count), self.where, what="tensors")
        return self.package._build_tensor_info(offset, count)

    def _build_tensors(self, start: int, fields: Any) -> None:
        """As the package's; raises InputError for tensors without numbers, or that share some."""
        self.bound = len(self.data)
        self.package._build_tensors(start, fields)
        end = 0
        for tensor in sorted(self.tensors, key=lambda tensor: tensor.data_offset):
            if not tensor.n_elements or not 1 <= len(tensor.shape) <= DIMENSIONS:
                raise _broken(
                    self.where, f"{tensor.name!r:.60} is {excerpt(tensor.shape.tolist())}"
                )
            if tensor.data_offset < end:
                raise _broken(self.where, f"{tensor.name!r:.60} begins inside another tensor")
            end = tensor.data_offset + tensor.n_bytes

    def _get_field_parts(self, offset: int, kind: int) -> Any:
        """As the package's: bytes, parts, the numbers of the parts that are values, and types."""
        if kind != ARRAY:
            return self.package._get_field_parts(offset, kind)
        from gguf.constants import GGUFValueType

        kind, length = int(self._get(offset, "<u4")[0]), int(self._get(offset + 4, "<u8")[0])
        start = offset + 12
        self.num_items += length
        if self.num_items > limits().tokens:
            problem = f"arrays of more than {limits().tokens} items"
            raise InputError(problem, where=self.where, fix=more("tokens"))
        if kind == TEXT:
            values, end = self._texts(start, length)
        elif kind in SCALARS:
            form = f"<{length}{SCALARS[kind]}"
            end = start + struct.calcsize(form)
            self._check_end(end)
            # of a number the first item is read
            values = [(value,) for value in struct.unpack_from(form, memoryview(self.data), start)]
        else:
            raise _broken(self.where, f"an array of the type {kind}")
        types = [GGUFValueType.ARRAY, GGUFValueType(kind)] if length else [GGUFValueType.ARRAY]
        return end - offset, values, list(range(length)), types

    def _texts(self, offset: int, count: int) -> tuple[list[Any], int]:
        """So many texts behind their lengths, as bytes, and the offset behind them."""
        data = memoryview(self.data)
        length_of = struct.Struct("<Q").unpack_from
        longest = min(len(data), self.bound)
        texts = []
        for _ in range(count):
            start = offset + 8
            if start > longest:
                self._check_end(start)
            offset = start + length_of(data, offset)[0]
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
