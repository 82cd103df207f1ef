"""Test sets of the WMT metrics task from the command line: compare --tasks and --statistics, score, convert --to."""

from __future__ import annotations

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.speed.metric_tasks import write_folder
from discorank.cli.main import main
from discorank.integrations.formats.wmt.eval_set_folder import EvalSetOptions, read_eval_set
from discorank.rerank.selection.meta_evaluation.metric_tests import DrawSettings
from discorank.rerank.selection.meta_evaluation.metrics_tasks import num_steps, run_tasks, task_set

from .test_compare import rows_of

GOLDEN = Path(__file__).parents[1] / "golden" / "mtme"
TOY = GOLDEN / "evalset" / "toy"
META = [
    *("--main-reference", "refA", "--human-scores", "mqm", "--outliers", "en-de:theta"),
    *("--primary", "Coarse", "Free-QE", "Good", "Noisy", "--missing", "zeros"),
]
PAIRS = ["--language-pair", "en-de", "he-en"]


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / "values.json").read_text(encoding="utf-8"))
    return loaded


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """What a command prints, on stderr if it fails."""
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    return json.loads(run(capsys, *arguments, "--format", "json"))


@pytest.mark.parametrize(
    ("name", "key"), [("wmt23", "WMT23"), ("wmt24", "WMT24"), ("wmt24-on-wmt23", "WMT24OnWMT23")]
)
def test_task_sets(
    capsys: pytest.CaptureFixture[str], values: dict[str, Any], name: str, key: str
) -> None:
    found = json_of(capsys, "compare", TOY, "--tasks", name, *META, *PAIRS, "--task-draws", "0")
    expected = values["tasks"][key]
    assert [task["weight"] for task in found["tasks"]] == expected["weights"]
    for task, numbers, ranks in zip(
        found["tasks"], expected["values"], expected["ranks"], strict=True
    ):
        tolerance = 0.002 if task["statistic"] == "soft_pairwise_accuracy" else 1e-9
        rows = rows_of(found["values"], "metric", task=task["task"])
        values = {metric: row["value"] for metric, row in rows.items()}
        assert values == pytest.approx(numbers, abs=tolerance)
        assert {metric: row["rank"] for metric, row in rows.items()} == ranks
    average = rows_of(found["values"], "metric", task="average")
    values = {metric: row["value"] for metric, row in average.items()}
    assert values == pytest.approx(expected["average"], abs=0.002)
    assert list(average) == list(expected["average"])


def test_a_task_set_finds_its_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(TOY, tmp_path / "wmt24")
    arguments = [*META, *PAIRS, "--task-draws", "0", "--tasks", "wmt24"]
    assert "Good" in run(capsys, "compare", tmp_path, *arguments)
    error = run(capsys, "compare", tmp_path, *META, "--tasks", "wmt24", code=2)
    assert "unknown language pair 'en-es'" in error
    error = run(capsys, "compare", tmp_path, *META, "--tasks", "wmt26", code=2)
    assert "unknown task set 'wmt26'" in error
    error = run(capsys, "compare", tmp_path, TOY, "--tasks", "wmt24", code=2)
    assert "found 2 paths" in error


@pytest.fixture(scope="module")
def wmt23(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small test set with the files, names and references of WMT23."""
    return write_folder(tmp_path_factory.mktemp("wmt"), metrics=5, share=0.03)


def read(path: Path) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = {}
    for line in path.read_text().splitlines():
        system, score = line.split()
        scores.setdefault(system, []).append(float("nan" if score == "None" else score))
    return scores


def tables_of(folder: Path, pair: str, metric: str, level: str) -> tuple[Any, Any]:
    """People's and a metric's scores [systems, n], the metric's name without the reference."""
    people = read(folder / "human-scores" / f"{pair}.mqm.{level}.score")
    (path,) = (folder / "metric-scores" / pair).glob(f"{metric}-*.{level}.score")
    scores = read(path)
    counted = {f"system{s:02}" for s in range(12 + 3 * (pair == "zh-en"))}
    counted |= {"refA"} if pair == "he-en" else set()
    names = sorted(counted)
    return np.array([people[n] for n in names]), np.array([scores[n] for n in names])


def calibrated(human: Any, scores: Any) -> float:
    """acc_opt/item in loops: the best epsilon of all, a segment with a pair counting once."""
    segments = np.flatnonzero(~np.isnan(human).any(axis=0))
    pairs = list(combinations(range(len(human)), 2))
    sizes = {0.0, *(abs(scores[a, n] - scores[b, n]) for a, b in pairs for n in segments)}
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    by_people = np.sign(human[a] - human[b])[:, segments]
    by_metric = (scores[a] - scores[b])[:, segments]
    best = 0.0
    for epsilon in sizes:
        signs = np.where(np.abs(by_metric) <= epsilon, 0, np.sign(by_metric))
        best = max(best, float((signs == by_people).mean()))
    return best


def test_wmt23_needs_no_options(capsys: pytest.CaptureFixture[str], wmt23: Path) -> None:
    words = ["compare", "--tasks", "wmt23", str(wmt23.parent), "--task-draws", "20"]
    found = json_of(capsys, *words)
    average = rows_of(found["values"], "metric", task="average")
    assert set(average) == {
        "metric00",
        "metric01",
        "metric02[noref]",
        "metric03",
        "metric04",
    }
    for name, row in average.items():
        metric, expected = name.removesuffix("[noref]"), 0.0
        agreed = total = 0
        for pair in ("en-de", "he-en", "zh-en"):
            human, scores = tables_of(wmt23, pair, metric, "sys")
            a, b = np.triu_indices(len(human), 1)
            alike = np.sign(human[a] - human[b]) == np.sign(scores[a] - scores[b])
            agreed, total = agreed + int(alike.sum()), total + len(a)
            expected += (1 + np.corrcoef(human[:, 0], scores[:, 0])[0, 1]) / 2 / 12
            human, scores = tables_of(wmt23, pair, metric, "seg")
            rated = ~np.isnan(human)
            expected += (1 + np.corrcoef(human[rated], scores[rated])[0, 1]) / 2 / 12
            expected += calibrated(human, scores) / 12
        assert row["value"] == pytest.approx(expected + agreed / total / 4)
    assert len(found["tasks"]) == 10
    assert len({(row["task"], row["better"], row["worse"]) for row in found["p"]}) == 11 * 10


def test_tasks_with_tests_and_a_metric_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*META, *PAIRS, "--tasks", "wmt23", "--task-draws", "100", "-m", "chrf"]
    found = json_of(capsys, "compare", TOY, *arguments)
    average = rows_of(found["values"], "metric", task="average")
    assert set(average) == {"Coarse", "Free-QE[noref]", "Good", "Noisy", "chrf"}
    pairs = [pair for pair in found["p"] if pair["task"] == "average"]
    assert len(pairs) == 10
    assert all(0 <= pair["p"] <= 1 for pair in pairs)
    assert average["Noisy"]["rank"] == max(row["rank"] for row in average.values()) > 1
    assert found == json_of(capsys, "compare", TOY, *arguments)


def test_statistics_of_a_folder(capsys: pytest.CaptureFixture[str], values: dict[str, Any]) -> None:
    arguments = [*META, *PAIRS[:2], "--task-draws", "0"]
    found = json_of(capsys, "compare", TOY, "--statistics", "wmt", *arguments)
    expected = values["en-de"]
    systems = expected["system_level"]["mqm human=False"]
    of_people = {"human_scores": "mqm", "set": "toy"}
    assert list(rows_of(found["systems"], "system", level="sys", **of_people)) == systems["systems"]
    for metric in ("Coarse-refA", "Gap-refA", "SysOnly-refA"):
        of_metric = rows_of(found["values"], "coefficient", level="sys", metric=metric, **of_people)
        for key in ("pearson", "accuracy", "tau23"):
            assert of_metric[key]["value"] == pytest.approx(systems[metric][key], abs=1e-9)
    segments = expected["segment_level"]["mqm"]["Gap-refA"]
    named = {"metric": "Gap-refA", "level": "seg", **of_people}
    of_metric = rows_of(found["values"], "coefficient", **named)
    assert of_metric["pearson/sys"]["value"] == pytest.approx(segments["pearson/sys"][0], abs=1e-9)
    assert of_metric["acc_opt/item"]["value"] == pytest.approx(
        segments["opt_acc23/item"]["value"], abs=1e-9
    )
    with_human = json_of(capsys, "compare", TOY, "--statistics", "wmt", *arguments, "--with-human")
    assert "refB" in rows_of(with_human["systems"], "system")


def test_statistics_of_a_systems_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # the same set as a folder and as a systems file
    path = tmp_path / "toy.jsonl"
    run(capsys, "convert", TOY, "--from", "mtme", "--to", "systems", "-o", path, *PAIRS[:2])
    arguments = ["-m", "chrf", "--task-draws", "0", "--statistics", "wmt"]
    arguments += ["--human-scores", "da", "--main-reference", "refA", "--missing", "leave-out"]
    of_file = json_of(capsys, "compare", path, *arguments)
    of_folder = json_of(capsys, "compare", TOY, *arguments, *PAIRS[:2])
    named = {"metric": "chrf-refA", "level": "seg"}
    by_file, by_folder = (
        rows_of(f["values"], "coefficient", **named) for f in (of_file, of_folder)
    )
    assert by_file
    assert by_file == by_folder


def test_statistics_of_documents_without_a_source(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "summaries.jsonl"
    rows = []
    for document in "abc":
        for system, (text, score) in {"M1": ("a cat sat", 5), "M2": ("a dog", 2)}.items():
            row: dict[str, Any] = {"id": document, "model_id": system, "decoded": text}
            row |= {"references": ["a cat sat"], "expert_annotations": [{"fluency": score}]}
            rows.append(json.dumps(row))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    arguments: list[str | Path] = [path, "--from", "summeval", "--statistics", "wmt", "-m", "chrf"]
    found = json_of(capsys, "compare", *arguments)
    by_coefficient = rows_of(found["values"], "coefficient", set="summaries", level="sys")
    assert by_coefficient["accuracy"]["value"] == 1
    # a folder needs sources
    error = run(
        capsys,
        *("convert", path, "--from", "summeval", "--to", "mtme", "--language-pair", "en-en"),
        *("-o", tmp_path / "folder"),
        code=2,
    )
    assert "segment 1: no source" in error
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"id": "a", "systems": {"A": "x"}, "references": {"r": "x"}}\n')
    arguments = [bare, "--statistics", "wmt", "-m", "chrf"]
    assert "bare: no human scores" in run(capsys, "compare", *arguments, code=2)


def test_all_references_count(capsys: pytest.CaptureFixture[str]) -> None:
    arguments: list[str | Path] = [TOY, *PAIRS[:2], "--statistics", "wmt", "--task-draws", "0"]
    arguments += ["--with-human", "--missing", "leave-out", "--main-reference", "all"]
    found = json_of(capsys, "compare", *arguments)
    assert "refB" not in rows_of(found["systems"], "system", level="sys")
    assert {"Both-refA.refB", "Good-refB"} <= set(rows_of(found["values"], "metric", level="sys"))


def test_compare_reads_folders(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, "compare", TOY, "-m", "chrf", "--draws", "100")
    assert list(rows_of(found["settings"], "set")) == ["toy en-de", "toy he-en"]
    assert set(rows_of(found["meta"], "human", set="toy en-de")) == {"da", "mqm"}
    assert "theta" in rows_of(found["systems"], "system", set="toy en-de")


def test_holes_are_refused_with_what_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*PAIRS[:2], "--statistics", "wmt", "--task-draws", "0"]
    error = run(capsys, "compare", TOY, *arguments, code=2)
    assert "Gap-refA.seg.score: no score of beta. Add --missing leave-out, or --miss" in error
    assert "Gap-refA" not in run(capsys, "compare", TOY, *arguments, "--missing", "leave-out")
    assert "Gap-refA" in run(capsys, "compare", TOY, *arguments, "--missing", "zeros")


def test_convert_there_and_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pair = [*PAIRS[:1], "he-en"]
    there, back = tmp_path / "toy.jsonl", tmp_path / "back"
    run(capsys, "convert", TOY, "--from", "mtme", "--to", "systems", "-o", there, *pair)
    run(capsys, "convert", there, "--to", "mtme", "-o", back, *pair)
    for name in ("sources/he-en.txt", "references/he-en.refB.txt"):
        assert (back / name).read_bytes() == (TOY / name).read_bytes()
    outputs = read_eval_set(back, "he-en").outputs
    whole = read_eval_set(TOY, "he-en", EvalSetOptions(missing="leave-out")).outputs
    for system in set(whole) - {"refA", "refB"}:
        assert outputs[system] == whole[system]
    error = run(capsys, "convert", TOY, "--to", "mtme", "-o", tmp_path / "x", *pair, code=2)
    assert "is a folder of mt-metrics-eval already" in error
    error = run(capsys, "convert", TOY, "--from", "mtme", "--to", "systems", code=2)
    assert "2 language pairs: en-de, he-en. Name one with --language-pair" in error


def test_decode_reads_folders_and_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments: list[str | Path] = [
        "decode",
        TOY,
        "--from",
        "mtme",
        "--language-pair",
        "he-en",
        "-u",
        "chrf",
    ]
    out = tmp_path / "out.jsonl"
    run(capsys, *arguments, "-o", out)
    whole = out.read_bytes()
    assert len(whole.splitlines()) == 24
    run(capsys, *arguments, "-o", out)
    assert out.read_bytes() == whole
    other = [*arguments[:5], "en-de", *arguments[6:]]
    assert "language_pair" in run(capsys, *other, "-o", out, code=4)


@pytest.mark.parametrize("drawn", [None, DrawSettings(10)])
def test_progress_ends_at_the_number_of_steps(wmt23: Path, drawn: DrawSettings | None) -> None:
    tasks = task_set("wmt23")
    sets = {pair: read_eval_set(wmt23, pair) for pair in tasks.language_pairs}
    done: list[int] = []
    run_tasks(tasks, sets, drawn, progress=done.append)
    assert sum(done) == num_steps(tasks, sets, drawn) == 10 * (5 + (10 if drawn else 0))
