"""The candidates in the reply of a server.

Candidates that were cut off by the limit of tokens have the field `unfinished`. Where a server did not end at a stop
string, the text is cut before it here; the log-probability of what was cut is not known then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...metrics.errors import InputError
from ...rerank.lists import NOTHING, Candidate
from ..files.reply_choices import is_unfinished, text_of, total_logprob, value_at
from ..generation.stop_strings import before_stop

MAX_TOKENS = 1 << 40  # more is no count


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
    count = value_at(value_at(reply, "usage"), "completion_tokens")
    return count if type(count) is int and 0 <= count < MAX_TOKENS else 0


def _candidate(choice: Any, chat: bool, stops: Sequence[str]) -> Candidate | InputError:
    """The candidate of a choice, or the error of one without a text."""
    text = text_of(choice, chat)
    if not isinstance(text, str):
        key = "content" if chat else "text"
        return InputError(f"a choice without a text in {key}", where="server")
    before = before_stop(text, stops)
    if before is not None:
        return Candidate(before)
    fields = {"unfinished": True} if is_unfinished(choice) else NOTHING
    return Candidate(text, total_logprob(choice), fields)
