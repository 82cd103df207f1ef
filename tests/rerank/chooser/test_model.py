"""A chooser as a file, what it chooses beside the arrays it was learned from, and what it says of itself."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import InputError, load_metric
from discorank.cli.commands.train.train_chooser import expected, shown
from discorank.cli.main import main
from discorank.metrics.spec.user_code import CodeRefusedError
from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.chooser.chooser_files import load_chooser
from discorank.rerank.chooser.chooser_fit import SHIP, fit
from discorank.rerank.chooser.gains import ErrorRatio, jackknife
from discorank.rerank.chooser.measured import MeasuredTexts, columns_of, utilities_of
from discorank.rerank.chooser.model import (
    ExpectedDifference,
    ExpectedRatio,
    TrainedChooser,
    read_chooser,
)
from discorank.rerank.chooser.shipped import default_chooser, shipped
from discorank.rerank.chooser.training import (
    DirectionWarning,
    judged_lists,
    learn,
    train_chooser,
)
from discorank.rerank.prior import load_prior
from discorank.rerank.selection.document_outputs import DocumentOutputs
from discorank.rerank.surface import SURFACE

WORDS = ["the", "cat", "sat", "on", "a", "mat", "today", "3", "dogs", "ran", ".", "?"]


def outputs(documents: int = 8, judged: int = 8, seed: int = 0) -> list[DocumentOutputs]:
    """Documents of five segments; a system garbles more words the later it stands, and people count them."""
    random = np.random.default_rng(seed)
    made = []
    for d in range(documents):
        texts: dict[str, list[str]] = {name: [] for name in "ABCD"}
        scores: dict[str, list[float | None]] = {name: [] for name in "ABCD"}
        source = []
        for _ in range(5):
            words = [str(word) for word in random.choice(WORDS, 8)]
            source.append(" ".join(words))
            for k, name in enumerate("ABCD"):
                wrong = random.random(8) < 0.08 * (k + 1)
                garbled = [f"{w}x{name}" if bad else w for w, bad in zip(words, wrong, strict=True)]
                texts[name].append(" ".join(garbled))
                scores[name].append(float(wrong.sum()) if d < judged else None)
        systems = {name: tuple(own) for name, own in texts.items()}
        human = {"mqm": {name: tuple(own) for name, own in scores.items()}}
        made.append(DocumentOutputs(f"d{d}", False, tuple(source), systems, {}, human))
    return made


def trained(**settings: Any) -> TrainedChooser:
    utility = load_metric("chrf")
    return train_chooser(outputs(), "mqm", True, utility, ("longer", "numbers"), **settings)


def test_a_chooser_comes_back_from_its_file(tmp_path: Path) -> None:
    chooser = trained()
    path = tmp_path / "chooser.json"
    path.write_text(json.dumps(with_checksum(chooser.as_json())))
    assert load_chooser(path) == chooser
    assert load_chooser(chooser) is chooser
    assert load_chooser(path).digest == chooser.digest
    assert load_prior(path) == chooser.prior


def test_decoding_chooses_what_the_arrays_say() -> None:
    """The reranker of a file chooses as `Fit` does, features, prior and all."""
    documents = outputs()
    lists, scores, document = judged_lists(documents, "mqm", True)
    utility = load_metric("chrf")
    data = MeasuredTexts(
        utilities_of(utility, lists),
        columns_of(SURFACE, lists),
        np.sqrt(scores),
        document,
        scores,
    )
    learned = fit(data, shipped().defaults(len(SURFACE)))
    chooser = train_chooser(documents, "mqm", True, utility, SURFACE)
    weights = dict(zip(SURFACE, learned.weights[1:].tolist(), strict=True))
    assert dict(chooser.weights) == pytest.approx(weights)
    values = learned.values(data)
    rankings = list(chooser.reranker(nbest=None).decode(lists))
    for i, ranking in enumerate(rankings):
        assert ranking.utility == pytest.approx(values[i].max(), abs=1e-9)
        assert values[i, ranking.index] == pytest.approx(values[i].max(), abs=1e-9)


def test_documents_that_nobody_judged_change_nothing() -> None:
    utility = load_metric("chrf")
    of_judged = train_chooser(outputs(6, 6), "mqm", True, utility, SURFACE)
    with_others = train_chooser(outputs(9, 6), "mqm", True, utility, SURFACE)
    prior = of_judged.prior
    assert replace(with_others, prior=prior) == of_judged


def test_scores_of_whole_documents(tmp_path: Path) -> None:
    documents = []
    for document in outputs(12):
        own = {
            name: float(sum(score or 0 for score in scores))
            for name, scores in document.human["mqm"].items()
            if isinstance(scores, tuple)
        }
        documents.append(replace(document, human={"mqm": own}))
    chooser = train_chooser(documents, "mqm", True, load_metric("chrf"), SURFACE)
    assert chooser.prior is not None
    assert chooser.prior.segments == 12


def higher_is_better() -> list[DocumentOutputs]:
    """The same with five points for a text without an error."""
    documents = []
    for document in outputs():
        own = {
            name: tuple(5.0 - (score or 0) for score in scores)
            for name, scores in document.human["mqm"].items()
            if isinstance(scores, tuple)
        }
        documents.append(replace(document, human={"mqm": own}))
    return documents


def test_higher_is_better(tmp_path: Path) -> None:
    chooser = train_chooser(higher_is_better(), "mqm", False, load_metric("chrf"))
    assert chooser.prior is not None
    best = min(chooser.prior.systems, key=lambda pair: pair[1].mean)
    assert best[0] == "A"
    expectation = chooser.expectation
    assert isinstance(expectation, ExpectedDifference)
    assert expectation.system == "A"
    assert expectation.low < expectation.difference < expectation.high
    path = tmp_path / "chooser.json"
    path.write_text(json.dumps(with_checksum(chooser.as_json())))
    assert load_chooser(path) == chooser
    assert "standard deviations within a segment" in expected(chooser)
    assert "minus scores beside the mean system's" in shown(chooser)
    assert "  errors beside the mean system's" in shown(trained())


def test_scores_the_wrong_way_round_are_noticed() -> None:
    with pytest.warns(DirectionWarning, match="higher is better.*give mqm:lower"):
        train_chooser(outputs(), "mqm", False, load_metric("chrf"))
    turned = []
    for document in outputs():
        scores = {name: tuple(-x for x in own) for name, own in document.human["mqm"].items()}  # type: ignore[union-attr, operator]
        turned.append(replace(document, human={"mqm": scores}))
    with pytest.warns(DirectionWarning, match="lower is better.*leave :lower out"):
        train_chooser(turned, "mqm", True, load_metric("chrf"))


def test_errors_read_as_scores_are_noticed_by_their_name() -> None:
    few = outputs(2)  # of which nothing is beyond chance
    with pytest.warns(
        DirectionWarning, match="MQM counts errors where no score is below 0.*give mqm:lower"
    ):
        train_chooser(few, "mqm", False, load_metric("chrf"))
    renamed = [replace(document, human={"points": document.human["mqm"]}) for document in few]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DirectionWarning)
        train_chooser(renamed, "points", False, load_metric("chrf"))


def test_a_utility_that_is_not_finite_says_what_to_do() -> None:
    lists, _, _ = judged_lists(outputs(1), "mqm", True)

    def never(hypothesis: str, reference: str) -> float:
        return 1.0 if hypothesis == reference else float("nan")

    with pytest.raises(
        InputError, match=r"not finite, of .* pairs.*null in place of its judgements"
    ):
        utilities_of(load_metric(never), lists)


def test_a_chooser_that_ships_takes_the_best_system() -> None:
    chooser = replace(trained(), strength=SHIP, weights=(), consensus=1.0)
    assert chooser.ships
    lists, _, _ = judged_lists(outputs(seed=3), "mqm", True)
    for ranking, record in zip(chooser.reranker().decode(lists), lists, strict=True):
        assert ranking.text == record.candidates[0].text


def test_the_default_is_plain_consensus_with_where_it_is_from() -> None:
    chooser = default_chooser()
    assert chooser.prior is None
    assert not any(weight for _, weight in chooser.weights)
    assert "public sets" in chooser.provenance
    assert load_chooser("default") == chooser


WRONG: dict[str, Any] = {
    "kind": "discorank-prior",
    "format": 2,
    "utility": 3,
    "weights": [1],
    "consensus": float("nan"),
    "strength": -1.0,
    "prior": {},
    "difficulty": {},
    "expectation": {"system": "A"},
    "provenance": None,
}


@pytest.mark.parametrize("key", WRONG)
def test_other_values_are_refused(key: str) -> None:
    data = trained().as_json()
    with pytest.raises(InputError):
        read_chooser({**data, key: WRONG[key]})
    with pytest.raises(InputError, match=r"expected a chooser|missing or unknown"):
        read_chooser({name: value for name, value in data.items() if name != key})


@pytest.mark.parametrize("number", [float("inf"), 1e7, "1", True, None])
def test_weights_out_of_range_are_refused(number: Any) -> None:
    data = trained().as_json()
    with pytest.raises(InputError, match=r"weights\.longer"):
        read_chooser({**data, "weights": {"longer": number}})
    with pytest.raises(InputError, match="without a prior"):
        read_chooser({**data, "prior": None})


def test_damage_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "chooser.json"
    text = json.dumps(with_checksum(trained().as_json()))
    path.write_text(text.replace('"provenance": "', '"provenance": "x'))
    with pytest.raises(InputError, match="damaged or was edited"):
        load_chooser(path)


def test_code_that_a_file_names_is_not_run() -> None:
    chooser = replace(trained(), utility="os:getcwd")
    with pytest.raises(CodeRefusedError):
        chooser.reranker()
    chooser = replace(trained(), weights=(("os:getcwd", 1.0),))
    with pytest.raises(CodeRefusedError):
        chooser.reranker()


def test_a_gain_by_the_jackknife() -> None:
    chosen, single = np.array([1.0, 2.0, 3.0, 2.0]), np.array([2.0, 2.0, 4.0, 4.0])
    gain = jackknife(chosen, single, np.arange(4))
    assert gain.ratio == pytest.approx(8.5 / 12.5)
    logs = [np.log((8 - c + 0.5) / (12 - s + 0.5)) for c, s in zip(chosen, single, strict=True)]
    variance = 3 / 4 * sum((value - np.mean(logs)) ** 2 for value in logs) * 3
    assert gain.deviation == pytest.approx(variance**0.5)
    assert jackknife(chosen, single, np.array([0, 0, 1, 2])).deviation == np.inf


def test_gains_are_mixed_by_their_precision() -> None:
    assert ErrorRatio(0.0, 1.0).mixed(ErrorRatio(1.0, 1.0)) == pytest.approx((0.5, 0.5**0.5))
    assert ErrorRatio(3.0, np.inf).mixed(ErrorRatio(1.0, 2.0)) == pytest.approx((1.0, 2.0))
    assert ErrorRatio(1.0, 2.0).mixed(ErrorRatio(3.0, np.inf)) == (1.0, 2.0)


def test_where_choosing_makes_more_errors_the_best_system_is_taken() -> None:
    """Consensus is of three poor systems, and the fourth stands apart and makes no errors."""
    random = np.random.default_rng(0)
    utilities = np.full((60, 4, 4), 50.0) + random.uniform(0, 1, (60, 4, 4))
    utilities[:, 3], utilities[:, :, 3] = 10.0, 10.0
    utilities[:, range(4), range(4)] = 100.0
    scores = np.abs(np.array([4.0, 4.0, 4.0, 1.0]) + random.normal(0, 0.3, (60, 4)))
    data = MeasuredTexts(
        utilities, np.zeros((60, 4, 0)), np.sqrt(scores), np.arange(60) // 4, scores
    )
    believed = shipped().defaults(0)
    # consensus is believed in, and nothing of systems
    losses = np.where(np.arange(8) == 0, -1.0, 1.0)
    stubborn = believed._replace(weights=np.full((8, 1), 5.0), losses=losses, spreads=np.zeros(8))
    learned, gain = learn(data, stubborn, ErrorRatio(0.0, 0.2))
    assert gain.ratio > 1.05
    assert gain.as_good
    assert learned.strength == SHIP
    assert set(learned.choices(data).tolist()) == {3}
    _, gain = learn(data, believed, ErrorRatio(-1.0, 0.01))
    assert gain.ratio <= 1.0  # what is believed otherwise finds the best system by itself


@pytest.mark.parametrize(("key", "value"), [("difference", "1"), ("ships", 0), ("ratio", 1.0)])
def test_other_differences_are_refused(key: str, value: Any) -> None:
    chooser = replace(trained(), expectation=ExpectedDifference("A", -0.1, -0.3, 0.1, ships=True))
    data = chooser.as_json()
    assert read_chooser(data) == chooser
    with pytest.raises(InputError, match="expectation"):
        read_chooser({**data, "expectation": {**data["expectation"], key: value}})


def systems_file(path: Path, documents: list[DocumentOutputs]) -> Path:
    rows = []
    for document in documents:
        systems = {name: list(texts) for name, texts in document.systems.items()}
        mqm = {name: list(scores) for name, scores in document.human["mqm"].items()}  # type: ignore[arg-type]
        rows.append({"id": document.id, "source": document.source, "systems": systems, "mqm": mqm})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = systems_file(tmp_path / "judged.jsonl", outputs())
    new = systems_file(tmp_path / "new.jsonl", outputs(seed=5))
    chooser, out = str(tmp_path / "chooser.json"), str(tmp_path / "out.jsonl")
    assert (
        main(
            ["train", "chooser", str(judged), "--human", "mqm:lower", "-o", chooser, "-m", "longer"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "expected: too few documents are judged to tell choosing from shipping A" in printed
    decode = ["decode", str(new), "--from", "systems", "--chooser", chooser, "-o", out, "--quiet"]
    assert main(decode) == 0
    assert main(decode) == 0  # goes on, and there is nothing to do
    rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
    assert len(rows) == 40
    lists, _, _ = judged_lists(outputs(seed=5), "mqm", True)
    rankings = load_chooser(chooser).reranker().decode(lists)
    assert [row["text"] for row in rows] == [ranking.text for ranking in rankings]


def test_what_is_expected_in_one_line() -> None:
    believed = ExpectedRatio("A", 0.9, 0.8, 1.01, ships=False)
    chooser = replace(trained(), strength=6.0, expectation=believed)
    assert expected(chooser) == "expected: 10.0 % fewer errors than shipping A [-1, +20]"
    worse = replace(chooser, expectation=replace(believed, ratio=1.02, high=1.2))
    assert expected(worse) == "expected: 2.0 % more errors than shipping A [-20, +20]"
    level = replace(chooser, expectation=ExpectedRatio("A", 0.99, 0.97, 1.01, ships=True))
    assert expected(level) == "ship A: choosing makes 1.0 % fewer errors [-1, +3]"
    ships = replace(worse, strength=SHIP, expectation=ExpectedRatio("A", 1.1, 1.0, 1.2, ships=True))
    line = "ship A, as this chooser does: choosing would make 10.0 % more errors [+0, +20]"
    assert expected(ships) == line


def test_what_is_expected_of_other_sets_alone_says_so() -> None:
    gain = shipped().gain
    of_others = ExpectedRatio("A", gain.ratio, *gain.interval, ships=False)
    chooser = replace(trained(), strength=6.0, expectation=of_others)
    suffix = ", as on other sets: too few documents are judged to tell"
    assert expected(chooser).endswith(suffix)
    own = replace(chooser, expectation=replace(of_others, high=of_others.high - 1e-6))
    assert suffix not in expected(own)


def test_what_is_expected_of_scores_in_one_line() -> None:
    better = ExpectedDifference("A", 0.123, -0.02, 0.27, ships=False)
    chooser = replace(trained(), strength=6.0, expectation=better)
    unit = "standard deviations within a segment"
    assert (
        expected(chooser) == f"expected: scores 0.12 {unit} better than shipping A [-0.02, +0.27]"
    )
    level = replace(chooser, expectation=ExpectedDifference("A", 0.0, -0.02, 0.02, ships=True))
    assert expected(level) == f"ship A: choosing gives scores 0.00 {unit} better [-0.02, +0.02]"
    worse = ExpectedDifference("A", -0.1, -0.3, 0.1, ships=True)
    ships = replace(chooser, strength=SHIP, expectation=worse)
    line = f"ship A, as this chooser does: choosing would give scores 0.10 {unit} worse"
    assert expected(ships) == f"{line} [-0.10, +0.30]"


def test_why_nothing_is_expected() -> None:
    chooser = replace(trained(), expectation=None)
    line = "expected: too few documents are judged to tell choosing from shipping A"
    assert expected(chooser) == line
    assert expected(default_chooser()).endswith("before segments are judged")


def test_without_judgements_the_default_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chooser.json"
    assert main(["train", "chooser", "-o", str(path)]) == 0
    assert load_chooser(path) == default_chooser()
    assert "before segments are judged" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option",
    [["-u", "chrf"], ["--prior", "p.json"], ["--oracle"], ["--budget", "0.1"], ["--no-self-pair"]],
)
def test_what_a_chooser_settles_is_refused_beside_it(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": "a", "candidates": ["x", "y"]}\n')
    assert main(["decode", str(lists), "--chooser", "default", *option]) != 0
    assert "stands beside --chooser" in capsys.readouterr().err
