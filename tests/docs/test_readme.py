"""README shows the two commands that set everything up, and what the first one prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from discorank.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_two_commands_set_everything_up() -> None:
    first_block = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    targets = re.findall(r"^make (\w+)", first_block, re.MULTILINE)
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}: ", makefile, re.MULTILINE) for target in targets)


def test_the_output_shown_is_that_of_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out.splitlines()
    (block,) = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    shown = block.splitlines()
    assert shown.pop() == "…"
    assert printed[: len(shown)] == shown
