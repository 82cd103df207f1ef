"""The command `discorank serve`: its options, its life, its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.support.scripted_replies import Script
from benchmarks.support.scripted_upstream import upstream_running
from discorank.cli.main import main

from ..support.proxying import send
from ..support.waiting import PATIENCE_SECONDS, wait_until
from .test_stopping import handled

PANEL = ("--upstream", "a=http://x/v1", "b=http://y/v1")


@contextmanager
def served(url: str, *words: str, **environment: str) -> Iterator[tuple[Any, str]]:
    """The command and the address it says that it serves at; `url` is that of the server upstream."""
    command = [sys.executable, "-m", "discorank", "serve", "--port", "0", "--upstream", url, *words]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.fullmatch(r"discorank: serving at (http://127\.0\.0\.1:\d+/v1)\n", line)
        assert match, line + process.stderr.read()
        yield process, match[1]
    finally:
        process.kill()
        process.communicate()


def test_it_serves_until_sigterm_and_finishes_what_is_open() -> None:
    replies, gate = [], threading.Event()
    words = ("-u", "chrf", "-n", "3", "--deadline", "600s", "--allow-utility", "bleu")
    with (
        upstream_running(Script(gate=gate)) as upstream,
        served(upstream.url, *words) as (process, url),
    ):
        body = {"model": "m", "prompt": "p", "discorank": {"utility": "bleu"}}

        def ask() -> None:
            replies.append(send("POST", f"{url}/completions", json=body))

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: upstream.num_open == 3)
        process.send_signal(signal.SIGTERM)
        gate.set()
        thread.join()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr.read() == "discorank: stopped\n"
    (reply,) = replies
    assert reply.status_code == 200
    assert reply.json()["discorank"]["decoder"] == "bleu"
    assert reply.json()["discorank"]["n"] == 3


def test_a_panel_serves_until_ctrl_c() -> None:
    with upstream_running() as one, upstream_running() as other:
        second = f"b={other.url},model=B,n=2"
        with served(f"a={one.url}", second, "-u", "chrf", "-n", "3") as (process, url):
            reply = send("POST", f"{url}/completions", json={"model": "m", "prompt": "p"})
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0
    assert reply.json()["discorank"]["n"] == 5
    assert reply.json()["discorank"]["models"][0]["candidates"] == 3
    assert (one.seen[0].body["model"], other.seen[0].body["model"]) == ("m", "B")


def test_features_choose_and_a_hangup_changes_nothing_under_nohup(under_nohup: None) -> None:
    with (
        upstream_running() as upstream,
        served(upstream.url, "-m", "logprob", "-m", "length*0.01") as (process, url),
    ):
        reply = send("POST", f"{url}/completions", json={"model": "m", "prompt": "p"})
        assert signal.SIGHUP in handled(process, "SigIgn")
    assert reply.json()["discorank"]["decoder"] == "rerank"
    assert upstream.seen[0].body["logprobs"] == 1


def test_metrics_score_without_a_server_upstream() -> None:
    command = [sys.executable, "-m", "discorank", "serve", "-m", "bleu", "chrf", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = re.search(r"http://[\w.:]+", process.stderr.readline())
        assert address
        body = {"model": "chrf", "text_1": "a cat", "text_2": "a cat"}
        reply = send("POST", f"{address[0]}/v1/score", json=body)
        assert reply.json()["data"][0]["score"] == 100
    finally:
        process.kill()
        process.communicate()


ONE = ("--upstream", "http://x/v1")
# what is given, and the option, the key or the name that the message is about
MISTAKES: list[tuple[list[str], str]] = [
    (["-u", "chrf"], "--upstream"),
    (["-m", "chrf", "-u", "bleu"], "--utility"),
    (["-m", "chrf", "-n", "4"], "--num-candidates"),
    (["-m", "chrf", "--quorum", "1"], "--quorum"),
    (["-m", "chfr"], "'chrf'"),
    (["-m", 'bertscore(model="x",idf=true)'], "corpus"),
    (["--upstream", "localhost:8000", "-u", "chrf"], "base_url"),
    (["--upstream", "http://key@x/v1", "-u", "chrf"], "base_url"),
    ([*ONE], "--utility"),
    ([*ONE, "-u", "chfr"], "'chrf'"),
    ([*ONE, "-u", "chrf", "-m", "length"], "-m expected"),
    ([*ONE, "-u", "chrf", "--deadline", "soon"], "--deadline"),
    ([*ONE, "-u", "chrf", "-n", "9", "--max-n", "8"], "--max-n"),
    ([*ONE, "-u", "chrf", "--max-n", "99999", "--adaptive"], "--max-n"),
    ([*ONE, "-m", "length", "--adaptive"], "adaptive"),
    ([*ONE, "-u", "vote", "--weights", "certainty"], "--weights certainty"),
    ([*ONE, "-m", "tail-entropy"], "-m tail-entropy"),
    ([*ONE, "-u", "chrf", "--port", "70000"], "port"),
    ([*ONE, "-u", "chrf", "--host", "no.such.host"], "no.such.host"),
    ([*ONE, "-u", "chrf", "--key-variable", "NOT_SET_X"], "NOT_SET_X"),
    ([*ONE, "-m", "length", "--shrink", "0.5"], "--shrink"),
    ([*ONE, "-u", "chrf", "--quorum", "1"], "--quorum"),
    ([*PANEL, "-u", "chrf", "--quorum", "3"], "quorum"),
    ([*PANEL, "-u", "chrf", "--adaptive"], "adaptive"),
    ([*PANEL, "-u", "chrf", "--shrink", "0.5"], "--shrink"),
    ([*PANEL, "-m", "length", "--shrink", "0.5"], "shrink"),
    ([*PANEL, "-m", "length", "--prior", "x.json"], "x.json"),
    ([*PANEL, "-u", "chrf", "--key-variable", "X"], "--key-variable"),
    ([*PANEL, "http://z/v1", "-u", "chrf"], "'http://z/v1'"),
    (["--upstream", "a=x", "-u", "chrf"], "--upstream a: base_url"),
    (["--upstream", "a=http://x/v1,key=NOT_SET_X", "-u", "chrf"], "NOT_SET_X"),
    (["--upstream", "a=http://x/v1", "b=y", "-u", "chrf"], "--upstream b: base_url"),
]


@pytest.mark.parametrize(("words", "fact"), MISTAKES)
def test_what_cannot_be_served_is_refused(
    words: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *words]) == 2
    assert fact in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from discorank.metrics import optional_packages

    monkeypatch.setattr(
        optional_packages, "find_spec", lambda name: None if name == "uvicorn" else name
    )
    assert main(["serve", "--upstream", "http://x/v1", "-u", "chrf"]) == 2
    message = 'serve: uvicorn is not installed. pip install "discorank[server]"'
    assert message in capsys.readouterr().err
