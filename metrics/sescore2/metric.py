"""SEScore2 (Xu et al. 2023): a regression over sentence vectors, trained on synthetic mistakes without human ratings.

    score = w3 . tanh(W2 tanh(W1 [h, r, h*r, |h-r|] + b1) + b2) + b3

over the mean token vectors of hypothesis and reference. About 0 stands for no mistake, -1 and -5 for each minor
and major one, about -50 for a text of another meaning; unbounded, higher is better, not symmetric. A text may score
above or below 0 against itself, rescaled too, and need not score best. An empty text is scored like any other. With
`rescale`

    rescaled = ((s - low) / (high - low) - 1) * 50                        (appendix H)

between the means of random pairs (low) and of texts paired with themselves (high); no choice changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from ..errors import InputError, ModelLoadError, excerpt
from ..neural.comet.metric import RegressionScorer
from ..neural.comet.network import Head, Mixer
from ..neural.models.context_tokens import Frame, Reader, TruncationRule
from ..neural.models.encoder import Encoder, longest_input
from ..neural.models.files import model_files as files
from ..neural.models.files.model_files import check_written
from ..neural.models.files.torch_checkpoint import Stub, TorchCheckpoint, read_torch_checkpoint
from ..neural.models.pretrained import from_state, pretrained, tokenizer_of
from ..neural.models.settings import CheckpointMetric
from ..representations import Block, FloatArray, Reps
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..storage.json_and_yaml import read_small_json

SPAN = 50.0  # of rescaled scores
RELEASED = ("de", "en", "es", "ja", "zh")


@settings
class SEScore2(CheckpointMetric):
    """A model trained by ``discorank train sescore2``, or a released one.

    Args:
        model: a trained model's folder, a released .ckpt file, or a name on the hub.
        encoder_path: for a released checkpoint, folder or hub name with the encoder's configuration and tokenizer; the
            checkpoint tells its usual name.
        rescale: on the scale of 0 to -50 (appendix H), for models that hold their bounds; changes no choice.
    """

    default_model: ClassVar[str] = "xu1998hz/sescore2_en_pretrained"
    rescale: bool = False
    name: ClassVar[str] = "sescore2"
    info: ClassVar[Info] = Info(
        summary="regression over sentence vectors, trained on synthetic mistakes",
        papers=("xu2023sescore2",),
        bucketed=True,
        version=2,
    )

    def for_language(self, lang: str) -> Self:
        """The released model of a language where none is set."""
        code = lang.lower().partition("-")[0]
        if code not in RELEASED:
            return self
        return self.with_defaults(model=f"xu1998hz/sescore2_{code}_pretrained")

    def load(self) -> Scorer:
        """The model, its head prepared for all pairs."""
        path = self.model_path()
        model = read_model(path, self.encoder_path)
        encoder = Encoder(model.encoder, self.device, self.dtype)
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        max_tokens = self.max_tokens or model.max_tokens
        reader = reader_of(model.folder, model.encoder, max_tokens, self.truncates)
        layers = [
            (weight.to(encoder.device), bias.to(encoder.device)) for weight, bias in model.layers
        ]
        head = Head(layers, encoder.torch.Tensor.tanh_, None)
        bounds = _bounds_in(model, path) if self.rescale else None
        scorer = SEScore2Scorer(self, reader, encoder, Mixer(None, None, False, "avg"), head)
        scorer.bounds = bounds
        if model.folder != path:
            scorer.identity += f" {files.digest(model.folder, weights=False)}"
        return scorer


def _bounds_in(model: SEScore2Model, path: Path) -> tuple[float, float]:
    """The bounds of rescaling that a model holds; raises ModelLoadError where it holds none."""
    low = model.low
    high = model.high
    if low is None or high is None or not high > low:
        fix = "Leave rescale out, or use a model that discorank train sescore2 made"
        raise ModelLoadError("the model holds no bounds to rescale by", where=str(path), fix=fix)
    return low, high


class SEScore2Scorer(RegressionScorer):
    """The head's scores, rescaled if wanted."""

    bounds: tuple[float, float] | None = None

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block."""
        scores = super().compare(reps, blocks)
        if self.bounds is None:
            return scores
        return [rescaled(values, *self.bounds) for values in scores]


def rescaled(scores: FloatArray, low: float, high: float) -> FloatArray:
    """Scores between -50 and 0 for most pairs."""
    return ((scores - low) / (high - low) - 1) * SPAN


# numbers of the linear layers in the head; an activation and a dropout stand between two
LINEAR = (0, 3, 6)
ABOUT, HEAD = "sescore2.json", "estimator.safetensors"
RELEASED_TOKENS = 256  # longest text of the released code
ENCODER = "xlm."
# encoders of released checkpoints, by kind and width
ENCODERS = {
    ("xlm-roberta", 1024): "xlm-roberta-large",
    ("rembert", 1152): "google/rembert",
}
HEAD_NAMES = [f"{place}.{part}" for place in LINEAR for part in ("weight", "bias")]
Layers = tuple[tuple[Any, Any], ...]
AGAIN = "Train or convert it again"
_NOT_WHOLE = "The checkpoint is not whole, or not of SEScore2"


class SEScore2Model(NamedTuple):
    """A model that has been read.

    A folder is that of the encoder (config.json, model.safetensors, tokenizer) with the head in
    ``estimator.safetensors`` and ``sescore2.json`` beside it, which tells of damage. A released checkpoint is one
    pickled torch module, of classes that are not imported: torch reads it with stubs in their place, and its encoder's
    tokenizer is named by `encoder_path`.
    """

    encoder: Any  # a transformers model
    folder: Path  # of its configuration and tokenizer
    layers: Layers  # weight [out, in] and bias [out] of the head, first to last
    max_tokens: int  # the longest text
    low: float | None  # bounds of rescaling, where they are known
    high: float | None


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
    folder: Path,
    encoder: Any,
    max_tokens: int,
    truncation: TruncationRule = "oldest-context",
) -> Reader:
    """The tokenizer of a folder, for texts no longer than the encoder reads."""
    tokenizer = tokenizer_of(folder)
    limit = min(max_tokens, longest_input(encoder))
    return Reader(tokenizer, Frame.of(tokenizer), limit, truncation)


def _of_folder(folder: Path) -> SEScore2Model:
    """The model in a folder that was written here."""
    from safetensors.torch import load_file

    about = _about(folder / ABOUT)
    check_written(about, folder / ABOUT, AGAIN)
    try:
        state = load_file(folder / HEAD)
    except Exception as error:  # not there or damaged: many kinds
        problem = f"cannot be read: {type(error).__name__}"
        raise ModelLoadError(problem, where=str(folder / HEAD), fix=AGAIN) from error
    encoder = pretrained(folder)
    layers = _layers(state, encoder.config.hidden_size, folder / HEAD)
    return SEScore2Model(
        encoder,
        folder,
        layers,
        about["max_tokens"],
        about.get("low"),
        about.get("high"),
    )


def _about(path: Path) -> dict[str, Any]:
    """The content of ``sescore2.json``, checked."""
    where = str(path)
    try:
        about: Any = read_small_json(path, AGAIN)
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
    if not isinstance(about, dict) or about.get("format") != 1:
        problem = f"found {excerpt(about)}, expected format 1"
        raise ModelLoadError(problem, where=where, fix="Train it again")
    bounds = about.get("low"), about.get("high")
    if type(about.get("max_tokens")) is not int or not all(
        isinstance(bound, float | None) for bound in bounds
    ):
        problem = f"max_tokens, low or high is not a number: {excerpt(about)}"
        raise ModelLoadError(problem, where=where, fix=AGAIN)
    return about


def _checkpoint_in(folder: Path) -> Path:
    """The released checkpoint in a folder: the only one, or the only one of the usual name."""
    paths = sorted(folder.glob("*.ckpt")) or sorted(folder.glob("checkpoints/*.ckpt"))
    usual = [path for path in paths if path.stem.startswith("sescore2_")]
    usual = [path for path in usual if not path.stem.endswith("_original")]
    candidates = usual or paths
    if len(candidates) != 1:
        names = ", ".join(path.name for path in paths[:4]) or "none"
        problem = f"no {ABOUT} in it, and of .ckpt files {names}"
        fix = "Give the folder of a trained model, or the .ckpt file of a released one"
        raise ModelLoadError(problem, where=str(folder), fix=fix)
    return candidates[0]


def _released(path: Path, encoder_path: str | None) -> SEScore2Model:
    """The model of a released checkpoint."""
    if not path.is_file():
        fix = "Give a model's folder or .ckpt file"
        raise ModelLoadError("no such file or folder", where=str(path), fix=fix)
    checkpoint = read_torch_checkpoint(path)
    state = checkpoint.tensors(checkpoint.root)
    name, width = _encoder_name(checkpoint, path)
    try:
        folder = files.locate(encoder_path or name or "", weights=False)
    except ModelLoadError as error:
        where = f"encoder of {path}: {error.where}"
        fix = "Name its folder, configuration and tokenizer are enough: --encoder-path, encoder_path=..."
        raise ModelLoadError(error.problem, where=where, fix=fix) from error
    encoder, head = _parts(state, path)
    layers = _layers(head, width, path)
    return SEScore2Model(from_state(folder, encoder), folder, layers, RELEASED_TOKENS, None, None)


def _parts(state: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of the encoder and of the head of a released checkpoint, by their names in either."""
    unused = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids")
    encoder: dict[str, Any] = {}
    head: dict[str, Any] = {}
    others = []
    for name, value in state.items():
        if name.startswith("estimator."):
            head[name.removeprefix("estimator.ff.")] = value
        elif not name.startswith(ENCODER):
            others.append(name)
        elif not name.removeprefix(ENCODER).startswith(unused):
            encoder[name.removeprefix(ENCODER)] = value.float().clone()
    if others or not encoder:
        problem = f"it has no tensors of an encoder ({ENCODER}*)"
        if others:
            problem = f"it holds {excerpt(others)}"
        raise ModelLoadError(problem, where=str(path), fix="Give a released checkpoint of SEScore2")
    return encoder, head


def _encoder_name(checkpoint: TorchCheckpoint, path: Path) -> tuple[str | None, int | None]:
    """The name on the hub and the width of the encoder in a checkpoint's configuration."""
    root = checkpoint.root
    modules = root.attributes.get("_modules") if isinstance(root, Stub) else None
    encoder = modules.get("xlm") if isinstance(modules, dict) else None
    config = encoder.attributes.get("config") if isinstance(encoder, Stub) else None
    if not isinstance(config, Stub):
        fix = "Give a checkpoint of SEScore2"
        raise ModelLoadError("it holds no encoder called xlm", where=str(path), fix=fix)
    kind = config.attributes.get("model_type")
    width = config.attributes.get("hidden_size")
    if not (isinstance(kind, str | None) and isinstance(width, int | None)):
        values = f"model_type {excerpt(kind)}, hidden_size {excerpt(width)}"
        problem = f"{values}: expected a name and a number"
        raise ModelLoadError(problem, where=str(path), fix="Fetch the file again")
    return ENCODERS.get((kind or "", width or 0)), width


def _layers(state: Mapping[str, Any], width: int | None, path: Path) -> Layers:
    """The head's layers, of the right shapes."""
    import torch

    if sorted(state) != sorted(HEAD_NAMES):
        present = ", ".join(sorted(state)[:8]) or "nothing"
        problem = f"the head holds {present}, expected {', '.join(HEAD_NAMES)}"
        raise ModelLoadError(problem, where=str(path), fix=_NOT_WHOLE)
    d = width or state["6.weight"].shape[-1]
    shapes: list[tuple[int, ...]] = [(2 * d, 4 * d), (2 * d,), (d, 2 * d), (d,), (1, d), (1,)]
    for name, shape in zip(HEAD_NAMES, shapes, strict=True):
        value = state[name]
        right_kind = tuple(value.shape) == shape and value.is_floating_point()
        if not right_kind or not bool(torch.isfinite(value).all()):
            actual = f"{tuple(value.shape)} {value.dtype}"
            problem = f"{name} of the head is {actual}, expected {shape} finite numbers"
            raise ModelLoadError(problem, where=str(path), fix=_NOT_WHOLE)
    # copies: tensors of a mapped file would change with it
    copies = {name: value.float().clone() for name, value in state.items()}
    return tuple((copies[f"{place}.weight"], copies[f"{place}.bias"]) for place in LINEAR)
