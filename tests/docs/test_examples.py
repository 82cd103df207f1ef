"""The examples: made as they say, named in their README, large enough that a test finds something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from discorank.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
MADE = 12


def test_the_files_are_what_the_program_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "make_examples.py"), str(tmp_path)], check=True)
    made = sorted(tmp_path.iterdir())
    assert len(made) == MADE
    for path in made:
        assert path.read_bytes() == (EXAMPLES / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nbest.moses", "moses"),
        ("nbest.marian", "marian"),
        ("generate.out", "fairseq"),
        ("samples.txt", "flat"),
        ("batch_output.jsonl", "batch"),
    ],
)
def test_every_form_holds_the_same_lists(
    name: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--num-candidates", "6"] if form == "flat" else []
    assert main(["convert", str(EXAMPLES / name), "--from", form, *more, "--quiet"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    texts = [[c if isinstance(c, str) else c["text"] for c in row["candidates"]] for row in rows]
    flat = (EXAMPLES / "samples.txt").read_text(encoding="utf-8").splitlines()
    assert texts == [flat[n : n + 6] for n in range(0, 72, 6)]
