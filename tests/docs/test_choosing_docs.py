"""The advice on choosing: every command of its page runs and writes a row for every list; a prior and summaries."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main

from .stand_ins import GOLDEN_MODELS

ROOT = Path(__file__).parents[2]
ROWS = {
    "best.jsonl": 48,
    "in-context.jsonl": 48,
    "chosen.jsonl": 48,
    "to-judge.jsonl": 20,
    "best-sample.jsonl": 3,
    "reranked.jsonl": 3,
    "translated.jsonl": 3,
    "shortlist.jsonl": 3,
    "budget.jsonl": 3,
    "preset.jsonl": 3,
    "quarter.jsonl": 3,
}


def commands(page: str) -> list[list[str]]:
    """The command lines of a page as words, the examples of the checkout in them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = text.replace("examples/", f"{ROOT}/examples/")
    for name, path in GOLDEN_MODELS.items():
        text = text.replace(name, str(path))
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of an output."""
    return [json.loads(row) for row in Path(name).read_text(encoding="utf-8").splitlines()]


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = commands("choosing.md")
    assert len(lines) >= 10
    for words in lines:
        assert words[0] == "discorank", words
        assert main(words[1:]) == 0, words
    for name, count in ROWS.items():
        assert len(rows_of(name)) == count, name


def test_a_prior_chooses_the_faithful_summaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [words for words in commands("summaries.md") if "judged-summaries" in " ".join(words)]
    assert len(lines) == 2
    assert [main(words[1:]) for words in lines] == [0, 0]
    # the faithful summaries are of one system
    assert [row["index"] for row in rows_of("chosen.jsonl")] == [0] * 6


def test_a_prior_refuses_lists_without_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = ROOT / "examples"
    systems = str(examples / "systems.jsonl")
    assert main(["train", "prior", systems, "--human", "mqm:lower", "-o", "p.json"]) == 0
    demo = str(examples / "demo.jsonl")
    assert main(["decode", demo, "-u", "chrf", "--prior", "p.json", "-o", "out.jsonl"]) == 3
    assert "goes by the system" in capsys.readouterr().err
