"""How transformers is handed a GGUF file: the file alone, with no other file of its folder, its weights unpacked.

The weights of the file are made into plain ones of the dtype asked for, each in its turn, so that little more than one
model is in memory. Nothing is fetched: transformers may know kernels that compute with packed weights, on the hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .folder_checks import GGUF

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
    with TemporaryDirectory() as empty:
        yield Path(empty), {**LOCAL, "gguf_file": str(path.absolute())}


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
