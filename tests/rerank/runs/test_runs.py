"""Runs: resume after any interruption, refusal of other settings or input, error records, accounting."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import MBRDecoder
from discorank.cli.main import main
from discorank.metrics.errors import InputError
from discorank.metrics.neural.bertscore import BERTScore
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.engines.local import FIRST_WAVE
from discorank.rerank.runs import resumable as checkpoint
from discorank.rerank.runs.resumable import Checkpoint

from ...support import faulty
from ...support.lists import made_lists, write_lists
from ...support.waiting import PATIENCE_SECONDS, wait_until

COMMAND = [sys.executable, "-m", "discorank"]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_file(out: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())
    return about


def decode(source: Path, out: Path, *more: str) -> int:
    return main(["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet", *more])


def test_rows_are_accounted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = list(made_lists(50))
    lists[3]["context_only"] = True
    lists[9]["candidates"] = []
    source = write_lists(tmp_path / "in.jsonl", lists)
    out = tmp_path / "out.jsonl"
    assert decode(source, out, "--max-errors", "5") == 3
    counts = run_file(out)["counts"]
    assert (counts["rows"], counts["errors"], counts["context_only"]) == (48, 1, 1)
    assert run_file(out)["complete"]
    assert [row["id"] for row in rows(out)] == [
        row["id"] for i, row in enumerate(lists) if i not in (3, 9)
    ]
    (error,) = rows(tmp_path / "out.jsonl.errors.jsonl")
    assert error["file"] == str(source)
    assert error["line"] == 10
    assert error["id"] == lists[9]["id"]
    assert error["where"] == "candidates"
    assert "expected at least one" in error["reason"]


def test_unknown_keys_pass_through(tmp_path: Path) -> None:
    source = write_lists(
        tmp_path / "in.jsonl", [{"id": "a", "candidates": ["x"], "meta": {"é": [1, None]}, "n": 3}]
    )
    assert decode(source, tmp_path / "out") == 0
    (row,) = rows(tmp_path / "out")
    assert row["meta"] == {"é": [1, None]}
    assert row["n"] == 3
    assert row["gap"] is None


def test_appended_lists_are_decided_later(tmp_path: Path) -> None:
    lists = list(made_lists(30))
    out = tmp_path / "out"
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:20]), out) == 0
    assert decode(write_lists(tmp_path / "in.jsonl", lists), out) == 0
    whole = tmp_path / "whole"
    assert decode(tmp_path / "in.jsonl", whole) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_other_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(5)), tmp_path / "out"
    assert decode(source, out) == 0
    before = out.read_bytes()
    assert decode(source, out, "--weights", "logprob", "--no-self-pair") == 4
    message = capsys.readouterr().err
    assert "weights was 'uniform', now 'logprob'" in message
    assert "self_pair was True, now False" in message
    assert main(["decode", str(source), "-u", "chrf(beta=1)", "-o", str(out), "--quiet"]) == 4
    assert "utility was 'chrf', now 'chrf(beta=1.0)'" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert decode(source, out) == 0  # the refusals left the run as it was


def test_a_run_that_ended_before_its_first_row_is_in_nobodys_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", [{"id": "a", "candidates": []}, *made_lists(3)])
    out = tmp_path / "out.jsonl"
    assert decode(source, out) == 3
    assert rows(Path(f"{out}.errors.jsonl"))
    words = ["decode", str(source), "-u", "bleu", "-o", str(out), "--quiet", "--max-errors", "1"]
    assert main(words) == 3
    assert (len(rows(out)), len(rows(Path(f"{out}.errors.jsonl")))) == (3, 1)
    assert run_file(out)["settings"]["utility"].startswith("bleu")
    assert decode(source, out) == 4  # now there are rows to lose
    # rows that no checkpoint counts are not thrown away either
    killed = tmp_path / "killed.jsonl"
    assert decode(source, killed) == 3
    killed.write_text('{"id": "a"}\n')
    capsys.readouterr()
    assert main([*words[:5], str(killed), "--quiet"]) == 4
    assert "Choose another output" in capsys.readouterr().err


def test_other_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = list(made_lists(5))
    out = tmp_path / "out"
    assert decode(write_lists(tmp_path / "in.jsonl", lists), out) == 0
    lists[2]["candidates"] = ["another"]
    assert decode(write_lists(tmp_path / "in.jsonl", lists), out) == 4
    assert "the first 5 entries differ" in capsys.readouterr().err
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:2]), out) == 4
    assert decode(write_lists(tmp_path / "in.jsonl", made_lists(5)), out) == 0


def test_an_output_without_a_run_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(2)), tmp_path / "out"
    out.write_text("precious\n")
    assert decode(source, out) == 4
    assert out.read_text() == "precious\n"
    assert "out.run.json does not" in capsys.readouterr().err


@pytest.mark.parametrize("sink", ["in.jsonl", "out", "precious"])
def test_saved_utilities_overwrite_nothing(
    tmp_path: Path, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(3))
    (tmp_path / "precious").write_text("x\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert decode(source, tmp_path / "out", "--save-utilities", str(tmp_path / sink)) in (2, 4)
    assert {
        path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name in before
    } == before
    assert capsys.readouterr().err


def test_outputs_are_no_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(3))
    os.link(source, tmp_path / "other")
    for out in (source, tmp_path / "other"):
        assert decode(source, out) == 2
        assert main(["convert", str(source), "-o", str(out), "--quiet"]) == 2
    assert "is an input and an output" in capsys.readouterr().err
    assert decode(source, tmp_path / "out") == 0
    assert main(["convert", str(source), "-o", str(tmp_path / "out"), "--quiet"]) == 2
    assert "is the output of a run" in capsys.readouterr().err


def test_side_files_and_drafts_are_no_inputs_either(tmp_path: Path) -> None:
    for side in (".errors.jsonl", ".run.json.tmp"):
        source = write_lists(tmp_path / f"out{side}", made_lists(3))
        before = source.read_bytes()
        assert decode(source, tmp_path / "out") == 2
        assert source.read_bytes() == before
        source.unlink()
    source = write_lists(tmp_path / "new.tmp", made_lists(3))
    assert main(["convert", str(source), "-o", str(tmp_path / "new"), "--quiet"]) == 0
    assert source.read_bytes() == (tmp_path / "new").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    assert main(["convert", str(source), "-o", str(tmp_path / "pipe"), "--quiet"]) == 2


def test_other_saved_utilities_are_another_run(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(4))
    for name, utility in (("u", "chrf"), ("v", "bleu")):
        saved = ["--save-utilities", f"{tmp_path}/{name}", "--set", f"utility={utility}"]
        assert decode(source, tmp_path / f"{name}.out", *saved) == 0
    again = ["decode", str(source), "--quiet", "-o", str(tmp_path / "b"), "--utilities"]
    assert main([*again, f"{tmp_path}/u"]) == 0
    assert main([*again, f"{tmp_path}/v"]) == 4


def test_a_word_like_nan_in_a_long_text_costs_nothing(tmp_path: Path) -> None:
    from discorank.rerank.runs.resumable import as_line

    text = "x" * 3_000_000 + " NaN -Infinity " + '"' * 1000
    assert json.loads(as_line({"text": text, "value": float("nan"), "low": float("-inf")})) == {
        "text": text,
        "value": None,
        "low": float("-inf"),
    }


def test_a_metric_that_cannot_be_loaded_stops_before_the_first_list(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(3))
    wrong = ["--set", 'utility=bleu(tokenize="nosuch")', "--max-errors", "9"]
    assert decode(source, tmp_path / "out", *wrong) == 2
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_resumable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import resource

    source, out = write_lists(tmp_path / "in.jsonl", made_lists(200)), tmp_path / "out"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, limits[1]))
    try:
        assert decode(source, out) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be written" in capsys.readouterr().err
    assert decode(source, out) == 0
    assert len(rows(out)) == 200


def test_a_broken_run_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(3)), tmp_path / "out"
    assert decode(source, out) == 0
    good = run_file(out)
    broken: Any
    for broken in (
        {},
        [],
        {**good, "bytes": []},
        {**good, "counts": {"rows": "x"}},
        {**good, "settings": 3},
    ):
        signed = with_checksum(broken) if isinstance(broken, dict) else broken
        Path(f"{out}.run.json").write_text(json.dumps(signed))
        assert decode(source, out) == 4
        assert "out.run.json" in capsys.readouterr().err


def test_a_second_process_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from filelock import FileLock

    source, out = write_lists(tmp_path / "in.jsonl", made_lists(2)), tmp_path / "out"
    with FileLock(f"{out}.lock"):
        assert decode(source, out) == 4
    assert "another process is writing it" in capsys.readouterr().err


def test_two_runs_do_not_write_one_file_of_utilities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from filelock import FileLock

    source, out = write_lists(tmp_path / "in.jsonl", made_lists(2)), tmp_path / "out"
    saved = tmp_path / "u.jsonl"
    with FileLock(f"{saved}.lock"):
        assert decode(source, out, "--save-utilities", str(saved)) == 4
    assert "u.jsonl: another process is writing it" in capsys.readouterr().err
    assert not out.exists()
    assert decode(source, out, "--save-utilities", str(saved)) == 0


def test_stops_at_the_first_error_and_goes_on_when_it_is_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = list(made_lists(20))
    good = dict(lists[12])
    lists[12]["candidates"] = [{"text": "x", "logprob": "high"}]
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    for _ in range(2):
        assert decode(source, out) == 3
        assert (
            "in.jsonl:13: stopped at an error record: candidates[0].logprob"
            in capsys.readouterr().err
        )
        assert len(rows(tmp_path / "out.errors.jsonl")) == 1
        assert len(rows(out)) == 12
        assert not run_file(out)["complete"]
    lists[12] = good
    assert decode(write_lists(source, lists), out) == 0
    assert len(rows(out)) == 20
    assert not (tmp_path / "out.errors.jsonl").exists()


def test_a_refused_file_leaves_a_resumable_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = list(made_lists(20))
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    good = source.read_bytes()
    source.write_bytes(good.replace(b'"d1:3"', b'"d1:\xff"'))
    assert decode(source, out) == 2
    assert "not UTF-8" in capsys.readouterr().err
    source.write_bytes(good)
    assert decode(source, out) == 0
    assert len(rows(out)) == 20


def test_text_format(tmp_path: Path) -> None:
    source = write_lists(
        tmp_path / "in.jsonl",
        [
            {"id": "a", "candidates": ["x y", "x y", "z"]},
            {"id": "b", "candidates": ["two\nlines"]},
            {"id": "c", "candidates": [["One.", "Two."]]},
        ],
    )
    assert decode(source, tmp_path / "out", "--format", "text", "--max-errors", "1") == 3
    assert (tmp_path / "out").read_text() == "x y\nOne. Two.\n"
    (error,) = rows(tmp_path / "out.errors.jsonl")
    assert "line break" in error["reason"]


@pytest.mark.parametrize("utility", ["chrf", "ter", "chrf + 0.5*bleu"])
def test_saved_utilities_decide_again(tmp_path: Path, utility: str) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(40))
    saved, computed = str(tmp_path / "u.jsonl"), ["--set", f"utility={utility}"]
    assert decode(source, tmp_path / "a", "--save-utilities", saved, *computed) == 0
    again = ["decode", str(source), "--utilities", saved, "--quiet", "-o", str(tmp_path / "b")]
    assert main([*again, "--weights", "logprob"]) == 0
    assert decode(source, tmp_path / "c", "--weights", "logprob", *computed) == 0
    assert run_file(tmp_path / "b")["settings"]["utility"] == utility
    for row, expected in zip(rows(tmp_path / "b"), rows(tmp_path / "c"), strict=True):
        assert row["index"] == expected["index"]
        assert row["utility"] == pytest.approx(expected["utility"], rel=1e-13)
    if "+" not in utility:  # the mean of a sum and the sum of means differ in the last bit
        assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_a_run_from_saved_utilities_goes_on(tmp_path: Path) -> None:
    lists = list(made_lists(30))
    source = write_lists(tmp_path / "in.jsonl", lists)
    saved = str(tmp_path / "u.jsonl")
    assert decode(source, tmp_path / "a", "--save-utilities", saved) == 0
    again = ["decode", str(source), "--utilities", saved, "--quiet", "-o", str(tmp_path / "b")]
    for stop in (11, 12, 30):
        write_lists(source, lists[:stop])
        assert main(again) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_saved_utilities_of_other_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "u.jsonl")
    source = write_lists(tmp_path / "in.jsonl", made_lists(4))
    assert decode(source, tmp_path / "a", "--save-utilities", saved) == 0
    other = write_lists(
        tmp_path / "other.jsonl",
        [{"id": "d0:0", "candidates": ["a", "b", "c", "d", "e", "f", "g"] * 2}],
    )
    assert (
        main(["decode", str(other), "--utilities", saved, "--quiet", "-o", str(tmp_path / "b")])
        == 3
    )
    assert "the saved matrix is" in capsys.readouterr().err
    assert (
        main(
            ["decode", str(other), "--utilities", str(source), "--quiet", "-o", str(tmp_path / "d")]
        )
        == 2
    )
    assert "not a file of utilities" in capsys.readouterr().err


CONTEXTUAL = "tests.support.contextual:Echo"


def crashes(arguments: list[str], point: int) -> bool:
    """Runs a command in a child that dies at its `point`-th step on disk, before or after it; whether it died."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    checkpoint.EVERY_SECONDS = -1.0
    left = [point]

    def dying(call: Any) -> Any:
        def step(*values: Any) -> Any:
            for moment in (0, 1):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)
                if moment == 0:
                    result = call(*values)
            return result

        return step

    try:
        for name in ("fsync", "replace", "truncate"):
            setattr(os, name, dying(getattr(os, name)))
        Checkpoint._append = dying(Checkpoint._append)  # type: ignore[method-assign]
        main(arguments)
    finally:
        os._exit(0)


def of_systems(row: dict[str, Any]) -> dict[str, Any]:
    """A list whose candidates name their systems."""
    candidates = [{**candidate, "system": f"s{i}"} for i, candidate in enumerate(row["candidates"])]
    return {**row, "candidates": candidates}


EVERY_POINT = (*range(1, 40), *range(40, 200, 7))
KINDS = ("rows", "text with context", "systems with utilities", "two passes")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("systems with utilities", EVERY_POINT[::3]),
        ("two passes", EVERY_POINT[1::3]),
        *(pytest.param(kind, EVERY_POINT, marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_dying_at_every_step_on_disk(tmp_path: Path, kind: str, points: tuple[int, ...]) -> None:
    """A run that dies again and again, some steps further each time, ends as one that nobody stopped."""
    lists = list(made_lists(9))
    lists[2]["candidates"] = ["two\nlines"] if kind == "text with context" else []
    source = write_lists(tmp_path / "in.jsonl", lists)
    by_kind = {
        "text with context": ["-u", CONTEXTUAL, "--format", "text"],
    }
    options = ["--quiet", "--max-errors", "9", *by_kind.get(kind, ["-u", "chrf"])]
    if kind == "two passes":
        write_lists(source, [of_systems(row) for row in lists])
        options = [*options[:3], "-m", "length", "--shrink", "0.75"]
    if kind == "systems with utilities":
        systems = {name: [f"{name} says {i % 3}" for i in range(6)] for name in "abc"}
        source = write_lists(source, [{"id": "s", "source": ["x"] * 6, "systems": systems}])
        options += ["--from", "systems", "--nbest", "2"]

    def command(name: str) -> list[str]:
        more = ["--save-utilities", str(tmp_path / f"{name}.u")] if "utilities" in kind else []
        verb = "rerank" if "--shrink" in options else "decode"
        return [verb, str(source), *options, *more, "-o", str(tmp_path / name)]

    def content(name: str) -> list[bytes]:
        endings = ("", ".u", ".errors.jsonl", ".first", ".systems.json")
        paths = [tmp_path / f"{name}{ending}" for ending in endings]
        return [path.read_bytes() for path in paths if path.exists()]

    assert main(command("whole")) in (0, 3)
    deaths = 0
    for point in points:
        deaths += crashes(command("out"), point)
        if (
            run_file(tmp_path / "out")["complete"]
            if (tmp_path / "out.run.json").exists()
            else False
        ):
            for path in tmp_path.glob("out*"):
                path.unlink()
    assert deaths > len(points) // 2
    assert main(command("out")) in (0, 3)
    assert content("out") == content("whole")


def begun(command: list[str]) -> subprocess.Popen[bytes]:
    """A command that says nothing."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed(command: list[str], seconds: float) -> int:
    """Starts a command, kills it after some time, returns its exit code."""
    process = begun(command)
    time.sleep(seconds)
    process.kill()
    return process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_interrupts_leave_a_resumable_run(
    tmp_path: Path, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes while the run waits at a gate, which is open when it goes on."""
    lists = list(made_lists(60, 4))
    for row in lists:  # so that rows are written before the gate
        row["candidates"].append("fog " * (FIRST_WAVE // 100))
    lists[50]["candidates"].append("gate 0")
    source = write_lists(tmp_path / "in.jsonl", lists)
    out, whole, gate = tmp_path / "out", tmp_path / "whole", tmp_path / "0"
    monkeypatch.setenv(faulty.GATES, str(tmp_path))
    words = ["decode", str(source), "-u", "chrf + bleu + tests.support.faulty:gated", "--quiet"]
    command = [*COMMAND, *words, "-o", str(out)]
    process = begun(command)
    reached = gate.with_suffix(".reached")
    wait_until(lambda: reached.exists() or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(PATIENCE_SECONDS) == code
    assert 0 < len(rows(out)) < 60
    assert not run_file(out)["complete"]
    gate.touch()
    assert subprocess.run(command, check=False).returncode == 0
    assert main([*words, "-o", str(whole)]) == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("num_lists", "num_kills"), [(1500, 3), pytest.param(5000, 10, marks=pytest.mark.slow)]
)
def test_killed_at_random_points(num_lists: int, num_kills: int, tmp_path: Path) -> None:
    """SIGKILL anywhere, start again: the same bytes as a run that nobody killed, every record once."""
    lists = list(made_lists(num_lists, 16, seed=3))
    failing = num_lists // 2
    lists[failing]["candidates"] = []
    source = write_lists(tmp_path / "in.jsonl", lists)

    def command(name: str) -> list[str]:
        files = ["-o", str(tmp_path / name), "--save-utilities", str(tmp_path / f"{name}.u")]
        options = ["-u", "chrf", "--quiet", "--max-errors", "3"]
        return [*COMMAND, "decode", str(source), *options, *files]

    begin = time.monotonic()
    assert subprocess.run(command("whole"), check=False).returncode == 3
    seconds = time.monotonic() - begin
    r = random.Random(7)
    num_killed = 0
    for _ in range(100):
        code = killed(command("out"), r.uniform(0.3, 0.9 * seconds))
        num_killed += code == -signal.SIGKILL
        if num_killed == num_kills:
            break
        if code in (0, 3):  # finished before the kill: start over
            for path in tmp_path.glob("out*"):
                path.unlink()
    assert num_killed == num_kills
    assert subprocess.run(command("out"), check=False).returncode == 3
    for ending in ("", ".u", ".errors.jsonl"):
        written, expected = (tmp_path / f"{name}{ending}" for name in ("out", "whole"))
        assert written.read_bytes() == expected.read_bytes(), ending
    expected_ids = [row["id"] for i, row in enumerate(lists) if i != failing]
    assert [row["id"] for row in rows(tmp_path / "out")] == expected_ids
    assert run_file(tmp_path / "out")["counts"] == run_file(tmp_path / "whole")["counts"]


def test_document_context_survives_a_restart(tmp_path: Path) -> None:
    """A resumed sequential run reads the choices of the earlier one as context."""
    lists = list(made_lists(60))
    lists[17]["candidates"] = [{"text": "x", "logprob": "broken"}]
    lists[22]["candidates"] = ["poison"]
    lists[30]["context_only"] = True
    whole, out = tmp_path / "whole", tmp_path / "out"
    source = write_lists(tmp_path / "in.jsonl", lists)

    def run(target: Path) -> int:
        command = ["decode", str(source), "-u", CONTEXTUAL, "-o", str(target), "--quiet"]
        return main([*command, "--max-errors", "2"])

    assert run(whole) == 3
    assert {flag for row in rows(whole) for flag in row.get("flags", [])} >= {
        "context-of-failed",
        "context-cut",
    }
    for stop in (1, 18, 22, 23, 31, 47):
        for path in tmp_path.glob("out*"):
            path.unlink()
        write_lists(source, lists[:stop])
        assert run(out) in (0, 3)
        write_lists(source, lists)
        assert run(out) == 3
        assert out.read_bytes() == whole.read_bytes(), stop


def test_a_run_names_what_multiplied_for_its_models(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(2))
    model = Path(__file__).parents[2] / "golden" / "docmetrics" / "models" / "tiny-roberta"
    assert decode(source, tmp_path / "chrf") == 0
    out = tmp_path / "bertscore"
    model_options = ["--model", str(model), "--device", "cpu", "--quiet"]
    assert (
        main(["decode", str(source), "-u", "bertscore(layer=2)", "-o", str(out), *model_options])
        == 0
    )
    assert "products" not in run_file(tmp_path / "chrf")
    assert run_file(out)["products"].split()[0] in ("oneDNN", "torch")


def test_a_run_names_the_versions_of_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(2))
    monkeypatch.setattr("discorank.rerank.runs.resumable.PACKAGES", ("numpy", "no-such-package"))
    assert decode(source, tmp_path / "out") == 0
    assert run_file(tmp_path / "out")["versions"] == {
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


@pytest.mark.parametrize(
    ("row", "words", "message"),
    [
        ({"id": "a", "candidates": []}, [], "no candidates"),
        ({"id": "a", "candidates": ["x", "y"]}, ["-u", "doc-bertscore"], "no document"),
        ({"id": "a", "candidates": ["x", "y"]}, ["--oracle"], "no references"),
        ({"id": "a", "candidates": ["x", "y"]}, ["--weights", "logprob"], "no logprob"),
    ],
)
def test_what_needs_no_model_is_checked_before_one_is_loaded(
    row: dict[str, Any],
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(metric: Any) -> Any:
        raise AssertionError("loaded")

    monkeypatch.setattr(BERTScore, "load", load)
    source = write_lists(tmp_path / "lists.jsonl", [row])
    assert main(["decode", str(source), "-u", "bertscore", *words]) == 3
    assert message in capsys.readouterr().err
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    assert main(["decode", str(tmp_path / "empty.jsonl"), "-u", "bertscore"]) == 0
    with pytest.raises(InputError, match=message.replace("no logprob", "logprob")):
        next(_decoder(words).decode([row]))


def _decoder(words: list[str]) -> MBRDecoder:
    """The decoder of these options."""
    utility = "doc-bertscore" if "-u" in words else "bertscore"
    weights = "logprob" if "--weights" in words else "uniform"
    return MBRDecoder(utility, oracle="--oracle" in words, weights=weights)
