"""What a type checker says of a user's script."""

from __future__ import annotations

import json
import os
import shutil
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
assert_type(discorank.decode([["a", "b"], ["c"]], "chrf", nbest=2), list[Ranking[str]])
assert_type(discorank.decode("lists.jsonl", "chrf", weights="logprob"), list[Ranking])
assert_type(discorank.decode(["a", "b"], "chrf", logprobs=[-1.0, -2.0], source="s"), Ranking[str])
assert_type(discorank.rerank(["a", "b"], "length", normalize="zscore").text, str)
assert_type(discorank.explain(["a", "b"], "chrf").utility, str)
assert_type(discorank.score(["a"], ["b"]).corpus, float)
assert_type(len(discorank.score(["a"], ["b"], metrics=["chrf", "bleu"])), int)
assert_type(discorank.read("examples:demo.jsonl", columns=["id=x"])[0], discorank.CandidateList)
assert_type(discorank.metrics()["chrf"].higher_is_better, bool)
systems = {"a": ["x"], "b": ["y"]}
comparison = discorank.compare(systems, ["z"], metrics=["chrf", "bleu"], human={"mqm:lower": {"a": [1.0], "b": [None]}})
assert_type(comparison.best, str)
print(comparison.to_pandas(), discorank.to_pandas([one]))
"""
MISTAKES = """
import discorank

discorank.decode(["a", "b"], utility="chrf").txt
discorank.decode(["a"], "chrf", nbst=2)
discorank.decode(["a"], "chrf", nbest="two")
discorank.rerank(["a"], "length", normalise="zscore")
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


def pyright() -> str | None:
    """The command, beside this Python or on the path."""
    beside = Path(sys.executable).with_name("pyright")
    return str(beside) if beside.exists() else shutil.which("pyright")


@pytest.mark.slow
@pytest.mark.skipif(
    pyright() is None, reason="pyright is not installed: pip install pyright[nodejs]"
)
def test_a_users_script_is_typed_for_pyright(tmp_path: Path) -> None:
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for script, expected in ((SCRIPT, set[int]()), (MISTAKES, set(range(3, 9)))):
        (tmp_path / "script.py").write_text(script)
        command = [str(pyright()), "--outputjson", "--pythonpath", sys.executable, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        diagnostics = json.loads(done.stdout)["generalDiagnostics"]
        lines = {one["range"]["start"]["line"] for one in diagnostics if one["severity"] == "error"}
        assert lines == expected, done.stdout


@pytest.mark.slow
def test_a_users_script_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    answer = checked(SCRIPT, tmp_path)
    assert answer.returncode == 0, answer.stdout
    answer = checked(MISTAKES, tmp_path)
    lines = {line.split(":")[1] for line in answer.stdout.splitlines() if ": error:" in line}
    assert lines == {str(line) for line in range(4, 10)}, answer.stdout
