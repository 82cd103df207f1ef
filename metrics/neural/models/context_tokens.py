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
from collections.abc import Iterable, Sequence
from itertools import chain
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
        """The tokens that a tokenizer puts around a text; raises ModelLoadError unless it is one on either side."""
        bare = tokenizer("a", add_special_tokens=False).input_ids
        whole = tokenizer("a").input_ids
        added = len(whole) - len(bare)
        if added != 2 or whole[1:-1] != bare:
            raise ModelLoadError(
                f"the tokenizer puts {added} special tokens around a text, expected one at each end",
                where=str(tokenizer.name_or_path),
                fix="Use an encoder of the BERT or RoBERTa family",
            )
        separator = tokenizer.sep_token_id
        if separator is None:
            separator = whole[-1]
        return cls(first=whole[0], last=whole[-1], separator=separator)


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
        self.tokenizer = tokenizer
        self.frame = frame
        self.max_tokens = max_tokens
        self.truncation = truncation
        self.space_before = space_before
        (ids,) = _ids(tokenizer, [" a"])
        first_token = tokenizer.convert_ids_to_tokens(ids)[0]
        self.byte_level = first_token.startswith("Ġ")
        self.plain = PlainTexts(tokenizer)

    def read(self, items: Sequence[Item]) -> Reps:
        """Columns "ids"; "start", the place of the sentence's first token; "whole" and "own", lengths before any cut of
        everything and of the sentence alone; and `TRUNCATION_COLUMN`.
        """
        pieces = [self._pieces(item) for item in items]
        distinct = list(dict.fromkeys(chain.from_iterable(pieces)))
        ids_of = dict(zip(distinct, _ids(self.tokenizer, distinct), strict=True))
        rows = [self._joined([ids_of[piece] for piece in row]) for row in pieces]
        ids, start, whole, own, truncation = zip(*rows, strict=True) if rows else ((),) * 5
        numbers = {"start": start, "whole": whole, "own": own, TRUNCATION_COLUMN: truncation}
        columns = {name: np.array(values, np.int64) for name, values in numbers.items()}
        return Reps({"ids": Ragged.of_rows(ids), **columns})

    def character_offsets(self, text: str) -> IntArray:
        """Start and end of every token in a text that is read without context, in characters, [tokens, 2].

        The tokens are those of `read`; those around the text are at (0, 0).

        Raises:
            ModelLoadError: the tokenizer does not tell.
        """
        (plain,) = self._pieces(Item(text))
        if not self.tokenizer.is_fast:
            fix = "Use a folder with tokenizer.json"
            where = str(self.tokenizer.name_or_path)
            raise ModelLoadError("the tokenizer tells no offsets", where=where, fix=fix)
        encoded = self.tokenizer(
            plain, add_special_tokens=False, verbose=False, return_offsets_mapping=True
        )
        places = _places(text, plain)
        inside = places[np.array(encoded.offset_mapping, np.int64).reshape(-1, 2)]
        around = np.zeros((1, 2), np.int64)
        return np.concatenate((around, inside[: self.max_tokens - 2], around))

    def _pieces(self, item: Item) -> list[str]:
        """Context sentences and the sentence as the tokenizer reads them."""
        texts = (*item.context, str(item.text))
        plain = [self.plain(text) for text in texts]
        if not self.byte_level:
            return plain
        # The released code joins texts by " </s> ", and byte-level tokenizers see these spaces.
        last = len(plain) - 1
        spaced = []
        for i, text in enumerate(plain):
            before = " " if i > 0 else ""
            behind = " " if i < last else ""
            spaced.append(f"{before}{text}{behind}")
        if not plain[-1]:
            spaced[-1] = ""
        if self.space_before and plain[0]:
            spaced[0] = f" {spaced[0]}"
        return spaced

    def _joined(self, pieces: list[list[int]]) -> tuple[IntArray, int, int, int, Truncation]:
        """The values of every column of `read` for one item, from the ids of its context and its sentence."""
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
            # The released code takes for the sentence what is behind the last separator.
            separators = [i for i, token in enumerate(body) if token == self.frame.separator]
            start = separators[-1] + 2 if separators else 1
        ids = np.array([self.frame.first, *body, self.frame.last], np.int64)
        return ids, start, whole, len(sentence), truncation


class PlainTexts:
    """Texts as a tokenizer may read them: without surrounding space, halves of surrogate pairs and special tokens."""

    def __init__(self, tokenizer: Any, special: re.Pattern[str] | None = None) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        normalizer = getattr(backend, "normalizer", None)
        self.normalized = None if normalizer is None else normalizer.normalize_str
        self.special = special or special_tokens(tokenizer)

    def __call__(self, text: str) -> str:
        """The text as it may be read."""
        return self.without_special(text.encode("utf-8", "replace").decode().strip())

    def without_special(self, text: str) -> str:
        """The text, its special tokens broken up and nothing else."""
        text = broken_up(text, self.special)
        if self.normalized is None:
            return text
        # A special token may be written with other characters that the tokenizer takes for its own.
        normalized = self.normalized(text)
        if self.special.search(normalized):
            return broken_up(normalized, self.special)
        return text


def broken_up(text: str, special: re.Pattern[str]) -> str:
    """The text with special tokens broken up by a blank behind their first character."""

    def broken(match: re.Match[str]) -> str:
        token = match[0]
        return f"{token[0]} {token[1:]}"

    return special.sub(broken, text)


def _places(text: str, plain: str) -> IntArray:
    """The place in a text of every character of what is read of it, and of its end, [characters + 1].

    What is read lacks space around the text, and has blanks in it that break up special tokens.
    """
    at = len(text) - len(text.lstrip())
    places = []
    for character in plain:
        places.append(at)
        is_own = at < len(text) and (character == text[at] or character != " ")
        at += is_own
    return np.minimum(np.array([*places, at], np.int64), len(text))


def special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """A pattern of the special tokens as they may be written out in a text, the longest first."""
    return _any_of((*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()))


def control_tokens(tokenizer: Any) -> re.Pattern[str]:
    """A pattern of the special tokens that control a model, without added ones that stand for plain text."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    control = [token for token in added if token.special]
    return _any_of((*tokenizer.all_special_tokens, *control))


def _any_of(tokens: Iterable[Any]) -> re.Pattern[str]:
    """A pattern of tokens as they are written, the longest first."""
    literals = {str(token) for token in tokens}
    long = [literal for literal in literals if len(literal) > 1]
    long.sort(key=len, reverse=True)
    alternatives = "|".join(map(re.escape, long))
    # Without any, a pattern that matches nothing.
    return re.compile(alternatives or r"(?!)")


def _newest(context: list[list[int]], room: int) -> list[list[int]]:
    """The newest context sentences that fit with their separators; of the last one its right end, if that fits."""
    while len(context) > 1 and _length(context) > room:
        context = context[1:]
    if context and len(context[0]) + 1 > room:
        context = [context[0][1 - room :]] if room > 1 else []
    return context


def _length(context: list[list[int]]) -> int:
    """Tokens of context sentences with their separators."""
    return sum(map(len, context)) + len(context)


def _ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Ids of texts, without special tokens around them."""
    return tokenizer(texts, add_special_tokens=False, verbose=False).input_ids if texts else []


class WholeTexts(NamedTuple):
    """The tokens of n sequences, each of one text or of two."""

    ids: Ragged
    types: Ragged | None  # of the tokens, where two texts are told apart by them
    truncation: IntArray  # [n], a `Truncation` each


def read_whole(tokenizer: Any, texts: Sequence[tuple[str, ...]], max_tokens: int) -> WholeTexts:
    """Texts, or pairs of texts, as the tokenizer joins them; where they are too long the longer loses its right end."""
    read = (
        tokenizer(*map(list, zip(*texts, strict=True)), verbose=False)
        if texts
        else {"input_ids": []}
    )
    columns = {name: list(read[name]) for name in ("input_ids", "token_type_ids") if name in read}
    truncation = np.full(len(texts), int(Truncation.NONE), np.int64)
    for row, parts in enumerate(texts):
        if len(columns["input_ids"][row]) > max_tokens:
            truncation[row] = Truncation.TEXT
            # read once more, as only the tokenizer knows how its sequences end
            cut = tokenizer(*parts, truncation="longest_first", max_length=max_tokens)
            for name, column in columns.items():
                column[row] = cut[name]
    ragged = {
        name: Ragged.of_rows([np.array(row, np.int64) for row in rows])
        for name, rows in columns.items()
    }
    return WholeTexts(ragged["input_ids"], ragged.get("token_type_ids"), truncation)
