"""What the metrics of foci and token vectors share: their settings, and texts read as tokens and foci."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ...errors import InputError, ModelLoadError
from ...neural.models.encoder import Encoder
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...neural.models.settings import ModelMetric
from ...representations import Array, FloatArray, IntArray, Ragged, Reps
from ...scorer import Scorer
from ...spec.checked_settings import Field, settings
from ...text.texts import Item, Text
from .entities import named_by_longest, named_by_members, read_vectors
from .foci import Foci, FocusMetric, FocusReader, check_spans, foci_of_reference
from .token_vectors import TokenReader, lowered

LAYERS_OF_REFERENCE = 8  # the released code uses the first eight layers of any encoder


@settings
class FocusModelMetric(ModelMetric, FocusMetric):
    """A metric of foci and of the token vectors of an encoder.

    Args:
        layer: which layer's vectors. Default: the eighth, or the last of a smaller encoder, as in the released code.
        lowercase: read the text in small letters. Nouns are found and sentences split before.
        focus: noun, or entity: nouns that mean about the same are one focus.
        vectors: for entities, a file of word vectors in the text format of word2vec; if not given, a text's nouns are
            compared by their own vectors in it.
        threshold: the cosine above which two nouns are one entity. Default: 0.8, for entity-graph 0.7; for ds-sent
            under compat 0.5.
        several: several references: the mean over them, or the best (max).
    """

    default_model: ClassVar[str | None] = "minilm"
    layer: int | None = None
    lowercase: bool = True
    focus: Literal["noun", "entity"] = "noun"
    vectors: str | None = None
    threshold: Annotated[float, Field(ge=-1, le=1)] | None = None
    several: Literal["mean", "max"] = "mean"
    default_threshold: ClassVar[float] = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        FocusMetric.__post_init__(self)
        if self.focus == "noun" and (self.vectors or self.threshold is not None):
            problem = "vectors and threshold make entities of nouns"
            fix = 'Set focus="entity", or leave vectors and threshold out'
            raise InputError(problem, where=self.name, fix=fix)
        if self.focus == "entity" and self.compat and not self.vectors:
            fix = "Set vectors=FILE: the released code has entities by word vectors alone"
            raise InputError("no word vectors", where=f"{self.name}: compat", fix=fix)

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files."""
        return "model", *(["vectors"] if self.vectors else [])

    def _digest(self, name: str) -> str:
        path = self.named(name)
        if name == "vectors" and not Path(path).is_file():
            where = f"vectors {path!r}"
            raise InputError("found no file there", where=where, fix="Name a file on this machine")
        return super()._digest(name)

    def cosine(self) -> float:
        """The threshold in force."""
        return self.default_threshold if self.threshold is None else self.threshold

    def encoder(self) -> tuple[TokenReader, Encoder]:
        """The encoder up to its layer, and what reads for it.

        Raises:
            ModelLoadError: its files are missing, broken or have changed, or its tokenizer knows no spans.
        """
        self.check_files()
        folder = files.locate(self.named("model"), self.revision)
        tokenizer = tokenizer_of(folder)
        model = pretrained(folder)
        if not tokenizer.is_fast:
            problem = "its tokenizer does not know where tokens stand"
            fix = "Give an encoder with a fast tokenizer (tokenizer.json)"
            raise ModelLoadError(problem, where=str(folder), fix=fix)
        if self.compat:
            _keep_case(tokenizer)
        layer = self.layer
        if layer is None:
            layer = min(LAYERS_OF_REFERENCE, model.config.num_hidden_layers)
        encoder = Encoder(model, self.device, self.dtype, layer)
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        max_tokens = min(
            self.max_tokens or 1 << 30,
            int(tokenizer.model_max_length),
            encoder.max_tokens,
        )
        return TokenReader(tokenizer, max_tokens), encoder


def _keep_case(tokenizer: Any) -> None:
    """Makes the tokenizer of a BERT keep capitals and accents, as the released code has it."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if type(normalizer).__name__ == "BertNormalizer":
        normalizer.lowercase = normalizer.strip_accents = False


class FocusScorer(Scorer):
    """Reads texts as tokens and foci, for metrics that represent them.

    Args:
        metric: the settings.
        placed: whether every focus must have a place in its sentence.
    """

    def __init__(self, metric: FocusModelMetric, placed: bool) -> None:
        self.info = metric.info
        self.metric = metric
        self.foci = FocusReader(metric)
        self.reader, self.encoder = metric.encoder()
        self.batch_tokens = self.encoder.batch_tokens
        self.identity = f"{metric.identity(self.encoder.device)} {self.foci.identity}"
        self.by_word = None  # vectors of words, where these make entities
        if metric.focus == "entity" and metric.vectors:
            self.by_word = read_vectors(metric.vectors)
        self.by_context = metric.focus == "entity" and not metric.vectors
        self.placed = placed or self.by_context

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Columns "ids", "windows", "sentence" of tokens (see `Tokens`), "sentences", how many; of the foci "names",
        and of their occurrences "key" (place in the names), "at" (sentence) and "token" (the last; -1 if none).
        """
        if not items:
            return Reps({}), np.empty(0, np.int64)
        rows = [self._read(item.text) for item in items]
        columns: dict[str, Array | Ragged] = {}
        for name in rows[0]:
            columns[name] = Ragged.of_rows([row[name] for row in rows])
        reps = Reps(columns)
        return reps, reps["ids"].lengths

    def _read(self, text: Text) -> Mapping[str, Array]:
        """The columns of one text."""
        foci = self.foci_of(text)
        names = sorted(foci.distinct_keys(), key=key_id)
        number = {name: i for i, name in enumerate(names)}
        sentences: list[str] = list(foci.sentences)
        if self.metric.lowercase:
            sentences = [lowered(sentence) for sentence in sentences]
        tokens = self.reader.read(sentences)
        # one row per occurrence: number of its name, sentence, last token
        rows = []
        for i, nouns in enumerate(foci.occurrences):
            rows += [(number[noun.key], i, tokens.last_of(i, noun)) for noun in nouns]
        occurrences = np.array(rows, np.int64).reshape(-1, 3)
        return {
            "ids": tokens.ids,
            "windows": tokens.windows,
            "sentence": tokens.sentence,
            "sentences": np.array([len(sentences)], np.int64),
            "names": packed(names),
            "key": occurrences[:, 0],
            "at": occurrences[:, 1],
            "token": occurrences[:, 2],
        }

    def foci_of(self, text: Text) -> Foci:
        """The foci of a text, under the names of their entities where these are made by word vectors."""
        foci = self.foci.read(text)
        if self.placed and self.metric.compat:
            foci = foci_of_reference(foci)
        elif self.placed:
            check_spans(foci)
        if self.by_word is None:
            return foci
        keys = sorted(foci.distinct_keys())
        entity = named_by_members(keys, self.by_word, self.metric.cosine())
        occurrences = [
            [noun._replace(key=entity[noun.key]) for noun in nouns] for nouns in foci.occurrences
        ]
        return Foci(foci.sentences, occurrences)

    def focus_vectors(
        self,
        prepared: Reps,
        row: int,
        states: Array,
    ) -> tuple[list[str], IntArray, FloatArray]:
        """The foci of a row: their names, the number of each occurrence's [occurrences], and the sums of the unit
        vectors at the last token of every occurrence, [foci, d].
        """
        names = unpacked(row_of(prepared["names"], row))
        key = row_of(prepared["key"], row)
        token = row_of(prepared["token"], row)
        # unit vectors of the occurrences that have a token, summed by focus
        placed = token >= 0
        vectors = states[token[placed]].astype(np.float64)
        squares = (vectors * vectors).sum(axis=1, keepdims=True)
        units = vectors / (np.sqrt(squares) + 1e-30)
        sums = np.zeros((len(names), states.shape[1]))
        np.add.at(sums, key[placed], units)
        if not self.by_context:
            return names, key, sums
        # the same by entity, which is named after the longest of these sums
        entity = named_by_longest(names, sums, self.metric.cosine())
        entities = sorted(set(entity.values()), key=key_id)
        number = {name: i for i, name in enumerate(entities)}
        numbers = [number[entity[name]] for name in names]
        entity_of_name = np.array(numbers, np.int64)
        entity_sums = np.zeros((len(entities), states.shape[1]))
        np.add.at(entity_sums, entity_of_name, sums)
        entity_key = entity_of_name[key] if len(entity_of_name) else key
        return entities, entity_key, entity_sums


def key_id(name: str) -> int:
    """A number of 63 bits that stands for a focus in every process."""
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def packed(names: Sequence[str]) -> Array:
    """Names as bytes, uint8."""
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def unpacked(names: Array) -> list[str]:
    """The inverse of `packed`."""
    plain: list[str] = json.loads(names.tobytes())
    return plain


def row_of(column: Ragged, row: int) -> Array:
    """The values of one row."""
    return column.values[column.offsets[row] : column.offsets[row + 1]]
