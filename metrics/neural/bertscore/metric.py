"""BERTScore (Zhang et al. 2020) and Doc-BERTScore (Vernikos et al. 2022): greedy matching of token vectors.

    P = sum_i a_i max_j h_i.r_j / sum_i a_i,   R = sum_j b_j max_i h_i.r_j / sum_j b_j,   F = 2 P R / (P + R)

over unit vectors h_i, r_j of layer ``layer``; the weights a, b are 1, or idf, and 0 for special tokens, which are still
matched against. With ``context=k`` a sentence is encoded after the k sentences before it, whose weights are 0;
``match="sentence"`` aligns the current sentences alone, as the paper says, ``"all"`` lets a token match anything the
other side has, as its code does. At most 1, higher is better, F is symmetric; 0 if either text is empty.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ...errors import InputError, ModelLoadError
from ...representations import FloatArray
from ...scorer import Info
from ...spec.checked_settings import settings
from ...storage.bounded_files import read_small_text
from ...storage.checksums import DIGITS
from ...text.texts import Text
from ..models.context_tokens import Frame, Reader
from ..models.encoder import Encoder
from ..models.files import model_files
from ..models.pretrained import pretrained, tokenizer_of
from ..models.settings import ContextModelMetric
from .token_scorer import BERTScorer, document_frequencies

# The layer that correlates best with human judgements, by the authors' measurements.
LAYERS: Mapping[str, int] = {
    "minilm": 5,
    "bert-base-chinese": 8,
    "bert-base-multilingual-cased": 9,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "roberta-base": 10,
    "roberta-large": 17,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
}
BY_LANGUAGE: Mapping[str, str] = {"en": "roberta-large", "zh": "bert-base-chinese"}
ANY_LANGUAGE = "bert-base-multilingual-cased"
# Stands before the digest of fitted document frequencies.
FITTED = "sha256:"


@settings
class BERTScore(ContextModelMetric):
    """Token vectors matched one to one.

    Args:
        model: an encoder: minilm (English, in the extra of this name), a folder or a name on the hub.
        layer: which layer's vectors; known for the usual encoders.
        match: sentence or all (see above), where there is context. Default: sentence, all under compat.
        idf: weight tokens by inverse document frequency, in a file of sentences, or as `fit` found it.
        rescale: subtract the expected score of unrelated texts, from `baseline`.
        baseline: a file of such scores by layer, with the columns LAYER,P,R,F.
        aggregate: F, P or R.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    counts_passes: ClassVar[bool] = True
    default_model: ClassVar[str] = "minilm"
    layer: int | None = None
    match: Literal["sentence", "all"] | None = None
    idf: bool | str = False
    rescale: bool = False
    baseline: str | None = None
    aggregate: Literal["F", "P", "R"] = "F"
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "bertscore"
    info: ClassVar[Info] = Info(
        summary="greedy matching of contextual token vectors",
        reasons=(
            "P: mean similarity of the tokens of the hypothesis with their best match, R: of those of the reference, "
            "F: their harmonic mean; 1 where all are alike"
        ),
        papers=("zhang2020bertscore",),
        symmetric=True,
        bucketed=True,
        version=2,
    )

    @property
    def symmetric(self) -> bool:
        """Of precision and recall together."""
        return self.aggregate == "F"

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files."""
        settings = ["model"]
        if isinstance(self.idf, str) and not self.idf.startswith(FITTED):
            settings.append("idf")
        if self.baseline:
            settings.append("baseline")
        return tuple(settings)

    def __post_init__(self) -> None:
        super().__post_init__()
        known = LAYERS.get(self.named("model").rpartition("/")[2])
        if self.layer is None and known is not None:
            object.__setattr__(self, "layer", known)
            self.__dict__["defaulted"] = (*self.__dict__.get("defaulted", ()), "layer")
        if self.rescale and not self.baseline:
            fix = "Give the file of baseline scores: baseline=..."
            raise InputError("no baseline", where="rescale", fix=fix)

    def for_language(self, lang: str) -> Self:
        """The usual encoder of a language where none is set; English stays at the default."""
        code = lang.lower().partition("-")[0]
        if code == "en":
            return self
        return self.with_defaults(model=BY_LANGUAGE.get(code, ANY_LANGUAGE))

    @property
    def unfitted(self) -> bool:
        """Whether `idf` waits for document frequencies."""
        return self.idf is True

    def fit(self, texts: Sequence[Text]) -> BERTScore:
        """The metric with document frequencies from these texts, if `idf` waits for them."""
        if not self.unfitted:
            return self
        reader, _ = self._reader()
        frequencies = document_frequencies(reader, map(str, texts))
        content = repr(sorted(frequencies.items()))
        digest = sha256(content.encode()).hexdigest()[:DIGITS]
        fitted = replace(self, idf=FITTED + digest)
        fitted.__dict__["frequencies"] = frequencies
        return fitted

    def with_defaults(self, **values: Any) -> Self:
        """As every metric; fitted frequencies and a layer stay with the model that they belong to."""
        metric = super().with_defaults(**values)
        if metric.model != self.model and "layer" in self.__dict__.get("defaulted", ()):
            metric = replace(metric, layer=None)
        if "frequencies" in self.__dict__ and (metric.model, metric.idf) == (self.model, self.idf):
            metric.__dict__["frequencies"] = self.__dict__["frequencies"]
        return metric

    def _digest(self, name: str) -> str:
        """As of every model; other settings name files on this machine."""
        path = self.named(name)
        if name != "model" and not Path(path).is_file():
            where = f"{name} {path!r}"
            raise InputError(
                "there is no such file", where=where, fix="Name a file on this machine"
            )
        return super()._digest(name)

    def _reader(self) -> tuple[Reader, Path]:
        """The reader of texts, and the folder of the model."""
        folder = model_files.locate(self.named("model"), self.revision)
        tokenizer = tokenizer_of(folder)
        limit = min(self.max_tokens or 1 << 30, int(tokenizer.model_max_length))
        frame = Frame.of(tokenizer)
        reader = Reader(tokenizer, frame, limit, self.truncates, space_before=self.context == 0)
        return reader, folder

    def load(self) -> BERTScorer:
        """The encoder up to its layer, and what weighs and rescales."""
        self.check_files()
        reader, folder = self._reader()
        model = pretrained(folder, weights=self.has_weights)
        if self.layer is None:
            raise ModelLoadError(
                f"no layer is known to be best for {self.model}",
                where="layer",
                fix=f"Give one of 0 to {model.config.num_hidden_layers}: layer=...",
            )
        encoder = Encoder(model, self.device, self.dtype, self.layer, self.batch_tokens)
        reader.max_tokens = min(reader.max_tokens, encoder.max_tokens)
        match = self.match or ("all" if self.compat else "sentence")
        return BERTScorer(
            self,
            reader,
            encoder,
            measure=self.aggregate,
            sentence_only=match == "sentence" and self.context > 0,
            frequencies=self._frequencies(reader),
            # In context the released code asks of an inverse document frequency only whether it is 0.
            binary_idf=self.compat is not None and self.context > 0,
            baseline=self._baseline(encoder.layer),
        )

    def _frequencies(self, reader: Reader) -> Counter[int] | None:
        """Document frequencies, as fitted or from a file; None where tokens are not weighted."""
        if not self.idf:
            return None
        if self.idf is True or self.idf.startswith(FITTED):
            frequencies: Counter[int] | None = self.__dict__.get("frequencies")
            if frequencies is None:
                fix = "Call fit(texts), or name a file of sentences: idf=FILE"
                raise InputError("no document frequencies", where=f"{self.name}: idf", fix=fix)
            return frequencies
        try:
            text = read_small_text(self.idf, "Name a UTF-8 text")
        except InputError as error:
            raise InputError(error.problem, where=f"idf {self.idf!r}", fix=error.fix) from error
        return document_frequencies(reader, text.splitlines())

    def _baseline(self, layer: int) -> FloatArray | None:
        """P, R and F of unrelated texts at a layer [3]; None where scores are not rescaled."""
        if not self.rescale or not self.baseline:
            return None
        fix = f"Expected the columns LAYER,P,R,F and a row for layer {layer}"
        try:
            text = read_small_text(self.baseline, fix)
            rows = {
                int(row["LAYER"]): [float(row[name]) for name in "PRF"]
                for row in csv.DictReader(StringIO(text, newline=""))
            }
            values = np.array(rows[layer])
            if not (values < 1).all():
                raise ValueError(f"layer {layer} has {values.tolist()}, expected numbers below 1")
            return values
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ModelLoadError(
                f"{type(error).__name__}: {error}", where=self.baseline, fix=fix
            ) from error
