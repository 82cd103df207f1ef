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

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from ..errors import ModelLoadError
from ..neural.comet.network import Head, Mixer
from ..neural.comet.scorers import RegressionScorer
from ..neural.models.encoder import Encoder
from ..neural.models.files import model_files as files
from ..neural.models.settings import CheckpointMetric
from ..representations import Block, FloatArray, Reps
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from .saved_models import SEScore2Model, read_model, reader_of

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
    encoder_path: str | None = None
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
        fix = "Leave rescale out, or convert the checkpoint with texts: discorank train sescore2 --help"
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
