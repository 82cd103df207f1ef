"""CSV, TSV and JSON lines under other keys are read as if their rows were lines of JSON."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError
from discorank.integrations.arrow.open_rows import TextTable
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.storage.json_and_yaml import parse_json
from discorank.rerank.lists import write_list

CELLS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc")) | st.sampled_from('",;\n'), max_size=12
)


def read(path: Path, *columns: str, **options: Any) -> list[Any]:
    """The lists of a file in their JSON form, and errors as texts."""
    with open_lists(path, columns=columns, **options) as lists:
        return [
            str(entry.error) if entry.record is None else write_list(entry.record)
            for entry in lists
        ]


def test_rows_of_one_source_are_a_list_named_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text(
        'source,output,score,note\n"Ja, gut","Yes, ""good""",0.5,\n"Ja, gut","Two\nlines",7,x\nNein,No,1,y\n'
    )
    assert read(path, "text=output") == [
        {
            "id": "2",
            "source": "Ja, gut",
            "candidates": [
                {"text": 'Yes, "good"', "score": 0.5},
                {"text": "Two\nlines", "score": 7, "note": "x"},
            ],
        },
        {"id": "5", "source": "Nein", "candidates": [{"text": "No", "score": 1, "note": "y"}]},
    ]


def test_tsv_has_no_quotes_and_an_empty_text_is_a_candidate(tmp_path: Path) -> None:
    path = tmp_path / "flat.tsv"
    path.write_text('id\ttext\tlogprob\n7\t"Hi" she said\t-1.5\n7\t\t-2\n8\t42\t-1\n')
    first, second = read(path)
    assert first["candidates"] == [
        {"text": '"Hi" she said', "logprob": -1.5},
        {"text": "", "logprob": -2.0},
    ]
    assert second == {"id": "8", "candidates": [{"text": "42", "logprob": -1.0}]}


def test_an_array_of_json_is_several_texts(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text('src,candidates\nA,"[""a cat"", ""the cat""]"\n')
    assert read(path, "source=src") == [
        {"id": "2", "source": "A", "candidates": ["a cat", "the cat"]}
    ]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("a.csv", "a,b\n1,2\n", (), "no column candidates or text; there are: a, b"),
        ("a.csv", "text\n1\n", (), "which rows are one list is not known"),
        ("a.csv", "id,text\n1\n", (), "a.csv:2: 1 cells, the first line names 2 columns"),
        ("a.csv", 'id,text\n1,"a" b\n', (), "a.csv:2: no CSV: ',' expected after '\"'"),
        ("a.csv", "id,id\n1,2\n", (), "two columns are called 'id'"),
        ("a.csv", "", (), "no line with the names of columns"),
        ("a.csv", "id,candidates\n1,['a']\n", (), "expected an array of JSON"),
        ("a.tsv", "id\ttext\n1\ta\tb\n", (), "3 cells, the first line names 2 columns"),
        ("a.jsonl", "[1]\n", ("id=x",), "a.jsonl:1: found '.1.', expected an object"),
        ("a.tsv", "0 ||| a text ||| LM0= -1 ||| -1\n", (), "Use --from moses"),
    ],
)
def test_refusals(
    tmp_path: Path, name: str, text: str, columns: tuple[str, ...], message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path, *columns)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=5))
def test_what_csv_writes_is_read_back(tmp_path_factory: Any, rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([["document", "text"], *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(out.getvalue().encode())
    back = [parse_json(line) for _, line in TextTable(path)]
    assert [[row.get("document", ""), row["text"]] for row in back] == rows
