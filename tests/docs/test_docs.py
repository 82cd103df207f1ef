"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from discorank.cli.main import main

ROOT = Path(__file__).parents[2]


def blocks(path: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```",
        (ROOT / path).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )


def test_the_metric_in_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("docs/writing-a-metric.md", "python")
    (tmp_path / "length.py").write_text(code)
    (tmp_path / "lists.jsonl").write_text(
        '{"id": "a", "candidates": ["one", "three", "a very long text"]}\n'
    )
    command = [
        sys.executable,
        "-m",
        "discorank",
        "decode",
        "lists.jsonl",
        "-u",
        "length:Length(power=2)",
        "--quiet",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"index": 1' in done.stdout


def test_quickstart_is_short_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quickstart = blocks("README.md", "sh")[0].splitlines()
    assert len(quickstart) <= 12
    monkeypatch.chdir(tmp_path)
    ran = 0
    for line in quickstart:
        words = shlex.split(line, comments=True)
        if words[:1] == ["discorank"]:
            assert main([word.replace("examples/", f"{ROOT}/examples/") for word in words[1:]]) == 0
            ran += 1
    assert ran == 4


def test_readme_names_every_metric_and_subcommand() -> None:
    from discorank.cli.main import SUBCOMMANDS
    from discorank.metrics.registry import BUILT_IN

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in (*BUILT_IN, *SUBCOMMANDS) if name not in text] == []


def test_python_in_the_readme(tmp_path: Path) -> None:
    (code,) = blocks("README.md", "python")
    candidates = [{"text": "x y", "logprob": -1.0}, {"text": "x", "logprob": -2.0}]
    before = (
        f"candidate_lists = [{{'id': 'a', 'candidates': {candidates}}}]\n"
        "hypotheses, references, pseudo_references = ['x'], ['x'], ['x', 'y']\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", before + code], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "a ['x y', 'x']"
