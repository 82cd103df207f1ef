"""An answer of a server as it is kept: its text, whether it is whole, what it cost, and likely tokens in their places.

    chat         {"choices": [{"message": {"content", "refusal"}, "finish_reason", "logprobs": {"content": [
                 {"token", "top_logprobs": [{"token", "logprob"}]}]}}], "usage": {"prompt_tokens", "completion_tokens"}}
    completions  {"choices": [{"text", "finish_reason", "logprobs": {"tokens": [], "top_logprobs": [{}]}}]}
Tokens of answers longer than `MAX_TOKENS` are not kept, as only the places of short answers are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ...metrics.representations import Ragged, Reps
from ...metrics.storage.json_and_yaml import parse_small_json
from ...rerank.lists import finite

MAX_TOKENS = 8
MAX_CHARACTERS = 1 << 16  # of an answer; a longer one is cut off here
BYTES_PER_TOKEN = 4  # where nobody counts tokens
_COLUMN = "answer"


class AnswerToken(NamedTuple):
    """A token of an answer, and the likeliest in its place with their natural log-probabilities."""

    text: str
    likely: tuple[tuple[str, float], ...]


class Answer(NamedTuple):
    """What a server answered.

    Args:
        text: empty where there is none.
        is_whole: whether the model ended it, and did not refuse.
        tokens: of a short answer, where the server gives log-probabilities.
        prompt_tokens, answer_tokens: as the server counts them, else a quarter of the bytes.
    """

    text: str
    is_whole: bool
    tokens: tuple[AnswerToken, ...]
    prompt_tokens: int
    answer_tokens: int

    @classmethod
    def of_reply(cls, reply: Any, prompt: str) -> Self:
        """The answer in a reply to a prompt; an empty one where the reply has none."""
        choices = _at(reply, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = _at(choice, "message")
        text = _at(message, "content")
        if not isinstance(text, str):
            text = _at(choice, "text")
        refusal = _at(message, "refusal")
        is_refused = isinstance(refusal, str) and bool(refusal)
        shown = text if isinstance(text, str) else ""
        if is_refused and not shown:
            shown = str(refusal)
        is_cut = _at(choice, "finish_reason") in ("length", "content_filter")
        usage = _at(reply, "usage")
        return cls(
            _sendable(shown[:MAX_CHARACTERS]),
            not is_cut and not is_refused and len(shown) <= MAX_CHARACTERS,
            _tokens(_at(choice, "logprobs")),
            _count(_at(usage, "prompt_tokens"), prompt),
            _count(_at(usage, "completion_tokens"), shown),
        )

    def packed(self) -> Reps:
        """As an entry of the cache."""
        data = json.dumps(list(self), ensure_ascii=True).encode()
        return Reps({_COLUMN: Ragged.of_rows([np.frombuffer(data, np.uint8)])})

    @classmethod
    def unpacked(cls, reps: Reps) -> Self | None:
        """The inverse of `packed`; None for what is no answer."""
        column = reps.columns.get(_COLUMN)
        if not isinstance(column, Ragged):
            return None
        try:
            row = parse_small_json(column.values.tobytes(), "answer", "")
            text, is_whole, tokens, prompt_tokens, answer_tokens = row
            places = tuple(
                AnswerToken(
                    str(token), tuple((str(name), float(logprob)) for name, logprob in likely)
                )
                for token, likely in tokens
            )
            return cls(str(text), bool(is_whole), places, int(prompt_tokens), int(answer_tokens))
        except (ValueError, TypeError):
            return None


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes in UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _count(value: Any, text: str) -> int:
    """A number of tokens as a server says it, or about that of a text."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if is_count else estimated_tokens(text)


def _tokens(logprobs: Any) -> tuple[AnswerToken, ...]:
    """The tokens of an answer with what was likely in their places; none where that is not known of each."""
    content = _at(logprobs, "content")
    if isinstance(content, list):
        texts = [_at(entry, "token") for entry in content]
        likely = [_pairs(_at(entry, "top_logprobs")) for entry in content]
    else:
        texts, tops = _at(logprobs, "tokens"), _at(logprobs, "top_logprobs")
        if not isinstance(texts, list) or not isinstance(tops, list) or len(texts) != len(tops):
            return ()
        likely = [tuple(_numbers(top.items())) if isinstance(top, Mapping) else () for top in tops]
    if not 0 < len(texts) <= MAX_TOKENS or not all(isinstance(text, str) for text in texts):
        return ()
    return tuple(
        AnswerToken(_sendable(text), pairs) for text, pairs in zip(texts, likely, strict=True)
    )


def _pairs(entries: Any) -> tuple[tuple[str, float], ...]:
    """Tokens and log-probabilities of a list of objects."""
    if not isinstance(entries, list):
        return ()
    return tuple(_numbers((_at(entry, "token"), _at(entry, "logprob")) for entry in entries))


def _numbers(pairs: Any) -> Sequence[tuple[str, float]]:
    """The pairs of a text and a log-probability among some pairs."""
    kept = []
    for token, value in pairs:
        logprob = finite(value)
        if isinstance(token, str) and logprob is not None:
            kept.append((_sendable(token), min(logprob, 0.0)))
    return kept


def _at(data: Any, key: str) -> Any:
    """The value of a key; None where there is none."""
    return data.get(key) if isinstance(data, Mapping) else None


def _sendable(text: str) -> str:
    """A text that UTF-8 can hold: halves of characters are question marks."""
    return text.encode("utf-8", "replace").decode()
