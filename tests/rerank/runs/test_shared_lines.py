"""Lists shared over processes by lines: the bytes of one process, whatever stands in a line, and only if it pays."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.execution.meter import Meter
from discorank.rerank.engines import sharing
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.engines.sharing import SharingEngine, processes_that_pay, usable_processors
from discorank.rerank.mbr_decoder import MBRDecoder
from discorank.rerank.reranker import Reranker
from discorank.rerank.runs import shared_lines
from discorank.rerank.runs.row_forms import JsonRows, TextRows
from discorank.rerank.runs.run import RunSettings, run_lists
from discorank.rerank.whole_documents import WholeDocuments

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
    monkeypatch.setattr(shared_lines, "FIRST_WAVE", 2000)
    monkeypatch.setattr(shared_lines, "SHORT_SECONDS", 0.0)
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
    """What a run file says but for seconds and work."""
    row: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())
    return row


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize("jobs", ["2", "auto"])
@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_the_outputs_are_those_of_one_process(tmp_path: Path, jobs: str, form: str) -> None:
    source = hostile(tmp_path)
    outs = [tmp_path / "one", tmp_path / "several"]
    for out, number in zip(outs, ("1", jobs), strict=True):
        assert decode(source, out, "--jobs", number, "--max-errors", "20", "--format", form) == 3
    for suffix in ("", ".errors.jsonl"):
        one, several = (Path(f"{out}{suffix}").read_bytes() for out in outs)
        assert one == several
        assert one.count(b"\n") >= 9
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
@pytest.mark.parametrize("jobs", ["2", "auto"])
def test_a_file_that_is_refused_in_the_middle_is_decided_up_to_there(
    tmp_path: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(60, 6))
    source.write_bytes(source.read_bytes() + b'{"id": "' + b"x" * 20_000 + b'"}\n')
    messages = []
    for number in ("1", jobs):
        out = tmp_path / f"out{number}"
        assert decode(source, out, "--jobs", number, "--max", "line_bytes=10000") == 2
        messages.append(capsys.readouterr().err)
        assert len(out.read_text().splitlines()) == 60
    assert messages[0] == messages[1]
    assert "line longer than 10000 bytes" in messages[0]


def test_a_worker_that_dies_at_lines_is_replaced(tmp_path: Path, two: ProcessEngine) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(300, 8))
    send, killed = two._send, []

    def send_and_kill() -> None:
        send()
        if not killed:
            killed.append(two.workers[0].process.kill())

    outs = [tmp_path / "one", tmp_path / "two"]
    two._send = send_and_kill  # type: ignore[method-assign]
    try:
        for out, engine in zip(outs, (LocalEngine(), two), strict=True):
            with open_lists(source) as lists:
                run_lists(CHRF, lists, lists.name, out, engine, RunSettings(), lines=lists.lines)
    finally:
        two._send = send  # type: ignore[method-assign]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert sum(worker.died for worker in two.status().workers) == 1


def test_small_inputs_stay_in_one_process(tmp_path: Path) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(60, 6)), tmp_path / "out"
    assert decode(source, out) == 0
    assert "workers" not in run_file(out)["timings"]


@pytest.mark.parametrize(
    ("left", "per_list", "most", "expected"),
    [
        (0.0, 0.001, 8, 1),
        (1.4, 0.001, 8, 1),
        (1.6, 0.001, 8, 2),
        (60.0, 0.001, 1, 1),
        (60.0, 0.001, 8, 8),
        (60.0, 0.00016, 8, 3),  # more would wait for the process that reads and writes
        (60.0, 0.00006, 8, 1),
    ],
)
def test_processes_pay_where_work_is_left(
    left: float, per_list: float, most: int, expected: int
) -> None:
    assert processes_that_pay(left, per_list, most) == expected


def test_a_quota_of_processors_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(sharing, "QUOTA", quota)
    free = usable_processors()
    assert free >= 1
    for text, expected in (("max 100000\n", free), ("100000 100000\n", 1), ("50000 100000\n", 1)):
        quota.write_text(text)
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
    assert not is_shared(WholeDocuments(CHRF))


def test_a_packed_input_says_no_size(tmp_path: Path) -> None:
    plain = write_lists(tmp_path / "in.jsonl", made_lists(5, 3))
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    sizes = []
    for path in (plain, packed):
        with open_lists(path) as lists:
            next(iter(lists))
            assert lists.lines is not None
            sizes.append(lists.lines.text_bytes())
    assert sizes == [plain.stat().st_size, None]
    with open_lists(plain, "moses") as other:
        assert other.lines is None
