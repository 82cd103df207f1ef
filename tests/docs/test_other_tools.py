"""The page for people who come from other tools: what its tables name is there."""

from __future__ import annotations

import re

import pytest

from discorank.cli.main import SUBCOMMANDS, main

from .test_docs import ROOT


def test_options_on_our_side_of_the_tables_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SUBCOMMANDS:
        main([name, "--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    text = (ROOT / "docs" / "coming-from-other-tools.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    ours = {option for row in rows for option in re.findall(r"--[a-z][a-z-]+", row[2])}
    assert len(rows) > 40
    assert len(ours) > 15
    assert ours - known == set()
