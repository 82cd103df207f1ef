"""Two texts as one sequence of tokens.

FIRST a SEP b LAST     as the tokenizer joins two texts
FIRST a EOS b LAST     one text with the end-of-sequence token between
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ...representations import IntArray, Ragged
from ...text.texts import Truncation


class ReadPairs(NamedTuple):
    """The tokens of n pairs of texts."""

    ids: Ragged
    types: Ragged | None  # of the tokens, where the texts are told apart by them
    truncation: IntArray  # [n], a `Truncation` each


def read_pairs(tokenizer: Any, pairs: Sequence[tuple[str, str]], max_tokens: int) -> ReadPairs:
    """Pairs of texts as the tokenizer joins them; of those that are too long the longer text loses its right end."""
    if not pairs:
        return _nothing_read()
    first, second = map(list, zip(*pairs, strict=True))
    read = tokenizer(first, second, verbose=False)
    rows = list(read.input_ids)
    types = list(read["token_type_ids"]) if "token_type_ids" in read else None
    truncation = np.full(len(rows), int(Truncation.NONE), np.int64)
    for row, ids in enumerate(rows):
        if len(ids) > max_tokens:
            truncation[row] = Truncation.TEXT
            cut = tokenizer(
                [first[row]], [second[row]], truncation="longest_first", max_length=max_tokens
            )
            rows[row] = cut.input_ids[0]
            if types is not None:
                types[row] = cut["token_type_ids"][0]
    return ReadPairs(_ragged(rows), None if types is None else _ragged(types), truncation)


def read_joined(tokenizer: Any, pairs: Sequence[tuple[str, str]], max_tokens: int) -> ReadPairs:
    """Pairs of texts as one text with the end-of-sequence token between; too long ones are cut as `read_pairs` does.

    Raises:
        InputError: the tokenizer has no such token.
    """
    if tokenizer.eos_token is None:
        raise InputError("the tokenizer has no end-of-sequence token to join two texts by")
    if not pairs:
        return _nothing_read()
    texts = [tokenizer.eos_token.join(pair) for pair in pairs]
    rows = list(tokenizer(texts, verbose=False).input_ids)
    truncation = np.full(len(rows), int(Truncation.NONE), np.int64)
    for row, ids in enumerate(rows):
        if len(ids) > max_tokens:
            truncation[row] = Truncation.TEXT
            rows[row] = _cut_joined(ids, tokenizer.eos_token_id, max_tokens)
    return ReadPairs(_ragged(rows), None, truncation)


def _nothing_read() -> ReadPairs:
    empty = Ragged.of_lengths(np.empty(0, np.int64), np.empty(0, np.int64))
    return ReadPairs(empty, None, np.empty(0, np.int64))


def _cut_joined(ids: list[int], eos: int, max_tokens: int) -> list[int]:
    """Two texts with a token between them and one at the end, cut: the longer loses its right end."""
    middle = ids.index(eos)
    kept = max_tokens - 2  # of the first, with what begins it, and the second
    shorter = min(middle, len(ids) - middle - 2, kept // 2)
    first = shorter if middle <= len(ids) - middle - 2 else kept - shorter
    return [*ids[:first], eos, *ids[middle + 1 :][: kept - first], ids[-1]]


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    return Ragged.of_rows([np.array(row, np.int64) for row in rows])
