"""Processes that cannot be started, or die, where nobody asked for them: the process that has them goes on alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.options import engines
from discorank.metrics.errors import ResourceError
from discorank.rerank.engines import processes
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.engines.worker_process import START, WorkerProcess

from ...support.lists import made_lists, write_lists
from .test_shared_lines import decode, hostile, paying, run_file

__all__ = ["paying"]

REFUSED = BlockingIOError(11, "Resource temporarily unavailable")


def outputs_of(out: Path) -> list[bytes]:
    """The rows and the error records."""
    return [Path(f"{out}{suffix}").read_bytes() for suffix in ("", ".errors.jsonl")]


def refuse(monkeypatch: pytest.MonkeyPatch, num_started: int) -> list[WorkerProcess]:
    """Lets the system refuse all processes but the first; returns those that were started."""
    started: list[WorkerProcess] = []

    def start(*arguments: Any, **more: Any) -> WorkerProcess:
        if len(started) == num_started:
            raise REFUSED
        started.append(WorkerProcess(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(processes, "WorkerProcess", start)
    return started


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize("num_started", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_one_process_goes_on_where_no_more_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_started: int
) -> None:
    source, outs = hostile(tmp_path), [tmp_path / "one", tmp_path / "auto"]
    assert decode(source, outs[0], "--jobs", "1", "--max-errors", "20") == 3
    started = refuse(monkeypatch, num_started)
    with pytest.warns(UserWarning, match="one process works alone: no process can be started"):
        assert decode(source, outs[1], "--max-errors", "20") == 3
    assert outputs_of(outs[0]) == outputs_of(outs[1])
    assert run_file(outs[0])["complete"] is run_file(outs[1])["complete"] is True
    assert [worker.process.wait() < 0 for worker in started] == [True] * num_started


def test_processes_that_were_asked_for_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(5, 3))
    refuse(monkeypatch, 1)
    assert decode(source, tmp_path / "out", "--jobs", "2") == ResourceError.exit_code
    assert "--jobs: no process can be started: Resource temporarily" in capsys.readouterr().err


@pytest.mark.usefixtures("paying")
def test_on_windows_there_is_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(60, 6))
    refuse(monkeypatch, 0)
    monkeypatch.setattr(engines, "HAS_WORKERS", False)
    assert decode(source, tmp_path / "out") == 0
    assert "workers" not in run_file(tmp_path / "out")["timings"]
    assert decode(source, tmp_path / "two", "--jobs", "2") == 2
    assert "--jobs: no processes share lists on Windows" in capsys.readouterr().err


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize("num_blocks", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_one_process_goes_on_where_all_others_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_blocks: int
) -> None:
    source, outs = hostile(tmp_path), [tmp_path / "one", tmp_path / "auto"]
    source.write_bytes(source.read_bytes().rstrip() + b'\n{"id": "' + b"x" * 20_000 + b'"}\n')
    bounds = ("--max", "line_bytes=10000", "--max-errors", "20")
    assert decode(source, outs[0], "--jobs", "1", *bounds) == 2
    send, blocks = ProcessEngine._send, [0]

    def send_and_kill(engine: ProcessEngine) -> None:
        send(engine)
        blocks[0] += 1
        if blocks[0] > num_blocks:
            for worker in engine.workers:
                worker.process.kill()

    monkeypatch.setattr(ProcessEngine, "_send", send_and_kill)
    with pytest.warns(UserWarning, match="works alone: 4 workers in a row died"):
        assert decode(source, outs[1], *bounds) == 2
    assert outputs_of(outs[0]) == outputs_of(outs[1])
    assert run_file(outs[0])["counts"] == run_file(outs[1])["counts"]


def test_a_signal_waits_until_a_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def start(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        started.append("whole")

    monkeypatch.setattr(processes, "WorkerProcess", start)
    with pytest.raises(KeyboardInterrupt), ProcessEngine(2) as engine:
        engine.begin([])
    assert started == ["whole"]


def test_a_worker_ends_at_what_it_cannot_read() -> None:
    ours, other = Pipe()
    root = Path(__file__).parents[3]
    with ours, other:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-c", START, str(other.fileno())],
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            pass_fds=[other.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        ours.send_bytes(b"no pickle")
        _, said = worker.communicate(timeout=120)
    assert worker.returncode == 1
    assert "UnpicklingError" in said
