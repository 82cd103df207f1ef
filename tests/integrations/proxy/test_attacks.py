"""What hostile or broken clients and servers do: each costs its own request, and nobody else's."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks.support.scripted_replies import Script
from discorank.integrations.proxy.connections import listening
from discorank.integrations.proxy.settings import DoorSettings
from discorank.integrations.proxy.tool_calls import with_form

from ...support.proxying import Proxy, proxying, send
from ...support.waiting import PATIENCE_SECONDS, wait_until
from .test_trust import is_error, post

KEY = "sk-upstream-0123456789"


def connected(proxy: Proxy) -> socket.socket:
    address = urlsplit(proxy.url)
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE_SECONDS)


def health(proxy: Proxy) -> Any:
    return send("GET", proxy.url.replace("/v1", "/healthz")).json()


@pytest.fixture(scope="module")
def running() -> Iterator[Proxy]:
    with proxying() as proxy:
        yield proxy


# clients


def test_answers_are_sent_at_once() -> None:
    async def is_without_delay() -> bool:
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = writer.get_extra_info("socket")
            taken.set_result(bool(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        opened = listening(DoorSettings(port=0))
        async with await asyncio.start_server(take, sock=opened):
            _, writer = await asyncio.open_connection(*opened.getsockname()[:2])
            writer.close()
            return await taken

    assert asyncio.run(is_without_delay())


HALVES = [
    b"",
    b"GET /healthz HTTP/1.1\r\n",
    b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
    bytes(range(128, 256)),
]


def test_connections_that_nothing_comes_of_are_dropped() -> None:
    with proxying(door={"body_seconds": 1.0}) as proxy:
        lines = [connected(proxy) for _ in range(40)]
        for number, line in enumerate(lines):
            line.sendall(HALVES[number % len(HALVES)])
        assert health(proxy) == {"status": "ok"}
        for line in lines:
            with closing(line):
                while _more(line):
                    pass


def test_a_second_half_request_is_dropped_too() -> None:
    with proxying(door={"body_seconds": 1.0}) as proxy, closing(connected(proxy)) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in line.recv(1000)
        line.sendall(b"GET /healthz HT")
        while _more(line):
            pass


def test_an_answer_that_is_long_in_coming_is_waited_for() -> None:
    with proxying(Script(latency_seconds=1.5), door={"body_seconds": 1.0}) as proxy:
        assert post(proxy).status_code == 200


def test_an_answer_that_nobody_takes_is_dropped() -> None:
    text = "x" * 4_000_000
    script = Script(answer=lambda body, number: [text])
    with proxying(script, door={"body_seconds": 1.0}) as proxy:
        content = json.dumps({"model": "m", "prompt": "p", "temperature": 0}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        server = proxy.server._server
        lines = []
        for _ in range(3):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect((urlsplit(proxy.url).hostname, urlsplit(proxy.url).port))
            line.sendall(head % len(content) + content)
            lines.append(line)
        wait_until(lambda: proxy.upstream.num_requests == 3)
        wait_until(lambda: not server.server_state.connections)
        for line in lines:
            line.close()


def _more(line: socket.socket) -> bool:
    """Whether more comes; an end or a reset are none."""
    try:
        return bool(line.recv(65536))
    except ConnectionError:
        return False


def test_requests_one_behind_the_other_are_answered_in_order(running: Proxy) -> None:
    with closing(connected(running)) as line:
        for number in range(3):
            content = json.dumps({"model": "m", "prompt": f"p{number}", "n": 1}).encode()
            head = b"POST /v1/completions HTTP/1.%d\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
            line.sendall(head % (number < 2, len(content)) + content)
        replies = b""
        while piece := line.recv(65536):
            replies += piece
    bodies = [json.JSONDecoder().raw_decode(part)[0] for part in _bodies(replies)]
    assert len(bodies) == 3
    for number, body in enumerate(bodies):
        text = body["choices"][0]["text"]
        reply = post(running, prompt=f"p{number}")
        assert text.rpartition(" ")[2] == reply.json()["choices"][0]["text"].rpartition(" ")[2]


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"


def _upgrading(prompt: str) -> bytes:
    """A request that would rather speak another protocol, as the JDK's client sends."""
    body = json.dumps({"model": "m", "prompt": prompt, "temperature": 0}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    return head + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("size", [1 << 20, 150, 7])
def test_who_asks_for_another_protocol_is_answered_in_this_one(running: Proxy, size: int) -> None:
    """A parser that leaves the body of such a request unread takes it for the next request."""
    sent = b"".join(_upgrading(prompt) for prompt in ("one", "two", "three"))
    with closing(connected(running)) as line:
        for start in range(0, len(sent), size):
            line.sendall(sent[start : start + size])
        replies = b""
        while replies.count(b"HTTP/1.1 200 OK") < 3 or not replies.endswith(b"}"):
            replies += line.recv(1 << 16)
            assert b"HTTP/1.1 4" not in replies
    prompts = [seen.body["prompt"] for seen in running.upstream.seen[-3:]]
    assert prompts == ["one", "two", "three"]


def test_a_request_behind_another_is_waited_for_too() -> None:
    """That the answer before it was sent is no reason to take its connection for idle."""
    body = b'{"model": "m", "prompt": "p"}'
    request = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s"
    slow = Script(latency_seconds=0.8)
    with (
        proxying(slow, door={"body_seconds": 0.5}) as proxy,
        closing(connected(proxy)) as line,
    ):
        line.sendall(request % (len(body), body) * 2)
        replies = b""
        while replies.count(b"HTTP/1.1 200 OK") < 2:
            piece = line.recv(1 << 16)
            assert piece, "the connection was dropped"
            replies += piece


def _bodies(replies: bytes) -> list[str]:
    return [part.decode() for part in replies.split(b"\r\n\r\n") if part.startswith(b"{")]


def test_hostile_json_is_refused(running: Proxy) -> None:
    for content in (
        b'{"prompt": "\xff"}',
        b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000,
        b'{"prompt": "p", "n": ' + b"9" * 100_000 + b"}",
        b'{"prompt": "p", "temperature": 1e999}',
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "a", "prompt": "b"}',
        b"[" * 400 + b"]" * 400,
    ):
        reply = send("POST", f"{running.url}/completions", content=content)
        assert (reply.status_code, is_error(reply, reply.content)) == (400, True), content[:40]
        assert reply.json()["error"]["code"] == "invalid_json"


def test_the_kind_of_content_does_not_matter(running: Proxy) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "\xff", ""):
        content = json.dumps({"model": "m", "prompt": "p"}).encode()
        headers = {"content-type": kind.encode("latin-1")}
        reply = send("POST", f"{running.url}/completions", content=content, headers=headers)
        assert reply.headers["x-discorank"].startswith("chosen")


def test_documents_without_end_push_out_the_oldest() -> None:
    with proxying(num_candidates=2, door={"max_documents": 8}) as proxy:
        for number in range(40):
            reply = post(proxy, discorank={"document": f"d{number}", "position": 0})
            assert reply.status_code == 200
        shown = send("GET", proxy.url.replace("/v1", "/metrics")).text
        assert "discorank_documents 8.0" in shown
        late = post(proxy, discorank={"document": "d0", "position": 1})
        assert (late.status_code, late.json()["error"]["code"]) == (400, "document_unknown")


def test_a_document_keeps_no_long_texts() -> None:
    script = Script(
        answer=lambda body, number: [f"{body['prompt']} {i}" for i in range(int(body["n"]))]
    )
    with proxying(script, num_candidates=2) as proxy:
        own = {"document": "d", "position": 0}
        long = "x" * 20_000
        for source, asked in (("s", 1), (long, 1), (None, 1)):
            reply = post(proxy, prompt=long, discorank={**own, "source": source})
            assert (reply.status_code, reply.json()["error"]["code"]) == (
                400,
                "too_long_for_document",
            )
            assert proxy.upstream.num_requests == asked
        assert post(proxy, prompt="p", discorank=own).status_code == 200


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "x" * 30_000}, '"x"'),
        ({"items": {"enum": [f"v{i}" for i in range(1000)]}}, json.dumps(["v999"] * 200)),
        ({"uniqueItems": True}, json.dumps([{"a": i} for i in range(3000)])),
        ({"anyOf": [{"pattern": f"{i}" + "(a|b)*" * 100} for i in range(100)]}, '"c"'),
        ({"$ref": "#"}, "1"),
    ],
)
def test_a_schema_that_is_dear_to_judge_by_is_not_used(schema: Any, text: str) -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    assert with_form([text] * 16, wanted) is None


def test_items_that_have_to_differ_are_judged() -> None:
    schema = {"uniqueItems": True, "items": {"enum": [{"a": i} for i in range(5)], "pattern": "a*"}}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    same, different = '[{"a": 1}, {"a": 1}]', '[{"a": 1}, {"a": 2}]'
    assert with_form([same, different] * 16, wanted) == list(range(1, 32, 2))


def test_two_clients_with_one_key_of_a_document_cannot_mix_it() -> None:
    gate = threading.Event()
    with proxying(Script(gate=gate), num_candidates=2) as proxy:
        replies: list[Any] = []

        def ask(prompt: str) -> None:
            own = {"document": "same", "position": 0}
            replies.append(post(proxy, prompt=prompt, discorank=own))

        thread = threading.Thread(target=ask, args=("a",))
        thread.start()
        wait_until(lambda: proxy.upstream.num_open == 1)
        ask("b")
        gate.set()
        thread.join()
        assert [reply.status_code for reply in replies] == [409, 200]


def test_fifty_open_requests_are_finished_when_it_stops() -> None:
    replies: list[Any] = []
    gate, door = threading.Event(), {"grace_seconds": PATIENCE_SECONDS}
    with proxying(Script(gate=gate), num_candidates=2, door=door) as proxy:

        def ask(number: int) -> None:
            replies.append(post(proxy, prompt=f"p{number}"))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        wait_until(lambda: proxy.upstream.num_open == 50)
        proxy.server.stop()
        gate.set()
        for thread in threads:
            thread.join()
    assert [reply.status_code for reply in replies] == [200] * 50


# servers upstream


@contextmanager
def answering(content: bytes, status: int = 200, **headers: str) -> Iterator[str]:
    """The address of a server that gives one answer to everything; KEY stands for the key that it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            key = self.headers.get("authorization", "").removeprefix("Bearer ")
            body = content.replace(b"KEY", key.encode())
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value.replace("KEY", key))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("path", ["completions", "embeddings"])
def test_a_packed_reply_is_not_unpacked(path: str) -> None:
    bomb = gzip.compress(bytes(1 << 20))
    with (
        answering(bomb, content_encoding="gzip") as url,
        proxying(url=url, connection={"retries": 0}) as proxy,
    ):
        reply = post(proxy, path)
        assert (reply.status_code, is_error(reply, reply.content)) == (502, True)
        assert "packed by gzip" in reply.text


@pytest.mark.parametrize("path", ["completions", "embeddings"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500])
def test_a_key_that_is_quoted_upstream_is_not_answered(
    path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UP", KEY)
    content = b'{"error": {"message": "Incorrect key provided: KEY, not KEYKEY"}}'
    with (
        answering(content, status, x_request_id="KEY") as url,
        proxying(url=url, connection={"retries": 0, "key_variable": "UP"}) as proxy,
    ):
        reply = post(proxy, path)
        assert reply.status_code == (502 if status in (401, 403) else reply.status_code)
        assert KEY not in reply.text + str(reply.headers) + " ".join(proxy.reports)
        if status == 401:
            assert "Incorrect key" not in reply.text  # nor what may be a part of it
            assert "Incorrect key provided: [key], not [key][key]" in proxy.reports[0]


@pytest.mark.parametrize("path", ["completions", "embeddings"])
def test_a_short_key_is_not_masked_in_words_of_an_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UP", "token")
    content = b'{"error": {"message": "too many prompt_tokens"}}'
    with (
        answering(content, 400) as url,
        proxying(url=url, connection={"retries": 0, "key_variable": "UP"}) as proxy,
    ):
        reply = post(proxy, path)
        assert (reply.status_code, "too many prompt_tokens" in reply.text) == (400, True)


def test_a_redirect_to_another_host_is_not_followed() -> None:
    with answering(b'{"choices": [{"text": "elsewhere"}]}') as elsewhere:
        location = f"{elsewhere}/completions"
        with answering(b"{}", 307, location=location) as url, proxying(url=url) as proxy:
            assert post(proxy).status_code == 502
            passed = post(proxy, "embeddings")
            assert (passed.status_code, "location" in passed.headers) == (307, False)


def test_a_server_that_comes_later_is_found() -> None:
    with closing(socket.socket()) as deaf:
        # holds the port for the server that comes
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deaf.bind(("127.0.0.1", 0))
        assert_found_later(deaf.getsockname()[1])


def assert_found_later(port: int) -> None:
    connection = {"retries": 0}
    with proxying(url=f"http://127.0.0.1:{port}/v1", connection=connection) as proxy:
        assert post(proxy).status_code == 502
        assert health(proxy) == {"status": "ok"}

        async def serve() -> None:
            from benchmarks.support.scripted_upstream import ScriptedUpstream

            upstream = ScriptedUpstream()
            server = await upstream.start(port)
            reply = await asyncio.to_thread(post, proxy)
            assert reply.status_code == 200
            await upstream.stop(server)

        asyncio.run(serve())
