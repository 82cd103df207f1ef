"""What the server upstream says and does: codes and ids, log-probabilities, texts cut off, copies, the probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai
import pytest

from benchmarks.support.scripted_replies import Script
from discorank import decode
from discorank.cli.main import main
from discorank.integrations.proxy import candidate_draw
from discorank.integrations.proxy.candidate_draw import PAUSE_SECONDS, TIMES_FAILED, FailuresInARow
from discorank.integrations.proxy.decisions import MANY_COPIES
from discorank.integrations.server.error_details import is_fault_of_request
from discorank.metrics.errors import InputError
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, openai_client, proxying, send
from ...support.serving import Reply, Seen, Server, completion, serving

TEXTS = ["the red boat", "a green bus", "the red boat waits", "the boat waits here"]
BY_LOGPROB: Any = {"rerank": Reranker(features={"logprob": 1.0}, nbest=None)}


def ask(proxy: Proxy, **body: Any) -> Any:
    asked = {"model": "m", "messages": [{"role": "user", "content": "p"}], **body}
    return send("POST", f"{proxy.url}/chat/completions", json=asked)


def chat(texts: list[str], **more: Any) -> dict[str, Any]:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, **more}
        for i, text in enumerate(texts)
    ]
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}


def refusing(status: int, **error: Any) -> Reply:
    return Reply({"error": error}, status, {"x-request-id": "req-7"})


def test_code_param_and_request_id_of_an_error_are_kept() -> None:
    error = {
        "message": "maximum context length is 10",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
    with (
        serving(lambda seen, number: refusing(400, **error)) as server,
        proxying(url=server.url) as proxy,
        openai_client(proxy.url) as client,
        pytest.raises(openai.BadRequestError, match="maximum context length is 10") as raised,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "p"}])
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "messages")
    assert raised.value.request_id == "req-7"
    assert len(server.seen) == 1  # another number of candidates would not help


@pytest.mark.parametrize(
    ("status", "code", "type_"),
    [(404, "model_not_found", openai.NotFoundError), (429, "rate_limit", openai.RateLimitError)],
)
def test_codes_of_other_statuses(status: int, code: str, type_: Any) -> None:
    reply = refusing(status, message="no", code=code)
    with (
        serving(lambda seen, number: reply) as server,
        proxying(url=server.url, connection={"retries": 0}) as proxy,
        openai_client(proxy.url) as client,
        pytest.raises(type_) as raised,
    ):
        client.completions.create(model="m", prompt="p")
    assert (raised.value.code, raised.value.request_id) == (code, "req-7")


WRONG: dict[str, Any] = {
    "a type": {"message": "no", "type": "invalid_request_error"},
    "a value": {"message": "ValueError: temperature should be between 0 and 2"},
    "pydantic": {
        "message": "1 validation error for Request\ntop_k: Input should be a valid integer"
    },
    "an argument": {"message": "create() got an unexpected keyword argument 'top_q'"},
}


@pytest.mark.parametrize("error", WRONG.values(), ids=WRONG)
def test_a_request_that_is_wrong_is_asked_twice_at_most(error: Any) -> None:
    """With n, as that may be what is wrong, and without; whatever the status, and never again."""
    with (
        serving(lambda seen, number: Reply({"error": error}, 500)) as server,
        proxying(url=server.url, num_candidates=12) as proxy,
    ):
        reply = ask(proxy)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "refused_upstream"
    assert [seen.body["n"] for seen in server.seen] == [12, 1]


@pytest.mark.parametrize("message", ["CUDA out of memory", "the engine died", "timed out"])
def test_what_is_no_fault_of_the_request_is_tried_again(message: str) -> None:
    content = f'{{"error": {{"message": "{message}"}}}}'.encode()
    assert not is_fault_of_request(500, content)
    assert not is_fault_of_request(503, b'{"error": {"message": "ValueError: x"}}')
    assert not is_fault_of_request(429, b'{"error": {"type": "invalid_request_error"}}')


def test_a_server_that_refuses_n_gives_one_before_it_is_asked_for_the_rest() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        if seen.body["n"] > 1:
            return Reply({"error": {"message": "only n=1", "param": "n"}}, 400)
        return Reply(chat([TEXTS[number % 4]]), headers={"x-request-id": f"req-{number}"})

    with serving(answer) as server, proxying(url=server.url) as proxy:
        reply = ask(proxy)
    assert reply.headers["x-discorank"].startswith("chosen; n=4; distinct=4")
    assert [seen.body["n"] for seen in server.seen] == [4, 1, 1, 1, 1]
    usages = reply.json()["discorank"]["usage"]
    index = reply.json()["discorank"]["index"]
    (chosen,) = (usage for usage in usages if index in usage["candidates"])
    assert reply.headers["x-request-id"] == chosen["request_id"]


def test_log_probabilities_that_are_asked_for_are_those_of_the_chosen() -> None:
    def answer(body: Mapping[str, Any], number: int) -> list[str]:
        return TEXTS[: body["n"]]

    best = decode(TEXTS, "chrf").text
    with (
        proxying(Script(answer=answer)) as proxy,
        openai_client(proxy.url) as client,
    ):
        messages: Any = [{"role": "user", "content": "p"}]
        reply = client.chat.completions.create(
            model="m", messages=messages, logprobs=True, top_logprobs=2
        )
        chunks = list(
            client.chat.completions.create(model="m", messages=messages, logprobs=True, stream=True)
        )
        text = client.completions.create(model="m", prompt="p", logprobs=1)
        plain = client.chat.completions.create(model="m", messages=messages)
        seen = [request.body for request in proxy.upstream.seen]
    assert reply.choices[0].message.content == best
    assert reply.choices[0].logprobs is not None
    assert [token.token for token in reply.choices[0].logprobs.content or []] == best.split()
    assert reply.model_dump()["discorank"]["n"] == 4
    assert (seen[0]["logprobs"], seen[0]["top_logprobs"], seen[0]["n"]) == (True, 2, 4)
    streamed = chunks[0].choices[0].logprobs
    assert streamed is not None
    assert [token.token for token in streamed.content or []] == best.split()
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.tokens == best.split()
    assert plain.choices[0].logprobs is None


def test_log_probabilities_that_are_asked_for_and_read_come_back() -> None:
    with proxying(Script(), deciders=BY_LOGPROB) as proxy:
        asked = ask(proxy, logprobs=True).json()["choices"][0]
        kept = ask(proxy).json()["choices"][0]
    assert asked["logprobs"]["content"]
    assert kept["logprobs"] is None


def wants_top(seen: Seen, number: int) -> Reply:
    """As llama-cpp-python: log-probabilities of chats where top_logprobs is given, and none without."""
    texts = TEXTS[: seen.body.get("n") or 1]
    if "top_logprobs" not in seen.body:
        return Reply(chat(texts, logprobs=None))
    return Reply(chat(texts, logprobs={"content": [{"token": "x", "logprob": -1.0}]}))


def test_a_request_with_log_probabilities_keeps_what_it_asks_for() -> None:
    with serving(wants_top) as server, proxying(url=server.url, deciders=BY_LOGPROB) as proxy:
        assert ask(proxy, logprobs=True).json()["choices"][0]["logprobs"]["content"]
        assert ask(proxy, logprobs=True, top_logprobs=3).status_code == 200
    assert [seen.body.get("top_logprobs") for seen in server.seen] == [1, 3]


def test_a_request_without_a_model_is_sent_without_one() -> None:
    with serving(wants_top) as server, proxying(url=server.url, deciders=BY_LOGPROB) as proxy:
        messages = [{"role": "user", "content": "p"}]
        reply = send("POST", f"{proxy.url}/chat/completions", json={"messages": messages})
    assert reply.status_code == 200
    assert all("model" not in seen.body for seen in server.seen)


def test_without_log_probabilities_one_request_is_paid() -> None:
    with (
        serving(lambda seen, number: Reply(chat(TEXTS[: seen.body["n"]]))) as server,
        proxying(url=server.url, deciders=BY_LOGPROB) as proxy,
    ):
        replies = [ask(proxy) for _ in range(3)]
        lacking = [line for line in proxy.reports if "no log-probabilities" in line]
    assert [reply.status_code for reply in replies] == [503] * 3
    assert all("no log-probabilities" in reply.json()["error"]["message"] for reply in replies)
    assert replies[2].headers["retry-after"] == "60"
    assert [seen.body["n"] for seen in server.seen] == [4]
    assert len(lacking) == 1


def test_an_upstream_without_log_probabilities_is_tried_again_by_one_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidate_draw, "PAUSE_SECONDS", 0.0)

    def answer(seen: Seen, number: int) -> Reply:
        return wants_top(seen, number) if number > 1 else Reply(chat(TEXTS[: seen.body["n"]]))

    with serving(answer) as server, proxying(url=server.url, deciders=BY_LOGPROB) as proxy:
        assert [ask(proxy).status_code for _ in range(4)] == [503, 503, 200, 200]
    assert [seen.body["n"] for seen in server.seen] == [4, 1, 1, 3, 4]


def test_what_fails_is_tried_again_after_a_while_by_one_at_a_time() -> None:
    now = [0.0]
    failures = FailuresInARow(1, lambda: now[0])
    assert failures.begin()
    failures.note(is_failure=True)
    assert not failures.begin()
    now[0] = PAUSE_SECONDS
    assert [failures.begin(), failures.begin()] == [True, False]
    failures.note(is_failure=False)
    now[0] = 2 * PAUSE_SECONDS
    for _ in range(TIMES_FAILED):  # what works as a rule fails by chance
        assert failures.begin()
        failures.note(is_failure=True)
    assert not failures.begin()


def test_calls_of_tools_need_no_log_probabilities() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    replies = {**chat([]), "choices": [{"index": i, "message": message} for i in range(4)]}
    tools = [{"type": "function", "function": {"name": "f"}}]
    with (
        serving(lambda seen, number: Reply(replies)) as server,
        proxying(url=server.url, deciders=BY_LOGPROB) as proxy,
    ):
        reply = ask(proxy, tools=tools)
    assert reply.json()["choices"][0]["message"]["tool_calls"] == [call]


def cut_off(body: Mapping[str, Any], number: int) -> list[Any]:
    texts = ["the red boat waits at", "the red boat waits", "the red boat waits at", "a bus"]
    ends = ["length", "stop", "length", "stop"]
    return [
        {"message": {"role": "assistant", "content": text}, "finish_reason": end}
        for text, end in zip(texts, ends, strict=True)
    ]


def test_finished_candidates_come_before_those_cut_off() -> None:
    with proxying(Script(answer=cut_off)) as proxy:
        reply = ask(proxy)
    assert reply.json()["choices"][0]["message"]["content"] == "the red boat waits"
    assert reply.json()["discorank"]["unfinished"] == 2
    assert reply.headers["x-discorank"] == "chosen; n=4; distinct=2; rounds=1; unfinished=2"


def test_where_all_are_cut_off_one_of_them_is_chosen() -> None:
    def answer(body: Mapping[str, Any], number: int) -> list[Any]:
        return [{**choice, "finish_reason": "length"} for choice in cut_off(body, number)]

    with proxying(Script(answer=answer)) as proxy:
        reply = ask(proxy)
    assert reply.json()["choices"][0]["finish_reason"] == "length"
    assert reply.headers["x-discorank"] == "chosen; n=4; distinct=3; rounds=1"


def test_further_keys_go_with_what_is_chosen() -> None:
    request = '{"top_k": 5, "generation_config": "{}"}'
    with proxying(Script(), request=request) as proxy:
        ask(proxy, top_k=9)
        ask(proxy, temperature=0)
        chosen, passed = (seen.body for seen in proxy.upstream.seen)
    assert (chosen["top_k"], chosen["generation_config"]) == (9, "{}")
    assert "generation_config" not in passed
    for wrong, message in (('{"n": 2}', "request.n"), ("[]", "found a list")):
        with pytest.raises(InputError, match=message), proxying(request=wrong):
            pass


def test_tokens_that_are_no_numbers_are_for_upstream_to_refuse() -> None:
    with proxying(Script()) as proxy:
        assert ask(proxy, max_tokens=False, max_completion_tokens=[]).status_code == 200
    assert proxy.upstream.seen[0].body["max_completion_tokens"] == []


def test_copies_are_counted_and_reported() -> None:
    def same(body: Mapping[str, Any], number: int) -> list[str]:
        return ["the same"] * body["n"]

    with proxying(Script(answer=same)) as proxy:
        for _ in range(2 * MANY_COPIES):
            ask(proxy)
        (line,) = proxy.reports
        counters = send("GET", f"{proxy.url.removesuffix('/v1')}/metrics").text
    assert f"discorank_copies_total {2 * MANY_COPIES}.0" in counters
    assert "do_sample" in line


# the probe of commands


def greedy(seen: Seen, number: int) -> Reply:
    """As `transformers serve`: one text, whatever the temperature."""
    texts = ["It was a sunny day."]
    return Reply(chat(texts) if "chat" in seen.path else completion(texts))


def generating(server: Server, tmp_path: Any, *more: str) -> list[str]:
    source = tmp_path / "in.txt"
    source.write_text("a\nb\n")
    words = ["generate", str(source), "--from", "text", "--backend", "server", "-n", "4"]
    words += ["--base-url", server.url, "--generator", "m", "--sampling", "ancestral", "--quiet"]
    return [*words, "-o", str(tmp_path / "out.jsonl"), *more]


def test_copies_are_refused_before_they_are_paid(tmp_path: Any, capsys: Any) -> None:
    with serving(greedy) as server:
        assert main(generating(server, tmp_path)) == 2
        assert len(server.seen) <= 8
        assert "do_sample" in capsys.readouterr().err
        assert main(generating(server, tmp_path, "--skip-probe")) == 0


def test_log_probabilities_of_chats_come_in_the_form_that_brings_them(
    tmp_path: Any, capsys: Any
) -> None:
    with serving(wants_top) as server:
        assert main(generating(server, tmp_path, "--chat", "--logprobs")) == 0
    written = (tmp_path / "out.jsonl").read_text()
    assert written.count('"logprob": -1.0') == 8

    def without(seen: Seen, number: int) -> Reply:
        return Reply(chat(TEXTS[: seen.body["n"]]))

    other = tmp_path / "other"
    other.mkdir()
    with serving(without) as server:
        assert main(generating(server, other, "--chat", "--logprobs")) == 2
        paid = sum(seen.body["n"] for seen in server.seen)
    assert (
        "gives no log-probabilities of its chats (asked by logprobs or" in capsys.readouterr().err
    )
    assert paid < 12


def test_seeds_that_bring_other_texts_are_warned_of(tmp_path: Any) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return Reply(completion([f"text {number} {i}" for i in range(seen.body["n"])]))

    told = pytest.warns(UserWarning, match="does not repeat a text for its seed")
    with serving(answer) as server, told:
        assert main(generating(server, tmp_path)) == 0


def test_the_table_of_a_probe(tmp_path: Any, capsys: Any) -> None:
    with serving(wants_top) as server:
        assert main(generating(server, tmp_path, "--chat", "--probe")) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == ["n", "sampling", "seed", "log-probabilities"]
    assert "4 of 4 differ" in lines["sampling"]
    assert lines["log-probabilities"].endswith("by logprobs and top_logprobs")
