"""Lists shared over processes by lines: the bytes of one process, whatever stands in a line, and only if it pays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.cli.options import engines
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.execution.meter import Meter
from discorank.rerank.engines import sharing as processors
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.engines.sharing import SharingEngine, processes_that_pay, usable_processors
from discorank.rerank.engines.worker_process import THREADS, can_fork
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker
from discorank.rerank.runs import shared_lines
from discorank.rerank.runs.row_forms import JsonRows, TextRows
from discorank.rerank.runs.run import RunSettings, run_lists

from ...support import faulty
from ...support.lists import made_lists, write_lists

CHRF = MBRDecoder(utility="chrf")


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessEngine]:
    """Two workers."""
    with ProcessEngine(2) as engine:
        yield engine


@pytest.fixture
def paying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes pay at once, and lists are decided here until they are ready."""
    monkeypatch.setattr(engines, "SMALL_BYTES", 0)
    monkeypatch.setattr(shared_lines, "FIRST_WAVE", 2000)
    monkeypatch.setattr(shared_lines, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(shared_lines, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(shared_lines, "processes_that_pay", lambda *_: 2)
    has_loaded = ProcessEngine.has_loaded

    def waiting(engine: ProcessEngine, seconds: float = 0.0) -> bool:
        while not has_loaded(engine, 1.0):
            pass
        return True

    monkeypatch.setattr(ProcessEngine, "has_loaded", waiting)


def hostile(folder: Path) -> Path:
    """Lists between which stand lines that are none, ids that came before, and documents out of order."""
    rows: list[Any] = list(made_lists(120, 6))
    rows[20]["id"] = rows[3]["id"]
    rows[40]["candidates"] = []
    rows[50]["position"] = 0
    rows[60]["document"] = "d1"
    rows[70]["context_only"] = True
    rows[80]["candidates"] = [{"text": "a\nb", "score": 1.5, "fields": {"x": [1]}}]
    rows[85]["candidates"] = ["", "\ud800 x", "x" * 3000]
    path = folder / "in.jsonl"
    lines = [json.dumps(row) for row in rows]
    lines[90:90] = ["", "{", "[1]", "nonsense", '{"id": 3}', '{"id": "only"}']
    path.write_text("\n".join(lines) + "\n\n\n", encoding="utf-8", newline="")
    return path


def decode(source: Path, out: Path, *more: str) -> int:
    words = ["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet"]
    return main([*words, *more])


def run_file(out: Path) -> dict[str, Any]:
    """What a run file says."""
    row: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())
    return row


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize(("jobs", "form"), [("auto", "jsonl"), ("2", "text")])
def test_the_outputs_are_those_of_one_process(tmp_path: Path, jobs: str, form: str) -> None:
    source = hostile(tmp_path)
    outs = [tmp_path / "one", tmp_path / "several"]
    for out, number in zip(outs, ("1", jobs), strict=True):
        assert decode(source, out, "--jobs", number, "--max-errors", "20", "--format", form) == 3
    for suffix in ("", ".errors.jsonl"):
        written = [Path(f"{out}{suffix}").read_bytes() for out in outs]
        assert written[0] == written[1]
        assert written[0].count(b"\n") >= 9
    one, several = map(run_file, outs)
    assert [w["name"] for w in several["timings"]["workers"]] == ["process 1", "process 2"]
    assert sum(worker["texts"] for worker in several["timings"]["workers"]) > 0
    for key in ("complete", "settings", "input", "counts", "truncations"):
        assert one[key] == several[key], key


@pytest.mark.usefixtures("paying")
def test_a_run_that_stopped_goes_on_with_any_number(tmp_path: Path) -> None:
    rows = list(made_lists(100, 6))
    kept, rows[45]["candidates"] = rows[45]["candidates"], []
    source, out = write_lists(tmp_path / "in.jsonl", rows), tmp_path / "out"
    assert decode(source, out) == 3
    assert len(out.read_text().splitlines()) == 45
    rows[45]["candidates"] = kept
    rows[70]["candidates"] = []
    write_lists(source, rows)
    assert decode(source, out, "--jobs", "2") == 3
    assert len(out.read_text().splitlines()) == 70
    rows[70]["candidates"] = ["x"]
    write_lists(source, rows)
    assert decode(source, out, "--jobs", "auto") == 0
    whole = tmp_path / "whole"
    assert decode(source, whole, "--jobs", "1") == 0
    assert out.read_bytes() == whole.read_bytes()
    assert run_file(out)["input"] == run_file(whole)["input"]


@pytest.mark.usefixtures("paying")
def test_a_file_that_is_refused_in_the_middle_is_decided_up_to_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(60, 6))
    source.write_bytes(source.read_bytes() + b'{"id": "' + b"x" * 20_000 + b'"}\n')
    messages = []
    for number in ("1", "auto"):
        out = tmp_path / f"out{number}"
        assert decode(source, out, "--jobs", number, "--max", "line_bytes=10000") == 2
        messages.append(capsys.readouterr().err)
        assert len(out.read_text().splitlines()) == 60
    assert messages[0] == messages[1]
    assert "line longer than 10000 bytes" in messages[0]


def test_a_worker_that_dies_at_lines_is_replaced(tmp_path: Path, two: ProcessEngine) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(300, 8))
    send = two._send
    killed: list[None] = []

    def send_and_kill() -> None:
        send()
        if not killed:
            two.workers[0].process.kill()
            killed.append(None)

    outs = [tmp_path / "one", tmp_path / "two"]
    two._send = send_and_kill  # type: ignore[method-assign]
    try:
        both: list[Engine] = [LocalEngine(), two]
        for out, engine in zip(outs, both, strict=True):
            with open_lists(source) as lists:
                run_lists(CHRF, lists, lists.name, out, engine, RunSettings(), lines=lists.lines)
    finally:
        two._send = send  # type: ignore[method-assign]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert sum(worker.died for worker in two.status().workers) == 1


def test_small_inputs_stay_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(60, 6)), tmp_path / "out"
    assert decode(source, out) == 0
    assert "workers" not in run_file(out)["timings"]
    monkeypatch.setattr(engines, "SMALL_BYTES", 0)  # looked at, and too little work
    again = tmp_path / "again"
    assert decode(source, again) == 0
    assert "workers" not in run_file(again)["timings"]
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("left", "per_list", "most", "is_copy", "expected"),
    [
        (0.0, 0.001, 8, True, 1),
        (0.4, 0.001, 8, True, 1),
        (0.6, 0.001, 8, True, 2),
        (1.4, 0.001, 8, False, 1),
        (1.6, 0.001, 8, False, 2),
        (60.0, 0.001, 1, True, 1),
        (60.0, 0.001, 8, True, 8),
        (60.0, 0.00016, 8, True, 3),  # more would wait for the process that reads and writes
        (60.0, 0.00006, 8, True, 1),
    ],
)
def test_processes_pay_where_work_is_left(
    left: float, per_list: float, most: int, is_copy: bool, expected: int
) -> None:
    assert processes_that_pay(left, per_list, most, is_copy) == expected


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("", {}, 8),
        ("", {"cpu.max": "max 100000"}, 8),
        ("", {"cpu.max": "300000 100000"}, 3),
        ("", {"cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2),
        ("0::/not/seen", {"cpu.max": "400000 100000"}, 4),
        ("3:cpu,cpuacct:/a", {"a": ("250000", "100000"), "": ("-1", "100000")}, 2),
        ("3:cpu:/not/seen", {"": ("500000", "100000")}, 5),
        ("3:cpuset:/", {}, 8),
        ("nonsense", {"cpu.max": "nonsense"}, 8),
    ],
)
def test_quotas_of_processors_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, Any], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(processors, "GROUPS", tmp_path)
    monkeypatch.setattr(processors, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text(own + "\n")
    for name, quota in files.items():
        if isinstance(quota, str):
            written = {tmp_path / name: quota}
        else:
            folder = tmp_path / own.split(":")[1] / name
            written = {
                folder / f"cpu.cfs_{n}_us": q
                for n, q in zip(("quota", "period"), quota, strict=True)
            }
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
    assert usable_processors() == expected


def test_what_depends_on_other_lists_or_loads_a_model_is_not_shared(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(5, 3))
    engine = SharingEngine(2)
    with open_lists(source) as lists:
        lines = lists.lines

    def is_shared(decider: Any, form: Any = None, lines: Any = lines, by: Any = engine) -> bool:
        made = shared_lines.line_sharing(decider, form or JsonRows(), lines, "in", by, Meter())
        return made is not None

    assert is_shared(CHRF)
    assert is_shared(CHRF, TextRows())
    assert is_shared(Reranker(features={"logprob": 1.0}))
    assert not is_shared(CHRF, by=LocalEngine())
    assert not is_shared(CHRF, lines=None)
    assert not is_shared(MBRDecoder(utility=faulty.overlap))
    assert not is_shared(MBRDecoder(utility="chrf", strategy="sequential"))
    assert not is_shared(CHRF.with_settings(choose="document"))


COPIES = """
import os, sys
from discorank.cli.main import main
from discorank.cli.options import engines
from discorank.rerank.engines.worker_process import ForkedProcess
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.engines.sharing import usable_processors
from discorank.rerank.runs import shared_lines

engines.SMALL_BYTES = 0
shared_lines.FIRST_WAVE, shared_lines.SHORT_SECONDS, shared_lines.LOOK_SECONDS = 2000, 0.0, 0.0
shared_lines.processes_that_pay = lambda *_: 2
has_loaded, collect = ProcessEngine.has_loaded, ProcessEngine.collect

def waiting(engine, seconds=0.0):
    while not has_loaded(engine, 1.0):
        pass
    assert all(type(worker.process) is ForkedProcess for worker in engine.workers)
    return True

def dying(engine):
    print(*(worker.process.pid for worker in engine.workers), flush=True)
    os.kill(os.getpid(), 9)

ProcessEngine.has_loaded = waiting
if sys.argv[1] == "die":
    ProcessEngine.collect = dying
del sys.argv[1]
main()
"""


def by_copies(how: str, source: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of one thread, whose workers are copies of it."""
    words = ["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet", *more]
    command = [sys.executable, "-c", COPIES, how, *words]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not os.path.isdir(THREADS), reason="no copies but on Linux")
def test_copies_write_the_same_bytes_and_end_with_their_process(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(150, 6))
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert decode(source, whole, "--jobs", "1") == 0
    killed = by_copies("die", source, out)
    assert killed.returncode == -9
    assert len(killed.stdout.split()) == 2
    for pid in killed.stdout.split():
        for _ in range(600):
            if not os.path.exists(f"/proc/{pid}") or "Z" in stat_of(pid):
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"{pid} is still there")
    done = by_copies("live", source, out)
    assert done.returncode == 0, done.stderr
    assert "workers" in run_file(out)["timings"]
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.skipif(not os.path.isdir(THREADS), reason="no copies but on Linux")
def test_a_cache_is_left_to_this_process(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(150, 6))
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert decode(source, whole, "--jobs", "1") == 0
    done = by_copies("live", source, out, "--cache", str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "workers" in run_file(out)["timings"]
    assert out.read_bytes() == whole.read_bytes()


def stat_of(pid: str) -> str:
    """The state of a process, empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return ""


def test_a_process_with_other_threads_is_not_copied() -> None:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert not can_fork()
    finally:
        stop.set()
        other.join()


@pytest.mark.skipif(not os.path.isdir(THREADS), reason="no copies but on Linux")
def test_how_a_copy_ended() -> None:
    code = """
import os, time
from discorank.rerank.engines.worker_process import ForkedProcess
def fail():
    raise ValueError
for run, seconds in ((lambda: os._exit(3), 60.0), (fail, 60.0), (lambda: time.sleep(600), 0.0)):
    process = ForkedProcess(run, 5)
    try:
        print(process.wait(seconds))
    except Exception as error:
        process.kill()
        print(type(error).__name__, process.wait())
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["3", "1", "TimeoutExpired -9"]


def test_a_decider_that_cannot_be_sent_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(5, 3))
    with open_lists(source) as lists:
        form = JsonRows()
        monkeypatch.setattr(form, "other", lambda: None, raising=False)
        made = shared_lines.line_sharing(CHRF, form, lists.lines, "in", SharingEngine(2), Meter())
        assert made is None
