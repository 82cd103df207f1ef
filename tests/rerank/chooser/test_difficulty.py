"""What a chooser says of its choices: worked examples, what it learns, and rows of a run."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import numpy as np
import pytest

from discorank import InputError, load_metric
from discorank.cli.main import main
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.chooser.difficulty import (
    Difficulty,
    calibration_of,
    learned_difficulty,
    traits_of,
)
from discorank.rerank.chooser.model import read_chooser
from discorank.rerank.chooser.shipped import default_chooser, shipped
from discorank.rerank.chooser.training import judged_lists, train_chooser
from discorank.rerank.lists import read_list

from .test_model import higher_is_better, outputs, systems_file

PLAIN = Difficulty(
    intercept=2.0,
    slopes=(0.5, 0.0, 0.0, 0.0),
    means=(3.0, 0.0, 0.0, 0.0),
    scales=(2.0, 1.0, 1.0, 1.0),
    residual=1.0,
    factor=0.5,
    calibration=(1.0, -2.0),
)


def test_expected_scores_by_hand() -> None:
    errors = PLAIN.errors(np.array([[5.0, 9, 9, 9], [3.0, 9, 9, 9]]), np.array([0.5, 3.0]))
    assert errors.tolist() == [2.0, -1.0]  # 2 + 0.5 (5 - 3) / 2 - 0.5, and 2 - 3
    assert PLAIN.scores(errors, 2.0, rooted=True).tolist() == [10.0, 2.0]  # 4 (2^2 + 1) / 2
    assert PLAIN.scores(errors, 2.0, rooted=False).tolist() == [4.0, -2.0]
    assert PLAIN.probability(2.0) == pytest.approx(1 / (1 + exp(3)))
    assert PLAIN.probability(1e9) == pytest.approx(0.0)


def test_traits_by_hand() -> None:
    record = read_list({"id": "a", "candidates": ["a b", "a b", "a cd"]})
    # median length 3; "cd" and "b" twice; log(5 / 4) off the median; two of three are distinct
    expected = [np.log(4), (0 + 0 + 0.5) / 3, np.log(5 / 4) / 3, 2 / 3]
    assert traits_of(record) == pytest.approx(np.array(expected))


def test_harder_segments_are_learned() -> None:
    random = np.random.default_rng(0)
    traits = random.normal(size=(300, 4))
    errors = np.abs(4 + traits[:, :1] + 0.3 * random.normal(size=(300, 5)))
    values = 0.1 * random.normal(size=(300, 5))
    learned = learned_difficulty(traits, errors, values, 1.0, True, shipped().difficulty)
    assert learned.slopes[0] == pytest.approx(0.8, abs=0.2)
    assert abs(learned.slopes[2]) < 0.1
    expected = learned.scores(learned.errors(traits, np.zeros(300)), 1.0, rooted=True)
    assert expected.mean() == pytest.approx((errors**2).mean(), rel=0.1)
    assert np.corrcoef(expected, (errors**2).mean(axis=1))[0, 1] > 0.9


def test_few_segments_have_default_slopes() -> None:
    traits, errors = np.array([[1.0, 0, 0, 1]]), np.array([[1.0, np.nan, 2.0]])
    default = shipped().difficulty
    learned = learned_difficulty(traits, errors, np.zeros((1, 3)), 1.0, True, default)
    assert learned.slopes == pytest.approx(default.slopes)
    assert learned.intercept == 1.5
    assert learned.calibration == default.calibration


def test_a_calibration_is_found_again() -> None:
    random = np.random.default_rng(1)
    errors = random.uniform(0, 3, 5000)
    best = random.random(5000) < 1 / (1 + np.exp(-1 + 1.5 * errors))
    assert calibration_of(errors, best.astype(float)) == pytest.approx((1.0, -1.5), abs=0.2)


def test_rows_say_what_to_expect(tmp_path: Path) -> None:
    utility = load_metric("chrf")
    documents = outputs(12)
    chooser = train_chooser(documents, "mqm", True, utility)
    file, out = systems_file(tmp_path / "new.jsonl", documents), tmp_path / "out.jsonl"
    path = tmp_path / "chooser.json"
    path.write_text(json.dumps(with_checksum(chooser.as_json())))
    command = ["decode", str(file), "--from", "systems", "--chooser", str(path), "--quiet"]
    assert main([*command, "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    scores = np.array([row["chooser"]["expected_score"] for row in rows])
    probabilities = np.array([row["chooser"]["probability"] for row in rows])
    assert ((probabilities > 0) & (probabilities < 1)).all()
    lists, found, _ = judged_lists(documents, "mqm", True)
    rankings = list(chooser.reranker().decode(lists))
    chosen = [found[i, ranking.index] for i, ranking in enumerate(rankings)]
    assert np.mean(chosen) / 2 < scores.mean() < np.mean(chosen) * 2


def test_scores_of_which_higher_is_better_are_expected_as_people_give_them(tmp_path: Path) -> None:
    documents = higher_is_better()
    file, out, path = (tmp_path / name for name in ("s.jsonl", "out.jsonl", "c.json"))
    systems_file(file, documents)
    human = ["--human", "mqm", "-u", "chrf", "-m", "none", "--quiet"]
    assert main(["train", "chooser", str(file), *human, "-o", str(path)]) == 0
    decode = ["decode", str(file), "--from", "systems", "--chooser", str(path), "--quiet"]
    assert main([*decode, "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    said = np.mean([row["chooser"]["expected_score"] for row in rows])
    _, turned, _ = judged_lists(documents, "mqm", False)
    given = [-turned[i, row["index"]] for i, row in enumerate(rows)]
    # better than the mean text's, and not beyond what was chosen
    assert -np.nanmean(turned) < said < np.mean(given)


def test_without_judgements_there_is_a_probability_and_no_score(tmp_path: Path) -> None:
    lists, out = tmp_path / "lists.jsonl", tmp_path / "out.jsonl"
    lists.write_text(
        '{"id": "a", "candidates": ["x y", "x z"]}\n{"id": "b", "candidates": ["x"]}\n'
    )
    assert main(["decode", str(lists), "--chooser", "default", "-o", str(out), "--quiet"]) == 0
    for line in out.read_text().splitlines():
        statement = json.loads(line)["chooser"]
        assert statement["expected_score"] is None
        assert 0 < statement["probability"] < 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slopes", [1.0]),
        ("scales", [1.0, 1.0, 0.0, 1.0]),
        ("residual", "1"),
        ("factor", float("nan")),
    ],
)
def test_other_difficulties_are_refused(name: str, value: object) -> None:
    data = default_chooser().as_json()
    with pytest.raises(InputError, match=f"difficulty.{name}"):
        read_chooser({**data, "difficulty": {**data["difficulty"], name: value}})
