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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import log
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ...errors import InputError, ModelLoadError
from ...papers import ZHANG_2020
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, turned
from ...scorer import Info, Reading, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item, Text
from ..models import model_files as files
from ..models.context_tokens import Frame, Reader
from ..models.encoder import Encoder, pretrained, tokenizer_of
from ..models.settings import ContextModelMetric
from .matching import best_matches

LAYERS: Mapping[
    str, int
] = {  # the layer that correlates best with human judgements, by the authors' measurements
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
FITTED = "sha256:"  # before the digest of fitted document frequencies


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
        papers=(ZHANG_2020,),
        symmetric=True,
        bucketed=True,
    )

    @property
    def file_settings(self) -> tuple[str, ...]:  # type: ignore[override]
        """Settings that name files."""
        named = isinstance(self.idf, str) and not self.idf.startswith(FITTED)
        return "model", *(["idf"] if named else []), *(["baseline"] if self.baseline else [])

    def __post_init__(self) -> None:
        super().__post_init__()
        known = LAYERS.get(self.named("model").rpartition("/")[2])
        if self.layer is None and known is not None:
            object.__setattr__(self, "layer", known)
            self.__dict__["defaulted"] = (*self.__dict__.get("defaulted", ()), "layer")
        if self.rescale and not self.baseline:
            raise InputError(
                "no baseline", where="rescale", fix="Give the file of baseline scores: baseline=..."
            )

    @property
    def reads(self) -> Reading:
        """Context sentences, and whose."""
        return Reading(
            self.context, self.context_from or "reference", self.context_from == "reference"
        )

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
        digest = sha256(repr(sorted(frequencies.items())).encode()).hexdigest()[: files.DIGITS]
        fitted = replace(self, idf=FITTED + digest)
        fitted.__dict__["frequencies"] = frequencies
        return fitted

    def with_defaults(self, **values: Any) -> Self:
        """As every metric; fitted frequencies and a layer stay with the model that they belong to."""
        found = super().with_defaults(**values)
        if found.model != self.model and "layer" in self.__dict__.get("defaulted", ()):
            found = replace(found, layer=None)
        if "frequencies" in self.__dict__ and (found.model, found.idf) == (self.model, self.idf):
            found.__dict__["frequencies"] = self.__dict__["frequencies"]
        return found

    def _digest(self, name: str) -> str:
        path = self.named(name)
        if name != "model" and not Path(path).is_file():
            raise InputError(
                "there is no such file", where=f"{name} {path!r}", fix="Name a file on this machine"
            )
        return super()._digest(name)

    def _reader(self) -> tuple[Reader, Any]:
        folder = files.locate(self.named("model"), self.revision)
        tokenizer = tokenizer_of(folder)
        limit = min(self.max_tokens or 1 << 30, int(tokenizer.model_max_length))
        return Reader(
            tokenizer, Frame.of(tokenizer), limit, self.truncates, self.context == 0
        ), folder

    def load(self) -> BERTScorer:
        """The encoder up to its layer, and what weighs and rescales."""
        self.check_files()
        reader, folder = self._reader()
        model = pretrained(folder)
        if self.layer is None:
            raise ModelLoadError(
                f"no layer is known to be best for {self.model}",
                where="layer",
                fix=f"Give one of 0 to {model.config.num_hidden_layers}: layer=...",
            )
        encoder = Encoder(model, self.device, self.dtype, self.layer)
        reader.max_tokens = min(reader.max_tokens, encoder.max_tokens)
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        return BERTScorer(
            self, reader, encoder, self._frequencies(reader), self._baseline(encoder.layer)
        )

    def _frequencies(self, reader: Reader) -> Counter[int] | None:
        if not self.idf:
            return None
        if self.idf is True or self.idf.startswith(FITTED):
            found: Counter[int] | None = self.__dict__.get("frequencies")
            if found is None:
                fix = "Call fit(texts), or name a file of sentences: idf=FILE"
                raise InputError("no document frequencies", where=f"{self.name}: idf", fix=fix)
            return found
        try:
            texts = Path(self.idf).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise InputError(
                f"cannot be read: {error}", where=f"idf {self.idf!r}", fix="Name a UTF-8 text"
            ) from error
        return document_frequencies(reader, texts)

    def _baseline(self, layer: int) -> FloatArray | None:
        if not self.rescale or not self.baseline:
            return None
        try:
            with open(self.baseline, encoding="utf-8", newline="") as lines:
                rows = {
                    int(row["LAYER"]): [float(row[name]) for name in "PRF"]
                    for row in csv.DictReader(lines)
                }
            found = np.array(rows[layer])
            if not (found < 1).all():
                raise ValueError(f"layer {layer} has {found.tolist()}, expected numbers below 1")
            return found
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ModelLoadError(
                f"{type(error).__name__}: {error}",
                where=self.baseline,
                fix=f"Expected the columns LAYER,P,R,F and a row for layer {layer}",
            ) from error


def document_frequencies(reader: Reader, texts: Iterable[str]) -> Counter[int]:
    """In how many texts each token is; the number of texts under -1."""
    items = [Item(text) for text in texts]
    if not items:
        raise InputError(
            "no texts", where="idf", fix="Give the sentences to count tokens in, one per line"
        )
    ids = reader.read(items)["ids"]
    rows = [
        set(ids.values[a:b].tolist())
        for a, b in zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
    ]
    return Counter([token for row in rows for token in row]) + Counter({-1: len(rows)})


class BERTScorer(Scorer):
    """Represents a text by the unit vectors of its tokens and their weights."""

    def __init__(
        self,
        metric: BERTScore,
        reader: Reader,
        encoder: Encoder,
        frequencies: Counter[int] | None,
        baseline: FloatArray | None,
    ) -> None:
        self.info, self.metric, self.reader, self.encoder = metric.info, metric, reader, encoder
        self.frequencies, self.baseline = frequencies, baseline
        self.batch_tokens, self.identity = encoder.batch_tokens, metric.identity(encoder.device)
        match = metric.match or ("all" if metric.compat else "sentence")
        self.sentence_only = match == "sentence" and metric.context > 0

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, where the sentence starts, and which tokens are matched with which weight."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "vectors" [tokens, d] and "weights" [tokens] of what may be matched."""
        torch, ids = self.encoder.torch, prepared["ids"]
        vectors: list[Any] = [None] * len(ids)
        for rows, (states,) in self.encoder.states(ids):
            units = torch.nn.functional.normalize(states, dim=-1).cpu().numpy()
            for row, unit in zip(rows.tolist(), units, strict=True):
                vectors[row] = unit[self._kept(prepared["start"][row], len(unit))]
        weights = self._weights(ids, prepared["start"])
        kept = [
            weights[a:b][self._kept(start, b - a)]
            for a, b, start in zip(
                ids.offsets[:-1], ids.offsets[1:], prepared["start"], strict=True
            )
        ]
        return Reps(
            {
                "vectors": Ragged.of_rows(vectors),
                "weights": Ragged.of_rows(kept),
                "empty": prepared["own"] == 0,
            }
        )

    def _kept(self, start: int, length: int) -> slice:
        """The tokens that may be matched."""
        return slice(start, length - 1) if self.sentence_only else slice(0, length)

    def _weights(self, ids: Ragged, starts: IntArray) -> Any:
        """Weight of every token, float32 [tokens]: none for context and special tokens."""
        place = np.arange(len(ids.values)) - np.repeat(ids.offsets[:-1], ids.lengths)
        own = (place >= np.repeat(starts, ids.lengths)) & (
            place < np.repeat(ids.lengths - 1, ids.lengths)
        )
        if self.frequencies is None:
            return own.astype(np.float32)
        n = self.frequencies[-1]
        idf = np.array(
            [log((n + 1) / (self.frequencies[token] + 1)) for token in ids.values.tolist()],
            np.float32,
        )
        if (
            self.metric.compat and self.metric.context
        ):  # the released code keeps of idf whether it is 0
            idf = (idf != 0).astype(np.float32)
        return idf * own

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The chosen one of P, R and F of every pair, [H, R]."""
        found: list[FloatArray] = []
        p = r = np.empty((0, 0))
        for block, again in zip(blocks, turned(blocks), strict=True):
            p, r = (r.T, p.T) if again else self._matches(reps, block)
            found.append(self._values(reps, block, p, r)[self.metric.aggregate])
        return found

    def _matches(self, reps: Reps, block: Block) -> tuple[FloatArray, FloatArray]:
        return best_matches(self.encoder.device, reps["vectors"], reps["weights"], block)

    def _values(
        self, reps: Reps, block: Block, p: FloatArray, r: FloatArray
    ) -> dict[str, FloatArray]:
        """P, R and F of every pair, [H, R] each, from unscaled P and R."""
        nothing = (
            reps["empty"][block.hypotheses][:, None] | reps["empty"][block.references][None, :]
        )
        p[nothing] = r[nothing] = 0
        total = p + r
        f = np.divide(2 * p * r, total, out=np.zeros_like(total), where=total != 0)
        base = np.zeros(3) if self.baseline is None else self.baseline
        return {name: (x - b) / (1 - b) for name, x, b in zip("PRF", (p, r, f), base, strict=True)}

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """P, R and F of a pair."""
        pair = Block(block.hypotheses[[hypothesis]], block.references[[reference]])
        found = self._values(reps, pair, *self._matches(reps, pair))
        return {name: float(value[0, 0]) for name, value in found.items()}
