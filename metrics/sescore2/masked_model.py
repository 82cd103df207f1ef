"""Probabilities of words under a masked language model that sees all of them masked.

    <s> source </s> text with the words masked </s>        <s> text ... </s> without a source

All sub-tokens of all asked words are masked at once; one softmax over the vocabulary per mask, and the vocabulary head
sees the masks alone. What is too long loses the end of the source, then what is farthest from the masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ModelLoadError
from ..execution.batches import in_batches
from ..neural.models import model_files as files
from ..neural.models.context_tokens import Frame
from ..neural.models.encoder import Encoder, pretrained, tokenizer_of
from ..representations import IntArray, Ragged
from .spaced_words import Words

HEADS = ("lm_head", "cls")  # of the BERT and RoBERTa families


class Masking(NamedTuple):
    """The words [start, end) of a text are asked for."""

    words: Words
    start: int
    end: int
    source: str = ""


class _Read(NamedTuple):
    ids: IntArray
    masks: IntArray  # places in ids
    wanted: IntArray  # the id behind each mask
    word: IntArray  # which of the asked words each mask belongs to


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

    def __init__(self, model: str, device: str | None = None, max_tokens: int = 512) -> None:
        folder = files.locate(model)
        whole = pretrained(folder, "AutoModelForMaskedLM")
        self.tokenizer = tokenizer_of(folder)
        self.frame = Frame.of(self.tokenizer)
        self.mask = self.tokenizer.mask_token_id
        head = next((getattr(whole, name) for name in HEADS if hasattr(whole, name)), None)
        if head is None or self.mask is None or not self.tokenizer.is_fast:
            fix = "Use a model of the BERT or RoBERTa family"
            raise ModelLoadError(
                "no masked language model that can be read here", where=str(folder), fix=fix
            )
        self.encoder = Encoder(getattr(whole, whole.base_model_prefix), device, "float32")
        self.head = head.to(self.encoder.device).train(False)
        self.max_tokens = min(max_tokens, self.encoder.max_tokens)

    def probabilities(self, asked: Sequence[Masking]) -> list[list[list[float]]]:
        """The probability of every sub-token of every asked word: a list per word, in a list per text."""
        read = self._read(asked)
        ids = Ragged.of_rows([row.ids for row in read])

        def run(rows: IntArray) -> list[tuple[int, Any]]:
            found: list[tuple[int, Any]] = []
            for places, states in self.encoder.states(ids[rows]):
                own = [read[rows[place]] for place in places]
                found += zip(rows[places].tolist(), self._of_masks(states[0], own), strict=True)
            return found

        parts, _ = in_batches(ids.lengths, self.encoder.batch_tokens, run)
        values = dict(pair for part in parts for pair in part)
        return [
            _by_word(values[i], row.word, masking.end - masking.start)
            for i, (row, masking) in enumerate(zip(read, asked, strict=True))
        ]

    def _of_masks(self, states: Any, own: Sequence[_Read]) -> list[list[float]]:
        """Probabilities behind the masks of texts of one length, from their states [texts, length, d]."""
        torch = self.encoder.torch
        text = np.repeat(np.arange(len(own)), [len(row.masks) for row in own])
        where = np.concatenate([row.masks for row in own])
        wanted = np.concatenate([row.wanted for row in own])
        with torch.inference_mode():
            masked = states[torch.from_numpy(text), torch.from_numpy(where)]  # [masks, d]
            shares = self.head(masked[None])[0].float().softmax(-1)  # [masks, vocabulary]
            chosen = (
                shares[torch.arange(len(wanted)), torch.from_numpy(wanted)].double().cpu().numpy()
            )
        return [
            part.tolist()
            for part in np.split(chosen, np.cumsum([len(row.masks) for row in own])[:-1])
        ]

    def _read(self, asked: Sequence[Masking]) -> list[_Read]:
        sources = sorted({masking.source.strip() for masking in asked} - {""})
        known = dict(zip(sources, self._ids(sources), strict=True))
        texts = ["".join(masking.words).lstrip() for masking in asked]
        tokens = self.tokenizer(
            texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [
            self._one(masking, known.get(masking.source.strip(), []), ids, offsets)
            for masking, ids, offsets in zip(
                asked, tokens.input_ids, tokens.offset_mapping, strict=True
            )
        ]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        found = (
            self.tokenizer(texts, add_special_tokens=False, verbose=False).input_ids
            if texts
            else []
        )
        return [list(ids) for ids in found]

    def _one(
        self, masking: Masking, source: list[int], ids: list[int], offsets: list[tuple[int, int]]
    ) -> _Read:
        spans = _spans(masking)
        word = np.array([_owner(begin, end, spans) for begin, end in offsets], np.int64)
        masks = np.flatnonzero(word >= 0)
        room = self.max_tokens - 2
        kept = _around(masks, len(ids), room)
        place = np.arange(len(ids))[kept]
        text = np.array(ids, np.int64)[kept]
        owners = word[kept]
        before = source[: max(0, room - len(text) - 1)]
        start = [self.frame.first, *before, *([self.frame.separator] if before else [])]
        asked = np.flatnonzero(owners >= 0)
        hidden = np.where(owners >= 0, self.mask, text)
        return _Read(
            np.array([*start, *hidden.tolist(), self.frame.last], np.int64),
            asked + len(start),
            np.array(ids, np.int64)[place[asked]],
            owners[asked],
        )


def _spans(masking: Masking) -> list[tuple[int, int]]:
    """Where the asked words stand in the text, the space before them counted."""
    lead = len(masking.words[0]) - len(masking.words[0].lstrip()) if masking.words else 0
    ends = np.cumsum([0, *map(len, masking.words)]) - lead
    return [(int(ends[i]), int(ends[i + 1])) for i in range(masking.start, masking.end)]


def _owner(begin: int, end: int, spans: Sequence[tuple[int, int]]) -> int:
    """Which span a token belongs to, -1 for none."""
    return next((i for i, (low, high) in enumerate(spans) if begin < high and end > low), -1)


def _around(masks: IntArray, length: int, room: int) -> slice:
    """At most `room` places, the masks in their middle."""
    if length <= room:
        return slice(0, length)
    middle = int(masks.mean()) if len(masks) else 0
    start = min(max(0, middle - room // 2), length - room)
    return slice(start, start + room)


def _by_word(values: Sequence[float], owners: IntArray, words: int) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in range(words)]
    for value, owner in zip(values, owners.tolist(), strict=True):
        found[owner].append(value)
    return found
