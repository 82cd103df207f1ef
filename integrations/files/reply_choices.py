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
        raise InputError("a choice with half of a surrogate pair in its text", fix="Ask again")
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
    numbers = _numbers(_chosen(value_at(choice, "logprobs")), inf)
    if not numbers:
        return None
    check_logprob(sum(numbers), "logprobs")
    return min(sum(numbers), 0.0)


def _chosen(logprobs: Any) -> Any:
    """The log-probabilities of the tokens of a choice."""
    content = value_at(logprobs, "content")
    if isinstance(content, list):
        return [value_at(token, "logprob") for token in content]
    return value_at(logprobs, "token_logprobs")


def token_logprobs(choice: Any) -> TokenLogprobs | None:
    """The log-probabilities of a choice's tokens and of the likeliest tokens beside each.

    None where there are no likeliest tokens, or where something among them is no log-probability.
    """
    logprobs = value_at(choice, "logprobs")
    content = value_at(logprobs, "content")
    if isinstance(content, list):
        content = [value_at(token, "top_logprobs") for token in content]
    tops = map(_listed, content or value_at(logprobs, "top_logprobs") or ())
    numbers = _numbers(_chosen(logprobs))
    rows = [row for row in map(_numbers, tops) if row is not None]
    if not numbers or len(rows) != len(numbers) or not any(rows):
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


def _numbers(values: Any, most: float = MAX_LOGPROB) -> list[float] | None:
    """Log-probabilities; None where one is none, or above the most."""
    if not isinstance(values, list):
        return None
    numbers = [-inf if value == -inf else finite(value) for value in values]
    known = [number for number in numbers if number is not None and number <= most]
    return known if len(known) == len(numbers) else None
