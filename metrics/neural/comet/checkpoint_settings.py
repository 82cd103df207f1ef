"""The settings of a COMET checkpoint that decide a score, each checked when it is read.

They stand in the checkpoint and in ``hparams.yaml`` beside it; here they are one mapping, whichever they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ...errors import ModelLoadError, excerpt, unknown

Kind = Literal[
    "regression_metric", "referenceless_regression_metric", "unified_metric", "xcomet_metric"
]
# Vectors of the encoder's width that the estimator of each kind reads side by side.
BLOCKS = {
    "regression_metric": 6,
    "referenceless_regression_metric": 4,
    "unified_metric": 1,
    "xcomet_metric": 1,
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


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The settings of a checkpoint, checked one by one.

    Args:
        path: the checkpoint, for messages.
        values: the settings by name.
    """

    path: Path
    values: Mapping[str, Any]

    def typed(
        self,
        key: str,
        kind: type,
        default: Any = None,
    ) -> Any:
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
        """What a unified model reads, in the order mt, src, ref; raises ModelLoadError."""
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
        """What is wrong with these settings."""
        fix = "Settings stand in the checkpoint and in hparams.yaml"
        return ModelLoadError(problem, where=str(self.path), fix=fix)
