"""`--abstain` flags the share it was asked for, of whatever is decided and however little was judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discorank.cli.main import main
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.chooser import abstaining
from discorank.rerank.chooser.abstaining import threshold
from discorank.rerank.chooser.shipped import default_chooser

from .test_model import outputs, systems_file

Captured = pytest.CaptureFixture[str]


@given(arrays(float, st.integers(0, 30), elements=st.floats(-9, 9)), st.floats(0, 1))
def test_the_threshold_leaves_the_share_above(errors: Any, share: float) -> None:
    flagged = errors > threshold(errors, share)
    asked = int(np.floor(share * len(errors) + 0.5))
    assert flagged.sum() <= asked
    if len(np.unique(errors)) == len(errors):
        assert flagged.sum() == asked
    if flagged.any() and not flagged.all():
        assert errors[flagged].min() > errors[~flagged].max()


def decoded(file: Path, chooser: str, out: Path, *words: str) -> list[dict[str, Any]]:
    """The rows of a run."""
    command = ["decode", str(file), "--from", "systems", "--chooser", chooser, "--quiet"]
    assert main([*command, "-o", str(out), *words]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def flags(rows: Sequence[dict[str, Any]]) -> list[bool]:
    return ["abstain" in row.get("flags", ()) for row in rows]


def trained_on(judged: int, folder: Path) -> str:
    """The file of a chooser after so many judged documents; the one that is shipped after none."""
    if not judged:
        return "default"
    file, path = systems_file(folder / "judged.jsonl", outputs(8, judged)), folder / "c.json"
    command = ["train", "chooser", str(file), "--human", "mqm:lower", "-m", "none"]
    assert main([*command, "-o", str(path), "--quiet"]) == 0
    return str(path)


@pytest.mark.parametrize("judged", [0, 1, 8])
@pytest.mark.parametrize("share", [0.1, 0.35])
def test_the_share_holds_however_much_was_judged(
    judged: int, share: float, tmp_path: Path, capsys: Captured
) -> None:
    chooser = trained_on(judged, tmp_path)
    new = systems_file(tmp_path / "new.jsonl", outputs(12, seed=3))
    rows = decoded(new, chooser, tmp_path / "out.jsonl", "--abstain", str(share))
    assert sum(flags(rows)) == round(share * len(rows))
    # those with the least probability of being as good as any, which falls with what is expected
    said = np.array([row["chooser"]["probability"] for row in rows])
    flagged = np.array(flags(rows))
    assert said[flagged].max() < said[~flagged].min()
    plain = decoded(new, chooser, tmp_path / "plain.jsonl")
    for row in rows:
        row["flags"] = [flag for flag in row.get("flags", ()) if flag != "abstain"]
    assert [row["text"] for row in rows] == [row["text"] for row in plain]
    capsys.readouterr()


def test_a_run_that_goes_on_keeps_its_threshold(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = systems_file(tmp_path / "new.jsonl", outputs(4))
    out = tmp_path / "out.jsonl"
    rows = decoded(new, "default", out, "--abstain", "0.5")
    abstain = json.loads(Path(f"{out}.run.json").read_text())["settings"]["abstain"]
    assert abstain["share"] == 0.5
    assert np.isfinite(abstain["above"])
    with monkeypatch.context() as patch:
        patch.setattr(abstaining, "abstention", lambda *_: pytest.fail("decided twice"))
        assert decoded(new, "default", out, "--abstain", "0.5") == rows
    command = ["decode", str(new), "--from", "systems", "--chooser", "default", "-o", str(out)]
    assert main([*command, "--abstain", "0.4", "--quiet"]) != 0
    assert "abstain was" in capsys.readouterr().err


def test_all_or_none_of_the_lists(tmp_path: Path) -> None:
    new = systems_file(tmp_path / "new.jsonl", outputs(2))
    assert all(flags(decoded(new, "default", tmp_path / "all", "--abstain", "1")))
    assert not any(flags(decoded(new, "default", tmp_path / "none", "--abstain", "0.01")))


def test_nothing_to_decide(tmp_path: Path, capsys: Captured) -> None:
    empty, out = tmp_path / "empty.jsonl", tmp_path / "out"
    empty.write_text("")
    command = ["decode", str(empty), "--chooser", "default", "--abstain", "0.2", "-o", str(out)]
    assert main(command) == 0
    assert "there are no lists in it" in capsys.readouterr().err


def test_a_bad_list_stops_before_anything_is_written(tmp_path: Path, capsys: Captured) -> None:
    lists, out = tmp_path / "lists.jsonl", tmp_path / "out.jsonl"
    lists.write_text(
        '{"id": "a", "candidates": ["x y", "x z"]}\n{"id": "b"}\n{"id": "c", "candidates": ["u v", "w"]}\n'
    )
    command = ["decode", str(lists), "--chooser", "default", "--abstain", "0.5", "-o", str(out)]
    assert main([*command, "--quiet"]) == 3
    assert "lists.jsonl:2" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, "--quiet", "--max-errors", "1"]) == 3
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(flags(rows)) == 1


def test_the_rows_do_not_depend_on_processes(tmp_path: Path) -> None:
    new = systems_file(tmp_path / "new.jsonl", outputs(3))
    alone = decoded(new, "default", tmp_path / "one", "--abstain", "0.3")
    shared = decoded(new, "default", tmp_path / "two", "--abstain", "0.3", "--jobs", "2")
    assert alone == shared


def test_what_cannot_abstain(tmp_path: Path, capsys: Captured) -> None:
    lists, path = tmp_path / "lists.jsonl", tmp_path / "chooser.json"
    lists.write_text('{"id": "a", "candidates": ["x", "y"]}\n')
    assert main(["decode", str(lists), "-u", "chrf", "--abstain", "0.1"]) != 0
    assert "without a chooser" in capsys.readouterr().err
    silent = replace(default_chooser(), difficulty=None)
    path.write_text(json.dumps(with_checksum(silent.as_json())))
    assert main(["decode", str(lists), "--chooser", str(path), "--abstain", "0.1"]) != 0
    assert "does not say how hard" in capsys.readouterr().err
    assert main(["decode", "-", "--chooser", "default", "--abstain", "0.1"]) != 0
    assert "the input is read twice. Give a file" in capsys.readouterr().err
