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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from warnings import warn

from ...errors import ModelLoadError, excerpt, unknown
from ...spec.checked_settings import Field
from ..models.attention import Packing
from ..models.files.folder_contents import CheckedTensors, read_settings, read_weights

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# In the order in which several are put one behind the other.
MODES: tuple[Mode, ...] = get_args(Mode)
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
# Activations by the last part of their dotted names.
ACTIVATIONS: Mapping[str, str] = {
    "Identity": "identity",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
}
FIX = "Give the folder of a sentence-transformers model"
SUBFOLDER = re.compile(r"[\w.-]*")
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
        if self.pooling_mode is not None:
            return (
                (self.pooling_mode,)
                if isinstance(self.pooling_mode, str)
                else (*self.pooling_mode,)
            )
        flags = {
            "cls": self.pooling_mode_cls_token,
            "max": self.pooling_mode_max_tokens,
            "mean": self.pooling_mode_mean_tokens,
            "mean_sqrt_len_tokens": self.pooling_mode_mean_sqrt_len_tokens,
            "weightedmean": self.pooling_mode_weightedmean_tokens,
            "lasttoken": self.pooling_mode_lasttoken,
        }
        return tuple(mode for mode in MODES if flags[mode])


@dataclass(frozen=True, kw_only=True)
class DenseSettings:
    """The configuration of a Dense module."""

    in_features: Width
    out_features: Width
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A linear layer with an activation: weight [out, in], bias [out] or None."""

    weight: Any
    bias: Any
    activation: str


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
        layers: what follows, in order.
    """

    transformer: Path
    max_tokens: int | None
    lower_case: bool
    prompt: str
    pooling: SentencePooling
    layers: tuple[Dense | Literal["normalize"], ...]


def read_folder(folder: Path, prompt: str | None, prompt_name: str | None) -> SentenceTransformer:
    """The model of a folder; without modules.json a transformers model whose token vectors are averaged.

    Args:
        folder: the model.
        prompt: what is put before texts; "" for nothing.
        prompt_name: the same by its name in the folder; the folder's default if neither is given.

    Raises:
        ModelLoadError: a module of another type, or a file that is missing, damaged or contradicts another.
        InputError: there is no prompt of this name.
    """
    modules = _modules(folder)
    transformer = folder / modules[0].path
    about = _optional(transformer / TRANSFORMER, TransformerSettings)
    pooling: SentencePooling | None = None
    layers: list[Dense | Literal["normalize"]] = []
    for place, module in enumerate(modules[1:], 1):
        kind, own = _kind(module), folder / module.path
        if place == 1:
            if kind != "Pooling":
                raise _misplaced(folder, place, kind, "Pooling")
            pooling = _pooling(own)
        elif kind == "Dense":
            layers.append(_dense(own))
        elif kind == "Normalize":
            layers.append("normalize")
        else:
            raise _misplaced(folder, place, kind, "Dense or Normalize")
    return SentenceTransformer(
        transformer,
        about.max_seq_length,
        about.do_lower_case,
        _prompt(folder, prompt, prompt_name),
        pooling or SentencePooling(("mean",), includes_prompt=True),
        tuple(layers),
    )


def _modules(folder: Path) -> list[Module]:
    """The modules, the first of them a Transformer."""
    file = folder / MODULES
    if not file.is_file():
        warn(f"{folder}: has no {MODULES}, so token vectors are averaged", stacklevel=4)
        return [Module(type="Transformer")]
    modules = read_settings(file, list[Module])
    for place, module in enumerate(modules):
        _check_known(folder, module)
        if (_kind(module) == "Transformer") != (place == 0):
            raise _misplaced(folder, place, _kind(module), "one Transformer, at the beginning")
    if not modules:
        raise ModelLoadError("has no modules", where=str(file), fix=FIX)
    return modules


def _check_known(folder: Path, module: Module) -> None:
    """Raises ModelLoadError for a module of a type that is not known, or outside the folder."""
    known = ("Transformer", "Pooling", "Dense", "Normalize")
    if _kind(module) not in known:
        problem = f"module type {excerpt(module.type)} is not supported, only {', '.join(known)}"
        raise ModelLoadError(problem, where=str(folder / MODULES), fix="Use another model")
    if not SUBFOLDER.fullmatch(module.path) or module.path.startswith(".."):
        problem = f"path {excerpt(module.path)}, expected a folder of the model"
        raise ModelLoadError(problem, where=str(folder / MODULES), fix=FIX)


def _kind(module: Module) -> str:
    return module.type.rpartition(".")[2]


def _misplaced(folder: Path, place: int, kind: str, expected: str) -> ModelLoadError:
    problem = f"module {place} is {kind}, expected {expected}"
    return ModelLoadError(problem, where=str(folder / MODULES), fix="Use another model")


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


def _dense(folder: Path) -> Dense:
    about = read_settings(folder / "config.json", DenseSettings)
    name = about.activation_function.rpartition(".")[2]
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        problem = f"activation {excerpt(about.activation_function)}, expected {known}"
        raise ModelLoadError(problem, where=str(folder / "config.json"), fix="Use another model")
    tensors = CheckedTensors(folder, read_weights(folder), re.compile(r"(?!)"))
    tensors.demand(["linear.weight", *(["linear.bias"] if about.bias else [])])
    weight = tensors.take("linear.weight", about.out_features, about.in_features)
    bias = tensors.take("linear.bias", about.out_features) if about.bias else None
    tensors.all_used()
    return Dense(weight, bias, ACTIVATIONS[name])
