"""Several raters, preferences, and judgements in files of their own, on data whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError
from discorank.cli.main import main
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.system_scores import DocumentOutputs
from discorank.rerank.training.prior_estimation import (
    PREFERENCES,
    estimate_prior,
    preference_scores,
    with_one_score,
    with_preferences,
    without_strictness,
)

from ...support.judged_outputs import outputs, systems_file

Captured = pytest.CaptureFixture[str]


def judged_by(strictness: FloatArray, share: float, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """True values [n] and scores [R, n] of raters who count more errors the stricter they are."""
    random = np.random.default_rng(seed)
    truth = random.gamma(2.0, 1.0, 400)
    scores = random.poisson(strictness[:, None] * truth).astype(float)
    scores[random.random(scores.shape) > share] = np.nan
    return truth, scores


def test_strictness_is_found_again() -> None:
    strictness = np.array([0.5, 1.0, 2.0])
    truth, scores = judged_by(strictness, 0.6)
    values, factors = without_strictness(scores, are_factors=True)
    assert factors / factors[1] == pytest.approx(strictness, rel=0.15)
    known = ~np.isnan(values)
    means = np.nanmean(scores[:, known], axis=0)
    by_raters = np.corrcoef(values[known], truth[known])[0, 1]
    assert by_raters > np.corrcoef(means, truth[known])[0, 1] + 0.03


def test_what_raters_add_is_found_again() -> None:
    random = np.random.default_rng(1)
    truth, shifts = random.normal(size=300), np.array([-2.0, 0.0, 5.0])
    scores = truth + shifts[:, None] + random.normal(0, 0.3, (3, 300))
    scores[random.random(scores.shape) > 0.6] = np.nan
    values, found = without_strictness(scores, are_factors=False)
    assert found - found[1] == pytest.approx(shifts, abs=0.2)
    known = ~np.isnan(values)
    assert np.corrcoef(values[known], truth[known])[0, 1] > 0.95


@given(st.integers(0, 50), st.booleans())
def test_scores_keep_their_mean_and_one_rater_is_as_they_are(seed: int, factors: bool) -> None:
    _, scores = judged_by(np.array([0.5, 1.5]), 0.5, seed)
    values, effects = without_strictness(scores, factors)
    assert np.array_equal(np.isnan(values), np.isnan(scores).all(axis=0))
    sizes = (~np.isnan(scores)).sum(axis=1)
    assert sizes @ effects / sizes.sum() == pytest.approx(float(factors), abs=1e-6)
    alone, effect = without_strictness(scores[:1], factors)
    assert np.array_equal(alone, scores[0], equal_nan=True)
    assert effect.tolist() == [float(factors)]


def test_raters_who_share_nothing_are_alike() -> None:
    scores = np.array([[1.0, 2.0, np.nan, np.nan], [np.nan, np.nan, 7.0, 9.0]])
    values, factors = without_strictness(scores, are_factors=True)
    assert values == pytest.approx([1.0, 2.0, 7.0, 9.0])
    assert factors == pytest.approx([1.0, 1.0])
    values, factors = without_strictness(np.zeros((2, 3)), are_factors=True)
    assert values.tolist() == [0.0] * 3
    assert factors.tolist() == [1.0, 1.0]


def by_two_raters(documents: list[DocumentOutputs]) -> list[DocumentOutputs]:
    """Anna judges A and B, who is strict; Ben C and D; both judge the first documents."""
    judged = []
    for d, document in enumerate(documents):
        scores = dict(document.human["mqm"])
        strict = {
            name: tuple(None if score is None else 6 * score for score in own)
            for name, own in scores.items()
            if isinstance(own, tuple) and (name in "AB" or d < 3)
        }
        mild = {name: own for name, own in scores.items() if name in "CD" or d < 3}
        judged.append(replace(document, human={"anna": strict, "ben": mild}))
    return judged


def means_of(documents: list[DocumentOutputs]) -> dict[str, float]:
    prior = estimate_prior(documents, "mqm", lower=True)
    return {name: system.mean for name, system in prior.systems}


def test_a_strict_rater_of_the_best_systems_does_not_turn_them_round() -> None:
    documents = by_two_raters(outputs(12, 12))
    means = means_of(with_one_score(documents, ["anna", "ben"], True, "mqm"))
    assert sorted(means, key=lambda name: means[name]) == list("ABCD")
    # as they stand, the strict rater's systems look worst
    as_they_stand = []
    for document in documents:
        scores = {**document.human["ben"], **document.human["anna"]}
        as_they_stand.append(replace(document, human={"mqm": scores}))
    means = means_of(as_they_stand)
    assert means["B"] > means["D"]
    alone = [replace(own, human={"m": own.human["anna"]}) for own in documents]
    assert with_one_score(alone, ["m"], True, "m")[5].human == alone[5].human
    with pytest.raises(InputError, match="no score"):
        with_one_score(alone, ["n"], True, "n")


def test_raters_of_whole_documents() -> None:
    documents = []
    for d, document in enumerate(outputs(4)):
        human = {"anna": {"A": 1.0 + d, "B": 3.0}, "ben": {"A": 1.0 + d, "B": 3.0, "C": 4.0}}
        documents.append(replace(document, human=human))
    together = with_one_score(documents, ["anna", "ben"], False, "score")
    assert [own.human["score"]["A"] for own in together] == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert "D" not in together[0].human["score"]


def test_scores_of_rankings_by_hand() -> None:
    both = preference_scores("AB", [{"A": 1, "B": 2}])
    assert both.tolist() == pytest.approx([-0.5, 0.5])
    chain = preference_scores("ABCD", [{"A": 1, "B": 2}, {"B": 1, "C": 2}])
    assert chain[:3].tolist() == pytest.approx([-1.0, 0.0, 1.0])
    assert np.isnan(chain[3])
    assert preference_scores("AB", [{"A": 1, "B": 1}]).tolist() == [0.0, 0.0]
    assert preference_scores("AB", [{"A": 1, "B": 2}, {"A": 2, "B": 1}]).tolist() == [0, 0]
    apart = preference_scores("ABCD", [{"A": 1, "B": 2}, {"C": 1, "D": 2}])
    assert apart.tolist() == pytest.approx([-0.5, 0.5, -0.5, 0.5])
    assert np.isnan(preference_scores("AB", [{"A": 1}])).all()


@given(st.integers(0, 300))
def test_preference_scores_are_the_least_squares(seed: int) -> None:
    random = np.random.default_rng(seed)
    rankings = []
    for _ in range(int(random.integers(1, 5))):
        own = random.choice(5, int(random.integers(2, 6)), replace=False)
        rankings.append({"ABCDE"[s]: float(random.integers(3)) for s in own})

    def loss(values: FloatArray) -> float:
        total = 0.0
        for ranks in rankings:
            items = [("ABCDE".index(name), rank) for name, rank in ranks.items()]
            for k, (s, rank) in enumerate(items):
                for t, other in items[:k]:
                    total += (values[s] - values[t] - np.sign(rank - other)) ** 2
        return float(total)

    scores = np.nan_to_num(preference_scores("ABCDE", rankings))
    for step in 1e-3 * np.eye(5):
        assert loss(scores) <= min(loss(scores + step), loss(scores - step)) + 1e-12


def preferences_of(documents: list[DocumentOutputs], seed: int = 0) -> list[dict[str, Any]]:
    """Of each segment the comparison of two systems at random, by the scores they have."""
    random = np.random.default_rng(seed)
    rows = []
    for document in documents:
        for i in range(document.segments):
            pair = random.choice(list("ABCD"), 2, replace=False).tolist()
            ranks = {name: document.human["mqm"][name][i] for name in pair}  # type: ignore[index]
            rows.append({"id": f"{document.id}:{i}", "ranks": ranks})
    return rows


def test_a_prior_of_pairs(tmp_path: Path, capsys: Captured) -> None:
    """Two systems of each segment are compared, and the order of all four comes out."""
    documents = outputs(30, 30)
    systems = systems_file(tmp_path / "s.jsonl", outputs(30, judged=0))
    rankings, prior = tmp_path / "r.jsonl", tmp_path / "p.json"
    rankings.write_text("".join(json.dumps(row) + "\n" for row in preferences_of(documents)))
    command = ["train", "prior", str(systems), "-o", str(prior), "--quiet"]
    assert main([*command, "--rankings", str(rankings)]) == 0
    means = {n: own["mean"] for n, own in json.loads(prior.read_text())["systems"].items()}
    assert sorted(means, key=lambda name: means[name]) == list("ABCD")
    assert main([*command, "--rankings", str(rankings), "--human", "mqm:lower"]) == 2
    assert "Give scores or preferences" in capsys.readouterr().err


def test_rankings_of_no_segment_or_system_are_refused() -> None:
    documents = outputs(2)
    with pytest.raises(InputError, match="no list with id 'd9:0'"):
        with_preferences(documents, {"d9:0": [{"A": 1, "B": 2}]})
    with pytest.raises(InputError, match="ranks 'X', not a system"):
        with_preferences(documents, {"d1:0": [{"A": 1, "X": 2}]})
    judged = with_preferences(documents, {"d1:4": [{"A": 1, "B": 2}]})
    assert judged[0].human == {PREFERENCES: {}}
    own = judged[1].human[PREFERENCES]["A"]
    assert isinstance(own, tuple)
    assert own[:4] == (None,) * 4
    assert own[4] == pytest.approx(-0.5)


def judge(path: Path, segments: range, factor: float = 1.0, rater: str | None = None) -> None:
    """Writes the true scores of some segments of 8 documents, counted document by document."""
    documents, rows = outputs(8), []
    for place in segments:
        document, i = documents[place % 8], place // 8
        scores: Any = document.human["mqm"]
        row: dict[str, Any] = {"id": f"{document.id}:{i}", "source": "passed over"}
        row["mqm"] = {name: factor * own[i] for name, own in scores.items()}
        rows.append({**row, "rater": rater} if rater else row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_several_files_are_as_one(tmp_path: Path, capsys: Captured) -> None:
    systems = str(systems_file(tmp_path / "s.jsonl", outputs(8, judged=0)))
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    judge(first, range(6))
    judge(second, range(6, 24))
    out = tmp_path / "p.json"
    train = ["train", "prior", systems, "--human", "mqm:lower", "-o", str(out), "--quiet"]
    assert main([*train, "--judged", str(first), str(second)]) == 0
    prior = json.loads(out.read_text())
    assert (prior["segments"], prior["documents"]) == (24, 8)
    assert main([*train, "--judged", str(first), str(first)]) == 2
    assert "has a score there already" in capsys.readouterr().err


def test_a_prior_of_judgements_in_files(tmp_path: Path, capsys: Captured) -> None:
    systems = str(systems_file(tmp_path / "s.jsonl", outputs(8, judged=0)))
    judged, prior = (str(tmp_path / name) for name in ("j.jsonl", "p.json"))
    Path(judged).write_text('{"id": "d0:0", "mqm": {"A": null}}\n')
    train = ["--human", "mqm:lower", "--judged", judged, "--quiet", "-o"]
    assert main(["train", "prior", systems, *train, prior]) == 2
    assert "nobody judged a text" in capsys.readouterr().err
    judge(Path(judged), range(12), rater="anna")
    assert main(["train", "prior", systems, *train, prior]) == 0
    own = json.loads(Path(prior).read_text())
    assert own["segments"] == 12
    # one rater, however strict: the prior is that of the scores as they are
    judge(Path(judged), range(12))
    assert main(["train", "prior", systems, *train, prior]) == 0
    assert json.loads(Path(prior).read_text())["systems"] == own["systems"]


def test_a_prior_of_preferences(tmp_path: Path, capsys: Captured) -> None:
    systems = str(systems_file(tmp_path / "s.jsonl", outputs(8, judged=0)))
    ranks, prior = tmp_path / "ranks.jsonl", str(tmp_path / "p.json")
    rows = [{"id": f"d{d}:0", "ranks": {"A": 1, "B": 2, "C": 3, "D": 4}} for d in range(8)]
    ranks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["train", "prior", systems, "--rankings", str(ranks), "-o", prior, "--quiet"]) == 0
    systems_of = json.loads(Path(prior).read_text())["systems"]
    assert sorted(systems_of, key=lambda name: systems_of[name]["mean"]) == list("ABCD")
    assert main(["train", "prior", systems, "-o", prior]) == 2
    assert "--human" in capsys.readouterr().err


def test_raters_in_files(tmp_path: Path, capsys: Captured) -> None:
    systems = str(systems_file(tmp_path / "s.jsonl", outputs(8, judged=0)))
    files = [tmp_path / "anna.jsonl", tmp_path / "ben.jsonl"]
    for path, rater, factor in zip(files, ("anna", "ben"), (3.0, 1.0), strict=True):
        judge(path, range(20), factor, rater)
    out = tmp_path / "p.json"
    train = ["train", "prior", systems, "--human", "mqm:lower", "-o", str(out), "--quiet"]
    assert main([*train, "--judged", *map(str, files)]) == 0
    means = {n: own["mean"] for n, own in json.loads(out.read_text())["systems"].items()}
    assert means["A"] < means["B"] < min(means["C"], means["D"])


def test_keys_of_several_raters(tmp_path: Path, capsys: Captured) -> None:
    rows = []
    for document in by_two_raters(outputs(8)):
        systems = {name: list(texts) for name, texts in document.systems.items()}
        rows.append({"id": document.id, "systems": systems, **document.human})
    path, out = tmp_path / "s.jsonl", tmp_path / "c.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = ["train", "prior", str(path), "-o", str(out), "--quiet", "--human", "anna:lower"]
    assert main([*train, "ben:lower", "--raters"]) == 0
    means = {n: own["mean"] for n, own in json.loads(out.read_text())["systems"].items()}
    assert sorted(means, key=lambda name: means[name]) == list("ABCD")
    assert main([*train, "ben:lower"]) == 2
    assert "--raters" in capsys.readouterr().err
    assert main([*train, "ben", "--raters"]) == 2
    assert "raters of one thing" in capsys.readouterr().err


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mqm": {"A": 1}}, "id: is missing"),
    ({"id": "d0:0"}, "key of scores"),
    ({"id": "d0:0", "mqm": [1]}, "mqm: found [1], expected an object"),
    ({"id": "d0:0", "mqm": {"A": "1"}}, "mqm.A: found '1', expected a number"),
    ({"id": "d0:0", "mqm": {"X": 1}}, "'X'"),
    ({"id": "d0:9", "mqm": {"A": 1}}, "'d0:9'"),
    ({"id": "d0:0", "mqm": {"A": 1}, "rater": 3}, "rater: found 3, expected a text"),
]


@pytest.mark.parametrize(("row", "message"), WRONG)
def test_other_rows_are_refused(
    tmp_path: Path, row: dict[str, Any], message: str, capsys: Captured
) -> None:
    systems = str(systems_file(tmp_path / "s.jsonl", outputs(2, judged=0)))
    judged = tmp_path / "j.jsonl"
    judged.write_text(json.dumps(row) + "\n")
    command = ["train", "prior", systems, "--human", "mqm:lower", "--judged", str(judged)]
    assert main([*command, "-o", str(tmp_path / "c.json"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "j.jsonl:1" in error


def test_systems_that_lack_documents(tmp_path: Path) -> None:
    """B has no texts of half the documents: it is judged by the others, and decoding goes by what there is."""
    documents = []
    for d, document in enumerate(outputs(12, 12)):
        if d % 2:
            systems = {name: own for name, own in document.systems.items() if name != "B"}
            scores = {name: own for name, own in document.human["mqm"].items() if name != "B"}
            document = replace(document, systems=systems, human={"mqm": scores})
        documents.append(document)
    path, out = systems_file(tmp_path / "s.jsonl", documents), tmp_path / "c.json"
    train = ["train", "prior", str(path), "--human", "mqm:lower", "-o", str(out), "--quiet"]
    assert main(train) == 0
    systems = json.loads(out.read_text())["systems"]
    assert {name: own["segments"] for name, own in systems.items()} == {
        "A": 60,
        "B": 30,
        "C": 60,
        "D": 60,
    }
    assert sorted(systems, key=lambda name: systems[name]["mean"]) == list("ABCD")
    chosen = tmp_path / "chosen.jsonl"
    decode = ["decode", str(path), "--from", "systems", "-u", "chrf", "--prior", str(out)]
    assert main([*decode, "-o", str(chosen), "--quiet"]) == 0
    assert len(chosen.read_text().splitlines()) == 60


def test_mqm_the_wrong_way_round_is_noticed(tmp_path: Path, capsys: Captured) -> None:
    systems, out = str(systems_file(tmp_path / "s.jsonl", outputs(6))), str(tmp_path / "p.json")
    for key, is_said in (("mqm", True), ("mqm:lower", False)):
        assert main(["train", "prior", systems, "--human", key, "-o", out]) == 0
        assert ("give mqm:lower" in capsys.readouterr().err) == is_said
