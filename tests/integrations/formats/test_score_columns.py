"""People's scores in files beside texts by line: a column per system, or a row per score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discorank import InputError
from discorank.integrations.formats.score_columns import read_score_columns

NAMES = {"out/beam.txt": "beam", "mbr.txt": "mbr"}


def read(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    return read_score_columns([f"{path}:lower"], NAMES, ["beam", "mbr"], 2)


def test_a_column_per_system(tmp_path: Path) -> None:
    expected = {"mqm": {"beam": [0.0, 5.0], "mbr": [None, 1.5]}}
    assert read(tmp_path / "mqm.csv", "beam,mbr,who\n0,,x\n5,1.5,y\n") == expected
    assert read(tmp_path / "mqm.tsv", "beam.txt\tmbr.txt\n0\t\n5\t1.5\n") == expected
    lines = '{"beam": 0, "mbr": null}\n{"beam": 5, "mbr": 1.5}\n'
    assert read(tmp_path / "mqm.jsonl", lines) == expected


def test_a_row_per_score(tmp_path: Path) -> None:
    text = "system,segment,score\nmbr,2,1.5\nbeam,1,0\n"
    scores = read(tmp_path / "mqm.csv", text)
    assert scores == {"mqm": {"mbr": [None, 1.5], "beam": [0.0, None]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam,mbr\n1,2\n", "1 rows of scores, the texts have 2 segments"),
        ("beam,mbr\n1,2\n1,2\n1,2\n", "mqm.csv:4: segment 3, but there are 2"),
        ("a,b\n1,2\n1,2\n", "no column of a system; there are: a, b. Name columns beam, mbr"),
        ("beam,mbr\n1,x\n1,2\n", "mqm.csv:2: mbr: found 'x', expected a number"),
        ("system,segment,score\nbaem,1,1\n", "unknown system 'baem'. Did you mean 'beam'"),
        ("system,segment,score\nbeam,1,1\nbeam,1,2\n", "two scores of segment 1 of 'beam'"),
        ("system,segment,score\nbeam,one,1\n", "found 'one', expected the number of a segment"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path / "mqm.csv", text)
