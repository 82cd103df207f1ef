"""How transformers is handed a GGUF file: the file alone, with no other file of its folder, its weights unpacked.

The weights of the file are made into plain ones of the dtype asked for, each in its turn, so that little more than one
model is in memory. Nothing is fetched: transformers may know kernels that compute with packed weights, on the hub.

transformers reads a file again for the configuration, the weights and the tokenizer, each time with the reader of the
package gguf, which makes several arrays of every token. `QuickReader` is that reader, but takes arrays whole, and one
that has read a file serves again while the file is as it was.
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

from .folder_checks import GGUF
from .gguf_header import ARRAY, SCALARS, TEXT

# Nothing is fetched, no code is run.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file, by its name."""
    return path.suffix == GGUF


@contextmanager
def source_of(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder that ``from_pretrained`` is given for a model, and its arguments; an empty one for a GGUF file."""
    if not is_gguf(path):
        yield path, dict(LOCAL)
        return
    with TemporaryDirectory() as empty, _quick_reader():
        yield Path(empty), {**LOCAL, "gguf_file": str(path.absolute())}


_patching = RLock()


@contextmanager
def _quick_reader() -> Iterator[None]:
    """transformers reads GGUF files by `QuickReader`, and without a progress bar, inside a ``with``."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils

    package, loading = cast(Any, gguf), cast(Any, modeling_gguf_pytorch_utils)
    with _patching:
        before = package.GGUFReader, package.get_tensor_name_map, loading.tqdm
        package.GGUFReader = _reader_of
        # asked for again by every module of the model
        package.get_tensor_name_map = cache(before[1])
        loading.tqdm = lambda items, **about: items
        try:
            yield
        finally:
            package.GGUFReader, package.get_tensor_name_map, loading.tqdm = before


def _reader_of(path: str | os.PathLike[str], *arguments: Any) -> Any:
    """A reader of a file, the one that read it last if the file is as it was then."""
    state = os.stat(path)
    return _read(str(path), state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: str, *state: int) -> Any:
    return quick_reader()(path)


@cache
def quick_reader() -> Any:
    """The class: the package's reader, with arrays read whole."""
    from gguf.constants import GGUFValueType
    from gguf.gguf_reader import GGUFReader

    class QuickReader(GGUFReader):  # type: ignore[misc, unused-ignore]
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            """As the package's: bytes, parts, the places of values among the parts, and types."""
            if raw_type != ARRAY or self.byte_order != "I":
                return super()._get_field_parts(orig_offs, raw_type)
            data = memoryview(cast(Any, self.data))
            kind, length = struct.unpack_from("<IQ", data, orig_offs)
            start = orig_offs + 12
            if kind == TEXT:
                values, end = _texts(data, start, length)
            else:
                form = f"<{length}{SCALARS[kind]}"
                end = start + struct.calcsize(form)
                # of a number the first item is read
                values = [(value,) for value in struct.unpack_from(form, data, start)]
            types = [GGUFValueType.ARRAY, GGUFValueType(kind)] if length else [GGUFValueType.ARRAY]
            return end - orig_offs, values, list(range(length)), types

    return QuickReader


def _texts(data: memoryview, at: int, count: int) -> tuple[list[Any], int]:
    """So many texts behind their lengths, as bytes, and the place behind them."""
    length_of = struct.Struct("<Q").unpack_from
    texts = []
    for _ in range(count):
        start = at + 8
        at = start + length_of(data, at)[0]
        texts.append(bytes(data[start:at]))
    return texts, at


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
