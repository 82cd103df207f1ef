"""Judgements of another domain: what weight does, and that it is found where domains agree and where they do not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discorank import load_metric
from discorank.cli.main import main
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.chooser_fit import fit
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.other_domains import DEFAULT, WEIGHTS, learned_weight
from discorank.rerank.chooser.training import train_chooser
from discorank.rerank.selection.document_outputs import DocumentOutputs
from discorank.rerank.selection.shrinkage import shrunk

from .test_chooser_fit import made, plain_defaults
from .test_model import outputs, systems_file


def two_domains(agree: bool, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Errors of 40 segments of a domain, then of 200 of another, and which are of the other."""
    random = np.random.default_rng(seed)
    own, other = random.normal(0, 1, (2, 6))
    errors = random.normal(0, 2, (240, 6))
    errors[:40] += own
    errors[40:] += own if agree else 3 * other
    return errors, (np.arange(240) >= 40).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_the_weight_says_whether_domains_agree(seed: int) -> None:
    document = np.arange(240) // 4
    errors, is_other = two_domains(True, seed)
    assert learned_weight(errors, document, is_other) >= 0.3
    errors, is_other = two_domains(False, seed)
    assert learned_weight(errors, document, is_other) == WEIGHTS[-1]


def test_few_documents_have_the_default_weight() -> None:
    errors, is_other = two_domains(True)
    one_document = np.where(is_other > 0, np.arange(240), 0)
    assert learned_weight(errors[10:], one_document[10:], is_other[10:]) == DEFAULT


def test_a_whole_weight_is_a_segment_twice() -> None:
    """A segment of weight 2 counts as two: the same effects, and the same noise but for sigma."""
    errors = np.random.default_rng(1).normal(size=(30, 4))
    errors[np.random.default_rng(2).random(errors.shape) < 0.2] = np.nan
    weight = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(30), weight.astype(int))
    weighted = shrunk(errors, np.arange(30), weight)
    repeated = shrunk(errors[twice], twice)
    assert weighted.effects == pytest.approx(repeated.effects)
    ones = shrunk(errors, np.arange(30), np.ones(30))
    assert np.array_equal(ones.means, shrunk(errors, np.arange(30)).means)


def test_strength_and_expectation_are_of_the_domain_itself() -> None:
    data, others = made(0, segments=60), made(1, segments=60)
    joined = MeasuredTexts(
        np.concatenate([data.utilities, others.utilities]),
        np.concatenate([data.columns, others.columns]),
        np.concatenate([data.errors, others.errors]),
        np.concatenate([data.document, 100 + others.document]),
        np.concatenate([data.scores, others.scores]),
        np.repeat([1.0, 0.2], 60),
    )
    learned = fit(joined, plain_defaults(2))
    assert joined.own.tolist() == list(range(60))
    assert learned.held_out.shape == (60, 4)
    alone = fit(data, plain_defaults(2))
    assert not np.array_equal(learned.means, alone.means)
    least = fit(joined._replace(weight=np.repeat([1.0, 1e-9], 60)), plain_defaults(2))
    # but for sigma, which is of both
    assert least.weights == pytest.approx(alone.weights, rel=0.05)
    assert least.means == pytest.approx(alone.means, rel=0.05)
    assert joined._replace(weight=np.full(120, 0.2)).own.tolist() == list(range(120))


def turned_round(documents: list[DocumentOutputs]) -> list[DocumentOutputs]:
    """The same texts, the scores of A those of D, B's those of C, ..."""
    turned = []
    for document in documents:
        scores = document.human["mqm"]
        human = {"mqm": {name: scores[other] for name, other in zip("ABCD", "DCBA", strict=True)}}
        turned.append(replace(document, human=human))
    return turned


def test_a_few_judgements_of_the_domain_and_many_of_another() -> None:
    utility = load_metric("chrf")
    own, agreeing = outputs(2), outputs(12, 12, seed=1)

    def errors_of_means(also: list[DocumentOutputs], weight: float | None) -> dict[str, float]:
        chooser = train_chooser(own, "mqm", True, utility, also=also, also_weight=weight)
        assert chooser.prior is not None
        return {name: system.error for name, system in chooser.prior.systems}

    alone, joined = errors_of_means([], None), errors_of_means(agreeing, 0.5)
    assert all(joined[name] < alone[name] for name in "ABCD")
    chooser = train_chooser(outputs(8), "mqm", True, utility, also=turned_round(agreeing))
    assert chooser.prior is not None
    assert min(chooser.prior.systems, key=lambda pair: pair[1].mean)[0] == "A"
    assert "60 of another domain" in chooser.provenance


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = str(systems_file(tmp_path / "own.jsonl", outputs(6)))
    other = str(systems_file(tmp_path / "other.jsonl", outputs(6, seed=3)))
    out = tmp_path / "c.json"
    train = ["train", "chooser", own, "--human", "mqm:lower", "-o", str(out), "--quiet"]
    assert main([*train, "--also", other, "--also-weight", "0.3"]) == 0
    assert json.loads(out.read_text())["prior"]["segments"] == 60
    assert "30 of another domain, which count 0.3" in capsys.readouterr().out
    assert main([*train, "--also", other]) == 0
    assert main([*train, "--also-weight", "0.3"]) == 2
    assert "without --also" in capsys.readouterr().err


def test_another_domain_of_other_systems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = str(systems_file(tmp_path / "own.jsonl", outputs(6)))
    # a judged reference of both is no system of both
    reference = (
        '"references": {"human": ["a", "b", "c", "d", "e"]}, "mqm": {"human": [0, 0, 0, 0, 0], '
    )
    judged = Path(own).read_text().replace('"mqm": {', reference)
    Path(own).write_text(judged)
    strange = judged.translate(str.maketrans("ABCD", "STUV"))
    (tmp_path / "other.jsonl").write_text(strange)
    train = ["train", "chooser", own, "--human", "mqm:lower", "-o", str(tmp_path / "c.json")]
    assert main([*train, "--also", str(tmp_path / "other.jsonl")]) == 2
    message = capsys.readouterr().err
    assert "other.jsonl: judges S, T, U, V, and none that the domain judges (A, B, C, D)" in message
    assert "under the same names, or leave --also out" in message
    common = strange.replace('"T"', '"A"')
    (tmp_path / "other.jsonl").write_text(common)
    assert main([*train, "--also", str(tmp_path / "other.jsonl"), "--quiet"]) == 0
