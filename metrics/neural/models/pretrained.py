"""Models of transformers from folders or GGUF files: every weight is there, fits and is a number; no code is fetched.

torch and transformers are imported when one is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

from ...errors import (
    DiscorankError,
    InputError,
    ModelLoadError,
    ResourceError,
    is_out_of_memory,
)
from .encoder import DType
from .files.folder_checks import num_elements
from .files.gguf_files import as_plain, is_gguf, source_of, unpacked, with_own_tokens
from .files.model_sizes import check_elements

# What a configuration may ask for: all else is code on the hub, which the package kernels would fetch and run.
KERNELS: dict[str, tuple[str | None, ...]] = {
    "attn_implementation": (None, "eager", "sdpa", "flex_attention"),
    "experts_implementation": (None, "eager", "batched_mm", "grouped_mm"),
}


FLOAT_BYTES = 4
MAX_PACKED = 16  # numbers of two bits in one of a quantized file


@contextmanager
def quietly() -> Iterator[None]:
    """Without the progress bars and reports of transformers."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def pretrained(
    folder: Path, kind: str = "AutoModel", weights: bool = True, dtype: DType = "float32"
) -> Any:
    """A transformers model with every weight of its folder or GGUF file, or with none, on the device "meta".

    Raises:
        ModelLoadError: the folder is no model, lacks weights, or has some that are no numbers.
    """
    try:
        if not weights:
            return _empty(folder, kind)
        empty = sized(folder, kind)
        with quietly(), source_of(folder) as (place, options):
            if is_gguf(folder):
                options |= unpacked(empty.config)
            model, about = type(empty).from_pretrained(
                place, **options, output_loading_info=True, dtype=dtype, **_without_pooler(empty)
            )
    except ModelLoadError:
        raise
    except Exception as error:  # configuration, weights or tokenizer: many kinds
        raise _unreadable(folder, error) from error
    missing = sorted(about["missing_keys"])
    if missing or about["mismatched_keys"]:
        problem = "weights of other shapes"
        if missing:
            names = ", ".join(missing[:3])
            problem = f"{len(missing)} weights are missing ({names})"
        raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")
    _check_finite(model, folder)
    return as_plain(model) if is_gguf(folder) else _in_memory(model)


def sized(folder: Path, kind: str) -> Any:
    """A model on the device "meta" that its folder or GGUF file has the numbers of.

    Raises:
        ModelLoadError: it needs far more, or its buffers do, which are made and not read.
    """
    empty = _empty(folder, kind)
    weights = sum(weight.numel() for weight in empty.parameters())
    buffers = sum(buffer.nbytes for buffer in empty.buffers()) // FLOAT_BYTES
    is_packed = getattr(empty.config, "quantization_config", None) is not None
    held = num_elements(folder) * (MAX_PACKED if is_packed else 1)
    check_elements(weights + buffers, held, str(folder))
    return empty


def from_state(folder: Path, state: Mapping[str, Any], weights: bool = True) -> Any:
    """An encoder with the configuration of a folder and the weights of a checkpoint, every one of them or none.

    Raises:
        ModelLoadError: the folder has no configuration, or the weights are not those of such an encoder.
    """
    try:
        model = _empty(folder, "AutoModel")
    except Exception as error:
        raise _unreadable(folder, error) from error
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    shapes = {name: shape for name, shape in shapes.items() if not name.startswith("pooler.")}
    problems = _misfits(shapes, state)
    if problems:
        raise ModelLoadError(
            f"the checkpoint is not of this encoder: {'; '.join(problems)}",
            where=str(folder),
            fix="encoder_path must be the encoder that the checkpoint was trained from",
        )
    if not weights:
        return model
    with quietly():
        loaded = type(model).from_pretrained(
            None,
            config=model.config,
            state_dict=dict(state),
            dtype="float32",
            **_without_pooler(model),
        )
    _check_finite(loaded, folder)
    return _in_memory(loaded)


def _check_finite(model: Any, folder: Path) -> None:
    """Raises ModelLoadError for a weight that is no number: attention may hide it from what comes out."""
    for name, weight in model.named_parameters():
        low, high = weight.detach().aminmax() if weight.numel() else (weight.sum(), weight.sum())
        if not (low.isfinite() and high.isfinite()):
            problem = f"a weight that is no number ({name})"
            fix = "The file is damaged, or training went wrong: get another"
            raise ModelLoadError(problem, where=str(folder), fix=fix)


def _in_memory(model: Any) -> Any:
    """The model with weights of its own: those of a mapped file would change with the file."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def _misfits(shapes: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    """Differences between the weights of a checkpoint and those of a model, in words; none if they fit."""
    missing = sorted(shapes.keys() - state.keys())
    left_over = sorted(state.keys() - shapes.keys())
    shared = shapes.keys() & state.keys()
    differences = []
    for name in sorted(shared):
        own, other = tuple(shapes[name]), tuple(state[name].shape)
        if own != other:
            differences.append(f"{name}: {other} against {own}")
    kinds = {
        "weights are missing": missing,
        "weights have no place": left_over,
        "shapes differ": differences,
    }
    misfits = []
    for kind, names in kinds.items():
        if names:
            first = ", ".join(names[:3])
            misfits.append(f"{len(names)} {kind} ({first})")
    return misfits


def _empty(folder: Path, kind: str) -> Any:
    """A model of a folder's configuration without weights: its class, names and shapes."""
    import torch
    import transformers

    config = config_of(folder)
    check_kernels(config)
    with torch.device("meta"):
        model = getattr(transformers, kind).from_config(config, trust_remote_code=False)
    if kind == "AutoModel" and config.is_encoder_decoder:
        raise InputError(f"{config.model_type} is an encoder-decoder, expected an encoder")
    return model


def config_of(folder: Path) -> Any:
    """The configuration of a model's folder or GGUF file; raises what transformers does, of many kinds."""
    if not (is_gguf(folder) or (folder / "config.json").is_file()):
        raise InputError("there is no config.json in it")
    from transformers import AutoConfig

    with quietly(), source_of(folder) as (place, options):
        return AutoConfig.from_pretrained(place, **options)


def check_kernels(config: Any) -> None:
    """Raises InputError if a configuration names code that transformers would fetch to compute with."""
    parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
    for part in parts:
        for name, known in KERNELS.items():
            value = getattr(part, f"_{name}", None)
            if value not in known:
                problem = f"its config.json names the code {value!r:.80} as {name}"
                raise InputError(f"{problem}: take that out, nothing is fetched to be run")


def _without_pooler(model: Any) -> dict[str, bool]:
    """The argument that leaves out the pooler, which no metric reads, where a class has one."""
    has_pooler = "add_pooling_layer" in signature(type(model).__init__).parameters
    return {"add_pooling_layer": False} if has_pooler else {}


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of a folder or a GGUF file; raises ModelLoadError."""
    if not (folder.is_dir() or is_gguf(folder)):
        raise _unreadable(folder, InputError("it is no folder"))
    from transformers import AutoTokenizer

    try:
        with quietly(), source_of(folder) as (place, options):
            tokenizer = AutoTokenizer.from_pretrained(place, **options)
            return with_own_tokens(tokenizer) if is_gguf(folder) else tokenizer
    except Exception as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> DiscorankError:
    if is_out_of_memory(error):
        fix = "Run it where there is more, or with a smaller --dtype, batch or model"
        return ResourceError("out of memory while it is loaded", where=str(folder), fix=fix)
    lines = str(error).strip().splitlines() or [""]
    problem = lines[0]
    if not isinstance(error, InputError):
        problem = f"{type(error).__name__}: {problem[:200]}"
    fix = "Is this the folder of a transformers model?"
    return ModelLoadError(problem, where=str(folder), fix=fix)
