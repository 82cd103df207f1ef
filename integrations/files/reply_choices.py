"""What goes to a server that speaks OpenAI's protocol, and a choice in its reply: text and total log-probability.

    completions  {"text", "finish_reason", "logprobs": {"token_logprobs": [...]}}
    chat         {"message": {"content"}, "finish_reason", "logprobs": {"content": [{"logprob"}]}}
Servers mix the two forms of log-probabilities; both are read from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from ...metrics.errors import InputError, excerpt
from ...rerank.lists import MAX_LOGPROB, NOTHING, Candidate, check_logprob, finite
from ...rerank.messages import reply_text, value_at
from ...rerank.votes.confidence import TokenLogprobs

MAX_TOP = 20  # of the likeliest tokens are kept


def sendable(text: str) -> str:
    """A text that UTF-8 can hold: halves of characters are question marks."""
    return text.encode("utf-8", "replace").decode()


def candidate_of(choice: Any) -> Candidate:
    """The candidate of a choice, or of the messages of a reply.

    Raises:
        InputError: it has no text, half of a character in it, or a log-probability above 0.
    """
    if not isinstance(choice, Mapping | list):
        raise InputError(f"found {excerpt(choice)}, expected a choice with a text")
    text = reply_text(choice)
    if text != sendable(text):
        raise InputError("found half of a surrogate pair in the text", fix="Ask for it again")
    fields = {"unfinished": True} if is_unfinished(choice) else NOTHING
    return Candidate(text, total_logprob(choice), fields)


def is_unfinished(choice: Any) -> bool:
    """Whether a choice was cut off by the limit of tokens."""
    return bool(value_at(choice, "finish_reason") == "length")


def total_logprob(choice: Any) -> float | None:
    """The sum of the tokens' log-probabilities; None where one is missing, or is none.

    Raises:
        InputError: it is above 0, by more than rounding.
    """
    logprobs = value_at(choice, "logprobs")
    values = value_at(logprobs, "token_logprobs")
    content = value_at(logprobs, "content")
    if values is None and isinstance(content, list):
        values = [value_at(token, "logprob") for token in content]
    if not isinstance(values, list) or not values:
        return None
    total = 0.0
    for value in values:
        number = -inf if value == -inf else finite(value)
        if number is None:
            return None
        total += number
    check_logprob(total, "logprobs")
    return min(total, 0.0)


def token_logprobs(choice: Any) -> TokenLogprobs | None:
    """The log-probabilities of a choice's tokens and of the likeliest tokens beside each.

    None where there are no likeliest tokens, or where something among them is no log-probability.
    """
    logprobs = value_at(choice, "logprobs")
    content = value_at(logprobs, "content")
    if isinstance(content, list):
        chosen = [value_at(token, "logprob") for token in content]
        tops = [_listed(value_at(token, "top_logprobs")) for token in content]
    else:
        chosen = value_at(logprobs, "token_logprobs")
        tops = [_listed(top) for top in value_at(logprobs, "top_logprobs") or ()]
    numbers = _numbers(chosen)
    rows = [row for row in map(_numbers, tops) if row is not None]
    if not numbers or len(rows) < len(tops) or len(rows) != len(numbers) or not any(rows):
        return None
    top = np.full((len(rows), max(map(len, rows))), -inf, np.float32)
    for values, row in zip(top, rows, strict=True):
        values[: len(row)] = sorted(row, reverse=True)
    return TokenLogprobs(np.array(numbers, np.float32), top[:, :MAX_TOP])


def _listed(top: Any) -> Any:
    """The log-probabilities of the likeliest tokens at a place: from a list of tokens, or by token."""
    if isinstance(top, dict):
        return list(top.values())
    if isinstance(top, list):
        return [value_at(token, "logprob") for token in top]
    return None


def _numbers(values: Any) -> list[float] | None:
    """Log-probabilities; None where one is none."""
    if not isinstance(values, list):
        return None
    numbers = [-inf if value == -inf else finite(value) for value in values]
    known = [number for number in numbers if number is not None and number <= MAX_LOGPROB]
    return known if len(known) == len(numbers) else None
