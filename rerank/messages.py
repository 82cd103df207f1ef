"""The texts of replies and conversations, in the forms of servers, batch files, trainers and data sets.

    choice          {"message": MESSAGE} of a chat, or {"text"} of completions
    conversation    [MESSAGE, ...]: the last message of the model counts, tools may answer behind it
    message         {"role", "content", "refusal", "tool_calls", "reasoning_content"}
    content         "...", or parts [{"type": "text", "text"}, ...]

Reasoning, refusals and calls of tools are not texts. This is the only reader of replies: `reply_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..metrics.errors import InputError, excerpt

# of parts that are texts; others are reasoning, images, calls
_TEXT_TYPES = (None, "text", "output_text", "input_text")
_OTHER_ROLES = ("system", "developer", "user", "tool", "function")  # of messages not by the model
_FIXES = {
    "refusal": "The model refused: leave the reply out",
    "tool_calls": "It calls tools: leave the reply out",
    "reasoning_content": "Reasoning used up its tokens: raise their limit",
}


class NoTextError(InputError):
    """A reply without a text, which costs itself and not the list that it is in."""


def value_at(data: Any, key: str) -> Any:
    """The value of a key; None if it is missing."""
    return data.get(key) if isinstance(data, Mapping) else None


def is_reply(value: Any) -> bool:
    """Whether a value is a message, a choice or a conversation, and not a text in another form."""
    if isinstance(value, Mapping):
        return "text" not in value and not {"role", "content", "message"}.isdisjoint(value)
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(message, Mapping) for message in value)


def content_text(content: Any, between: str = "") -> str | None:
    """The text of a message's content, its parts joined; None where it has none."""
    if isinstance(content, str):
        return str(content)  # numpy has strings of its own
    parts = content if isinstance(content, list | tuple) else ()
    values = [value_at(part, "text") for part in parts if value_at(part, "type") in _TEXT_TYPES]
    texts = [value for value in values if isinstance(value, str)]
    return between.join(texts) if texts else None


def user_text(messages: Any, between: str = "") -> str | None:
    """The text of the last message of the user; None without one."""
    listed = messages if isinstance(messages, list | tuple) else ()
    contents = [value_at(one, "content") for one in listed if value_at(one, "role") == "user"]
    return content_text(contents[-1], between) if contents else None


def reply_text(reply: Any, where: str = "") -> str:
    """The text of a reply in any of the forms above.

    >>> reply_text([{"role": "assistant", "content": "4"}, {"role": "tool", "content": "5"}])
    '4'

    Raises:
        NoTextError: it has none.
    """
    message, content = _message(reply)
    text = content_text(content)
    if text is None:
        fix = next((fix for key, fix in _FIXES.items() if value_at(message, key)), "")
        raise NoTextError(f"found {excerpt(content)}, expected a text", where=where, fix=fix)
    return text


def text_in(reply: Any) -> str | None:
    """The text of a reply as `reply_text`; None where it has none."""
    return content_text(_message(reply)[1])


def _message(reply: Any) -> tuple[Any, Any]:
    """The message that counts in a reply, None where it has none, and its content."""
    message = reply
    if isinstance(reply, Mapping):
        message = reply["message"] if isinstance(reply.get("message"), Mapping) else reply
    elif is_reply(reply) and any("role" in one or "content" in one for one in reply):
        said = [one for one in reply if one.get("type") in (None, "message")]
        own = [one for one in said if one.get("role") not in _OTHER_ROLES]
        message = own[-1] if own else None
    if not isinstance(message, Mapping):
        return message, message
    return message, message.get("text" if {"role", "content"}.isdisjoint(message) else "content")
