"""Combinations of metrics: the learner against golden values, training, the metric, the command."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError, MBRDecoder, Reranker, load_metric
from discorank.cli.main import main
from discorank.cli.options.command_options import ModelOptions, ReadingOptions
from discorank.cli.options.decoders import MetricOptions
from discorank.integrations.formats.wmt.judgements import read_rankings
from discorank.metrics.combination import Combination
from discorank.metrics.logistic import (
    MEAN_PENALTY,
    PENALTIES,
    Fitting,
    Scale,
    choose_penalty,
    fit,
    folds,
    intervals,
    loss,
    units,
)
from discorank.metrics.storage.checksums import UncheckedWarning, with_checksum
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.lists import read_list
from discorank.rerank.training.combination_training import (
    Data,
    Preferences,
    Tuning,
    by_rankings,
    by_scores,
    features,
    held_out,
    learn,
    train_combination,
)

from ..support.bit_flips import NUM_FLIPS, refused_flips
from ..support.examples import examples
from ..support.lists import write_lists
from ..support.trees import GOLDEN

BOUNDED = examples(6)
COMBINATION = GOLDEN["combination"]
NAMES = list(COMBINATION["features"])
ROWS = np.array([COMBINATION["features"][name] for name in NAMES])


# --- the learner


def golden_pairs() -> list[tuple[str, str]]:
    rank = {">": 1, "=": 2, "<": 3}
    return by_rankings(
        {f"{s}/{a}": rank[verdict], f"{s}/{b}": 2} for s, a, b, verdict in COMBINATION["judgements"]
    )


def test_golden_pairs() -> None:
    expected = {(f"{s}/{a}", f"{s}/{b}") for s, a, b in COMBINATION["training_pairs_better_worse"]}
    assert set(golden_pairs()) == expected
    assert len(golden_pairs()) == len(expected) == 10


@pytest.mark.parametrize(
    "golden", COMBINATION["fits"], ids=lambda golden: f"penalty {golden['lambda']}"
)
def test_golden_weights(golden: Any) -> None:
    scale = Scale.of(ROWS)
    assert scale.low.tolist() == COMBINATION["min"]
    assert scale.high.tolist() == COMBINATION["max"]
    scaled = scale.scaled(ROWS)
    pairs = [(f"{s}/{a}", f"{s}/{b}") for s, a, b in COMBINATION["training_pairs_better_worse"]]
    differences = np.array([scaled[NAMES.index(a)] - scaled[NAMES.index(b)] for a, b in pairs])
    np.testing.assert_allclose(differences, COMBINATION["differences"], atol=1e-12)
    weights = fit(differences, Fitting(golden["lambda"]))
    np.testing.assert_allclose(weights, golden["weights"], atol=1e-8)
    objective = loss(weights, differences).sum() + golden["lambda"] * weights @ weights
    assert objective == pytest.approx(golden["objective"], abs=1e-9)
    np.testing.assert_allclose(
        scaled @ weights, [golden["scores"][name] for name in NAMES], atol=1e-7
    )
    assert (differences @ weights > 0).mean() == golden["train_pair_accuracy"]


def gradient_at(weights: Any, differences: Any, how: Fitting) -> Any:
    """Of J, written out."""
    wrong = 1 / (1 + np.exp(np.clip(differences @ weights, -700, 700)))
    mean = weights.mean() if how.centred else 0
    return 2 * how.penalty * (weights - mean) + 2 * MEAN_PENALTY * mean - differences.T @ wrong


@given(st.integers(0, 99), st.sampled_from([0.01, 1.0, 100.0]), st.booleans())
@BOUNDED
def test_the_gradient_vanishes(seed: int, penalty: float, centred: bool) -> None:
    generator = np.random.default_rng(seed)
    differences = generator.normal(size=(generator.integers(1, 30), 3)) * generator.choice(
        [0.1, 1, 30]
    )
    how = Fitting(penalty, centred=centred)
    gradient = gradient_at(fit(differences, how), differences, how)
    np.testing.assert_allclose(gradient, 0, atol=1e-6 * max(1, np.abs(differences).max()))


@given(st.integers(0, 99), st.sampled_from([0.01, 1.0, 100.0]), st.booleans())
@BOUNDED
def test_positive_weights_meet_the_conditions_of_the_optimum(
    seed: int, penalty: float, centred: bool
) -> None:
    """No weight is negative; the gradient is 0 where a weight is positive, and not below 0 elsewhere."""
    generator = np.random.default_rng(seed)
    differences = generator.normal(size=(generator.integers(1, 30), 4)) @ generator.normal(
        size=(4, 4)
    )
    how = Fitting(penalty, positive=True, centred=centred)
    weights = fit(differences, how)
    gradient = gradient_at(weights, differences, how)
    assert (weights >= 0).all()
    np.testing.assert_allclose(gradient[weights > 0], 0, atol=1e-5)
    assert (gradient >= -1e-5).all()


def test_centred_weights_are_more_alike_the_higher_the_penalty() -> None:
    differences = np.random.default_rng(0).normal([1, 0.5, 0.2], size=(60, 3))
    spreads = [
        np.ptp(fit(differences, Fitting(penalty, centred=True))) for penalty in (0.1, 10, 1000, 1e6)
    ]
    assert spreads == sorted(spreads, reverse=True)
    weights = fit(differences, Fitting(1e6, centred=True))
    assert weights == pytest.approx(
        np.full(3, fit(differences.sum(axis=1)[:, None], Fitting(3 * MEAN_PENALTY))[0]), rel=1e-3
    )
    assert np.abs(fit(differences, Fitting(1e6))).max() < 1e-3


def test_a_metric_counts_alike_whatever_its_unit() -> None:
    differences = np.random.default_rng(0).normal([1, 0.5, 0], size=(60, 3)) * [1, 100, 0]
    scales = units(differences)
    assert scales == pytest.approx([*np.sqrt((differences[:, :2] ** 2).mean(axis=0)), 1])


def test_repeated_pairs_count_as_shares() -> None:
    differences = np.random.default_rng(0).normal(size=(6, 2))
    shares = np.array([0, 1, 2, 3, 0, 1.0])
    repeated = np.repeat(differences, shares.astype(int), axis=0)
    np.testing.assert_allclose(
        fit(differences, Fitting(1.0), shares), fit(repeated, Fitting(1.0)), atol=1e-10
    )


def test_a_metric_that_does_not_vary_has_no_weight() -> None:
    scale = Scale.of(np.array([[1.0, 5.0], [2.0, 5.0]]))
    assert scale.scaled(np.array([[3.0, 9.0]])).tolist() == [[2.0, 0.0]]


@pytest.mark.parametrize("toward", ["mean", "zero"])
def test_a_metric_that_is_the_same_in_every_pair_has_no_weight(toward: Any) -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    values[:, 2] = np.repeat(np.arange(20.0), 2)  # of two candidates each
    better = [2 * i + int(values[2 * i, 0] < values[2 * i + 1, 0]) for i in range(20)]
    data = Data(values, better, [i ^ 1 for i in better], [str(i % 5) for i in range(20)])
    weights = learn(data, Tuning(toward=toward, penalty=1.0)).weights
    assert weights[2] == 0
    assert weights[0] > 0


def test_folds_keep_documents_together() -> None:
    groups = [f"d{i % 7}" for i in range(40)]
    fold_of = folds(groups)
    assert len({(group, fold) for group, fold in zip(groups, fold_of.tolist(), strict=True)}) == 7
    assert set(fold_of.tolist()) == set(range(5))
    with pytest.raises(InputError, match="1 documents"):
        folds(["a", "a"])


def test_noise_is_held_down() -> None:
    generator = np.random.default_rng(0)
    signal, groups = generator.normal(size=(200, 3)), [str(i % 20) for i in range(200)]
    clear = signal * np.sign(signal @ [1, -0.9, 0.1])[:, None]
    noise = signal * generator.choice([-1, 1], size=(200, 1))
    assert choose_penalty(noise, groups)[0] == max(PENALTIES)
    penalty, tried = choose_penalty(clear, groups)
    best = max(one.right for one in tried)
    assert best > 0.97
    assert [one.penalty for one in tried] == list(PENALTIES)
    enough = [
        one for one in tried if one.right >= best - next(o.error for o in tried if o.right == best)
    ]
    assert penalty == max(one.penalty for one in enough)
    assert all(0 < one.error < 0.05 for one in tried)
    clear = signal * np.sign(signal[:, :1])
    low, high = intervals(clear, groups, Fitting(1.0), draws=30)
    weights = fit(clear, Fitting(1.0))
    assert (low <= weights).all()
    assert (weights <= high).all()
    assert low[0] > 0


def test_preferences() -> None:
    assert by_scores([1, 2, None], lower=True) == [(0, 1)]
    assert by_scores([1, 1.4, 2], margin=0.5) == [(2, 0), (2, 1)]
    assert by_rankings([{"A": 2, "B": 1}]) == [("B", "A")]


# --- training


def lists(count: int = 24) -> list[dict[str, Any]]:
    """Lists whose better candidates share more words with the reference, whatever their length."""
    generator = random.Random(0)
    rows = []
    for i in range(count):
        reference = [f"w{generator.randrange(50)}" for _ in range(10)]
        candidates = []
        for wrong in range(4):
            words = [
                f"x{generator.randrange(50)}" if j < 2 * wrong else word
                for j, word in enumerate(reference)
            ]
            candidates.append(
                {
                    "text": " ".join(words),
                    "system": f"S{wrong}",
                    "errors": wrong,
                    "length": len(words),
                }
            )
        generator.shuffle(candidates)
        record = {
            "id": f"l{i}",
            "document": f"d{i // 3}",
            "candidates": candidates,
            "references": [" ".join(reference)],
        }
        rows.append(record)
    return rows


def records() -> list[Any]:
    return [read_list(row) for row in lists()]


METRICS = ("chrf", "ter", "rouge-l")


def test_free_weights_may_be_negative() -> None:
    against = [f["weight"] for f in trained(positive=False, against="candidates")["features"]]
    assert min(f["weight"] for f in trained(against="candidates")["features"]) >= 0 > min(against)


@cache
def trained(**settings: Any) -> dict[str, Any]:
    metrics = [load_metric(name) for name in METRICS]
    return train_combination(
        metrics, records(), Preferences("errors", lower=True), Tuning(draws=20, **settings)
    )


def test_training_finds_the_metrics_that_agree(tmp_path: Path) -> None:
    model = trained()
    assert model["held_out"]["accuracy"] > 0.95
    assert (model["lists"], model["pairs"], model["documents"]) == (24, 24 * 6, 8)
    assert all(f["low"] <= f["weight"] <= f["high"] for f in model["features"])
    path = tmp_path / "m.json"
    path.write_text(json.dumps(model), encoding="utf-8")
    metric = load_metric("combination", model=str(path))
    h, r = ["w1 w2 x", "w1 w2 w3", "y"], ["w1 w2 w3"] * 3
    expected = sum(
        f["weight"] / (f["max"] - f["min"]) * (m.utility_sign * m.score(h, r))
        for f, (_, m) in ((f, load_metric(f["metric"]).parts[0]) for f in model["features"])
    )
    np.testing.assert_allclose(metric.score(h, r), expected, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(metric.pairwise(h, r)), expected, rtol=1e-12)


def test_choices_are_those_of_the_scaled_features(tmp_path: Path) -> None:
    model = trained(against="candidates")
    path = tmp_path / "m.json"
    path.write_text(json.dumps(model), encoding="utf-8")
    metric = load_metric(f'combination(model="{path}")')
    rankings = list(MBRDecoder(utility=metric).decode(lists()))
    values = [
        np.stack(columns)
        for columns in zip(
            *(features(load_metric(n), records(), "candidates") for n in METRICS), strict=True
        )
    ]
    scale = Scale(*(np.array([f[name] for f in model["features"]]) for name in ("min", "max")))
    weights = np.array([f["weight"] for f in model["features"]])
    assert [r.index for r in rankings] == [
        int((scale.scaled(v.T) @ weights).argmax()) for v in values
    ]


def test_rankings_and_teachers(tmp_path: Path) -> None:
    lines = []
    for row in lists():
        ranks = {c["system"]: c["errors"] for c in row["candidates"]}
        lines.append(json.dumps({"id": row["id"], "ranks": ranks}))
    path = tmp_path / "ranks.jsonl"
    path.write_text("\n".join(lines))
    rankings = read_rankings(LineSource(path))
    metrics = [load_metric(name) for name in METRICS]
    by_ranks = train_combination(
        metrics, records(), Preferences(rankings=rankings), Tuning(draws=20)
    )
    assert by_ranks["features"] == trained()["features"]
    by_teacher = train_combination(
        metrics, records(), Preferences(teacher=load_metric("bleu")), Tuning(draws=20)
    )
    assert by_teacher["held_out"]["accuracy"] > 0.9
    refused = ("[]", '{"id": 3, "ranks": {}}', '{"id": "a"}', "{")
    numbers = ("NaN", "Infinity", "true", '"1"', "1" + "0" * 400)
    for line in (*refused, *(f'{{"id": "a", "ranks": {{"A": {n}, "B": 1}}}}' for n in numbers)):
        path.write_text(f"{lines[0]}\n{line}\n")
        with pytest.raises(InputError, match=r"ranks\.jsonl:2: "):
            read_rankings(LineSource(path))


@pytest.mark.parametrize(
    ("rankings", "margin", "found"),
    [
        ({"l0": [{"S9": 1.0}]}, 0, "'S9'"),
        ({"l0": [{"S0": 1.0, "S1": 2.0}], "l99": [{"S0": 1.0}]}, 0, "'l99'"),
        ({"l0": [{"S0": 1.0, "S1": 2.0}]}, 0.5, "margin"),
    ],
)
def test_rankings_that_are_refused(rankings: Any, margin: float, found: str) -> None:
    with pytest.raises(InputError, match=found):
        Preferences(rankings=rankings).pairs(records(), margin)


def test_scores_that_are_missing_or_no_numbers() -> None:
    with pytest.raises(InputError, match="'errors'"):
        Preferences("erors").pairs(records(), 0)
    for value in ("3", True, [1], 10**400):
        rows = lists()[:2]
        rows[1]["candidates"][2] = {"text": "x", "system": "S", "errors": value}
        with pytest.raises(InputError, match=r"list l1, candidates\[2\].errors"):
            Preferences("errors").pairs([read_list(row) for row in rows], 0)
    rows[1]["candidates"][2] = {"text": "x", "system": "S"}
    of_lists = Preferences("errors").pairs([read_list(row) for row in rows], 0)
    assert [len(pairs) for pairs in of_lists] == [6, 3]


def test_the_best_single_metric_is_chosen_without_the_pairs_held_out() -> None:
    """Either metric is right in the documents of its own; half of all pairs are ties of both and half right."""
    differences = np.array([[1.0, -1.0]] * 3 + [[-1.0, 1.0]] * 2 + [[0.0, 0.0]] * 5)
    groups = [*["a"] * 3, *["b"] * 2, *["a"] * 3, *["b"] * 2]
    accuracies = held_out(differences, groups, Fitting(1.0))
    assert accuracies["best_single_accuracy"] == (0.5 * 5) / 10
    assert accuracies["accuracy"] == (0.5 * 5) / 10


def test_training_needs_preferences_and_references() -> None:
    metrics, errors = [load_metric("chrf")], Preferences("errors")
    for given_, lists_, preferences in (
        (metrics, records(), Preferences()),
        (metrics, records(), Preferences("length")),
        (metrics, [], errors),
        (metrics * 2, records(), errors),
    ):
        with pytest.raises(InputError):
            train_combination(given_, lists_, preferences)
    bare = [read_list({k: v for k, v in row.items() if k != "references"}) for row in lists()]
    with pytest.raises(InputError, match=r'list l0.*against="candidates"'):
        train_combination(metrics, bare, errors)
    assert train_combination(metrics, bare, errors, Tuning(against="candidates", draws=10))["pairs"]


# --- the metric


def write(path: Path, *parts: tuple[str, float], **extra: Any) -> str:
    described = [
        {"metric": metric, "weight": weight, "min": 0, "max": 2} for metric, weight in parts
    ]
    model = with_checksum({"format": 1, "features": described, **extra})
    path.write_text(json.dumps(model), encoding="utf-8")
    return str(path)


def test_a_combination_is_a_named_mix(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", ("chrf", 4), ("ter", 1), ("bleu", 0))
    metric = load_metric("combination", model=path)
    assert isinstance(metric, Combination)
    assert metric.parts == ((2.0, load_metric("chrf")), (0.5, load_metric("ter")))
    assert metric.signature() == f'combination(model="{metric.model}")'
    assert metric.model.startswith(f"{path}@sha256:")
    assert load_metric(metric.signature()) == metric
    texts = ["a cat", "the cat", "dogs"]
    expected = load_metric("2*chrf + 0.5*ter").pairwise(texts, texts)
    assert metric.pairwise(texts, texts).tobytes() == expected.tobytes()
    assert metric.with_defaults(device="cpu").for_language("de") is metric
    bleu = load_metric("combination", model=write(tmp_path / "b.json", ("bleu", 2)))
    assert bleu.for_language("zh") is bleu
    assert MetricOptions(reading=ReadingOptions(lang="zh")).adapted(bleu) is bleu
    neural = load_metric(
        "combination", model=write(tmp_path / "n.json", ("bertscore", 2), ("bleu", 2))
    )
    models = ModelOptions(device="cpu")
    moved = MetricOptions(reading=ReadingOptions(lang="zh"), models=models).adapted(neural)
    assert [part.signature() for _, part in moved.parts] == [
        part.signature() for _, part in neural.parts
    ]
    both = load_metric(f"bleu + 0.5*{metric.signature()}")
    assert both == load_metric("bleu + 1.0*chrf + 0.25*ter")
    assert next(MBRDecoder(utility=metric).decode([{"id": "x", "candidates": texts}])).text in texts
    write(tmp_path / "m.json", ("chrf", 5))
    with pytest.raises(InputError, match="not the file that was used"):
        load_metric(metric.signature())


def test_a_reference_free_combination_reranks(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", ("tests.laws.test_laws:Coverage", 1))
    allowed = load_metric("combination", model=path, allow_code="tests.laws")
    reranker = Reranker({allowed: 1.0})
    record = {"id": "x", "source": "a cat sat", "candidates": ["dogs bark", "a cat"]}
    assert next(reranker.decode([record])).text == "a cat"
    with pytest.raises(InputError, match="chrf compares with references"):
        Reranker({f'combination(model="{write(tmp_path / "n.json", ("chrf", 1))}")': 1.0})


FEATURE = '{"format": 1, "features": [{"metric": "chrf", "weight": %s, "min": %s, "max": %s}]}'


def test_a_combination_of_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    (tmp_path / "m.yaml").write_text(f"name: combination\nmodel: {path}\n", encoding="utf-8")
    inner = f'combination(model="{path}")'
    by_class = inner.replace("c", "discorank.metrics.combination:C", 1)
    for spec in (inner, f"chrf + {inner}", str(tmp_path / "m.yaml"), by_class):
        write(path, (spec, 1))
        match = "is a file" if spec.endswith("yaml") else "is a combination itself"
        with pytest.raises(InputError, match=rf"m.json: features.0.*{match}"):
            load_metric("combination", model=str(path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "JSON"),
        ("[" * 100000, "JSON"),
        ("[]", r"\[\]"),
        ('{"format": 2, "features": []}', "format"),
        ('{"format": 1, "features": []}', "weight"),
        (FEATURE % ("1", "2", "2"), "weight"),
        (FEATURE % ("1", "3", "2"), "max"),
        (FEATURE % ('"1"', "0", "2"), r"features.0"),
        (FEATURE % ("NaN", "0", "2"), r"features.0"),
        (FEATURE.replace("chrf", "chfr") % ("1", "0", "2"), r"features.0.*'chrf'"),
        (FEATURE % ("1" + "0" * 400, "0", "2"), r"features.0"),
        (FEATURE % ("1", "-1e308", "1e308"), "range"),
        (FEATURE % ("1", "0", "1e-320"), "range"),
        (FEATURE % ("1e308", "0", "1e-3"), "range"),
        (FEATURE % ("true", "0", "2"), r"features.0"),
    ],
)
@pytest.mark.filterwarnings(f"ignore::{UncheckedWarning.__module__}.{UncheckedWarning.__name__}")
def test_broken_models(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=found):
        load_metric("combination", model=str(path))


def test_a_damaged_or_edited_model_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", ("chrf", 4), ("ter", 1))
    text = Path(path).read_text(encoding="utf-8")
    edited = text.replace('"weight": 4', '"weight": 5')
    Path(path).write_text(edited, encoding="utf-8")
    with pytest.raises(InputError, match=r"m\.json"):
        load_metric("combination", model=path)
    unchecked = {key: value for key, value in json.loads(edited).items() if key != "checksum"}
    Path(path).write_text(json.dumps(unchecked), encoding="utf-8")
    with pytest.warns(UncheckedWarning, match=r"m\.json"):
        metric = load_metric("combination", model=path)
    assert metric.parts[0][0] == 2.5


@pytest.mark.parametrize("num_flips", [NUM_FLIPS, pytest.param(None, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_model_is_refused_or_changes_nothing(
    num_flips: int | None, tmp_path: Path
) -> None:
    path = Path(write(tmp_path / "m.json", ("chrf", 4), ("ter", 1)))

    def parts() -> object:
        return load_metric("combination", model=str(path)).parts

    assert refused_flips(path, parts, parts(), num_flips)


def test_a_combination_needs_its_model() -> None:
    for spec in ("combination", 'combination(model="nowhere.json")'):
        with pytest.raises(InputError):
            load_metric(spec)
    for path in ("models/m.json", "/m.json", "m.json"):
        with pytest.raises(InputError, match=rf'combination\(model="{path}"\)'):
            load_metric(path)


# --- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write_lists(tmp_path / "lists.jsonl", lists()), tmp_path / "m.json"
    start = ["train", "combination", str(data), "--draws", "20", "--quiet"]
    command = [*start, "-m", *METRICS, "-o", str(out)]
    assert main([*command, "--prefer", "errors:lower"]) == 0
    assert "144 pairs of 8 documents" in capsys.readouterr().out
    assert json.loads(out.read_text(encoding="utf-8")) == trained()
    chosen = ["-u", f'combination(model="{out}")', "-o", str(tmp_path / "o.jsonl"), "--quiet"]
    assert main(["decode", str(data), *chosen]) == 0
    ranks = []
    for row in lists():
        of_systems = {c["system"]: c["errors"] for c in row["candidates"]}
        ranks.append({"id": row["id"], "ranks": of_systems})
    rankings = ["--rankings", str(write_lists(tmp_path / "ranks.jsonl", ranks))]
    assert main([*command, *rankings, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["features"] == trained()["features"]
    assert main([*command, "--teacher", "bleu"]) == 0
    for more in (
        [],
        ["--prefer", "errors", "--teacher", "bleu"],
        ["--prefer", "errors:down"],
        ["--prefer", "errors", "-o", str(tmp_path / "nowhere" / "m.json")],
        ["--prefer", "errors", "-o", str(tmp_path)],
        [*rankings, "--margin", "1"],
        ["--prefer", "errors", "-m", "nist"],
    ):
        assert main([*command, *more]) == 2


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    data = write_lists(tmp_path / "lists.jsonl", lists())
    monkeypatch.setattr("discorank.cli.commands.train_metrics.train_combination", stopped)
    command = ["train", "combination", str(data), "-m", "chrf", "--prefer", "errors"]
    assert main([*command, "-o", str(tmp_path / "m.json")]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["lists.jsonl"]


def test_the_command_reads_systems(tmp_path: Path) -> None:
    rows = []
    for row in lists()[::3]:
        candidates = sorted(row["candidates"], key=lambda c: c["system"])
        systems = {c["system"]: [c["text"]] for c in candidates}
        scores = {c["system"]: [c["errors"]] for c in candidates}
        references = {"A": row["references"]}
        rows.append({"id": row["id"], "systems": systems, "mqm": scores, "references": references})
    data = write_lists(tmp_path / "systems.jsonl", rows)
    command = ["train", "combination", str(data), "--from", "systems", "--prefer", "mqm:lower"]
    out = ["-o", str(tmp_path / "m.json"), "--draws", "10", "--quiet"]
    assert main([*command, "-m", "chrf", *out]) == 0
