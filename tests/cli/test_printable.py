"""Text from files on a terminal, in tables and in spreadsheets: it is shown, and does nothing there."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from discorank.cli.main import main
from discorank.printable import printable, spreadsheet_cell
from discorank.tables import comma_separated, shown, text_table

from ..support.command_lines import COMMAND_LINES
from ..support.lists import made_lists, write_lists

Captured = pytest.CaptureFixture[str]
CLEAR = "\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        # joiners belong to the text
        (
            "plain é 你好 👩‍🚀 می\u200cروم",
            "plain é 你好 👩‍🚀 می\u200cروم",
        ),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\x9b2Jb\x7f", r"a\x9b2Jb\x7f"),
        ("a\rb\tc\nd", r"a\rb\tc\nd"),
        ("abc\u202edef\u2066", r"abc\u202edef\u2066"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_unsafe_characters_are_shown(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@pytest.mark.parametrize("cell", ["=1+1", "+A1", "-A1", "@SUM(1)", "\t=1", "-1+2", "\r=1"])
def test_formulas_are_text(cell: str) -> None:
    assert spreadsheet_cell(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-", "-0.5", "+1e-3", "-inf", "nan", "", "a=b", "1.5", -3, None])
def test_numbers_stay_numbers(cell: object) -> None:
    assert spreadsheet_cell(cell) == cell


def test_a_name_with_a_line_break_stays_in_its_row() -> None:
    table = text_table("t\x1b[2J", ["name", "score"], [["a\nb", "1"], ["c\x07", "2"]])
    formats: list[Literal["table", "markdown", "latex"]] = ["table", "markdown", "latex"]
    for format in formats:
        made = shown([table], format)
        assert not {"\x1b", "\x07"} & set(made)
        assert "a\nb" not in made
    assert len(shown([table], "table").splitlines()) == 4
    rows = list(csv.reader(io.StringIO(comma_separated(["name", "score"], [["=a", -1.5]]))))
    assert rows == [["name", "score"], ["'=a", "-1.5"]]


HOSTILE = f"a{CLEAR}\x9b2J\x7f\r\u202eb"
# IN is a file with hostile text in every place, OUT a path with a hostile name
COMMANDS: dict[str, Sequence[str]] = {
    **COMMAND_LINES,
    "an error": [*COMMAND_LINES["decode"], "--max-errors", "9"],
    "rows on stdout": ["decode", "IN", "-u", "chrf", "--max-errors", "9"],
    "score": ["score", "IN", "-m", "chrf"],
    "contrastive": ["accuracy", "IN", "-m", "chrf"],
    "latex": [*COMMAND_LINES["compare"], "--format", "latex"],
    "markdown": [*COMMAND_LINES["compare"], "--format", "markdown"],
    "a generator": [*COMMAND_LINES["generate"], "--generator", HOSTILE],
    "log-probabilities of one": [*COMMAND_LINES["logprobs"], "--generator", HOSTILE],
    "cite": ["cite", HOSTILE],
    "metrics": ["metrics", HOSTILE],
    "a subcommand": [HOSTILE],
    "a kind": ["train", HOSTILE],
    "an option": ["decode", "IN", f"--{HOSTILE}"],
    "a choice": ["decode", "IN", "-u", "chrf", "--format", HOSTILE],
    "a setting": ["decode", "IN", "-u", "chrf", "--set", f"{HOSTILE}=1"],
    "a number": ["decode", "IN", "-u", "chrf", "--max-errors", HOSTILE],
    "a preset": ["decode", "IN", "--config", HOSTILE],
    "a base": ["generate", "IN", "--backend", "server", "--base-url", f"http://{HOSTILE}"],
}
ROWS: list[object] = [
    {
        "id": HOSTILE,
        "document": HOSTILE,
        "source": HOSTILE,
        "candidates": [HOSTILE, "x", f"y{HOSTILE}"],
    },
    {"id": HOSTILE, HOSTILE: HOSTILE, "candidates": []},
    {"id": f"{HOSTILE}2", "hypothesis": HOSTILE, "references": [HOSTILE]},
    {
        "id": f"{HOSTILE}3",
        "systems": {HOSTILE: [HOSTILE], "B": ["x"]},
        "references": {HOSTILE: ["y"]},
    },
    HOSTILE,
]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_moves_the_cursor(name: str, tmp_path: Path, capsys: Captured) -> None:
    """Each row on its own and all together, in a file with a hostile name."""
    for number in range(len(ROWS) + 1):
        folder = tmp_path / f"{number}{HOSTILE}"
        folder.mkdir()
        source = folder / HOSTILE
        rows = ROWS[number : number + 1] or ROWS
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        places = {"IN": str(source), "OUT": str(folder / f"{HOSTILE}.out")}
        main([places.get(word, word) for word in COMMANDS[name]])
        shown = capsys.readouterr()
        # rows and their error records are JSON, in which what is above the ASCII controls stands as it is
        unsafe = "\x1b\x07\r" if name == "rows on stdout" else "\x1b\x07\x9b\x7f\r\u202e"
        assert not set(shown.out + shown.err) & set(unsafe), ascii(shown)


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_rows_on_a_terminal_move_no_cursor(form: str, tmp_path: Path) -> None:
    lists = write_lists(
        tmp_path / "e.jsonl", [{"id": "a", "candidates": ["a \x1b[31mred\x9b31m é", "a red"]}]
    )
    command = [sys.executable, "-m", "discorank", "decode", str(lists), "-u", "chrf"]
    ours, theirs = pty.openpty()
    ended = subprocess.run([*command, "--format", form, "--quiet"], stdout=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert ended.returncode == 0
    assert "red\\x9b31m é" in shown.decode()
    assert b"\x1b" not in shown


@pytest.mark.parametrize("name", ["run.json", "lock"])
def test_utilities_are_not_saved_into_the_files_of_the_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = write_lists(tmp_path / "e.jsonl", made_lists(1))
    out = str(tmp_path / "out")
    command = ["decode", str(lists), "-u", "chrf", "-o", out, "--save-utilities", f"{out}.{name}"]
    assert main(command) == 2
    assert "Name two files" in capsys.readouterr().err
