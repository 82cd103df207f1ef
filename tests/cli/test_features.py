"""Discourse features of good, bad and reference texts: by hand, the test against all assignments, and the command."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import Document
from discorank.cli.commands.features import (
    FeaturesOptions,
    compared,
    grouped,
    ratio_test,
    shares_of_texts,
)
from discorank.cli.main import main
from discorank.integrations.formats.human_scores import HumanKey
from discorank.rerank.selection.system_scores import DocumentOutputs

GOLDEN = Path(__file__).parents[1] / "golden"
SYSTEMS = str(Path(__file__).parents[2] / "examples" / "systems.jsonl")


def test_a_test_is_over_all_assignments() -> None:
    chance = np.random.default_rng(2)
    first, second = (chance.integers(1, 9, (5, 2, 3)).astype(float) for _ in range(2))
    first[:, 1], second[:, 1] = 10, 12

    def difference(swapped: tuple[int, ...]) -> np.ndarray[Any, Any]:
        s = np.array(swapped)[:, None, None]
        a = (first * (1 - s) + second * s).sum(axis=0)
        b = (second * (1 - s) + first * s).sum(axis=0)
        return np.asarray(a[0] / a[1] - b[0] / b[1])

    observed = difference((0,) * 5)
    drawn = np.array([difference(swapped) for swapped in product((0, 1), repeat=5)])
    expected = (np.abs(drawn) >= np.abs(observed) - 1e-12).mean(axis=0)
    differences, p = np.transpose(ratio_test(first, second))
    np.testing.assert_allclose(differences, observed)
    np.testing.assert_allclose(p, expected)


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    assert main(["features", *words, "--format", "json", "--quiet"]) == 0
    (rows,) = json.loads(capsys.readouterr().out).values()
    return {f"{row['kind']}: {row['feature']}": row for row in rows}


JOINT = {"nuc": "NN", "rel": "Joint", "children": [["DOG"], ["a", "CAT"]]}
BETTER = Document(
    ["CAT DOG", "a CAT"],
    foci=[[("CAT",), ("DOG",)], [("CAT",)]],
    rst={"nuc": "NS", "rel": "Elaboration", "children": [["CAT"], JOINT]},
)
WORSE = Document(
    ["CAT DOG", "a CAT"],
    foci=[[("DOG",)], [("CAT",)]],
    rst={"nuc": "SN", "rel": "attribution", "children": [["CAT"], ["DOG", "a", "CAT"]]},
)


def test_features_by_hand() -> None:
    """Of the four assignments of two documents, two are as far as what is observed."""
    groups = [{"reference": [BETTER], "good": [BETTER], "bad": [WORSE]}] * 2
    chosen = FeaturesOptions(nouns="none")
    rows = {
        (row["kind"], row["feature"]): tuple(row.values())[2:]
        for row in compared(groups, shares_of_texts(groups, chosen))
    }
    assert rows == {
        ("foci", "frequency"): (2, 2, 0, 2, 0.5),
        ("foci", "connectivity-u"): (0.25, 0.25, 0, 0.25, 0.5),
        ("foci", "connectivity-w"): (0.25, 0.25, 0, 0.25, 0.5),
        ("relations", "Elaboration"): (0.5, 0.5, 0, 0.5, 0.5),
        ("relations", "Joint"): (0.5, 0.5, 0, 0.5, 0.5),
        ("relations", "Attribution"): (0, 0, 1, -1, 0.5),
        ("nuclearity", "Nucleus"): (0.75, 0.75, 0.5, 0.25, 0.5),
        ("trees", "EDUs"): (3, 3, 2, 1, 0.5),
        ("trees", "depth"): (2, 2, 1, 1, 0.5),
    }


@pytest.mark.parametrize(("lower", "best"), [(False, "a"), (True, "d")])
def test_mean_scores_decide_which_systems_are_good(lower: bool, best: str) -> None:
    scores: dict[str, Any] = {"a": (9.0, 9.0), "b": (8.0, None), "c": (1.0, 7.0), "d": 0.5}
    texts = {name: (f"{name}0", f"{name}1") for name in scores}
    document = DocumentOutputs("x", False, None, texts, {"r": ("r0", "r1")}, {"mqm": scores})
    (groups,) = grouped([document], HumanKey("mqm", lower), 2)
    names = {group: [str(text)[0] for text in own] for group, own in groups.items()}
    high, low = ["a", "b"], ["c", "d"]
    good, bad = (low[::-1], high[::-1]) if lower else (high, low)
    assert names == {"reference": ["r"], "good": good, "bad": bad}
    assert good[0] == best


@pytest.mark.filterwarnings("ignore::discorank.metrics.storage.checksums.UncheckedWarning")
def test_roles_of_a_classifier(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = shutil.copytree(GOLDEN / "pdd" / "tiny-roles", tmp_path / "roles")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["encoder"] = str(GOLDEN / "docmetrics" / "models" / "tiny-bert")
    for of_file in ("checksum", "files"):
        del config[of_file]
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = (SYSTEMS, "--human", "mqm:lower", "--role-model", str(model))
    bins: dict[str, float] = {}
    for row in rows_of(capsys, *words).values():
        if row["kind"].startswith("roles"):
            bins[row["kind"]] = bins.get(row["kind"], 0) + (row["good"] or 0)
    assert set(bins) == {f"roles, bin {number}" for number in range(1, 6)}
    assert all(share in (0, pytest.approx(1)) for share in bins.values())


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, SYSTEMS, "--human", "mqm:lower")
    relations = [row for name, row in rows.items() if name.startswith("relations")]
    for group in ("reference", "good", "bad"):
        assert sum(row[group] for row in relations) == pytest.approx(1)
    assert not [name for name in rows if name.startswith("roles")]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--human", "mqm"), "SYSTEMS"),
        ((SYSTEMS,), "--human"),
        ((SYSTEMS, "--human", "mqm:lower", "--top", "9"), "9 good and 9 bad"),
        ((SYSTEMS, "--human", "speed"), "speed"),
    ],
)
def test_mistakes(words: tuple[str, ...], found: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", *words]) == 2
    assert found in capsys.readouterr().err
