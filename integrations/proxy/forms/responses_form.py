"""The form of OpenAI's Responses: a request becomes a chat to choose in, and what is chosen becomes its answer.

    input, instructions                  messages        (calls of functions and their outputs too)
    tools, tool_choice, text.format      tools, tool_choice, response_format
    max_output_tokens, reasoning.effort  max_tokens, reasoning_effort

The server upstream speaks chat completions. What is not translated (pictures, tools that are no functions, what a
server keeps) is never left out: such a request passes through. Answers are not kept here, which their `store` says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ...files.reply_choices import value_at
from ..api_errors import bad, shown
from ..questions import (
    FIELD,
    Allowed,
    NoChatError,
    PassThrough,
    Question,
    Reason,
    read_translated,
)
from ..replies import as_json
from ..settings import DrawingSettings

PATH = "responses"
ID_PREFIX = "resp_chosen_"  # of answers that were made here, and that no server has kept
LOGPROBS = "message.output_text.logprobs"

# keys that mean the same in a chat, those that have another place there, and those that the answer alone repeats
_SAME_KEYS = (
    "model",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "stream",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    FIELD,
)
_MOVED_KEYS = (
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "max_output_tokens",
    "include",
    "top_logprobs",
)
_ANSWERED_KEYS = ("metadata", "store", "background", "truncation", "stream_options")
_KNOWN_KEYS = frozenset((*_SAME_KEYS, *_MOVED_KEYS, *_ANSWERED_KEYS))
# keys that ask for what the server upstream may have kept
_KEPT_KEYS: tuple[Reason, ...] = ("previous_response_id", "conversation", "prompt")
_TEXT_PARTS = ("input_text", "output_text", "text")


def read_response(
    content: bytes, allowed: Allowed, drawing: DrawingSettings
) -> Question | PassThrough:
    """A request to /responses.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    return read_translated(content, PATH, chat_of, ResponseForm, allowed, drawing)


def _check(asked: Mapping[str, Any]) -> None:
    """Raises ApiError for what neither this server nor another one behind it can do."""
    if asked.get("background") not in (None, False):
        problem = f"found {shown(asked['background'])}: answers are not kept, so none can be fetched later"
        raise bad(problem, "background", "Leave it out and wait for the answer", "unsupported")
    previous = asked.get("previous_response_id")
    if isinstance(previous, str) and previous.startswith(ID_PREFIX):
        problem = f"found {shown(previous)}, an answer that was chosen, and that is not kept"
        fix = "Send what was said until now as input"
        raise bad(problem, "previous_response_id", fix, "previous_response_not_found")


def chat_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The chat that a request means.

    Raises:
        ApiError: it cannot be read.
        NoChatError: it asks for something that is not translated.
    """
    _check(asked)
    for key in _KEPT_KEYS:
        if asked.get(key) is not None:
            raise NoChatError(key)
    if asked.get("store") is True:
        raise NoChatError("store")
    if asked.get("truncation") not in (None, "disabled"):
        raise NoChatError("truncation")
    if any(value is not None and key not in _KNOWN_KEYS for key, value in asked.items()):
        raise NoChatError("fields")
    chat = {key: asked[key] for key in _SAME_KEYS if key in asked}
    chat["messages"] = messages_of(asked.get("input"), asked.get("instructions"))
    if asked.get("max_output_tokens") is not None:
        chat["max_tokens"] = asked["max_output_tokens"]
    return chat | _tools(asked) | _text(asked) | _reasoning(asked) | _logprobs(asked)


def messages_of(given: Any, instructions: Any = None) -> list[dict[str, Any]]:
    """The messages of a chat from the input of a request.

    >>> messages_of("Hello", "Be short.")
    [{'role': 'system', 'content': 'Be short.'}, {'role': 'user', 'content': 'Hello'}]

    Raises:
        ApiError: it is neither a text nor a list.
        NoChatError: it has items that are no messages of texts.
    """
    messages: list[dict[str, Any]] = []
    if instructions is not None:
        if not isinstance(instructions, str):
            raise bad(f"found {shown(instructions)}, expected a text", "instructions")
        messages.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    if not isinstance(given, list):
        raise bad(f"found {shown(given)}, expected a text or a list of items", "input")
    for item in given:
        kind = value_at(item, "type") or "message"
        add = _ITEMS.get(kind) if isinstance(kind, str) else None
        if add is None or not isinstance(item, dict):
            raise NoChatError("items")
        add(messages, item)
    return messages


def _add_message(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Adds what somebody said; what an assistant says after it thought belongs to that thought."""
    role, content = item.get("role"), _content(item.get("content"))
    if role not in ("user", "assistant", "system", "developer"):
        raise NoChatError("items")
    last = messages[-1] if messages else {}
    if role == "assistant" and "reasoning_content" in last and last["content"] is None:
        last["content"] = content
    else:
        messages.append({"role": role, "content": content})


def _content(content: Any) -> str | list[dict[str, Any]]:
    """The content of a message: a text, or several, as parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise NoChatError("items")
    for part in content:
        kind = value_at(part, "type")
        if kind not in _TEXT_PARTS or not isinstance(value_at(part, "text"), str):
            raise NoChatError("images" if kind == "input_image" else "parts")
    if len(content) == 1:
        return str(content[0]["text"])
    return [{"type": "text", "text": part["text"]} for part in content]


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Adds a call of a function to what the assistant said just before."""
    function = {key: item.get(key) for key in ("name", "arguments")}
    if not all(isinstance(value, str) for value in (*function.values(), item.get("call_id"))):
        raise NoChatError("items")
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    call = {"id": item["call_id"], "type": "function", "function": function}
    messages[-1].setdefault("tool_calls", []).append(call)


def _add_output(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Adds what a function gave."""
    if not isinstance(item.get("call_id"), str):
        raise NoChatError("items")
    content = _content(item.get("output"))
    messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})


def _add_reasoning(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Adds what the assistant thought, where its words are there."""
    content = item.get("content")
    if item.get("encrypted_content") or item.get("summary") or not isinstance(content, list):
        raise NoChatError("reasoning")
    texts = [value_at(part, "text") for part in content]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise NoChatError("reasoning")
    thought = {"role": "assistant", "content": None, "reasoning_content": "\n".join(texts)}
    messages.append(thought)


_ITEMS: Mapping[str, Callable[[list[dict[str, Any]], Mapping[str, Any]], None]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    "reasoning": _add_reasoning,
}


def _tools(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The tools of a request, and which of them are to be called."""
    chat: dict[str, Any] = {}
    tools, choice = asked.get("tools"), asked.get("tool_choice")
    if tools:
        if not isinstance(tools, list) or any(value_at(t, "type") != "function" for t in tools):
            raise NoChatError("tools")
        chat["tools"] = list(map(_tool, tools))
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise NoChatError("tools")
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    if choice is not None and (tools or choice not in ("auto", "none")):
        chat["tool_choice"] = choice
    return chat


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function as a tool of a chat."""
    inner = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": inner}


def _text(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The form of the text."""
    text = asked.get("text")
    if text is None:
        return {}
    if not isinstance(text, dict) or not {*text} <= {"format", "verbosity"}:
        raise NoChatError("text")
    wanted = text.get("format")
    kind = "text" if wanted is None else value_at(wanted, "type")
    if kind not in ("text", "json_object", "json_schema"):
        raise NoChatError("text")
    chat = {} if text.get("verbosity") is None else {"verbosity": text["verbosity"]}
    if kind == "json_object":
        chat["response_format"] = {"type": kind}
    if kind == "json_schema" and wanted is not None:
        schema = {key: value for key, value in wanted.items() if key != "type"}
        chat["response_format"] = {"type": kind, "json_schema": schema}
    return chat


def _reasoning(asked: Mapping[str, Any]) -> dict[str, Any]:
    """How much is to be thought; a summary of it cannot be had."""
    given = asked.get("reasoning")
    if given is None:
        return {}
    known = (
        {key: value for key, value in given.items() if value is not None}
        if isinstance(given, dict)
        else None
    )
    if known is None or not {*known} <= {"effort"}:
        raise NoChatError("reasoning")
    return {"reasoning_effort": known["effort"]} if known else {}


def _logprobs(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the answer is to have log-probabilities."""
    include = asked.get("include")
    if include in (None, []):
        return {}
    if include != [LOGPROBS]:
        raise NoChatError("include")
    top = asked.get("top_logprobs")
    return {"logprobs": True} | ({} if top is None else {"top_logprobs": top})


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of the answer to a request.

    Args:
        asked: the request, of which the answer repeats how it was asked.
    """

    asked: Mapping[str, Any]

    def body(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """The answer in one piece, from the reply to the chat."""
        return response_of(reply, self.asked, uuid4().hex)

    def events(self, reply: Mapping[str, Any]) -> Iterator[bytes]:
        """The answer as a stream of events."""
        for value in events_of(self.body(reply)):
            yield f"event: {value['type']}\ndata: ".encode() + as_json(value) + b"\n\n"


# what an answer repeats of its request, and what it is where the request has none
_REPEATED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
_CUT_OFF = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response_of(reply: Mapping[str, Any], asked: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """The answer to a request.

    Args:
        reply: to the chat; its first choice answers.
        asked: the request.
        mark: what tells this answer and its items from all others.
    """
    choice = reply["choices"][0]
    cut_off = _CUT_OFF.get(str(choice.get("finish_reason")))
    status = "completed" if cut_off is None else "incomplete"
    created, model = reply.get("created"), reply.get("model")
    repeated = {
        key: default if asked.get(key) is None else asked[key] for key, default in _REPEATED.items()
    }
    return {
        "id": f"{ID_PREFIX}{mark}",
        "object": "response",
        "created_at": created if isinstance(created, int | float) else 0,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None if cut_off is None else {"reason": cut_off},
        "model": model if isinstance(model, str) else str(asked.get("model", "")),
        "output": list(_output(choice, status, mark)),
        "previous_response_id": None,
        "store": False,
        "usage": _usage(reply.get("usage")),
        **repeated,
        **({FIELD: reply[FIELD]} if FIELD in reply else {}),
    }


def _output(choice: Mapping[str, Any], status: str, mark: str) -> Iterator[dict[str, Any]]:
    """The items of a choice: what it thought, what it says, what it calls."""
    message = choice.get("message")
    thought = value_at(message, "reasoning_content") or value_at(message, "reasoning")
    if isinstance(thought, str) and thought:
        part = {"type": "reasoning_text", "text": thought}
        yield {
            "id": f"rs_{mark}",
            "type": "reasoning",
            "summary": [],
            "content": [part],
            "status": "completed",
        }
    calls = value_at(message, "tool_calls")
    calls = calls if isinstance(calls, list) else []
    parts = list(_parts(message, choice.get("logprobs"), bool(calls)))
    if parts:
        yield {
            "id": f"msg_{mark}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": parts,
        }
    for number, call in enumerate(calls):
        function, name = value_at(call, "function"), f"{mark}_{number}"
        arguments = value_at(function, "arguments")
        yield {
            "id": f"fc_{name}",
            "type": "function_call",
            "status": status,
            "call_id": value_at(call, "id") or f"call_{name}",
            "name": str(value_at(function, "name")),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
        }


def _parts(message: Any, logprobs: Any, calls: bool) -> Iterator[dict[str, Any]]:
    """What a message says, or that it refuses; one that calls need not say anything."""
    text, refusal = value_at(message, "content"), value_at(message, "refusal")
    if isinstance(refusal, str) and refusal:
        yield {"type": "refusal", "refusal": refusal}
    elif text or not calls:
        tokens = value_at(logprobs, "content")
        listed = list(map(_token, tokens)) if isinstance(tokens, list) else []
        said = text if isinstance(text, str) else ""
        yield {"type": "output_text", "text": said, "annotations": [], "logprobs": listed}


def _token(token: Any) -> dict[str, Any]:
    """The log-probability of a token, with those of others where they were asked for."""
    top = value_at(token, "top_logprobs")
    return {
        **_one_token(token),
        "top_logprobs": list(map(_one_token, top)) if isinstance(top, list) else [],
    }


def _one_token(token: Any) -> dict[str, Any]:
    spelled = str(value_at(token, "token"))
    listed = value_at(token, "bytes")
    in_bytes = listed if isinstance(listed, list) else list(spelled.encode("utf-8", "replace"))
    return {"token": spelled, "bytes": in_bytes, "logprob": value_at(token, "logprob")}


def _usage(usage: Any) -> dict[str, Any] | None:
    """The usage of all requests upstream, under other names; None where none says."""
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + completion,
    }


def _count(usage: Any, key: str) -> int:
    """A number of tokens; 0 where there is none."""
    value = value_at(usage, key)
    return value if type(value) is int and value >= 0 else 0


def events_of(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of an answer, numbered: every text and every call comes in one piece."""
    for number, value in enumerate(_events(response)):
        yield {**value, "sequence_number": number}


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of an answer."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    begun.pop(FIELD, None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        is_call = item["type"] == "function_call"
        empty: dict[str, Any] = {"arguments": ""} if is_call else {"content": []}
        opened = {**item, "status": "in_progress", **empty}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield from _item_events(item, {"item_id": item["id"], "output_index": index})
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _item_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of an item between its beginning and its end."""
    if item["type"] == "function_call":
        kind, arguments = "response.function_call_arguments", item["arguments"]
        yield {"type": f"{kind}.delta", **place, "delta": arguments}
        yield {"type": f"{kind}.done", **place, "name": item["name"], "arguments": arguments}
        return
    for index, part in enumerate(item["content"]):
        yield from _part_events(part, {**place, "content_index": index})


def _part_events(part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a part of a message."""
    kind = part["type"]
    key = "refusal" if kind == "refusal" else "text"
    logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
    opened: dict[str, Any] = {**part, key: ""}
    opened |= {name: [] for name in logprobs}
    yield {"type": "response.content_part.added", **place, "part": opened}
    yield {"type": f"response.{kind}.delta", **place, "delta": part[key], **logprobs}
    yield {"type": f"response.{kind}.done", **place, key: part[key], **logprobs}
    yield {"type": "response.content_part.done", **place, "part": part}
