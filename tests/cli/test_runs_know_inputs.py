"""A run records the files that it read, so that report, diff and explain need none of them repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discorank.cli.main import main

LISTS = [
    ("d1", "Das Schloss.", ["the castle", "the lock"]),
    ("d1", "Es ist alt.", ["It is old.", "She is old."]),
]
LISTS += [("d2", "Die Bank.", ["the bank", "a bench", "a bank"])]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """Two runs of decode over n-best lists with sources and documents in files of their own."""
    monkeypatch.chdir(tmp_path)
    nbest = [
        f"{i} ||| {text} ||| LM= {-len(text)} ||| {-len(text)}\n"
        for i, (_, _, texts) in enumerate(LISTS)
        for text in texts
    ]
    Path("lists.moses").write_text("".join(nbest))
    Path("sources.txt").write_text("".join(f"{source}\n" for _, source, _ in LISTS))
    Path("documents.txt").write_text("".join(f"{document}\n" for document, _, _ in LISTS))
    for name, words in (
        ("a", ["-u", "chrf"]),
        ("b", ["-u", "rouge-l"]),
    ):
        assert decode(name, *words) == 0
    assert rerank() == 0
    capsys.readouterr()
    return tmp_path


READ = [
    "lists.moses",
    "--from",
    "moses",
    "--sources",
    "sources.txt",
    "--documents",
    "documents.txt",
    "--quiet",
]


def decode(name: str, *words: str) -> int:
    return main(["decode", *READ, "-o", f"{name}.jsonl", *words])


def rerank() -> int:
    return main(["rerank", *READ, "-o", "c.jsonl", "-m", "field:LM"])


def test_diff_shows_sources_and_contexts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a.jsonl", "c.jsonl", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    by_id = {row["id"]: row for row in rows}
    assert all(row["source"] == LISTS[int(row["id"])][1] for row in rows)
    in_context = by_id["1"] if "1" in by_id else rows[0]
    assert len(in_context["context"]) == 2


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_explain_and_report_need_nothing_repeated(
    run: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["explain", f"{name}.jsonl", "--format", "json"]) == 0
    explained = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = [json.loads(line) for line in Path(f"{name}.jsonl").read_text().splitlines()]
    assert [(one["id"], one["source"]) for one in explained] == [
        (row["id"], LISTS[int(row["id"])][1]) for row in rows
    ]
    assert [one["ranking"][0]["index"] for one in explained] == [row["index"] for row in rows]
    assert main(["report", f"{name}.jsonl", "-o", "page.html", "--quiet"]) == 0
    assert LISTS[0][1] in Path("page.html").read_text()


def test_a_file_that_has_changed_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept.txt").write_text(Path("sources.txt").read_text())
    Path("sources.txt").write_text("x\n" * len(LISTS))
    assert main(["explain", "a.jsonl"]) == 2
    assert "--sources sources.txt: has changed" in capsys.readouterr().err
    assert decode("a", "-u", "chrf") == 4  # nor does it resume
    capsys.readouterr()
    assert main(["explain", "a.jsonl", "--sources", "kept.txt", "--limit", "1"]) == 0
    assert LISTS[0][1] in capsys.readouterr().out


def test_files_far_from_the_run_are_opened_only_if_named(
    run: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    far = tmp_path_factory.mktemp("far") / "far.txt"
    far.write_text(Path("sources.txt").read_text())
    words = [word.replace("sources.txt", str(far)) for word in READ]
    assert main(["decode", *words, "-o", "d.jsonl", "-u", "chrf"]) == 0
    assert main(["explain", "d.jsonl"]) == 2
    assert str(far) in capsys.readouterr().err
    assert main(["explain", "d.jsonl", "--sources", str(far), "--limit", "1"]) == 0
