"""Models of SEScore2 on disk: folders written by the training here, and the released checkpoints.

A folder is that of the encoder (config.json, model.safetensors, tokenizer) with the head in ``estimator.safetensors``
and ``sescore2.json`` beside it. A released checkpoint is one pickled torch module, of classes that are not imported:
it is read as inert data, and its encoder's tokenizer is named by `encoder_path`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ModelLoadError, excerpt
from ..neural.models import model_files as files
from ..neural.models.context_tokens import Frame, Reader, TruncationRule
from ..neural.models.encoder import from_state, longest_input, pretrained, quietly, tokenizer_of
from ..neural.models.inert_pickle import Inert, InertCheckpoint, open_archive, read_inert
from .job_stages import complete_folder
from .regression_network import LINEAR, head_state

ABOUT, HEAD = "sescore2.json", "estimator.safetensors"
LIMIT_BYTES = 1 << 16
RELEASED_TOKENS = 256  # longest text of the released code
ENCODER = "xlm."
ENCODERS = {
    ("xlm-roberta", 1024): "xlm-roberta-large",
    ("rembert", 1152): "google/rembert",
}  # of released checkpoints
HEAD_NAMES = [f"{place}.{part}" for place in LINEAR for part in ("weight", "bias")]
Layers = tuple[tuple[Any, Any], ...]


class SEScore2Model(NamedTuple):
    """A model that has been read."""

    encoder: Any  # a transformers model
    folder: Path  # of its configuration and tokenizer
    layers: Layers  # weight [out, in] and bias [out] of the head, first to last
    max_tokens: int  # the longest text
    low: float | None  # bounds of rescaling, where they are known
    high: float | None

    @property
    def head_state(self) -> dict[str, Any]:
        """The head's tensors by their names on disk."""
        values = [tensor.clone() for layer in self.layers for tensor in layer]
        return dict(zip(HEAD_NAMES, values, strict=True))


def save_model(folder: Path, network: Any, backbone: Path, about: Mapping[str, Any]) -> None:
    """Writes a network; what stands at `folder` gives way if it is a model of this kind.

    Args:
        folder: where.
        network: see `network.make_network`.
        backbone: the folder of the encoder that training began with, for its tokenizer.
        about: "max_tokens", "low" and "high", and what else is to be kept.
    """
    _write(folder, network["encoder"], head_state(network), backbone, about)


def save_converted(folder: Path, model: SEScore2Model, about: Mapping[str, Any]) -> None:
    """Writes a model that was read from a released checkpoint as a folder that needs nothing else."""
    _write(
        folder,
        model.encoder,
        model.head_state,
        model.folder,
        {"max_tokens": model.max_tokens, **about},
    )


def _write(
    folder: Path, encoder: Any, head: Mapping[str, Any], tokenizer: Path, about: Mapping[str, Any]
) -> None:
    from safetensors.torch import save_file

    check_free(folder)
    with complete_folder(folder) as draft:
        with quietly():
            encoder.save_pretrained(draft)
        for pattern in files.TOKENIZER_FILES:
            for file in tokenizer.glob(pattern):
                shutil.copyfile(file, draft / file.name)
        save_file({name: value.contiguous() for name, value in head.items()}, draft / HEAD)
        (draft / ABOUT).write_text(
            json.dumps({"format": 1, **about}, indent=1) + "\n", encoding="utf-8"
        )
        for file in draft.iterdir():
            file.chmod(
                (draft / ABOUT).stat().st_mode
            )  # safetensors writes files that nobody else may read


def check_free(folder: Path) -> None:
    """Whether a model may be written there.

    Raises:
        ModelLoadError: a file, or a folder of something else, stands there.
    """
    if folder.exists() and not folder.is_dir():
        raise ModelLoadError("is no folder", where=str(folder), fix="Choose another folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / ABOUT).is_file():
        fix = "Choose another folder"
        raise ModelLoadError(
            "is no folder of such a model, and not empty", where=str(folder), fix=fix
        )


def stage_of(folder: Path) -> str | None:
    """The digest of the stage that wrote the model in a folder; None where there is none, or another kind of model."""
    try:
        about = json.loads((folder / ABOUT).read_bytes()[:LIMIT_BYTES])
    except (OSError, ValueError, RecursionError):
        return None
    found = about.get("stage") if isinstance(about, dict) else None
    return found if isinstance(found, str) else None


def read_model(path: Path, encoder_path: str | None = None) -> SEScore2Model:
    """The model in a folder or a released ``.ckpt`` file (or a folder of one).

    Args:
        path: the folder or file.
        encoder_path: for a released checkpoint, its encoder's folder or name on the hub: configuration and tokenizer.

    Raises:
        ModelLoadError: it is not there, damaged or no model of this kind.
    """
    if (path / ABOUT).is_file():
        return _of_folder(path)
    if path.is_dir():
        path = _checkpoint_in(path)
    return _released(path, encoder_path)


def reader_of(
    folder: Path, encoder: Any, max_tokens: int, truncation: TruncationRule = "oldest-context"
) -> Reader:
    """What makes ids of texts for a model: the tokenizer of a folder, texts no longer than the encoder reads."""
    tokenizer = tokenizer_of(folder)
    return Reader(
        tokenizer, Frame.of(tokenizer), min(max_tokens, longest_input(encoder)), truncation
    )


def _of_folder(folder: Path) -> SEScore2Model:
    from safetensors.torch import load_file

    where = str(folder / ABOUT)
    try:
        data = (folder / ABOUT).read_bytes()[: LIMIT_BYTES + 1]
        about = json.loads(data) if len(data) <= LIMIT_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(
            f"cannot be read: {error}", where=where, fix="Train or convert it again"
        ) from error
    if not isinstance(about, dict) or about.get("format") != 1:
        raise ModelLoadError(
            f"found {excerpt(about)}, expected format 1", where=where, fix="Train it again"
        )
    tokens, low, high = (about.get(name) for name in ("max_tokens", "low", "high"))
    if (
        type(tokens) is not int
        or tokens < 8
        or not all(isinstance(v, float | None) for v in (low, high))
    ):
        found = f"max_tokens {excerpt(tokens)}, low {excerpt(low)}, high {excerpt(high)}"
        raise ModelLoadError(
            f"{found}: expected numbers", where=where, fix="Train or convert it again"
        )
    try:
        state = load_file(folder / HEAD)
    except Exception as error:  # not there or damaged: many kinds
        found = f"cannot be read: {type(error).__name__}"
        raise ModelLoadError(
            found, where=str(folder / HEAD), fix="Train or convert it again"
        ) from error
    encoder = pretrained(folder)
    layers = _layers(state, encoder.config.hidden_size, folder / HEAD)
    return SEScore2Model(encoder, folder, layers, tokens, low, high)


def _checkpoint_in(folder: Path) -> Path:
    found = sorted(folder.glob("*.ckpt")) or sorted(folder.glob("checkpoints/*.ckpt"))
    named = [
        path
        for path in found
        if path.stem.startswith("sescore2_") and not path.stem.endswith("_original")
    ]
    if len(named or found) != 1:
        names = ", ".join(path.name for path in found[:4]) or "none"
        fix = "Give the folder of a trained model, or the .ckpt file of a released one"
        raise ModelLoadError(
            f"no {ABOUT} in it, and of .ckpt files {names}", where=str(folder), fix=fix
        )
    return (named or found)[0]


def _released(path: Path, encoder_path: str | None) -> SEScore2Model:
    if not path.is_file():
        raise ModelLoadError(
            "no such file or folder", where=str(path), fix="Give a model's folder or .ckpt file"
        )
    held = read_inert(open_archive(path))
    state = held.tensors(held.root)
    name, width = _encoder_name(held, path)
    try:
        folder = files.locate(encoder_path or name or "", weights=False)
    except ModelLoadError as error:
        fix = "Name its folder, configuration and tokenizer are enough: --encoder-path, encoder_path=..."
        raise ModelLoadError(
            error.problem, where=f"encoder of {path}: {error.where}", fix=fix
        ) from error
    unused = (
        f"{ENCODER}pooler.",
        f"{ENCODER}embeddings.position_ids",
        f"{ENCODER}embeddings.token_type_ids",
    )
    own = {
        name.removeprefix(ENCODER): value.float().clone()
        for name, value in state.items()
        if name.startswith(ENCODER) and not name.startswith(unused)
    }
    head = {
        name.removeprefix("estimator.ff."): value
        for name, value in state.items()
        if name.startswith("estimator.")
    }
    others = [name for name in state if not name.startswith((ENCODER, "estimator."))]
    if others or not own:
        found = (
            f"it holds {excerpt(others)}"
            if others
            else f"it has no tensors of an encoder ({ENCODER}*)"
        )
        raise ModelLoadError(found, where=str(path), fix="Give a released checkpoint of SEScore2")
    layers = _layers(head, width, path)
    return SEScore2Model(from_state(folder, own), folder, layers, RELEASED_TOKENS, None, None)


def _encoder_name(held: InertCheckpoint, path: Path) -> tuple[str | None, int | None]:
    """The encoder that a checkpoint's configuration tells, by its name on the hub, and its width."""
    modules = held.root.attributes.get("_modules") if isinstance(held.root, Inert) else None
    encoder = modules.get("xlm") if isinstance(modules, dict) else None
    config = encoder.attributes.get("config") if isinstance(encoder, Inert) else None
    if not isinstance(config, Inert):
        raise ModelLoadError(
            "it holds no encoder called xlm", where=str(path), fix="Give a checkpoint of SEScore2"
        )
    kind, width = (config.attributes.get(name) for name in ("model_type", "hidden_size"))
    if not (isinstance(kind, str | None) and isinstance(width, int | None)):
        found = f"model_type {excerpt(kind)}, hidden_size {excerpt(width)}"
        raise ModelLoadError(
            f"{found}: expected a name and a number", where=str(path), fix="Fetch the file again"
        )
    return ENCODERS.get((kind or "", width or 0)), width


def _layers(state: Mapping[str, Any], width: int | None, path: Path) -> Layers:
    """The head's layers, of the right shapes."""
    import torch

    if sorted(state) != sorted(HEAD_NAMES):
        found = f"the head holds {', '.join(sorted(state)[:8]) or 'nothing'}, expected {', '.join(HEAD_NAMES)}"
        raise ModelLoadError(
            found, where=str(path), fix="The checkpoint is not whole, or not of SEScore2"
        )
    d = width or state["6.weight"].shape[-1]
    shapes = [(2 * d, 4 * d), (2 * d,), (d, 2 * d), (d,), (1, d), (1,)]
    for name, shape in zip(HEAD_NAMES, shapes, strict=True):
        value = state[name]
        if (
            tuple(value.shape) != shape
            or not value.is_floating_point()
            or not bool(torch.isfinite(value).all())
        ):
            found = f"{name} of the head is {tuple(value.shape)} {value.dtype}, expected {shape} finite numbers"
            raise ModelLoadError(
                found, where=str(path), fix="The checkpoint is not whole, or not of SEScore2"
            )
    pairs = [(state[f"{place}.weight"].float(), state[f"{place}.bias"].float()) for place in LINEAR]
    return tuple(pairs)
