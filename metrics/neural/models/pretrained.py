"""Models of transformers from folders or GGUF files: every weight is there, fits and is a number; no code is fetched.

torch and transformers are imported when one is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from math import inf
from pathlib import Path
from threading import Lock, local
from typing import Any

from ...errors import InputError, ModelLoadError, ResourceError, is_out_of_memory
from ...optional_packages import missing_package
from ...storage.limits import limits
from .encoder import DType
from .files.folder_checks import num_elements
from .files.folder_contents import check_finite
from .files.gguf_files import as_plain, is_gguf, source_of, unpacked, with_own_tokens

# What a configuration may ask for: all else is code on the hub, which the package kernels would fetch and run.
KERNELS: dict[str, tuple[str | None, ...]] = {
    "attn_implementation": (None, "eager", "sdpa", "flex_attention"),
    "experts_implementation": (None, "eager", "batched_mm", "grouped_mm"),
}
# How many times the numbers of its files a model may have: tied weights, and parts that no metric reads.
MAX_RATIO, FEW_NUMBERS = 4, 1 << 22
FLOAT_BYTES = 4
MAX_PACKED = 8  # numbers of two to four bits in one of a quantized file
WHOLE_FOLDER = "Give the folder of the whole model"
# torch's hooks for all threads, registered once under the lock
_hooks: list[Any] = []
_hooking = Lock()
# its `count`, where a thread has one, counts the weights of what that thread builds
_building = local()


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
        ModelLoadError: the folder is not a model, lacks weights, or has some that are not numbers.
    """
    with _reading(folder):
        held = num_elements(folder)
        empty = _empty(folder, kind, held if weights else held or None)
        if not weights:
            return empty
        with source_of(folder) as (place, options):
            if is_gguf(folder):
                options |= unpacked(empty.config)
            model, about = type(empty).from_pretrained(
                place, **options, output_loading_info=True, dtype=dtype, **_without_pooler(empty)
            )
    _check_loaded(folder, {**about, "unexpected_keys": ()}, WHOLE_FOLDER)
    check_finite(model.named_parameters(), folder)
    return as_plain(model) if is_gguf(folder) else _in_memory(model)


def from_state(folder: Path, state: Mapping[str, Any], weights: bool = True) -> Any:
    """An encoder with the configuration of a folder and the weights of a checkpoint, every one of them or none.

    Raises:
        ModelLoadError: the folder has no configuration, or the weights are not those of such an encoder.
    """
    with _reading(folder):
        model = _empty(folder, "AutoModel", sum(weight.numel() for weight in state.values()))
        if not weights:
            return model
        loaded, about = type(model).from_pretrained(
            None,
            config=model.config,
            state_dict=dict(state),
            dtype="float32",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_without_pooler(model),
        )
    fix = "encoder_path must be the encoder that the checkpoint was trained from"
    _check_loaded(folder, about, fix)
    check_finite(state.items(), folder)  # before they became numbers of another type
    return _in_memory(loaded)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Read a model quietly; errors of the libraries, of many kinds, become a ModelLoadError or a ResourceError."""
    try:
        with quietly():
            yield
    except ModelLoadError:
        raise
    except Exception as error:
        missing = missing_package(error, str(folder))
        if missing is not None:
            raise missing from error
        if is_out_of_memory(error):
            fix = "Run it where there is more, or with a smaller --dtype, batch or model"
            problem = "out of memory while it is loaded"
            raise ResourceError(problem, where=str(folder), fix=fix) from error
        problem = (str(error).strip().splitlines() or [""])[0]
        if not isinstance(error, InputError):
            problem = f"{type(error).__name__}: {problem[:200]}"
        fix = "Is this the folder of a transformers model?"
        raise ModelLoadError(problem, where=str(folder), fix=fix) from error


def _check_loaded(folder: Path, about: Mapping[str, Any], fix: str) -> None:
    """Raises ModelLoadError where a model and its weights differ, by what transformers tells about them."""
    problems = []
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(map(str, about[key]))
        if names:
            kind = key.removesuffix("_keys")
            problems.append(f"{len(names)} weights are {kind} ({', '.join(names[:3])})")
    if problems:
        raise ModelLoadError("; ".join(problems), where=str(folder), fix=fix)


def _in_memory(model: Any) -> Any:
    """The model with weights of its own: those of a mapped file would change with the file."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def _empty(folder: Path, kind: str, held: int | None) -> Any:
    """A model of a folder's configuration without weights: its class, names and shapes.

    Raises:
        ModelLoadError: it needs far more numbers than the files of its weights hold, None where there are none.
    """
    import torch
    import transformers

    config = config_of(folder)
    check_kernels(config)
    is_packed = getattr(config, "quantization_config", None) is not None
    most = inf
    if held is not None:
        most = MAX_RATIO * held * (MAX_PACKED if is_packed else 1) + FEW_NUMBERS
    with torch.device("meta"), _counting(most, str(folder)):
        model = getattr(transformers, kind).from_config(config, trust_remote_code=False)
    if kind == "AutoModel" and config.is_encoder_decoder:
        raise InputError(f"{config.model_type} is an encoder-decoder, expected an encoder")
    return model


@contextmanager
def _counting(most: float, where: str) -> Iterator[None]:
    """Stop a model that this thread builds as soon as it has more numbers than `most`, or too many parts.

    Weights on the device "meta" take no memory, but would later, each in four bytes whatever the configuration calls
    their type. Buffers are made and not read, and count as well, by their bytes.
    """
    from torch.nn import Parameter

    counts = [0, 0]  # numbers, tensors

    def count(tensor: Any) -> None:
        is_weight = isinstance(tensor, Parameter)
        counts[0] += tensor.numel() if is_weight else tensor.nbytes // FLOAT_BYTES
        counts[1] += 1
        limits().check("entries", counts[1], where, what="weights")
        if counts[0] > most:
            problem = f"its configuration needs {counts[0]} numbers, far more than its files hold"
            raise ModelLoadError(problem, where=where, fix="Fetch the model's files again")

    _hook_once()
    _building.count = count
    try:
        yield
    finally:
        del _building.count


def _hook_once() -> None:
    """Have torch call `_registered` for every weight and buffer from now on.

    The hooks stay: torch walks over its hooks in every thread, and fails in one while another adds or removes some.
    """
    from torch.nn.modules import module as modules

    with _hooking:
        if not _hooks:
            _hooks.append(modules.register_module_parameter_registration_hook(_registered))
            _hooks.append(modules.register_module_buffer_registration_hook(_registered))


def _registered(_: Any, name: str, tensor: Any) -> None:
    """Count a weight or buffer of a module, if this thread counts."""
    if tensor is not None and hasattr(_building, "count"):
        _building.count(tensor)


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
    with _reading(folder):
        if not (folder.is_dir() or is_gguf(folder)):
            raise InputError("it is not a folder")
        from transformers import AutoTokenizer

        with source_of(folder) as (place, options):
            tokenizer = AutoTokenizer.from_pretrained(place, **options)
            return with_own_tokens(tokenizer) if is_gguf(folder) else tokenizer
