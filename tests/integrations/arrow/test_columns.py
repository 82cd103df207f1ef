"""Which column is which key: forms, faults and their messages, read from small Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discorank.integrations.arrow.columns import ColumnNames
from discorank.integrations.arrow.open_rows import open_rows
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.lists import write_list

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("tables_here")


def written(path: Path, columns: dict[str, Any], group_rows: int = 2) -> Path:
    parquet.write_table(pa.table(columns), path, row_group_size=group_rows)
    return path


def read(path: Path, *columns: str) -> list[Any]:
    """The lists of a file in their JSON form, and errors as texts."""
    with open_lists(path, columns=columns) as lists:
        return [
            str(entry.error) if entry.record is None else write_list(entry.record)
            for entry in lists
        ]


def test_columns_are_keys_by_their_names(tmp_path: Path) -> None:
    path = written(tmp_path / "l.parquet", {"pid": ["a"], "out": [["x", "y"]], "topic": ["t"]})
    assert read(path, "id=pid", "candidates=out") == [
        {"id": "a", "candidates": ["x", "y"], "topic": "t"}
    ]


def test_a_column_that_is_needed_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "l.parquet", {"pid": ["a"], "out": [["x", "y"]]})
    message = (
        r"l.parquet: no column candidates or text; there are: pid, out. "
        r"Say which it is: --columns candidates=COLUMN, or text=COLUMN where a row is a candidate"
    )
    with pytest.raises(InputError, match=message):
        read(path)
    with pytest.raises(InputError, match=r"no column candidates or text.*--columns candidates=COL"):
        read(path, "id=pid")
    with pytest.raises(InputError, match=r"no column hypothesis; there are: pid, out"):
        open_rows(path, (), "segment")
    assert [row["id"] for row in read(path, "id=#", "candidates=out")] == ["0"]
    flat = written(tmp_path / "flat.parquet", {"id": ["a", "a"], "text": ["x", "y"]})
    assert len(read(flat)) == 1


def test_columns_are_left_out(tmp_path: Path) -> None:
    image = pa.array([b"\x00"], pa.binary())
    columns = {"id": ["a"], "candidates": [["x"]], "image": image, "topic": ["t"]}
    path = written(tmp_path / "l.parquet", columns)
    plain = {"id": "a", "candidates": ["x"]}
    assert read(path, "=image") == [{**plain, "topic": "t"}]
    assert read(path, "id=id", "candidates=candidates", "=*") == [plain]
    with pytest.raises(
        InputError, match=r"column 'image': found the type binary.*--columns =image"
    ):
        read(path)


def test_rows_are_numbered(tmp_path: Path) -> None:
    path = written(tmp_path / "l.parquet", {"candidates": [["x"], ["y"], ["z"]]})
    assert [row["id"] for row in read(path, "id=#")] == ["0", "1", "2"]


def test_ids_that_are_numbers_become_their_digits(tmp_path: Path) -> None:
    flat = {"id": [12, 12, 7], "text": ["x", "y", "z"], "document": [3, 3, 3], "n": [1, 2, 3]}
    assert read(written(tmp_path / "flat.parquet", flat)) == [
        {"id": "12", "document": "3", "candidates": [{"text": "x", "n": 1}, {"text": "y", "n": 2}]},
        {"id": "7", "document": "3", "candidates": [{"text": "z", "n": 3}]},
    ]
    fractions = written(tmp_path / "l.parquet", {"id": [1.5], "candidates": [["x"]]})
    assert "id: found a number (1.5), expected a text or a whole number" in read(fractions)[0]
    truths = written(tmp_path / "l.parquet", {"id": [True], "candidates": [["x"]]})
    assert "expected a text or a whole number" in read(truths)[0]


def test_fields_of_candidates_have_names(tmp_path: Path) -> None:
    candidates = [[{"answer": "x", "lp": -1.0}, {"answer": "y", "lp": None}]]
    path = written(tmp_path / "l.parquet", {"id": ["a"], "candidates": candidates})
    [row] = read(path, "candidates.text=answer", "candidates.logprob=lp")
    assert row["candidates"] == [{"text": "x", "logprob": -1.0}, "y"]


def test_lists_stand_side_by_side(tmp_path: Path) -> None:
    columns = {
        "id": ["a", "b"],
        "candidates": [["x", "y"], ["z", "w"]],
        "scores": [[-1.0, -2.0], [-3.0]],
    }
    path = written(tmp_path / "l.parquet", columns)
    good, bad = read(path, "candidates.logprob=scores")
    assert good["candidates"] == [{"text": "x", "logprob": -1.0}, {"text": "y", "logprob": -2.0}]
    assert "l.parquet:2: candidates: found an object" in bad


def test_a_struct_of_lists_is_a_list_of_candidates(tmp_path: Path) -> None:
    columns = {"id": ["a"], "candidates": [{"text": ["x", "y"], "logprob": [-1.0, None]}]}
    [row] = read(written(tmp_path / "l.parquet", columns))
    assert row["candidates"] == [{"text": "x", "logprob": -1.0}, "y"]


def test_rows_of_one_id_are_a_list(tmp_path: Path) -> None:
    columns = {
        "id": ["a", "a", "a", "b", "c", "a"],
        "text": ["x", "y", "z", "q", "r", "s"],
        "source": ["s", "s", "s", "t", "u", "s"],
        "system": ["A", "B", None, "A", "A", "A"],
    }
    lists = read(written(tmp_path / "l.parquet", columns))
    assert lists[0] == {
        "id": "a",
        "source": "s",
        "candidates": [{"text": "x", "system": "A"}, {"text": "y", "system": "B"}, "z"],
    }
    assert [row["id"] for row in lists[1:3]] == ["b", "c"]
    assert "l.parquet:6: id: 'a' was there before" in lists[3]


def test_rows_of_one_id_agree_on_the_list(tmp_path: Path) -> None:
    columns = {"id": ["a", "a"], "text": ["x", "y"], "source": ["s", "t"]}
    [error] = read(written(tmp_path / "l.parquet", columns))
    assert "source: found an object ({'row 1': 's', 'row 2': 't'})" in error


def test_rows_of_one_id_are_bounded(tmp_path: Path) -> None:
    path = written(tmp_path / "l.parquet", {"id": ["a"] * 9, "text": ["x"] * 9})
    with use_limits(candidates=8), pytest.raises(InputError, match="more than 8 candidates"):
        read(path)


def test_dictionaries_and_large_lists_are_read(tmp_path: Path) -> None:
    texts = pa.array(["x", "y", "x"]).dictionary_encode()
    offsets = pa.array([0, 2, 3], pa.int64())
    columns = {
        "id": pa.array(["a", "b"]).dictionary_encode(),
        "candidates": pa.LargeListArray.from_arrays(offsets, texts),
        "human": pa.array([{"A": [1.5], "B": None}, None]),
    }
    for name in ("l.parquet", "l.arrow"):
        path = tmp_path / name
        table = pa.table(columns)
        if name == "l.parquet":
            parquet.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        assert read(path) == [
            {"id": "a", "candidates": ["x", "y"], "human": {"A": [1.5]}},
            {"id": "b", "candidates": ["x"]},
        ]


def test_extension_types_are_what_they_are_stored_as(tmp_path: Path) -> None:
    class Named(pa.ExtensionType):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(pa.string(), "discorank.test")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, data: bytes) -> Named:
            raise AssertionError("a type that a file names was asked for")

    kind = Named()
    array = pa.ExtensionArray.from_storage(kind, pa.array(["a"]))
    path = tmp_path / "l.arrow"
    table = pa.table({"id": array, "candidates": [["x"]]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    assert read(path) == [{"id": "a", "candidates": ["x"]}]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (("id",), "found 'id', expected KEY=COLUMN"),
        (("id=",), "found 'id=', expected KEY=COLUMN"),
        (("id=a", "id=b"), "the key 'id=b' is named twice"),
        (("id=a", "source=a"), "the column 'a' is named twice"),
        (("source.text=a",), "stands in no list of candidates"),
    ],
)
def test_names_that_are_none(assignments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ColumnNames.read(assignments)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path / "l.parquet", {"id": ["a"], "pid": ["b"], "candidates": [["x"]]})
    with pytest.raises(InputError, match=r"unknown column 'pids'. Did you mean 'pid'"):
        read(path, "id=pids")
    with pytest.raises(InputError, match="'id' stands beside the one named for this key"):
        read(path, "id=pid")
    assert read(path, "id=pid", "=id") == [{"id": "b", "candidates": ["x"]}]


def test_columns_of_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"pid": 7, "outs": ["x"], "k": 1}\n{"pid": "b", "outs": ["y"]}\n')
    assert read(path, "id=pid", "candidates=outs", "=k") == [
        {"id": "7", "candidates": ["x"]},
        {"id": "b", "candidates": ["y"]},
    ]
    with pytest.raises(InputError, match=r"l.jsonl:2: unknown column 'k'"):
        read(path, "id=pid", "candidates=outs", "score=k")
