"""Several models behind serve: slow, wrong and dying ones, quorum and deadline, priors and means, costs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from benchmarks.support.scripted_replies import Script
from discorank.integrations.proxy.candidate_draw import CandidateDraw
from discorank.integrations.proxy.settings import UpstreamSpec, read_upstreams
from discorank.integrations.server import exchange
from discorank.metrics.errors import InputError
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.pool import Pool
from discorank.rerank.prior import Prior, SystemPrior
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, openai_client, panelling, send
from ...support.waiting import wait_until
from .recorded_calls import talking, weather
from .test_tool_calls import TOOLS

RIGHT = "The answer is 12."
VOTE: Any = {"vote": MBRDecoder(utility="vote", nbest=None)}
LENGTH: Any = {"rerank": Reranker({"length": 1.0}, nbest=None)}


def ask(proxy: Proxy, path: str = "chat/completions", **body: Any) -> Any:
    asked = {"model": "asked", "messages": [{"role": "user", "content": "What is 5 + 7?"}], **body}
    return send("POST", f"{proxy.url}/{path}", json=asked)


def text(reply: Any) -> str:
    assert reply.status_code == 200, reply.text
    said: str = reply.json()["choices"][0]["message"]["content"]
    return said


def outcomes(reply: Any) -> dict[str, tuple[str, int]]:
    """What became of each model, and how many candidates it gave."""
    models = reply.json()["discorank"]["models"]
    return {one["system"]: (one["outcome"], one["candidates"]) for one in models}


def saying(*texts: Any, **more: Any) -> Script:
    """A model that says these, one after the other, whatever it is asked."""

    def answer(body: Mapping[str, Any], number: int) -> list[Any]:
        return [texts[i % len(texts)] for i in range(body.get("n") or 1)]

    return Script(answer=answer, **more)


def dead() -> Script:
    return saying(RIGHT, fault=lambda body, number: "status-500")


def wrong() -> Script:
    """A model that is wrong, each time in another way."""
    return saying(*(f"The answer is {number}." for number in range(20, 36)))


def prior(**means: float) -> Prior:
    systems = tuple((name, SystemPrior(mean, 0.1, mean, 9, 3)) for name, mean in means.items())
    return Prior(systems, 1.0, 1.0, 1.0, "h", True, True, 9, 3, "x")


# slow, wrong and dying


def test_one_slow_one_wrong_one_dying(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow one never answers, the wrong one never agrees, the dying one breaks off half way: its half wins.

    On a busy machine the deadline waits for the two that are there.
    """
    seconds_left = CandidateDraw._seconds_left

    def patient_seconds_left(draw: CandidateDraw) -> float | None:
        return (
            seconds_left(draw) if sum(share.drawing.done for share in draw._shares) == 2 else None
        )

    monkeypatch.setattr(CandidateDraw, "_seconds_left", patient_seconds_left)
    never = threading.Event()
    dying = saying(RIGHT, fault=lambda body, number: "few" if number == 0 else "reset")
    scripts = {"slow": saying(RIGHT, gate=never), "wrong": wrong(), "dying": dying}
    with panelling(scripts, deciders=VOTE, deadline_seconds="700ms") as (proxy, upstreams):
        start = time.monotonic()
        reply = ask(proxy)
        assert text(reply) == RIGHT
        assert time.monotonic() - start >= 0.7
        wait_until(lambda: upstreams["slow"].num_open == 0)  # nobody waits for it any more
    assert outcomes(reply) == {
        "slow": ("dropped", 0),
        "wrong": ("answered", 4),
        "dying": ("answered", 2),
    }
    assert reply.json()["discorank"]["system"] == "dying"
    assert "; system=dying; models=2/3" in reply.headers["x-discorank"]


def busy(seconds: str) -> Script:
    return saying(RIGHT, fault=lambda body, number: f"status-429-after-{seconds}")


def test_a_model_over_its_rate_limit_pauses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(exchange, "monotonic", lambda: now[0])
    scripts = {"busy": busy("30"), "other": saying(RIGHT)}
    with panelling(scripts, connection={"retries": 2}) as (proxy, upstreams):
        # nobody waits for 30 seconds, so that the test would hang
        for _ in range(3):
            reply = ask(proxy)
            assert text(reply) == RIGHT
            assert outcomes(reply) == {"busy": ("failed", 0), "other": ("answered", 4)}
        assert upstreams["busy"].num_requests == 1
        assert upstreams["other"].num_requests == 3
        now[0] += 31
        upstreams["busy"].script.fault = None
        reply = ask(proxy)
        assert outcomes(reply) == {"busy": ("answered", 4), "other": ("answered", 4)}
        assert upstreams["busy"].num_requests == 2


def test_a_dead_model_fails_nobody_and_is_tried_once_a_request() -> None:
    scripts = {"dead": dead(), "wrong": wrong(), "late": saying(RIGHT, latency_seconds=0.1)}
    with panelling(scripts, deciders=VOTE, deadline_seconds="60s") as (proxy, upstreams):
        replies = [ask(proxy) for _ in range(3)]
        # the time before it is known as failing has its repetitions, the others have none
        assert upstreams["dead"].num_requests == 3 + 1 + 1
        upstreams["dead"].script.fault = None
        back = ask(proxy)
        assert outcomes(back)["dead"] == ("answered", 4)
    for reply in replies:
        assert text(reply) == RIGHT
        assert outcomes(reply) == {
            "dead": ("failed", 0),
            "wrong": ("answered", 4),
            "late": ("answered", 4),
        }
    said = [line for line in proxy.reports if "dead" in line]
    assert "status 500" in said[0]
    assert said[1:] == ["discorank: upstream dead: answers again"]


def test_a_quorum_does_not_wait_for_others() -> None:
    never = threading.Event()
    scripts = {"slow": saying("no", gate=never), "a": saying(RIGHT), "b": saying(RIGHT)}
    with panelling(scripts, deciders=VOTE, quorum=2) as (proxy, upstreams):
        reply = ask(proxy)
        wait_until(lambda: upstreams["slow"].num_open == 0)
    assert text(reply) == RIGHT
    assert outcomes(reply)["slow"] == ("dropped", 0)


def test_a_quorum_that_cannot_be_had_is_no_reason_to_fail() -> None:
    """Nor is a failure an answer."""
    scripts = {"a": saying(RIGHT, latency_seconds=0.3), "dead": dead(), "b": dead()}
    with panelling(scripts, quorum=2, connection={"retries": 0}) as (proxy, _):
        assert text(ask(proxy)) == RIGHT


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (("status-500", "status-500"), 502),
        (("status-400", "status-500"), 502),
        (("status-400",) * 2, 400),
    ],
)
def test_where_all_fail_the_error_has_the_words_of_each(faults: Sequence[str], status: int) -> None:
    def failing(fault: str) -> Script:
        return saying(RIGHT, fault=lambda body, number: fault)

    scripts = dict(zip("ab", map(failing, faults), strict=True))
    with panelling(scripts) as (proxy, _):
        reply = ask(proxy)
    assert reply.status_code == status
    message = reply.json()["error"]["message"]
    assert f"a: upstream: {faults[0].replace('-', ' ')}" in message
    assert f"b: upstream: {faults[1].replace('-', ' ')}" in message


def test_repetitions_stay_where_all_fail() -> None:
    with panelling({"a": dead(), "b": dead()}) as (proxy, upstreams):
        assert [ask(proxy).status_code for _ in range(2)] == [502, 502]
        assert upstreams["a"].num_requests == 2 * 3


def test_after_the_deadline_the_first_candidate_is_waited_for() -> None:
    scripts = {"a": saying(RIGHT, latency_seconds=0.2), "b": saying("no", gate=threading.Event())}
    with panelling(scripts, deadline_seconds="10ms") as (proxy, _):
        assert text(ask(proxy)) == RIGHT


def test_an_empty_reply_keeps_nobody_busy_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that gave nothing is no reason to look again and again for what there is at the deadline."""
    looks, seconds_left = [], CandidateDraw._seconds_left

    def counted(draw: CandidateDraw) -> float | None:
        looks.append(draw)
        return seconds_left(draw)

    monkeypatch.setattr(CandidateDraw, "_seconds_left", counted)
    empty = saying(RIGHT, fault=lambda body, number: "no-choices")
    scripts = {"empty": empty, "late": saying(RIGHT, latency_seconds=0.3)}
    with panelling(scripts, deadline_seconds="10ms") as (proxy, _):
        assert text(ask(proxy)) == RIGHT
    assert len(looks) < 20


def test_a_model_without_the_log_probabilities_that_are_read_fails_alone() -> None:
    scripts = {"none": saying("a much longer text", logprobs=False), "some": saying("short")}
    by_logprob: Any = {"rerank": Reranker({"logprob": 1.0}, nbest=None)}
    with panelling(scripts, deciders=by_logprob) as (proxy, _):
        reply = ask(proxy)
    assert text(reply) == "short"
    assert outcomes(reply) == {"none": ("failed", 0), "some": ("answered", 4)}
    assert any("none" in line and "no log-probabilities" in line for line in proxy.reports)


# what goes to each


def test_each_is_asked_by_its_own_name_for_its_own_number() -> None:
    scripts = {"a": saying("x y z"), "b": saying("x y"), "c": saying("x")}
    specs: dict[str, Any] = {"a": {"model": "A-7b", "n": 2}, "b": {"model": "B"}}
    with panelling(scripts, specs=specs) as (proxy, upstreams):
        reply = ask(proxy, seed=3, discorank={"n": 3, "explain": True})
        bodies = {name: one.seen[0].body for name, one in upstreams.items()}
        for one in upstreams.values():
            one.seen.clear()
        ask(proxy, messages=[{"role": "user", "content": [{"type": "image_url"}]}])
        ask(proxy, "embeddings", input="x", model="embedder")
        passed = {
            name: [seen.body["model"] for seen in one.seen] for name, one in upstreams.items()
        }
    asked = {name: (body["model"], body["n"], body["seed"]) for name, body in bodies.items()}
    assert asked == {"a": ("A-7b", 2, 3), "b": ("B", 3, 3), "c": ("asked", 3, 3)}
    about = reply.json()["discorank"]
    assert about["n"] == 8
    assert [(one["system"], one["candidates"]) for one in about["usage"]] == [
        ("a", [0, 1]),
        ("b", [2, 3, 4]),
        ("c", [5, 6, 7]),
    ]
    assert {one["text"]: one["system"] for one in about["candidates"]} == {
        "x y z": "a",
        "x y": "b",
        "x": "c",
    }
    # what is not chosen goes to the first
    assert passed == {"a": ["A-7b", "embedder"], "b": [], "c": []}


def test_no_more_choices_are_promised_than_there_are_candidates() -> None:
    scripts = {"a": saying("x", "y"), "b": saying("y", "z")}
    with panelling(scripts, specs={"a": {"n": 1}, "b": {"n": 2}}) as (proxy, _):
        assert len(ask(proxy, n=3).json()["choices"]) == 3
        refused = ask(proxy, n=4)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"
    with panelling(scripts) as (proxy, upstreams):
        greedy = ask(proxy, n=3, temperature=0)
        assert upstreams["b"].num_requests == 0
    assert len(greedy.json()["choices"]) == 3
    assert greedy.headers["x-discorank"] == "passed-through; reason=temperature=0"


def test_one_candidate_of_each_is_a_choice_also_without_sampling() -> None:
    scripts = {"a": saying("the red boat"), "b": saying("a red boat"), "c": saying("the red boat")}
    with panelling(scripts, num_candidates=1) as (proxy, _):
        one = ask(proxy)
    with panelling(scripts) as (proxy, upstreams):
        greedy = ask(proxy, temperature=0)
        assert [one.seen[0].body["n"] for one in upstreams.values()] == [1, 1, 1]
    for reply in (one, greedy):
        assert text(reply) == "the red boat"
        assert reply.json()["discorank"]["n"] == 3


def test_all_models_together_keep_within_the_tokens_of_a_request() -> None:
    scripts = {"a": saying("x"), "b": saying("y"), "c": saying("z")}
    with panelling(scripts, max_request_tokens=100) as (proxy, upstreams):
        for tokens in (None, 10, 30):
            ask(proxy, max_tokens=tokens)
        bodies = [[seen.body for seen in one.seen] for one in upstreams.values()]
    totals = [
        sum(body["n"] * body["max_tokens"] for body in of_request)
        for of_request in zip(*bodies, strict=True)
    ]
    assert totals[:2] == [12 * 8, 10 * 10]
    assert totals[2] == 3 * 30


def test_each_server_gets_its_own_key_and_no_error_shows_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY_A", "secret-of-a-0123456789")
    monkeypatch.setenv("KEY_B", "secret-of-b-0123456789")
    quoting = saying("x", fault=lambda body, number: "status-500")  # the error quotes the key
    specs = {"a": {"key_variable": "KEY_A"}, "b": {"key_variable": "KEY_B"}}
    scripts = {"a": quoting, "b": quoting, "c": saying("it is secret-of-b-0123456789")}
    with panelling(scripts, specs=specs, connection={"retries": 0}) as (proxy, upstreams):
        reply = ask(proxy)
        keys = {name: one.seen[0].headers.get("authorization") for name, one in upstreams.items()}
    assert keys == {
        "a": "Bearer secret-of-a-0123456789",
        "b": "Bearer secret-of-b-0123456789",
        "c": None,
    }
    assert text(reply) == "it is secret-of-b-0123456789"  # an answer passes as it came
    problems = [one.get("problem", "") for one in reply.json()["discorank"]["models"]]
    assert ["scripted fault for Bearer [key]" in problem for problem in problems] == [1, 1, 0]
    assert "secret-of" not in " ".join([*problems, *proxy.reports])


# tools, streams


def test_a_stream() -> None:
    with (
        panelling({"a": saying("no"), "b": saying(RIGHT), "c": saying(RIGHT)}, deciders=VOTE) as (
            proxy,
            _,
        ),
        openai_client(proxy.url) as client,
    ):
        messages: Any = [{"role": "user", "content": "p"}]
        events = list(client.chat.completions.create(model="m", messages=messages, stream=True))
    assert "".join(event.choices[0].delta.content or "" for event in events) == RIGHT


def test_calls_of_tools_are_voted_over_all_models() -> None:
    scripts = {
        "a": saying(weather("Rome")),
        "b": saying(weather("Oslo")),
        "c": saying(talking("I cannot know")),
        "d": saying(weather("Oslo")),
    }
    with panelling(scripts, num_candidates=2) as (proxy, _):
        reply = ask(proxy, tools=TOOLS)
    assert called(reply) == {"city": "Oslo"}
    about = reply.json()["discorank"]
    assert (about["tools"]["calls"], about["tools"]["talk"], about["system"]) == (6, 2, "b")
    for best, winner in (("a", {"city": "Rome"}), ("c", None)):
        means = dict.fromkeys(scripts, 1.0) | {best: -1.0}
        vote = MBRDecoder(utility="vote", nbest=None, pool=Pool(prior=prior(**means)))
        with panelling(scripts, deciders={"vote": vote}, num_candidates=2) as (proxy, _):
            assert called(ask(proxy, tools=TOOLS)) == winner


def called(reply: Any) -> Any:
    """The arguments of the call that answers; None where it talks."""
    calls = reply.json()["choices"][0]["message"].get("tool_calls")
    return calls and json.loads(calls[0]["function"]["arguments"])


# costs


def test_costs_are_in_the_answer() -> None:
    scripts = {"a": saying("one two three"), "dead": dead(), "b": saying("one two")}
    with panelling(scripts, connection={"retries": 0}) as (proxy, _):
        reply = ask(proxy)
    about = reply.json()["discorank"]
    a, dead_one, b = about["models"]
    assert (a["requests"], a["completion_tokens"], b["completion_tokens"]) == (1, 12, 8)
    assert "status 500" in dead_one["problem"]
    assert reply.json()["usage"]["completion_tokens"] == 20


# priors and means


def test_a_prior_weighs_the_candidates_of_each_model() -> None:
    scripts = {"good": saying("12"), "bad": saying("13"), "worse": saying("13")}
    vote = MBRDecoder(utility="vote", nbest=None, pool=Pool(prior=prior(good=-1, bad=1, worse=1)))
    with panelling(scripts, deciders=VOTE) as (proxy, _):
        assert text(ask(proxy)) == "13"
    with panelling(scripts, deciders={"vote": vote}) as (proxy, _):
        assert text(ask(proxy)) == "12"
    unknown = {"good": saying("12"), "other": saying("x")}
    with (
        pytest.raises(InputError, match="'other'"),
        panelling(unknown, deciders={"vote": vote}),
    ):
        pass


def test_scores_are_moved_towards_the_given_mean_of_their_model() -> None:
    means = {"short": 9.0, "long": -9.0}
    shrinking = Reranker({"length": 1.0}, shrink=0.9, system_means=means, nbest=None)
    scripts = {"short": saying("a"), "long": saying("a b c d")}
    for decider, winner in ((LENGTH["rerank"], "long"), (shrinking, "short")):
        with panelling(scripts, deciders={"rerank": decider}) as (proxy, _):
            assert ask(proxy).json()["discorank"]["system"] == winner
    without = Reranker({"length": 1.0}, shrink=0.9, nbest=None)
    other = Reranker({"length": 1.0}, shrink=0.9, system_means={"short": 1.0, "x": 0.0}, nbest=None)
    for decider, fact in ((without, "shrink: has no means"), (other, "'long'")):
        with (
            pytest.raises(InputError, match=fact),
            panelling(scripts, deciders={"rerank": decider}),
        ):
            pass


# what is given


def test_how_upstreams_are_written() -> None:
    assert read_upstreams(["http://x/v1?a=b"]) == (UpstreamSpec("", "http://x/v1?a=b"),)
    assert read_upstreams(["a=http://x/v1,n=3,key=K", "b.2=http://y/v1,model=org/m:8b"]) == (
        UpstreamSpec("a", "http://x/v1", "", 3, "K"),
        UpstreamSpec("b.2", "http://y/v1", "org/m:8b"),
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["http://x/v1", "b=http://y/v1"], "'http://x/v1'"),
        (["a=http://x/v1", "a=http://y/v1"], "twice"),
        (["a=http://x/v1,n=0"], "--upstream a: found 'n=0'"),
        (["a=http://x/v1,n=two"], "found 'n=two'"),
        (["a=http://x/v1,modle=x"], "'model'"),
        (["a=http://x/v1,model"], "found 'model'"),
        (["http://x/v1,model=x"], "'http://x/v1,model=x'"),
        (["a=http://x/v1,n=999999"], "--upstream a"),
        (["a=http://x/v1,n=1,n=2"], "found 'n=2'"),
        ([f"a{i}=http://x/v1" for i in range(2000)], "2000"),
    ],
)
def test_upstreams_that_cannot_be_read(texts: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_upstreams(texts)
    assert message in str(raised.value)
