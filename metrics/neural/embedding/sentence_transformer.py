"""The folder of a sentence-transformers model, read without that package, in its old file form and the new one.

    modules.json                       which modules there are, in their order: Transformer, Pooling, Dense, Normalize
    sentence_bert_config.json          of the Transformer: max_seq_length, do_lower_case
    config_sentence_transformers.json  prompts and the name of the default one
    1_Pooling/config.json, 2_Dense/config.json and weights

A module is known by the last part of its type; none is imported by name.

One vector is made of the token vectors x_k of a text:

    cls         the first counted token             max        max_k x_k, dimension by dimension
    mean        sum x_k / n                         mean_sqrt_len_tokens   sum x_k / sqrt(n)
    lasttoken   the last token                      weightedmean           sum k x_k / sum k,  k = 1, 2, ...

over the n tokens that count: special tokens do, those of a prompt may not, and those of context sentences never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from warnings import warn

from ...errors import ModelLoadError, excerpt, unknown
from ...spec.checked_settings import Field
from ..comet.network import product
from ..models.attention import ROWS, Packing
from ..models.files.folder_contents import load_strictly, read_settings, read_weights

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# In the order in which several are put one behind the other.
MODES: tuple[Mode, ...] = get_args(Mode)
# Their flags in the old form.
FLAGS: Mapping[Mode, str] = {
    mode: f"pooling_mode_{mode}{end}"
    for mode, end in zip(MODES, ("_token", "_tokens", "_tokens", "", "_tokens", ""), strict=True)
}
# Those that mean something where tokens in the middle do not count.
IN_CONTEXT = ("max", "mean", "mean_sqrt_len_tokens")

MODULES = "modules.json"
TRANSFORMER, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
# What an embedding depends on beside the files of every transformers model.
OWN_FILES = (
    MODULES,
    TRANSFORMER,
    PROMPTS,
    "[0-9]*_*/*.json",
    "[0-9]*_*/*.safetensors",
    "[0-9]*_*/*.bin",
    "[0-9]*_*/vocab.*",
    "[0-9]*_*/*.model",
)
# Activations by the last part of their dotted names, as functions of torch.nn.functional; None for none.
ACTIVATIONS: Mapping[str, str | None] = {
    "Identity": None,
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
}
FIX = "Give the folder of a sentence-transformers model"
SUBFOLDER = re.compile(r"[\w.-]*")
# Modules by the last parts of their types.
ORDER = re.compile(r"Transformer( Pooling( (Dense|Normalize))*)?")
Width = Annotated[int, Field(ge=1, le=1 << 20)]


@dataclass(frozen=True, kw_only=True)
class Module:
    """One entry of modules.json."""

    path: Annotated[str, Field(max_length=200)] = ""
    type: Annotated[str, Field(max_length=200)]


@dataclass(frozen=True, kw_only=True)
class TransformerSettings:
    """sentence_bert_config.json."""

    max_seq_length: Annotated[int, Field(ge=1)] | None = None
    do_lower_case: bool = False


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    """config_sentence_transformers.json."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class PoolingSettings:
    """The configuration of a Pooling module: flags in the old form, names in the new one."""

    pooling_mode: Mode | Annotated[list[Mode], Field(min_length=1)] | None = None
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False
    include_prompt: bool = True

    def modes(self) -> tuple[Mode, ...]:
        """The ways of pooling; vectors of several are concatenated."""
        if isinstance(self.pooling_mode, str):
            return (self.pooling_mode,)
        return tuple(
            self.pooling_mode or (mode for mode, flag in FLAGS.items() if getattr(self, flag))
        )


@dataclass(frozen=True, kw_only=True)
class DenseSettings:
    """The configuration of a Dense module."""

    in_features: Width
    out_features: Width
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"


class SentencePooling:
    """Pools the tokens of sequences.

    Args:
        modes: one, or several that are put one behind the other.
        includes_prompt: whether the tokens of a prompt count.
    """

    def __init__(self, modes: Sequence[Mode], includes_prompt: bool) -> None:
        self.modes = tuple(modes)
        self.includes_prompt = includes_prompt

    def vectors(self, packing: Packing, x: Any, counted: Any) -> Any:
        """Vectors [n, modes d] of token vectors x [tokens, d] and which of them count, bool [tokens]."""
        import torch

        x = x[: len(counted)]
        pooled = [self._vectors(mode, packing, x, counted) for mode in self.modes]
        return torch.cat(pooled, 1) if len(pooled) > 1 else pooled[0]

    def _vectors(self, mode: Mode, packing: Packing, x: Any, counted: Any) -> Any:
        """Vectors [n, d] by one mode."""
        if mode == "lasttoken":
            return packing.lasts(x)
        if mode == "cls":
            # The first token that counts is at the place of how many do not.
            return packing.firsts(x, packing.sums((~counted).to(x.dtype)).long())
        if mode == "max":
            return packing.reduced(x.masked_fill(~counted[:, None], float("-inf")), "max")
        weights = counted.to(x.dtype)  # [tokens]
        if mode == "weightedmean":
            weights = weights * (packing.places + 1).to(x.dtype)
        total = packing.sums(x * weights[:, None])  # [n, d]
        count = packing.sums(weights)[:, None].clamp(min=1e-9)  # [n, 1]
        return total / (count.sqrt() if mode == "mean_sqrt_len_tokens" else count)


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTransformer:
    """The modules of a folder: the transformer, how it reads texts, and what follows its states.

    Attributes:
        transformer: the folder of the transformers model.
        max_tokens: the longest sequence, special tokens counted; None where only the tokenizer and the model limit it.
        lower_case: whether texts are read in lower case.
        prompt: what is put before every text.
        pooling: how token vectors become one.
        layers: functions of vectors [n, d] that follow, in order.
    """

    transformer: Path
    max_tokens: int | None
    lower_case: bool
    prompt: str
    pooling: SentencePooling
    layers: tuple[Callable[[Any], Any], ...]


def read_folder(
    folder: Path, prompt: str | None, prompt_name: str | None, device: Any
) -> SentenceTransformer:
    """The model of a folder; without modules.json a transformers model whose token vectors are averaged.

    Args:
        folder: the model.
        prompt: what is put before texts; "" for nothing.
        prompt_name: the same by its name in the folder; the folder's default if neither is given.
        device: where the layers behind the pooling run.

    Raises:
        ModelLoadError: modules of another type or order, or a file that is missing, damaged or contradicts another.
        InputError: there is no prompt of this name.
    """
    modules = _modules(folder)
    transformer = folder / modules[0].path
    about = _optional(transformer / TRANSFORMER, TransformerSettings)
    pooling = SentencePooling(("mean",), includes_prompt=True)
    layers: list[Callable[[Any], Any]] = []
    for module in modules[1:]:
        if _kind(module) == "Pooling":
            pooling = _pooling(folder / module.path)
        else:
            is_dense = _kind(module) == "Dense"
            layers.append(_dense(folder / module.path, device) if is_dense else normalized)
    return SentenceTransformer(
        transformer,
        about.max_seq_length,
        about.do_lower_case,
        _prompt(folder, prompt, prompt_name),
        pooling,
        tuple(layers),
    )


def _modules(folder: Path) -> list[Module]:
    """The modules in their order, in folders of the model."""
    file = folder / MODULES
    if not file.is_file():
        warn(f"{folder}: has no {MODULES}, so token vectors are averaged", stacklevel=4)
        return [Module(type="Transformer")]
    modules = read_settings(file, list[Module])
    kinds = " ".join(map(_kind, modules))
    if not ORDER.fullmatch(kinds):
        problem = (
            f"the modules {excerpt(kinds)}, expected Transformer, Pooling, then Dense and Normalize"
        )
        raise ModelLoadError(problem, where=str(file), fix="Use another model")
    for module in modules:
        if not SUBFOLDER.fullmatch(module.path) or module.path.startswith(".."):
            problem = f"path {excerpt(module.path)}, expected a folder of the model"
            raise ModelLoadError(problem, where=str(file), fix=FIX)
    return modules


def _kind(module: Module) -> str:
    return module.type.rpartition(".")[2]


def _optional(file: Path, kind: Any) -> Any:
    """The settings in a file; the defaults where there is none."""
    return read_settings(file, kind) if file.exists() else kind()


def _prompt(folder: Path, prompt: str | None, prompt_name: str | None) -> str:
    """The prompt before every text."""
    if prompt is not None:
        return prompt
    about: PromptSettings = _optional(folder / PROMPTS, PromptSettings)
    name = about.default_prompt_name if prompt_name is None else prompt_name
    if name is None:
        return ""
    if name not in about.prompts:
        raise unknown("prompt", name, about.prompts, where=str(folder / PROMPTS))
    return about.prompts[name]


def _pooling(folder: Path) -> SentencePooling:
    about = read_settings(folder / "config.json", PoolingSettings)
    modes = about.modes()
    if not modes:
        raise ModelLoadError(
            "no pooling mode is set", where=str(folder / "config.json"), fix="Use another model"
        )
    return SentencePooling(modes, about.include_prompt)


def normalized(x: Any) -> Any:
    """Unit vectors [n, d]."""
    import torch

    return torch.nn.functional.normalize(x)


def _dense(folder: Path, device: Any) -> Callable[[Any], Any]:
    """A linear layer with an activation, as a function of vectors [n, d]."""
    import torch
    from torch.nn import functional

    from ..models.elementwise import Elementwise

    about = read_settings(folder / "config.json", DenseSettings)
    name = about.activation_function.rpartition(".")[2]
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        problem = f"activation {excerpt(about.activation_function)}, expected {known}"
        raise ModelLoadError(problem, where=str(folder / "config.json"), fix="Use another model")
    width = about.out_features
    with torch.device("meta"):
        linear = torch.nn.Linear(about.in_features, width, about.bias)
    load_strictly(torch.nn.ModuleDict({"linear": linear}), read_weights(folder), folder)
    # Widths of products are multiples of 16, as everywhere.
    spare = -width % ROWS
    weight = functional.pad(linear.weight.float(), (0, 0, 0, spare)).to(device)
    bias = (
        None if linear.bias is None else functional.pad(linear.bias.float(), (0, spare)).to(device)
    )
    activation = ACTIVATIONS[name] and Elementwise(getattr(functional, str(ACTIVATIONS[name])))

    def dense(x: Any) -> Any:
        outputs = product(x, weight, bias)[:, :width]
        return activation(outputs) if activation else outputs

    return dense
