"""Processes that share lists: the bytes of the local engine, whatever dies or is interrupted, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.metrics.errors import ModelLoadError, ResourceError
from discorank.rerank.engines import processes
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.runs.run import json_row

from ...support import faulty
from ...support.lists import made_lists, write_lists
from ...support.waiting import PATIENCE_SECONDS, has_rows, wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessEngine]:
    """Two workers, which the tests that kill none share."""
    with ProcessEngine(2) as engine:
        yield engine


def rows(
    decoder: MBRDecoder, lists: list[dict[str, Any]], engine: Engine | None = None
) -> list[Any]:
    return [json_row(ranking) for ranking in decoder.decode(lists, engine)]


@pytest.mark.parametrize(
    "settings",
    [
        {"utility": "chrf"},
        {"utility": "bleu + 0.1*rouge-l", "self_pair": False},
        {"utility": "ter", "shortlist": "chrf", "top_k": 3},
    ],
)
def test_rows_are_those_of_the_local_engine(two: ProcessEngine, settings: dict[str, Any]) -> None:
    lists = list(made_lists(60, 7))
    decoder = MBRDecoder(**settings)
    assert rows(decoder, lists, two) == rows(decoder, lists)
    status = two.status()
    assert status.work.pairs > 0
    assert [worker.died for worker in status.workers] == [0, 0]


def test_the_command_writes_the_same_bytes(tmp_path: Path) -> None:
    lists = list(made_lists(40, 6))
    lists[7]["candidates"] = []
    source = write_lists(tmp_path / "in.jsonl", lists)
    outs = [tmp_path / "one", tmp_path / "two"]
    for out, more in zip(outs, ([], ["--jobs", "2"]), strict=True):
        words = [
            "decode",
            str(source),
            "-u",
            "chrf",
            "-o",
            str(out),
            "--max-errors",
            "1",
            "--quiet",
        ]
        assert main([*words, *more]) == 3
    assert outs[0].read_bytes() == outs[1].read_bytes()
    errors = [Path(f"{out}.errors.jsonl").read_bytes() for out in outs]
    assert errors[0] == errors[1]


def test_lists_that_nobody_waits_for_are_forgotten(two: ProcessEngine) -> None:
    lists = list(made_lists(50, 5))
    decoder = MBRDecoder(utility="chrf")
    some = decoder.decode(lists, two)
    first = [json_row(ranking) for ranking in islice(some, 3)]
    some.close()  # type: ignore[attr-defined]
    assert rows(decoder, lists, two)[:3] == first
    assert not two.keys


def test_a_list_that_takes_a_worker_down_is_an_error(tmp_path: Path) -> None:
    lists = list(made_lists(12, 4))
    lists[5]["candidates"] = ["kill", "a b"]
    source = write_lists(tmp_path / "in.jsonl", lists)
    out = tmp_path / "out"
    words = ["decode", str(source), "-u", "tests.support.faulty:deadly", "-o", str(out), "--quiet"]
    assert main([*words, "--jobs", "2", "--max-errors", "1"]) == 3
    expected = rows(MBRDecoder(utility=faulty.deadly), [*lists[:5], *lists[6:]])
    assert len(out.read_text().splitlines()) == len(expected) == 11
    error = Path(f"{out}.errors.jsonl").read_text()
    assert error.count("\n") == 1
    assert "a worker died while it valued this list" in error


def test_a_worker_that_is_killed_is_replaced() -> None:
    lists = list(made_lists(80, 6))
    decoder = MBRDecoder(utility=faulty.overlap)
    with ProcessEngine(2) as engine:
        some = decoder.decode(lists, engine)
        own_rows = [json_row(next(iter(some)))]
        kill(engine.workers[0])
        own_rows += [json_row(ranking) for ranking in some]
        assert sum(worker.died for worker in engine.status().workers) == 1
    assert own_rows == rows(decoder, lists)


def test_workers_that_die_one_after_the_other_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "DEATHS", 1)
    monkeypatch.setenv(faulty.GATES, str(tmp_path))
    with ProcessEngine(1) as engine:
        call = engine._call

        def dying(worker: processes.WorkerProcess, *arguments: Any) -> None:
            call(worker, *arguments)
            kill(worker)

        monkeypatch.setattr(engine, "_call", dying)
        with pytest.raises(ResourceError, match="2 workers in a row died"):
            engine.load([faulty.Loading()])


def test_processes_that_the_system_refuses_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(ProcessPoolExecutor, "submit", refuse)
    with ProcessEngine(2) as engine, pytest.raises(ResourceError, match="Resource temporarily"):
        engine.load(MBRDecoder(utility="chrf").metrics)


def test_a_metric_that_cannot_be_loaded_is_refused_once() -> None:
    engine = ProcessEngine(2)
    with pytest.raises(ModelLoadError, match="not on this node"):
        engine.load([faulty.Missing()])
    assert not engine.workers


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        (signal.SIGTERM, 143),
        (signal.SIGKILL, -9),
    ],
)
def test_interrupts_leave_a_resumable_run_and_no_process(
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal comes while a worker waits at a gate, which is open when the run goes on."""
    lists = list(made_lists(120, 8))
    lists[100]["candidates"].append("gate 0")
    source = write_lists(tmp_path / "in.jsonl", lists)
    out, gate = tmp_path / "out", tmp_path / "0"
    monkeypatch.setenv(faulty.GATES, str(tmp_path))
    words = ["decode", str(source), "-u", "tests.support.faulty:gated", "-o", str(out), "--quiet"]
    command = [sys.executable, "-m", "discorank", *words, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    reached = gate.with_suffix(".reached")
    wait_until(lambda: (reached.exists() and has_rows(out)) or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(PATIENCE_SECONDS) == code
    wait_until(lambda: not workers(tmp_path))
    gate.touch()
    assert 0 < len(out.read_text().splitlines()) < 120
    assert main([*words, "--jobs", "2"]) == 0
    whole = tmp_path / "whole"
    assert main([*words[:4], "-o", str(whole), "--quiet"]) == 0
    assert out.read_bytes() == whole.read_bytes()


def kill(worker: processes.WorkerProcess) -> None:
    """Kills the process of a worker."""
    for process in (worker.pool._processes or {}).values():
        process.kill()


def workers(folder: Path) -> list[str]:
    """Worker processes that a command in a folder of its own left behind."""
    process_ids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (place / "cmdline").read_text()
            if "spawn_main" in command and (place / "cwd").resolve() == folder:
                process_ids.append(place.name)
    return process_ids


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score", "x", "-m", "chrf", "--jobs", "2"], "unknown option --jobs"),
        (
            ["decode", "x", "-u", "chrf", "--jobs", "2", "--engine", "ray"],
            "--jobs: cannot be combined with --engine ray",
        ),
        (["decode", "x", "-u", "chrf", "--jobs", "0"], "--jobs: found 0"),
    ],
)
def test_refusals(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
