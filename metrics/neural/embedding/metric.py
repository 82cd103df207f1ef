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

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ...errors import InputError, ModelLoadError
from ...representations import TRUNCATION_COLUMN, Block, FloatArray, IntArray, Reps
from ...scorer import Info
from ...spec.checked_settings import Field, settings
from ...text.texts import Item
from ..models.context_tokens import Frame, Reader, read_whole
from ..models.encoder import Encoder, device_of
from ..models.files.folder_checks import check_model
from ..models.inner_products import products
from ..models.pretrained import pretrained, tokenizer_of
from ..models.settings import EncoderScorer, ModelMetric
from .sentence_transformer import (
    IN_CONTEXT,
    OWN_FILES,
    SentenceTransformer,
    read_folder,
)


@settings
class EmbeddingMetric(ModelMetric):
    """Loading of a folder, for both metrics.

    Args:
        prompt: what is put before every text, "" for nothing; the folder's default prompt if not given.
        prompt_name: the same by its name in the folder.
        context: how many preceding sentences are read with each sentence.
    """

    own_files: ClassVar[tuple[str, ...]] = OWN_FILES
    prompt: str | None = None
    prompt_name: str | None = None
    context: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompt is not None and self.prompt_name is not None:
            fix = "Give one of them"
            raise InputError("prompt and prompt_name are both given", where=self.name, fix=fix)

    def load(self) -> EmbeddingScorer:
        """The folder's modules."""
        folder = self.model_path()
        if not folder.is_dir():
            fix = "Give the folder of a sentence-transformers model"
            raise ModelLoadError("is no folder", where=str(folder), fix=fix)
        device = device_of(self.device)
        model = read_folder(folder, self.prompt, self.prompt_name, device)
        if model.transformer != folder:
            check_model(model.transformer)
        tokenizer = tokenizer_of(model.transformer)
        plain = pretrained(model.transformer, weights=self.has_weights)
        encoder = Encoder(plain, self.device, self.dtype, batch_tokens=self.batch_tokens)
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
        """The reader of texts in context.

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
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "minilm"
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


@settings
class EmbeddingQE(EmbeddingMetric):
    """Cosine of hypothesis and source.

    Args:
        model: the folder of a multilingual sentence-transformers model, or its name on the hub.
    """

    default_model: ClassVar[str] = "sentence-transformers/LaBSE"
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


class EmbeddingScorer(EncoderScorer):
    """Represents a text by its embedding; what is compared with what, its subclasses say.

    Args:
        metric: the metric.
        model: what its folder says.
        encoder: the transformer.
        tokenizer: its tokenizer.
        max_tokens: the longest sequence, special tokens counted.
        reader: reads texts in context; None where there is none.
    """

    def __init__(
        self,
        metric: ModelMetric,
        model: SentenceTransformer,
        encoder: Encoder,
        tokenizer: Any,
        max_tokens: int,
        reader: Reader | None,
    ) -> None:
        super().__init__(metric, encoder, reader)
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        # Tokens at the beginning that do not count: those of the prompt without what ends it.
        self.num_left_out = 0
        if model.prompt and not model.pooling.includes_prompt:
            self.num_left_out = len(tokenizer(model.prompt).input_ids) - 1

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and where the sentence starts."""
        if self.reader is not None:
            cased = [item._replace(text=self._cased(item.text)) for item in items]
            return super().prepare(cased)
        texts = [self.model.prompt + self._cased(item.text) for item in items]
        # halves of surrogate pairs are question marks
        plain = [(text.encode("utf-8", "replace").decode(),) for text in texts]
        read = read_whole(self.tokenizer, plain, self.max_tokens)
        starts = np.zeros(len(texts), np.int64)
        reps = Reps({"ids": read.ids, "start": starts, TRUNCATION_COLUMN: read.truncation})
        return reps, read.ids.lengths

    def _cased(self, text: Any) -> str:
        return str(text).lower() if self.model.lower_case else str(text)

    def represent(self, prepared: Reps) -> Reps:
        """Columns "embedding", float32 [rows, d], and "norm", the length of each, float64 [rows]."""
        states = self.encoder.states(prepared["ids"])
        packing = states.packing
        # Which tokens are pooled, bool [tokens].
        counted = packing.places >= self.num_left_out
        if self.reader is not None:
            counted = packing.begun(prepared["start"])
        vectors = self.model.pooling.vectors(packing, states.last, counted)  # [n, d]
        for layer in self.model.layers:
            vectors = layer(vectors)
        embedding = vectors.cpu().numpy()
        norm = np.sqrt(np.square(embedding.astype(np.float64)).sum(axis=1))
        return Reps({"embedding": embedding, "norm": norm})

    def _cosines(self, reps: Reps, a: IntArray, b: IntArray) -> FloatArray:
        """Cosines of rows [n] with rows [m], [n, m]; 0 where a vector has no length."""
        embedding, norm = reps["embedding"], _norms(reps)
        lengths = norm[a][:, None] * norm[b]  # [n, m]
        cosines = products(embedding[a], embedding[b]) / lengths
        return np.clip(cosines, -1, 1)


class ReferenceCosines(EmbeddingScorer):
    """Cosines of hypotheses with references."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Cosines [H, R] of every block."""
        return [self._cosines(reps, block.hypotheses, block.references) for block in blocks]

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Mean cosines [H] of every block: products with the mean of the references' unit vectors."""
        embedding, norm = reps["embedding"], _norms(reps)
        values = []
        for block, weight in zip(blocks, weights, strict=True):
            units = embedding[block.references] / norm[block.references][:, None]  # [R, d]
            mean = (units * weight[:, None]).sum(axis=0)  # [d]
            sums = products(embedding[block.hypotheses], mean[None])[:, 0]  # [H]
            values.append(sums / norm[block.hypotheses])
        return values


class SourceCosines(EmbeddingScorer):
    """Cosines of hypotheses with the source."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Cosines [H, 1] of every block."""
        return [self._cosines(reps, block.hypotheses, np.array([block.source])) for block in blocks]


def _norms(reps: Reps) -> FloatArray:
    """Lengths of the vectors; 1 where there is none, so that quotients are 0."""
    norm: FloatArray = reps["norm"]
    return np.where(norm > 0, norm, 1.0)
