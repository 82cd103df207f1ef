"""A list that was decided in context is shown with it: by explain, in Python and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import discorank
from discorank.cli.main import main

pytest.importorskip("torch")

BERT = Path(__file__).parents[1] / "golden" / "docmetrics" / "models" / "tiny-bert"
IN_CONTEXT = f'bertscore(model="{BERT}",layer=2,context=1)'


def test_the_sentence_before_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["examples:demo.jsonl", "-u", IN_CONTEXT]
    assert main(["explain", *command, "--nbest", "1"]) == 0
    first, second, third = capsys.readouterr().out.split("\n\n")[:3]
    chosen = [
        line.removeprefix("  chosen   ")
        for part in (first, second)
        for line in part.splitlines()
        if line.startswith("  chosen")
    ]
    assert "  before   " not in first
    assert f"  before   {chosen[0]}\n" in second
    assert f"  before   {chosen[1]}\n" in third
    explained = discorank.explain("examples:demo.jsonl", IN_CONTEXT)
    assert explained[1].data["context"] == chosen[:1]
    assert explained[1].data["ranking"][0]["why"], "metrics speak in the context"
    assert main(["decode", *command, "-o", "run", "--quiet"]) == 0
    assert main(["report", "run", "-o", "page.html", "--quiet"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert f'"context":["{chosen[0]}"]' in page
