"""What a run says of itself while it works and when it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.cli.terminal import console
from discorank.cli.terminal.console import Progress, own_quiet, set_quiet
from discorank.cli.terminal.watching import Watch, starving
from discorank.metrics.execution import evaluate as tiles
from discorank.metrics.execution.meter import Metered
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.status import Status, WorkerStatus
from discorank.rerank.mbr import MBRDecoder

from ..support.lists import different_texts, made_lists, write_lists

Captured = pytest.CaptureFixture[str]
WORK = Metered(10, 2, 4000, 250, {"prepare": 1.0, "compare": 4.0})


def on_ray(busy_seconds: float, waited: float, workers: int = 2, seconds: float = 100.0) -> Status:
    """Workers that are all the same."""
    each = [
        WorkerStatus(f"actor {i}", WORK, busy_seconds, seconds, True, 0)
        for i in range(1, workers + 1)
    ]
    return Status(sum((worker.work for worker in each), Metered()), seconds, waited, tuple(each))


@pytest.mark.parametrize(
    ("status", "own", "reason"),
    [
        (Status(WORK, 100.0), {}, None),  # no workers
        (on_ray(80.0, 90.0), {}, None),  # busy
        (on_ray(1.0, 1.0, seconds=20.0), {}, None),  # too early
        (on_ray(30.0, 90.0), {"read": 8.0}, "30% of their time: too few lists were ready at once"),
        (
            on_ray(30.0, 20.0),
            {"read": 70.0},
            "the input came too slowly, 70 of 100 s went into reading it",
        ),
        (on_ray(30.0, 20.0), {"read": 7.0}, "the driver was at work 80 of 100 s"),
    ],
)
def test_starving(status: Status, own: dict[str, float], reason: str | None) -> None:
    warning = starving(status, Metered(seconds=own))
    assert (warning is None) if reason is None else (warning is not None and reason in warning)


class Idle(LocalEngine):
    """An engine whose workers wait for lists."""

    def status(self) -> Status:
        return on_ray(30.0, 90.0)


def test_a_warning_comes_once(capsys: Captured) -> None:
    watch = Watch(Idle())
    for _ in range(3):
        assert "30% busy" in watch.note()
    watch.close()
    err = capsys.readouterr().err
    assert err.count("warning: the workers were at work 30%") == 1
    with own_quiet():
        set_quiet(True)
        Watch(Idle()).close()
    assert capsys.readouterr().err == ""


class Screen(io.StringIO):
    """stderr, as a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Three:
    """Something watched that has read ahead."""

    read = 40
    seconds = 20.0

    def note(self) -> str:
        return "7 pairs/s"


class Clock:
    """A time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_in_a_log(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, clock = Screen(terminal), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "DELAY_SECONDS", 0.5)
    monkeypatch.setattr(console, "LOG_SECONDS", 0.05)
    monkeypatch.setattr(console, "TERMINAL_SECONDS", 0.05)
    monkeypatch.setattr(console, "time", clock)
    with Progress("lists", lambda: 0.5, Three()) as progress:
        clock.now += 0.55
        for done in range(1, 21):
            progress(done, errors=done // 10)
            clock.now += 0.01
    shown = screen.getvalue()
    lines = [line.strip() for line in shown.replace("\r", "\n").split("\n") if line.strip()]
    assert ("\r" in shown) == terminal
    assert any("/80" in line for line in lines[:-1])  # 40 read of half the input
    assert all("[00:2" in line for line in lines)
    assert all("7 pairs/s" in line for line in lines)
    assert "20/20" in lines[-1]
    assert lines[-1].endswith("7 pairs/s, 2 errors]")
    assert "errors" not in lines[0]
    assert len(lines) > 2


def test_no_estimates_before_the_first_wave_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a wave is done when nearly all of it is, so its time says nothing of the rest."""
    screen, clock = Screen(terminal=False), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "DELAY_SECONDS", 0.5)
    monkeypatch.setattr(console, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(console, "time", clock)
    with Progress("lists", lambda: 0.5, Three()) as progress:
        for done in (1, 2, 40, 41):
            clock.now += 0.0 if done > 1 else 10.0  # past the delay
            progress(done)
    *first, estimated, _ = screen.getvalue().splitlines()
    assert [line.split("/")[0] for line in first] == ["1", "2", "40"]
    assert all("<" not in line and "lists/s" not in line for line in first)
    assert estimated.startswith("41/80 lists [00:20<00:19, 2.05 lists/s, 7 pairs/s")


def timings(out: Path) -> dict[str, Any]:
    timings: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())["timings"]
    return timings


def decode(source: Path, out: Path, *more: str) -> int:
    return main(["decode", str(source), "-u", "ter", "-o", str(out), "--quiet", *more])


def test_the_run_file_adds_sessions_up(tmp_path: Path) -> None:
    lists = list(made_lists(30))
    out, engine = tmp_path / "out", LocalEngine()
    list(MBRDecoder(utility="ter").decode(lists, engine))
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:20]), out) == 0
    first = timings(out)
    assert list(first["stages"]) == ["prepare", "represent", "compare", "choose", "read", "write"]
    assert 0 < first["pairs"] < engine.status().work.pairs
    assert decode(write_lists(tmp_path / "in.jsonl", lists), out) == 0
    second = timings(out)
    assert second["pairs"] == engine.status().work.pairs
    assert second["seconds"] > first["seconds"]
    assert all(second["stages"][stage] >= seconds for stage, seconds in first["stages"].items())
    assert second["stages"]["compare"] <= second["seconds"]


def test_a_run_file_without_amounts_is_resumed(tmp_path: Path, capsys: Captured) -> None:
    lists = list(made_lists(30))
    out = tmp_path / "out"
    run_file = Path(f"{out}.run.json")
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:20]), out) == 0
    row = json.loads(run_file.read_text())
    run_file.write_text(json.dumps(with_checksum(row | {"timings": {"seconds": 5.0}})))
    source = write_lists(tmp_path / "in.jsonl", lists)
    assert decode(source, out) == 0
    assert timings(out)["seconds"] > 5
    broken = row | {"timings": {"seconds": 5.0, "stages": ["prepare"]}}
    run_file.write_text(json.dumps(with_checksum(broken)))
    assert decode(source, out) == 4
    assert "cannot be read" in capsys.readouterr().err


def test_rates_move_within_a_large_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(console, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(console, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(tiles, "WIDEST", 130)
    row = {"id": "large", "candidates": different_texts(500)}
    assert main(["decode", str(write_lists(tmp_path / "l.jsonl", [row])), "-u", "rouge-l"]) == 0
    before_the_first = [line for line in capsys.readouterr().err.splitlines() if "0/1" in line]
    assert sum("pairs/s" in line for line in before_the_first) > 5
