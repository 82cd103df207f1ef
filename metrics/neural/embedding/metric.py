"""The cosine of sentence embeddings (Reimers and Gurevych 2019).

    embedding     cos(e(h), e(r))
    embedding-qe  cos(e(h), e(s)),  for encoders of many languages; reference-free

e is what a folder of sentence-transformers computes: a transformer, pooling of its token vectors, and perhaps linear
layers and a normalisation. Between -1 and 1, higher is better, symmetric; an empty text is its special tokens. The mean
over references is the product with their mean unit vector: MBR decoding takes O(H + R) vectors and no matrix.

With ``context=k`` a text is read after the k sentences before it, and only its own tokens are pooled, with the first
and the last of the sequence.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from ...errors import InputError, ModelLoadError
from ...scorer import Info, Reading
from ...spec.checked_settings import Field, settings
from ..models.context_tokens import Frame, Reader
from ..models.encoder import Encoder
from ..models.files import model_files
from ..models.files.folder_checks import check_model
from ..models.pretrained import pretrained, tokenizer_of
from ..models.settings import ModelMetric
from .embedding_scorer import EmbeddingScorer, ReferenceCosines, SourceCosines
from .sentence_pooling import IN_CONTEXT
from .sentence_transformer import OWN_FILES, SentenceTransformer, read_folder


class EmbeddingMetric(ModelMetric):
    """What both metrics share: loading a folder."""

    own_files: ClassVar[tuple[str, ...]] = OWN_FILES
    counts_passes: ClassVar[bool] = True
    prompt: str | None
    prompt_name: str | None
    context: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompt is not None and self.prompt_name is not None:
            fix = "Give one of them"
            raise InputError("prompt and prompt_name are both given", where=self.name, fix=fix)

    def load(self) -> EmbeddingScorer:
        """The folder's modules."""
        self.check_files()
        folder = model_files.locate(self.named("model"), self.revision, also=self.own_files)
        if not folder.is_dir():
            fix = "Give the folder of a sentence-transformers model"
            raise ModelLoadError("is no folder", where=str(folder), fix=fix)
        model = read_folder(folder, self.prompt, self.prompt_name)
        if model.transformer != folder:
            check_model(model.transformer)
        tokenizer = tokenizer_of(model.transformer)
        plain = pretrained(model.transformer, weights=self.has_weights)
        encoder = Encoder(plain, self.device, self.dtype)
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        max_tokens = min(
            self.max_tokens or 1 << 30,
            model.max_tokens or int(tokenizer.model_max_length),
            encoder.max_tokens,
        )
        reader = self._reader(model, tokenizer, max_tokens, str(folder)) if self.context else None
        kind = ReferenceCosines if self.info.needs_references else SourceCosines
        scorer = kind(self, model, encoder, tokenizer, max_tokens, reader)
        if scorer.num_left_out >= max_tokens - 1:
            problem = f"the prompt has {scorer.num_left_out} tokens of {max_tokens}"
            raise InputError(problem, where=self.name, fix="Give a shorter one")
        return scorer

    def _reader(
        self, model: SentenceTransformer, tokenizer: Any, max_tokens: int, where: str
    ) -> Reader:
        """What reads texts in context.

        Raises:
            ModelLoadError: the model pools one token, or puts a prompt before texts.
        """
        fix = "Set context=0, or use another model"
        unsuited = [mode for mode in model.pooling.modes if mode not in IN_CONTEXT]
        if unsuited:
            problem = f"context is not defined for the pooling {unsuited[0]}"
            raise ModelLoadError(problem, where=where, fix=fix)
        if model.prompt:
            fix = 'Turn it off with prompt="", or set context=0'
            raise ModelLoadError("context is not defined with a prompt", where=where, fix=fix)
        return Reader(tokenizer, Frame.of(tokenizer), max_tokens, "oldest-context")


@settings
class Embedding(EmbeddingMetric):
    """Cosine of hypothesis and reference.

    Args:
        model: minilm (English, in the extra of this name), the folder of a sentence-transformers model, or its name on
            the hub.
        prompt: what is put before every text, "" for nothing; the folder's default prompt if not given.
        prompt_name: the same by its name in the folder.
        context: how many preceding sentences are read with each sentence.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "minilm"
    prompt: str | None = None
    prompt_name: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "embedding"
    info: ClassVar[Info] = Info(
        summary="cosine of the sentence embeddings of hypothesis and reference",
        papers=("reimers2019sentencebert",),
        bounds=(-1, 1),
        symmetric=True,
        linear=True,
        bucketed=True,
        version=2,
    )

    @property
    def reads(self) -> Reading:
        """Context sentences, and whose."""
        return Reading.of_setting(self.context, self.context_from)


@settings
class EmbeddingQE(EmbeddingMetric):
    """Cosine of hypothesis and source.

    Args:
        model: the folder of a multilingual sentence-transformers model, or its name on the hub.
        prompt: what is put before every text, "" for nothing; the folder's default prompt if not given.
        prompt_name: the same by its name in the folder.
        context: how many preceding sentences are read with each sentence.
    """

    default_model: ClassVar[str] = "sentence-transformers/LaBSE"
    prompt: str | None = None
    prompt_name: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    name: ClassVar[str] = "embedding-qe"
    info: ClassVar[Info] = Info(
        summary="cosine of the sentence embeddings of hypothesis and source",
        papers=("reimers2019sentencebert",),
        needs_source=True,
        needs_references=False,
        bounds=(-1, 1),
        bucketed=True,
        version=2,
    )

    @property
    def reads(self) -> Reading:
        """Context sentences; hypotheses after hypotheses."""
        return Reading(self.context, "hypothesis")
