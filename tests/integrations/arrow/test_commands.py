"""Commands that read and write Parquet files give what they give of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.integrations.arrow.open_rows import open_rows
from discorank.integrations.generation.prompts import read_prompts

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("tables_here")
SEGMENTS: list[dict[str, Any]] = [
    {"hypothesis": {"A": f"the cat {i}", "B": f"a cat {i}"}, "references": [f"the cat {i}"]}
    for i in range(6)
]
DOCUMENTS: list[dict[str, Any]] = [
    {
        "id": f"d{i}",
        "source": ["s", "t"],
        "references": {"r": [f"the cat {i}", "it sat"]},
        "systems": {"A": [f"the cat {i}", "it"], "B": [f"a dog {i}", "it sat down"]},
        "human": {"mqm": {"A": [1.0, 2.0], "B": [0.0, 1.5]}},
    }
    for i in range(5)
]


def both(folder: Path, rows: list[dict[str, Any]]) -> tuple[Path, Path]:
    """The rows as JSON lines and as a Parquet file of two row groups."""
    lines, table = folder / "in.jsonl", folder / "in.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pa.Table.from_pylist(rows), table, row_group_size=3)
    return lines, table


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*words, "--quiet"]) == 0
    return capsys.readouterr().out


def rows_of(path: Path) -> list[dict[str, Any]]:
    return list(parquet.read_table(path).to_pylist())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, path.read_text().splitlines()))


def test_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, table = both(tmp_path, SEGMENTS)
    out, out_table = tmp_path / "out.jsonl", tmp_path / "out.parquet"
    expected = shown(["score", str(lines), "-m", "chrf", "-o", str(out)], capsys)
    assert shown(["score", str(table), "-m", "chrf", "-o", str(out_table)], capsys) == expected
    read = [{"document": None, **row} for row in rows_of(out_table)]
    assert [dict(sorted(row.items())) for row in read] == [
        dict(sorted(row.items())) for row in lines_of(out)
    ]


def test_score_says_where_a_row_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*SEGMENTS[:4], {"references": ["r"]}]
    _, table = both(tmp_path, rows)
    assert main(["score", str(table), "-m", "chrf"]) == 2
    assert "in.parquet:5: " in capsys.readouterr().err


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, table = both(tmp_path, DOCUMENTS)
    words = ["-m", "chrf", "--human", "mqm", "--draws", "50", "--format", "json"]
    scores = tmp_path / "scores"
    expected = shown(["compare", str(lines), *words, "--segment-scores", f"{scores}.jsonl"], capsys)
    found = shown(["compare", str(table), *words, "--segment-scores", f"{scores}.parquet"], capsys)
    assert found.replace(table.name, lines.name) == expected
    assert rows_of(Path(f"{scores}.parquet")) == lines_of(Path(f"{scores}.jsonl"))


def test_compare_names_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    renamed = [{"name": row.pop("id"), **row} for row in map(dict, DOCUMENTS)]
    lines, _ = both(tmp_path, DOCUMENTS)
    expected = shown(["compare", str(lines), "-m", "chrf", "--draws", "50"], capsys)
    _, table = both(tmp_path, renamed)
    words = ["compare", str(table), "-m", "chrf", "--draws", "50", "--columns", "id=name"]
    assert shown(words, capsys) == expected


def test_convert_systems(tmp_path: Path) -> None:
    lines, table = both(tmp_path, DOCUMENTS)
    for source, out in ((lines, "a.jsonl"), (table, "b.jsonl")):
        words = ["convert", str(source), "--from", "systems", "--human", "mqm"]
        assert main([*words, "-o", str(tmp_path / out), "--quiet"]) == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_rerank_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": f"l{i}",
            "candidates": [{"text": "a b", "logprob": -2.0}, {"text": "c", "logprob": -1.0}],
        }
        for i in range(5)
    ]
    lines, table = both(tmp_path, rows)
    expected = shown(["rerank", str(lines), "-m", "logprob"], capsys)
    assert shown(["rerank", str(table), "-m", "logprob"], capsys) == expected
    out = tmp_path / "out.parquet"
    assert main(["rerank", str(table), "-m", "logprob", "-o", str(out), "--quiet"]) == 0
    assert [row["index"] for row in rows_of(out)] == [1] * 5


def test_other_columns_are_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "x": ["a b", "a"], "y": ["c", "d e"]}]
    _, table = both(tmp_path, rows)
    words = ["decode", str(table), "-u", "chrf", "-o", str(tmp_path / "o.parquet"), "--quiet"]
    assert main([*words, "--columns", "candidates=x", "=y"]) == 0
    assert main([*words, "--columns", "candidates=y", "=x"]) == 4
    assert "columns was ['candidates=x', '=y'], now" in capsys.readouterr().err


def test_prompts(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"question": "q", "topic": "t"}, {"question": None, "topic": "u"}]
    _, table = both(tmp_path, rows)
    first, second = read_prompts(open_rows(table, ["id=#", "source=question"]))
    assert first.record is not None
    assert (first.record.id, first.record.source) == ("0", "q")
    assert first.record.extra == {"topic": "t"}
    assert "in.parquet:2: source: found nothing" in str(second.error)


def test_a_table_that_is_not_there_is_not_called_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", str(tmp_path / "none.parquet"), "-u", "chrf"]) == 2
    assert "No such file or directory. Give a file that is there" in capsys.readouterr().err
