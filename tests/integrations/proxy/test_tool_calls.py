"""Calls of tools are chosen by votes: in steps, as values, within their schemas, for the client that asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import openai
import pytest

from benchmarks.support.scripted_replies import Script
from discorank import decode
from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.tool_calls import (
    Tools,
    arguments_key,
    call_vote,
    calls_of,
    tools_of,
    verdict,
)
from discorank.rerank.stopping_rule import changing_in_steps

from ...support.proxying import Proxy, openai_client, proxying
from .recorded_calls import ITS_HUB, LISTS, calling, talking, weather

ASKED: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}


def tool(name: str, schema: Any) -> Any:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    tool("weather", SCHEMA),
    tool("clock", {"type": "object"}),
    {"type": "function", "function": {"name": "anything"}},
]


@contextmanager
def answering(choices: list[Any], **drawing: Any) -> Iterator[tuple[Proxy, openai.OpenAI]]:
    """A proxy before a server that gives these choices, one after the other."""
    given = iter(choices * 2)

    def answer(body: Mapping[str, Any], number: int) -> list[Any]:
        return [next(given) for _ in range(body.get("n") or 1)]

    with (
        proxying(Script(answer=answer), num_candidates=len(choices), **drawing) as proxy,
        openai_client(proxy.url) as client,
    ):
        yield proxy, client


def create(client: openai.OpenAI, **more: Any) -> Any:
    asked = {"model": "m", "messages": ASKED, "tools": TOOLS, **more}
    return client.chat.completions.create(**asked)


def about(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer.model_dump()["discorank"]
    return found


@pytest.mark.parametrize("name", LISTS)
def test_the_choice_is_one_that_its_hub_makes(name: str) -> None:
    choices, ignored = LISTS[name]
    with answering(choices, ignore_arguments=ignored) as (_, client):
        answer = create(client)
    assert about(answer)["index"] == min(ITS_HUB[name])
    chosen = choices[min(ITS_HUB[name])]["message"]
    message = answer.choices[0].message.model_dump(exclude_none=True)
    assert message == {key: value for key, value in chosen.items() if value is not None}


def test_it_is_told_how_a_list_was_decided() -> None:
    choices = [
        talking("I do not know."),
        weather("Oslo"),
        calling(("clock", {})),
        weather("Oslo"),
        weather("Bergen"),
        calling(("weather", {"town": "Oslo"})),
    ]
    with (
        answering(choices) as (_, client),
        client.chat.completions.with_streaming_response.create(
            model="m", messages=ASKED, tools=TOOLS, extra_body={"discorank": {"explain": True}}
        ) as raw,
    ):
        header, answer = raw.headers["x-discorank"], raw.parse()
    assert header == "chosen; n=6; distinct=4; rounds=1; calls=4; talk=1; invalid=1"
    told = about(answer)
    assert (told["index"], told["decoder"], told["n"]) == (1, "vote", 6)
    assert told["utility"] == pytest.approx(2 / 3)
    assert told["tools"] == {
        "decided": "calls",
        "calls": 4,
        "talk": 1,
        "invalid": 1,
        "unchecked": 0,
        "kinds": 4,
        "same_tools": 3,
        "same_arguments": 2,
    }
    assert told["candidates"][0]["calls"] == [{"name": "weather", "arguments": {"city": "Oslo"}}]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_parallel_calls_are_sets() -> None:
    oslo, bergen = ("weather", {"city": "Oslo"}), ("weather", {"city": "Bergen"})
    choices = [weather("Oslo"), calling(oslo, bergen), calling(bergen, oslo), calling(oslo, oslo)]
    with answering(choices) as (_, client):
        answer = create(client)
    assert about(answer)["index"] == 1
    assert len(answer.choices[0].message.tool_calls) == 2
    with answering(choices) as (_, client):
        assert about(create(client, parallel_tool_calls=False))["index"] == 0
    clock: tuple[str, dict[str, Any]] = ("clock", {})
    mixed = [weather("Oslo"), weather("Oslo"), calling(oslo, clock), calling(clock, oslo)]
    with answering([*mixed, calling(oslo, clock)]) as (_, client):
        assert about(create(client))["index"] == 2


def test_a_call_that_breaks_its_schema_never_wins() -> None:
    broken = [
        calling(("weather", {"town": "Oslo"})),
        calling(("weather", {"city": 1})),
        calling(("weather", '{"city": "Os')),
        calling(("weather", '["Oslo"]')),
        calling(("forecast", {"city": "Oslo"})),
        weather("Oslo", days=0),
    ]
    for one in broken:
        with answering([one] * 5 + [weather("Bergen")]) as (_, client):
            answer = create(client)
        assert about(answer)["index"] == 5
        assert about(answer)["tools"]["invalid"] == 5
    with answering(broken) as (proxy, client):
        with pytest.raises(openai.InternalServerError) as raised:
            create(client)
        assert raised.value.code == "no_choice"
        assert proxy.upstream.num_requests == 1


@pytest.mark.parametrize(
    ("choice", "index"),
    [
        ("auto", 2),  # as many call as talk
        ("none", 0),
        ("required", 2),
        ({"type": "function", "function": {"name": "clock"}}, 3),
    ],
)
def test_the_choice_of_tools_is_obeyed(choice: Any, index: int) -> None:
    choices = [talking("a"), talking("a"), weather("Oslo"), calling(("clock", {}))]
    choices += [talking("a"), weather("Oslo")]
    with answering(choices) as (_, client):
        assert about(create(client, tool_choice=choice))["index"] == index


def test_what_most_say_is_chosen_by_the_utility() -> None:
    texts = ["the red boat", "a green bus", "the red boat waits"]
    choices = [talking(text) for text in texts]
    choices[1:1] = [weather("Oslo"), weather("Oslo")]
    with answering(choices) as (_, client):
        answer = create(client)
    assert answer.choices[0].message.content == decode(texts, "chrf").text
    assert about(answer)["tools"]["decided"] == "talk"
    assert about(answer)["decoder"] == "chrf"


def test_a_stream_brings_whole_calls() -> None:
    oslo, clock = ("weather", {"city": "Oslo"}), ("clock", {"zone": "CET"})
    choices = [calling(oslo, clock), talking("x"), calling(clock, oslo)]
    with answering(choices) as (_, client):
        chunks = list(create(client, stream=True))
    assert chunks[0].choices[0].finish_reason is None
    pieces = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [(call.index, call.id, call.function.name) for call in pieces] == [
        (0, "call_0", "weather"),
        (1, "call_1", "clock"),
    ]
    assert json.loads(pieces[0].function.arguments) == {"city": "Oslo"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    with answering(choices) as (_, client):
        stream = client.chat.completions.stream(model="m", messages=ASKED, tools=TOOLS)
        with stream as events:
            final = events.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.name for call in calls] == ["weather", "clock"]


def test_the_best_and_the_next_calls() -> None:
    choices = [weather("Oslo"), weather("Bergen"), weather("Bergen"), calling(("clock", {}))]
    with answering(choices) as (_, client):
        answer = create(client, n=4)
    calls = [choice.message.tool_calls[0].function for choice in answer.choices]
    assert [(call.name, json.loads(call.arguments).get("city")) for call in calls] == [
        ("weather", "Bergen"),
        ("weather", "Oslo"),
        ("weather", "Bergen"),
        ("clock", None),
    ]


def test_a_document_has_no_tools() -> None:
    own = {"discorank": {"document": "d", "position": 0}}
    with answering([weather("Oslo")] * 2) as (proxy, client):
        with pytest.raises(openai.BadRequestError, match="document"):
            create(client, extra_body=own)
        assert proxy.upstream.num_requests == 0


def test_schemas_that_nobody_can_judge_are_told() -> None:
    tools = Tools({"f": {"patternProperties": {"a": {}}}, "g": {"type": "object"}})
    unknown, known = calling(("f", {})), calling(("g", {}))
    assert verdict(calls_of(unknown), tools) == "unchecked"
    assert call_vote([unknown, unknown], tools).votes["unchecked"] == 2
    assert call_vote([unknown, unknown, known], tools).numbers == [2]
    with pytest.raises(ApiError, match="none of 1 candidates"):
        call_vote([calling(("h", {}))], tools)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a": 1, "b": [1, 2]}', '{"b":[1,2.0],"a":1e0}', True),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": "1"}', '{"a": 1}', False),
        ('{"a": null}', "{}", False),
        ("", "{}", True),
        ('{"a": 10000000000000001}', '{"a": 10000000000000002}', False),
        ('{"a": "\\u00e9"}', '{"a": "\u00e9"}', True),
    ],
)
def test_arguments_are_compared_as_values(one: str, other: str, is_same: bool) -> None:
    keys = {arguments_key(calls_of(calling(("f", text)))) for text in (one, other)}
    assert (len(keys) == 1) == is_same


def test_what_are_no_functions_is_not_voted_over() -> None:
    assert tools_of({"tools": [{"type": "custom", "custom": {"name": "x"}}]}) is None
    assert tools_of({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}) is None
    assert tools_of({"tools": TOOLS, "tool_choice": "often"}) is None
    found = tools_of({"tools": TOOLS})
    assert found is not None
    assert list(found.schemas) == ["weather", "clock", "anything"]


OSLO, BERGEN = weather("Oslo"), weather("Bergen")


@pytest.mark.parametrize(
    ("choices", "drawn"),
    [
        ([OSLO] * 16, 4),
        ([OSLO, OSLO, BERGEN, *[OSLO] * 13], 6),
        ([OSLO, BERGEN] * 8, 16),
        ([weather("Oslo", days=0)] * 4 + [OSLO] * 12, 8),  # none of the first may answer
        ([talking("Fine.")] * 16, 16),
    ],
    ids=["agreed", "one-other", "halves", "invalid-first", "talk"],
)
def test_calls_are_drawn_until_their_votes_are_safe(choices: list[Any], drawn: int) -> None:
    with answering(choices, adaptive=True) as (proxy, client):
        told = about(create(client))
        assert told["n"] == drawn
        assert [seen.body["n"] for seen in proxy.upstream.seen] == [4] + [2] * ((drawn - 4) // 2)


def test_where_no_candidate_may_answer_all_are_drawn() -> None:
    with answering([weather("Oslo", days=0)] * 8, adaptive=True) as (proxy, client):
        with pytest.raises(openai.InternalServerError) as raised:
            create(client)
        assert raised.value.code == "no_choice"
        assert [seen.body["n"] for seen in proxy.upstream.seen] == [4, 2, 2]


def simulated_calls(number: int) -> list[list[Any]]:
    """Lists of 16 candidates: some talk, some call one to three tools with two to four values."""
    random = np.random.default_rng(0)
    lists: list[list[Any]] = []
    for _ in range(number):
        shares = random.dirichlet(np.ones(random.integers(1, 4)))
        values = [random.dirichlet(np.ones(random.integers(2, 5))) for _ in shares]
        talks, choices = random.beta(1, 4), []
        for _ in range(16):
            name = int(random.choice(len(shares), p=shares))
            value = int(random.choice(len(values[name]), p=values[name]))
            call = calling((f"tool{name}", {"value": value}))
            choices.append(talking("No.") if random.random() < talks else call)
        lists.append(choices)
    return lists


def test_at_bound_b_at_most_b_of_votes_over_calls_end_otherwise() -> None:
    """As the rule's own law; the share of lists may pass the bound by chance, by three standard errors."""
    tools = Tools({f"tool{name}": None for name in range(3)})

    def chosen(choices: list[Any]) -> str:
        vote = call_vote(choices, tools)
        texts = list(vote.texts or ("talk",))
        return max(dict.fromkeys(texts), key=texts.count)

    bounds, lists = (0.03, 0.1, 0.3), simulated_calls(50)
    others, drawn = np.zeros(3), np.zeros(3)
    for choices in lists:
        ends = dict.fromkeys(bounds, 16)
        for n in range(14, 3, -2):
            steps = call_vote(choices[:n], tools).steps
            chance = changing_in_steps(steps, 16 - n) if steps else 1.0
            ends |= {bound: n for bound in bounds if chance < bound}
        drawn += list(ends.values())
        others += [chosen(choices[:n]) != chosen(choices) for n in ends.values()]
    for bound, share, mean in zip(bounds, others / len(lists), drawn / len(lists), strict=True):
        assert share <= bound + 3 * (bound * (1 - bound) / len(lists)) ** 0.5
        assert 1 - mean / 16 > 0.1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("is_text", [True, False])
def test_numbers_that_json_does_not_have_make_a_call_invalid(number: str, is_text: bool) -> None:
    text = f'{{"value": {number}}}'
    function = {"name": "anything", "arguments": text if is_text else json.loads(text)}
    broken = {"message": {"tool_calls": [{"type": "function", "function": function}]}}
    (call,) = calls_of(broken)
    assert not isinstance(call.arguments, dict)
    tools = tools_of({"tools": TOOLS})
    assert tools is not None
    vote = call_vote([broken, broken, calling(("anything", {"value": 1}))], tools)
    assert (vote.numbers, vote.votes["invalid"]) == ([2], 2)
