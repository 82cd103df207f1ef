"""Budgets on the command line: rows, what is refused, resuming, seconds, explain, check and report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.metrics.errors import ResumeError

from ..support.lists import made_lists, write_lists

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = GOLDEN / "docmetrics" / "models"
PRISM = f'prism(model="{MODELS}/tiny-mbart50",lang="en")'
Captured = pytest.CaptureFixture[str]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lists = list(made_lists(12, 14, seed=2))
    lists[5]["candidates"] = []
    return write_lists(tmp_path / "in.jsonl", lists)


def decode(source: Path, out: Path, *more: str) -> int:
    return main(["decode", str(source), "-o", str(out), "--max-errors", "1", "--quiet", *more])


@pytest.mark.parametrize("more", ["", "--regret 0.5 --confidence 0.5"])
def test_rows_and_going_on(source: Path, tmp_path: Path, more: str) -> None:
    """A run that stops at an error record goes on where it was, with the same bytes."""
    words = ["-u", "ter", "--budget", "0.3", "--nbest", "2", *more.split()]
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert decode(source, whole, *words) == 3
    for row in rows(whole):
        budget = row["budget"]
        assert set(budget) == {*("pairs", "of", "confidence", "regret", "spread")}
        assert 1 <= budget["pairs"] <= max(1, -(-3 * budget["of"] // 10))
    stopped = [*words, "--max-errors", "0"]
    assert main(["decode", str(source), "-o", str(out), "--quiet", *stopped]) == 3
    assert 0 < len(rows(out)) < len(rows(whole))
    mended = [line for i, line in enumerate(source.read_text().splitlines(True)) if i != 5]
    source.write_text("".join(mended))
    assert main(["decode", str(source), "-o", str(out), "--quiet", *stopped]) == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Killed when its first rows stand there: the run that goes on writes the bytes of one that was not killed."""
    num_lists = 60  # several seconds of output
    source = write_lists(tmp_path / "in.jsonl", made_lists(num_lists, 40, seed=4))
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = ["-u", "ter", "--budget", "0.3", "--quiet"]
    assert main(["decode", str(source), "-o", str(whole), *words]) == 0
    command = [sys.executable, "-m", "discorank", "decode", str(source), "-o", str(out), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out.exists() and b"\n" in out.read_bytes()):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert 0 < out.read_bytes().count(b"\n") < num_lists
    assert main(["decode", str(source), "-o", str(out), *words]) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_lists_stop_when_they_lose_little(source: Path, tmp_path: Path) -> None:
    """Every list that has pairs left has met the bound that it was given; others have used what they might."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = ["-u", "ter", "--budget", "0.9"]
    assert decode(source, whole, *words) == 3
    assert decode(source, out, *words, "--regret", "0.1") == 3
    num_stopped = 0
    for row, other in zip(rows(out), rows(whole), strict=True):
        budget = row["budget"]
        if budget["pairs"] < other["budget"]["pairs"]:
            num_stopped += 1
            assert budget["regret"] <= 0.1 * budget["spread"]
    assert num_stopped > 0


def test_other_budgets_are_other_runs(source: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out"
    assert decode(source, out, "-u", "ter", "--budget", "0.3") == 3
    for more in (
        ["--budget", "0.31"],
        ["--budget", "0.3", "--cheap-utility", "bleu"],
        ["--budget", "0.3", "--confidence", "0.9"],
        ["--budget", "0.3", "--regret", "0.1"],
        [],
    ):
        assert decode(source, out, "-u", "ter", *more) == ResumeError.exit_code
        assert "budget" in capsys.readouterr().err


def test_a_whole_budget_writes_the_rows_of_none(source: Path, tmp_path: Path) -> None:
    assert decode(source, tmp_path / "none", "-u", "ter") == 3
    assert decode(source, tmp_path / "all", "-u", "ter", "--budget", "1.0") == 3
    found = rows(tmp_path / "all")
    for row in found:
        assert row.pop("budget")["confidence"] == 1.0
    assert found == rows(tmp_path / "none")


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (["-u", "chrf", "--budget", "0.1"], "--force-budget"),
        (["-u", "ter", "--regret", "0.01"], "--budget SHARE"),
        (["-u", "ter", "--budget", "0.1", "--regret", "0"], "regret"),
        (["-u", "ter", "--budget", "2"], "budget"),
        (["-u", "ter", "--budget", "0.1", "--save-utilities", "u"], "--save-utilities"),
        (["--utilities", "u", "--budget", "0.1"], "--utilities"),
        (["-u", "ter", "--budget", "0.1", "--oracle"], "--oracle"),
        (["-u", "ter", "--budget", "0.1", "--diverse", "1", "--nbest", "3"], "--budget"),
    ],
)
def test_mistakes(
    source: Path, tmp_path: Path, capsys: Captured, more: list[str], found: str
) -> None:
    if "--utilities" in more:
        saved = tmp_path / "saved"
        assert decode(source, tmp_path / "x", "-u", "chrf", "--save-utilities", str(saved)) == 3
        more = [str(saved) if word == "u" else word for word in more]
    try:
        code = decode(source, tmp_path / "out", *more)
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2
    assert found in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_explain_says_what_was_compared(source: Path, capsys: Captured) -> None:
    words = ["explain", str(source), "-u", "ter", "--limit", "1", "--budget", "0.3"]
    assert main([*words, "--format", "json", "--quiet"]) == 0
    data = json.loads(capsys.readouterr().out)
    budget = data["budget"]
    assert len(budget["compared"]) == data["distinct"]
    assert sum(map(len, budget["compared"])) == budget["pairs"] <= 0.3 * budget["of"] + 1
    assert all(place["compared"] >= 1 for place in data["ranking"][:1])
    assert "not_finite" not in data  # what was not computed is no odd value
    assert main([*words, "--quiet"]) == 0
    text = capsys.readouterr().out
    assert f"{budget['pairs']} of {budget['of']} pairs" in text
    assert "compared with" in text


def test_after_few_pairs_no_loss_is_stated(tmp_path: Path, capsys: Captured) -> None:
    source = write_lists(tmp_path / "in.jsonl", [{"id": "a", "candidates": ["a b", "b c", "d"]}])
    out = tmp_path / "out"
    assert decode(source, out, "-u", "ter", "--budget", "0.1") == 0
    (row,) = rows(out)
    assert row["budget"]["pairs"] == 1
    assert row["budget"]["regret"] is None
    assert main(["explain", str(source), "-u", "ter", "--budget", "0.1", "--quiet"]) == 0
    assert "expected loss unknown" in capsys.readouterr().out


def test_diverse_lists_are_cited(source: Path, tmp_path: Path, capsys: Captured) -> None:
    assert decode(source, tmp_path / "all", "-u", "chrf", "--nbest", "2", "--diverse", "1") == 3
    assert main(["cite", str(tmp_path / "all.run.json")]) == 0
    assert capsys.readouterr().out.count("jinnai2024diverse") == 2  # in the sentence, and its entry


DEMO = str(Path(__file__).parents[2] / "examples" / "demo.jsonl")
ENCODER = ["--encoder-path", str(MODELS / "tiny-xlmr")]


def test_regression_comet_needs_no_budget(tmp_path: Path, capsys: Captured) -> None:
    """The kind of the checkpoint decides."""
    words = ["--model", str(MODELS / "tiny-comet-ref"), *ENCODER, "--quiet"]
    assert main(["decode", DEMO, "-u", "comet", "--budget", "0.1", *words]) == 2
    assert "algebra" in capsys.readouterr().err
