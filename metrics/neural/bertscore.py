"""BERTScore (Zhang et al. 2020) and Doc-BERTScore (Vernikos et al. 2022): greedy matching of token vectors.

    P = sum_i a_i max_j h_i.r_j / sum_i a_i,   R = sum_j b_j max_i h_i.r_j / sum_j b_j,   F = 2 P R / (P + R)

over unit vectors h_i, r_j of layer ``layer``; the weights a, b are 1, or idf, and 0 for special tokens, which are still
matched against. With ``context=k`` a sentence is encoded after the k sentences before it, whose weights are 0;
``match="sentence"`` aligns the current sentences alone, as the paper says, each with the special tokens at its ends,
``"all"`` lets a token match anything the other side has, as its code does. Without context both are BERTScore, to the
last digit: a sentence at the start of a document is read as one alone, after a space by byte-level tokenizers. Under
``compat="reference"`` the first text is read without that space where there is context, as the released code has it,
and ``match="sentence"`` leaves the special tokens out. At most 1, higher is better, F is symmetric; 0 if either text is
empty.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from math import log
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, ModelLoadError
from ..representations import Block, FloatArray, IntArray, Ragged, Reps, transposed
from ..scorer import Info
from ..spec.checked_settings import settings
from ..storage.bounded_files import read_small_text
from ..storage.checksums import DIGITS
from ..text.texts import Item, Text
from .models.attention import ROWS, Slab, Spans, slabs_of
from .models.context_tokens import Frame, Reader
from .models.encoder import Encoder
from .models.files import model_files
from .models.pretrained import pretrained, tokenizer_of
from .models.settings import ContextModelMetric, EncoderScorer

# Tokens of the texts that are rows, and of those that are columns, of one product.
CPU_TILE, GPU_TILE = (512, 4096), (8192, 16384)

Targets = Literal["all", "sentence and ends", "sentence"]

# Under this key, which is no token, the number of texts is counted.
TEXTS = -1


class BERTScorer(EncoderScorer):
    """Represents a text by the unit vectors of its tokens and their weights.

        P(h, r) = sum_i a_i max_j h_i.r_j / sum_i a_i,   R(h, r) = P(r, h)

    The tokens of many texts stand one after the other, so that the products of all their pairs are one matrix product,
    some rows at a time; of a square block about half is computed. Every product has a multiple of 16 rows and columns:
    then no number's bytes depend on its neighbours.

    Weights are 1, or say in how few texts a token is:

        idf(t) = log((n + 1) / (n_t + 1))

    n is the number of texts and n_t how many of them have the token t, special tokens included. At least 0; 0 for a
    token that every text has.

    Args:
        metric: the settings that all metrics with a model share.
        reader: makes ids of texts.
        encoder: makes vectors of ids; its last layer is the one that is matched.
        measure: which of these values is the score.
        targets: what a token may match: all tokens, those of the sentence with the first and last token of the
            sequence, or those of the sentence alone.
        frequencies: document frequencies of tokens; None where all weigh the same.
        binary_idf: of the inverse document frequency, only whether it is 0 counts.
        baseline: P, R and F of unrelated texts [3], by which scores are rescaled; None where they are not.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        *,
        measure: Literal["P", "R", "F"],
        targets: Targets,
        frequencies: Counter[int] | None,
        binary_idf: bool,
        baseline: FloatArray | None,
    ) -> None:
        super().__init__(metric, encoder, reader)
        self.measure = measure
        self.targets = targets
        self.frequencies = frequencies
        self.binary_idf = binary_idf
        self.baseline = baseline

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "vectors" [tokens, d] and "weights" [tokens] of what may be matched."""
        ids, starts = prepared["ids"], prepared["start"]
        states = self.encoder.states(ids)
        units = self.encoder.torch.nn.functional.normalize(states.last, dim=-1)
        vectors = states.packing.ragged(units)  # [tokens, d] per text

        place = Spans.of_lengths(ids.lengths).places  # [tokens]
        start, length = np.repeat((starts, ids.lengths), ids.lengths, axis=1)  # [tokens] each
        is_inside = (place >= start) & (place < length - 1)  # [tokens]
        matched = is_inside
        if self.targets == "all":
            matched = np.ones_like(is_inside)
        elif self.targets == "sentence and ends":
            matched = is_inside | (place == 0) | (place == length - 1)
        numbers = np.add.reduceat(matched, ids.offsets[:-1], dtype=np.int64)  # [rows]
        weights = self._weights(ids.values, is_inside)
        return Reps(
            {
                "vectors": Ragged.of_lengths(vectors.values[matched], numbers),
                "weights": Ragged.of_lengths(weights[matched], numbers),
                "empty": prepared["own"] == 0,
            }
        )

    def _weights(self, tokens: IntArray, is_inside: Any) -> Any:
        """Weight of every token, float32 [tokens]: none for context and special tokens."""
        if self.frequencies is None:
            return is_inside.astype(np.float32)
        idf = inverse(self.frequencies, tokens)
        if self.binary_idf:
            idf = (idf != 0).astype(np.float32)
        return idf * is_inside

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The chosen one of P, R and F of every pair, [H, R]."""
        matrices: list[FloatArray] = []
        p = r = np.empty((0, 0))
        for block, is_transposed in zip(blocks, transposed(blocks), strict=True):
            # What is precision of a pair is recall of the same one the other way round.
            if is_transposed:
                p, r = r.T, p.T
            else:
                p, r = self._matches(reps, block)
            matrices.append(self._values(reps, block, p, r)[self.measure])
        return matrices

    def _matches(self, reps: Reps, block: Block) -> tuple[FloatArray, FloatArray]:
        """P and R of every pair, [H, R] each, neither rescaled nor set to 0 for empty texts."""
        return best_matches(self.encoder.device, reps["vectors"], reps["weights"], block)

    def _values(
        self, reps: Reps, block: Block, p: FloatArray, r: FloatArray
    ) -> dict[str, FloatArray]:
        """P, R and F of every pair, [H, R] each, from unscaled P and R [H, R], which this sets to 0 for empty texts."""
        empty = reps["empty"]
        no_hypothesis = empty[block.hypotheses][:, None]  # [H, 1]
        no_reference = empty[block.references][None, :]  # [1, R]
        nothing = no_hypothesis | no_reference  # [H, R]
        p[nothing] = r[nothing] = 0
        total = p + r
        f = np.zeros_like(total)
        np.divide(2 * p * r, total, out=f, where=total != 0)
        baseline = np.zeros(3) if self.baseline is None else self.baseline
        values = zip("PRF", (p, r, f), baseline, strict=True)
        return {name: (value - base) / (1 - base) for name, value, base in values}

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """P, R and F of a pair."""
        pair = Block(block.hypotheses[[hypothesis]], block.references[[reference]])
        values = self._values(reps, pair, *self._matches(reps, pair))
        return {name: float(value[0, 0]) for name, value in values.items()}


def best_matches(
    device: Any, vectors: Ragged, weights: Ragged, block: Block
) -> tuple[FloatArray, FloatArray]:
    """P and R of every pair, [H, R] each; vectors: [tokens, d] per text, weights: [tokens] per text."""
    shape = len(block.hypotheses), len(block.references)
    p, r = np.zeros(shape), np.zeros(shape)
    rows = _SortedTexts.of(device, vectors, weights, block.hypotheses)
    columns = rows
    if not block.square:
        columns = _SortedTexts.of(device, vectors, weights, block.references)
    row_tokens, column_tokens = CPU_TILE if device.type == "cpu" else GPU_TILE
    for start, a in rows.parts(row_tokens):
        # Of a square block, what is left of the diagonal has been computed as its mirror image.
        for _, b in columns.parts(column_tokens, start if block.square else 0):
            of_a, of_b = _match(a, b)  # [n_a, n_b] each
            where = np.ix_(a.places, b.places)
            p[where], r[where] = of_a, of_b
            if block.square:
                mirrored = where[::-1]  # indexed as [column, row]
                p[mirrored], r[mirrored] = of_b, of_a
    return p, r


class _SortedTexts(NamedTuple):
    """Texts one after the other, the shortest first."""

    places: IntArray  # [n] in the block
    lengths: IntArray  # [n]
    vectors: Any  # [tokens and spare rows, to a multiple of 16, d]
    shares: Any  # [tokens]; they sum to 1 in each text that has any weight

    @classmethod
    def of(cls, device: Any, vectors: Ragged, weights: Ragged, rows: IntArray) -> Self:
        """The texts in these rows [n] that have tokens; vectors: [tokens, d] per text, weights: [tokens] per text."""
        import torch

        # Empty texts are the shortest; they are left out.
        lengths = vectors.lengths[rows]  # [all texts]
        num_empty = np.count_nonzero(lengths == 0)
        places = np.argsort(lengths, kind="stable")[num_empty:]
        lengths, texts = lengths[places], rows[places]

        # At least 16 spare rows of vectors: the shortest text, again and again.
        shortest = max(1, lengths[:1].sum())
        repeats = -(-ROWS // shortest)
        spare = texts[:1].repeat(repeats)
        tokens = vectors[np.append(texts, spare)].values  # [tokens and spare rows, d]

        # The share of a token in the weight of its text.
        weight = weights[texts].values  # [tokens]
        text = np.repeat(np.arange(len(texts)), lengths)  # [tokens]
        totals = np.bincount(text, weight, len(texts))  # [n], added in order
        total = totals[text]  # [tokens]
        share = np.zeros(len(total))
        np.divide(weight, total, out=share, where=total > 0)
        return cls(
            places=places,
            lengths=lengths,
            vectors=torch.from_numpy(tokens).to(device),
            shares=torch.from_numpy(share).to(device),
        )

    def parts(self, tokens: int, start: int = 0) -> Iterator[tuple[int, Self]]:
        """First text, and texts of at most so many tokens together (one may be longer), from text `start` on."""
        ends = self.lengths.cumsum()
        while start < len(ends):
            first = int(ends[start] - self.lengths[start])
            within_budget = int(np.searchsorted(ends, first + tokens, "right"))
            stop = max(start + 1, within_budget)
            last = int(ends[stop - 1])
            # Rows of the next texts, or the spare ones, fill up to a multiple of 16.
            end = last + (first - last) % ROWS
            part = type(self)(
                places=self.places[start:stop],
                lengths=self.lengths[start:stop],
                vectors=self.vectors[first:end],
                shares=self.shares[first:last],
            )
            yield start, part
            start = stop


def _match(a: _SortedTexts, b: _SortedTexts) -> tuple[FloatArray, FloatArray]:
    """Weighted means of the best matches of the tokens of `a` in `b`, and of those of `b` in `a`, [n_a, n_b] each."""
    from .models.linear_products import linear

    cosines = linear(a.vectors, b.vectors)  # [tokens of a, tokens of b], spare ones included
    slabs_a = slabs_of(a.lengths.tolist())
    slabs_b = slabs_of(b.lengths.tolist())
    of_a = _mean(_best(cosines.T, slabs_b), a.shares, slabs_a)  # [n_b, n_a]
    of_b = _mean(_best(cosines, slabs_a), b.shares, slabs_b)  # [n_a, n_b]
    return of_a.T, of_b


def _best(cosines: Any, slabs: list[Slab]) -> Any:
    """The largest number in each text, [texts, other tokens], of [tokens, other tokens]."""
    import torch

    return torch.cat([slab.rows(cosines).amax(1) for slab in slabs])


def _mean(best: Any, shares: Any, slabs: list[Slab]) -> FloatArray:
    """Weighted means over the tokens of each text, [other texts, texts].

    best: the largest numbers, [other texts, tokens and spare ones]. shares: of the tokens in their texts, [tokens].
    """
    import torch

    weighted = best[:, : len(shares)].double() * shares  # [other texts, tokens]
    by_text = [slab.rows(weighted.T).sum(1) for slab in slabs]  # [texts of the slab, other texts]
    return torch.cat(by_text).T.cpu().numpy()


def document_frequencies(reader: Reader, texts: Iterable[str]) -> Counter[int]:
    """In how many texts each token is; the number of texts under -1."""
    items = [Item(text) for text in texts]
    if not items:
        fix = "Give the sentences to count tokens in, one per line"
        raise InputError("no texts", where="idf", fix=fix)
    ids = reader.read(items)["ids"]
    bounds = zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
    distinct = [set(ids.values[start:end].tolist()) for start, end in bounds]
    frequencies = Counter(token for tokens in distinct for token in tokens)
    return frequencies + Counter({TEXTS: len(distinct)})


def inverse(frequencies: Counter[int], tokens: IntArray) -> NDArray[np.float32]:
    """Inverse document frequency of tokens [tokens], float32 [tokens]."""
    texts = frequencies[TEXTS]
    values = []
    for token in tokens.tolist():
        ratio = (texts + 1) / (frequencies[token] + 1)
        values.append(log(ratio))
    return np.array(values, np.float32)


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
        version=3,
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
        # In context the released code reads the first text without a space.
        space_before = self.compat is None or self.context == 0
        reader = Reader(tokenizer, frame, limit, self.truncates, space_before=space_before)
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
        return BERTScorer(
            self,
            reader,
            encoder,
            measure=self.aggregate,
            targets=self._targets,
            frequencies=self._frequencies(reader),
            # In context the released code asks of an inverse document frequency only whether it is 0.
            binary_idf=self.compat is not None and self.context > 0,
            baseline=self._baseline(encoder.layer),
        )

    @property
    def _targets(self) -> Targets:
        """The tokens that a token may match."""
        match = self.match or ("all" if self.compat else "sentence")
        if match == "all" or self.context == 0:
            return "all"
        return "sentence" if self.compat else "sentence and ends"

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
