"""The door as a whole: memory, connections and cost are bounded, and nothing from outside is an internal error."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import resource
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.support.scripted_replies import Script
from discorank.integrations.proxy import app, connections
from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.connections import body_of, max_connections
from discorank.integrations.proxy.counters import LimitedReport
from discorank.integrations.proxy.decisions import ChoosingThread
from discorank.integrations.proxy.questions import bounded, read_question
from discorank.integrations.proxy.settings import DrawingSettings
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, proxying, send
from ...support.waiting import PATIENCE_SECONDS, wait_until

KEY = "sk-upstream-0123456789"
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"


def ask(proxy: Proxy, path: str = "completions", /, **body: Any) -> httpx2.Response:
    if path == "completions":
        body = {"model": "m", "prompt": "p", **body}
    return send("POST", f"{proxy.url}/{path}", json=body)


def refusal(reply: httpx2.Response) -> tuple[int, str | None, str]:
    """Status, the key and the message of an error."""
    error = reply.json()["error"]
    return reply.status_code, error["param"], error["message"]


def connected(proxy: Proxy) -> socket.socket:
    address = urlsplit(proxy.url)
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE_SECONDS)


# memory


def test_bodies_that_stall_take_no_more_than_their_share() -> None:
    with use_limits(memory_bytes=4_000_000), proxying(door={"body_seconds": 5.0}) as proxy:
        lines = [connected(proxy) for _ in range(8)]
        for line in lines:
            line.sendall(HEAD % 1_000_000 + b" " * 300_000)
        # three of them have 1.2 MB each; the others are told to come again
        refused = [line for line in lines if b" 429 " in _answer(line)]
        assert len(refused) >= 5
        shown = send("GET", proxy.url.replace("/v1", "/metrics")).text
        (kept,) = [line for line in shown.splitlines() if line.startswith("discorank_open_bytes ")]
        assert float(kept.split()[1]) <= 4_000_000
        assert ask(proxy).status_code == 200
        for line in lines:
            line.close()
        wait_until(lambda: proxy.server._app._room.num_bytes == 0)


def _answer(line: socket.socket) -> bytes:
    """What comes over a connection, nothing if nothing does in a moment."""
    line.settimeout(0.5)
    try:
        return line.recv(4096)
    except (TimeoutError, ConnectionError):
        return b""


def test_memory_is_that_of_values_too() -> None:
    content = json.dumps({"model": "m", "prompt": "p", "x": [[]] * 1000}).encode()
    with use_limits(memory_bytes=200_000), proxying() as proxy:
        reply = send("POST", f"{proxy.url}/completions", content=content)
        assert refusal(reply)[0] == 413
        assert ask(proxy).status_code == 200


@given(pieces=st.lists(st.binary(max_size=50), max_size=5), open_bytes=st.integers(1, 2000))
def test_what_is_taken_is_given_back(pieces: list[bytes], open_bytes: int) -> None:
    async def coming() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    refused: list[int] = []

    async def read() -> None:
        room = connections.RequestRoom(1, 0)
        try:
            with room.request() as share:
                content = await body_of(coming(), share, 1.0)
                assert content == b"".join(pieces)
                assert 4 * len(content) <= room.num_bytes <= open_bytes
        except ApiError as error:  # it is more than there is for all
            refused.append(error.status)
        assert (room.num_bytes, room.num_requests) == (0, 0)

    with use_limits(memory_bytes=open_bytes):
        asyncio.run(read())
    assert refused in ([], [413])


@pytest.mark.parametrize("text", ["\U0001f600" + "x" * 100, "\u00e9" + "x" * 100])
def test_wide_characters_take_more(text: str) -> None:
    room = connections.RequestRoom(1, 0)

    async def taken(content: bytes) -> int:
        async def coming() -> AsyncIterator[bytes]:
            yield content

        with room.request() as share:
            await body_of(coming(), share, 1.0)
            return room.num_bytes

    plain = asyncio.run(taken(b"x" * 100))
    for content in (text.encode(), json.dumps(text).encode()):
        assert asyncio.run(taken(content)) == 8 * len(content) > 2 * plain


def test_the_key_comes_before_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN", "own-key")
    with (
        proxying(door={"access_key_variable": "OWN"}) as proxy,
        closing(connected(proxy)) as line,
    ):
        line.sendall(HEAD % 1_000_000)
        assert b" 401 " in line.recv(4096)


def test_a_room_comes_before_the_body() -> None:
    with proxying(door={"max_open": 1, "max_waiting": 1}) as proxy:
        lines = [connected(proxy) for _ in range(3)]
        for line in lines:
            line.sendall(HEAD % 1_000_000 + b"{")
        assert [b" 429 " in _answer(line) for line in lines] == [False, False, True]
        for line in lines:
            line.close()
        wait_until(lambda: ask(proxy).status_code == 200)


def test_long_json_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read_question(*arguments)

    monkeypatch.setattr(app, "read_question", noted)
    with proxying() as proxy:
        assert ask(proxy, x="y" * 100_000).status_code == 200
        assert ask(proxy).status_code == 200
    assert [name.startswith("discorank-json") for name in threads] == [True, False]


# connections


def test_idle_connections_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda *arguments: 8)
    with proxying() as proxy:
        lines = [connected(proxy) for _ in range(60)]
        assert send("GET", proxy.url.replace("/v1", "/healthz")).status_code == 200
        assert len(proxy.server._server.server_state.connections) <= 8
        assert ask(proxy).status_code == 200
        for line in lines:
            line.close()
        assert proxy.reports == []


CHUNKED = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("chunk", "count", "status"),
    [(b"x", 50_000, b"400"), (b" " * 2000, 400, b"200"), (b" ", 200, b"200")],
)
def test_a_body_of_very_small_chunks_is_refused(chunk: bytes, count: int, status: bytes) -> None:
    last = b'{"model": "m", "prompt": "p"}'
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in [*[chunk] * count, last])
    with proxying() as proxy, closing(connected(proxy)) as line:
        with suppress(ConnectionError):
            line.sendall(CHUNKED + pieces + b"0\r\n\r\n")
        with suppress(ConnectionResetError):
            assert line.recv(4096).split()[1] == status
        assert ask(proxy).status_code == 200
        assert proxy.reports == []


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx: ",
        CHUNKED + b"1;",
        CHUNKED + b"1\r\n{\r\n0\r\nx: ",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\nx: ",
    ],
    ids=["address", "header", "extension", "trailer", "second"],
)
def test_what_comes_beside_a_body_is_bounded(start: bytes) -> None:
    with proxying() as proxy, closing(connected(proxy)) as line:
        sent = 0
        with suppress(ConnectionError):
            line.sendall(start)
            while sent < 1 << 24:
                line.sendall(b"a" * 4096)
                sent += 4096
        assert sent < 1 << 24
        assert ask(proxy).status_code == 200
        assert proxy.reports == []


def test_what_is_no_http_behind_an_answer_is_no_error_of_ours() -> None:
    with proxying() as proxy, closing(connected(proxy)) as line:
        line.sendall(b"PUT /v1/x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        assert b" 405 " in line.recv(4096)
        line.sendall(b"no chunk\r\n")
        with suppress(ConnectionError):
            while line.recv(4096):
                pass
        assert proxy.reports == []


def test_an_answer_counts_until_it_is_taken() -> None:
    texts = ["x" * 8_000_000]
    with proxying(Script(answer=lambda body, number: texts)) as proxy:
        content = json.dumps({"model": "m", "prompt": "p", "temperature": 0}).encode()
        with closing(connected(proxy)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(HEAD % len(content) + content)
            room = proxy.server._app._room
            wait_until(lambda: room.num_bytes > 4 * 8_000_000 and room.num_open == 0)
            # its memory counts, but others find a place
            assert room.num_requests == 1
        wait_until(lambda: room.num_bytes == 0)


def test_a_choice_that_is_dropped_while_it_waits_holds_no_texts() -> None:
    gate = threading.Event()

    class Texts:
        """What a choice is made among."""

    def waiting(texts: Texts | None) -> Generator[Any, Any, None]:
        gate.wait(PATIENCE_SECONDS)
        yield from ()

    async def dropped() -> None:
        choosing = ChoosingThread(LocalEngine())
        choosing.start([])
        first = asyncio.create_task(choosing.outcomes([partial(waiting, None)]))
        texts = Texts()
        held = weakref.ref(texts)
        second = asyncio.create_task(choosing.outcomes([partial(waiting, texts)] * 1000))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        del texts, second
        gc.collect()
        assert choosing.num_waiting >= 1000
        assert held() is None
        gate.set()
        assert await first == [None]
        choosing.stop(PATIENCE_SECONDS)

    asyncio.run(dropped())


def test_a_long_request_is_sent_whole_each_time() -> None:
    prompt = "x" * 500_000 + "\u00e9"
    with proxying(Script(ignores_n=True), num_candidates=3) as proxy:
        assert ask(proxy, prompt=prompt).status_code == 200
        assert [seen.body["prompt"] for seen in proxy.upstream.seen] == [prompt] * 3
        lengths = [seen.headers["content-length"] for seen in proxy.upstream.seen]
        assert all(int(length) > 500_000 for length in lengths)


def test_replies_find_no_more_room_than_there_is() -> None:
    with (
        use_limits(memory_bytes=1_000_000),
        proxying(Script(answer=lambda body, number: ["x" * 300_000])) as proxy,
    ):
        for more in ({}, {"temperature": 0}):
            assert refusal(ask(proxy, **more))[0] == 413
        assert proxy.server._app._room.num_bytes == 0


def test_who_is_worked_for_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda *arguments: 4)
    gate, replies = threading.Event(), []
    with proxying(Script(gate=gate)) as proxy:
        threads = [
            threading.Thread(target=lambda: replies.append(ask(proxy).status_code))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: proxy.upstream.num_open == 4)
        with pytest.raises(httpx2.TransportError):  # no connection is idle
            ask(proxy)
        gate.set()
        for thread in threads:
            thread.join()
        assert ask(proxy).status_code == 200
    assert replies == [200] * 4


@pytest.mark.parametrize(
    ("soft", "hard", "connections"),
    [
        (1024, 1024, 1024 - 256 - 128),
        (1024, 4096, 4 * 512 + 256),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 4 * 512 + 256),
        (256, resource.RLIM_INFINITY, 4 * 512 + 256),
    ],
)
def test_connections_are_what_descriptors_allow(
    soft: int, hard: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: raised.append(both))
    assert max_connections(512, 256) == connections
    assert all(one <= hard or hard < 0 for one, _ in raised)


def test_too_few_descriptors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (512, 512))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: None)
    with pytest.raises(InputError, match=r"512.*928.*ulimit -n"):
        max_connections(512, 256)


def test_lines_are_limited_in_rate() -> None:
    lines: list[str] = []
    now = [0.0]
    report = LimitedReport(lines.append, max_lines=3, seconds=60, clock=lambda: now[0])
    for number in range(10):
        report(str(number))
    assert lines == ["0", "1", "2"]
    now[0] = 61.0
    report("later")
    assert lines[3:] == ["discorank: 7 more lines were left out", "later"]


def test_a_line_that_comes_again_is_reported_by_number() -> None:
    lines: list[str] = []
    now = [0.0]
    report = LimitedReport(lines.append, max_lines=2, seconds=60, clock=lambda: now[0])
    for line in ("down", "down", "other", "down"):
        report(line)
    assert lines == ["down", "other"]
    now[0] = 61.0
    report("down")
    assert lines[2:] == ["down (2 more of the same)"]
    report.end()
    assert lines[3:] == ["down (1 more of the same)"]
    now[0] = 122.0
    report.end()
    report("down")
    assert lines[4:] == ["down"]


# cost

LIMITS: dict[str, Any] = {"max_n": 16, "max_candidate_tokens": 100, "max_request_tokens": 800}
TOO_DEAR: list[tuple[str, dict[str, Any], str]] = [
    ("completions", {"n": 500, "logprobs": 1}, "n"),
    ("completions", {"n": 500}, "n"),
    ("chat/completions", {"n": 500, "tools": [{"type": "function"}]}, "n"),
    ("completions", {"best_of": 500}, "best_of"),
    ("completions", {"num_return_sequences": 500}, "num_return_sequences"),
    ("completions", {"prompt": ["p"] * 200}, "prompt"),
    ("completions", {"prompt": ["p"] * 4, "n": 5}, "n"),
    ("completions", {"max_completion_tokens": 5, "max_tokens": 100_000}, "max_tokens"),
    ("completions", {"temperature": 0, "max_new_tokens": 101}, "max_new_tokens"),
    ("completions", {"min_tokens": 5000}, "min_tokens"),
    ("completions", {"temperature": 0, "min_tokens": 5000}, "min_tokens"),
    ("completions", {"options": {"num_predict": 5000}}, "num_predict"),
    ("completions", {"Options": {"NUM_PREDICT": 5000}}, "NUM_PREDICT"),
    ("completions", {"max_tokens": 5, "MAX_TOKENS": 5000}, "MAX_TOKENS"),
    ("completions", {"temperature": 0, "max_to\u212aens": 5000}, "max_to\u212aens"),
    ("completions", {"temperature": 0, "max_tokens": 0}, "max_tokens"),
    ("completions", {"max_tokens": 100, "n": 16}, "max_tokens"),
    ("completions", {"max_tokens": 100, "n": 9, "prompt_logprobs": 1}, "max_tokens"),
    ("completions", {"temperature": 0, "max_tokens": "1000"}, "max_tokens"),
    ("completions", {"temperature": 0, "max_tokens": -1}, "max_tokens"),
    ("responses", {"input": "x", "max_output_tokens": 1_000_000_000}, "max_output_tokens"),
    ("responses", {"input": "x", "store": True, "max_output_tokens": 101}, "max_output_tokens"),
    ("messages", {"messages": [], "max_tokens": 1_000_000_000}, "max_tokens"),
    ("messages", {"container": "c", "max_tokens": 101}, "max_tokens"),
    ("messages", {"thinking": {"type": "enabled", "budget_tokens": 101}}, "budget_tokens"),
]


@pytest.fixture(scope="module")
def careful() -> Iterator[Proxy]:
    with proxying(**LIMITS) as proxy:
        yield proxy


def test_what_costs_too_much_goes_nowhere(careful: Proxy) -> None:
    before = careful.upstream.num_requests
    for path, body, key in TOO_DEAR:
        status, param, message = refusal(ask(careful, path, **{"messages": [], **body}))
        assert (status, param) == (400, key), message
    assert careful.upstream.num_requests == before


numbers = st.integers(-2, 2000) | st.sampled_from([None, 1.5, "7", True])
requests = st.dictionaries(
    st.sampled_from(["n", "best_of", "max_tokens", "max_completion_tokens", "min_tokens"]), numbers
)


@given(
    body=requests,
    num_prompts=st.integers(1, 20),
    most=st.integers(1, 20),
    tokens=st.none() | st.integers(1, 200),
    budget=st.none() | st.integers(1, 3000),
)
def test_what_passes_is_within_all_bounds(
    body: dict[str, Any],
    num_prompts: int,
    most: int,
    tokens: int | None,
    budget: int | None,
) -> None:
    drawing = DrawingSettings(
        num_candidates=most,
        max_candidate_tokens=tokens,
        max_request_tokens=budget,
    )
    asked = {**body, "prompt": ["p"] * num_prompts}
    try:
        passed = bounded(asked, "completions", drawing)
    except ApiError:
        return
    texts = num_prompts * max([1, *(passed.get(key) or 0 for key in ("n", "best_of"))])
    assert texts <= most
    if tokens is None and budget is None:
        assert passed == asked
        return
    names = ("max_tokens", "max_completion_tokens", "min_tokens")
    found = [passed[name] for name in names if passed.get(name) is not None]
    assert max(found) <= (tokens or math.inf)
    longest = [passed[name] for name in names[:2] if passed.get(name) is not None]
    assert texts * max(longest) <= max(budget or math.inf, texts)
    assert texts * max(found) <= max(budget or math.inf, texts)
    assert {key: passed[key] for key in asked if asked[key] is not None} == {
        key: value for key, value in asked.items() if value is not None
    }


@pytest.mark.parametrize("more", [{}, {"temperature": 0}, {"n": 3, "logprobs": 1}])
@pytest.mark.parametrize("key", ["num_predict", "MAX_TOKENS", "max_new_tokens"])
def test_a_key_that_a_server_may_not_know_is_no_bound(
    careful: Proxy, key: str, more: dict[str, Any]
) -> None:
    assert ask(careful, **{key: 7}, **more).status_code == 200
    assert careful.upstream.seen[-1].body["max_tokens"] == 7


def test_paths_that_pass_are_a_list(careful: Proxy) -> None:
    for path in ("files", "models/a/b", "fine_tuning/jobs", "audio/speech"):
        status, _, message = refusal(ask(careful, path, x=1))
        assert (status, "--allow-path" in message) == (404, True)
    assert send("GET", f"{careful.url}/models").status_code == 200
    with proxying(door={"allow_path": ("embed*", "models/*")}) as proxy:
        assert ask(proxy, "embeddings", input="x").status_code == 200
        assert refusal(ask(proxy))[0] == 404
        assert send("GET", f"{proxy.url}/models").status_code == 404


def test_other_protocols_pass_to_an_upstream_that_knows_them(careful: Proxy) -> None:
    for path, body in (
        ("responses", {"model": "m", "input": "x", "store": True, "max_output_tokens": 9}),
        ("messages", {"model": "m", "messages": [], "max_tokens": 9, "a_new_key": 1}),
    ):
        reply = send("POST", f"{careful.url}/{path}", json=body)
        assert reply.status_code == 200
        assert reply.headers["x-discorank"] == "passed-through; reason=path"
        seen = careful.upstream.seen[-1]
        assert (seen.path, seen.body) == (f"/v1/{path}", body)


@pytest.mark.parametrize("content", [b"\xff\xfe{\x00}\x00", b"[1]", b'{"n": 1, "n": 500}', b"x=1"])
def test_what_passes_is_json(careful: Proxy, content: bytes) -> None:
    reply = send("POST", f"{careful.url}/responses", content=content)
    assert refusal(reply)[0] == 400


def test_json_that_is_called_a_form_is_read(careful: Proxy) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    content = b'{"input": "x", "max_output_tokens": 1000000000}'
    reply = send("POST", f"{careful.url}/responses", content=content, headers=headers)
    assert refusal(reply)[:2] == (400, "max_output_tokens")


# numbers, texts and replies of any kind


@pytest.mark.parametrize("key", ["n", "discorank"])
@pytest.mark.parametrize("digits", [300, 401, 4001, 4299])
def test_numbers_of_any_length_are_refused(careful: Proxy, key: str, digits: int) -> None:
    number = b"9" * digits
    value = number if key == "n" else b'{"n": %b}' % number
    content = b'{"model": "m", "prompt": "p", "%b": %b}' % (key.encode(), value)
    reply = send("POST", f"{careful.url}/completions", content=content)
    assert refusal(reply)[0] == 400


@contextmanager
def replying() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server whose reply is the bytes in a list."""
    content = [b""]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            is_stream = content[0].startswith(b"data:")
            self.send_response(200)
            kind = "text/event-stream" if is_stream else "application/json"
            self.send_header("content-type", kind)
            more = 100 if is_stream else 0  # it breaks off
            self.send_header("content-length", str(len(content[0]) + more))
            self.end_headers()
            self.wfile.write(content[0])
            self.close_connection = True

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", content
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[Proxy, list[bytes]]]:
    with (
        replying() as (url, content),
        proxying(url=url, connection={"retries": 0}, num_candidates=3) as proxy,
    ):
        yield proxy, content


def test_usage_of_any_size_costs_nothing(scripted: tuple[Proxy, list[bytes]]) -> None:
    proxy, content = scripted
    usage = b'{"completion_tokens": %b, "prompt_tokens": 3, "x": 1e999}' % (b"9" * 401)
    choices = json.dumps([{"text": text} for text in ("a b", "a b c", "a b d")]).encode()
    content[0] = b'{"choices": %b, "usage": %b}' % (choices, usage)
    reply = ask(proxy)
    assert reply.status_code == 200
    assert reply.json()["usage"]["prompt_tokens"] == 3


def test_half_of_a_surrogate_pair_costs_its_choice(scripted: tuple[Proxy, list[bytes]]) -> None:
    proxy, content = scripted
    good = [{"text": "a b c", "note": "\ud800"}, {"text": "a b c d", "note": "\ud800"}]
    content[0] = json.dumps({"choices": [good[0], {"text": "\udc00"}, good[1]]}).encode()
    reply = ask(proxy)
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["note"] == "\ud800"
    reasons = {one["reason"] for one in reply.json()["discorank"]["left_out"]}
    assert reasons == {"a choice with half of a surrogate pair in its text"}
    assert "left-out=" in reply.headers["x-discorank"]


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**400)
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.sampled_from(["\ud800", "a b", "[DONE]"])
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=5) | values,
        "message": st.fixed_dictionaries({}, optional={"content": st.text(max_size=5) | values}),
        "logprobs": values,
        "finish_reason": values,
        "index": values,
    },
)
replies = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(choices | values, max_size=4) | values,
        "usage": st.dictionaries(st.sampled_from(["prompt_tokens", "x"]), values) | values,
        "id": values,
        "discorank": values,
        "error": values,
    },
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reply=replies | values,
    chat=st.booleans(),
    stream=st.booleans(),
    explain=st.booleans(),
)
def test_no_reply_is_an_internal_error(
    scripted: tuple[Proxy, list[bytes]], reply: Any, chat: bool, stream: bool, explain: bool
) -> None:
    proxy, content = scripted
    content[0] = json.dumps(reply).encode()
    own: dict[str, Any] = {"discorank": {"explain": explain}, "stream": stream}
    if chat:
        answer = ask(proxy, "chat/completions", messages=[{"role": "user", "content": "p"}], **own)
    else:
        answer = ask(proxy, **own)
    assert answer.status_code in (200, 502, 503), answer.text
    if not stream or answer.status_code != 200:
        json.loads(answer.content)


def test_a_candidate_without_its_log_probability_costs_itself_alone() -> None:
    deciders: Any = {"rerank": Reranker(features={"logprob": 1.0}, nbest=None)}
    with (
        replying() as (url, content),
        proxying(url=url, deciders=deciders, num_candidates=4) as proxy,
    ):
        all_four = [
            {"text": f"t{i}", "logprobs": {"token_logprobs": [-float(i + 1)]}} for i in range(4)
        ]
        all_four[0]["logprobs"] = {"token_logprobs": [None]}
        content[0] = json.dumps({"choices": all_four}).encode()
        reply = ask(proxy)
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["text"] == "t1"
    assert reply.json()["discorank"]["left_out"] == [
        {"request": 0, "choice": 0, "reason": "a choice without a log-probability"}
    ]


@pytest.mark.parametrize("key", ["token", KEY])
@pytest.mark.parametrize("temperature", [0, 1])
def test_answers_pass_unchanged_whatever_the_key_is(
    key: str, temperature: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UP", key)
    with (
        replying() as (url, content),
        proxying(url=url, connection={"key_variable": "UP"}, num_candidates=2) as proxy,
    ):
        value = {
            "choices": [{"text": f"one {key}"}, {"text": f"one {key}"}],
            "id": f"cmpl-{key}",
            "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        }
        content[0] = json.dumps(value).encode()
        reply = ask(proxy, temperature=temperature)
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["text"] == f"one {key}"
    assert reply.json()["id"] == f"cmpl-{key}"
    assert reply.json()["usage"]["prompt_tokens"] == 3
    if temperature == 0:
        assert reply.content == content[0]


# streams that break off


def test_a_stream_that_breaks_off_upstream_breaks_off_here(
    scripted: tuple[Proxy, list[bytes]],
) -> None:
    proxy, content = scripted
    content[0] = b'data: {"id": 1}\n\ndata: {"choi'
    with pytest.raises(httpx2.RemoteProtocolError):
        ask(proxy, stream=True, temperature=0)
