"""References for tables of ratings, which have none, from files of lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discorank.cli.main import main

HEAD = "system\tdoc\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"


def table(path: Path, segments: dict[str, list[int]]) -> str:
    """A table of two systems that rates some segments of documents."""
    lines = [HEAD]
    for document, numbers in segments.items():
        for number in numbers:
            for system in "AB":
                severity = "Major" if system == "B" else "no-error"
                cells = (
                    system,
                    document,
                    str(number),
                    "r1",
                    "s",
                    f"{document} {number} {system}",
                    "x",
                    severity,
                )
                lines.append("\t".join(cells) + "\n")
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.parametrize(
    ("segments", "num_lines", "expected"),
    [
        # numbers of segments in the whole test set: its lines
        ({"d1": [1, 2], "d3": [5, 7]}, 9, [["line 1", "line 2"], ["line 5", "line 7"]]),
        # numbers within documents: lines in order
        ({"d1": [1, 2], "d3": [1, 2]}, 4, [["line 1", "line 2"], ["line 3", "line 4"]]),
    ],
)
def test_lines_are_those_of_the_segments(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    segments: dict[str, list[int]],
    num_lines: int,
    expected: list[list[str]],
) -> None:
    ratings = table(tmp_path / "mqm.tsv", segments)
    references = tmp_path / "ref.txt"
    references.write_text("".join(f"line {number}\n" for number in range(1, num_lines + 1)))
    assert main(["convert", ratings, "--references", str(references), "--to", "systems"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["references"]["ref"] for row in rows] == expected
    words = [
        ratings,
        "--references",
        str(references),
        "-m",
        "chrf",
        "--human",
        "mqm",
        "--format",
        "json",
    ]
    assert main(["compare", *words, "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["score"] for row in found["human"]] == [0, -5]
    assert len(found["systems"]) == 2


@pytest.mark.parametrize(
    ("text", "fact"),
    [("a\nb\n", "2 lines"), ('{"text": "a"}\n', "JSON"), ("", "0 lines")],
)
def test_files_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, fact: str
) -> None:
    ratings = table(tmp_path / "mqm.tsv", {"d1": [1, 2], "d3": [5]})
    references = tmp_path / "ref.txt"
    references.write_text(text)
    assert main(["compare", ratings, "--references", str(references), "-m", "chrf"]) == 2
    error = capsys.readouterr().err
    assert "ref.txt" in error
    assert fact in error
