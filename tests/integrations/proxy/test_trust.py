"""Who may come in, what nobody gets to see, and what one request can do to the others: nothing."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.support.scripted_replies import Script, marker
from discorank.integrations.proxy.questions import OwnFields
from discorank.integrations.proxy.settings import DoorSettings
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.mbr import MBRDecoder

from ...support.proxying import Proxy, openai_client, proxying, send
from ...support.waiting import PATIENCE_SECONDS, wait_until

OWN_KEY = "own-key-0123456789"
UPSTREAM_KEY = "sk-upstream-0123456789"


def post(proxy: Proxy, path: str = "completions", **body: Any) -> httpx2.Response:
    if path == "completions":
        body = {"model": "m", "prompt": "p", **body}
    return send("POST", f"{proxy.url}/{path}", json=body)


def is_error(reply: httpx2.Response | http.client.HTTPResponse, content: bytes) -> bool:
    """Whether a reply is an error of OpenAI's form."""
    error = json.loads(content)["error"]
    return set(error) == {"message", "type", "param", "code"} and isinstance(error["message"], str)


# keys


def test_it_listens_at_loopback_unless_told() -> None:
    assert DoorSettings().host == "127.0.0.1"


def test_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN", OWN_KEY)
    with proxying(door={"access_key_variable": "OWN"}) as proxy:
        for key in ("", "wrong", f"{OWN_KEY}x", OWN_KEY[:-1]):
            with (
                openai_client(proxy.url, key or "-") as asking,
                pytest.raises(openai.AuthenticationError, match="key"),
            ):
                asking.models.list()
        with openai_client(proxy.url, OWN_KEY) as asking:
            assert asking.completions.create(model="m", prompt="p").choices
        # a header that makes the address look like another one opens nothing
        for host in ("x/healthz?", "x/healthz#", "/healthz"):
            request = f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n"
            status, _ = raw(proxy, request.encode())
            assert status in (400, 401)
        root = proxy.url.removesuffix("/v1")
        assert send("GET", f"{root}/healthz").status_code == 200
        assert send("GET", f"{root}/metrics").status_code == 401
        assert proxy.upstream.num_requests == 1
        # a client's key does not go upstream
        assert "authorization" not in proxy.upstream.seen[0].headers


def test_a_key_that_is_not_set_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OWN", raising=False)
    for options in (
        {"door": {"access_key_variable": "OWN"}},
        {"connection": {"key_variable": "OWN"}},
    ):
        with pytest.raises(InputError, match="OWN is not set"), proxying(**options):  # type: ignore[arg-type]
            pass


def test_keys_are_nowhere(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OWN", OWN_KEY)
    monkeypatch.setenv("UP", UPSTREAM_KEY)
    caplog.set_level(logging.DEBUG)
    faults = ("status-500", "status-400", "status-429", "reset", "half-json", "status-401", "few")
    script = Script(fault=lambda body, number: faults[number % len(faults)])
    replies = []
    with proxying(
        script,
        door={"access_key_variable": "OWN"},
        connection={"key_variable": "UP", "retries": 0},
    ) as proxy:
        headers = {"authorization": f"Bearer {OWN_KEY}"}
        for path in ("completions", "embeddings"):
            for _ in faults:
                body = {"model": "m", "prompt": "p"}
                replies.append(send("POST", f"{proxy.url}/{path}", json=body, headers=headers))
        replies.append(send("GET", proxy.url.replace("/v1", "/metrics"), headers=headers))
        assert proxy.upstream.seen[0].headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert {reply.status_code for reply in replies} >= {200, 400, 429, 502}
    assert any("status 401: scripted fault for Bearer [key]" in report for report in proxy.reports)
    everything = " ".join([*(f"{reply.headers} {reply.text}" for reply in replies), *proxy.reports])
    out, err = capfd.readouterr()
    # what the client of this test and its script say of themselves is not what the server says
    logged = " ".join(
        record.getMessage() for record in caplog.records if not record.name.startswith("httpcore")
    )
    for key in (OWN_KEY, UPSTREAM_KEY):
        # an error that passes through untouched is the upstream's own word, which quotes what it was sent
        assert key not in out + err + logged
    assert OWN_KEY not in everything
    chosen = " ".join(reply.text for reply in replies[: len(faults)])
    assert UPSTREAM_KEY not in chosen + replies[-1].text + " ".join(proxy.reports)


# addresses and paths


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/..%2fadmin",
        "/v1//evil.example/x",
        "/v1/@evil.example/",
        "/v1/a/./b",
        "/v1/a%2f..%2f..%2fadmin",
        "/v1/a%00b",
        "/v1/a%0d%0ax-evil:1",
        "/v1/a%20b",
        "/v1/%252e%252e/admin",
        "/v1/http://evil.example",
        "/v1/models?x=%0d%0ay",
        "/v1/models?a b",
        "/v1/",
        "/v1",
        "/",
        "/admin",
        "/v1/" + "a" * 2000,
        "http://evil.example/v1/models",
        "//evil.example/v1/models",
    ],
)
def test_no_path_leaves_the_address(path: str, running: Proxy) -> None:
    before = running.upstream.num_requests
    status, content = raw(running, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    seen = running.upstream.seen[before:]
    assert all(request.path.startswith("/v1/") for request in seen)
    for request in seen:
        assert ".." not in request.path
        assert request.headers["host"] == urlsplit(running.upstream.url).netloc
    if not seen:
        assert status in (400, 404)
        assert status == 400 or is_error_content(content)


def is_error_content(content: bytes) -> bool:
    return set(json.loads(content)["error"]) == {"message", "type", "param", "code"}


@pytest.fixture(scope="module")
def running() -> Any:
    with proxying() as proxy:
        yield proxy


def raw(proxy: Proxy, request: bytes) -> tuple[int, bytes]:
    """Status and body of the reply to bytes as they are."""
    address = urlsplit(proxy.url)
    with closing(socket.create_connection((address.hostname, address.port))) as line:
        line.sendall(request)
        with closing(http.client.HTTPResponse(line)) as reply:
            reply.begin()
            return reply.status, reply.read()


def test_no_field_of_a_request_changes_where_it_goes(running: Proxy) -> None:
    before = running.upstream.num_requests
    for field in ("base_url", "upstream", "url", "api_base", "host"):
        reply = post(running, **{field: "http://evil.example"})
        assert reply.status_code == 200
    assert running.upstream.num_requests == before + 5


def test_pages_of_browsers_are_refused(running: Proxy) -> None:
    before = running.upstream.num_requests
    headers = {"origin": "http://evil.example", "content-type": "text/plain"}
    body = {"model": "m", "prompt": "p"}
    reply = send("POST", f"{running.url}/completions", json=body, headers=headers)
    assert (reply.status_code, is_error(reply, reply.content)) == (403, True)
    assert running.upstream.num_requests == before


@pytest.mark.parametrize(
    ("door", "allowed"),
    [
        ({"allow_host": ()}, []),
        ({"allow_host": ("Models.Example",)}, ["models.example"]),
        ({"host": "0.0.0.0", "allow_host": ("models.example",)}, ["models.example"]),
        ({"host": "0.0.0.0", "allow_host": ()}, None),
    ],
)
def test_other_hosts_are_refused_on_loopback(
    door: dict[str, Any], allowed: list[str] | None
) -> None:
    """A page of evil.example whose name was rebound to this machine has its own name as the host."""
    local = ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"]
    others = ["models.example", "evil.example", "[::2]", "localhost.evil.example", "localhost@evil"]
    with proxying(door=door) as proxy:
        port = urlsplit(proxy.url).port
        url = f"http://127.0.0.1:{port}"
        for path in ("/metrics", "/v1/models", "/healthz"):
            for host in [*local, *others]:
                is_answered = allowed is None or host in [*local, *allowed]
                for header in (host, f"{host}:{port}"):
                    reply = send("GET", f"{url}{path}", headers={"host": header})
                    assert reply.status_code == (200 if is_answered else 403), (path, header)
                    if not is_answered:
                        assert is_error(reply, reply.content)
                        assert reply.json()["error"]["code"] == "host"


def test_other_methods_are_refused(running: Proxy) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        reply = send(method, f"{running.url}/models")
        assert (reply.status_code, is_error(reply, reply.content)) == (405, True)
    reply = send("GET", f"{running.url}/completions")
    assert (reply.status_code, is_error(reply, reply.content)) == (405, True)


# sizes and times


def test_large_requests_are_refused() -> None:
    with use_limits(line_bytes=10_000), proxying() as proxy:
        reply = post(proxy, prompt="x" * 20_000)
        assert (reply.status_code, is_error(reply, reply.content)) == (413, True)
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
        status, _ = raw(proxy, head + 3 * piece + b"0\r\n\r\n")
        assert status == 413
        address = urlsplit(proxy.url)
        with (
            closing(socket.create_connection((address.hostname, address.port))) as line,
            suppress(ConnectionError),
        ):
            line.sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 200_000)
            # it does not wait for more
            assert b"200 OK" not in line.recv(100)
        assert post(proxy).status_code == 200


def test_packed_requests_are_refused(running: Proxy) -> None:
    reply = send(
        "POST", f"{running.url}/completions", content=b"x", headers={"content-encoding": "gzip"}
    )
    assert (reply.status_code, is_error(reply, reply.content)) == (415, True)


def test_a_request_that_does_not_come_is_given_up() -> None:
    with proxying(door={"body_seconds": 1.0}) as proxy:
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        status, content = raw(proxy, head + b"{")
        assert (status, is_error_content(content)) == (408, True)


def test_who_comes_when_there_is_no_room_is_told_to_come_again() -> None:
    gate = threading.Event()
    outcomes: list[httpx2.Response] = []
    with proxying(Script(gate=gate), door={"max_open": 2, "max_waiting": 2}) as proxy:
        threads = [threading.Thread(target=lambda: outcomes.append(post(proxy))) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(outcomes) == 4)  # the others have their places
        refused = list(outcomes)
        assert [reply.status_code for reply in refused] == [429] * 4
        gate.set()
        for thread in threads:
            thread.join()
        assert [reply.status_code for reply in outcomes[4:]] == [200] * 4
        assert proxy.upstream.most_open <= 2
        for reply in refused:
            assert reply.headers["retry-after"] == "1"
            assert is_error(reply, reply.content)
        # it has room again
        assert post(proxy).status_code == 200


# clients that go, and the end


@pytest.mark.parametrize("more", [{}, {"temperature": 0}, {"temperature": 0, "stream": True}])
def test_a_client_that_goes_takes_its_requests_upstream_along(more: dict[str, Any]) -> None:
    content = json.dumps({"model": "m", "prompt": "p", **more}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    with proxying(Script(gate=threading.Event()), candidates_per_request=1) as proxy:
        address = urlsplit(proxy.url)
        with closing(socket.create_connection((address.hostname, address.port))) as line:
            line.sendall(head % len(content) + content)
            wait_until(lambda: proxy.upstream.num_requests == (1 if more else 4))
        wait_until(lambda: proxy.upstream.num_open == 0)
        assert all(seen.is_dropped for seen in proxy.upstream.seen)
        assert "discorank_open 0.0" in send("GET", proxy.url.replace("/v1", "/metrics")).text


def test_what_is_open_is_finished_when_it_stops() -> None:
    replies, gate = [], threading.Event()
    with proxying(Script(gate=gate), door={"grace_seconds": PATIENCE_SECONDS}) as proxy:
        thread = threading.Thread(target=lambda: replies.append(post(proxy)))
        thread.start()
        wait_until(lambda: proxy.upstream.num_open == 1)
        proxy.server.stop()
        gate.set()
        thread.join()
    assert [reply.status_code for reply in replies] == [200]


def test_what_takes_too_long_is_dropped_when_it_stops() -> None:
    outcomes: list[int | None] = []

    def ask() -> None:
        try:
            outcomes.append(post(proxy).status_code)
        except httpx2.TransportError:
            outcomes.append(None)

    # it would hang if it waited for the server upstream
    with proxying(Script(gate=threading.Event()), door={"grace_seconds": 1.0}) as proxy:
        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: proxy.upstream.num_open == 1)
    thread.join()
    assert outcomes in ([None], [500])


# metrics that fail


def failing(hypothesis: str, reference: str) -> float:
    if "[" in hypothesis and hypothesis.endswith(marker("bad")):
        raise RuntimeError("out of order")
    return float(len(hypothesis))


def ending(hypothesis: str, reference: str) -> float:
    if hypothesis.endswith(marker("bad")):
        raise SystemExit(1)
    return float(len(hypothesis))


@pytest.mark.parametrize(("metric", "reason"), [(failing, "out of order"), (ending, "SystemExit")])
def test_a_metric_that_fails_is_503_with_the_reason(metric: Any, reason: str) -> None:
    deciders: Any = {"own": MBRDecoder(utility=metric, nbest=None)}
    with proxying(deciders=deciders) as proxy:
        reply = post(proxy, prompt="bad")
        assert reply.status_code == 503
        assert is_error(reply, reply.content)
        assert reason in reply.json()["error"]["message"]
        assert reply.headers["retry-after"] == "5"
        assert post(proxy, prompt="bad").status_code == 503
        assert reason in proxy.reports[0]
        assert post(proxy, prompt="good").status_code == 200


def test_an_engine_that_fails_altogether_is_503() -> None:
    class Broken(LocalEngine):
        num_failures = 1

        def collect(self) -> Any:
            if self.num_failures:
                self.num_failures -= 1
                raise MemoryError("none left")
            return super().collect()

    with proxying(engine=Broken()) as proxy:
        reply = post(proxy)
        assert (reply.status_code, "none left" in reply.text) == (503, True)
        assert post(proxy).status_code == 200


def test_a_metric_that_hangs_blocks_nobody_else() -> None:
    hold = threading.Event()

    def hanging(hypothesis: str, reference: str) -> float:
        hold.wait(PATIENCE_SECONDS)
        return 0.0

    deciders: Any = {"own": MBRDecoder(utility=hanging, nbest=None)}
    with proxying(deciders=deciders, door={"choice_seconds": 0.2}) as proxy:
        reply = post(proxy)
        assert (reply.status_code, "no choice within 0.2 seconds" in reply.text) == (503, True)
        assert send("GET", proxy.url.replace("/v1", "/healthz")).json() == {"status": "ok"}
        assert post(proxy, temperature=0).status_code == 200
        hold.set()
        wait_until(lambda: post(proxy).status_code == 200)


# bodies of any kind

small = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=4)
anything = st.recursive(
    small,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    "messages",
    "prompt",
    "n",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "logprobs",
    "response_format",
    "modalities",
    "seed",
    "discorank",
]
message = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["user", "system"]) | anything, "content": anything}
)
field = anything | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(OwnFields.__annotations__, anything)
)
body = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, anything),
        "messages": st.lists(message, max_size=2) | anything,
        "discorank": field,
        "response_format": st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "json_object", "json_schema"])},
            optional={"json_schema": st.fixed_dictionaries({}, optional={"schema": anything})},
        ),
    },
)
bodies = st.binary(max_size=40) | st.one_of(body, anything).map(
    lambda value: json.dumps(value).encode()
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=bodies, path=st.sampled_from(["completions", "chat/completions"]))
def test_any_body_is_answered_or_refused(running: Proxy, content: bytes, path: str) -> None:
    reply = send("POST", f"{running.url}/{path}", content=content)
    assert reply.status_code == 200 or 400 <= reply.status_code < 500
    if reply.status_code != 200:
        assert is_error(reply, reply.content)
    elif "text/event-stream" in reply.headers["content-type"]:
        assert reply.text.endswith("data: [DONE]\n\n")
    else:
        assert "x-discorank" in reply.headers


def test_nothing_was_reported(running: Proxy) -> None:
    unusual = [line for line in running.reports if "passed through unchosen" not in line]
    assert unusual == []


def test_counters_are_read_by_prometheus(running: Proxy) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    post(running)
    post(running, temperature=0)
    reply = send("GET", running.url.replace("/v1", "/metrics"))
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    answers = {
        tuple(sample.labels.values()): sample.value
        for sample in families["discorank_answers"].samples
    }
    assert answers["chosen", "200"] >= 1
    assert families["discorank_candidates"].samples[0].value >= 4
    reasons = {
        sample.labels["reason"]
        for sample in families["discorank_passed_through"].samples
        if "reason" in sample.labels
    }
    assert "temperature=0" in reasons
    assert families["discorank_open"].samples[0].value == 0
