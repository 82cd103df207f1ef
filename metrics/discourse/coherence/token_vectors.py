"""A whole text as token vectors: which token belongs to which sentence, and where a focus stands.

    FIRST ids(s_1) ids(s_2) ... ids(s_n)

All sentences attend to each other; there is no last special token, as in the released code of DiscoScore. What is too
long for the encoder is read in windows of whole sentences, each with FIRST before it; a sentence too long for a window
is cut into several. So no token is left out. Special tokens that are written out in a text are no tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...neural.models.context_tokens import Frame
from ...neural.models.encoder import Encoder
from ...representations import Array, IntArray, Ragged, Reps
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
    by_window: list[Array] = [np.empty(0)] * len(ids)
    for rows, (states,) in encoder.states(ids):
        for row, vectors in zip(rows.tolist(), states.cpu().numpy(), strict=True):
            by_window[row] = vectors
    bounds = pairwise(windows.offsets.tolist())
    return [np.concatenate(by_window[start:stop]) for start, stop in bounds]
