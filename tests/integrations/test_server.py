"""Candidates from servers: what is asked for, what is read, and every way in which a server may misbehave."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import socket
import threading
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.cli.commands.generate import ServerOptions, server_generator
from discorank.cli.main import main
from discorank.cli.options.backends import BackendOptions
from discorank.integrations import server as server_module
from discorank.integrations.generation.generator import Generated, Generator, Prompt
from discorank.integrations.huggingface.model_loading import GenerationSettings
from discorank.integrations.server import Connection, ServerGenerator, ServerSettings, exchange
from discorank.integrations.server import generator as replies
from discorank.integrations.server.exchange import UnusableError
from discorank.metrics.errors import DiscorankError, InputError, ResourceError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.lists import Candidate, CandidateList
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ..support.serving import Reply, Seen, Server, completion, echo, serving
from ..support.waiting import PATIENCE_SECONDS

KEY = "sk-very-secret-0123456789"


def generator(
    server: Server | str, connection: dict[str, Any] | None = None, **settings: Any
) -> ServerGenerator:
    url = server if isinstance(server, str) else server.url
    chosen = {
        "backoff_seconds": 0.0,
        "connections": 4,
        "timeout_seconds": PATIENCE_SECONDS,
        **(connection or {}),
    }
    return ServerGenerator(
        ServerSettings(**{"model": "m", "num_candidates": 3, **settings}), Connection(url, **chosen)
    )


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(f"id{i}", text) for i, text in enumerate(texts)]


def good(generated: list[Generated]) -> list[CandidateList]:
    assert [str(one) for one in generated if isinstance(one, DiscorankError)] == []
    return [one for one in generated if isinstance(one, CandidateList)]


def texts(record: Generated) -> list[Any]:
    assert isinstance(record, CandidateList)
    return [candidate.text for candidate in record.candidates]


# what is asked for, what is read


def test_completions_with_log_probabilities_in_the_order_of_the_prompts() -> None:
    first = threading.Event()

    def answer(seen: Seen, number: int) -> Reply:
        if seen.body["prompt"] == "c":
            first.set()
        hold = first if seen.body["prompt"] == "a" else None
        body = completion(
            [seen.body["prompt"] + str(i) for i in range(seen.body["n"])], [-0.5, -1.25]
        )
        return Reply(body, hold=hold)

    with serving(answer) as server:
        made: Generator = generator(
            server, logprobs=True, temperature=0.7, top_p=0.9, max_new_tokens=9
        )
        records = good(
            list(
                made.generate(
                    [
                        *prompts("a", "b", "c"),
                        Prompt("z", "d", "quelle", "doc", 4, ("r",), {"k": 1}),
                    ]
                )
            )
        )
    assert [texts(record) for record in records] == [[p + str(i) for i in range(3)] for p in "abcd"]
    assert records[0].candidates[0] == Candidate("a0", -1.75)
    last = records[3]
    assert (last.id, last.source, last.document, last.position, last.references, last.extra) == (
        *("z", "quelle", "doc", 4),
        *(("r",), {"k": 1}),
    )
    assert server.seen[0].path == "/v1/completions"
    body = {**server.seen[0].body, "prompt": "", "seed": 0}
    expected = {
        "model": "m",
        "n": 3,
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.9,
        "logprobs": 1,
    }
    assert body == {**expected, "prompt": "", "seed": 0}


def test_chats_with_a_system_and_further_keys() -> None:
    message = {"role": "assistant", "content": "Hallo"}
    tokens = {"content": [{"token": "Ha", "logprob": -0.25}, {"token": "llo", "logprob": -0.5}]}
    choice = {"message": message, "logprobs": tokens, "finish_reason": "length"}
    with serving(lambda seen, number: Reply({"choices": [choice] * seen.body["n"]})) as server:
        made = generator(
            server,
            chat=True,
            system="Translate.",
            logprobs=True,
            seed=None,
            request='{"top_k": -1}',
        )
        (record,) = good(list(made.generate(prompts("Hello"))))
    assert record.candidates == (Candidate("Hallo", -0.75, {"unfinished": True}),) * 3
    assert server.seen[0].path == "/v1/chat/completions"
    body = server.seen[0].body
    assert body["messages"] == [
        {"role": "system", "content": "Translate."},
        {"role": "user", "content": "Hello"},
    ]
    assert (body["logprobs"], body["top_k"], "seed" in body, "prompt" in body) == (
        True,
        -1,
        False,
        False,
    )


BROKEN_VALUES: tuple[Any, ...] = ([], [None, -1], ["x"], [math.nan], [True], "abc", {})


@pytest.mark.parametrize(
    ("logprobs", "total"),
    [
        ({"token_logprobs": [-1, -0.5]}, -1.5),
        ({"content": [{"logprob": -1}, {"logprob": -9999.0}]}, -10000.0),
        ({"token_logprobs": None, "content": [{"logprob": -2}]}, -2.0),
        ({"token_logprobs": [-math.inf, -1]}, -math.inf),
        ({"token_logprobs": [0.0001]}, 0.0),
        *(({"token_logprobs": broken}, None) for broken in BROKEN_VALUES),
        *(
            (broken, None)
            for broken in (
                None,
                3,
                *BROKEN_VALUES,
                {"content": []},
                {"content": [1]},
                {"content": {}},
            )
        ),
    ],
)
def test_log_probabilities_are_read_where_they_are_whole(
    logprobs: Any, total: float | None
) -> None:
    for form in ({"text": "t"}, {"message": {"content": "t"}}):
        choice = {**form, "logprobs": logprobs}
        assert replies.candidates_in({"choices": [choice]}) == [Candidate("t", total)]


def test_a_log_probability_above_0_is_the_error_of_its_choice() -> None:
    good, bad = ({"text": "t", "logprobs": {"token_logprobs": [one]}} for one in (-1.0, 3.0))
    first, error = replies.candidates_in({"choices": [good, bad]})
    assert first == Candidate("t", -1.0)
    assert str(error).startswith("server: logprobs: found 3, expected a natural log-probability")


values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(-(10**400), 10**400)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "text",
                    "message",
                    "content",
                    "logprobs",
                    "token_logprobs",
                    "logprob",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_no_reply_raises(value: Any) -> None:
    for reply in (value, {"choices": value}, {"choices": [value]}):
        for choice in replies.candidates_in(reply):
            assert isinstance(choice, Candidate | InputError)
            assert isinstance(choice, InputError) or choice.logprob is None or choice.logprob <= 0


def test_pseudo_references_are_drawn_apart() -> None:
    with serving(echo) as server:
        made = generator(server, num_references=2, reference_temperature=0.5)
        (record,) = good(list(made.generate(prompts("p"))))
    assert (len(record.candidates), len(record.pseudo_references)) == (3, 2)
    assert {seen.body["temperature"] for seen in server.seen} == {1.0, 0.5}
    assert len({seen.body["seed"] for seen in server.seen}) == 2


# servers that do not do what they are asked


def ignores_n(seen: Seen, number: int) -> Reply:
    return echo(Seen(seen.path, {**seen.body, "n": 1}, None), number)


def refuses_n(seen: Seen, number: int) -> Reply:
    if seen.body["n"] > 1:
        return Reply({"error": {"message": "Only one completion choice is allowed"}}, 400)
    return echo(seen, number)


def caps_n(seen: Seen, number: int) -> Reply:
    return echo(Seen(seen.path, {**seen.body, "n": min(2, seen.body["n"])}, None), number)


def gives_more(seen: Seen, number: int) -> Reply:
    return echo(Seen(seen.path, {**seen.body, "n": seen.body["n"] + 2}, None), number)


@pytest.mark.parametrize(
    ("answer", "calls"), [(ignores_n, 5), (refuses_n, 6), (caps_n, 3), (gives_more, 1)]
)
def test_the_rest_is_asked_for_again(answer: Any, calls: int) -> None:
    lists = []
    for connections in (1, 8):
        with serving(answer) as server:
            made = generator(server, {"connections": connections}, num_candidates=5)
            (one,) = good(list(made.generate(prompts("p"))))
            assert len(server.seen) == calls
            assert made.accepts_n is (answer not in (ignores_n, refuses_n))
            lists.append(
                [one, *good(list(made.generate([Prompt(f"x{i}", "q") for i in range(6)])))]
            )
    assert [len(set(texts(record))) for record in lists[0]] == [5] * 7
    assert [texts(record) for record in lists[0]] == [texts(record) for record in lists[1]]
    if answer in (ignores_n, refuses_n):
        assert all(seen.body["n"] == 1 for seen in server.seen[calls:])
        assert len(server.seen) == calls + 6 * 5
    else:
        assert len(server.seen) == calls * 7


def test_a_refused_prompt_is_an_error_and_the_next_is_generated() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        if seen.body["prompt"] == "long":
            return Reply(
                {"object": "error", "message": "maximum context length is 16 tokens", "code": 400},
                400,
            )
        return echo(seen, number)

    with serving(answer) as server:
        made = generator(server)
        one, two, three = made.generate(prompts("a", "long", "b"))
        assert made.accepts_n
    assert isinstance(two, InputError)
    assert str(two) == "server: status 400: maximum context length is 16 tokens"
    assert len(texts(one)) == len(texts(three)) == 3


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"choices": []}, "server: a reply without choices"),
        ([1], "server: a reply without choices"),
        ({"choices": [{"message": {"content": None}}]}, "server: found None, expected a text"),
        ({"choices": [{"text": 3}, 4]}, "server: found 3, expected a text"),
    ],
)
def test_a_server_without_texts_is_given_up(reply: Any, message: str) -> None:
    with serving(lambda seen, number: Reply(reply)) as server:
        (error,) = generator(server).generate(prompts("a"))
        assert 3 <= len(server.seen) <= 5
    assert str(error) == message


def test_a_choice_without_a_text_is_drawn_again() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        reply = completion([f"{number} {i}" for i in range(seen.body["n"])])
        if number == 0:
            reply["choices"][1]["text"] = None
        return Reply(reply)

    with serving(answer) as server:
        (record,) = good(list(generator(server).generate(prompts("a"))))
    assert texts(record) == ["0 0", "0 2", "1 0"]
    assert record.extra == {}


# servers that fail


BROKEN = {
    "429, at once": Reply({"error": "slow down"}, 429, {"Retry-After": "0"}),
    "429, at a date": Reply(
        {"error": "slow down"}, 429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    ),
    "503, nonsense": Reply(b"<html>", 503, {"Retry-After": "soon"}),
    "500": Reply(b"", 500),
    "no JSON": Reply(b"<html>It works!</html>"),
    "half a JSON": Reply(b'{"choices": [{"te'),
    "no UTF-8": Reply(b'{"choices": "\xff"}'),
    "half a character": Reply(b'{"choices": [{"text": "\\ud83d"}]}'),
    "nested": Reply(b"[" * 100_000),
    "cut off": Reply(b'{"choices"', length=1000),
    "no gzip": Reply(b"plain", headers={"Content-Encoding": "gzip"}),
    "an error": Reply({"error": {"message": "CUDA out of memory"}}),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_may_pass_is_tried_again(broken: Reply) -> None:
    with serving(lambda seen, number: broken if number < 2 else echo(seen, number)) as server:
        (record,) = good(list(generator(server).generate(prompts("a"))))
        assert len(server.seen) == 3
        assert len(texts(record)) == 3
        assert len({seen.body["seed"] for seen in server.seen}) == 1  # the same request
    with serving(lambda seen, number: broken) as server:
        with pytest.raises(
            ResourceError,
            match=r"(?s)prompt 'id0': server: .*, 2 times\. Raise retries, or lower conn",
        ):
            list(generator(server, {"retries": 1}).generate(prompts("a")))
        assert len([seen for seen in server.seen if seen.body["prompt"] == "a"]) == 2


@pytest.mark.parametrize(
    "held",
    [Reply(hold=threading.Event()), Reply(b"{", length=1 << 20, drip=True)],
    ids=["hangs", "drips"],
)
def test_a_request_that_takes_too_long_is_tried_again(held: Reply) -> None:
    with serving(lambda seen, number: held if number == 0 else echo(seen, number)) as server:
        patient = generator(server, {"timeout_seconds": 1.0, "retries": 20})
        (record,) = good(list(patient.generate(prompts("a"))))
        assert len(texts(record)) == 3
    message = r"server: no reply within 0\.1 seconds, 2 times"
    with serving(lambda seen, number: held) as server, pytest.raises(ResourceError, match=message):
        list(generator(server, {"timeout_seconds": 0.1, "retries": 1}).generate(prompts("a")))


def test_an_outage_loses_no_input_whatever_errors_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("a\nrefused\nb\nc\n")
    outage = True

    def answer(seen: Seen, number: int) -> Reply:
        if seen.body["prompt"] == "refused":
            return Reply({"error": "too long"}, 400)
        return (
            Reply({"error": "overloaded"}, 503)
            if outage and seen.body["prompt"] == "b"
            else echo(seen, number)
        )

    with serving(answer) as server:
        command = [
            "generate",
            str(source),
            "--from",
            "text",
            "--backend",
            "server",
            "--base-url",
            server.url,
        ]
        command += ["--generator", "m", "-n", "2", "--sampling", "ancestral", "--retries", "0"]
        command += ["--connections", "1", "-o", str(out), "--quiet"]
        assert main([*command, "--max-errors", "9"]) == 5
        message = "prompt '2': server: status 503: overloaded. Raise retries, or lower connections, and run the same"
        assert message in capsys.readouterr().err
        outage = False
        assert main([*command, "--max-errors", "9"]) == 3
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["0", "2", "3"]
    (error,) = (
        json.loads(line) for line in (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines()
    )
    assert (error["id"], error["reason"]) == ("1", "status 400: too long")


BAD = {
    "500": Reply({"error": "cannot tokenize"}, 500),
    "no JSON": Reply(b"<html>"),
    "no choices": Reply({"choices": []}),
    "cut off": Reply(b"{", length=1000),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_prompt_is_an_error_record_where_the_server_works(bad: Reply, tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    for inputs in (["bad"], ["a", "bad", "b"]):
        source.write_text("".join(f"{text}\n" for text in inputs))
        out = tmp_path / f"out{len(inputs)}.jsonl"
        with serving(
            lambda seen, number: bad if seen.body["prompt"] == "bad" else echo(seen, number)
        ) as server:
            command = [
                *("generate", str(source), "--from", "text", "--backend", "server", "-n", "2"),
                *("--base-url", server.url, "--generator", "m", "--sampling", "ancestral"),
                *("--retries", "1", "--backoff-seconds", "0.001", "-o", str(out), "--quiet"),
            ]
            assert main(command) == 3  # stops at it
            assert main([*command, "--max-errors", "1"]) == 3
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["id"] for row in rows] == [str(i) for i in (0, 2) if len(inputs) == 3]
        errors = Path(f"{out}.errors.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in errors] == [str(inputs.index("bad"))]
        assert json.loads(Path(f"{out}.run.json").read_text())["complete"]


def test_a_prompt_at_fault_waits_for_an_outage_once() -> None:
    """After all repetitions and a sign that the server works, one more repetition is enough."""

    def answer(seen: Seen, number: int) -> Reply:
        return Reply(b"", 500) if seen.body["prompt"] == "bad" else echo(seen, number)

    with serving(answer) as server:
        (error,) = generator(server, {"retries": 5}).generate(prompts("bad"))
        asked = [seen.body["prompt"] for seen in server.seen]
    assert "status 500: nothing, 2 times, while the server answers other requests" in str(error)
    assert asked == [*["bad"] * 6, "Hello", *["bad"] * 2, "Hello"]


@pytest.mark.parametrize("status", [400, 402, 410, 413, 418, 422, 425, 451])
def test_a_definite_failure_is_not_repeated(status: int) -> None:
    with serving(lambda seen, number: Reply({"detail": "no"}, status)) as server:
        with contextlib.suppress(UnusableError):
            list(generator(server, {"retries": 5}, num_candidates=1).generate(prompts("a")))
        assert [seen.body["prompt"] for seen in server.seen] == ["a"]


def test_a_prompt_that_fails_in_an_outage_is_drawn_again() -> None:
    """The server is back when it is asked whether it works: the list is as if it had never been gone."""

    def answer(seen: Seen, number: int) -> Reply:
        return Reply(b"", 502) if number < 2 else echo(seen, number)

    with serving(answer) as server:
        (record,) = good(list(generator(server, {"retries": 1}).generate(prompts("a"))))
        asked = [seen.body["prompt"] for seen in server.seen]
    with serving(echo) as server:
        (whole,) = good(list(generator(server).generate(prompts("a"))))
    assert asked == ["a", "a", "Hello", "a"]
    assert record == whole


def test_a_server_that_fails_at_everything_ends_the_run(tmp_path: Path) -> None:
    """It works for a while, then never again: exit code 5, whatever errors are allowed, and no input is lost."""
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("".join(f"text {i}\n" for i in range(8)))
    works = 3

    def answer(seen: Seen, number: int) -> Reply:
        return echo(seen, number) if number < works else Reply(b"", 500)

    with serving(answer) as server:
        command = [
            *("generate", str(source), "--from", "text", "--backend", "server", "-n", "2"),
            *("--base-url", server.url, "--generator", "m", "--sampling", "ancestral"),
            *("--retries", "0", "--connections", "1", "--max-errors", "9", "--quiet"),
            "--skip-probe",
            *("-o", str(out)),
        ]
        assert main(command) == 5
        assert len(out.read_text().splitlines()) == 3
        works = 10**6
        assert main(command) == 0
    assert len(out.read_text().splitlines()) == 8


def test_a_reply_too_large_is_an_error() -> None:
    with serving(lambda seen, number: Reply(b" " * 2000)) as server, use_limits(file_bytes=1000):
        (error,) = generator(server).generate(prompts("a"))
        assert len(server.seen) == 1
    assert str(error) == "server: a reply of more than 1000 bytes"


def test_the_wait_grows_and_the_server_may_name_it() -> None:
    made = exchange.Exchange(Connection("http://x", backoff_seconds=2.0))

    def wait(attempt: int, named: float | None = None) -> float:
        return made._wait_seconds(attempt, named)

    for attempt, least in ((1, 2.0), (2, 4.0), (3, 8.0)):
        assert least <= wait(attempt) <= least + 2.0
    assert wait(50) == wait(5000) == exchange.LONGEST_WAIT_SECONDS
    assert (wait(1, 0.0), wait(5, 7.0), wait(1, 1e9)) == (0.0, 7.0, exchange.LONGEST_WAIT_SECONDS)


def test_what_came_is_kept_where_the_rest_fails() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        if seen.body["prompt"] == "a" and sum(one.body["prompt"] == "a" for one in server.seen) > 2:
            return Reply({"error": "overloaded"}, 503)
        return ignores_n(seen, number)

    with serving(answer) as server:
        made = generator(server, {"connections": 1, "retries": 0}, num_candidates=4)
        one, two = good(list(made.generate(prompts("a", "b"))))
    assert len(one.candidates) == 2
    fix = "Raise retries, or lower connections"
    assert one.extra == {
        "missing_candidates": 2,
        "missing_because": f"server: status 503: overloaded. {fix}",
    }
    assert (len(two.candidates), two.extra) == (4, {})


def test_never_more_requests_at_a_time_than_connections() -> None:
    full = threading.Event()

    def answer(seen: Seen, number: int) -> Reply:
        if number == 2:
            full.set()
        full.wait(PATIENCE_SECONDS)
        return ignores_n(seen, number)

    with serving(answer) as server:
        lists = generator(server, {"connections": 3}, num_candidates=4).generate(
            prompts(*"abcdefgh")
        )
        assert len(good(list(lists))) == 8
    assert full.is_set()
    assert server.most_open == 3


def test_prompts_are_read_as_they_are_needed() -> None:
    read = []

    def many() -> Any:
        for i in range(1000):
            read.append(i)
            yield Prompt(str(i), "p")

    with serving(echo) as server:
        made = generator(server, {"connections": 2})
        with closing(cast(Any, made.generate(many()))) as lists:
            assert texts(next(lists)) != []
            assert len(read) <= made.prompts_at_once + 1


def test_a_dropped_generator_drops_its_requests() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return echo(seen, number) if seen.body["prompt"] == "a" else Reply(hold=threading.Event())

    before = set(threading.enumerate())
    with serving(answer) as server:
        generated_lists = generator(server).generate(prompts("a", "b", "c"))
        # closing would hang if it waited for the server
        with closing(cast(Any, generated_lists)) as lists:
            assert len(texts(next(lists))) == 3
    left = set(threading.enumerate()) - before
    assert not [thread.name for thread in left if thread.name == "discorank-server"]


# servers that cannot be used


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            401,
            r"server: status 401: wrong\. Name the environment variable that holds the key in key_variable",
        ),
        (403, r"server: status 403: wrong\. May the key"),
        (404, r"server: status 404: wrong\. Do base_url and model exist"),
        (307, r"server: status 307: wrong\. Is base_url that of an OpenAI-compatible server"),
    ],
)
def test_what_will_not_pass_stops_everything(status: int, message: str) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return echo(seen, number) if number == 0 else Reply({"detail": "wrong"}, status)

    with serving(answer) as server:
        lists = generator(server, {"connections": 1}).generate(prompts("a", "b", "c"))
        assert len(texts(next(lists))) == 3  # what came before is handed out
        with pytest.raises(UnusableError, match=message):
            next(lists)


def test_a_server_that_is_gone_stops_everything_resumably() -> None:
    with serving(echo) as server:
        url = server.url
    with pytest.raises(
        ResourceError,
        match=r"server: cannot be reached \(.*\), 3 times\. Start it, then run the same",
    ):
        list(generator(url, {"retries": 2}).generate(prompts("a")))


def test_a_request_that_is_no_json_is_an_error_of_its_prompt() -> None:
    with serving(echo) as server:
        one, two = generator(server).generate(prompts("half \ud83d", "b"))
    assert "server: a request that cannot be written as JSON" in str(one)
    assert len(texts(two)) == 3


# the key


def test_the_key_comes_from_the_environment_and_shows_nowhere(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    caplog.set_level(0)
    quotes = [
        Reply({"error": {"message": f"Incorrect API key provided: {KEY}."}}, 401),
        Reply({"error": f"{KEY} is not allowed"}, 400),
        Reply(f"<html>{KEY}".encode()),
        Reply(("x" * 295 + KEY).encode(), 500),
        Reply({"error": KEY}),
        Reply({"choices": [{"text": None, KEY: KEY}]}),
    ]
    shown = []
    for quote in quotes:
        with serving(lambda seen, number, quote=quote: quote) as server:  # type: ignore[misc]
            made = generator(server, {"key_variable": "SOME_KEY", "retries": 1})
            shown.append(f"{made.identity} {made.settings} {made.connection} {vars(made)}")
            try:
                shown.extend(map(str, made.generate(prompts("a"))))
            except DiscorankError:
                shown.append(traceback.format_exc())
            assert {seen.key for seen in server.seen} == {f"Bearer {KEY}"}
    assert "[key]" in shown[1]
    text = " ".join(shown) + caplog.text + "".join(capfd.readouterr())
    assert KEY[:12] not in text


def test_no_key_is_sent_unless_its_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(echo) as server:
        good(list(generator(server).generate(prompts("a"))))
    assert {seen.key for seen in server.seen} == {None}


@pytest.mark.parametrize("key", [None, "", f"{KEY}\n", f"{KEY} x", f"{KEY}ß", f"{KEY}\x7f"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(
        InputError, match=r"key_variable: SOME_KEY (is not set|holds a character that no key has)"
    ) as error:
        generator("http://localhost:1/v1", {"key_variable": "SOME_KEY"})
    assert KEY not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{KEY}@host/v1",
        f"http://host/v1?key={KEY}",
        "host:8000/v1",
        "ftp://host",
        "http://",
        "http://h:x",
        "http://h:0/v1",
        "http://h\x1b[2J/v1",
        "http://a..b/v1",
        f"http://{'a' * 64}.org/v1",
    ],
)
def test_an_address_that_is_none_or_holds_secrets_is_refused_unseen(url: str) -> None:
    with pytest.raises(InputError, match="base_url: ") as error:
        Connection(url)
    assert KEY not in str(error.value)
    assert error.value.__cause__ is None


def failing_behind(proxy: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of a request where the environment names this proxy."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("no_proxy", "localhost")
    with (
        pytest.raises(DiscorankError) as error,
        exchange.Client(Connection("https://nowhere.invalid/v1", retries=0)) as client,
    ):
        client.post("completions", {}).result(PATIENCE_SECONDS)
    return str(error.value)


@pytest.mark.parametrize("prefix", ["http://", ""])
def test_a_proxy_is_gone_through_and_its_password_shows_nowhere(
    monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    heads = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(5.0)

        def refuse() -> None:
            line, _ = listening.accept()
            with line:
                heads.append(line.recv(1 << 16))
                line.sendall(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        proxy = f"{prefix}user:hid%2Fden@127.0.0.1:{listening.getsockname()[1]}"
        problem = failing_behind(proxy, monkeypatch)
        thread.join(PATIENCE_SECONDS)
    assert heads[0].startswith(b"CONNECT nowhere.invalid:443 ")
    login = base64.b64encode(b"user:hid/den")
    assert b"Proxy-Authorization: Basic " + login in heads[0]
    assert "407" in problem
    assert "hid" not in problem


def test_a_proxy_that_is_none_of_http_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = failing_behind("socks5://user:hidden@127.0.0.1:9", monkeypatch)
    assert "a proxy that is not an http address" in problem
    assert "hidden" not in problem


def test_no_proxy_is_between_servers_that_are_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "localhost,::1")
    addresses = ("http://localhost:8000/v1", "http://[::1]:8000/v1", "http://host/v1")
    assert list(map(exchange.proxy_of, addresses)) == [None, None, "http://proxy:3128"]


SECRETS = {
    "a key": {"api_key": KEY},
    "another": {"Api-Key": KEY},
    "within": {"extra": [{"headers": {"Authorization": f"Bearer {KEY}"}}]},
    "a token": {"token": KEY},
    "a token of": {"hf_token": KEY},
    "a secret": {"clientSecret": KEY},
    "a password": {"db": {"password": KEY}},
    "a login": {"webhook": f"https://user:{KEY}@host/x"},
    "a query": {"webhook": f"https://host/x?a=1&api_key={KEY}"},
    "a header": {"value": f"Bearer {KEY}"},
    "JSON in a text": {"generation_config": json.dumps({"api_key": KEY})},
}


@pytest.mark.parametrize("form", ["flag", "set", "config", "print"])
def test_a_secret_in_a_request_is_refused_and_stays_nowhere(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, outputs = tmp_path / "in.txt", tmp_path / "outputs"
    source.write_text("a\n")
    outputs.mkdir()
    with serving(echo) as server:
        command = ["generate", str(source), "--from", "text", "--backend", "server", "-n", "1"]
        command += ["--base-url", server.url, "--generator", "m", "--sampling", "ancestral"]
        command += ["-o", str(outputs / "out"), "--debug"]
        for kind, request in SECRETS.items():
            config = tmp_path / "config.yaml"
            config.write_text(json.dumps({"request": json.dumps(request)}))
            given = {
                "flag": ["--request", json.dumps(request)],
                "print": ["--request", json.dumps(request), "--print-config"],
                "set": ["--set", f"request={json.dumps(request)}"],
                "config": ["--config", str(config)],
            }
            assert main([*command, *given[form]]) == 2, kind
            shown = capfd.readouterr()
            assert "holds a secret" in shown.err
            assert "key_variable" in shown.err
            assert KEY not in shown.out + shown.err
        for broken in (KEY, json.dumps(KEY), f'{{"api_key": "{KEY}"', f'[{{"api_key": "{KEY}"}}]'):
            assert main([*command, "--request", broken]) == 2
            assert KEY not in "".join(capfd.readouterr())
        assert not server.seen
    assert not list(outputs.iterdir())


def test_what_is_no_secret_passes() -> None:
    request = {
        **{
            "stop_token_ids": [1],
            "skip_special_tokens": True,
            "min_tokens": 3,
            "eos_token": "</s>",
        },
        **{"max_completion_tokens": 5, "valid_token": "x", "api_key": None, "keyword": "token"},
        **{"stop": ["://", "a@b", "?x=1"], "url": "http://host/x?page=2", "prompt_logprobs": 1},
    }
    assert ServerSettings(model="m", request=json.dumps(request)).further == request


# settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"system": "x"}, "system: only a chat has one"),
        ({"reference_top_p": 0.5}, "num_references: no pseudo-references are generated"),
        ({"request": "[1]"}, r"request: found a list, expected a JSON object"),
        ({"request": "{"}, "request: not JSON"),
        ({"request": '{"n": 3}'}, r"request\.n: is a key that has a setting of its own"),
        *(
            ({"request": f'{{"{key}": 1}}'}, rf"request\.{key}: is a key")
            for key in ("temperature", "top_p", "max_tokens")
        ),
        ({"top_p": 0}, "top_p"),
        ({"num_candidates": 0}, "num_candidates"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ServerSettings(model="m", **settings)


def test_the_identity_is_what_candidates_depend_on_and_nothing_else() -> None:
    one = generator("http://a:1/v1", {"connections": 9}, num_references=2, request='{"top_k": 5}')
    two = generator("http://b:2/v1", num_references=2, request='{ "top_k":5}')
    assert one.identity == two.identity
    assert json.loads(json.dumps(one.identity)) == one.identity
    assert (
        one.identity
        != generator("http://a:1/v1", seed=1, num_references=2, request='{"top_k": 5}').identity
    )


def test_the_client_is_only_imported_when_it_is_needed() -> None:
    import subprocess
    import sys

    code = "import sys, discorank.integrations.server; print({'aiohttp', 'yarl', 'torch'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.home()
    )
    assert done.stdout.strip() == "set()"


# in one call


ABC = ("a b c", "a b d", "zzz")


@pytest.mark.parametrize(
    ("utility", "settings", "best"),
    [
        ("chrf", {}, "a b c"),
        ("chrf", {"weights": "logprob"}, "zzz"),
        (Reranker(features={"logprob": 1.0}), {}, "zzz"),
        (MBRDecoder(utility="chrf"), {}, "a b c"),
    ],
)
def test_one_call_generates_and_chooses(utility: Any, settings: dict[str, Any], best: str) -> None:
    def answer(seen: Seen, number: int) -> Reply:
        rankings = [
            completion([text], [logprob])
            for text, logprob in zip(ABC, (-9.0, -9.5, -0.1), strict=True)
        ]
        return Reply({"choices": [body["choices"][0] for body in rankings]})

    with serving(answer) as server:
        given: list[str | Prompt] = [Prompt("x", "p", "quelle"), "q"]
        one, two = server_module.generate(
            server.url, given, utility, model="m", num_candidates=3, **settings
        )
        assert {"logprobs" in seen.body for seen in server.seen} == {best == "zzz"}
    assert (one.id, one.text, two.id, two.text) == ("x", best, "1", best)


def test_one_call_names_the_text_that_comes_to_nothing() -> None:
    def answer(seen: Seen, number: int) -> Reply:
        return (
            Reply({"error": "too long"}, 400) if seen.body["prompt"] == "b" else echo(seen, number)
        )

    with (
        serving(answer) as server,
        pytest.raises(InputError, match="text '1': server: status 400: too long"),
    ):
        list(server_module.generate(server.url, ["a", "b", "c"], model="m"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "m"}, "unknown setting 'modle'. Did you mean 'model'"),
        ({}, "model missing"),
        (
            {"model": "m", "utility": MBRDecoder(utility="chrf"), "weights": "logprob"},
            "weights: stands beside a whole",
        ),
    ],
)
def test_one_call_refuses_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        server_module.generate("http://localhost:1", ["a"], **settings)


# from the command line

CONNECTION = Connection("http://localhost:1/v1")


def made(server: ServerOptions | None = None, **drawing: Any) -> ServerGenerator:
    """The generator of a command's options."""
    options = BackendOptions(backend="server", generator=drawing.pop("generator", "m"))
    connection = drawing.pop("connection", CONNECTION)
    chosen = {"sampling": "ancestral", "num_candidates": 5, "seed": 3, **drawing}
    shared = GenerationSettings(**chosen)
    return server_generator(options, shared, server or ServerOptions(), connection)


def test_the_options_of_the_command_make_a_generator() -> None:
    plain = made(logprobs=True)
    assert plain.settings == ServerSettings(model="m", num_candidates=5, seed=3, logprobs=True)
    assert plain.connection == CONNECTION
    references = {"num_references": 2, "reference_sampling": "ancestral"}
    own = ServerOptions(system="s", request="{}")
    chosen = made(own, sampling="nucleus", **references, max_new_tokens=7, chat=True).settings
    assert (chosen.top_p, chosen.reference_top_p, chosen.max_new_tokens) == (0.9, 1.0, 7)
    assert made(sampling="nucleus", cutoff=0.5).settings.top_p == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sampling": "epsilon"},
            r"sampling: servers do not know epsilon sampling\. Give --sampling ancestral",
        ),
        ({"cutoff": 0.5}, "cutoff: ancestral has no cutoff"),
        (
            {"num_references": 1, "reference_sampling": "beam"},
            "reference_sampling: servers do not know beam",
        ),
        ({"generator": None}, "--generator: is missing"),
        ({"connection": None}, "--base-url: is missing"),
    ],
)
def test_options_that_servers_do_not_have_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        made(**options)
