"""Runs whose output is a Parquet or Arrow file: lines beside it while they run, the file when they are complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.rerank.runs import resumable, table_files
from tests.support.lists import made_lists, write_lists

pytest.importorskip("pyarrow")


def decode(source: Path, out: Path, *more: str) -> int:
    return main(["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet", *more])


def rows_of(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as parquet

    return list(parquet.read_table(path).to_pylist())


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_lists(tmp_path / "lists.jsonl", made_lists(12, 4, seed=1))


def test_a_table_has_the_rows_of_lines(tmp_path: Path, lists: Path) -> None:
    assert decode(lists, tmp_path / "out.jsonl") == 0
    assert decode(lists, tmp_path / "out.parquet") == 0
    as_lines = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert rows_of(tmp_path / "out.parquet") == as_lines
    lines = (tmp_path / "out.parquet.rows.jsonl").read_bytes()
    assert lines == (tmp_path / "out.jsonl").read_bytes()


def test_a_run_goes_on_and_makes_the_same_table(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode(lists, tmp_path / "whole.parquet") == 0
    out = tmp_path / "out.parquet"
    monkeypatch.setattr(resumable, "EVERY_SECONDS", -1)
    broken = lists.read_text().splitlines()
    mended = broken[7]
    broken[7] = "{}"
    lists.write_text("\n".join(broken) + "\n")
    assert decode(lists, out) == 3
    assert not out.exists()
    assert json.loads(Path(f"{out}.run.json").read_text())["input"]["entries"] == 7
    broken[7] = mended
    lists.write_text("\n".join(broken) + "\n")
    assert decode(lists, out) == 0
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    before = out.read_bytes()
    assert decode(lists, out) == 0  # a complete run stays as it is
    assert out.read_bytes() == before


def test_row_groups_are_the_same_however_many_rows_are_values_at_a_time(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as parquet

    monkeypatch.setattr(table_files, "GROUP_BYTES", 1000)
    for name, num_bytes in {"whole": 1000, "pieces": 1}.items():
        monkeypatch.setattr(table_files, "PIECE_BYTES", num_bytes)
        for ending in (".parquet", ".arrow", ".arrows"):
            table_files.write_table(lists, tmp_path / f"{name}{ending}")
    for ending in (".parquet", ".arrow", ".arrows"):
        whole, in_pieces = (tmp_path / f"{name}{ending}" for name in ("whole", "pieces"))
        assert whole.read_bytes() == in_pieces.read_bytes()
    assert parquet.ParquetFile(tmp_path / "pieces.parquet").num_row_groups > 2
    assert rows_of(tmp_path / "pieces.parquet") == list(
        map(json.loads, lists.read_text().splitlines())
    )


def test_what_stops_while_the_table_is_made_leaves_none(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"

    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(table_files, "batch_of", stopped)
        assert decode(lists, out) == 130
    saved = json.loads(Path(f"{out}.run.json").read_text())
    assert (saved["complete"], saved["input"]["entries"]) == (False, 12)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert "out.parquet" not in names
    assert not [name for name in names if name.endswith(".draft")]
    assert decode(lists, out) == 0
    assert len(rows_of(out)) == 12


def test_more_input_makes_a_longer_table(tmp_path: Path, lists: Path) -> None:
    out = tmp_path / "out.parquet"
    assert decode(lists, out) == 0
    more = {"id": "more", "candidates": ["a b", "a c"]}
    lists.write_text(lists.read_text() + json.dumps(more) + "\n")
    assert decode(lists, out) == 0
    assert [row["id"] for row in rows_of(out)][-1] == "more"


@pytest.mark.parametrize("name", ["out.parquet", "out.parquet.rows.jsonl"])
def test_damage_is_refused(
    tmp_path: Path, lists: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert decode(lists, tmp_path / "out.parquet") == 0
    data = bytearray((tmp_path / name).read_bytes())
    data[100] ^= 1
    (tmp_path / name).write_bytes(data)
    capsys.readouterr()
    assert decode(lists, tmp_path / "out.parquet") == 4
    said = capsys.readouterr().err
    assert f"{name}: damaged or edited: its first" in said
    if name == "out.parquet":
        assert main(["convert", str(tmp_path / name)]) == 2
        assert "are not what the run wrote" in capsys.readouterr().err


def test_a_table_of_another_is_left_alone(
    tmp_path: Path, lists: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.parquet").write_bytes(b"precious")
    assert decode(lists, tmp_path / "out.parquet") == 4
    assert "out.parquet: it exists, but out.parquet.run.json does not" in capsys.readouterr().err
    assert (tmp_path / "out.parquet").read_bytes() == b"precious"
