"""A decided answer as a stream of events: what is chosen comes in one piece when it is chosen.

data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {...}, "finish_reason": null}]}
data: {... "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "discorank": {...}}
data: {... "choices": [], "usage": {...}}                    (if stream_options asks for it)
data: [DONE]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .api_errors import ApiError
from .chosen_replies import ChosenReply
from .own_fields import FIELD
from .questions import Question


def events(answer: ChosenReply, question: Question) -> Iterator[bytes]:
    """The events of an answer."""
    body = dict(answer.body)
    choices, usage = body.pop("choices"), body.pop("usage", None)
    about = {FIELD: body.pop(FIELD)} if FIELD in body else {}
    if question.chat:
        body["object"] = "chat.completion.chunk"
    head = {**body, "usage": None} if question.with_usage else body
    for choice in choices:
        yield event({**head, "choices": [_opening(choice, question.chat)]})
    for choice in choices:
        ending = {**head, "choices": [_ending(choice, question.chat)]}
        is_last = choice is choices[-1]
        yield event({**ending, **about} if is_last else ending)
    if question.with_usage:
        yield event({**body, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def event(value: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + as_json(value) + b"\n\n"


def as_json(value: Mapping[str, Any]) -> bytes:
    """What is sent as JSON; raises ApiError for numbers from upstream that JSON cannot write."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        problem = "upstream: a reply with a number that JSON cannot write"
        raise ApiError(502, problem, code="failed_upstream") from None


def _opening(choice: Mapping[str, Any], chat: bool) -> dict[str, Any]:
    """A choice with its text, not finished yet."""
    opened = {**choice, "finish_reason": None}
    if chat:
        opened["delta"] = opened.pop("message")
    return opened


def _ending(choice: Mapping[str, Any], chat: bool) -> dict[str, Any]:
    """The end of a choice."""
    ending = {"index": choice["index"], "finish_reason": choice.get("finish_reason")}
    return {**ending, "delta": {}} if chat else {**ending, "text": "", "logprobs": None}
