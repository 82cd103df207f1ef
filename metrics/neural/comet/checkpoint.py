"""Reads a COMET checkpoint: ``hparams.yaml`` beside or above a ``.ckpt`` that Lightning wrote.

A COMET model is an encoder, a mix of its layers (one weight per layer and a factor gamma; none where one layer is used)
and an estimator, linear layers with activations between. Settings are in the checkpoint and in ``hparams.yaml``. Every
setting that decides a score is checked, and so is every tensor: none is missing, left over, of another shape, or not
finite. It does not know the encoder's own layout, which its configuration tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import InputError, ModelLoadError, excerpt, unknown
from ...storage.json_and_yaml import read_yaml
from ..models.files.folder_contents import CheckedTensors
from ..models.files.torch_checkpoint import read_torch_checkpoint

Kind = Literal[
    "regression_metric",
    "referenceless_regression_metric",
    "unified_metric",
    "xcomet_metric",
    "polycand_metric",
]
# Vectors of the encoder's width that the estimator of each kind reads side by side.
BLOCKS = {
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
ERROR_LABELS = ("minor", "major", "critical")
ENCODERS = ("XLM-RoBERTa", "XLM-RoBERTa-XL", "BERT", "MiniLM", "RemBERT")
POOLS = ("avg", "cls", "max")
TRANSFORMATIONS = ("softmax", "sparsemax", "sparsemax_patch")
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
SEGMENTS = ("mt", "src", "ref")

# How names of tensors begin.
ENCODER = "encoder.model."
SCALAR = "layerwise_attention.scalar_parameters."
GAMMA = "layerwise_attention.gamma"
WORD_LABELS = "hidden2tag"
# Buffers that old encoders saved, heads and buffers that only training needs.
UNUSED = (
    r"encoder\.model\.(embeddings\.(position_ids|token_type_ids)|pooler\..+)"
    r"|layerwise_attention\.dropout_(mask|fill)|(wordloss|(train|val)_(metrics|corr|mcc))\..+"
)


@dataclass(frozen=True, slots=True, eq=False)
class CometCheckpoint:
    """The content of a COMET checkpoint; tensors are on the CPU, in the precision of the file and mapped from it.

    Attributes:
        path: the ``.ckpt`` file.
        kind: class of the model.
        encoder_model: family of the encoder, by COMET's name.
        pretrained_model: hub name of the encoder that training began with; its configuration and tokenizer are needed.
        pool: how token vectors become one; "cls" for unified models and XCOMET, whatever their settings say.
        layer: the encoder layer that is used, 0 for the embeddings, or "mix".
        layer_transformation: what makes the weights of the mix sum to one.
        layer_norm: whether layers are normalised before they are mixed.
        activation, final_activation: name of the class in `torch.nn`; the final one follows the last linear layer.
        input_segments: what a unified model reads, in the order mt, src, ref; empty for other kinds.
        encoder: state dict of the encoder without pooler.
        scalars: weights of the mix before the transformation, float [layers + 1]; None in a model without a mix.
        gamma: factor of the mix, float [1]; None in a model without a mix.
        estimator: weight [out, in] and bias [out] of the linear layers, first to last; the last has one output.
        word_layer: the encoder layer whose states XCOMET labels; None for other kinds.
        word_labels: weight [4, d] and bias [4] of these labels (none, minor, major, critical); None for other kinds.
    """

    path: Path
    kind: Kind
    encoder_model: str
    pretrained_model: str
    pool: Literal["avg", "cls", "max"]
    layer: int | Literal["mix"]
    layer_transformation: Literal["softmax", "sparsemax"]
    layer_norm: bool
    activation: str
    final_activation: str | None
    input_segments: tuple[str, ...]
    encoder: Mapping[str, Any]
    scalars: Any | None
    gamma: Any | None
    estimator: tuple[tuple[Any, Any], ...]
    word_layer: int | None = None
    word_labels: tuple[Any, Any] | None = None

    @property
    def blocks(self) -> int:
        """Number of vectors of the encoder's width that the estimator reads."""
        return BLOCKS[self.kind]

    def check_encoder(self, *, num_hidden_layers: int, hidden_size: int) -> None:
        """Whether the mix and the estimator fit an encoder of this depth and width.

        Raises:
            ModelLoadError: they do not.
        """
        width = int(self.estimator[0][0].shape[1])
        if width != self.blocks * hidden_size:
            expected = f"{self.blocks} x {hidden_size} of a {self.kind}"
            problem = f"the estimator reads {width} numbers, expected {expected}"
        elif self.scalars is not None and len(self.scalars) != num_hidden_layers + 1:
            mixed = f"the mix is of {len(self.scalars)} layers"
            problem = f"{mixed}, the encoder has {num_hidden_layers} and its embeddings"
        elif self.layer != "mix" and self.layer > num_hidden_layers:
            problem = f"layer is {self.layer}, the encoder has {num_hidden_layers}"
        elif self.word_layer is not None and self.word_layer > num_hidden_layers:
            problem = f"word_layer is {self.word_layer}, the encoder has {num_hidden_layers}"
        else:
            return
        fix = f"Its encoder is {self.pretrained_model}"
        raise ModelLoadError(problem, where=str(self.path), fix=fix)


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
    name = beside.get("class_identifier", inside.get("class_identifier"))
    is_xcomet = name == "xcomet_metric"
    defaults = XCOMET_DEFAULTS if is_xcomet else {}
    values = {**defaults, **beside, **inside, "class_identifier": name}
    settings = CheckpointSettings(path, values)
    kind = settings.kind()
    if kind == "polycand_metric":
        settings.check_candidates()
    reads_together = kind in ("unified_metric", "xcomet_metric")
    patched = beside.get("layer_transformation") == "sparsemax_patch"
    usual = "sparsemax" if reads_together else "softmax"
    transformation = settings.one_of("layer_transformation", TRANSFORMATIONS, usual)
    sparse = transformation == "sparsemax" and not patched
    layer = settings.layer("sent_layer" if reads_together else "layer")
    tensors = tensors_of(path, state, labels_words=is_xcomet)
    encoder = encoder_of(tensors)
    estimator = estimator_of(tensors, settings.sizes("hidden_sizes"))
    scalars, gamma = mix_of(tensors, needed=layer == "mix")
    word_labels = tensors.linear(WORD_LABELS, 1 + len(ERROR_LABELS), None) if is_xcomet else None
    tensors.all_used()
    return CometCheckpoint(
        path=path,
        kind=kind,
        encoder_model=settings.one_of("encoder_model", ENCODERS),
        pretrained_model=settings.typed("pretrained_model", str),
        pool=cast(Any, "cls" if reads_together else settings.one_of("pool", POOLS)),
        layer=layer,
        layer_transformation="sparsemax" if sparse else "softmax",
        layer_norm=settings.typed("layer_norm", bool, True),
        activation=settings.one_of("activations", ACTIVATIONS, spell=str.title),
        final_activation=settings.final_activation(),
        input_segments=settings.segments("input_segments") if kind == "unified_metric" else (),
        encoder=encoder,
        scalars=scalars,
        gamma=gamma,
        estimator=estimator,
        word_layer=settings.word_layer() if is_xcomet else None,
        word_labels=word_labels,
    )


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The settings of a checkpoint, checked one by one.

    Args:
        path: the checkpoint, for messages.
        values: the settings by name.
    """

    path: Path
    values: Mapping[str, Any]

    def typed(self, key: str, kind: type, default: Any = None) -> Any:
        """A setting of exactly this type; raises ModelLoadError."""
        value = self.values.get(key, default)
        if type(value) is kind:
            return value
        stated = "missing" if value is None else excerpt(value)
        raise self.error(f"{key} is {stated}, expected {kind.__name__}")

    def one_of(
        self,
        key: str,
        known: Iterable[str],
        default: str | None = None,
        spell: Callable[[str], str] = str,
    ) -> str:
        """A setting that is one of the known names, once spelt like them; raises InputError."""
        name = spell(self.typed(key, str, default))
        if name not in known:
            raise unknown(key, name, known, where=str(self.path))
        return name

    def kind(self) -> Kind:
        """The class of the model; raises ModelLoadError."""
        name = self.typed("class_identifier", str)
        if name not in BLOCKS:
            problem = f"models of class {name!r} are not supported"
            fix = f"These classes are: {', '.join(BLOCKS)}"
            raise ModelLoadError(problem, where=str(self.path), fix=fix)
        return cast(Kind, name)

    def check_candidates(self) -> None:
        """Raises ModelLoadError for a COMET-poly that reads anything beside one further candidate."""
        translations = self.values.get("additional_translation_in", [])
        if list(translations).count(True) != 1:
            problem = f"it reads {list(translations).count(True)} further candidates, expected 1"
            raise ModelLoadError(problem, where=str(self.path), fix="Take a model that reads one")
        for key in ("additional_score_in", "additional_score_out"):
            if any(self.values.get(key, [])):
                problem = f"{key} is set: scores of other candidates are not supported"
                raise ModelLoadError(problem, where=str(self.path), fix="Take a model without")
        if self.values.get("use_ref"):
            problem = "it reads a reference beside the further candidate"
            raise ModelLoadError(problem, where=str(self.path), fix="Take a model without")

    def final_activation(self) -> str | None:
        """The activation behind the last linear layer, if there is one; raises InputError."""
        if self.values.get("final_activation") is None:
            return None
        return self.one_of("final_activation", ACTIVATIONS, spell=str.title)

    def layer(self, key: str) -> int | Literal["mix"]:
        """The number of a layer, or "mix"; raises ModelLoadError."""
        value = self.values.get(key)
        if value == "mix":
            return "mix"
        if type(value) is not int or value < 0:
            raise self.error(f"{key} is {excerpt(value)}, expected 'mix' or the number of a layer")
        return value

    def sizes(self, key: str) -> list[int]:
        """Widths of hidden layers; raises ModelLoadError."""
        sizes: list[Any] = self.typed(key, list)
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise self.error(f"{key} is {excerpt(sizes)}, expected widths of layers")
        return sizes

    def segments(self, key: str) -> tuple[str, ...]:
        """The inputs of a unified model, in the order mt, src, ref; raises ModelLoadError."""
        names: list[Any] = self.typed(key, list)
        wrong = any(names.count(name) != 1 or name not in SEGMENTS for name in names)
        if len(names) < 2 or names[0] != "mt" or wrong:
            raise self.error(f"{key} is {excerpt(names)}, expected mt, then src, ref or both")
        return tuple(name for name in SEGMENTS if name in names)

    def word_layer(self) -> int:
        """The layer whose states XCOMET labels; raises ModelLoadError, also for other labels than its own."""
        labels = self.typed("error_labels", list)
        if tuple(labels) != ERROR_LABELS:
            raise self.error(f"error_labels is {excerpt(labels)}, expected {list(ERROR_LABELS)}")
        layer = self.layer("word_layer")
        if layer == "mix":
            raise self.error("word_layer is 'mix', expected the number of a layer")
        return layer

    def error(self, problem: str) -> ModelLoadError:
        """An error about these settings."""
        fix = "Settings stand in the checkpoint and in hparams.yaml"
        return ModelLoadError(problem, where=str(self.path), fix=fix)


def tensors_of(path: Path, state: Mapping[str, Any], labels_words: bool) -> CheckedTensors:
    """The tensors of a COMET checkpoint that scores depend on; word labels are those of XCOMET alone."""
    unused = UNUSED if labels_words else rf"{UNUSED}|{WORD_LABELS}\..+"
    return CheckedTensors(path, state, re.compile(unused))


def encoder_of(tensors: CheckedTensors) -> dict[str, Any]:
    """The state dict of the encoder."""
    names = [name for name in tensors.left if name.startswith(ENCODER)]
    if not names:
        raise tensors.error(f"it has no tensors of an encoder ({ENCODER}*)")
    return {name.removeprefix(ENCODER): tensors.take(name) for name in names}


def estimator_of(tensors: CheckedTensors, hidden_sizes: list[int]) -> tuple[tuple[Any, Any], ...]:
    """Weight [out, in] and bias [out] of every linear layer."""
    inputs = [None, *hidden_sizes]
    outputs = [*hidden_sizes, 1]
    # An activation and a dropout stand between two, so that every third place is one.
    names = [f"estimator.ff.{3 * place}" for place in range(len(outputs))]
    needed = []
    for name in names:
        needed += [f"{name}.weight", f"{name}.bias"]
    tensors.demand(needed)
    layers = []
    for name, into, out in zip(names, inputs, outputs, strict=True):
        weight = tensors.take(f"{name}.weight", out, into)
        bias = tensors.take(f"{name}.bias", out)
        layers.append((weight, bias))
    return tuple(layers)


def mix_of(tensors: CheckedTensors, needed: bool) -> tuple[Any | None, Any | None]:
    """Weights of the layers [layers + 1] and gamma [1]; None in a model without a mix that needs none."""
    import torch

    count = sum(name.startswith(SCALAR) for name in tensors.left)
    if not needed and not count and GAMMA not in tensors.left:
        return None, None
    names = [f"{SCALAR}{layer}" for layer in range(max(count, 1))]
    tensors.demand([*names, GAMMA])
    scalars = torch.cat([tensors.take(name, 1) for name in names])
    gamma = tensors.take(GAMMA, 1)
    return scalars, gamma
