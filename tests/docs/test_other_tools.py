"""The page for people who come from other tools, and commands within lines of all pages: what they name is there."""

from __future__ import annotations

import re

import pytest

from discorank.cli.main import SUBCOMMANDS, main

from .command_lines import PAGES
from .test_docs import ROOT

IN_A_LINE = re.compile(r"`discorank ([a-z]+) ([^`]*)`")
OPTION = re.compile(r"(?<!\S)(--?[a-z][a-z-]*)")


def test_options_on_our_side_of_the_tables_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SUBCOMMANDS:
        main([name, "--help-all"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    text = (ROOT / "docs" / "coming-from-other-tools.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    ours = {option for row in rows for option in re.findall(r"--[a-z][a-z-]+", row[2])}
    assert len(rows) > 40
    assert len(ours) > 15
    assert ours - known == set()


def test_commands_within_lines_have_options_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {}
    for name in SUBCOMMANDS:
        main([name, "--help-all"])
        known[name] = set(re.findall(r"--?[a-z][a-z-]*", capsys.readouterr().out))
    wrong, found = [], 0
    for page in PAGES:
        for name, rest in IN_A_LINE.findall((ROOT / page).read_text(encoding="utf-8")):
            if name in known and name != "train":  # whose subcommands have options of their own
                options = set(OPTION.findall(re.sub(r"'[^']*'", "TEXT", rest)))
                found += len(options)
                wrong += [(page, name, option) for option in options - known[name]]
    assert found > 20
    assert not wrong
