"""Texts in context as token ids.

    FIRST ids(c_1) SEP ... ids(c_k) SEP ids(s) LAST

for a sentence s after the context c_1 ... c_k (Vernikos et al. 2022, section 3). Pieces are tokenised by themselves and
joined as ids, so a boundary is where it is meant to be, and a special token written out in a text ("</s>") is broken up
before. What is too long loses whole context sentences, the oldest first, then the left of the last one, and only then
the right of the sentence itself; ``truncation="reference"`` cuts on the right, as the released code does, which may
leave nothing of the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...representations import TRUNCATION_COLUMN, IntArray, Ragged, Reps
from ...text.texts import Item, Truncation

TruncationRule = Literal["oldest-context", "reference"]


class Frame(NamedTuple):
    """The special tokens around and inside a sequence."""

    first: int
    last: int
    separator: int

    @classmethod
    def of(cls, tokenizer: Any) -> Frame:
        """What a tokenizer puts around a text; raises ModelLoadError unless it is one token on either side."""
        bare = tokenizer("a", add_special_tokens=False).input_ids
        whole = tokenizer("a").input_ids
        if len(whole) != len(bare) + 2 or whole[1:-1] != bare:
            raise ModelLoadError(
                f"the tokenizer puts {len(whole) - len(bare)} special tokens around a text, expected one at each end",
                where=str(tokenizer.name_or_path),
                fix="Use an encoder of the BERT or RoBERTa family",
            )
        separator = tokenizer.sep_token_id
        return cls(whole[0], whole[-1], whole[-1] if separator is None else separator)


class Reader:
    """Makes ids of items.

    Args:
        tokenizer: a transformers tokenizer.
        frame: the special tokens.
        max_tokens: the longest sequence, special tokens counted.
        truncation: what is cut.
        space_before: byte-level tokenizers read a space before the text (BERTScore), not only where pieces are joined.
    """

    def __init__(
        self,
        tokenizer: Any,
        frame: Frame,
        max_tokens: int,
        truncation: TruncationRule,
        space_before: bool = False,
    ) -> None:
        self.tokenizer, self.frame, self.max_tokens, self.truncation = (
            tokenizer,
            frame,
            max_tokens,
            truncation,
        )
        self.space_before = space_before
        self.byte_level = tokenizer.convert_ids_to_tokens(_ids(tokenizer, [" a"])[0])[0].startswith(
            "Ġ"
        )
        literals = {
            str(token) for token in (*tokenizer.all_special_tokens, *tokenizer.get_added_vocab())
        }
        wide = sorted((literal for literal in literals if len(literal) > 1), key=len, reverse=True)
        normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
        self.normalized = None if normalizer is None else normalizer.normalize_str
        self.special = re.compile("|".join(map(re.escape, wide)) or r"(?!)")

    def read(self, items: Sequence[Item]) -> Reps:
        """Columns "ids"; "start", the place of the sentence's first token; "whole" and "own", lengths before any cut of
        everything and of the sentence alone; and `TRUNCATION_COLUMN`.
        """
        pieces = [self._pieces(item) for item in items]
        texts = list(dict.fromkeys(piece for some in pieces for piece in some))
        found = dict(zip(texts, _ids(self.tokenizer, texts), strict=True))
        rows = [self._joined([found[piece] for piece in some]) for some in pieces]
        ids, start, whole, own, truncation = zip(*rows, strict=True) if rows else ((),) * 5
        numbers = {"start": start, "whole": whole, "own": own, TRUNCATION_COLUMN: truncation}
        return Reps(
            {
                "ids": Ragged.of_rows(ids),
                **{name: np.array(n, np.int64) for name, n in numbers.items()},
            }
        )

    def _pieces(self, item: Item) -> list[str]:
        """Context sentences and the sentence as the tokenizer reads them."""
        plain = [self._plain(text) for text in (*item.context, str(item.text))]
        if not self.byte_level:
            return plain
        last = (
            len(plain) - 1
        )  # the released code joins texts by " </s> ", and byte-level tokenizers see these spaces
        spaced = [f"{' ' * (i > 0)}{text}{' ' * (i < last)}" for i, text in enumerate(plain)]
        spaced[-1] = spaced[-1] if plain[-1] else ""
        return [f" {spaced[0]}", *spaced[1:]] if self.space_before and plain[0] else spaced

    def _plain(self, text: str) -> str:
        """The text without surrounding space, halves of surrogate pairs and special tokens."""
        text = self._broken(text.encode("utf-8", "replace").decode().strip())
        if self.normalized is not None and self.special.search(same := self.normalized(text)):
            return self._broken(
                same
            )  # written with other characters that the tokenizer takes for these
        return text

    def _broken(self, text: str) -> str:
        """The text with special tokens broken up."""
        return self.special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _joined(self, pieces: list[list[int]]) -> tuple[IntArray, int, int, int, Truncation]:
        *context, sentence = pieces
        room = self.max_tokens - 2
        whole = sum(map(len, pieces)) + len(context) + 2
        truncation = Truncation.NONE
        if whole > self.max_tokens and self.truncation == "oldest-context":
            truncation = Truncation.CONTEXT if len(sentence) <= room else Truncation.TEXT
            context = _newest(context, room - len(sentence))
        before = [token for piece in context for token in (*piece, self.frame.separator)]
        body = (before + sentence)[:room]
        start = 1 + len(before)
        if whole > self.max_tokens and self.truncation == "reference":
            truncation = Truncation.TEXT
            places = [i for i, token in enumerate(body) if token == self.frame.separator]
            start = places[-1] + 2 if places else 1  # where the released code finds it
        ids = np.array([self.frame.first, *body, self.frame.last], np.int64)
        return ids, start, whole, len(sentence), truncation


def _newest(context: list[list[int]], room: int) -> list[list[int]]:
    """The newest context sentences that fit with their separators; of the last one its right end, if that fits."""
    while len(context) > 1 and sum(map(len, context)) + len(context) > room:
        context = context[1:]
    if context and len(context[0]) + 1 > room:
        context = [context[0][1 - room :]] if room > 1 else []
    return context


def _ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False, verbose=False).input_ids if texts else []
