"""Candidate lists through Parquet and Arrow files and back: what is written is read as what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discorank.cli.main import main
from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.lists import CandidateList, read_list, write_list
from discorank.rerank.runs.resumable import as_line
from discorank.rerank.runs.table_files import table_of, write_rows, write_table

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("tables_here")
ENDINGS = (".parquet", ".arrow", ".arrows", ".feather")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.one_of(st.integers(-(2**63), 2**64), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
LOGPROBS = st.one_of(st.floats(max_value=0, allow_nan=False), st.just(float("-inf")))
CANDIDATES = st.one_of(
    TEXTS,
    st.lists(TEXTS, max_size=3),
    st.fixed_dictionaries({"text": TEXTS}, optional={"logprob": LOGPROBS, "k": VALUES}),
)
LISTS = st.fixed_dictionaries(
    {"candidates": st.lists(CANDIDATES, min_size=1, max_size=4)},
    optional={
        "source": TEXTS,
        "document": TEXTS,
        "references": st.lists(TEXTS, min_size=1, max_size=2),
        "pseudo_references": st.lists(CANDIDATES, min_size=1, max_size=2),
        "context_only": st.just(True),
        "k": VALUES,
        "other": VALUES,
    },
)


def entries_of(path: Path, columns: tuple[str, ...] = ()) -> list[CandidateList]:
    with open_lists(path, columns=columns) as lists:
        found = list(lists)
    assert [entry.error for entry in found] == [None] * len(found)
    return [entry.record for entry in found if entry.record is not None]


def same(value: Any) -> Any:
    """The value without nulls in objects, numbers by their value."""
    return json.loads(json.dumps(value), parse_int=float)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LISTS, max_size=5))
def test_lists_come_back_as_they_were(
    tmp_path: Path, ending: str, data: list[dict[str, Any]]
) -> None:
    data.sort(key=lambda row: str(row.get("document")))  # the lists of a document stand together
    records = [read_list({"id": f"l{i}", **row}) for i, row in enumerate(data)]
    lines = tmp_path / "lists.jsonl"
    lines.write_bytes(b"".join(as_line(write_list(record)) for record in records))
    table = tmp_path / f"lists{ending}"
    with open(lines, "rb") as rows, open(table, "wb") as file:
        write_rows(rows, file, ending)
    if not records:
        return
    back = entries_of(table)
    assert [same(write_list(b)) for b in back] == [same(write_list(r)) for r in records]


@pytest.mark.parametrize("ending", ENDINGS)
def test_convert_writes_what_it_reads_back(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "document": "d", "position": 0, "source": "s", "candidates": ["x", "y"]},
        {"id": "b", "document": "d", "position": 1, "candidates": ["x"], "references": ["r"]},
        {"id": "c", "candidates": [{"text": "é🚀\u2028", "logprob": -1.5, "system": "S"}, "z"]},
        {"id": "e", "candidates": [["A.", "B."]], "human": {"x": [1, None]}, "k": "text"},
        {"id": "f", "candidates": [{"text": "q", "logprob": float("-inf")}], "k": 7},
    ]
    first, table, second = tmp_path / "a.jsonl", tmp_path / f"a{ending}", tmp_path / "b.jsonl"
    first.write_bytes(b"".join(map(as_line, rows)))
    assert main(["convert", str(first), "-o", str(table), "--quiet"]) == 0
    assert main(["convert", str(table), "-o", str(second), "--quiet"]) == 0
    assert second.read_bytes() == first.read_bytes()


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_bytes(b"".join(as_line({"id": str(i), "x": i / 3}) for i in range(100)))
    for name in ("a.parquet", "b.parquet"):
        write_table(lines, tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_half_a_character_is_written_as_its_escape() -> None:
    assert table_of([{"text": "a\ud800b"}]).to_pylist() == [{"text": "a\\ud800b"}]
