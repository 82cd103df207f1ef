"""Scores over HTTP: the values of `score` to the last bit, every form, errors in their places, and the bounds."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discorank
from benchmarks.support.scripted_upstream import upstream_running
from discorank.integrations.proxy import score_endpoints
from discorank.integrations.server.score_server import ScoreServer
from discorank.metrics.errors import InputError, MetricError, ResourceError
from discorank.metrics.mixture import Function
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.engines.text_scores import distinct_tasks

from ...support.proxying import scoring, send
from ...support.waiting import wait_until

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
TINY = f'bertscore(model="{MODELS / "tiny-bert"}",layer=2)'
DOC = f'bertscore(model="{MODELS / "tiny-xlmr"}",layer=2,context=2)'
HYPOTHESES = ["a cat sat", "the dog", "", "the mat is here now", "a cat sat", "dogs and cats"]
REFERENCES = [
    ["a cat sat down", "cats"],
    ["the dog"],
    ["x"],
    ["the mat"],
    ["dogs"],
    ["dogs", "cats and dogs"],
]


def post(url: str, path: str, /, status: Any = 200, **body: Any) -> Any:
    reply = send("POST", f"{url}{path}", content=json.dumps(body))  # halves of pairs escaped
    assert reply.status_code == status, reply.text
    return reply.json()


def numbers(reply: Any) -> list[float]:
    return [result["score"] for result in reply["data"]]


def faulty(hypothesis: Any, reference: Any) -> float:
    """A number, but for two texts."""
    if hypothesis == "bad":
        raise ValueError("a bad text")
    return float("nan") if hypothesis == "nan" else float(len(hypothesis))


FAULTY = Function(faulty)


@pytest.mark.parametrize("name", ["chrf", "bleu", "ter", "meteor", "chrf + 0.5*bleu", TINY])
def test_values_are_those_of_score_to_the_last_bit(name: str) -> None:
    metric = discorank.load_metric(name)
    single = {"chrf + 0.5*bleu": 1.0}.get(name) or metric.parts[0][1].utility_sign
    expected = (single * metric.score(HYPOTHESES, REFERENCES)).tolist()
    with scoring(name) as (_, url):
        whole = post(url, "/v1/score", hypotheses=HYPOTHESES, references=REFERENCES)
        assert numbers(whole) == expected
        for i, value in enumerate(expected):
            one = post(
                url, "/v1/score", hypotheses=HYPOTHESES[i : i + 1], references=REFERENCES[i : i + 1]
            )
            assert numbers(one) == [value]


def test_context_of_documents_is_read_as_score_reads_it() -> None:
    documents = ["one", "one", "one", "two", "two", "two"]
    references = [[texts[0]] for texts in REFERENCES]
    expected = discorank.load_metric(DOC).score(HYPOTHESES, references, documents=documents)
    plain = discorank.load_metric(DOC).score(HYPOTHESES, references, documents=list("abcdef"))
    assert expected.tolist() != plain.tolist()
    with scoring(DOC) as (_, url):
        body = {"hypotheses": HYPOTHESES, "references": references, "documents": documents}
        assert numbers(post(url, "/v1/score", **body)) == expected.tolist()
        refused = post(url, "/v1/score", 400, hypotheses=HYPOTHESES, references=references)
        assert "documents" in refused["error"]["message"]


def test_many_clients_at_once_get_their_own_values() -> None:
    rng = np.random.default_rng(3)
    words = ["a", "the", "cat", "dog", "sat", "mat", "here", "now", "down"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(100)]
    expected = discorank.load_metric(TINY).score(texts, texts[::-1]).tolist()
    with scoring(TINY) as (_, url), ThreadPoolExecutor(16) as pool:

        def ask(start: int) -> list[float]:
            part = slice(start, start + 1 + start % 5)
            return numbers(
                post(url, "/v1/score", hypotheses=texts[part], references=texts[::-1][part])
            )

        starts = list(range(0, 95))
        for start, values in zip(starts, pool.map(ask, starts), strict=True):
            assert values == expected[start : start + 1 + start % 5]


def test_score_server_takes_it_as_its_upstream_bit_for_bit() -> None:
    texts = ["a cat sat", "the dog", "the mat is here", ""]
    expected = discorank.load_metric(TINY).pairwise(texts, texts)
    with scoring("chrf", TINY) as (_, url):
        for form in ("score", "rerank", "auto"):
            served = ScoreServer(model=TINY, form=form, base_url=f"{url}/v1", batch_pairs=3)
            assert served.pairwise(texts, texts).tolist() == expected.tolist()


def test_the_client_has_the_same_values() -> None:
    expected = discorank.load_metric(TINY).score(HYPOTHESES, REFERENCES)
    with scoring("bleu", TINY) as (_, url):
        scores = discorank.Scores(url, TINY)
        assert scores.score(HYPOTHESES, REFERENCES).tolist() == expected.tolist()


# forms


def test_rerank_puts_the_best_first() -> None:
    with scoring("chrf", "ter") as (_, url):
        worst, best = discorank.load_metric("chrf").score(["x", "a cat"], ["a cat sat"] * 2)
        body = {"query": "a cat sat", "documents": ["x", {"text": "a cat"}]}
        reply = post(url, "/v1/rerank", **body)
        assert [one["relevance_score"] for one in reply["results"]] == [best, worst]
        assert [one["index"] for one in post(url, "/v1/rerank", **body, top_n=1)["results"]] == [1]
        # a distance counts negated
        assert post(url, "/v1/rerank", **body, model="ter")["results"][0]["index"] == 1


def test_rewards_of_openrlhf() -> None:
    with scoring("chrf", "ter", strip=("</s>",)) as (_, url):
        chrf = discorank.load_metric("chrf")
        body = {
            "query": ["<s>Say: a cat</s>", "<s>Say: a cat</s>"],
            "prompts": ["Say: ", "Say: "],
            "labels": ["a cat sat", {"references": ["cats", "a cat"]}],
        }
        # a blank before a text changes no n-gram of chrF
        expected = chrf.score(["a cat", "a cat"], [["a cat sat"], ["cats", "a cat"]]).tolist()
        assert post(url, "/get_reward", **body)["rewards"] == expected
        ter = -discorank.load_metric("ter").score(["a cat"], ["a cat sat"]).item()
        assert post(url, "/get_reward?model=ter", **body)["rewards"][0] == ter
        number = {"query": ["Say: 42"], "prompts": ["Say: "], "labels": [42]}
        assert post(url, "/get_reward", **number)["rewards"] == [100]
        lost = post(url, "/get_reward", 400, query=["a cat"], prompts=["Say: "], labels=["x"])
        assert lost["error"]["param"] == "prompts[0]"


def test_a_label_of_a_vote_is_never_reduced() -> None:
    label = r"2\sqrt{5}"
    with scoring("vote") as (_, url):
        for response, value in ((r"so \boxed{5}", 0.0), (rf"so \boxed{{{label}}}", 1.0)):
            body = {"query": [f"p {response}"], "prompts": ["p "], "labels": [label]}
            assert post(url, "/get_reward", **body)["rewards"] == [value]


def test_a_server_upstream_keeps_what_names_none_of_our_metrics() -> None:
    with upstream_running() as upstream, scoring("bleu", upstream=upstream.url) as (_, url):
        pair = {"text_1": "a cat", "text_2": "a cat"}
        assert numbers(post(url, "/v1/score", model="bleu", **pair)) == [pytest.approx(100)]
        for theirs in ("theirs", ["bleu"], None):
            passed = send("POST", f"{url}/v1/score", json={"model": theirs, **pair})
            assert passed.headers["x-discorank"] == "passed-through; reason=path"
        chosen = send("POST", f"{url}/v1/completions", json={"model": "m", "prompt": "p"})
        assert chosen.headers["x-discorank"].startswith("chosen")


def test_models_health_and_unknown_paths() -> None:
    with scoring("chrf", TINY) as (_, url):
        models = send("GET", f"{url}/v1/models").json()["data"]
        assert [model["id"] for model in models] == ["chrf", TINY]
        assert send("GET", f"{url}/healthz").json() == {"status": "ok"}
        post(url, "/v1/score", text_1="a", text_2="a")
        assert 'discorank_scored_total{kind="score"} 1.0' in send("GET", f"{url}/metrics").text
        assert post(url, "/v1/chat/completions", 404)["error"]["code"] == "not_found"
        assert post(url, "/elsewhere", 404)["error"]["code"] == "not_found"
        assert send("GET", f"{url}/v1/score").status_code == 405
        assert (
            post(url, "/v1/score", 404, model="x", text_1="a", text_2="a")["error"]["param"]
            == "model"
        )


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/score", {}, "body"),
    ("/v1/score", {"hypotheses": ["a", 3], "references": ["a", "b"]}, "hypotheses[1]"),
    ("/v1/score", {"hypotheses": ["a"], "references": ["a", "b"]}, "references"),
    ("/v1/score", {"hypotheses": ["a"], "references": [[]]}, "references[0]"),
    ("/v1/score", {"hypotheses": ["a"]}, "references"),
    (
        "/v1/score",
        {"hypotheses": ["a"], "references": ["a"], "sources": ["s", "t"]},
        "sources",
    ),
    ("/v1/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"),
    ("/v1/score", {"text_1": "a", "text_2": "a", "errors": "none"}, "errors"),
    ("/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, "top_n"),
    ("/v1/rerank", {"query": 3, "documents": ["a"]}, "query"),
    ("/get_reward", {"query": ["a"], "labels": []}, "labels"),
    ("/get_reward", {"query": ["a"], "labels": [None]}, "labels[0]"),
]


def test_what_cannot_be_read_is_refused_with_its_place() -> None:
    with scoring("chrf") as (_, url):
        for path, body, param in MISTAKES:
            assert post(url, path, 400, **body)["error"]["param"] == param


# failures


def test_a_text_without_a_score_is_an_error_in_its_place_or_of_the_request() -> None:
    texts = ["bad", "fine", "nan", "bad"]
    body = {"hypotheses": texts, "references": ["r"] * 4}
    with scoring(FAULTY) as (_, url):
        reply = post(url, "/v1/score", **body, errors="each")
        assert numbers(reply) == [None, 4.0, None, None]
        assert "ValueError: a bad text" in reply["data"][0]["error"]["message"]
        assert reply["data"][2]["error"]["code"] == "not_scored"
        whole = post(url, "/v1/score", 422, **body)["error"]
        assert whole["param"] == "texts[0]"
        assert "3 of 4" in whole["message"]
        openrlhf = post(url, "/get_reward", query=texts, labels=["r"] * 4, errors="each")
        assert openrlhf["rewards"] == [None, 4.0, None, None]
        assert [error["index"] for error in openrlhf["errors"]] == [0, 2, 3]
        ranked = post(url, "/v1/rerank", query="r", documents=texts, errors="each")["results"]
        assert [one["index"] for one in ranked] == [1, 0, 2, 3]
        scores = discorank.Scores(url)
        outcomes = scores.outcomes(texts, ["r"] * 4)
        assert isinstance(outcomes[0], MetricError)
        assert outcomes[1] == 4.0
        with pytest.raises(MetricError, match=r"hypotheses\[0\]"):
            scores.score(texts, ["r"] * 4)


def test_documents_of_unequal_sentences_cost_themselves_alone() -> None:
    with scoring("chrf") as (_, url):
        body = {"hypotheses": [["A cat.", "It sat."], "a cat"], "references": [["A cat."], "a cat"]}
        reply = post(url, "/v1/score", **body, errors="each")
        assert numbers(reply) == [None, 100.0]
        assert reply["data"][0]["error"]["code"] == "bad_text"


def test_a_slow_metric_is_a_503_and_its_work_is_dropped() -> None:
    gate, calls = threading.Event(), []

    def slow(hypothesis: Any, reference: Any) -> float:
        calls.append(hypothesis)
        gate.wait(30)
        return 1.0

    metric, engine = Function(slow, "slow"), discorank.LocalEngine()
    engine.wave = 1  # one pair at a time
    with scoring(metric, engine=engine, door={"choice_seconds": 0.3}) as (server, url):
        try:
            body = {"text_1": "a", "text_2": ["b", "never"]}
            reply = send("POST", f"{url}/v1/score", json=body)
            assert reply.status_code == 503
            assert reply.headers["retry-after"]
            assert reply.json()["error"]["code"] == "slow_scores"
            # what comes next waits, is given up, and is never begun
            post(url, "/v1/score", 503, text_1="a", text_2=["never"])
        finally:
            gate.set()
        wait_until(lambda: server._choosing.num_waiting == 0)
        assert "never" not in calls
        assert numbers(post(url, "/v1/score", text_1="a", text_2="d")) == [1.0]


def test_a_metric_whose_server_is_gone_is_a_503() -> None:
    def gone(hypothesis: Any, reference: Any) -> float:
        raise AssertionError

    class Engine(discorank.LocalEngine):
        def collect(self) -> Any:
            self.waiting.clear()
            raise ResourceError("the workers are gone", where="engine")

    with scoring(Function(gone, "gone"), engine=Engine()) as (_, url):
        error = post(url, "/v1/score", 503, text_1="a", text_2="b")["error"]
        assert error["code"] == "no_scores"
        with pytest.raises(ResourceError, match="gone"):
            discorank.Scores(url, retries=0).score(["a"], ["b"])


# bounds


def test_too_many_pairs_are_refused_and_too_many_waiting_are_told_to_come_again() -> None:
    gate = threading.Event()

    def slow(hypothesis: Any, reference: Any) -> float:
        gate.wait(30)
        return 1.0

    with (
        scoring(Function(slow, "slow"), max_pairs=4) as (server, url),
        ThreadPoolExecutor(8) as pool,
    ):
        try:
            assert (
                post(url, "/v1/score", 413, text_1="a", text_2=["b"] * 5)["error"]["code"]
                == "too_many_pairs"
            )
            asked = []
            for i in range(4):
                texts = [f"{i} {j}" for j in range(4)]
                asked.append(pool.submit(post, url, "/v1/score", text_1="a", text_2=texts))
            wait_until(lambda: server._choosing.num_waiting == 16)
            reply = send("POST", f"{url}/v1/score", json={"text_1": "a", "text_2": "b"})
            assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        finally:
            gate.set()
        assert [numbers(future.result()) for future in asked] == [[1.0] * 4] * 4


def test_texts_that_are_too_long_or_pairs_with_too_much_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(score_endpoints, "CHARACTERS_PER_PAIR", 10)
    with scoring("chrf", max_text_characters=20, max_pairs=4) as (_, url):
        fine, long = "a" * 20, "a" * 21
        for body in ({"text_1": fine, "text_2": long}, {"text_1": long, "text_2": fine}):
            assert post(url, "/v1/score", 413, **body)["error"]["code"] == "too_long"
        assert numbers(post(url, "/v1/score", text_1=fine, text_2=fine)) == [100.0]
        refused = post(url, "/v1/score", 413, text_1=fine, text_2=[fine, fine])
        assert refused["error"]["code"] == "too_many_characters"


def test_memory_of_requests_is_accounted_for_and_given_back() -> None:
    with use_limits(memory_bytes=1_000_000), scoring("chrf") as (server, url):
        many = [str(i) for i in range(600)]
        error = post(url, "/v1/score", 413, text_1="a", text_2=many)["error"]
        assert error["code"] == "too_large"
        post(url, "/v1/score", text_1="a", text_2=many[:50])
        wait_until(lambda: server._app._room.num_bytes == 0)


def test_equal_texts_of_a_request_are_valued_once() -> None:
    calls = []

    def count(hypothesis: Any, reference: Any) -> float:
        calls.append((hypothesis, reference))
        return 1.0

    with scoring(Function(count, "count")) as (_, url):
        post(url, "/v1/score", text_1="a", text_2=["b", "c", "b", "b"])
    assert sorted(calls) == [("b", "a"), ("c", "a")]


def test_a_long_request_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def noted(*arguments: Any) -> Any:
        threads.add(threading.current_thread().name)
        return distinct_tasks(*arguments)

    monkeypatch.setattr(score_endpoints, "distinct_tasks", noted)
    with scoring("chrf") as (_, url):
        long = ["word " * 40] * 600
        values = numbers(post(url, "/v1/score", hypotheses=long, references=long))
        assert values == [100.0] * 600
    assert all(name.startswith("discorank-json") for name in threads)


def test_a_metric_that_waits_for_a_corpus_is_refused() -> None:
    with (
        pytest.raises(InputError, match="waits for a corpus"),
        scoring(TINY.replace("layer=2", "layer=2,idf=true")),
    ):
        pass


def test_answers_are_strict_json() -> None:
    with scoring(FAULTY) as (_, url):
        body = {"hypotheses": ["nan", "fine"], "references": ["r", "r"], "errors": "each"}
        reply = send("POST", f"{url}/v1/score", json=body)

        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        json.loads(reply.content, parse_constant=refuse)


HALF = json.loads('"\\ud83d"')
UNREADABLE = [
    ("/v1/score", {"hypotheses": ["abc", None, HALF, ["a", HALF]], "references": ["r"] * 4}),
    ("/v1/score", {"hypotheses": ["abc", "b", "c", "d"], "references": ["r", None, [None], HALF]}),
    (
        "/v1/score",
        {"hypotheses": list("abcd"), "references": ["r"] * 4, "sources": ["s", 1, {}, HALF]},
    ),
    ("/v1/score", {"text_1": "r", "text_2": ["abc", None, 3, HALF]}),
    ("/v1/score", {"text_1": ["r", None, 3, HALF], "text_2": ["abc", "b", "c", "d"]}),
    ("/v1/rerank", {"query": "r", "documents": ["abc", None, 3, HALF]}),
    ("/get_reward", {"query": ["abc", None, 3, HALF], "labels": ["r"] * 4}),
    ("/get_reward", {"query": ["abc", "b", "c", "d"], "labels": ["r", None, {}, HALF]}),
    (
        "/get_reward",
        {"query": ["pabc", "b", "c", "d"], "prompts": ["p", None, "x", HALF], "labels": ["r"] * 4},
    ),
]


@pytest.mark.parametrize(("path", "body"), UNREADABLE)
def test_a_text_that_cannot_be_read_is_an_error_in_its_place(path: str, body: Any) -> None:
    with scoring(FAULTY) as (_, url):
        answer = post(url, path, **body, errors="each")
        if path == "/get_reward":
            scores, faults = answer["rewards"], {one["index"]: one for one in answer["errors"]}
        else:
            results = answer.get("data") or answer["results"]
            scores = [one.get("score", one.get("relevance_score")) for one in results]
            faults = {one["index"]: one["error"] for one in results if "error" in one}
        assert (len(scores), scores[0] is not None, scores[1:]) == (4, True, [None] * 3)
        assert sorted(faults) == [1, 2, 3]
        assert {fault["code"] for fault in faults.values()} == {"bad_text"}
        assert all(f"[{i}]" in fault["message"] for i, fault in faults.items())
        refused = post(url, path, 400, **body)["error"]
        assert "[1]" in refused["param"]


def test_a_text_that_is_too_long_is_an_error_in_its_place() -> None:
    body = {"hypotheses": ["abc", "x" * 21, "b"], "references": ["r", "r", "x" * 21]}
    with scoring(FAULTY, max_text_characters=20) as (_, url):
        answer = post(url, "/v1/score", **body, errors="each")
        assert numbers(answer) == [3.0, None, None]
        assert "21 characters, at most 20" in answer["data"][1]["error"]["message"]
        assert answer["data"][1]["error"]["code"] == "bad_text"
        assert post(url, "/v1/score", 413, **body)["error"]["code"] == "too_long"
        every = {"hypotheses": ["x" * 21] * 2, "references": ["r"] * 2}
        assert numbers(post(url, "/v1/score", **every, errors="each")) == [None, None]


def test_documents_with_a_text_that_cannot_be_read_have_no_scores() -> None:
    """Their other texts would have another context than they say."""
    body: dict[str, list[Any]] = {
        "hypotheses": ["a cat sat", None, "the dog", "the mat", "a cat"],
        "references": ["a cat", "cats", "the dog", "mat", "a cat"],
        "documents": ["one", "one", "one", "two", "two"],
    }
    with scoring(DOC) as (_, url):
        scores = numbers(post(url, "/v1/score", **body, errors="each"))
        two = {name: column[3:] for name, column in body.items()}
        assert scores == [None, None, None, *numbers(post(url, "/v1/score", **two))]
