"""Documents by HTTP, against `decode` of the same lists; faults of every kind; the engine over Ray."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchmarks.support.scripted_replies import FAULTS, Script, marker
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.mbr import MBRDecoder

from ...support.contextual import Echo
from ...support.proxying import Proxy, proxying, send


def letters(body: Mapping[str, Any], number: int) -> list[str]:
    """A few letters, so that the context changes choices; the same whatever the number of the request."""
    chance = random.Random(str(body["prompt"]))
    return ["".join(chance.choices("abcdef", k=chance.randint(1, 5))) for _ in range(4)]


def sentence(proxy: Proxy, key: str, position: int, **more: Any) -> Any:
    body = {
        "model": "m",
        "prompt": f"{key} {position}",
        "discorank": {"document": key, "position": position, "source": f"s{position}", **more},
    }
    return send("POST", f"{proxy.url}/completions", json=body)


def test_a_document_is_decided_as_decode_does() -> None:
    decider = MBRDecoder(utility=Echo(), nbest=None)
    script = Script(answer=letters)
    lists: list[dict[str, Any]] = [
        {
            "id": f"{key}{position}",
            "document": key,
            "position": position,
            "source": f"s{position}",
            "candidates": letters({"prompt": f"{key} {position}"}, 0),
        }
        for key in ("d", "e")
        for position in range(5)
    ]
    expected = [ranking.text for ranking in decider.decode(lists)]
    alone = [next(decider.decode([{**one, "position": 0, "document": "x"}])).text for one in lists]
    assert expected != alone  # the context matters
    with proxying(script, deciders={"echo": decider}) as proxy:
        with ThreadPoolExecutor(2) as pool:
            documents = pool.map(
                lambda key: [sentence(proxy, key, i).json() for i in range(5)], ("d", "e")
            )
            replies = [reply for document in documents for reply in document]
        assert [reply["choices"][0]["text"] for reply in replies] == expected
        metrics = send("GET", proxy.url.replace("/v1", "/metrics")).text
        assert "discorank_documents 2.0" in metrics
        # the last position once more is the same, a jump is refused, in words
        assert sentence(proxy, "d", 4).json()["choices"][0]["text"] == expected[4]
        refused = sentence(proxy, "d", 7)
        assert refused.status_code == 400
        assert "expected 5" in refused.json()["error"]["message"]
        # a request without a document has no context
        body = {"model": "m", "prompt": "d 3"}
        reply = send("POST", f"{proxy.url}/completions", json=body).json()
        assert reply["choices"][0]["text"] == alone[3]


def test_a_document_with_one_candidate_is_context_too() -> None:
    with proxying(deciders={"echo": MBRDecoder(utility=Echo(), nbest=None)}) as proxy:
        first = sentence(proxy, "d", 0, n=1)
        assert first.headers["x-discorank"] == "chosen; n=1; distinct=1; rounds=1"
        assert sentence(proxy, "d", 1).status_code == 200


def test_a_document_cannot_pass_through() -> None:
    with proxying() as proxy:
        body = {"model": "m", "prompt": "p", "temperature": 0}
        field = {"document": "d", "position": 0}
        reply = send("POST", f"{proxy.url}/completions", json={**body, "discorank": field})
    assert reply.status_code == 400
    assert "passes through (temperature=0)" in reply.json()["error"]["message"]


def test_the_first_candidate_is_context_if_it_is_set_so() -> None:
    decider = MBRDecoder(utility=Echo(), nbest=None, strategy="one-best")
    script = Script(answer=letters)
    texts = [letters({"prompt": f"d {i}"}, 0) for i in range(3)]
    lists = [
        {"id": str(i), "document": "d", "position": i, "source": f"s{i}", "candidates": texts[i]}
        for i in range(3)
    ]
    with proxying(script, deciders={"echo": decider}) as proxy:
        answers = [sentence(proxy, "d", i).json()["choices"][0]["text"] for i in range(3)]
    assert answers == [ranking.text for ranking in decider.decode(lists)]


def test_faults_of_every_kind_at_once() -> None:
    """No answer has a text of another request, and every request has an answer or an error."""
    script = Script(faults=dict.fromkeys(set(FAULTS) - {"status-400"}, 0.03), words=5)
    number = 200
    with (
        use_limits(file_bytes=2_000_000),
        proxying(script, connection={"timeout_seconds": 3.0, "retries": 3}) as proxy,
        ThreadPoolExecutor(32) as pool,
    ):

        def ask(i: int) -> Any:
            body = {"model": "m", "prompt": f"prompt {i}"}
            return send("POST", f"{proxy.url}/completions", json=body)

        replies = list(pool.map(ask, range(number)))
        assert len(proxy.upstream.met) == len(script.faults)
        metrics = send("GET", proxy.url.replace("/v1", "/metrics")).text
        assert "discorank_open 0.0" in metrics
        assert "discorank_choices 0.0" in metrics
    assert not any("internal" in report for report in proxy.reports)
    good = 0
    for i, reply in enumerate(replies):
        if reply.status_code == 200:
            good += 1
            assert reply.json()["choices"][0]["text"].endswith(marker(f"prompt {i}"))
        else:
            assert reply.status_code in (429, 502, 504)
            assert set(json.loads(reply.text)["error"]) == {"message", "type", "param", "code"}
    assert good > 0.8 * number


@pytest.mark.slow
def test_the_engine_over_ray_chooses_the_same() -> None:
    pytest.importorskip("ray")
    from discorank.rerank.engines.ray.engine import RayEngine
    from discorank.rerank.engines.ray.settings import RaySettings

    script = Script(answer=lambda body, number: Script().texts(body, 0))

    def texts(proxy: Proxy) -> list[str]:
        bodies = [{"model": "m", "prompt": f"p{i}"} for i in range(12)]
        with ThreadPoolExecutor(4) as pool:
            replies = pool.map(
                lambda body: send("POST", f"{proxy.url}/completions", json=body), bodies
            )
        return [reply.json()["choices"][0]["text"] for reply in replies]

    with proxying(script) as proxy:
        expected = texts(proxy)
    with RayEngine(RaySettings(actors=2)) as engine, proxying(script, engine=engine) as proxy:
        assert texts(proxy) == expected
