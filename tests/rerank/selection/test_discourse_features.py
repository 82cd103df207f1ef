"""Discourse features of good and bad texts: worked by hand, tests against all assignments, and the command."""

from __future__ import annotations

import json
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import Document, InputError
from discorank.cli.main import main
from discorank.metrics.discourse.coherence.cohesion import Cohesion
from discorank.metrics.discourse.roles.pdd import PDD
from discorank.metrics.rst.metric import TreeSource
from discorank.metrics.rst.trees import Tree
from discorank.metrics.text.texts import RSTTree, Text
from discorank.rerank.selection.discourse_features import (
    JudgedTexts,
    focus_rows,
    grouped,
    ratio_test,
    role_densities,
    tree_comparison,
)

SYSTEMS = Path(__file__).parents[3] / "examples" / "systems.jsonl"
NAMES = ("a", "b", "c", "d")


def judged(
    texts: dict[str, list[Text]], scores: dict[str, list[float]] | None
) -> list[JudgedTexts]:
    """Documents whose references are those of "ref"."""
    number = len(texts["ref"])
    return [
        JudgedTexts(
            str(i),
            (texts["ref"][i],),
            {name: own[i] for name, own in texts.items() if name != "ref"},
            {} if scores is None else {name: own[i] for name, own in scores.items()},
        )
        for i in range(number)
    ]


def test_good_and_bad_by_system_and_by_text() -> None:
    texts: dict[str, list[Text]] = {name: [f"{name}0", f"{name}1"] for name in NAMES}
    scores = {"a": [9.0, 9.0], "b": [8.0, 1.0], "c": [1.0, 7.0], "d": [0.0, 8.5]}
    documents = judged({"ref": ["r0", "r1"], **texts}, scores)
    by_system = grouped(documents, 1, by_system=True)
    assert [own["good"] for own in by_system] == [("a0",), ("a1",)]
    assert [own["bad"] for own in by_system] == [("c0",), ("c1",)]  # 4, d has 4.25
    by_text = grouped(documents, 2, by_system=False)
    assert [own["good"] for own in by_text] == [("a0", "b0"), ("a1", "d1")]
    assert [own["bad"] for own in by_text] == [("c0", "d0"), ("c1", "b1")]
    assert by_text[0]["all"] == ("a0", "b0", "c0", "d0")
    with pytest.raises(InputError, match=r"4 of its texts have human scores, 3 good and 3 bad"):
        grouped(documents, 3, by_system=False)
    assert set(grouped(judged({"ref": ["r"], "a": ["x"]}, None), 2, True)[0]) == {
        "reference",
        "all",
    }


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
    tests = ratio_test(first, second)
    np.testing.assert_allclose([test.difference for test in tests], observed)
    np.testing.assert_allclose([test.p for test in tests], expected)


def focused(*sentences: str) -> Document:
    """A document whose words with capitals are foci."""
    foci = [[(word,) for word in sentence.split() if word.isupper()] for sentence in sentences]
    return Document(list(sentences), foci=foci)


def test_foci_against_references() -> None:
    reference = focused("the CAT", "a CAT")  # FREQ 2, CONN-u 1/4
    more = focused("CAT DOG", "CAT DOG", "CAT")  # FREQ 5/2, CONN-u (1 + 1/2 + 1) / 9
    none = focused("a DOG", "the CAT")
    documents = judged({"ref": [reference] * 2, "a": [more, reference], "b": [none, none]}, None)
    rows = focus_rows(grouped(documents, 1, True), Cohesion(nouns="none"))
    frequency, unweighted, weighted = rows
    assert (frequency.feature, frequency.group, frequency.pairs) == ("frequency", "all", 4)
    assert (frequency.reference, frequency.mean) == (2, (2.5 + 2) / 4)
    assert (frequency.lower, frequency.equal, frequency.higher) == (1 / 4, 1 / 4, 2 / 4)
    assert unweighted.mean == pytest.approx((2.5 / 9 + 1 / 4) / 4)
    assert weighted.mean == pytest.approx((3.5 / 9 + 1 / 4) / 4)
    # the means of the two documents are 1.25 and 1 against 2 and 2: 1 of 2 signs is as far, twice
    assert frequency.p == 1 / 2


def test_shares_of_equal_foci_are_not_below_zero() -> None:
    one, two, three = focused("a CAT"), focused("CAT", "a CAT"), focused("CAT", "CAT", "CAT")
    systems: dict[str, list[Text]] = {
        "ref": [two] * 2,
        "a": [one, three],
        "b": [three] * 2,
        "c": [three] * 2,
    }
    rows = focus_rows(grouped(judged(systems, None), 1, True), Cohesion(nouns="none"))
    assert (rows[0].lower, rows[0].higher) == (5 / 6, 1 / 6)
    assert str(rows[0].equal) == "0.0"


def leaf(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def treed(tree: Tree, text: str) -> Document:
    return Document([text], rst=tree)


NESTED = RSTTree("NS", "Elaboration", (leaf("a"), RSTTree("NN", "Joint", (leaf("b"), leaf("c")))))
FLAT = RSTTree("SN", "attribution", (leaf("a"), leaf("b c")))


def test_relations_nuclearity_and_depth() -> None:
    gold, good, bad = treed(NESTED, "a b c"), treed(NESTED, "a b c"), treed(FLAT, "a b c")
    texts: dict[str, list[Text]] = {"ref": [gold] * 2, "x": [good] * 2, "y": [bad] * 2}
    documents = judged(texts, {"x": [1.0, 1.0], "y": [0.0, 0.0]})
    compared = tree_comparison(grouped(documents, 1, True), TreeSource(None, "none"))
    by_label = {row.label: row for row in compared.relations}
    assert {label: row.count for label, row in by_label.items()} == {
        "Elaboration": 4,
        "Joint": 4,
        "Attribution": 2,
    }
    assert by_label["Joint"].shares == {"reference": 1 / 2, "all": 2 / 6, "good": 1 / 2, "bad": 0}
    assert by_label["Joint"].f1 == {"all": 2 * 2 / 6, "good": 1, "bad": 0}
    assert by_label["Attribution"].test is not None
    assert by_label["Attribution"].test == (-1, 1 / 2)  # of 4 assignments two are as far
    nuclearity = {row.label: row for row in compared.nuclearity}
    assert nuclearity["Satellite"].shares["good"] == 1 / 4
    assert nuclearity["Satellite"].f1["bad"] == 1
    assert nuclearity["Nucleus"].f1["bad"] == 2 * 1 / (3 + 1)
    assert compared.edu_f1["bad"] == 2 * 2 / (2 + 3)
    assert compared.depth_rmse == {"all": pytest.approx(0.5**0.5), "good": 0, "bad": 1}
    # three labels; bad has 2 of one and none of the others, the references 2 of each of these
    q, p = (2.5 / 3.5, 0.5 / 3.5, 0.5 / 3.5), (0.5 / 5.5, 2.5 / 5.5, 2.5 / 5.5)
    kl = sum(a * log(a / b) for a, b in zip(q, p, strict=True))
    assert compared.divergence["bad"] == pytest.approx(kl)
    assert compared.divergence["good"] == pytest.approx(0)


def test_densities_of_roles() -> None:
    def told(*roles: int) -> Document:
        return Document([f"s{i}" for i in range(len(roles))], roles=list(roles))

    texts: dict[str, list[Text]] = {
        "ref": [told(0, 0, 1, 1)],
        "x": [told(0, 0, 1, 1)],
        "y": [told(1, 1, 0, 1)],
    }
    documents = judged(texts, {"x": [1.0], "y": [0.0]})
    found = role_densities(grouped(documents, 1, True), PDD(bins=2))
    assert found.density["good"].tolist() == found.density["reference"].tolist() == [[1, 0], [0, 1]]
    assert found.density["bad"].tolist() == [[0, 1], [0.5, 0.5]]
    assert found.density["all"].tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert found.tests is not None
    assert [[test.difference for test in row] for row in found.tests] == [[1, -1], [-0.5, 0.5]]
    assert len(found.roles) == 2


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["features", *words]) == 0
    return capsys.readouterr().out


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = (str(SYSTEMS), "--human", "mqm:lower", "--draws", "50", "--quiet")
    plots = [tmp_path / name for name in ("one.svg", "other.svg")]
    table = printed(capsys, *words, "--plot", str(plots[0]))
    for title in ("foci of texts", "discourse relations", "nuclearity", "against references"):
        assert title in table
    data = json.loads(printed(capsys, *words, "--format", "json", "--plot", str(plots[1])))
    assert set(data) == {"foci", "relations", "nuclearity", "trees"}
    assert {row["group"] for row in data["foci"]} == {"all", "good", "bad"}
    shares = [sum(row[f"share_{g}"] for row in data["relations"]) for g in ("reference", "good")]
    assert shares == pytest.approx([1, 1])
    assert plots[0].read_bytes().startswith(b"<?xml")
    assert plots[0].read_bytes() == plots[1].read_bytes()


def test_candidate_lists_with_roles(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"
    roles = {"a": [0, 1], "b": [1, 0], "c": [1, 1], "d": [0, 0]}
    candidates = [
        {"text": ["s", "t"], "roles": own, "system": name, "rank": i}
        for i, (name, own) in enumerate(roles.items())
    ]
    reference = {"text": ["s", "t"], "roles": [0, 1]}
    path.write_text(json.dumps({"id": "x", "candidates": candidates, "references": [reference]}))
    words = (
        str(path),
        "--from",
        "jsonl",
        "--human",
        "rank:lower",
        "--show",
        "roles",
        "--bins",
        "2",
    )
    data = json.loads(printed(capsys, *words, "--format", "json", "--quiet"))
    assert {row["group"] for row in data["roles"]} == {"reference", "all", "good", "bad"}
    assert len(data["role_tests"]) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "SYSTEMS"),
        ((str(SYSTEMS), "--plot", "plot.txt"), "no name of a figure"),
        ((str(SYSTEMS), "--human", "mqm:lower", "--top", "9"), "9 good and 9 bad are wanted"),
        ((str(SYSTEMS), "--show", "roles"), "has no roles"),
        ((str(SYSTEMS), "--human", "speed"), "speed"),
    ],
)
def test_refusals(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", *words]) == 2
    assert message in capsys.readouterr().err
