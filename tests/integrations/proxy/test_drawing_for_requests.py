"""How candidates are drawn for a request: faults upstream, deadlines, rounds, budgets, forms, log-probabilities."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import httpx2
import pytest

from benchmarks.support.scripted_replies import FAULTS, Script, marker
from discorank import decode
from discorank.integrations.proxy.candidate_draw import (
    CandidateDraw,
)
from discorank.integrations.proxy.tool_calls import MAX_STEPS, with_form
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, proxying, send
from ...support.waiting import wait_until


def ask(proxy: Proxy, path: str = "completions", **body: Any) -> httpx2.Response:
    """The reply to a request; a completion of the prompt "p" if nothing else is said."""
    if path == "completions":
        body = {"model": "m", "prompt": "p", **body}
    return send("POST", f"{proxy.url}/{path}", json=body)


def about(reply: httpx2.Response) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    field: dict[str, Any] = reply.json()["discorank"]
    return field


def text(reply: httpx2.Response) -> str:
    assert reply.status_code == 200, reply.text
    value: str = reply.json()["choices"][0]["text"]
    return value


def error(reply: httpx2.Response) -> tuple[int, str]:
    """Status and message of an error, which has OpenAI's form."""
    value = reply.json()
    assert set(value) == {"error"}
    assert set(value["error"]) == {"message", "type", "param", "code"}
    return reply.status_code, value["error"]["message"]


# faults upstream


@pytest.mark.parametrize("fault", ["status-500", "status-429", "reset", "half-json"])
def test_what_passes_is_tried_again(fault: str) -> None:
    script = Script(fault=lambda body, number: fault if number < 2 else None)
    with proxying(script) as proxy:
        reply = ask(proxy)
    assert about(reply)["n"] == 4
    assert proxy.upstream.met == {fault: 2}


def named(body: Mapping[str, Any], number: int) -> str | None:
    """The fault that a prompt names, if it names one."""
    name = str(body["prompt"])
    return name if name in FAULTS else None


@pytest.fixture(scope="module")
def faulty() -> Iterator[Proxy]:
    """A server upstream that meets the fault that a prompt names."""
    with use_limits(file_bytes=1_000_000), proxying(Script(fault=named)) as proxy:
        yield proxy


FAULTS_UPSTREAM = {
    "status-500": (502, "failed_upstream"),
    "status-429": (429, "busy_upstream"),
    "reset": (502, "failed_upstream"),
    "half-json": (502, "failed_upstream"),
    "huge": (502, "failed_upstream"),
    "huge-length": (502, "failed_upstream"),
    "no-choices": (502, "failed_upstream"),
    "redirect": (502, "unusable_upstream"),
}


@pytest.mark.parametrize("fault", FAULTS_UPSTREAM)
def test_a_fault_costs_its_request_alone(fault: str, faulty: Proxy) -> None:
    reply = ask(faulty, prompt=fault)
    assert text(ask(faulty)).endswith(marker("p"))
    assert not any(seen.path == "/v1/elsewhere" for seen in faulty.upstream.seen)
    status, message = error(reply)
    assert (status, reply.json()["error"]["code"]) == FAULTS_UPSTREAM[fault]
    assert message.startswith("upstream: ")
    assert ("retry-after" in reply.headers) == (status == 429)


def test_an_upstream_that_stalls_is_given_up() -> None:
    with proxying(Script(fault=named), connection={"timeout_seconds": 0.5}) as proxy:
        reply_status, problem = error(ask(proxy, prompt="stall"))
        assert (reply_status, "0.5 seconds" in problem) == (504, True)
        # a busy machine may be late with other requests too, but not with all
        wait_until(lambda: ask(proxy).status_code == 200)


def test_an_upstream_that_is_not_there() -> None:
    with closing(socket.socket()) as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody listens at its port, nor can anybody else
        gone = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        assert_not_reached(gone)


def assert_not_reached(url: str) -> None:
    with proxying(url=url, connection={"retries": 0}) as proxy:
        status, message = error(ask(proxy))
        assert (status, "cannot be reached" in message) == (502, True)
        status, _ = error(ask(proxy, "embeddings", input="x"))
        assert status == 502


def test_a_server_that_ignores_n_is_asked_n_times() -> None:
    with proxying(Script(ignores_n=True)) as proxy:
        fields = [about(ask(proxy)) for _ in range(5)]
    assert [field["n"] for field in fields] == [4] * 5
    # three times in a row, and it is not asked for several any more
    asked = [seen.body["n"] for seen in proxy.upstream.seen]
    assert asked == [4, 1, 1, 1] * 3 + [1] * 8
    assert [usage["candidates"] for usage in fields[4]["usage"]] == [[0], [1], [2], [3]]


def test_a_server_that_refuses_n_is_asked_n_times() -> None:
    def several(body: Mapping[str, Any], number: int) -> str | None:
        return "status-400" if body["n"] > 1 else None

    with proxying(Script(fault=several)) as proxy:
        assert [about(ask(proxy))["n"] for _ in range(5)] == [4] * 5
    asked = [seen.body["n"] for seen in proxy.upstream.seen]
    assert asked == [4, 1, 1, 1, 1] * 3 + [1] * 8


@pytest.mark.parametrize(
    ("fault", "requests"), [("few", [4, 2]), ("many", [4]), ("ignore-n", None)]
)
def test_a_wrong_n_is_made_up_for(fault: str, requests: list[int] | None) -> None:
    script = Script(fault=lambda body, number: fault if number == 0 else None)
    with proxying(script) as proxy:
        field = about(ask(proxy))
    assert field["n"] == 4
    asked = [seen.body["n"] for seen in proxy.upstream.seen]
    assert asked == (requests or [4, 1, 1, 1])


def test_a_seed_gives_each_request_another() -> None:
    with proxying(candidates_per_request=2) as proxy:
        ask(proxy, seed=7)
        ask(proxy)
    seeds = [seen.body.get("seed") for seen in proxy.upstream.seen]
    # the requests of one question may come in any order
    assert 7 in seeds[:2]
    assert len(set(seeds[:2])) == 2
    assert None not in seeds[:2]
    assert seeds[2:] == [None, None]


def test_a_refusal_upstream_is_a_refusal() -> None:
    def refuse(body: Mapping[str, Any], number: int) -> list[str]:
        raise AssertionError

    script = Script(answer=refuse, fault=lambda body, number: "status-400")
    with proxying(script) as proxy:
        status, message = error(ask(proxy))
    assert (status, message.startswith("upstream: status 400")) == (400, True)


# deadlines and rounds


def test_what_has_come_by_the_deadline_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two candidates come and two never do; on a busy machine the deadline waits for the two."""
    seconds_left = CandidateDraw._seconds_left

    def patient_seconds_left(draw: CandidateDraw) -> float | None:
        return seconds_left(draw) if len(draw.drawn) == 2 else None

    monkeypatch.setattr(CandidateDraw, "_seconds_left", patient_seconds_left)

    def slow(body: Mapping[str, Any], number: int) -> str | None:
        return "stall" if number % 4 >= 2 else None

    with proxying(Script(fault=slow), deadline_seconds="200ms") as proxy:
        start = time.monotonic()
        field = about(ask(proxy))
        assert time.monotonic() - start >= 0.2
        assert field["n"] == 2
        assert [seen.body["n"] for seen in proxy.upstream.seen] == [1, 1, 1, 1]
        wait_until(lambda: proxy.upstream.num_open == 0)  # what was under way is dropped


def alike(body: Mapping[str, Any], number: int) -> list[str]:
    return ["the same text"] * (body.get("n") or 1)


def test_drawing_stops_when_the_choice_is_safe() -> None:
    with proxying(Script(answer=alike), adaptive=True, num_candidates=16) as proxy:
        field = about(ask(proxy))
    assert (field["n"], field["rounds"], field["distinct"]) == (4, 1, 1)


def test_drawing_goes_on_while_the_choice_may_change() -> None:
    settings: dict[str, Any] = {"change_bound": 1e-9, "change_margin": 0.0}
    with proxying(adaptive=True, num_candidates=9, **settings) as proxy:
        reply = ask(proxy)
    field = about(reply)
    assert (field["n"], field["rounds"]) == (9, 4)
    assert [seen.body["n"] for seen in proxy.upstream.seen] == [4, 2, 2, 1]
    assert [usage["candidates"] for usage in field["usage"]] == [
        [0, 1, 2, 3],
        [4, 5],
        [6, 7],
        [8],
    ]
    drawn = [
        candidate
        for number, seen in enumerate(proxy.upstream.seen)
        for candidate in proxy.upstream.script.texts(seen.body, number)
    ]
    assert text(reply) == decode(drawn, "chrf").text


@pytest.mark.parametrize(("answers", "drawn"), [("5555", 4), ("5556", 8), ("1234", 12)])
def test_votes_are_told_and_drawing_goes_on_while_they_may_change(answers: str, drawn: int) -> None:
    def vote(body: Mapping[str, Any], number: int) -> list[str]:
        size = body.get("n") or 1
        return [f"So it is {i}.\nThe answer is {answers[i % 4]}." for i in range(size)]

    deciders: Any = {"vote": MBRDecoder("vote", nbest=None)}
    with proxying(
        Script(answer=vote),
        adaptive=True,
        num_candidates=12,
        next_round_size=4,
        deciders=deciders,
    ) as proxy:
        field = about(ask(proxy))
    assert field["n"] == drawn
    assert (field["answer"], field["answer_rule"]) == (answers[0], "marked")
    assert field["votes"][0]["count"] == answers.count(answers[0]) * drawn // 4
    assert ("no-agreement" in field["flags"]) is False


def test_what_cannot_be_adaptive_is_refused_at_the_start() -> None:
    deciders: Any = {"rerank": Reranker(features={"length": 1.0}, nbest=None)}
    with (
        pytest.raises(InputError, match="adaptive"),
        proxying(adaptive=True, deciders=deciders),
    ):
        pass


# budgets


def test_tokens_are_capped() -> None:
    with proxying(max_candidate_tokens=10) as proxy:
        ask(proxy)
        ask(proxy, max_tokens=9)
        status, message = error(ask(proxy, max_tokens=11))
        assert (status, "10" in message) == (400, True)
        # what passes through is bounded too, but not changed
        status, _ = error(ask(proxy, max_tokens=11, temperature=0))
        assert status == 400
    assert [seen.body["max_tokens"] for seen in proxy.upstream.seen] == [10, 9]


def test_a_budget_draws_fewer() -> None:
    with proxying(max_request_tokens=100) as proxy:
        assert about(ask(proxy, max_tokens=40))["n"] == 2
        assert about(ask(proxy, max_tokens=100))["n"] == 1
        assert about(ask(proxy))["n"] == 4
        status, message = error(ask(proxy, max_tokens=101))
        assert (status, "100" in message) == (400, True)
    assert proxy.upstream.seen[-1].body["max_tokens"] == 25


def test_the_temperature_may_be_set_for_all() -> None:
    with proxying(sampling_temperature=0.9) as proxy:
        assert about(ask(proxy, temperature=0))["n"] == 4
    assert proxy.upstream.seen[0].body["temperature"] == 0.9


# log-probabilities, forms, replies without text


def lengths(body: Mapping[str, Any], number: int) -> list[str]:
    return ["a b c", "a", "a b c d", "a b"][: body.get("n") or 1]


def test_features_choose_and_their_log_probabilities_stay_here() -> None:
    deciders: Any = {"rerank": Reranker(features={"logprob": 1.0}, nbest=None)}
    with proxying(Script(answer=lengths), deciders=deciders) as proxy:
        reply = ask(proxy, discorank={"explain": True})
        chat = ask(proxy, "chat/completions", messages=[{"role": "user", "content": "p"}])
    assert text(reply) == "a"  # the most probable: the shortest
    assert reply.json()["choices"][0]["logprobs"] is None
    assert about(reply)["candidates"][0]["logprob"] == -0.5
    assert chat.json()["choices"][0]["message"]["content"] == "a"
    assert [seen.body["logprobs"] for seen in proxy.upstream.seen] == [1, True]


def test_without_log_probabilities_there_is_no_choice() -> None:
    deciders: Any = {"chrf": MBRDecoder(utility="chrf", weights="logprob", nbest=None)}
    with proxying(Script(logprobs=False), deciders=deciders) as proxy:
        status, message = error(ask(proxy))
    assert (status, "log-probabilities" in message) == (503, True)


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "pattern": "^x+$"}},
    "required": ["a"],
    "additionalProperties": False,
}


def json_schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}


def test_texts_of_the_form_asked_for() -> None:
    texts = ['{"a": 1}', "no", '{"a": "1"}', '{"a": 2, "b": "xx"}', '{"a": 1, "b": "y"}', "[1]"]
    assert with_form(texts, json_schema(SCHEMA)) == [0, 3]
    assert with_form(texts, {"type": "json_object"}) == [0, 2, 3, 4]
    assert with_form(texts, {"type": "grammar", "grammar": "x"}) is None
    beyond_json = ['{"c": NaN}', '{"c": -Infinity}', '{"c": 1}']
    assert with_form(beyond_json, {"type": "json_object"}) == [2]
    assert with_form(beyond_json, json_schema({"type": "object"})) == [2]


def nested(depth: int) -> dict[str, Any]:
    """A schema that takes 2^depth steps."""
    names = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**names, f"d{depth}": {"type": "object"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#"},
        {"type": 3},
        {"patternProperties": {"(a+)+$": {}}},
        {"properties": {"b": {"pattern": "("}}},
        {"properties": {"b": {"pattern": "^(a|a)*$"}}},
        nested(40),
        {"$schema": "http://json-schema.org/draft-07/schema#", **nested(40)},
        "no schema",
        None,
    ],
)
def test_a_schema_that_cannot_be_used_is_not(schema: Any) -> None:
    value = json.dumps({"b": "a" * 60 + "!"})
    assert with_form([value] * 4, json_schema(schema)) is None


def test_a_judgement_has_steps_enough_for_what_is_usual() -> None:
    schema = {"type": "array", "items": {"type": "object", "required": ["a"]}}
    value = json.dumps([{"a": i} for i in range(MAX_STEPS // 100)])
    assert with_form([value] * 8, json_schema(schema)) == list(range(8))


def forms(body: Mapping[str, Any], number: int) -> list[str]:
    return ['{"a": "x"}', '{"a": "x"}', '{"a": "x"}', '{"a": 1}'][: body.get("n") or 1]


def test_a_choice_has_the_form_where_there_is_one() -> None:
    with proxying(Script(answer=forms)) as proxy:
        reply = ask(proxy, response_format=json_schema(SCHEMA))
        none = ask(proxy, response_format=json_schema({"type": "array"}))
        unknown = ask(proxy, response_format=json_schema({"$ref": "http://x/"}))
    assert text(reply) == '{"a": 1}'
    assert (about(reply)["index"], about(reply)["valid"]) == (3, 1)
    assert (text(none), about(none)["valid"]) == ('{"a": "x"}', 0)
    assert (text(unknown), about(unknown)["valid"]) == ('{"a": "x"}', None)
    assert "response_format" in proxy.upstream.seen[0].body


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_without_text_answers_as_it_is(stream: bool) -> None:
    class Refusing(Script):
        def choice(self, text: str, index: int, chat: bool, has_logprobs: bool) -> dict[str, Any]:
            made = super().choice(text, index, chat, has_logprobs)
            made["message"] = {"role": "assistant", "content": None, "refusal": "No."}
            return made

    messages = [{"role": "user", "content": "p"}]
    with proxying(Refusing()) as proxy:
        reply = ask(proxy, "chat/completions", messages=messages, stream=stream)
    assert reply.status_code == 200
    assert reply.headers["x-discorank"] == "passed-through; reason=no-text"
    assert proxy.upstream.num_requests == 1
    if stream:
        first = json.loads(reply.text.split("\n\n")[0].removeprefix("data: "))
        assert first["choices"][0]["delta"]["refusal"] == "No."
    else:
        (choice,) = reply.json()["choices"]
        assert choice["message"]["refusal"] == "No."


ODD = ["", " \n", "naïve\u0301 \U0001f600\u2028", '"\\u0000\x01', "\x7f\ufeff"]


def test_a_text_is_unchanged_to_the_character() -> None:
    def odd(body: Mapping[str, Any], number: int) -> list[str]:
        return [ODD[int(str(body["prompt"]))]] * (body.get("n") or 1)

    with proxying(Script(answer=odd)) as proxy:
        for i, expected in enumerate(ODD):
            assert text(ask(proxy, prompt=str(i))) == expected
            stream = ask(proxy, prompt=str(i), stream=True)
            pieces = [line.removeprefix("data: ") for line in stream.content.decode().split("\n\n")]
            events = [json.loads(piece) for piece in pieces if piece not in ("[DONE]", "")]
            assert "".join(one["choices"][0]["text"] for one in events) == expected
