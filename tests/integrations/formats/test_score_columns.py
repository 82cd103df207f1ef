"""People's scores in files beside texts by line: a column per system, or a row per score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discorank import InputError
from discorank.cli.main import main
from discorank.integrations.formats.readers.nbest_lines import finite_number
from discorank.integrations.formats.score_columns import read_score_columns
from discorank.integrations.formats.wmt.rating_table import read_mqm_weights
from discorank.rerank.lists import finite_of

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


HUGE = "1" + "0" * 308 + "0" * 5


@pytest.mark.parametrize("text", [HUGE, "1" + "0" * 5000, "1e999", "NaN", "Infinity"])
def test_numbers_that_no_float_holds_are_refused_where_they_stand(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every file of scores; an integer of 309 digits was an internal error."""
    row = (
        '{"id": "a", "systems": {"x": ["u"], "y": ["v"]}, "references": {"r": ["w"]}, '
        f'"human": {{"mqm": {{"x": [{text}], "y": [1]}}}}}}\n'
    )
    systems = tmp_path / "systems.jsonl"
    systems.write_text(row, encoding="utf-8")
    assert main(["compare", str(systems), "-m", "chrf", "--human", "mqm:lower"]) == 2
    assert "systems.jsonl:1" in capsys.readouterr().err
    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        f'{{"id": "a", "candidates": [{{"text": "x", "p": {text}}}, {{"text": "y", "p": 1}}]}}\n',
        encoding="utf-8",
    )
    assert main(["rerank", str(lists), "-m", "field:p"]) in (2, 3)
    assert "lists.jsonl:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3.0),
        ("+3", 3.0),
        (" -.5e1 ", -5.0),
        ("7.", 7.0),
        ("\uff13", None),
        ("1_000", None),
        ("0x10", None),
        ("inf", None),
        ("1e400", None),
        ("", None),
        ("3 4", None),
    ],
)
def test_one_reader_of_numbers_for_all_scores(text: str, number: float | None) -> None:
    """Signs are read, digits of other scripts are not, in tables as in n-best lists."""
    assert finite_of(text) == number
    readers: list[Callable[[], float | None]] = [
        lambda: finite_number(text.strip(), "score"),
        lambda: read_mqm_weights([f"odd={text}"])["odd"],
    ]
    for read_number in readers:
        if number is None:
            with pytest.raises(InputError, match="found"):
                read_number()
        else:
            assert read_number() == number
