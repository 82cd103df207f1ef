"""What README and docs/comparing-systems.md show of text files is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from discorank.cli.main import main

from .test_docs import ROOT, blocks, commands


def test_the_section_on_text_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *shell = blocks("docs/comparing-systems.md", "sh")
    compare, convert = commands("".join(shell).replace("\\\n", " "))
    (shown,) = blocks("docs/comparing-systems.md", "text")
    monkeypatch.chdir(tmp_path)
    assert main([*compare, "--quiet"]) == 0
    assert capsys.readouterr().out == shown
    assert main([*convert, "--quiet"]) == 0
    same = ["compare", "texts.jsonl", "-m", "chrf", "bleu", "--baseline", "beam", "--quiet"]
    assert main(same) == 0
    assert capsys.readouterr().out == shown


def test_the_line_in_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"`(discorank compare --hypotheses[^`]+)`", text)
    assert found
    words = shlex.split(found[1].replace("examples/", f"{ROOT}/examples/"))[1:]
    assert main([*words, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Ship mbr: by chrf it is better than every other system.")
    assert "10000 draws of 40 segments" in printed
