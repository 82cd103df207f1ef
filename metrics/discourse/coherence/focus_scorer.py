"""Base of the metrics of foci and token vectors: their settings, and texts read as tokens and foci.

A whole text is token vectors:

    FIRST ids(s_1) ids(s_2) ... ids(s_n)

All sentences attend to each other; there is no last special token, as in the released code of DiscoScore. What is too
long for the encoder is read in windows of whole sentences, each with FIRST before it; a sentence too long for a window
is cut into several. So no token is left out. Special tokens that are written out in a text are no tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import InputError, ModelLoadError
from ...neural.models.context_tokens import Frame
from ...neural.models.encoder import Encoder
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...neural.models.settings import ModelMetric
from ...representations import Array, FloatArray, IntArray, Ragged, Reps
from ...scorer import Scorer
from ...spec.checked_settings import Field, settings
from ...text.texts import Item, Text
from .entities import named_by_longest, named_by_members, read_vectors
from .foci import Foci, FocusMetric, FocusReader, check_spans, foci_of_reference
from .nouns import Noun


class Tokens(NamedTuple):
    """A text as token ids, FIRST of every window included."""

    ids: IntArray  # [tokens]
    windows: IntArray  # [windows], their lengths
    sentence: IntArray  # [tokens], the sentence of each; FIRST of the first window is in the first, of others -1
    spans: IntArray  # [tokens, 2] in code points of the sentence

    def last_of(self, sentence: int, noun: Noun) -> int:
        """The last token of a focus; -1 if it has none."""
        start, end = self.spans.T
        overlaps = (start < noun.end) & (end > noun.start)
        tokens = np.flatnonzero((self.sentence == sentence) & overlaps)
        return int(tokens[-1]) if len(tokens) else -1


class TokenReader:
    """Reads sentences with a tokenizer that knows spans.

    Args:
        tokenizer: a fast tokenizer of transformers.
        max_tokens: the longest window.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.room = max_tokens - 1
        self.first = Frame.of(tokenizer).first
        ids = tokenizer(" a", add_special_tokens=False).input_ids
        self.byte_level = tokenizer.convert_ids_to_tokens(ids)[0] == "Ġa"
        special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
        self.special = np.array(sorted(special), np.int64)

    def read(self, sentences: Sequence[str]) -> Tokens:
        """The tokens of the sentences of a text."""
        # byte-level tokenizers read the space between sentences as part of the word behind it
        leads = [" " * (self.byte_level and i > 0) for i in range(len(sentences))]
        spaced = [lead + sentence for lead, sentence in zip(leads, sentences, strict=True)]
        tokenized = self._tokenized(spaced)
        windows: list[Tokens] = []
        for window in self._windows([len(ids) for ids, _ in tokenized]):
            ids = [np.array([self.first])]
            spans = [np.full((1, 2), -1)]
            numbers = [np.array([-1 if windows else 0])]
            for i, start, stop in window:
                sentence_ids, sentence_spans = tokenized[i]
                ids.append(sentence_ids[start:stop])
                spans.append(sentence_spans[start:stop] - len(leads[i]))
                numbers.append(np.full(stop - start, i))
            length = sum(map(len, ids))
            windows.append(
                Tokens(
                    np.concatenate(ids),
                    np.array([length]),
                    np.concatenate(numbers),
                    np.concatenate(spans),
                )
            )
        return Tokens(*map(np.concatenate, zip(*windows, strict=True)))

    def _tokenized(self, sentences: list[str]) -> list[tuple[IntArray, IntArray]]:
        """Ids [tokens] and spans [tokens, 2] of every sentence."""
        if not sentences:
            return []
        read = self.tokenizer(
            sentences,
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=True,
            verbose=False,
        )
        rows = []
        for ids, spans in zip(read["input_ids"], read["offset_mapping"], strict=True):
            plain = ~np.isin(ids, self.special)
            plain_ids = np.array(ids, np.int64)[plain]
            plain_spans = np.array(spans, np.int64).reshape(-1, 2)[plain]
            rows.append((plain_ids, plain_spans))
        return rows

    def _windows(self, lengths: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
        """Windows as (sentence, first token, behind the last token) of what is in them."""
        window: list[tuple[int, int, int]] = []
        left = self.room
        for i, length in enumerate(lengths):
            if window and length > left:
                yield window
                window = []
                left = self.room
            for start in range(0, max(1, length), self.room):
                if start:
                    yield window
                    window = []
                    left = self.room
                stop = min(length, start + self.room)
                window.append((i, start, stop))
                left -= stop - start
        yield window


def lowered(text: str) -> str:
    """The text in small letters, letter by letter, so that spans stay."""
    low = text.lower()
    if len(low) == len(text):
        return low
    pairs = [(letter, letter.lower()) for letter in text]
    return "".join(lower if len(lower) == 1 else letter for letter, lower in pairs)


def states_of(encoder: Encoder, prepared: Reps) -> list[Array]:
    """Token vectors, float32 [tokens, d] of every row, from the columns "ids" and "windows"."""
    windows = prepared["windows"]
    ids = Ragged.of_lengths(prepared["ids"].values, windows.values)
    states = encoder.states(ids)
    by_window = states.packing.ragged(states.last)
    bounds = pairwise(by_window.offsets[windows.offsets].tolist())
    return [by_window.values[start:stop] for start, stop in bounds]


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
        folder = self.model_path()
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
        encoder = Encoder(model, self.device, self.dtype, layer, self.batch_tokens)
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
