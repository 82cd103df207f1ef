"""compare: human scores with gaps, and without a metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank.cli.main import main
from discorank.rerank.selection.statistics import DRAWS

EASY, HARD = 1.0, 6.0


def campaign(path: Path) -> Path:
    """Four equal systems on 8 easy and 8 hard documents; hill was judged on the easy ones only."""
    random = np.random.default_rng(3)
    rows = []
    for d in range(16):
        difficulty = EASY if d < 8 else HARD
        scores: dict[str, Any] = {
            name: (difficulty + random.normal(0, 0.5, size=2)).round(2).tolist()
            for name in ("brook", "river", "lake", "hill")
        }
        if difficulty == HARD:
            del scores["hill"]
        texts = {
            name: [f"a {name} text {d}", f"text {d}"] for name in ("brook", "river", "lake", "hill")
        }
        rows.append(
            {
                "id": str(d),
                "references": {"ref": [f"a text {d}", "text"]},
                "systems": texts,
                "mqm": scores,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compared(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert (
        main(["compare", str(path), "--human", "mqm:lower", "--quiet", "--format", "json", *words])
        == 0
    )
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_system_judged_on_easy_segments_is_not_called_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = campaign(tmp_path / "gaps.jsonl")
    found = compared(path, capsys, "-m", "chrf")
    rows = {row["system"]: row for row in found["human"]}
    assert {name: row["judged"] for name, row in rows.items()} == {
        "brook": 32,
        "river": 32,
        "lake": 32,
        "hill": 16,
    }
    assert {(row["best_rank"], row["worst_rank"]) for row in rows.values()} == {(1, 4)}
    assert {row["common"] for row in found["human_pairs"] if "hill" in (row["a"], row["b"])} == {16}
    assert all(abs(row["score"] - (EASY + HARD) / 2) < 0.5 for row in rows.values())
    main(["compare", str(path), "-m", "chrf", "--human", "mqm:lower", "--quiet"])
    printed = capsys.readouterr().out
    assert "Ship" not in printed
    assert "16 to 32" in printed


def test_human_scores_alone_rank_systems_with_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = campaign(tmp_path / "gaps.jsonl")
    alone, beside = compared(path, capsys), compared(path, capsys, "-m", "chrf")
    assert alone["human"] == beside["human"]
    assert alone["human_pairs"] == beside["human_pairs"]
    assert all(row["p"] is not None for row in alone["human_pairs"])
    assert not alone.get("meta")
    main(["compare", str(path), "--human", "mqm:lower", "--quiet"])
    assert f"{DRAWS} draws of 16 documents" in capsys.readouterr().out


def test_neither_metric_nor_human_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(campaign(tmp_path / "gaps.jsonl"))]) == 2
    assert "--metric" in capsys.readouterr().err
