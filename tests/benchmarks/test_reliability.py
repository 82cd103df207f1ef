"""The commands that try promises: every family in small, and the table in the page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.reliability import full_disk
from benchmarks.reliability.damage import Result, judged
from benchmarks.reliability.families import FAMILIES
from benchmarks.reliability.storms import BEGIN, END, Tried, write_table

SMALL = 5  # signals of a storm


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_promises_are_kept(family: str, tmp_path: Path) -> None:
    if family.startswith("ray") and find_spec("ray") is None:
        pytest.skip("needs the extra ray")
    if family == "full-disk" and not full_disk.is_possible():
        pytest.skip("no disk can be mounted here")
    rows = FAMILIES[family](SMALL, 1, tmp_path)
    assert rows
    for row in rows:
        assert row.tried > 0
        assert row.kept == row.tried, row.line()


def test_rows_of_other_families_stay_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\n{END}\n\nafter\n")
    families = ["a", "b"]
    write_table(page, [Tried("b", "rows stay", "decode", 3, 3)], families)
    write_table(page, [Tried("a", "bytes stay", "rerank", 5, 4, "1 lost")], families)
    write_table(page, [Tried("b", "rows stay", "decode", 6, 6)], families)
    text = page.read_text()
    assert text.startswith("before\n\n")
    assert text.endswith("\n\nafter\n")
    rows = [line for line in text.splitlines() if line.startswith(("| a", "| b"))]
    assert rows == [
        "| a | bytes stay | `rerank` | 5 | **4** | 1 lost |",
        "| b | rows stay | `decode` | 6 | 6 |  |",
    ]
    page.write_text("a page without markers\n")
    with pytest.raises(ValueError, match="found no lines"):
        write_table(page, [], families)


@pytest.mark.parametrize(
    ("code", "said", "rows", "outcome"),
    [
        (0, "", b"1", "harmless"),
        (0, "", b"2", "silent"),
        (0, "damaged", b"1", "told and mended"),
        (0, "damaged", b"2", "told"),
        (4, "damaged", b"", "refused"),
        (1, "internal error", b"", "internal errors"),
    ],
)
def test_what_becomes_of_damage(code: int, said: str, rows: bytes, outcome: str) -> None:
    expected = Result(0, "", {"out.jsonl": b"1"})
    assert judged(expected, Result(code, said, {"out.jsonl": rows})) == outcome
