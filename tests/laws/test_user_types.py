"""What a type checker says of a user's script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
from typing import assert_type

import discorank
from discorank import Candidate, Document, MBRDecoder, Ranking, Reranker

one = discorank.decode(["a", "b"], utility="chrf")
assert_type(one.text, str)
assert_type(one.utility, float | None)
length: int = len(one.text.split())

for ranking in MBRDecoder("chrf").decode([["a", "b"], ("c", "d")]):
    assert_type(ranking.text, str)
for general in MBRDecoder("chrf").decode([{"id": "a", "candidates": ["x"], "topic": 1}, {"candidates": ["y"]}]):
    assert_type(general.text, str | Document)
for reranked in Reranker({"length": 1.0}).decode([{"id": "a", "candidates": ["x"]}]):
    assert_type(reranked, Ranking)
whole = discorank.decode([Candidate("a"), Document(["a"])], utility="chrf")
assert_type(whole.text, str | Document)

def best(rankings: list[Ranking]) -> str:
    return str(rankings[0].text)

best([one, whole])
systems = {"a": ["x"], "b": ["y"]}
comparison = discorank.compare(systems, ["z"], metrics=["chrf", "bleu"], human={"mqm:lower": {"a": [1.0], "b": [None]}})
assert_type(comparison.best, str)
print(comparison.to_pandas(), discorank.to_pandas([one]))
"""
MISTAKES = """
import discorank

discorank.decode(["a", "b"], utility="chrf").txt
discorank.MBRDecoder("chrf", nbst=2)
discorank.compare(["x"], ["y"])
text: int = discorank.decode(["a"], utility="chrf").text
"""


def checked(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The answer of mypy, which sees the package as a user's does."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]
    return subprocess.run(
        [*command, "--ignore-missing-imports", "--follow-imports", "silent", "script.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src"), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_users_script_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    answer = checked(SCRIPT, tmp_path)
    assert answer.returncode == 0, answer.stdout
    answer = checked(MISTAKES, tmp_path)
    lines = {line.split(":")[1] for line in answer.stdout.splitlines() if ": error:" in line}
    assert lines == {"4", "5", "6", "7"}, answer.stdout
