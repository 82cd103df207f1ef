"""Requests to /v1/messages: chosen as chats, answered in their own form, or passed through with a word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.scripted_replies import Script
from discorank import decode
from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.forms.messages_form import (
    chat_of,
    events_of,
    message_of,
    messages_of,
)

from ...support.proxying import Proxy, proxying, send
from .recorded_calls import calling, talking, weather

TEXTS = ["the red boat", "the red boat waits", "a green bus", "the red boat waits here"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "name": "weather",
    "description": "The weather.",
    "input_schema": SCHEMA,
    "cache_control": {"type": "ephemeral"},
}
SAID: Any = [{"role": "user", "content": "Say it"}]


@contextmanager
def answering(choices: list[Any] = TEXTS, **settings: Any) -> Iterator[Proxy]:
    """A proxy before a server that gives these choices."""

    def answer(body: Mapping[str, Any], number: int) -> list[Any]:
        return choices[: body.get("n") or 1]

    with proxying(Script(answer=answer), **{"num_candidates": len(choices), **settings}) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def running() -> Iterator[Proxy]:
    with answering(max_candidate_tokens=100) as proxy:
        yield proxy


@pytest.fixture
def proxy(running: Proxy) -> Proxy:
    running.upstream.seen.clear()
    return running


def ask(proxy: Proxy, **more: Any) -> Any:
    asked = {"model": "m", "max_tokens": 9, "messages": SAID, **more}
    return send("POST", f"{proxy.url}/messages?beta=true", json=asked)


def streamed(reply: Any) -> list[dict[str, Any]]:
    """The events of a stream, each with its name."""
    assert reply.headers["content-type"] == "text/event-stream"
    events = []
    for written in reply.text.split("\n\n")[:-1]:
        name, data = written.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_a_message_is_chosen_as_a_chat(proxy: Proxy) -> None:
    reply = ask(
        proxy,
        system=[{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["END"],
        temperature=0.7,
        top_k=5,
        metadata={"user_id": "u"},
    )
    best = decode(TEXTS, "chrf")
    assert reply.headers["x-discorank"] == "chosen; n=4; distinct=4; rounds=1"
    answer = reply.json()
    assert answer.pop("id").startswith("msg_")
    assert answer.pop("discorank")["index"] == best.index
    assert answer.pop("usage")["output_tokens"] == sum(len(text.split()) for text in TEXTS)
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": best.text, "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
    (seen,) = proxy.upstream.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "system", "content": "Be short."}, *SAID],
        "stop": ["END"],
        "temperature": 0.7,
        "top_k": 5,
        "user": "u",
        "n": 4,
    }


def test_a_stream_has_the_events_of_the_protocol(proxy: Proxy) -> None:
    events = streamed(ask(proxy, stream=True))
    best = decode(TEXTS, "chrf")
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["discorank"]["index"] == best.index
    assert events[2]["delta"] == {"type": "text_delta", "text": best.text}
    assert events[4]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_a_loop_of_tools() -> None:
    choices = [talking("Well"), weather("Oslo"), weather("Bergen"), weather("Oslo")]
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    with answering(choices) as proxy:
        answer = ask(proxy, tools=[TOOL], tool_choice=choice).json()
        (block,) = answer["content"]
        assert answer["stop_reason"] == "tool_use"
        assert block == {
            "type": "tool_use",
            "id": "call_0",
            "name": "weather",
            "input": {"city": "Oslo"},
        }
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": "no such city"}
        told = [{**result, "is_error": True}, {"type": "text", "text": "And now?"}]
        asked = [
            *SAID,
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": told},
        ]
        events = streamed(ask(proxy, messages=asked, tools=[TOOL], stream=True))
        first, second = proxy.upstream.seen
    assert events[2]["delta"] == {"type": "input_json_delta", "partial_json": '{"city": "Oslo"}'}
    assert first.body["parallel_tool_calls"] is False
    function = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
    assert first.body["tools"] == [{"type": "function", "function": function}]
    assert second.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": weather("Oslo")["message"]["tool_calls"],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "Error: no such city"},
        {"role": "user", "content": "And now?"},
    ]


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_which_tool_is_to_be_used(choice: Any, wanted: Any) -> None:
    assert (
        chat_of({"messages": SAID, "tools": [TOOL], "tool_choice": choice})["tool_choice"] == wanted
    )


def test_texts_have_the_form_that_is_asked_for() -> None:
    config = {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}
    with answering(["Oslo", "Oslo!", '{"city": "Oslo"}', "Oslo"]) as proxy:
        answer = ask(proxy, output_config=config).json()
        (seen,) = proxy.upstream.seen
    assert json.loads(answer["content"][0]["text"]) == {"city": "Oslo"}
    assert seen.body["reasoning_effort"] == "low"


IMAGE = [{"type": "image", "source": {"type": "url", "url": "http://x"}}]
THOUGHT = [{"type": "thinking", "thinking": "well", "signature": "s"}]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"messages": [{"role": "user", "content": IMAGE}]}, "images"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "parts"),
        ({"messages": [{"role": "assistant", "content": THOUGHT}]}, "thinking"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "thinking"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools"),
        ({"container": "c"}, "fields"),
        ({"service_tier": "standard_only"}, "fields"),
        ({"output_config": {"budget": 1}}, "fields"),
    ],
)
def test_what_is_not_translated_passes_through(
    proxy: Proxy, more: dict[str, Any], reason: str
) -> None:
    reply = ask(proxy, **more)
    assert reply.headers["x-discorank"] == f"passed-through; reason={reason}"
    (seen,) = proxy.upstream.seen
    asked = {"model": "m", "max_tokens": 9, "messages": SAID, **more}
    assert (seen.path, seen.body) == ("/v1/messages?beta=true", asked)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"messages": "Say it"}, "messages"),
        ({"messages": [{"role": "robot", "content": "?"}]}, "messages.role"),
        ({"messages": [{"role": "user", "content": 3}]}, "content"),
        ({"tools": {"name": "f"}}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"max_tokens": 101}, "max_tokens"),
        ({"discorank": {"n": 5}}, "discorank.n"),
        (
            {"thinking": {"type": "enabled"}, "discorank": {"document": "d", "position": 0}},
            "discorank",
        ),
    ],
)
def test_errors_have_the_form_of_the_protocol(
    proxy: Proxy, more: dict[str, Any], named: str
) -> None:
    reply = ask(proxy, **more)
    assert reply.status_code == 400
    told = reply.json()
    assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
    assert told["error"]["param"] == named
    assert named in told["error"]["message"]
    assert proxy.upstream.seen == []


def test_the_key_may_come_as_this_protocol_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCESS", "secret")
    asked = {"model": "m", "messages": SAID}
    with answering(door={"access_key_variable": "ACCESS"}) as proxy:
        url = f"{proxy.url}/messages"
        assert send("POST", url, json=asked, headers={"x-api-key": "secret"}).status_code == 200
        for headers in ({"x-api-key": "other"}, {"x-api-key": ""}, {}):
            refused = send("POST", url, json=asked, headers=headers)
            assert refused.status_code == 401
            assert refused.json()["error"]["type"] == "authentication_error"


def test_a_single_candidate_is_translated_too() -> None:
    with answering() as proxy:
        reply = ask(proxy, temperature=0)
        assert reply.headers["x-discorank"] == "passed-through; reason=temperature=0"
        assert reply.json()["content"][0]["text"] == TEXTS[0]
    broken = calling(("weather", '{"city": "Os'))
    with answering([broken], tool_calls="pass") as proxy:
        assert ask(proxy, tools=[TOOL]).status_code == 502


def test_a_server_that_knows_messages_may_answer_them() -> None:
    with answering(messages="pass") as proxy:
        assert ask(proxy).headers["x-discorank"] == "passed-through; reason=path"
        assert proxy.upstream.seen[0].path == "/v1/messages?beta=true"


WORDS = st.text(max_size=8)
CONTENT = WORDS | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, WORDS), min_size=2, max_size=3
)


def test_what_is_said_and_what_tools_gave_keep_their_order() -> None:
    result = {"type": "tool_result", "tool_use_id": "a"}
    content = [{"type": "text", "text": "one"}, result, {"type": "text", "text": "two"}]
    assert messages_of([{"role": "user", "content": content}]) == [
        {"role": "user", "content": "one"},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "user", "content": "two"},
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    lambda name, arguments, number: {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    },
    WORDS,
    st.dictionaries(WORDS, VALUES, max_size=2),
    st.integers(0, 99),
)
CHATS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": CONTENT})
    | st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": CONTENT},
        optional={"tool_calls": st.lists(CALLS, min_size=1, max_size=3)},
    )
    | st.builds(
        lambda number, content: {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": content,
        },
        st.integers(0, 99),
        CONTENT,
    ),
    max_size=6,
)


def blocks_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a chat as one of this protocol."""
    role, content = message["role"], message["content"]
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
        return {"role": "user", "content": [result]}
    if role != "assistant":
        return {"role": role, "content": content}
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}
        )
    return {"role": role, "content": blocks}


@given(CHATS)
def test_every_conversation_comes_through(messages: list[dict[str, Any]]) -> None:
    assert messages_of([blocks_of(message) for message in messages]) == messages


@given(
    st.fixed_dictionaries(
        {"content": st.none() | WORDS}, optional={"tool_calls": st.lists(CALLS, max_size=3)}
    ),
    st.sampled_from(["stop", "length", "tool_calls", None]),
)
def test_events_say_what_the_answer_says(message: dict[str, Any], finish: str | None) -> None:
    reply = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    answer = message_of(reply, "m", "mark")
    said = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    assert said == (message["content"] or "")
    used = [block for block in answer["content"] if block["type"] == "tool_use"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    assert [block["input"] for block in used] == [json.loads(one["arguments"]) for one in calls]
    assert [block["name"] for block in used] == [one["name"] for one in calls]

    begun, *events = events_of(answer)
    rebuilt = {**begun["message"], "content": []}
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(rebuilt["content"])
            rebuilt["content"].append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            block, delta = rebuilt["content"][event["index"]], event["delta"]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            else:
                block["input"] = json.loads(delta["partial_json"])
        elif event["type"] == "message_delta":
            rebuilt |= event["delta"] | {"usage": event["usage"]}
    assert rebuilt == answer
    assert events[-1] == {"type": "message_stop"}


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"finish_reason": "length"}, ("max_tokens", None)),
        ({"finish_reason": "content_filter"}, ("refusal", None)),
        ({"finish_reason": "stop", "stop_reason": "END"}, ("stop_sequence", "END")),
        ({"finish_reason": "stop", "stop_reason": 7}, ("end_turn", None)),
    ],
)
def test_why_an_answer_ends(choice: dict[str, Any], reason: tuple[str, str | None]) -> None:
    answer = message_of({"choices": [{"message": {"content": "x"}, **choice}]}, "m", "mark")
    assert (answer["stop_reason"], answer["stop_sequence"]) == reason


def test_arguments_that_are_no_object_are_told() -> None:
    with pytest.raises(ApiError, match="no JSON object"):
        message_of({"choices": [calling(("f", "[1]"))]}, "m", "mark")
