"""Before a llama-cpp-python server with the bundled SmolLM2: as it answered once, or as one answers now.

The replies in ``golden/llama_cpp_replies.json`` were given by such a server to these tests. To ask one now:

    pip install 'llama-cpp-python[server]'
    python -m llama_cpp.server --model SmolLM2-135M-Instruct.Q4_1.gguf --model_alias smollm2 --n_ctx 128 \\
        --logits_all true --interrupt_requests false --port 8000
    DISCORANK_LLAMA_SERVER=http://localhost:8000 pytest tests/integrations/proxy/test_llama_cpp_server.py

With ``DISCORANK_RECORD=1`` besides, its replies are written anew. It ignores `n`, gives log-probabilities of chats only
with `top_logprobs`, and gives each token of a prompt the log-probability of the place after it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from discorank.cli.main import main
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, openai_client, proxying
from ...support.recorded_server import Recording
from ...support.serving import Server, serving

REPLIES = Path(__file__).parents[2] / "golden" / "llama_cpp_replies.json"
ABOUT = "llama-cpp-python 0.3.36, SmolLM2-135M-Instruct.Q4_1.gguf"
SAID: list[Any] = [{"role": "user", "content": "Name a colour."}]
ASKED: dict[str, Any] = {"model": "smollm2", "messages": SAID, "max_tokens": 8, "temperature": 1.0}
ARGUMENTS = {
    "type": "object",
    "properties": {"colour": {"type": "string", "maxLength": 5}},
    "required": ["colour"],
}
PAINT: Any = {"type": "function", "function": {"name": "paint", "parameters": ARGUMENTS}}


@pytest.fixture(scope="module")
def llama() -> Iterator[Server]:
    url = os.environ.get("DISCORANK_LLAMA_SERVER")
    recording = Recording(ABOUT) if url else Recording.of_file(REPLIES)
    with serving(recording.kept_from(url) if url else recording.again) as server:
        yield server
    if url and os.environ.get("DISCORANK_RECORD"):
        recording.write(REPLIES)


@pytest.fixture
def proxy(llama: Server) -> Iterator[Proxy]:
    llama.seen.clear()
    deciders: Any = {
        "chrf": MBRDecoder(utility="chrf", nbest=None),
        "rerank": Reranker(features={"logprob": 1.0}, nbest=None),
    }
    with proxying(url=llama.url, deciders=deciders, num_candidates=3) as running:
        yield running


@pytest.fixture
def asking(proxy: Proxy) -> Iterator[openai.OpenAI]:
    with openai_client(proxy.url) as made:
        yield made


def test_a_chat_is_chosen_among_three_that_are_asked_for_one_by_one(
    asking: openai.OpenAI, llama: Server
) -> None:
    raw = asking.chat.completions.with_raw_response.create(
        **ASKED, seed=1, extra_body={"discorank": {"explain": True}}
    )
    assert raw.headers["x-discorank"].startswith("chosen; n=3; distinct=3")
    answer = raw.parse()
    drawn = [one["text"] for one in answer.model_dump()["discorank"]["candidates"]]
    assert answer.choices[0].message.content == drawn[0]
    assert [seen.body["n"] for seen in llama.seen] == [3, 1, 1]
    assert len({seen.body["seed"] for seen in llama.seen}) == 3
    again = asking.chat.completions.create(**ASKED, seed=1)
    assert again.choices[0].message.content == answer.choices[0].message.content


def test_n_choices(asking: openai.OpenAI) -> None:
    answer = asking.chat.completions.create(**ASKED, seed=2, n=2)
    assert len({choice.message.content for choice in answer.choices}) == 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 8


def test_streams(asking: openai.OpenAI) -> None:
    plain = asking.chat.completions.create(**ASKED, seed=1)
    events = list(asking.chat.completions.create(**ASKED, seed=1, stream=True))
    pieces = [choice.delta.content or "" for event in events for choice in event.choices]
    assert "".join(pieces) == plain.choices[0].message.content
    greedy = {**ASKED, "temperature": 0}
    passed = list(asking.chat.completions.create(**greedy, stream=True))
    pieces = [choice.delta.content or "" for event in passed for choice in event.choices]
    assert len(list(filter(None, pieces))) > 3  # as the server sends them
    whole = asking.chat.completions.create(**greedy)
    assert "".join(pieces) == whole.choices[0].message.content


def test_a_choice_by_log_probability(asking: openai.OpenAI, llama: Server) -> None:
    ours = {"discorank": {"utility": "rerank", "explain": True}}
    answer = asking.chat.completions.create(**ASKED, seed=3, extra_body=ours)
    candidates = answer.model_dump()["discorank"]["candidates"]
    assert all(one["logprob"] < 0 for one in candidates)
    best = max(candidates, key=lambda one: one["logprob"])
    assert answer.choices[0].message.content == best["text"]
    assert {seen.body["top_logprobs"] for seen in llama.seen} == {1}


def test_json_and_tools(asking: openai.OpenAI) -> None:
    json_only = asking.chat.completions.create(
        **{**ASKED, "max_tokens": 24}, seed=1, response_format={"type": "json_object"}
    )
    assert isinstance(json.loads(json_only.choices[0].message.content or ""), dict)
    assert json_only.model_dump()["discorank"]["valid"] >= 1
    chosen: Any = {"type": "function", "function": {"name": "paint"}}
    raw = asking.chat.completions.with_raw_response.create(
        **{**ASKED, "max_tokens": 32}, seed=1, tools=[PAINT], tool_choice=chosen
    )
    assert "; calls=3" in raw.headers["x-discorank"]
    (call,) = raw.parse().choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "paint"
    assert len(json.loads(call.function.arguments)["colour"]) <= 5


def test_calls_that_are_cut_off_never_win(asking: openai.OpenAI) -> None:
    """The server says `tool_calls` of them, though their arguments are no JSON."""
    chosen: Any = {"type": "function", "function": {"name": "paint"}}
    with pytest.raises(openai.InternalServerError, match="none of 3 candidates") as raised:
        asking.chat.completions.create(
            **{**ASKED, "max_tokens": 2}, seed=1, tools=[PAINT], tool_choice=chosen
        )
    assert raised.value.code == "no_choice"


def test_a_wrong_parameter_is_the_request_s_fault(asking: openai.OpenAI, llama: Server) -> None:
    """The server answers it with 500."""
    asked: Any = {**ASKED, "top_p": "x"}
    with pytest.raises(openai.BadRequestError, match="validation error"):
        asking.chat.completions.create(**asked)
    assert len(llama.seen) == 2


ONE_TOKEN = ("--form", "echo-one")  # the server takes 0 tokens for as many as there is room for


def options(llama: Server) -> list[str]:
    return ["--backend", "server", "--base-url", llama.url, "--generator", "smollm2"]


def test_the_probe(llama: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logprobs", *options(llama), "--probe"]) == 0
    table = capsys.readouterr().out.splitlines()
    rows = [re.split(r"  +", line) for line in table]
    holds = {what: answer for what, answer, _ in rows}
    assert [holds[what] for what in ("n", "sampling", "seed")] == ["no", "yes", "yes"], table
    findings = {what: finding for what, _, finding in rows}
    assert "wrong: " in findings["prompts by echo-one"]


def test_log_probabilities_of_prompts_are_refused(
    llama: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": "1", "source": "Name a colour.", "candidates": ["Red.", "Blue."]}\n')
    out = tmp_path / "out.jsonl"
    words = ["--prompt", "{source}", "-o", str(out)]
    assert main(["logprobs", str(lists), *options(llama), *ONE_TOKEN, *words]) == 2
    assert "wrong: " in capsys.readouterr().err
    assert not out.exists()


def test_generate_in_chats_with_log_probabilities(llama: Server, tmp_path: Path) -> None:
    inputs, out = tmp_path / "inputs.jsonl", tmp_path / "out.jsonl"
    inputs.write_text('{"id": "1", "source": "Name a colour."}\n')
    words = ["--chat", "--logprobs", "-n", "3", "--max-new-tokens", "8", "-o", str(out), "--quiet"]
    assert main(["generate", str(inputs), *options(llama), *words]) == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    assert len(row["candidates"]) == 3
    assert all(candidate["logprob"] < 0 for candidate in row["candidates"])
