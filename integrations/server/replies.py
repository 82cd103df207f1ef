"""The candidates in the reply of a server.

    completions  {"choices": [{"text", "finish_reason", "logprobs": {"token_logprobs": [...]}}]}
    chat         {"choices": [{"message": {"content"}, "finish_reason", "logprobs": {"content": [{"logprob"}]}}]}
Servers mix the two forms of log-probabilities; both are read from both. Candidates that were cut off by the limit of
tokens have the field `unfinished`. Where a server did not end at a stop string, the text is cut before it here; the
log-probability of what was cut is not known then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from ...metrics.errors import InputError
from ...rerank.lists import NOTHING, Candidate, finite
from ..generation.stop_strings import before_stop

MAX_TOKENS = 1 << 40  # more is no count
ROUNDING = 1e-3  # a total this little above 0 is a sum of rounded numbers


def candidates_in(
    reply: Any,
    chat: bool,
    stops: Sequence[str] = (),
) -> list[Candidate | InputError]:
    """The candidate of every choice, or the error of a choice without a text, or of a reply without choices."""
    choices = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(choices, list) or not choices:
        return [InputError("a reply without choices", where="server")]
    return [_candidate(choice, chat, stops) for choice in choices]


def tokens_in(reply: Any) -> int:
    """How many tokens a server says that it generated; 0 where it does not say."""
    count = _value_at(_value_at(reply, "usage"), "completion_tokens")
    return count if type(count) is int and 0 <= count < MAX_TOKENS else 0


def _candidate(choice: Any, chat: bool, stops: Sequence[str]) -> Candidate | InputError:
    """The candidate of a choice, or the error of one without a text."""
    key = "content" if chat else "text"
    text = _value_at(_value_at(choice, "message") if chat else choice, key)
    if not isinstance(text, str):
        return InputError(f"a choice without a text in {key}", where="server")
    before = before_stop(text, stops)
    if before is not None:
        return Candidate(before)
    logprob = _total_logprob(_value_at(choice, "logprobs"))
    is_cut = choice.get("finish_reason") == "length"
    return Candidate(text, logprob, {"unfinished": True} if is_cut else NOTHING)


def _value_at(data: Any, key: str) -> Any:
    """The value of a key; None where there is none."""
    return data.get(key) if isinstance(data, dict) else None


def _total_logprob(logprobs: Any) -> float | None:
    """The sum of the tokens' log-probabilities; None where one is missing, or is none."""
    values = _value_at(logprobs, "token_logprobs")
    content = _value_at(logprobs, "content")
    if values is None and isinstance(content, list):
        values = [_value_at(token, "logprob") for token in content]
    if not isinstance(values, list) or not values:
        return None
    total = 0.0
    for value in values:
        number = -inf if value == -inf else finite(value)
        if number is None:
            return None
        total += number
    return None if total > ROUNDING else min(total, 0.0)
