"""SIGINT, SIGTERM and SIGHUP, at any point of any command: the documented exit code, one line, a run that goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from discorank.cli.main import main
from discorank.cli.terminal.standard_streams import Stop, TerminatedError, stoppable
from discorank.metrics.storage.stop_signals import ignored
from discorank.rerank.engines.ray.cluster import put_off

from ..support import faulty
from ..support.lists import made_lists, write_lists
from ..support.serving import Reply, serving
from ..support.waiting import has_rows, wait_until

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
EXAMPLES = Path(__file__).parents[2] / "examples"
GATED = "tests.support.faulty:gated"
RAY = ("--engine", "ray", "--set", "ray.actors=1")
MESSAGE = "discorank: interrupted; the same command resumes from here"


@contextmanager
def started(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed at the end of the block; its stdin never ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "discorank", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, faulty.GATES: str(folder)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], path: Path) -> None:
    """Waits for a file with something in it, or that a process has left for us."""
    is_sign = "reached" in path.name  # which may be empty
    is_there = path.exists if is_sign else partial(has_rows, path)
    wait_until(lambda: process.poll() is not None or is_there())


def handled(process: subprocess.Popen[str], mask: str = "SigCgt") -> set[int]:
    """The signals that a process has handlers for, or ignores."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(mask))
    bits = int(line.split()[1], 16)
    return {number for number in CODES if bits >> (number - 1) & 1}


def until_heeded(process: subprocess.Popen[str], numbers: set[int]) -> None:
    """Waits until a command has begun: what came before ends the interpreter as it starts."""
    while process.poll() is None and not numbers <= handled(process):
        time.sleep(0.005)


def ends(process: subprocess.Popen[str], number: signal.Signals, message: str = MESSAGE) -> None:
    """Sends a signal; the command ends as documented."""
    process.send_signal(number)
    while process.poll() is None:
        time.sleep(0.01)
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.returncode == CODES[number], err
    assert "Traceback" not in err
    assert "internal error" not in err
    assert [line for line in err.splitlines() if line.startswith("discorank")] == [message], err


def gated_input(folder: Path) -> Path:
    """Lists of which one, in the midst, waits for a gate."""
    lists = list(made_lists(60, 6))
    lists[40]["candidates"][0] = "gate 0"
    return write_lists(folder / "in.jsonl", lists)


def goes_on(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch, utility: str = GATED
) -> None:
    """The run at `out` goes on to the same bytes as one that nobody stopped."""
    monkeypatch.setenv(faulty.GATES, str(folder))
    (folder / "0").touch()
    for out in ("out", "whole"):
        assert main(["decode", str(source), "-u", utility, "-o", str(folder / out), "--quiet"]) == 0
    assert (folder / "out").read_bytes() == (folder / "whole").read_bytes()


# in each stage


def test_while_it_starts(tmp_path: Path) -> None:
    with started("decode", "-", "-u", "chrf", "-o", str(tmp_path / "out"), folder=tmp_path) as run:
        until_heeded(run, {*CODES})
        ends(run, signal.SIGHUP)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("engine", [(), pytest.param(RAY, marks=pytest.mark.slow)])
def test_while_it_loads(engine: tuple[str, ...], tmp_path: Path) -> None:
    words = ["decode", str(EXAMPLES / "demo.jsonl"), "-u", "tests.support.faulty:Loading", *engine]
    with started(*words, "-o", str(tmp_path / "out"), folder=tmp_path) as run:
        until(run, tmp_path / "loading.reached")
        ends(run, signal.SIGINT)


@pytest.mark.parametrize("engine", [(), pytest.param(RAY, marks=pytest.mark.slow)])
def test_while_it_reads(engine: tuple[str, ...], tmp_path: Path) -> None:
    words = ["decode", "-", "-u", "chrf", "-o", str(tmp_path / "out"), *engine]
    with started(*words, folder=tmp_path) as run:
        until(run, tmp_path / "out.run.json")
        ends(run, signal.SIGHUP)
    assert not json.loads((tmp_path / "out.run.json").read_text())["complete"]


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ((), signal.SIGTERM),
        *(pytest.param(RAY, n, marks=pytest.mark.slow) for n in CODES),
    ],
)
@pytest.mark.timeout(600)
def test_while_it_computes(
    engine: tuple[str, ...],
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = gated_input(tmp_path)
    words = ["decode", str(source), "-u", GATED, "-o", str(tmp_path / "out"), "--quiet", *engine]
    with started(*words, folder=tmp_path) as run:
        until(run, tmp_path / "0.reached")
        ends(run, number)
    goes_on(tmp_path, source, monkeypatch)


def test_while_it_ends(tmp_path: Path) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(5)), tmp_path / "out"
    with started("decode", str(source), "-u", "chrf", "-o", str(out), folder=tmp_path) as run:
        until(run, out)
        for _ in range(20):
            run.send_signal(signal.SIGTERM)
            time.sleep(0.005)
        _, err = run.communicate()
    assert run.returncode in (0, 143)
    assert "Traceback" not in err


def test_what_is_ignored_at_the_start_stays_ignored(under_nohup: None, tmp_path: Path) -> None:
    words = ["decode", "-", "-u", "chrf", "-o", str(tmp_path / "out")]
    with started(*words, folder=tmp_path) as run:
        until_heeded(run, {signal.SIGTERM})
        assert signal.SIGHUP in handled(run, "SigIgn")
        run.send_signal(signal.SIGHUP)
        ends(run, signal.SIGTERM)


# every command


ON_STDOUT = "discorank: interrupted; what was printed is not all; with -o FILE the same command would resume"
COMMANDS = {
    "decode": (["decode", "-", "-u", "chrf"], ON_STDOUT),
    "rerank": (["rerank", "-", "-m", "logprob", "-o", "OUT"], MESSAGE),
    "score": (["score", "-", "-m", "chrf"], None),
    "sescore2": (["train", "sescore2", "texts", "-", "-o", "OUT"], MESSAGE),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_so(name: str, tmp_path: Path) -> None:
    words, message = COMMANDS[name]
    words = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    with started(*words, folder=tmp_path) as run:
        until_heeded(run, {*CODES})
        ends(run, signal.SIGTERM, message or "discorank: interrupted; nothing was written")


def test_a_server_that_is_waited_for(tmp_path: Path) -> None:
    source, reached = tmp_path / "in.txt", tmp_path / "reached"
    source.write_text("a\nb\n")

    def answer(seen: object, number: int) -> Reply:
        reached.touch()
        return Reply(hold=threading.Event())

    with serving(answer) as server:
        words = ["generate", str(source), "--from", "text", "--backend", "server", "-n", "1"]
        words += ["--base-url", server.url, "--generator", "m", "--sampling", "ancestral"]
        with started(*words, "-o", str(tmp_path / "out"), folder=tmp_path) as run:
            until(run, reached)
            ends(run, signal.SIGHUP)


# at random


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize(("engine", "tries", "seconds"), [((), 15, 3.0), (RAY, 12, 14.0)])
def test_at_random_points(
    engine: tuple[str, ...],
    tries: int,
    seconds: float,
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same run, stopped again and again until it is complete: never another code, and the bytes of a whole run."""
    source = write_lists(tmp_path / "in.jsonl", made_lists(3000, 16, seed=2))
    random_seconds = random.Random(number)
    words = ["decode", str(source), "-u", "chrf", "-o", str(tmp_path / "out"), "--quiet", *engine]
    stopped = 0
    for _ in range(tries):
        with started(*words, folder=tmp_path) as run:
            until_heeded(run, {*CODES})
            time.sleep(random_seconds.uniform(0, seconds))
            if run.poll() is None:
                with suppress(ProcessLookupError):
                    run.send_signal(number)
            _, err = run.communicate()
        stopped += run.returncode == CODES[number]
        assert run.returncode in (0, CODES[number]), err
        assert "Traceback" not in err
    assert stopped
    goes_on(tmp_path, source, monkeypatch, "chrf")


# handlers


def test_a_stop_is_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable(is_program=False) as stop:
        with pytest.raises(TerminatedError) as error:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)  # while it ends
        assert stop.exit_code(error.value) == 143
        monkeypatch.setattr("discorank.cli.terminal.standard_streams.PATIENCE_SECONDS", -1.0)
        with pytest.raises(TerminatedError):
            signal.raise_signal(signal.SIGINT)  # it takes too long
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_stop_that_is_lost_comes_again() -> None:
    class Deaf:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGHUP)

    def waits() -> None:
        Deaf()
        while True:
            time.sleep(0.01)

    with stoppable(is_program=False) as stop, pytest.raises(TerminatedError):
        waits()
    assert stop.number == signal.SIGHUP


def test_what_a_library_makes_of_a_signal_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def turned(*given: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("returned a result with an exception set") from None

    monkeypatch.setattr("discorank.cli.main._run", turned)
    assert main(["decode", "-o", "OUT"]) == 143
    assert capsys.readouterr().err == f"{MESSAGE}\n"


def test_signals_are_put_off_and_ignored() -> None:
    with stoppable(is_program=False) as stop:
        done = []

        def calls() -> None:
            signal.raise_signal(signal.SIGHUP)
            done.append("the call into Ray")

        with pytest.raises(TerminatedError), put_off():
            calls()
        assert done
    with stoppable(is_program=False) as stop:
        with ignored():
            signal.raise_signal(signal.SIGTERM)
        assert stop.number is None
        with pytest.raises(TerminatedError), put_off():
            raise SystemExit(15)  # as Ray's handler has it
        assert stop.number == signal.SIGTERM


def test_a_thread_has_no_handlers() -> None:
    stops: list[Stop] = []

    def run() -> None:
        with stoppable(is_program=False) as stop, put_off(), ignored():
            stops.append(stop)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert stops[0].number is None
