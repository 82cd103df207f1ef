"""Probabilities of words under a masked language model that sees all of them masked.

    <s> source </s> text with the words masked </s>        <s> text ... </s> without a source

All sub-tokens of the words in question are masked at once; one softmax over the vocabulary per mask, and the vocabulary
head sees the masks alone, a multiple of 16 of them, so that on a CPU a probability depends on its text alone, to the
last bit. What is too long loses the end of the source, then what is farthest from the masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import MetricError, ModelLoadError
from ..execution.batches import in_batches
from ..neural.models.attention import ROWS
from ..neural.models.context_tokens import Frame
from ..neural.models.encoder import Encoder
from ..neural.models.files import model_files as files
from ..neural.models.pretrained import pretrained, tokenizer_of
from ..representations import IntArray, Ragged
from .spaced_words import Words

HEADS = ("lm_head", "cls")  # of the BERT and RoBERTa families


class Masking(NamedTuple):
    """A text whose words [start, end) are masked."""

    words: Words
    start: int
    end: int
    source: str = ""


class _MaskedText(NamedTuple):
    """A text as the model reads it."""

    ids: IntArray  # [tokens], special tokens counted
    masks: IntArray  # [masks], their places in ids
    hidden_ids: IntArray  # [masks], the id behind each mask
    word: IntArray  # [masks], which of the masked words each belongs to


class MaskedLM:
    """A masked language model.

    Args:
        model: a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        max_tokens: the longest input, special tokens counted.

    Raises:
        ModelLoadError: it is not there, is no masked language model of the BERT or RoBERTa families, or has a tokenizer
            without offsets.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        max_tokens: int = 512,
    ) -> None:
        folder = files.locate(model)
        self.name = str(folder)
        whole = pretrained(folder, "AutoModelForMaskedLM")
        self.tokenizer = tokenizer_of(folder)
        self.frame = Frame.of(self.tokenizer)
        self.mask = self.tokenizer.mask_token_id
        heads = [getattr(whole, name) for name in HEADS if hasattr(whole, name)]
        head = heads[0] if heads else None
        if head is None or self.mask is None or not self.tokenizer.is_fast:
            problem = "no masked language model that can be read here"
            fix = "Use a model of the BERT or RoBERTa family"
            raise ModelLoadError(problem, where=str(folder), fix=fix)
        self.encoder = Encoder(getattr(whole, whole.base_model_prefix), device, "float32")
        self.head = head.to(self.encoder.device).train(False)
        self.max_tokens = min(max_tokens, self.encoder.max_tokens)

    def probabilities(self, maskings: Sequence[Masking]) -> list[list[list[float]]]:
        """The probability of every sub-token of every masked word: a list per word, in a list per text.

        Raises:
            MetricError: the model gives a probability that is no number.
        """
        texts = self._read(maskings)
        ids = Ragged.of_rows([text.ids for text in texts])

        def run(rows: IntArray) -> list[tuple[int, Any]]:
            values: list[tuple[int, Any]] = []
            for places, states in self.encoder.states(ids[rows]):
                numbers = rows[places].tolist()
                own_texts = [texts[number] for number in numbers]
                of_masks = self._of_masks(states[0], own_texts)
                values += zip(numbers, of_masks, strict=True)
            return values

        parts, _ = in_batches(ids.lengths, self.encoder.batch_tokens, run)
        values = dict(pair for part in parts for pair in part)
        words = []
        for i, (text, masking) in enumerate(zip(texts, maskings, strict=True)):
            num_words = masking.end - masking.start
            words.append(_by_word(values[i], text.word, num_words))
        return words

    def _of_masks(self, states: Any, texts: Sequence[_MaskedText]) -> list[list[float]]:
        """Probabilities behind the masks of texts of one length, from their states [texts, length, d]."""
        torch = self.encoder.torch
        counts = [len(row.masks) for row in texts]
        # the text, the place and the hidden id of every mask, [masks] each
        text = np.repeat(np.arange(len(texts)), counts)
        place = np.concatenate([row.masks for row in texts])
        token = np.concatenate([row.hidden_ids for row in texts])
        # the last mask again and again, up to a multiple of 16: products then round alike in every batch
        spare = (0, -len(token) % ROWS)
        text, place, token = (np.pad(rows, spare, mode="edge") for rows in (text, place, token))
        with torch.inference_mode():
            masked = states[torch.from_numpy(text), torch.from_numpy(place)]  # [masks and spare, d]
            logits = self.head(masked[None])[0]
            shares = logits.float().softmax(-1)  # [masks and spare, vocabulary]
            of_token = shares[torch.arange(len(token)), torch.from_numpy(token)]
            of_token = of_token.double().cpu().numpy()
        if not np.isfinite(of_token).all():
            problem = "a probability that is no number"
            raise MetricError(problem, where=self.name, fix="Look at the weights of the model")
        by_text = np.split(of_token[: sum(counts)], np.cumsum(counts)[:-1])
        return [values.tolist() for values in by_text]

    def _read(self, maskings: Sequence[Masking]) -> list[_MaskedText]:
        """The texts with their words masked, each source tokenized once."""
        source_of = [masking.source.strip() for masking in maskings]
        sources = sorted(set(source_of) - {""})
        source_ids = dict(zip(sources, self._ids(sources), strict=True))
        texts = ["".join(masking.words).lstrip() for masking in maskings]
        tokens = self.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        rows = zip(maskings, source_of, tokens.input_ids, tokens.offset_mapping, strict=True)
        return [
            self._masked(masking, source_ids.get(source, []), ids, offsets)
            for masking, source, ids, offsets in rows
        ]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """The token ids of texts, without special tokens."""
        if not texts:
            return []
        tokens = self.tokenizer(texts, add_special_tokens=False, verbose=False)
        return [list(ids) for ids in tokens.input_ids]

    def _masked(
        self,
        masking: Masking,
        source: list[int],
        ids: list[int],
        offsets: list[tuple[int, int]],
    ) -> _MaskedText:
        """One text from its token ids, their offsets [tokens] of (begin, end), and the ids of its source."""
        spans = _spans(masking)
        word = np.array([_owner(begin, end, spans) for begin, end in offsets], np.int64)
        all_ids = np.array(ids, np.int64)
        # as many tokens as there is room for, the masks in their middle
        room = self.max_tokens - 2
        masks = np.flatnonzero(word >= 0)
        window = _around(masks, len(ids), room)
        text = all_ids[window]
        word = word[window]
        # the source before them, as far as there is room left
        before = source[: max(0, room - len(text) - 1)]
        start = [self.frame.first, *before]
        if before:
            start.append(self.frame.separator)
        masks = np.flatnonzero(word >= 0)
        masked = np.where(word >= 0, self.mask, text)
        sequence = [*start, *masked.tolist(), self.frame.last]
        return _MaskedText(
            np.array(sequence, np.int64),
            masks + len(start),
            text[masks],
            word[masks],
        )


def _spans(masking: Masking) -> list[tuple[int, int]]:
    """Where the masked words stand in the text, the space before them counted."""
    words = masking.words
    # a text begins without the space of its first word
    lead = len(words[0]) - len(words[0].lstrip()) if words else 0
    ends = np.cumsum([0, *map(len, words)])
    bounds = (ends - lead).tolist()
    return [(bounds[i], bounds[i + 1]) for i in range(masking.start, masking.end)]


def _owner(begin: int, end: int, spans: Sequence[tuple[int, int]]) -> int:
    """Which span a token belongs to, -1 for none."""
    for i, (low, high) in enumerate(spans):
        if begin < high and end > low:
            return i
    return -1


def _around(masks: IntArray, length: int, room: int) -> slice:
    """At most `room` places, the masks in their middle."""
    if length <= room:
        return slice(0, length)
    middle = int(masks.mean()) if len(masks) else 0
    start = max(0, middle - room // 2)
    start = min(start, length - room)
    return slice(start, start + room)


def _by_word(
    values: Sequence[float],
    owners: IntArray,
    num_words: int,
) -> list[list[float]]:
    """The values of the sub-tokens of each word, from the word of each, [sub-tokens]."""
    words: list[list[float]] = [[] for _ in range(num_words)]
    for value, owner in zip(values, owners.tolist(), strict=True):
        words[owner].append(value)
    return words
