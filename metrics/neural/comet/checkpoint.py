"""Reads a COMET checkpoint: ``hparams.yaml`` beside or above a ``.ckpt`` that Lightning wrote.

A COMET model is an encoder, a mix of its layers (one weight per layer and a factor gamma; none where one layer is used)
and an estimator, linear layers with activations between. Here these parts are taken out of the file, every setting that
decides a score is checked, and so is every tensor: none is missing, left over, of another shape, or not finite. It does
not know the encoder's own layout, which its configuration tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import InputError, ModelLoadError, excerpt, unknown
from ...spec.safe_yaml import read_yaml
from ..models.inert_pickle import open_archive, read_inert

Kind = Literal["regression_metric", "referenceless_regression_metric", "unified_metric"]
BLOCKS = {"regression_metric": 6, "referenceless_regression_metric": 4, "unified_metric": 1}
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
ENCODER, MIX = "encoder.model.", "layerwise_attention."
UNUSED = re.compile(  # buffers that old encoders saved, heads and buffers that only training or word labels need
    r"encoder\.model\.(embeddings\.(position_ids|token_type_ids)|pooler\..+)"
    r"|layerwise_attention\.dropout_(mask|fill)|(hidden2tag|wordloss|(train|val)_(metrics|corr|mcc))\..+"
)


@dataclass(frozen=True, slots=True, eq=False)
class CometCheckpoint:
    """What a COMET checkpoint holds; tensors are on the CPU, in the precision of the file and mapped from it.

    Attributes:
        path: the ``.ckpt`` file.
        kind: class of the model.
        encoder_model: family of the encoder, by COMET's name.
        pretrained_model: hub name of the encoder that training began with; its configuration and tokenizer are needed.
        pool: how token vectors become one; "cls" for unified models, whatever their settings say.
        layer: the encoder layer that is used, 0 for the embeddings, or "mix".
        layer_transformation: what makes the weights of the mix sum to one.
        layer_norm: whether layers are normalised before they are mixed.
        activation, final_activation: name of the class in `torch.nn`; the final one follows the last linear layer.
        input_segments: what a unified model reads, in the order mt, src, ref; empty for other kinds.
        encoder: state dict of the encoder without pooler.
        scalars: weights of the mix before the transformation, float [layers + 1]; None in a model without a mix.
        gamma: factor of the mix, float [1]; None in a model without a mix.
        estimator: weight [out, in] and bias [out] of the linear layers, first to last; the last has one output.
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

    @property
    def blocks(self) -> int:
        """How many vectors of the encoder's width the estimator reads side by side."""
        return BLOCKS[self.kind]

    def check_encoder(self, *, num_hidden_layers: int, hidden_size: int) -> None:
        """Whether the mix and the estimator fit an encoder of this depth and width.

        Raises:
            ModelLoadError: they do not.
        """
        width = int(self.estimator[0][0].shape[1])
        if width != self.blocks * hidden_size:
            found = f"the estimator reads {width} numbers, expected {self.blocks} x {hidden_size} of a {self.kind}"
        elif self.scalars is not None and len(self.scalars) != num_hidden_layers + 1:
            found = f"the mix is of {len(self.scalars)} layers, the encoder has {num_hidden_layers} and its embeddings"
        elif self.layer != "mix" and self.layer > num_hidden_layers:
            found = f"layer is {self.layer}, the encoder has {num_hidden_layers}"
        else:
            return
        raise ModelLoadError(
            found, where=str(self.path), fix=f"Its encoder is {self.pretrained_model}"
        )


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
        settings = read_yaml(beside) if beside else {}
        held, tensors = _contents(path)
        return _checkpoint(path, settings, held, tensors)
    except InputError as error:
        raise ModelLoadError(
            error.problem, where=error.where or str(path), fix=error.fix
        ) from error


def _located(path: Path) -> tuple[Path, Path | None]:
    """The checkpoint and the settings that belong to it."""
    if path.is_dir():
        found = sorted((path / "checkpoints").glob("*.ckpt"))
        named = [file for file in found if file.name == "model.ckpt"] or found
        if len(named) != 1:
            names = ", ".join(file.name for file in named[:4]) or "none"
            fix = (
                "A COMET folder has hparams.yaml and checkpoints/model.ckpt; or give the .ckpt file"
            )
            raise ModelLoadError(
                f"expected one .ckpt file in checkpoints/, found {names}", where=str(path), fix=fix
            )
        path, folders = named[0], [path]
    elif path.is_file():
        folders = [*path.absolute().parents][:2]
    else:
        raise ModelLoadError(
            "no such file or folder", where=str(path), fix="Give a COMET folder or its .ckpt file"
        )
    return path, next(
        (folder / "hparams.yaml" for folder in folders if (folder / "hparams.yaml").is_file()), None
    )


def _contents(path: Path) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Settings and tensors of a checkpoint file."""
    import torch

    archive = open_archive(path)
    try:
        root = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        inert = None
    except (
        Exception
    ):  # it names a class that torch does not admit, or is damaged: the inert reader can tell
        inert = read_inert(archive)
        root = inert.root
    if not isinstance(root, dict) or not isinstance(state := root.get("state_dict"), dict):
        found = excerpt(list(root) if isinstance(root, dict) else root)
        raise archive.error(
            f"found {found}, expected a mapping with a state_dict", "Give a checkpoint of COMET"
        )
    held = root.get("hyper_parameters", {})
    if not isinstance(held, dict):
        raise archive.error(
            f"hyper_parameters is {excerpt(held)}, expected a mapping", "Give a checkpoint of COMET"
        )
    return held, inert.tensors(state) if inert else state


def _checkpoint(
    path: Path, beside: Mapping[str, Any], held: Mapping[str, Any], found: Any
) -> CometCheckpoint:
    name = beside.get("class_identifier", held.get("class_identifier"))
    settings = _Settings(path, {**beside, **held, "class_identifier": name})
    kind = settings.kind()
    unified = kind == "unified_metric"
    patched = beside.get("layer_transformation") == "sparsemax_patch"
    transformation = settings.one_of(
        "layer_transformation", TRANSFORMATIONS, "sparsemax" if unified else "softmax"
    )
    layer = settings.layer("sent_layer" if unified else "layer")
    tensors = _Tensors(path, found)
    encoder = tensors.encoder()
    estimator = tensors.estimator(settings.sizes("hidden_sizes"))
    scalars, gamma = tensors.mix(needed=layer == "mix")
    tensors.all_used()
    return CometCheckpoint(
        path=path,
        kind=kind,
        encoder_model=settings.one_of("encoder_model", ENCODERS),
        pretrained_model=settings.typed("pretrained_model", str),
        pool=cast(Any, "cls" if unified else settings.one_of("pool", POOLS)),
        layer=layer,
        layer_transformation="sparsemax"
        if transformation == "sparsemax" and not patched
        else "softmax",
        layer_norm=settings.typed("layer_norm", bool, True),
        activation=settings.one_of("activations", ACTIVATIONS, spell=str.title),
        final_activation=settings.final_activation(),
        input_segments=settings.segments("input_segments") if unified else (),
        encoder=encoder,
        scalars=scalars,
        gamma=gamma,
        estimator=estimator,
    )


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a checkpoint, checked one by one."""

    path: Path
    values: Mapping[str, Any]

    def typed(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.values.get(key, default)
        if type(value) is kind:
            return value
        raise self.error(
            f"{key} is {'missing' if value is None else excerpt(value)}, expected {kind.__name__}"
        )

    def one_of(
        self,
        key: str,
        known: Iterable[str],
        default: str | None = None,
        spell: Callable[[str], str] = str,
    ) -> str:
        name = spell(self.typed(key, str, default))
        if name not in known:
            raise unknown(key, name, known, where=str(self.path))
        return name

    def kind(self) -> Kind:
        name = self.typed("class_identifier", str)
        if name not in BLOCKS:
            fix = f"These classes are: {', '.join(BLOCKS)}"
            raise ModelLoadError(
                f"models of class {name!r} are not supported", where=str(self.path), fix=fix
            )
        return cast(Kind, name)

    def final_activation(self) -> str | None:
        if self.values.get("final_activation") is None:
            return None
        return self.one_of("final_activation", ACTIVATIONS, spell=str.title)

    def layer(self, key: str) -> int | Literal["mix"]:
        value = self.values.get(key)
        if value == "mix":
            return "mix"
        if type(value) is not int or value < 0:
            raise self.error(f"{key} is {excerpt(value)}, expected 'mix' or the number of a layer")
        return value

    def sizes(self, key: str) -> list[int]:
        sizes: list[Any] = self.typed(key, list)
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise self.error(f"{key} is {excerpt(sizes)}, expected widths of layers")
        return sizes

    def segments(self, key: str) -> tuple[str, ...]:
        names: list[Any] = self.typed(key, list)
        if (
            len(names) < 2
            or names[0] != "mt"
            or any(names.count(name) != 1 or name not in SEGMENTS for name in names)
        ):
            raise self.error(f"{key} is {excerpt(names)}, expected mt, then src, ref or both")
        return tuple(name for name in SEGMENTS if name in names)

    def error(self, found: str) -> ModelLoadError:
        return ModelLoadError(
            found, where=str(self.path), fix="Settings stand in the checkpoint and in hparams.yaml"
        )


class _Tensors:
    """The tensors of a checkpoint, each checked when it is taken."""

    def __init__(self, path: Path, found: Mapping[str, Any]) -> None:
        self.path = path
        self.left = {
            str(name): value for name, value in found.items() if not UNUSED.fullmatch(str(name))
        }

    def encoder(self) -> dict[str, Any]:
        names = [name for name in self.left if name.startswith(ENCODER)]
        if not names:
            raise self.error(f"it has no tensors of an encoder ({ENCODER}*)")
        return {name.removeprefix(ENCODER): self.take(name) for name in names}

    def estimator(self, hidden_sizes: list[int]) -> tuple[tuple[Any, Any], ...]:
        """Linear layers; an activation and a dropout stand between two, so that every third place is one."""
        names = [f"estimator.ff.{3 * place}" for place in range(len(hidden_sizes) + 1)]
        self.demand(f"{name}.{part}" for name in names for part in ("weight", "bias"))
        widths = zip([None, *hidden_sizes], [*hidden_sizes, 1], strict=True)
        return tuple(
            (self.take(f"{name}.weight", out, into), self.take(f"{name}.bias", out))
            for name, (into, out) in zip(names, widths, strict=True)
        )

    def mix(self, needed: bool) -> tuple[Any | None, Any | None]:
        """Weights of the layers and gamma."""
        import torch

        count = sum(name.startswith(f"{MIX}scalar_parameters.") for name in self.left)
        if not needed and not count and f"{MIX}gamma" not in self.left:
            return None, None
        names = [f"{MIX}scalar_parameters.{layer}" for layer in range(max(count, 1))]
        self.demand([*names, f"{MIX}gamma"])
        return torch.cat([self.take(name, 1) for name in names]), self.take(f"{MIX}gamma", 1)

    def all_used(self) -> None:
        if self.left:
            raise self.error(
                f"it has tensors that no COMET model of its class uses: {_first(self.left)}"
            )

    def demand(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self.left]
        if missing:
            raise self.error(f"it lacks tensors: {_first(missing)}")

    def take(self, name: str, *shape: int | None) -> Any:
        """The tensor, without gradient, of that shape (None for any width) or of any with one or two dimensions."""
        import torch

        value = self.left.pop(name)
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise self.error(f"{name} is {excerpt(value)}, expected a tensor")
        if value.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise self.error(f"{name} is of {value.dtype}, expected floating point")
        if value.untyped_storage().nbytes() < value.nbytes or not value.numel():
            raise self.error(
                f"{name} has fewer numbers than its shape {tuple(value.shape)} says, or none"
            )
        if not _fits(tuple(value.shape), shape):
            wanted = (
                " x ".join("any" if width is None else str(width) for width in shape)
                or "one or two dimensions"
            )
            raise self.error(f"{name} has shape {tuple(value.shape)}, expected {wanted}")
        if not torch.stack(torch.aminmax(value.detach())).isfinite().all():
            raise self.error(f"{name} holds numbers that are not finite")
        return value.detach()

    def error(self, found: str) -> ModelLoadError:
        return ModelLoadError(
            found, where=str(self.path), fix="The checkpoint is not whole, or not of this class"
        )


def _fits(found: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    if not wanted or len(found) != len(wanted):
        return not wanted and len(found) in (1, 2)
    return all(want in (None, have) for want, have in zip(wanted, found, strict=True))


def _first(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
