"""Several dimensions of judgements as one score, by weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError
from discorank.cli.main import main
from discorank.rerank.chooser.weighted_dimensions import Dimension, with_weighted_score
from discorank.rerank.selection.document_outputs import DocumentOutputs, Judgements

ROOT = Path(__file__).parents[3]
SUMMARIES = ROOT / "examples" / "judged-summaries.jsonl"
Captured = pytest.CaptureFixture[str]
Table = dict[str, Judgements]


def documents_of(*tables: dict[str, Table]) -> list[DocumentOutputs]:
    """Documents of three segments whose systems have the scores."""
    made = []
    for d, human in enumerate(tables):
        names = dict.fromkeys(name for scores in human.values() for name in scores)
        systems = {name: (f"{name} a", f"{name} b", f"{name} c") for name in names}
        made.append(DocumentOutputs(f"d{d}", False, None, systems, {}, human))
    return made


def random_tables(seed: int) -> list[dict[str, Table]]:
    random = np.random.default_rng(seed)
    return [
        {
            dimension: {name: tuple(random.normal(5, 2, 3).tolist()) for name in "AB"}
            for dimension in ("clear", "true")
        }
        for _ in range(2)
    ]


def total_of(documents: list[DocumentOutputs], *dimensions: Dimension) -> list[Any]:
    """The scores of A and of B, document by document."""
    judged, _ = with_weighted_score(documents, dimensions, "total")
    return [document.human["total"][name] for document in judged for name in "AB"]


@given(st.integers(0, 1000), st.floats(0.1, 10))
def test_a_total_against_plain_loops(seed: int, weight: float) -> None:
    tables = random_tables(seed)
    sums = np.zeros((2, 2, 3))
    for name, own, sign in (("clear", 1.0, 1.0), ("true", weight, -1.0)):
        scores = np.array([[table[name][system] for system in "AB"] for table in tables])
        squares = []
        for d in range(2):
            for i in range(3):
                squares += [(score - scores[d, :, i].mean()) ** 2 for score in scores[d, :, i]]
        sums += sign * own * (scores - scores.mean()) / np.mean(squares) ** 0.5
    dimensions = (Dimension("clear"), Dimension("true", weight, lower=True))
    found = total_of(documents_of(*tables), *dimensions)
    assert np.array(found).reshape(2, 2, 3) == pytest.approx(sums / (1 + weight))


def test_the_scale_and_the_zero_of_a_dimension_do_not_matter() -> None:
    tables = random_tables(0)
    other: list[dict[str, Table]] = [
        {
            "clear": table["clear"],
            "true": {name: tuple(100 - 10 * x for x in own) for name, own in table["true"].items()},  # type: ignore[union-attr, operator]
        }
        for table in tables
    ]
    clear = Dimension("clear", 2.0)
    plain = total_of(documents_of(*tables), clear, Dimension("true"))
    turned = total_of(documents_of(*other), clear, Dimension("true", lower=True))
    assert np.array(turned) == pytest.approx(np.array(plain))


def test_a_text_that_lacks_a_dimension_is_not_judged_and_counted() -> None:
    clear: Table = {"A": (5.0, 4.0, None), "B": (1.0, 2.0, None)}
    true: Table = {"A": (5.0, None, None), "B": (3.0, 4.0, 4.0)}
    documents = documents_of({"clear": clear, "true": true})
    dimensions = (Dimension("clear"), Dimension("true"))
    judged, weighted = with_weighted_score(documents, dimensions, "total")
    a, b = judged[0].human["total"]["A"], judged[0].human["total"]["B"]
    assert isinstance(a, tuple)
    assert isinstance(b, tuple)
    assert [x is None for x in a] == [False, True, True]
    assert [x is None for x in b] == [False, False, True]
    assert (weighted.texts, weighted.partly) == (3, 2)
    with pytest.raises(InputError, match="in all of clear, true"):
        with_weighted_score(documents_of({"clear": clear, "true": {}}), dimensions, "total")


def test_a_dimension_in_which_nothing_differs_adds_nothing() -> None:
    clear: Table = {"A": (5.0, 4.0, 3.0), "B": (1.0, 2.0, 3.0)}
    fluent: Table = {"A": (5.0, 3.0, 5.0), "B": (5.0, 3.0, 5.0)}
    documents = documents_of({"clear": clear, "fluent": fluent})
    _, weighted = with_weighted_score(documents, [Dimension("fluent")], "total")
    assert weighted.deviations == (0.0,)
    both = total_of(documents, Dimension("clear", 3.0), Dimension("fluent"))
    alone = total_of(documents, Dimension("clear"))
    assert np.array(both) == pytest.approx(0.75 * np.array(alone))


def test_scores_of_whole_documents_stay_so() -> None:
    documents = documents_of({"clear": {"A": 5.0, "B": 3.0}, "true": {"A": 1.0, "B": 2.0}})
    found = total_of(documents, Dimension("clear", 2.0), Dimension("true"))
    assert found == pytest.approx([1 / 3, -1 / 3])


def test_scores_too_large_are_refused() -> None:
    documents = documents_of({"clear": {"A": 1e200, "B": 3.0}})
    with pytest.raises(InputError, match="another scale"):
        with_weighted_score(documents, [Dimension("clear")], "total")


def means_of(path: Path) -> dict[str, float]:
    """The systems' means of a chooser's file."""
    systems = json.loads(path.read_text())["prior"]["systems"]
    return {name: own["mean"] for name, own in systems.items()}


def test_the_command(tmp_path: Path, capsys: Captured) -> None:
    """Who weighs faithfulness prefers brook to hill, who weighs coherence hill to brook."""
    path = tmp_path / "c.json"
    command = ["train", "chooser", str(SUMMARIES), "-m", "none", "-u", "chrf", "-o", str(path)]
    assert main([*command, "--human", "coherence", "faithfulness=3"]) == 0
    printed = capsys.readouterr().out
    assert "faithfulness  higher  3" in printed
    assert "standard deviations within a segment" in printed
    faithful = means_of(path)
    assert faithful["brook"] < faithful["hill"]
    assert main([*command, "--human", "coherence=3", "faithfulness:higher"]) == 0
    coherent = means_of(path)
    assert coherent["hill"] < coherent["brook"]
    assert json.loads(path.read_text())["prior"]["human"] == "3*coherence + 1*faithfulness"


def test_judgements_of_several_dimensions_in_a_file_of_their_own(
    tmp_path: Path, capsys: Captured
) -> None:
    """The same chooser, whether scores stand beside texts or not; of some texts a dimension is missing."""
    articles = [json.loads(line) for line in SUMMARIES.read_text().splitlines()]
    texts, scores = tmp_path / "texts.jsonl", tmp_path / "scores.jsonl"
    rows = []
    for article in articles:
        human = article.pop("human")
        row = {"id": article["id"]}
        for dimension in ("coherence", "faithfulness"):
            row[dimension] = {name: own[dimension] for name, own in human.items()}
        rows.append(row)
    texts.write_text("".join(json.dumps(article) + "\n" for article in articles))
    scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    options = ["-m", "none", "-u", "chrf", "--human", "coherence", "faithfulness=3"]
    assert main(["train", "chooser", str(SUMMARIES), *options, "-o", str(paths[0])]) == 0
    judged = ["train", "chooser", str(texts), "--judged", str(scores), *options]
    assert main([*judged, "-o", str(paths[1])]) == 0
    assert means_of(paths[0]) == means_of(paths[1])
    rows[0]["faithfulness"]["hill"] = None
    scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
    capsys.readouterr()
    assert main([*judged, "-o", str(paths[1])]) == 0
    assert "17 texts were judged in every dimension; 1 only in some" in capsys.readouterr().out
    scores.write_text("".join(json.dumps({**row, "rater": "anna"}) + "\n" for row in rows))
    assert main([*judged, "-o", str(paths[1])]) == 2
    assert "scores of one rater" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["coherence=x"], "a number above 0"),
        (["coherence=0"], "a number above 0"),
        (["coherence=-1"], "a number above 0"),
        (["coherence=inf"], "a number above 0"),
        (["coherence=nan"], "a number above 0"),
        (["=2"], "NAME or NAME:lower"),
        (["coherence=1", "coherence=2"], "Name each once"),
        (["coherence=1", "faithfulness=2", "--raters"], "beside weights of --human"),
        (["coherence=1", "--rankings", "r.jsonl"], "beside weights of --human"),
        (["coherence", "faithfulness"], "such as --human coherence=1 faithfulness=2"),
        (["coherence:lower", "faithfulness"], "--human coherence:lower=1 faithfulness=1"),
        (["clarity=2"], "clarity"),
    ],
)
def test_what_is_no_weight(
    options: list[str], message: str, tmp_path: Path, capsys: Captured
) -> None:
    command = ["train", "chooser", str(SUMMARIES), "-o", str(tmp_path / "c.json"), "--human"]
    assert main([*command, *options]) in (2, 3)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()


def test_two_domains_are_weighed_alike(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(SUMMARIES.read_text())
    path = tmp_path / "c.json"
    command = ["train", "chooser", str(SUMMARIES), "-m", "none", "-u", "chrf", "-o", str(path)]
    weights = ["--human", "coherence", "faithfulness=3"]
    assert main([*command, *weights, "--also", str(other), "--also-weight", "0.3"]) == 0
    assert "6 of another domain" in json.loads(path.read_text())["provenance"]
