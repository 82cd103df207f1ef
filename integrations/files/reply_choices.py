"""What goes to a server that speaks OpenAI's protocol, and a choice in its reply: text and total log-probability.

    completions  {"text", "finish_reason", "logprobs": {"token_logprobs": [...]}}
    chat         {"message": {"content"}, "finish_reason", "logprobs": {"content": [{"logprob"}]}}
Servers mix the two forms of log-probabilities; both are read from both.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...rerank.lists import check_logprob, finite


def sendable(text: str) -> str:
    """A text that UTF-8 can hold: halves of characters are question marks."""
    return text.encode("utf-8", "replace").decode()


def value_at(data: Any, key: str) -> Any:
    """The value of a key; None where there is none."""
    return data.get(key) if isinstance(data, dict) else None


def text_of(choice: Any, chat: bool) -> Any:
    """The text of a choice; something else where it has none."""
    return value_at(value_at(choice, "message"), "content") if chat else value_at(choice, "text")


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
