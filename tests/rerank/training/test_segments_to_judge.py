"""What is proposed to be judged: easy and hard segments, where texts differ, over documents, and nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discorank import InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.rerank.selection.system_scores import DocumentOutputs
from discorank.rerank.training.segments_to_judge import (
    Unit,
    disagreement_of,
    judging_order,
    proposed,
    spread_order,
)

from ...support.judged_outputs import outputs, systems_file

Captured = pytest.CaptureFixture[str]
NOBODY = np.zeros(8, bool)


def test_of_each_stratum_the_segment_whose_texts_differ_most() -> None:
    doubt = np.array([3.0, 0.0, 1.0, 2.0, 7.0, 6.0, 5.0, 4.0])
    disagreement = np.array([1.0, 2.0, 3.0, 9.0, 1.0, 2.0, 8.0, 3.0])
    own = np.arange(8)
    # from easy to hard: 1, 2 | 3, 0 | 7, 6 | 5, 4
    assert judging_order(doubt, disagreement, own, NOBODY, 4) == [2, 6, 3, 5]
    judged = np.isin(own, [2, 6])
    # what is left: 1, 3, 0 | 7, 5, 4
    assert judging_order(doubt, disagreement, own, judged, 2) == [3, 7]


def test_documents_of_which_something_is_taken_count_less() -> None:
    disagreement = np.array([5.0, 4.0, 5.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    document = np.array([0, 1, 0, 2, 0, 0, 0, 3])
    flat = np.arange(8.0)
    assert judging_order(flat, disagreement, document, NOBODY, 4) == [0, 4, 3, 7]
    judged = np.arange(8) == 4
    assert judging_order(flat, disagreement, document, judged, 4)[0] == 1


def test_all_that_are_left_where_more_are_asked_for() -> None:
    judged = np.arange(8) < 5
    order = judging_order(np.zeros(8), np.zeros(8), np.arange(8), judged, 20)
    assert sorted(order) == [5, 6, 7]
    assert judging_order(np.zeros(8), np.zeros(8), np.arange(8), ~NOBODY, 20) == []


@pytest.mark.parametrize("count", [1, 2, 7, 20, 64])
def test_each_first_part_of_the_order_is_spread(count: int) -> None:
    order = spread_order(count)
    assert sorted(order) == list(range(count))
    for size in range(2, count):
        gaps = np.diff([0, *sorted(order[:size]), count])
        assert gaps.max() <= 4 * count / size + 1


def test_disagreement_against_a_loop() -> None:
    random = np.random.default_rng(0)
    matrices = random.uniform(0, 50, (5, 4, 4))
    matrices[:, range(4), range(4)] = 100.0
    for own in matrices:
        others = [own[h, r] for h in range(4) for r in range(4) if h != r]
        assert disagreement_of(own) == pytest.approx(100.0 - np.mean(others))
    assert disagreement_of(np.array([[7.0]])) == disagreement_of(np.full((3, 3), 5.0)) == 0.0


def proposed_of(documents: list[DocumentOutputs], count: int, unit: Unit = "segment") -> list[str]:
    proposals = proposed(documents, load_metric("chrf"), count, unit)
    return [proposal.id for proposal in proposals.segments]


def test_segments_whose_texts_are_the_same_are_judged_last() -> None:
    documents = outputs(6, judged=0)
    same = dict.fromkeys("ABCD", documents[0].systems["A"])
    documents[0] = replace(documents[0], systems=same)
    assert not any(name.startswith("d0:") for name in proposed_of(documents, 5))
    assert len(proposed_of(documents, 40)) == 30


def test_what_is_judged_is_left_out_and_the_second_stage_goes_on() -> None:
    documents = outputs(6, judged=2)
    names = proposed_of(documents, 8)
    assert len(set(names)) == 8
    assert not any(name.startswith(("d0:", "d1:")) for name in names)
    assert names == proposed_of(documents, 8)


def test_proposals_differ_more_than_the_mean_segment() -> None:
    documents = outputs(12, judged=0)
    differences = {}
    for document in documents:
        for i in range(5):
            texts = [own[i] for own in document.systems.values()]
            (ranking,) = MBRDecoder(utility="chrf", keep_matrix=True).decode([texts])
            assert ranking.matrix is not None
            differences[f"{document.id}:{i}"] = disagreement_of(ranking.matrix)
    of_taken = np.mean([differences[name] for name in proposed_of(documents, 10)])
    assert of_taken > np.mean(list(differences.values())) * 1.05


def test_whole_documents() -> None:
    names = proposed_of(outputs(6, judged=2), 2, "document")
    assert len(names) == 10
    assert [name.split(":")[1] for name in names] == list("01234") * 2


def test_one_system_is_refused() -> None:
    documents = [replace(own, systems={"A": own.systems["A"]}) for own in outputs(2, judged=0)]
    with pytest.raises(InputError, match="a single system"):
        proposed_of(documents, 1)


def test_the_command(tmp_path: Path, capsys: Captured) -> None:
    systems, out = systems_file(tmp_path / "s.jsonl", outputs(6, judged=2)), tmp_path / "o.jsonl"
    command = ["sample", str(systems), "--human", "mqm:lower", "-o", str(out)]
    assert main([*command, "-n", "6"]) == 0
    assert "6 of 20 segments that nobody judged" in capsys.readouterr().err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["order"] for row in rows] == [1, 2, 3, 4, 5, 6]
    documents = {own.id: own for own in outputs(6)}
    for row in rows:
        document, number = row["id"].split(":")
        own = documents[document]
        assert row["source"] == own.source[int(number)]  # type: ignore[index]
        assert row["systems"] == {n: texts[int(number)] for n, texts in own.systems.items()}
        assert row["mqm"] == dict.fromkeys("ABCD")
    first = out.read_bytes()
    assert main([*command, "-n", "6", "--quiet"]) == 0
    assert out.read_bytes() == first
    assert main([*command, "-n", "50"]) == 0
    assert "50 were asked for, and these are all" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 20


def test_nothing_is_said_of_judgements_that_were_not_read(tmp_path: Path, capsys: Captured) -> None:
    systems = systems_file(tmp_path / "s.jsonl", outputs(6, judged=2))
    assert main(["sample", str(systems), "-n", "6", "-o", str(tmp_path / "o.jsonl")]) == 0
    said = capsys.readouterr().err
    assert said.endswith("6 of 30 segments\n")


def test_rows_are_a_systems_file(tmp_path: Path) -> None:
    """Filled in, the rows train a prior by themselves."""
    systems, out = systems_file(tmp_path / "s.jsonl", outputs(6, judged=0)), tmp_path / "o.jsonl"
    assert main(["sample", str(systems), "-n", "10", "-o", str(out), "--quiet"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    for row in rows:
        row["score"] = {name: k for k, name in enumerate("ABCD")}
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "prior.json"
    train = ["train", "prior", str(out), "--human", "score:lower", "-o", str(path)]
    assert main([*train, "--quiet"]) == 0
    prior = json.loads(path.read_text())
    assert prior["segments"] == 10
    assert prior["sigma"] == 0  # every row says the same


def test_a_key_of_rows_is_no_score(tmp_path: Path, capsys: Captured) -> None:
    systems = systems_file(tmp_path / "s.jsonl", outputs(2, judged=0))
    assert main(["sample", str(systems), "--human", "systems", "--quiet"]) == 2
    assert "is a key of rows" in capsys.readouterr().err
