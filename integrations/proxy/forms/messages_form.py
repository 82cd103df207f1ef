"""The form of Anthropic's Messages: a request becomes a chat to choose in, and what is chosen becomes its answer.

    system, messages                     messages        (uses of tools and their results too)
    tools, tool_choice                   tools, tool_choice, parallel_tool_calls
    stop_sequences, output_config        stop, response_format, reasoning_effort

The server upstream speaks chat completions. What is not translated (pictures, documents, tools of the server, thinking)
is never left out: such a request passes through. Marks of what to cache change no answer, and stay here. A request that
passed has not asked to see what the model thinks, so its answer does not have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ...files.reply_choices import value_at
from ..api_errors import ApiError, bad, shown
from ..json_forms import value_of
from ..questions import FIELD, Allowed, NoChatError, PassThrough, Question, read_translated
from ..replies import as_json
from ..settings import DrawingSettings

PATH = "messages"

_SAME_KEYS = ("model", "max_tokens", "temperature", "top_p", "top_k", "stream", FIELD)
_MOVED_KEYS = (
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stop_sequences",
    "metadata",
    "output_config",
    "thinking",
    "service_tier",
    "cache_control",
)
_KNOWN_KEYS = frozenset((*_SAME_KEYS, *_MOVED_KEYS))
_TOOL_KEYS = {"type", "name", "description", "input_schema", "strict", "cache_control"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_message(
    content: bytes, allowed: Allowed, drawing: DrawingSettings
) -> Question | PassThrough:
    """A request to /messages.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    return read_translated(content, PATH, chat_of, MessageForm, allowed, drawing)


def chat_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The chat that a request means.

    Raises:
        ApiError: it cannot be read.
        NoChatError: it asks for something that is not translated.
    """
    if any(value is not None and key not in _KNOWN_KEYS for key, value in asked.items()):
        raise NoChatError("fields")
    if value_at(asked.get("thinking"), "type") not in (None, "disabled"):
        raise NoChatError("thinking")
    if asked.get("service_tier") not in (None, "auto"):
        raise NoChatError("fields")
    chat = {key: asked[key] for key in _SAME_KEYS if key in asked}
    chat["messages"] = messages_of(asked.get("messages"), asked.get("system"))
    if asked.get("stop_sequences"):
        chat["stop"] = asked["stop_sequences"]
    return chat | _user(asked) | _tools(asked) | _output_config(asked)


def messages_of(given: Any, system: Any = None) -> list[dict[str, Any]]:
    """The messages of a chat.

    >>> messages_of([{"role": "user", "content": "Hello"}], "Be short.")
    [{'role': 'system', 'content': 'Be short.'}, {'role': 'user', 'content': 'Hello'}]

    Raises:
        ApiError: they are no list.
        NoChatError: they have other blocks than texts, uses of tools and their results.
    """
    messages: list[dict[str, Any]] = []
    if system not in (None, "", []):
        messages.append({"role": "system", "content": _content(system)})
    if not isinstance(given, list):
        raise bad(f"found {shown(given)}, expected a list of messages", "messages")
    for message in given:
        role, content = value_at(message, "role"), value_at(message, "content")
        if role == "user":
            messages += _of_user(content)
        elif role == "assistant":
            messages.append(_of_assistant(content))
        elif role == "system":
            messages.append({"role": "system", "content": _content(content)})
        else:
            raise bad(f"found {shown(role)}, expected user or assistant", "messages.role")
    return messages


def _content(content: Any) -> str | list[dict[str, Any]]:
    """The content of a message of texts: one, or several, as parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad(f"found {shown(content)}, expected a text or a list of blocks", "content")
    for block in content:
        kind = value_at(block, "type")
        if kind != "text" or not isinstance(value_at(block, "text"), str):
            raise NoChatError("images" if kind == "image" else "parts")
    if len(content) == 1:
        return str(content[0]["text"])
    return [{"type": "text", "text": block["text"]} for block in content]


def _of_user(content: Any) -> Iterator[dict[str, Any]]:
    """What a user says, and what tools gave, in their order."""
    if not isinstance(content, list):
        yield {"role": "user", "content": _content(content)}
        return
    said: list[Any] = []
    for block in content:
        if value_at(block, "type") != "tool_result":
            said.append(block)
            continue
        if said:
            yield {"role": "user", "content": _content(said)}
            said = []
        yield _result(block)
    if said:
        yield {"role": "user", "content": _content(said)}


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool gave; one that failed says so in words, as a chat has no place for it."""
    named, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(named, str):
        raise bad(f"found {shown(named)}, expected a text", "tool_use_id")
    said = "" if content in (None, []) else _content(content)
    if block.get("is_error") is True:
        mark = "Error: "
        said = mark + said if isinstance(said, str) else [{"type": "text", "text": mark}, *said]
    return {"role": "tool", "tool_call_id": named, "content": said}


def _of_assistant(content: Any) -> dict[str, Any]:
    """What an assistant says and calls."""
    if not isinstance(content, list):
        return {"role": "assistant", "content": _content(content)}
    if any(value_at(block, "type") in ("thinking", "redacted_thinking") for block in content):
        raise NoChatError("thinking")
    calls = [block for block in content if value_at(block, "type") == "tool_use"]
    said = [block for block in content if value_at(block, "type") != "tool_use"]
    message = {"role": "assistant", "content": _content(said) if said or not calls else None}
    if calls:
        message["tool_calls"] = list(map(_call, calls))
    return message


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    """The use of a tool as a call."""
    named, name, arguments = (block.get(key) for key in ("id", "name", "input"))
    if not isinstance(named, str) or not isinstance(name, str) or not isinstance(arguments, dict):
        raise bad(f"found {shown(block)}, expected id, name and input", "tool_use")
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": named, "type": "function", "function": function}


def _user(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Who asks."""
    user = value_at(asked.get("metadata"), "user_id")
    return {} if user is None else {"user": user}


def _tools(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The tools of a request, and which of them are to be used."""
    chat: dict[str, Any] = {}
    tools, choice = asked.get("tools"), asked.get("tool_choice")
    if tools:
        if not isinstance(tools, list):
            raise bad(f"found {shown(tools)}, expected a list", "tools")
        chat["tools"] = list(map(_tool, tools))
    if choice is None:
        return chat
    kind = value_at(choice, "type")
    if kind == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif isinstance(kind, str) and kind in _CHOICES:
        chat["tool_choice"] = _CHOICES[kind]
    else:
        raise bad(f"found {shown(choice)}, expected auto, any, tool or none", "tool_choice")
    if choice.get("disable_parallel_tool_use") is True:
        chat["parallel_tool_calls"] = False
    return chat


def _tool(tool: Any) -> dict[str, Any]:
    """A tool of the client as a function."""
    if value_at(tool, "type") not in (None, "custom") or not isinstance(tool, dict):
        raise NoChatError("tools")
    if any(value and key not in _TOOL_KEYS for key, value in tool.items()):
        raise NoChatError("tools")
    function = {key: tool[key] for key in ("name", "description", "strict") if key in tool}
    if "input_schema" in tool:
        function["parameters"] = tool["input_schema"]
    return {"type": "function", "function": function}


def _output_config(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The form of the text, and how much is to be thought."""
    config = asked.get("output_config")
    if config is None:
        return {}
    wanted, effort = value_at(config, "format"), value_at(config, "effort")
    if not isinstance(config, dict) or not {*config} <= {"format", "effort"}:
        raise NoChatError("fields")
    chat: dict[str, Any] = {} if effort is None else {"reasoning_effort": effort}
    if wanted is not None:
        if value_at(wanted, "type") != "json_schema":
            raise NoChatError("fields")
        schema = {"name": "answer", "strict": True, "schema": wanted.get("schema")}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The form of the answer to a request.

    Args:
        asked: the request.
    """

    asked: Mapping[str, Any]

    def body(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """The answer in one piece, from the reply to the chat."""
        return message_of(reply, str(self.asked.get("model", "")), uuid4().hex)

    def events(self, reply: Mapping[str, Any]) -> Iterator[bytes]:
        """The answer as a stream of events."""
        for value in events_of(self.body(reply)):
            yield f"event: {value['type']}\ndata: ".encode() + as_json(value) + b"\n\n"


_STOPS = {"length": "max_tokens", "content_filter": "refusal"}


def message_of(reply: Mapping[str, Any], model: str, mark: str) -> dict[str, Any]:
    """The answer to a request.

    Args:
        reply: to the chat; its first choice answers.
        model: of the request, where the reply does not name it.
        mark: what tells this answer from all others.

    Raises:
        ApiError: it calls a tool with arguments that are no JSON object.
    """
    choice = reply["choices"][0]
    blocks = list(_blocks(choice.get("message"), mark))
    reason, sequence = _stop(choice, any(block["type"] == "tool_use" for block in blocks))
    named = reply.get("model")
    return {
        "id": f"msg_{mark}",
        "type": "message",
        "role": "assistant",
        "model": named if isinstance(named, str) else model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": _usage(reply.get("usage")),
        **({FIELD: reply[FIELD]} if FIELD in reply else {}),
    }


def _stop(choice: Mapping[str, Any], calls: bool) -> tuple[str, str | None]:
    """Why an answer ends, and the text that ended it, where the server names it."""
    finish = str(choice.get("finish_reason"))
    if value_at(choice.get("message"), "refusal"):
        return "refusal", None
    if finish in _STOPS:
        return _STOPS[finish], None
    if calls:
        return "tool_use", None
    sequence = choice.get("stop_reason")
    return ("stop_sequence", sequence) if isinstance(sequence, str) else ("end_turn", None)


def _blocks(message: Any, mark: str) -> Iterator[dict[str, Any]]:
    """What a message says, and the tools that it uses."""
    text = value_at(message, "content") or value_at(message, "refusal")
    if isinstance(text, str) and text:
        yield {"type": "text", "text": text, "citations": None}
    calls = value_at(message, "tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else []):
        function = value_at(call, "function")
        arguments = value_at(function, "arguments")
        if isinstance(arguments, str):
            arguments = value_of(arguments) if arguments.strip() else {}
        if not isinstance(arguments, dict):
            problem = "upstream: a tool is called with arguments that are no JSON object"
            raise ApiError(502, problem, code="failed_upstream")
        yield {
            "type": "tool_use",
            "id": value_at(call, "id") or f"toolu_{mark}_{number}",
            "name": str(value_at(function, "name")),
            "input": arguments,
        }


def _usage(usage: Any) -> dict[str, Any]:
    """The usage of all requests upstream, under other names; zeros where none says."""
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = min(prompt, _count(value_at(usage, "prompt_tokens_details"), "cached_tokens"))
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }


def _count(usage: Any, key: str) -> int:
    """A number of tokens; 0 where there is none."""
    value = value_at(usage, key)
    return value if type(value) is int and value >= 0 else 0


def events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of an answer: every text and every use of a tool comes in one piece."""
    usage = {**message["usage"], "output_tokens": 0}
    begun = {**message, "content": [], "usage": usage, "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            opened, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            written = json.dumps(block["input"], ensure_ascii=False)
            opened, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": written},
            )
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {key: message[key] for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def error_of(error: ApiError) -> dict[str, Any]:
    """An error in the form of this protocol, with what else is known of it."""
    usual = "invalid_request_error" if error.status < 500 else "api_error"
    details = {**error.body["error"], "type": _KINDS.get(error.status, usual)}
    return {"type": "error", "error": details, "request_id": error.request_id}
