"""Whether a request is for plain texts, of which one can be chosen, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# keys that, unless empty, ask for something else than plain texts, and the reason that is given
_KEYS = {
    "tools": "tools",
    "functions": "tools",
    "audio": "audio",
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
    "prompt_logprobs": "logprobs",
    "best_of": "best_of",
    "use_beam_search": "beam-search",
    "echo": "echo",
}


def other_than_text(body: Mapping[str, Any], chat: bool) -> str | None:
    """Why a request is not for plain texts; None if it is."""
    for key, reason in _KEYS.items():
        if body.get(key) not in (None, False, [], {}):
            return reason
    if not chat:
        return None if isinstance(body.get("prompt"), str) else "prompts"
    if body.get("modalities") not in (None, ["text"]):
        return "modalities"
    messages = body.get("messages")
    if not isinstance(messages, list):
        return "messages"
    reasons = map(_other_part, messages)
    return next((reason for reason in reasons if reason is not None), None)


def _other_part(message: Any) -> str | None:
    """What a message holds beside text; None if there is nothing."""
    content = message.get("content") if isinstance(message, Mapping) else None
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            return "images" if kind == "image_url" else "parts"
    return None


def source_of(body: Mapping[str, Any], chat: bool) -> str | None:
    """What the texts are made of: the prompt, or what the user said last; None where there is none."""
    if not chat:
        prompt = body.get("prompt")
        return prompt if isinstance(prompt, str) else None
    messages = body.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, Mapping) and message.get("role") == "user":
            return _text_of(message.get("content"))
    return None


def _text_of(content: Any) -> str | None:
    """The text of a message, whose parts stand in lines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
