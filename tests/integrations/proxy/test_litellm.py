"""LiteLLM in front of serve, with the configuration of docs/serve.md: Responses and Messages are chosen as chats."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest

from benchmarks.support.scripted_replies import Script

from ...support.proxying import Proxy, proxying, send
from ...support.waiting import wait_until
from .recorded_calls import talking, weather

pytest.importorskip("litellm")
anthropic = pytest.importorskip("anthropic")

PAGE = Path(__file__).parents[3] / "docs" / "serve.md"
LITELLM = (sys.executable, "-c", "import litellm; litellm.run_server()")
KEY = "sk-a-key-of-this-test-0123456789"
MODEL = "my-model"
BOAT, WEATHER = "the red boat sailed", "It is 12 degrees in Oslo."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TEXTS: Any = ["a boat", BOAT, BOAT, "x"]
CALLS: Any = [weather("Bergen"), weather("Oslo"), weather("Oslo"), talking("I do not know")]
FORMED: Any = ["not JSON", '{"city": "Oslo"}', '{"city": "Oslo"}', '{"city": 3}']
SPOKEN: Any = ["Sorry.", WEATHER, WEATHER, "It is warm."]


def answer(body: Mapping[str, Any], number: int) -> list[Any]:
    """Four candidates, of which the second and the third agree; a result of a tool is answered in words."""
    choices = TEXTS
    if any(message["role"] == "tool" for message in body["messages"]):
        choices = SPOKEN
    elif body.get("tools"):
        choices = CALLS
    elif body.get("response_format"):
        choices = FORMED
    return list(choices[: body.get("n") or 1])


class Front(NamedTuple):
    """LiteLLM's proxy: clients of both protocols, and serve behind it."""

    openai: openai.OpenAI
    anthropic: Any
    proxy: Proxy


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("litellm")
    (written,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with proxying(Script(answer=answer)) as proxy:
        config = folder / "litellm.yaml"
        config.write_text(written.replace("http://localhost:8484/v1", proxy.url))
        log = folder / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                [*LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", free_port()],
                env={
                    **os.environ,
                    "LITELLM_MASTER_KEY": KEY,
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                },
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            address = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
            wait_until(lambda: bool(address.search(log.read_text())) or process.poll() is not None)
            found = address.search(log.read_text())
            assert found, log.read_text()
            with (
                openai.OpenAI(base_url=f"{found[1]}/v1", api_key=KEY, max_retries=0) as asking,
                anthropic.Anthropic(base_url=found[1], api_key=KEY, max_retries=0) as other,
            ):
                yield Front(asking, other, proxy)
        finally:
            process.kill()
            process.wait()


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


@pytest.fixture(autouse=True)
def _each_request_is_chosen(front: Front) -> Iterator[None]:
    """Every test makes one request, which goes upstream as a chat for four candidates and is chosen."""
    before, chosen = front.proxy.upstream.num_requests, num_chosen(front.proxy)
    yield
    seen = front.proxy.upstream.seen[before:]
    chats = [request.body for request in seen if request.path == "/v1/chat/completions"]
    assert [body["n"] for body in chats] == [4]
    assert {request.path for request in seen} <= {"/v1/chat/completions", "/v1/models"}
    assert num_chosen(front.proxy) == chosen + 1


def num_chosen(proxy: Proxy) -> int:
    counters = send("GET", proxy.url.replace("/v1", "/metrics")).text
    found = re.search(r'discorank_answers_total{kind="chosen",status="200"} (\d+)', counters)
    return 0 if found is None else int(found[1])


# Responses

FUNCTION: Any = {"type": "function", "name": "weather", "parameters": CITY, "strict": False}


def test_a_response(front: Front) -> None:
    assert front.openai.responses.create(model=MODEL, input="p").output_text == BOAT


def test_a_response_as_a_stream(front: Front) -> None:
    with front.openai.responses.stream(model=MODEL, input="p", instructions="Be short.") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == "".join(deltas) == BOAT


def test_a_response_that_calls_a_tool(front: Front) -> None:
    reply = front.openai.responses.create(model=MODEL, input="p", tools=[FUNCTION])
    (call,) = reply.output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Oslo"})


def test_a_response_that_streams_a_call(front: Front) -> None:
    with front.openai.responses.stream(model=MODEL, input="p", tools=[FUNCTION]) as stream:
        (call,) = stream.get_final_response().output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Oslo"}


def test_a_response_to_the_result_of_a_tool(front: Front) -> None:
    items: Any = [
        {"role": "user", "content": "p"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "O"}'},
        {"type": "function_call_output", "call_id": "c", "output": "12"},
    ]
    reply = front.openai.responses.create(model=MODEL, input=items, tools=[FUNCTION])
    assert reply.output_text == WEATHER


def test_a_response_in_json(front: Front) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "city", "schema": CITY}}
    reply = front.openai.responses.create(model=MODEL, input="p", text=form)
    assert json.loads(reply.output_text) == {"city": "Oslo"}


# Messages

SAID: Any = [{"role": "user", "content": "p"}]
TOOL: Any = {"name": "weather", "input_schema": CITY}


def create(front: Front, messages: Any = SAID, **more: Any) -> Any:
    return front.anthropic.messages.create(
        model=MODEL, max_tokens=50, messages=messages, **more
    ).content


def streamed(front: Front, **more: Any) -> Any:
    asked = {"model": MODEL, "max_tokens": 50, "messages": SAID, **more}
    with front.anthropic.messages.stream(**asked) as stream:
        return stream.get_final_message().content


def test_a_message(front: Front) -> None:
    (block,) = create(front, system="Be short.")
    assert block.text == BOAT


def test_a_message_as_a_stream(front: Front) -> None:
    (block,) = streamed(front)
    assert block.text == BOAT


def test_a_message_that_uses_a_tool(front: Front) -> None:
    (block,) = create(front, tools=[TOOL])
    assert (block.name, block.input) == ("weather", {"city": "Oslo"})


def test_a_message_that_streams_the_use_of_a_tool(front: Front) -> None:
    (block,) = streamed(front, tools=[TOOL])
    assert (block.name, block.input) == ("weather", {"city": "Oslo"})


def test_a_message_to_the_result_of_a_tool(front: Front) -> None:
    use = {"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "12"}
    turns = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    (block,) = create(front, [*SAID, *turns], tools=[TOOL])
    assert block.text == WEATHER


def test_a_message_in_json(front: Front) -> None:
    (block,) = create(front, output_config={"format": {"type": "json_schema", "schema": CITY}})
    assert json.loads(block.text) == {"city": "Oslo"}
