"""BLEURT (Sellam et al. 2020; Pu et al. 2021): a regression on human ratings, over reference and hypothesis together.

    score = w2 . tanh(W1 x_0 + b1) + b2,   x = BERT([CLS] r [SEP] h [SEP])

Read are converted models, BLEURT-20 and its distilled forms (SentencePiece) as the older ones (WordPiece). Mostly
between 0 and 1 but unbounded, higher is better, not symmetric; an empty text is scored like any other. Scores of two
models are not comparable. With ``context=k``, windows of k + 1 sentences, joined by blanks, are scored as one text; a
document is the mean of its windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from ...errors import InputError
from ...scorer import Info, Reading, Scorer
from ...spec.checked_settings import Field, settings
from ..comet.head import Head
from ..models.encoder import Encoder
from ..models.files import model_files
from ..models.settings import ModelMetric
from .bleurt_scorer import BleurtScorer
from .pair_tokens import tokens_of

# Sentences before the current one that a window may have.
MAX_CONTEXT = 2
# Models whose names end so were trained on sequences of 128 tokens, though they have positions for more.
SHORT, SHORT_TOKENS = "-128", 128


@settings
class BLEURT(ModelMetric):
    """A converted model, such as BLEURT-20.

    Args:
        model: the folder of a converted model (config.json with model_type bleurt), or a name on the hub.
        gelu: erf, as the converted models are run, or tanh, as in the public code for TensorFlow; scores differ by
            about 0.1 %.
        context: sentences before each one that are read with it as one window, at most 2.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "lucadiliello/BLEURT-20"
    counts_passes: ClassVar[bool] = True
    gelu: Literal["erf", "tanh"] = "erf"
    context: Annotated[int, Field(ge=0)] = 0
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "bleurt"
    info: ClassVar[Info] = Info(
        summary="trained regression over reference and hypothesis read together",
        papers=("sellam2020bleurt", "pu2021bleurt20"),
        bucketed=True,
        costly_pairs=True,
        version=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context > MAX_CONTEXT:
            raise InputError(
                f"context={self.context}: it was trained on sentences, and reads 512 tokens of both texts together",
                where=self.name,
                fix=f"At most {MAX_CONTEXT} sentences of context",
            )

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of BLEURT; its windows are in no paper."""
        return cls.info.papers

    @property
    def reads(self) -> Reading:
        """Context sentences, and whose."""
        return Reading.of_setting(self.context, self.context_from)

    def load(self) -> Scorer:
        """The converted model."""
        from .bert import read_config, read_network

        self.check_files()
        folder = model_files.locate(self.named("model"), self.revision)
        config = read_config(folder)
        tokens = tokens_of(folder)
        network = read_network(folder, config, self.gelu)
        encoder = Encoder(network.encoder, self.device, self.dtype)
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        max_tokens = min(self.max_tokens or 1 << 30, encoder.max_tokens)
        if self.max_tokens is None and self.named("model").rstrip("/").endswith(SHORT):
            max_tokens = min(max_tokens, SHORT_TOKENS)
        layers = [
            (weight.float().to(encoder.device), bias.float().to(encoder.device))
            for weight, bias in network.layers
        ]
        head = Head(layers, encoder.torch.Tensor.tanh_, None)
        return BleurtScorer(self, tokens, encoder, head, max_tokens)
