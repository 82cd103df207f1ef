"""The choices in which two runs differ: in the terminal, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st

from discorank.cli.main import main
from discorank.report.differences import in_marks, marked_words

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of the same lists, as the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", "-o", "a", "--quiet"]) == 0
    assert main(["rerank", "examples:demo.jsonl", "-m", "logprob", "-o", "b", "--quiet"]) == 0


@few(max_examples=15)
@given(WORDS, WORDS)
def test_both_texts_are_in_the_marks(first: list[str], second: list[str]) -> None:
    parts = marked_words(" ".join(first), " ".join(second))
    own = {"first": ("same", "first"), "second": ("same", "second")}
    for side, words in (("first", first), ("second", second)):
        told = [text for kind, text in parts if kind in own[side]]
        assert " ".join(told).split() == words
    assert in_marks(parts).count("[-") == sum(kind == "first" for kind, _ in parts)


def test_words_are_marked_behind_source_and_context(
    runs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "a", "b", "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 of 3 choices differ\n[-words of a alone-] {+words of b alone+}\n")
    assert "ferry:1\n  source  Bis dahin warten alle im Café am Hafen.\n" in printed
    before = "[-The ferry will not leave until the fog has lifted.-]{+Ferry off.+}"
    assert printed.count(before) == 2, "what was chosen, and the context of the next"
    assert printed.endswith("\nand 1 more: raise --limit\n")


def test_the_same_as_json(runs: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a", "b", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == ["ferry:0", "ferry:1", "ferry:2"]
    assert rows[1]["context"] == [[rows[0]["texts"][0]], [rows[0]["texts"][1]]]


def test_equal_runs_and_rows_without_a_run_file(
    runs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "a", "a"]) == 0
    assert capsys.readouterr().out.startswith("0 of 3 choices differ: both chose the same\n")
    Path("c").write_text('{"id": "ferry:0", "text": "x"}\n{"id": "other", "text": "y"}\n')
    assert main(["diff", "c", "a"]) == 0
    printed = capsys.readouterr()
    assert "sources and contexts are not shown" in printed.err
    assert "1 lists are in c alone\n2 lists are in a alone\n" in printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "1 files, expected two. discorank diff A.jsonl B.jsonl"),
        (["a", "none.jsonl"], "none.jsonl: cannot be opened"),
        (["a", "rows"], "rows:1: id: found no id"),
        (["a", "far"], "far: has no list that a has. Give two runs of the same input"),
    ],
)
def test_refusals(
    runs: None, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rows").write_text('{"x": 1}\n')
    Path("far").write_text('{"id": "far", "text": "y"}\n')
    assert main(["diff", *arguments]) == 2
    assert message in capsys.readouterr().err
