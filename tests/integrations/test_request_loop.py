"""Who is at fault where a request fails: the text, which fails alone, or the server, which ends the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from discorank.integrations.server.exchange import Client
from discorank.integrations.server.request_loop import (
    RequestLoop,
    ServerRequest,
    TextJob,
    forget_oldest,
)
from discorank.integrations.server.settings import Connection
from discorank.metrics.errors import InputError

from ..support.serving import Reply, Seen, Server, serving

OK, BAD = Reply({"ok": 1}), Reply({"error": "too long"}, 400)
FAILS, BUSY, NO_KEY = Reply(b"", 500), Reply(b"", 503), Reply(b"", 401)


class _Job(TextJob):
    def __init__(self, text: str, trusts_refusals: bool) -> None:
        super().__init__()
        self.text, self.trusts_refusals = text, trusts_refusals
        self.reply: Any = None

    def request(self) -> ServerRequest:
        return ServerRequest("completions", {"text": self.text})

    def take(self, request: ServerRequest, reply: Any) -> None:
        if "ok" not in reply:
            raise InputError("a reply of another kind")
        self.reply = reply

    def named(self) -> str:
        return f"at {self.text}"


def run(server: Server, *texts: str, trusts: bool = True, connections: int = 1) -> list[_Job]:
    """Jobs in the order in which they end."""

    def probe() -> ServerRequest:
        return ServerRequest("completions", {"text": "probe"})

    def check(reply: Any) -> None:
        if "ok" not in reply:
            raise InputError("a reply of another kind")

    connection = Connection(server.url, retries=0, backoff_seconds=0.0, connections=connections)
    with Client(connection) as client:
        loop: RequestLoop[_Job] = RequestLoop(client, probe, check)
        waiting = deque(_Job(text, trusts) for text in texts)
        return [job for ended in loop.run(waiting, connections) for job in ended]


def asked(server: Server) -> list[str]:
    return [seen.body["text"] for seen in server.seen]


Script = dict[str, list[Reply]]  # replies to a text, the last one again and again
BLAMED: dict[str, tuple[Script, bool, list[str]]] = {
    "it fails": ({"a": [FAILS]}, True, ["a", "probe", "a", "probe"]),
    "it fails and then is refused": ({"a": [FAILS, BAD]}, True, ["a", "probe", "a"]),
    "it is refused": ({"a": [BAD]}, True, ["a"]),
    "it is refused, which others are not": ({"a": [BAD]}, False, ["a", "probe"]),
    "its reply is useless": ({"a": [Reply({})]}, True, ["a"]),
    "the probe is refused": ({"a": [FAILS], "probe": [BAD]}, True, ["a", "probe", "a", "probe"]),
}
ENDED: dict[str, tuple[Script, bool, list[str]]] = {
    "all fails": ({"a": [FAILS], "probe": [FAILS]}, True, ["a", "probe"]),
    "all is refused": ({"a": [BAD], "probe": [BAD]}, False, ["a", "probe"]),
    "the probe brings nothing": ({"a": [FAILS], "probe": [Reply({})]}, True, ["a", "probe"]),
    "the key is refused": ({"a": [NO_KEY]}, True, ["a"]),
    "the key is refused at the probe": ({"a": [FAILS], "probe": [NO_KEY]}, True, ["a", "probe"]),
    "it has no room": ({"a": [BUSY]}, True, ["a"]),
}


def scripted(script: Script) -> Callable[[Seen, int], Reply]:
    replies = {text: deque(given) for text, given in script.items()}

    def answer(seen: Seen, number: int) -> Reply:
        left = replies.get(seen.body["text"], deque([OK]))
        return left.popleft() if len(left) > 1 else left[0]

    return answer


@pytest.mark.parametrize(("script", "trusts", "expected"), BLAMED.values(), ids=BLAMED)
def test_a_text_is_at_fault_where(script: Script, trusts: bool, expected: list[str]) -> None:
    with serving(scripted(script)) as server:
        (job,) = run(server, "a", trusts=trusts)
    assert isinstance(job.error, InputError)
    assert (job.fatal, job.reply) == (None, None)
    assert "(at a)" in str(job.error)
    assert asked(server) == expected


@pytest.mark.parametrize(("script", "trusts", "expected"), ENDED.values(), ids=ENDED)
def test_the_server_is_at_fault_where(script: Script, trusts: bool, expected: list[str]) -> None:
    with serving(scripted(script)) as server:
        (job,) = run(server, "a", trusts=trusts)
    assert job.fatal is not None
    assert job.fatal.exit_code == 5
    assert (job.error, job.reply) == (None, None)
    assert asked(server) == expected


def test_an_outage_costs_no_text() -> None:
    with serving(scripted({"a": [FAILS, OK]})) as server:
        (job,) = run(server, "a")
    assert job.reply == {"ok": 1}
    assert asked(server) == ["a", "probe", "a"]


def test_a_text_at_fault_costs_no_other() -> None:
    texts = [f"t{i}" for i in range(20)]
    with serving(scripted({"t3": [FAILS]})) as server:
        jobs = run(server, *texts, connections=4)
    assert sorted(job.text for job in jobs) == sorted(texts)
    assert [job.text for job in jobs if job.error is not None] == ["t3"]
    assert server.most_open <= 4
    assert all(asked(server).count(text) == 1 for text in texts if text != "t3")


def test_what_is_oldest_is_forgotten() -> None:
    known = dict.fromkeys("abcd", 0)
    forget_oldest(known, 3)
    forget_oldest(known, 9)
    assert list(known) == ["b", "c", "d"]
