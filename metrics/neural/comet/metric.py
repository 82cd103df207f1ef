"""COMET (Rei et al. 2020) and Doc-COMET (Vernikos et al. 2022): a trained head over pooled sentence vectors.

    comet     ff([h, r, h*r, |h-r|, h*s, |h-s|])      regression checkpoints (wmt20-comet-da, wmt22-comet-da, ...)
    comet-qe  ff([h, s, h*s, |h-s|])                  reference-free checkpoints (wmt20-comet-qe-da, ...)

With ``context=k`` each text is encoded after the k sentences before it and pooled over its own tokens: sources after
sources; hypotheses and references after references (``comet``), hypotheses after hypotheses (``comet-qe``). Unified
checkpoints (UniTE, CometKiwi) read texts side by side instead, without context:

    comet-qe  ff(E_0(mt src)),     comet  the mean of ff(E_0(.)) over (mt src), (mt ref), (mt src ref)

Unbounded, about 0 to 1 for most checkpoints, higher is better, not symmetric; an empty text is scored like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

from ...errors import ModelLoadError
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ..models.context_tokens import Frame, Reader, TruncationRule
from ..models.encoder import Encoder
from ..models.files import model_files
from ..models.pretrained import from_state, tokenizer_of
from ..models.settings import CheckpointMetric
from .checkpoint import CometCheckpoint, read_checkpoint
from .network import Head, Mixer, sparsemax
from .scorers import RegressionScorer, SideBySide, TokenLimits, UnifiedScorer


class CometParts(NamedTuple):
    """The parts of a loaded checkpoint; `stamp`: what a representation depends on beside the signature."""

    reader: Reader
    encoder: Encoder
    mixer: Mixer
    head: Head
    joining: SideBySide
    stamp: str


class CometCheckpointMetric(CheckpointMetric):
    """Loading of a checkpoint, for all metrics by those of COMET."""

    counts_passes: ClassVar[bool] = True

    def checkpoint(self) -> CometCheckpoint:
        """The checkpoint without its encoder's configuration; errors as `load`."""
        return read_checkpoint(model_files.locate(self.named("model"), self.revision))

    def loaded_parts(self, checkpoint: CometCheckpoint, truncation: TruncationRule) -> CometParts:
        """The parts of a checkpoint, with its encoder's configuration and tokenizer.

        Raises:
            ModelLoadError: the encoder's folder is not there, or not that of the checkpoint.
        """
        folder = encoder_folder(checkpoint, self.encoder_path)
        model = from_state(folder, checkpoint.encoder, self.has_weights)
        depth, width = model.config.num_hidden_layers, model.config.hidden_size
        checkpoint.check_encoder(num_hidden_layers=depth, hidden_size=width)
        # XCOMET labels the states of a layer of its own: all of them run.
        is_last = checkpoint.layer != "mix" and checkpoint.word_layer is None
        layer = cast(int, checkpoint.layer) if is_last else None
        encoder = Encoder(model, self.device, self.dtype, layer, self.batch_tokens)
        tokenizer = tokenizer_of(folder)
        limits = TokenLimits.of(encoder, self.max_tokens)
        return CometParts(
            Reader(tokenizer, Frame.of(tokenizer), limits.text, truncation),
            encoder,
            mixer_of(checkpoint, encoder.device),
            head_of(checkpoint, encoder.device),
            SideBySide.of(checkpoint.encoder_model, limits.joined),
            # An encoder that is not named is in no signature.
            f" {model_files.digest(folder, weights=False)}{limits.stamp(encoder)}",
        )


class CometMetric(CometCheckpointMetric):
    """Loading, and the checkpoints that either metric takes."""

    reference_free: ClassVar[bool]

    def load(self) -> Scorer:
        """The checkpoint, with its encoder's configuration and tokenizer."""
        self.check_files()
        checkpoint = self.checkpoint()
        self._check(checkpoint)
        parts = self.loaded_parts(checkpoint, self.truncates)
        scorer: Scorer
        if checkpoint.kind == "unified_metric":
            segments = ("mt", "src") if self.reference_free else checkpoint.input_segments
            reader, encoder, mixer, head, joining, _ = parts
            scorer = UnifiedScorer(self, reader, encoder, mixer, head, segments, joining)
        else:
            scorer = RegressionScorer(self, *parts[:4])
        scorer.identity += parts.stamp
        return scorer

    def _check(self, checkpoint: CometCheckpoint) -> None:
        """Raises ModelLoadError if this checkpoint is for the other metric, or cannot read context."""
        if checkpoint.kind == "xcomet_metric":
            other = "xcomet-qe" if self.reference_free else "xcomet"
            raise ModelLoadError(
                "an xcomet_metric scores and marks mistakes",
                where=f"{self.name}: {checkpoint.path}",
                fix=f"Use it as {other}(model=...)",
            )
        unified = checkpoint.kind == "unified_metric"
        reads_reference = {
            "regression_metric": True,
            "referenceless_regression_metric": False,
            "unified_metric": "ref" in checkpoint.input_segments and not self.reference_free,
        }[checkpoint.kind]
        path = str(checkpoint.path)
        if reads_reference == self.reference_free:
            article, other = ("a", "comet") if reads_reference else ("no", "comet-qe")
            raise ModelLoadError(
                f"a {checkpoint.kind} reads {article} reference",
                where=f"{self.name}: {path}",
                fix=f"Use it as {other}(model=...)",
            )
        if unified and "src" not in checkpoint.input_segments and self.reference_free:
            fix = "Use it as comet(model=...)"
            raise ModelLoadError("it reads no source", where=path, fix=fix)
        if self.context and (unified or checkpoint.pool == "max"):
            kind = "unified metric" if unified else "max-pooling model"
            problem = f"context is not defined for a {kind}"
            raise ModelLoadError(problem, where=path, fix="Set context=0, or use another")


@settings
class Comet(CometMetric):
    """A checkpoint that reads source, hypothesis and reference.

    Args:
        model: a COMET folder, its .ckpt file, or a name on the hub.
        encoder_path: folder or hub name with the encoder's configuration and tokenizer; the checkpoint names one.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "Unbabel/wmt22-comet-da"
    encoder_path: str | None = None
    context_from: Literal["reference", "hypothesis"] | None = None
    reference_free: ClassVar[bool] = False
    name: ClassVar[str] = "comet"
    info: ClassVar[Info] = Info(
        summary="trained regression over sentence vectors of source, hypothesis and reference",
        papers=("rei2020comet",),
        needs_source=True,
        multi_reference="mean",
        bucketed=True,
        version=3,
    )

    @cached_property
    def costly_pairs(self) -> bool:
        """Unified checkpoints read texts side by side, a forward pass for each pair; errors as `load`."""
        return self.checkpoint().kind == "unified_metric"


@settings
class CometQE(CometMetric):
    """A checkpoint that reads source and hypothesis.

    Args:
        model: a COMET folder, its .ckpt file, or a name on the hub.
        encoder_path: folder or hub name with the encoder's configuration and tokenizer; the checkpoint names one.
    """

    default_model: ClassVar[str] = "Unbabel/wmt20-comet-qe-da"
    encoder_path: str | None = None
    reference_free: ClassVar[bool] = True
    name: ClassVar[str] = "comet-qe"
    info: ClassVar[Info] = Info(
        summary="trained regression over sentence vectors of source and hypothesis",
        papers=("rei2020comet",),
        needs_source=True,
        needs_references=False,
        bucketed=True,
        version=3,
    )

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of COMET, and that of CometKiwi for models of that name."""
        is_kiwi = "kiwi" in str(settings.get("model")).lower()
        kiwi = ("rei2022cometkiwi",) if is_kiwi else ()
        first, *context = super().cited(settings)
        return (first, *kiwi, *context)


def encoder_folder(checkpoint: CometCheckpoint, named: str | None) -> Path:
    """The folder of the encoder's configuration and tokenizer: as named, else as the checkpoint says.

    Raises:
        ModelLoadError: there is no such folder.
    """
    try:
        return model_files.locate(named or checkpoint.pretrained_model, weights=False)
    except ModelLoadError as error:
        fix = "Name its folder, configuration and tokenizer are enough: --encoder-path, encoder_path=..."
        where = f"encoder of {checkpoint.path}: {error.where}"
        raise ModelLoadError(error.problem, where=where, fix=fix) from error


def mixer_of(checkpoint: CometCheckpoint, device: Any) -> Mixer:
    """The mix of layers and the pooling of a checkpoint."""
    if checkpoint.layer != "mix" or checkpoint.scalars is None or checkpoint.gamma is None:
        return Mixer(None, None, False, checkpoint.pool)
    # A few numbers, which are looked at also where nothing else is loaded.
    device = "cpu" if device.type == "meta" else device
    scalars = checkpoint.scalars.float().to(device)  # [layers + 1]
    gamma = checkpoint.gamma.float().to(device).clone()  # [1]
    sparse = checkpoint.layer_transformation == "sparsemax"
    shares = sparsemax(scalars) if sparse else scalars.softmax(0)
    return Mixer(shares, gamma, checkpoint.layer_norm, checkpoint.pool)


def head_of(checkpoint: CometCheckpoint, device: Any) -> Head:
    """The estimator of a checkpoint."""
    layers = [  # copies: tensors of a mapped file would change with it
        (weight.float().to(device).clone(), bias.float().to(device).clone())
        for weight, bias in checkpoint.estimator
    ]
    final = activation(checkpoint.final_activation) if checkpoint.final_activation else None
    return Head(layers, activation(checkpoint.activation), final)


def activation(name: str) -> Callable[[Any], Any]:
    """An activation of torch by its name, in place where it is the usual one."""
    import torch

    from ..models.elementwise import Elementwise

    return torch.Tensor.tanh_ if name == "Tanh" else Elementwise(getattr(torch.nn, name)())
