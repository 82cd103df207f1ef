"""The benchmarks of contexts, on a small systems file and a metric of a few lines."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.choice_quality.context_choice import (
    Row,
    expected_picks,
    rows_of,
    sequential_picks,
    utility_table,
)
from benchmarks.metric_quality.context_agreement import (
    Choices,
    Values,
    agreement,
    agreements,
    likelihood_lists,
)
from benchmarks.metric_quality.context_tables import Agreement, markdown
from benchmarks.speed import context_cost
from benchmarks.support.context_readings import (
    KeptUtilities,
    Reading,
    candidate_items,
    comparisons,
    utilities,
)
from benchmarks.support.judged_segments import JudgedSegments, contexts_of
from benchmarks.support.kept_arrays import KeptArrays
from discorank import load_metric
from discorank.rerank.mbr_decoder import MBRDecoder
from discorank.rerank.tuning.candidate_features import features

from ..support.contextual import Echo, NewLetters
from ..support.tiny_causal import write_causal

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]


def systems_file(folder: Path, name: str = "toy.xx-en", documents: int = 12) -> Path:
    """Documents of four sentences by systems A to D, of which B is not judged on every first one."""
    random = np.random.default_rng(len(name))
    lines = []
    for d in range(documents):
        systems = {s: [" ".join(random.choice(WORDS, 5)) for _ in range(4)] for s in "ABCD"}
        mqm: dict[str, Any] = {s: random.integers(0, 9, 4).tolist() for s in "ABCD"}
        mqm["B"][0] = None
        references = {"refA": [" ".join(random.choice(WORDS, 5)) for _ in range(4)]}
        row = {"id": f"d{d}", "source": [f"s{i}" for i in range(4)], "references": references}
        lines.append(json.dumps(row | {"systems": systems, "mqm": mqm}) + "\n")
    path = folder / f"mt_mqm_{name}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


@pytest.fixture
def data(tmp_path: Path) -> JudgedSegments:
    return JudgedSegments(systems_file(tmp_path))


def texts(data: JudgedSegments, i: int) -> list[str]:
    return [str(candidate.text) for candidate in data.records[i].candidates]


def test_readings_put_other_sentences_before(data: JudgedSegments) -> None:
    i = data.rated[1]  # the third sentence of the first document
    assert data.records[i].position == 2
    hypotheses = list(candidate_items(data, Reading.of("hypothesis-2")))[1]
    assert [item.context for item in hypotheses] == [
        (texts(data, i - 2)[s], texts(data, i - 1)[s]) for s in range(4)
    ]
    references = list(candidate_items(data, Reading.of("reference-1")))[1]
    assert {item.context for item in references} == {(data.references[i - 1],)}
    alone = list(candidate_items(data, Reading.of("alone")))[1]
    assert {item.context for item in alone} == {()}


def test_utilities_are_those_of_the_metric(data: JudgedSegments) -> None:
    metric = Echo(context=2)
    values = utilities(metric, data, Reading.of("reference-2"))
    assert values.shape == (36, 4, 5)
    i = data.rated[2]
    context = list(data.contexts("reference-2"))[i]
    expected = metric.pairwise(texts(data, i), texts(data, i), context=context)
    assert values[2, :, :4].tolist() == expected.tolist()
    # against the reference as `score` and `compare` have it
    one_reference = [
        replace(record, references=(reference,))
        for record, reference in zip(data.records, data.references, strict=True)
    ]
    scores = features(metric, one_reference, "references")
    assert values[:, :, 4].tolist() == [scores[i].tolist() for i in data.rated]


def test_the_reference_stands_behind_its_own_sentences(data: JudgedSegments) -> None:
    row = list(comparisons(data, Reading.of("hypothesis-1")))[3]
    i = data.rated[3]
    assert [item.text for item in row.references] == [*texts(data, i), data.references[i]]
    assert row.references[4].context == (data.references[i - 1],)
    assert row.references[:4] == row.hypotheses


def test_the_choice_goes_from_left_to_right(data: JudgedSegments) -> None:
    metric = Echo(context=1)
    picks = sequential_picks(metric, data)
    of_all = [ranking.index for ranking in MBRDecoder(utility=metric).decode(data.records)]
    contexts = list(contexts_of(data.records, of_all, 1))
    for place, i in enumerate(data.rated[:8]):
        matrix = metric.pairwise(texts(data, i), texts(data, i), context=contexts[i])
        assert picks[place] == int(matrix.mean(axis=1).argmax())


def test_ties_go_to_the_first() -> None:
    matrices = np.zeros((1, 3, 4))
    matrices[0, 1:, :3] = 1.0
    matrices[0, 0, 3] = 9.0  # the reference is nobody's pseudo-reference
    assert expected_picks(matrices).tolist() == [1]


def test_arrays_are_computed_once(tmp_path: Path) -> None:
    calls = []

    def compute() -> Any:
        calls.append(1)
        return np.arange(3.0)

    assert KeptArrays(tmp_path, only=True).array("a", "key", compute) is None
    for _ in range(2):
        array = KeptArrays(tmp_path).array("a", "key", compute)
        assert array is not None
        assert array.tolist() == [0, 1, 2]
    assert len(calls) == 1
    KeptArrays(tmp_path).array("a", "other", compute)
    assert len(calls) == 2


class Toys(KeptUtilities):
    """Kept utilities of a toy metric."""

    def metric(self, name: str, width: int) -> Any:
        return Echo(context=width)


def test_the_table_of_choices_has_differences_and_changes(
    data: JudgedSegments, tmp_path: Path
) -> None:
    kept = Toys(tmp_path / "kept")
    readings = ["alone", "chosen-1", "reference-2"]
    (row,) = rows_of(kept, [data], "echo", readings)
    lines = utility_table("echo", [row]).splitlines()
    assert lines[0] == "| `echo` | alone | chosen-1 | reference-2 |"
    mqm = np.array(data.mqm)
    alone = mqm[np.arange(36), row.picks["alone"]].mean() / mqm.mean()
    chosen = mqm[np.arange(36), row.picks["chosen-1"]].mean() / mqm.mean()
    cells = lines[2].split(" | ")
    assert cells[1].startswith(f"{alone:.3f} [")
    assert cells[2].startswith(f"{chosen - alone:+.3f} [")
    assert cells[2].endswith(f", {row.changed('chosen-1'):.0%}")
    # nothing is computed a second time
    again = list(rows_of(Toys(tmp_path / "kept", only=True), [data], "echo", readings))
    assert again[0].picks["chosen-1"].tolist() == row.picks["chosen-1"].tolist()
    assert not list(rows_of(Toys(tmp_path / "no", only=True), [data], "echo", readings))


def test_a_change_is_another_text(data: JudgedSegments) -> None:
    picks = np.zeros(36, int)
    other = picks.copy()
    other[:9] = 1
    assert Row(data, {"alone": picks, "x": other}).changed("x") == 0.25


def test_agreement_is_that_of_scipy(data: JudgedSegments) -> None:
    random = np.random.default_rng(1)
    human = -np.array(data.mqm)
    base, values = random.normal(size=(2, 36, 4))
    own = agreement(data, "m", "reference-1", values, base, 50)
    people = human.mean(axis=0)
    assert own.values[0] == pytest.approx(stats.pearsonr(values.mean(axis=0), people).statistic)
    pairs = zip(values, human, strict=True)
    taus = [stats.kendalltau(a, b).statistic for a, b in pairs if np.ptp(b)]
    assert own.values[1] == pytest.approx(np.mean(taus))
    assert own.counts == (36, 12, 4)
    assert all(p is not None and 0 < p <= 1 for p in own.p)
    perfect = agreement(data, "m", "alone", human, human, 50)
    assert np.allclose(perfect.values, 1)
    assert perfect.p == (None, None)
    assert np.allclose(perfect.draws[0], 1)


def test_context_that_is_worse_is_found_worse(data: JudgedSegments) -> None:
    human = -np.array(data.mqm)
    noise = np.random.default_rng(2).normal(size=human.shape)
    rows = agreements(
        [data],
        ["m"],
        ["reference-1"],
        lambda data, metric, reading: human + (9 * noise if reading.width else 0.1 * noise),
        100,
    )
    alone, behind = rows
    assert behind.values[1] < alone.values[1]
    p = behind.p[1]
    assert p is not None
    assert p < 0.05
    table = markdown([alone, behind])
    less = behind.values[1] - alone.values[1]
    assert f"| {less:+.3f} [" in table
    assert f", p {p:.2f} |" in table


def test_means_are_over_sets() -> None:
    def row(name: str, reading: str, value: float) -> Agreement:
        draws = np.full(10, value)
        return Agreement(name, "m", reading, (value, value), (draws, draws), counts=(1, 2, 3))

    rows = [row("a", "alone", 0.2), row("a", "reference-1", 0.5)]
    rows += [row("b", "alone", 0.4), row("b", "reference-1", 0.5)]
    lines = markdown(rows).splitlines()
    assert lines[0] == "| `m`: Pearson of systems | alone | reference-1 |"
    assert lines[4] == "| mean (2) | 0.300 [0.300, 0.300] | +0.200 [+0.200, +0.200] |"
    assert lines[-1] == "| b | 1 | 2 | 3 |"
    # a set that lacks a reading
    assert markdown(rows[:3]).splitlines()[4] == "| mean (2) | 0.300 [0.300, 0.300] | - |"
    assert markdown([]) == "nothing yet\n"
    # whose sentences: 0.5 - 0.2 and 0.5 - 0.3
    rows += [row("a", "hypothesis-1", 0.2), row("b", "hypothesis-1", 0.3)]
    difference = "+0.250 [+0.250, +0.250]"
    whose = f"| `reference-1` less `hypothesis-1`, mean (2) | {difference} | {difference} |"
    assert whose in markdown(rows).splitlines()


def test_candidates_behind_their_own_sentences_are_lists_of_one(data: JudgedSegments) -> None:
    own = list(likelihood_lists(data, Reading.of("hypothesis-1")))
    assert len(own) == 4 * 36
    assert own[1].texts == (texts(data, data.rated[0])[1],)
    assert own[1].context.target == (texts(data, data.rated[0] - 1)[1],)
    shared = list(likelihood_lists(data, Reading.of("reference-1")))
    assert [len(lists.texts) for lists in shared] == [4] * 36


def test_likelihoods_are_put_together_by_system(
    data: JudgedSegments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "benchmarks.metric_quality.context_agreement.language_model",
        lambda model, context, dtype: NewLetters(context=context),
    )
    values = Values(tmp_path / "work", False, Choices())
    own = values.of(data, "lm", Reading.of("hypothesis-1"))
    assert own is not None
    assert own.shape == (36, 4)
    i = data.rated[5]
    before = texts(data, i - 1)
    new = [len(set(text) - set(c)) for text, c in zip(texts(data, i), before, strict=True)]
    assert own[5].tolist() == new
    only = Values(tmp_path / "none", True, Choices())
    assert only.of(data, "lm", Reading.of("alone")) is None


def test_encoders_are_for_english_alone(tmp_path: Path) -> None:
    german = JudgedSegments(systems_file(tmp_path, "toy.en-de"))
    values = Values(tmp_path / "work", False, Choices())
    assert values.of(german, "bertscore", Reading.of("alone")) is None


def test_context_is_counted(data: JudgedSegments, tmp_path: Path) -> None:
    model = str(write_causal(tmp_path / "model", "llama"))

    def metric_of(name: str, width: int) -> Any:
        return load_metric("lm", model=model, context=width)

    counts = {}
    for name in ("alone", "reference-2", "hypothesis-2"):
        reading = Reading.of(name)
        metric = metric_of("lm", reading.width)
        lists = context_cost.comparisons(metric, data, reading, 3)
        assert len(lists) == 3
        counts[name] = context_cost.counted(metric, lists).tokens
    # a prompt is read once where candidates share it
    assert counts["alone"] < counts["reference-2"] < counts["hypothesis-2"]
    rows = context_cost.rows_of(metric_of, "lm", data, 2, 1)
    assert [row[1] for row in rows] == list(context_cost.READINGS)
    assert rows[0][3].endswith("(1.00)")
