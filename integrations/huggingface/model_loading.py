"""Loads a model that generates and its tokenizer (a folder, a GGUF file or the hub), and names them with a digest."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from ...metrics.errors import ModelLoadError, unknown
from ...metrics.neural.models.encoder import DType, device_of
from ...metrics.neural.models.files import model_files as files
from ...metrics.neural.models.pretrained import config_of, pretrained, tokenizer_of
from ...metrics.storage.bounded_files import read_small_file


class LoadedModel(NamedTuple):
    """A model, its tokenizer, and the digest of all their files."""

    model: Any
    tokenizer: Any
    digest: str


def load(
    name: str,
    revision: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
) -> LoadedModel:
    """The model of a folder, a GGUF file, a bundled name or a name on the hub, ready to generate; no code of it is run.

    Raises:
        ModelLoadError: it is not here and cannot be fetched, or is no model that generates.
        InputError: there is no such device.
    """
    if dtype not in get_args(DType):
        raise unknown("dtype", dtype, get_args(DType))
    folder = files.locate(name, revision)
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    try:
        config = config_of(folder)
    except Exception as error:  # many kinds
        message = " ".join(str(error).split())[:200]
        raise ModelLoadError(
            f"no model of transformers ({message})",
            where=name,
            fix="Give the model's folder",
        ) from error
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = pretrained(folder, kind.__name__, dtype=cast(DType, dtype))
    model = model.to(device_of(device)).train(False)
    return LoadedModel(model, tokenizer_of(folder), _digest(folder))


def _digest(folder: Path) -> str:
    """The digest of the model, and of the files that matter where it generates; a GGUF file is alone."""
    digest = sha256(files.digest(folder).encode())
    for name in files.GENERATION_FILES:
        path = folder / name
        if path.is_file():
            digest.update(read_small_file(path, "Give the model's folder"))
    return digest.hexdigest()[: files.DIGITS]
