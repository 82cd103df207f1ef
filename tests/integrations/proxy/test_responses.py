"""Requests to /v1/responses: chosen as chats, answered in their own form, or passed through with a word."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import openai
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent

from benchmarks.support.scripted_replies import Script
from discorank import decode
from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.forms.messages_form import chat_of as message_chat_of
from discorank.integrations.proxy.forms.messages_form import events_of as message_events_of
from discorank.integrations.proxy.forms.messages_form import message_of
from discorank.integrations.proxy.forms.responses_form import (
    ID_PREFIX,
    chat_of,
    events_of,
    messages_of,
    response_of,
)
from discorank.integrations.proxy.questions import NoChatError

from ...support.proxying import Proxy, proxying, send
from .recorded_calls import calling, talking, weather

TEXTS = ["the red boat", "the red boat waits", "a green bus", "the red boat waits here"]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": SCHEMA, "strict": True},
}


@contextmanager
def answering(choices: list[Any] = TEXTS, **settings: Any) -> Iterator[tuple[Proxy, openai.OpenAI]]:
    """A proxy before a server that gives these choices, and the client."""

    def answer(body: Mapping[str, Any], number: int) -> list[Any]:
        return choices[: body.get("n") or 1]

    settings = {"num_candidates": len(choices), **settings}
    with (
        proxying(Script(answer=answer), **settings) as proxy,
        openai.OpenAI(base_url=proxy.url, api_key="unused", max_retries=0) as client,
    ):
        yield proxy, client


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Proxy, openai.OpenAI]]:
    with answering() as both:
        yield both


@pytest.fixture
def proxy(running: tuple[Proxy, openai.OpenAI]) -> Proxy:
    running[0].upstream.seen.clear()
    return running[0]


@pytest.fixture
def client(proxy: Proxy, running: tuple[Proxy, openai.OpenAI]) -> openai.OpenAI:
    return running[1]


def test_a_response_is_chosen_as_a_chat(proxy: Proxy, client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(
        model="m",
        instructions="Be short.",
        input="Say it",
        max_output_tokens=9,
        temperature=0.7,
        reasoning={"effort": "low"},
        metadata={"of": "mine"},
        extra_body={"discorank": {"explain": True}},
    )
    answer = raw.parse()
    best = decode(TEXTS, "chrf")
    assert answer.output_text == best.text
    assert raw.headers["x-discorank"] == "chosen; n=4; distinct=4; rounds=1"
    assert answer.id.startswith(ID_PREFIX)
    told = answer.model_dump()
    assert (told["status"], told["store"], told["metadata"]) == ("completed", False, {"of": "mine"})
    assert (told["instructions"], told["max_output_tokens"]) == ("Be short.", 9)
    assert told["discorank"]["index"] == best.index
    assert len(told["discorank"]["candidates"]) == 4
    words = sum(len(text.split()) for text in TEXTS)
    assert answer.usage is not None
    assert answer.usage.output_tokens == words
    assert answer.usage.total_tokens == words + answer.usage.input_tokens
    (seen,) = proxy.upstream.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Say it"},
        ],
        "max_tokens": 9,
        "temperature": 0.7,
        "reasoning_effort": "low",
        "n": 4,
    }


def test_log_probabilities_of_the_chosen_one(proxy: Proxy, client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model="m", input="Say it", include=["message.output_text.logprobs"], top_logprobs=2
    )
    part = answer.output[0].content[0]  # type: ignore[union-attr, index]
    tokens = part.logprobs  # type: ignore[union-attr]
    assert [token.token for token in tokens or []] == answer.output_text.split()
    assert [token.logprob for token in tokens or []] == [-0.5, -0.51, -0.52, -0.53, -0.54]
    body = proxy.upstream.seen[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)


def test_a_stream_has_the_events_of_the_protocol(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="Say it") as stream:
        events = list(stream)
        final = stream.get_final_response()
    best = decode(TEXTS, "chrf")
    assert final.output_text == best.text
    assert final.model_dump()["discorank"]["index"] == best.index
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(9))


def test_a_loop_of_tools() -> None:
    choices = [talking("Well"), weather("Oslo"), weather("Bergen"), weather("Oslo")]
    asked: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    with answering(choices) as (proxy, client):
        raw = client.responses.with_raw_response.create(model="m", input=asked, tools=[TOOL])
        answer = raw.parse()
        (call,) = answer.output
        assert call.type == "function_call"
        assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Oslo"})
        assert raw.headers["x-discorank"].endswith("calls=3; talk=1")
        asked += [item.model_dump(exclude_none=True) for item in answer.output]
        asked += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        with client.responses.stream(model="m", input=asked, tools=[TOOL]) as stream:
            last = stream.get_final_response()
        assert last.output[0].type == "function_call"
        first, second = proxy.upstream.seen
    assert first.body["tools"] == [CHAT_TOOL]
    assert second.body["messages"] == [
        {"role": "user", "content": "How is the weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": weather("Oslo")["message"]["tool_calls"],
        },
        {"role": "tool", "tool_call_id": call.call_id, "content": "rain"},
    ]


def test_a_call_that_breaks_its_schema_never_wins() -> None:
    broken = calling(("weather", {"town": "Oslo"}))
    with answering([broken, broken, weather("Oslo")]) as (_, client):
        answer = client.responses.create(model="m", input="?", tools=[TOOL])
        (call,) = answer.output
        assert call.type == "function_call"
        assert json.loads(call.arguments) == {"city": "Oslo"}


class City(pydantic.BaseModel):
    city: str


def test_texts_have_the_form_that_is_asked_for() -> None:
    with answering(["Oslo", "Oslo!", '{"city": "Oslo"}', "Oslo"]) as (proxy, client):
        answer = client.responses.parse(model="m", input="Where?", text_format=City)
        (seen,) = proxy.upstream.seen
    assert answer.output_parsed == City(city="Oslo")
    wanted = seen.body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"]) == ("json_schema", "City")
    assert wanted["json_schema"]["schema"]["required"] == ["city"]


def test_a_text_that_was_cut_off_says_so() -> None:
    cut = {**talking("the red"), "finish_reason": "length"}
    with answering([cut, cut]) as (_, client):
        answer = client.responses.create(model="m", input="?")
        stream = list(client.responses.create(model="m", input="?", stream=True))
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert stream[-1].type == "response.incomplete"


IMAGE = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
FILE = [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]
THOUGHT = [{"type": "reasoning_text", "text": "well"}]
ENCRYPTED = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"input": IMAGE}, "images"),
        ({"input": FILE}, "parts"),
        ({"input": [{"type": "item_reference", "id": "m"}]}, "items"),
        ({"input": [ENCRYPTED]}, "reasoning"),
        ({"input": [{**ENCRYPTED, "content": THOUGHT}]}, "reasoning"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tools"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"store": True}, "store"),
        ({"truncation": "auto"}, "truncation"),
        ({"reasoning": {"summary": "auto"}}, "reasoning"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"text": {"format": {"type": "grammar"}}}, "text"),
        ({"max_tool_calls": 2}, "fields"),
        ({"n": 2}, "fields"),
    ],
)
def test_what_a_chat_cannot_say_passes_through(
    proxy: Proxy, more: dict[str, Any], reason: str
) -> None:
    asked = {"model": "m", "input": "?", **more}
    reply = send("POST", f"{proxy.url}/responses", json=asked)
    assert reply.headers["x-discorank"] == f"passed-through; reason={reason}"
    (seen,) = proxy.upstream.seen
    assert (seen.path, seen.body) == ("/v1/responses", asked)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"background": True}, "background"),
        ({"previous_response_id": f"{ID_PREFIX}1"}, "previous_response_id"),
        ({"input": None}, "input"),
        ({"instructions": 3}, "instructions"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 101}, "max_output_tokens"),
        ({"store": True, "discorank": {"document": "d", "position": 0}}, "discorank"),
        ({"temperature": 0, "discorank": {"document": "d", "position": 0}}, "discorank"),
    ],
)
def test_what_nobody_can_do_is_refused(more: dict[str, Any], param: str) -> None:
    with answering(max_candidate_tokens=100) as (proxy, _):
        asked = {"model": "m", "input": "?", **more}
        reply = send("POST", f"{proxy.url}/responses", json=asked)
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == param
        assert proxy.upstream.seen == []


def test_a_single_candidate_is_translated_too(proxy: Proxy, client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model="m", input="?", temperature=0)
    assert raw.headers["x-discorank"] == "passed-through; reason=temperature=0"
    assert raw.parse().output_text == TEXTS[0]
    assert "discorank" not in raw.text
    with client.responses.stream(
        model="m", input="?", extra_body={"discorank": {"n": 1}}
    ) as stream:
        assert stream.get_final_response().output_text == TEXTS[0]
    first, second = proxy.upstream.seen
    assert first.body == {
        "model": "m",
        "temperature": 0,
        "messages": [{"role": "user", "content": "?"}],
        "n": 1,
    }
    assert "discorank" not in second.body


def test_a_single_call_is_answered_whatever_it_is() -> None:
    broken = calling(("weather", {"town": "Oslo"}))
    with answering([broken, broken], tool_calls="pass") as (_, client):
        raw = client.responses.with_raw_response.create(model="m", input="?", tools=[TOOL])
    assert raw.headers["x-discorank"] == "passed-through; reason=tools"
    assert raw.parse().output[0].type == "function_call"


def test_a_server_that_knows_responses_may_answer_them() -> None:
    with answering(responses="pass") as (proxy, _):
        reply = send("POST", f"{proxy.url}/responses", json={"model": "m", "input": "?"})
        assert reply.headers["x-discorank"] == "passed-through; reason=path"
        assert proxy.upstream.seen[0].path == "/v1/responses"


def test_a_failure_upstream_has_its_status(client: openai.OpenAI) -> None:
    script = Script(fault=lambda body, number: "status-400")
    with (
        proxying(script) as failing,
        openai.OpenAI(base_url=failing.url, api_key="x", max_retries=0) as asking,
        pytest.raises(openai.BadRequestError, match="upstream"),
        asking.responses.stream(model="m", input="?"),
    ):
        pass


WORDS = st.text(max_size=8)
CALLS = st.builds(
    lambda name, arguments, number: {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    },
    WORDS,
    st.dictionaries(WORDS, WORDS, max_size=2),
    st.integers(0, 99),
)
CONTENT = WORDS | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, WORDS), min_size=2, max_size=3
)
SAID = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "developer", "system"]),
    CONTENT,
)
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": CONTENT},
    optional={
        "reasoning_content": WORDS,
        "tool_calls": st.lists(CALLS, min_size=1, max_size=3),
    },
)
OUTPUTS = st.builds(
    lambda number, content: {"role": "tool", "tool_call_id": f"call_{number}", "content": content},
    st.integers(0, 99),
    WORDS,
)


def items_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of a chat as items."""
    role, content = message["role"], message["content"]
    if role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": content,
        }
        return
    if "reasoning_content" in message:
        part = {"type": "reasoning_text", "text": message["reasoning_content"]}
        yield {"type": "reasoning", "id": "r", "summary": [], "content": [part]}
    kind = "output_text" if role == "assistant" else "input_text"
    if not isinstance(content, str):
        content = [{**part, "type": kind} for part in content]
    yield {"type": "message", "role": role, "content": content}
    for call in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


@given(st.lists(SAID | ANSWERS | OUTPUTS, max_size=6))
def test_every_conversation_comes_through(messages: list[dict[str, Any]]) -> None:
    items = [item for message in messages for item in items_of(message)]
    assert messages_of(items) == messages


MESSAGES = st.fixed_dictionaries(
    {"content": st.none() | WORDS},
    optional={
        "reasoning_content": st.none() | WORDS,
        "refusal": st.none() | WORDS,
        "tool_calls": st.none() | st.lists(CALLS, max_size=3),
    },
)
USAGES = st.none() | st.fixed_dictionaries(
    {}, optional={"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)}
)
NAMES = """
    type message text role user assistant content input_text function function_call call_id name arguments
    tool_use tool_result input id format json_schema json_object schema effort tokens tool_calls refusal
    reasoning_content logprob token top_logprobs bytes auto required tool any
"""
KNOWN = """
    input instructions tools tool_choice text reasoning include messages system output_config thinking metadata
    background store truncation stop_sequences
"""
EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)


@given(MESSAGES, st.sampled_from(["stop", "length", "tool_calls", None]), USAGES)
def test_events_say_what_the_answer_says(
    message: dict[str, Any], finish_reason: str | None, usage: Any
) -> None:
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    reply = {"created": 1, "model": "m", "choices": [choice], "usage": usage}
    answer = response_of(reply, {"model": "m", "input": "?"}, "mark")
    Response.model_validate(answer, strict=True)
    texts = "".join(
        part["text"]
        for item in answer["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )
    assert texts == ("" if message.get("refusal") else message["content"] or "")
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    given_calls = [call["function"] for call in message.get("tool_calls") or ()]
    assert [{key: call[key] for key in ("name", "arguments")} for call in calls] == given_calls

    events = list(events_of(answer))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        EVENT.validate_python(event, strict=True)
    assert events[-1]["response"] == answer
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == answer["output"]
    pieces = [event["delta"] for event in events if event["type"].endswith(".delta")]
    whole = [
        piece
        for item in answer["output"]
        for piece in (
            [item["arguments"]]
            if item["type"] == "function_call"
            else [part.get("text", part.get("refusal")) for part in item["content"]]
        )
    ]
    assert pieces == whole


KEYS = st.dictionaries(
    st.sampled_from(["model", "temperature", "top_p", "stop", "seed", "user", "top_k"]),
    st.none() | WORDS | st.integers(),
)


@given(KEYS)
def test_keys_that_mean_the_same_are_kept(keys: dict[str, Any]) -> None:
    chat = chat_of({"input": "?", **keys})
    assert chat == {**keys, "messages": [{"role": "user", "content": "?"}]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(NAMES.split()) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()) | WORDS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from((NAMES + KNOWN).split()), JSON, max_size=6))
def test_any_request_is_a_chat_or_refused_or_passes(asked: dict[str, Any]) -> None:
    for form in (chat_of, message_chat_of):
        with contextlib.suppress(ApiError, NoChatError):
            form(asked)


@given(JSON, JSON, JSON)
def test_any_reply_is_answered_or_refused(message: Any, logprobs: Any, usage: Any) -> None:
    choice = {"index": 0, "message": message, "logprobs": logprobs}
    reply = {"choices": [choice], "usage": usage}
    list(events_of(response_of(reply, {}, "mark")))
    with contextlib.suppress(ApiError):
        list(message_events_of(message_of(reply, "m", "mark")))
