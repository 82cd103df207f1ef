"""Reads a COMET checkpoint: ``hparams.yaml`` beside or above a ``.ckpt`` that Lightning wrote.

A COMET model is an encoder, a mix of its layers (one weight per layer and a factor gamma; none where one layer is used)
and an estimator, linear layers with activations between. Settings are in the checkpoint and in ``hparams.yaml``. Every
setting that decides a score is checked, and so is every tensor: none is missing, left over, of another shape, or not
finite. The encoder's own layout is in its configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from ...errors import InputError, ModelLoadError, excerpt
from ...spec.checked_settings import Checked, Field, ValueRefusal, from_json
from ...storage.json_and_yaml import read_yaml
from ..models.files.folder_contents import load_strictly
from ..models.files.torch_checkpoint import read_torch_checkpoint

Kind = Literal[
    "regression_metric",
    "referenceless_regression_metric",
    "unified_metric",
    "xcomet_metric",
    "polycand_metric",
]
# Vectors of the encoder's width that the estimator of each kind reads side by side.
BLOCKS: Mapping[Kind, int] = {
    "regression_metric": 6,
    "referenceless_regression_metric": 4,
    "unified_metric": 1,
    "xcomet_metric": 1,
    "polycand_metric": 9,
}
# What a released XCOMET model has where its settings say nothing.
XCOMET_DEFAULTS: Mapping[str, Any] = {
    "encoder_model": "XLM-RoBERTa-XL",
    "sent_layer": "mix",
    "word_layer": 36,
    "hidden_sizes": [2560, 1280],
    "activations": "Tanh",
    "layer_norm": False,
    "error_labels": ["minor", "major", "critical"],
}
# Settings that one kind of model alone reads.
OWN_SETTINGS: Mapping[str, Kind] = {
    "input_segments": "unified_metric",
    "word_layer": "xcomet_metric",
    "error_labels": "xcomet_metric",
}
ACTIVATIONS = (
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "Mish",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
)
FIX = "Settings stand in the checkpoint and in hparams.yaml"

# How names of the encoder's tensors begin.
ENCODER = "encoder.model."
NUM_LABELS = 4
# Buffers that old encoders saved, heads and buffers that only training needs.
UNUSED = (
    r"encoder\.model\.(embeddings\.(position_ids|token_type_ids)|pooler\..+)"
    r"|layerwise_attention\.dropout_(mask|fill)|(wordloss|(train|val)_(metrics|corr|mcc))\..+"
)
# Parts that not every kind of model reads: the mix of layers, and the labels of words.
MIX, WORD_LABELS = r"layerwise_attention\..+", r"hidden2tag\..+"


def _known_activation(name: str) -> str:
    """The name of an activation as torch.nn has it; raises ValueRefusal."""
    if name.title() not in ACTIVATIONS:
        raise ValueRefusal(f"should be one of {', '.join(ACTIVATIONS)}", name)
    return name.title()


def _in_order(names: list[str]) -> list[str]:
    """The segments of a unified model in the order mt, src, ref; raises ValueRefusal."""
    if len(names) < 2 or names[0] != "mt" or len(set(names)) < len(names):
        raise ValueRefusal("should be mt, then src, ref or both", names)
    return [name for name in ("mt", "src", "ref") if name in names]


def _one_candidate(is_read: list[bool]) -> list[bool]:
    """Which further candidates a COMET-poly reads, just one of them; raises ValueRefusal."""
    if sum(is_read) != 1:
        raise ValueRefusal("should be true once, for one further candidate", is_read)
    return is_read


Number = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1, le=1 << 20)]
Activation = Annotated[str, Checked(_known_activation)]
Segments = Annotated[list[Literal["mt", "src", "ref"]], Checked(_in_order)]


@dataclass(frozen=True, kw_only=True)
class CometSettings:
    """The settings of a checkpoint that decide a score, by the names that COMET gives them.

    Attributes:
        class_identifier: class of the model.
        encoder_model: family of the encoder, by COMET's name.
        pretrained_model: hub name of the encoder that training began with; its configuration and tokenizer are needed.
        pool: how token vectors become one.
        layer: the encoder layer that is used, 0 for the embeddings, or "mix".
        layer_transformation: what makes the weights of the mix sum to one.
        layer_norm: whether layers are normalised before they are mixed.
        hidden_sizes: widths of the estimator's hidden layers.
        activations, final_activation: name of the class in `torch.nn`; the final one follows the last linear layer.
        input_segments: what a unified model reads, in the order mt, src, ref; empty for other kinds.
        word_layer, error_labels: the encoder layer whose states XCOMET labels, and with what.
        additional_translation_in: which further candidates a COMET-poly reads; as it reads nothing else, no
            additional_score_in, additional_score_out and use_ref.
    """

    class_identifier: Kind
    encoder_model: Literal["XLM-RoBERTa", "XLM-RoBERTa-XL", "BERT", "MiniLM", "RemBERT"]
    pretrained_model: str
    pool: Literal["avg", "cls", "max"]
    layer: Literal["mix"] | Number
    layer_transformation: Literal["softmax", "sparsemax"]
    layer_norm: bool = True
    hidden_sizes: Annotated[list[Size], Field(min_length=1, max_length=64)]
    activations: Activation
    final_activation: Activation | None = None
    input_segments: Segments = field(default_factory=list)
    word_layer: Number | None = None
    error_labels: tuple[Literal["minor"], Literal["major"], Literal["critical"]] | None = None
    additional_translation_in: Annotated[list[bool], Checked(_one_candidate)] | None = None
    additional_score_in: list[Literal[False]] = field(default_factory=list)
    additional_score_out: list[Literal[False]] = field(default_factory=list)
    use_ref: Literal[False] = False


@dataclass(frozen=True, slots=True, eq=False)
class CometCheckpoint:
    """The content of a COMET checkpoint; tensors are on the CPU, in the precision of the file and mapped from it.

    Attributes:
        path: the ``.ckpt`` file.
        settings: the settings.
        encoder: state dict of the encoder without pooler.
        state: state dict of all other layers.
    """

    path: Path
    settings: CometSettings
    encoder: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def kind(self) -> Kind:
        """Class of the model."""
        return self.settings.class_identifier

    def trained_layers(self, depth: int, width: int) -> Any:
        """The layers over an encoder of this depth and width, as a torch module.

            estimator.ff          linear layers, first to last; the last has one output
            layerwise_attention   scalar_parameters, depth + 1 of [1], and gamma [1]; where layers are mixed
            hidden2tag            labels none, minor, major and critical of words; of XCOMET

        Raises:
            ModelLoadError: they are not those of such an encoder, not whole, or not finite.
        """
        import torch
        from torch import nn

        settings, modules = self.settings, nn.ModuleDict()
        used = [layer for layer in (settings.layer, settings.word_layer) if isinstance(layer, int)]
        if max(used, default=0) > depth:
            problem = f"it reads layer {max(used)} of an encoder with {depth} layers"
            fix = f"Its encoder is {settings.pretrained_model}"
            raise ModelLoadError(problem, where=str(self.path), fix=fix)
        sizes = [BLOCKS[self.kind] * width, *settings.hidden_sizes, 1]
        with torch.device("meta"):
            # An activation and a dropout are between two linear layers.
            layers = {str(3 * i): nn.Linear(*size) for i, size in enumerate(pairwise(sizes))}
            modules["estimator"] = nn.ModuleDict({"ff": nn.ModuleDict(layers)})
            if settings.layer == "mix":
                mix = modules["layerwise_attention"] = nn.Module()
                mix.scalar_parameters = nn.ParameterList([*torch.empty(depth + 1, 1)])
                mix.gamma = nn.Parameter(torch.empty(1))
            if self.kind == "xcomet_metric":
                modules["hidden2tag"] = nn.Linear(width, NUM_LABELS)
        return load_strictly(modules, self.state, self.path)


def read_checkpoint(path: str | Path) -> CometCheckpoint:
    """The model in a COMET folder (``hparams.yaml`` and ``checkpoints/model.ckpt``) or in a ``.ckpt`` file.

    Nothing of the file is run. ``class_identifier`` is taken from ``hparams.yaml`` first, the other settings from the
    checkpoint first; but where ``hparams.yaml`` says ``layer_transformation: sparsemax_patch``, that means softmax
    whatever the checkpoint says.

    Raises:
        ModelLoadError: there is no such file, or it is damaged, of a class that is not supported, or incomplete.
    """
    path, beside = _located(Path(path))
    try:
        settings_beside = read_yaml(beside) if beside else {}
        settings_inside, state = _contents(path)
        return _checkpoint(path, settings_beside, settings_inside, state)
    except InputError as error:
        raise ModelLoadError(
            error.problem, where=error.where or str(path), fix=error.fix
        ) from error


def _located(path: Path) -> tuple[Path, Path | None]:
    """The checkpoint and the settings that belong to it."""
    if path.is_dir():
        file = _only_checkpoint(path)
        folders = [path]
    elif path.is_file():
        file = path
        folders = [*path.absolute().parents][:2]
    else:
        fix = "Give a COMET folder or its .ckpt file"
        raise ModelLoadError("no such file or folder", where=str(path), fix=fix)
    for folder in folders:
        settings = folder / "hparams.yaml"
        if settings.is_file():
            return file, settings
    return file, None


def _only_checkpoint(folder: Path) -> Path:
    """The checkpoint in a COMET folder: ``model.ckpt``, or the only one there is."""
    files = sorted((folder / "checkpoints").glob("*.ckpt"))
    files = [file for file in files if file.name == "model.ckpt"] or files
    if len(files) != 1:
        names = ", ".join(file.name for file in files[:4]) or "none"
        raise ModelLoadError(
            f"expected one .ckpt file in checkpoints/, found {names}",
            where=str(folder),
            fix="A COMET folder has hparams.yaml and checkpoints/model.ckpt; or give the .ckpt file",
        )
    return files[0]


def _contents(path: Path) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Settings and tensors of a checkpoint file."""
    checkpoint = read_torch_checkpoint(path)
    root = checkpoint.root
    fix = "Give a checkpoint of COMET"
    state = root.get("state_dict") if isinstance(root, dict) else None
    if not isinstance(state, dict):
        content = excerpt(list(root) if isinstance(root, dict) else root)
        raise checkpoint.error(f"found {content}, expected a mapping with a state_dict", fix)
    settings = root.get("hyper_parameters", {})
    if not isinstance(settings, dict):
        problem = f"hyper_parameters is {excerpt(settings)}, expected a mapping"
        raise checkpoint.error(problem, fix)
    return settings, checkpoint.tensors(state)


def _checkpoint(
    path: Path, beside: Mapping[str, Any], inside: Mapping[str, Any], state: Mapping[str, Any]
) -> CometCheckpoint:
    """The checkpoint of the settings beside and inside a file, and of its state dict."""
    settings = from_json(CometSettings, _settings(beside, inside), str(path), FIX)
    unused = [UNUSED]
    if settings.layer != "mix":
        unused.append(MIX)
    if settings.class_identifier != "xcomet_metric":
        unused.append(WORD_LABELS)
    is_unused = re.compile("|".join(unused)).fullmatch
    encoder: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, tensor in state.items():
        if not is_unused(name):
            part = encoder if name.startswith(ENCODER) else others
            part[name.removeprefix(ENCODER)] = tensor
    return CometCheckpoint(path, settings, encoder, others)


def _settings(beside: Mapping[str, Any], inside: Mapping[str, Any]) -> dict[str, Any]:
    """The settings beside and inside a file as one mapping, without those that models of its class do not read."""
    name = beside.get("class_identifier", inside.get("class_identifier"))
    defaults = XCOMET_DEFAULTS if name == "xcomet_metric" else {}
    values = {**defaults, **beside, **inside, "class_identifier": name}
    values = {key: value for key, value in values.items() if OWN_SETTINGS.get(key, name) == name}
    reads_together = name in ("unified_metric", "xcomet_metric")
    if reads_together:
        values |= {"pool": "cls", "layer": values.get("sent_layer")}
    values.setdefault("layer_transformation", "sparsemax" if reads_together else "softmax")
    if "sparsemax_patch" in (beside.get("layer_transformation"), values["layer_transformation"]):
        values["layer_transformation"] = "softmax"
    # What is not set counts as missing.
    return {key: value for key, value in values.items() if value is not None}
