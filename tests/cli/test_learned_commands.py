"""The learned metrics from the command line: where the source is read, marked errors, costs, interruptions, caches."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from discorank import Metric, load_metric
from discorank.cli.main import main
from discorank.metrics.execution.cache import Cache
from discorank.metrics.execution.store import Store
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.engines import local
from discorank.rerank.engines.local import LocalEngine

from ..support.learned_golden import GOLDEN, ODD
from ..support.lists import made_lists

Captured = pytest.CaptureFixture[str]
pytestmark = [
    pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning"),
    pytest.mark.filterwarnings("ignore:xcomet. .* tokens are read together"),
]


def model(family: str, name: str) -> str:
    return str(GOLDEN / family / "models" / name)


XCOMET = (
    f'model="{model("xcomet", "tiny-xcomet")}",encoder_path="{model("xcomet", "tiny-xlmr-xl")}"'
)
METRICX = f'tokenizer_path="{model("metricx", "tiny-mt5-tokenizer")}",regression_token_id=11'


def metricx(version: int) -> str:
    folder = model("metricx", f"tiny-metricx-{version}")
    return f'metricx(model="{folder}",{METRICX})'


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, *values: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return str(path)


TEXTS = ["the cat sat on the mat", "a cat is on a mat", "the dog ate it all"]
SOURCE = "die Katze sitzt auf der Matte"


def with_and_without() -> tuple[dict[str, Any], dict[str, Any]]:
    return {"id": "with", "source": SOURCE, "candidates": TEXTS}, {
        "id": "without",
        "candidates": TEXTS,
    }


def test_every_list_is_decided_with_its_source_or_without(tmp_path: Path) -> None:
    lists = write(tmp_path / "lists.jsonl", *with_and_without())
    utility, out = f"xcomet({XCOMET})", tmp_path / "out.jsonl"
    assert main(["decode", lists, "-u", utility, "-o", str(out), "--nbest", "3", "--quiet"]) == 0
    metric = load_metric(utility)
    for row, source in zip(rows(out), (SOURCE, None), strict=True):
        matrix = metric.pairwise(TEXTS, TEXTS, source)
        by_index = {entry["index"]: entry["utility"] for entry in row["ranking"]}
        for index, expected in enumerate(matrix.mean(axis=1)):
            assert by_index[index] == pytest.approx(expected, abs=1e-9)
    first, second = (row["utility"] for row in rows(out))
    assert first != second


def test_scores_are_of_all_sources_or_none(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = f"xcomet({XCOMET})"
    segment = {"hypothesis": TEXTS[0], "references": TEXTS[1]}
    sourced = {**segment, "source": SOURCE}
    values = []
    for segments in ([segment, segment], [sourced, sourced]):
        path = write(tmp_path / "segments.jsonl", *segments)
        assert main(["score", path, "-m", metric, "--format", "json", "--quiet"]) == 0
        values.append(json.loads(capsys.readouterr().out)["mean"])
    loaded = load_metric(metric)
    assert values[0] == loaded.score(TEXTS[:1], TEXTS[1:2]).item()
    assert values[1] == loaded.score(TEXTS[:1], TEXTS[1:2], [SOURCE]).item()
    path = write(tmp_path / "segments.jsonl", sourced, segment)
    # In one batch, and in two.
    for size in (10, 1):
        monkeypatch.setattr("discorank.cli.commands.score.BATCH", size)
        assert main(["score", path, "-m", metric, "--quiet"]) == 2
        error = capsys.readouterr().err
        assert "segments.jsonl:2" in error
        assert "no source: xcomet reads it where it is given" in error
        # What reads no source does not mind.
        assert main(["score", path, "-m", "chrf", "--quiet"]) == 0
        capsys.readouterr()


def problems(path: str, metric: str, capsys: Captured) -> list[str]:
    assert main(["check", path, "-u", metric, "--format", "json", "--quiet"]) == 0
    found: list[str] = json.loads(capsys.readouterr().out)["utility"]["problems"]
    return found


def test_check_knows_who_reads_the_source(tmp_path: Path, capsys: Captured) -> None:
    sourced, bare = with_and_without()
    mixed = write(tmp_path / "mixed.jsonl", sourced, bare)
    (problem,) = problems(mixed, f"xcomet({XCOMET})", capsys)
    assert problem.startswith("xcomet reads the source where it is given, in 1 of 2 lists")
    assert problems(mixed, f"xcomet-qe({XCOMET})", capsys) == [
        "xcomet-qe needs a source in every list"
    ]
    assert problems(mixed, metricx(24), capsys) == ["metricx needs a source in every list"]
    assert problems(mixed, metricx(23), capsys) == []
    for one in (sourced, bare):
        alike = write(tmp_path / "alike.jsonl", one, {**one, "id": "other"})
        assert problems(alike, f"xcomet({XCOMET})", capsys) == []


def test_check_counts_forward_passes(tmp_path: Path, capsys: Captured) -> None:
    lists = write(tmp_path / "lists.jsonl", *with_and_without())
    command = ["check", lists, "--quiet", "-u"]
    assert main([*command, f"xcomet({XCOMET}) + chrf", "--format", "json"]) == 0
    costs = json.loads(capsys.readouterr().out)["utility"]
    # 3 with the source, and 9 pairs twice; 9 pairs without.
    assert costs["forward_passes"] == 3 + 18 + 9
    assert costs["tokens"] > 300
    assert 0 < costs["tera_flop"] < 0.001
    assert main([*command, f"xcomet({XCOMET})"]) == 0
    assert re.search(r"^forward_passes +30$", capsys.readouterr().out, re.MULTILINE)
    assert main([*command, "chrf", "--format", "json"]) == 0
    assert "forward_passes" not in json.loads(capsys.readouterr().out)["utility"]


def embedding(name: str) -> str:
    return f'{name}(model="{model("sentence_embedding", "tiny-st-mean")}")'


BLEURT = f'bleurt(model="{model("bleurt", "tiny-bleurt-20")}")'
# Pairs with a text of 2,000 words take their time at 1536 tokens each.
SHORT_METRICX = metricx(24).replace(")", ",max_tokens=100)")
# How each metric decides lists.
COMMANDS = {
    "metricx": ["decode", "-u", SHORT_METRICX],
    "metricx-qe": ["rerank", "-m", SHORT_METRICX.replace("metricx(", "metricx-qe(", 1)],
    "bleurt": ["decode", "-u", BLEURT],
    "xcomet": ["decode", "-u", f"xcomet({XCOMET})"],
    "xcomet-qe": ["rerank", "-m", f"xcomet-qe({XCOMET})"],
    "embedding": ["decode", "-u", embedding("embedding")],
    "embedding-qe": ["rerank", "-m", embedding("embedding-qe")],
}
# Empty texts, 2,000 words, special tokens written out, and what else has broken tokenizers.
ODD_TEXTS = [text for text in ODD if "\ud800" not in text]


def odd_lists() -> list[dict[str, Any]]:
    made = made_lists(6, 3, seed=2)
    plain = [{"id": r["id"], "source": SOURCE, "candidates": r["candidates"]} for r in made]
    odd = {"id": "odd", "source": SOURCE, "candidates": ODD_TEXTS}
    bare = {"id": "bare", "source": "", "candidates": ["", "a cat", ""]}
    half = {"id": "half", "source": SOURCE, "candidates": ["\ud800 half a pair", "a cat"]}
    return [
        *plain[:4],
        odd,
        bare,
        {"id": "none", "source": SOURCE, "candidates": []},
        half,
        *plain[4:],
    ]


def command_of(name: str, lists: str, out: Path) -> list[str]:
    first, *more = COMMANDS[name]
    return [first, lists, *more, "-o", str(out), "--quiet", "--max-errors", "9", "--nbest", "99"]


FAST = ("metricx-qe", "bleurt", "xcomet")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in COMMANDS],
)
def test_a_run_on_odd_texts_that_is_interrupted_and_resumed_has_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    lists = write(tmp_path / "lists.jsonl", *odd_lists())
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert main(command_of(name, lists, whole)) == 3
    plain, num_waves = LocalEngine._results, 0

    def results(engine: LocalEngine, tasks: Any) -> Any:
        nonlocal num_waves
        num_waves += 1
        if num_waves in (3, 5):
            raise KeyboardInterrupt
        return plain(engine, tasks)

    with monkeypatch.context() as patch:
        patch.setattr(local, "FIRST_WAVE", 1)
        patch.setattr(LocalEngine, "_results", results)
        for _ in range(2):
            assert main(command_of(name, lists, out)) == 130
            assert 0 < len(rows(out)) < len(rows(whole))
    assert main(command_of(name, lists, out)) == 3
    for suffix in ("", ".errors.jsonl"):
        assert Path(f"{out}{suffix}").read_bytes() == Path(f"{whole}{suffix}").read_bytes()
    decided = {row["id"]: row for row in rows(whole)}
    failed = [row["id"] for row in rows(Path(f"{whole}.errors.jsonl"))]
    # Half a pair of surrogates is no text, so that its line is not read as far as its id.
    assert failed == ["none", None]
    assert [*decided] == [row["id"] for row in odd_lists() if row["id"] not in ("none", "half")]
    for row in decided.values():
        utilities = [row["utility"], *(place["utility"] for place in row["ranking"])]
        assert all(math.isfinite(utility) for utility in utilities)
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["metricx", "bleurt", "xcomet", "embedding"])
def test_a_killed_run_has_the_same_bytes(name: str, tmp_path: Path) -> None:
    rows_of = [{**row, "source": SOURCE} for row in made_lists(150, 12, seed=4)]
    lists = write(tmp_path / "lists.jsonl", *rows_of)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert main(command_of(name, lists, whole)) == 0
    command = [sys.executable, "-m", "discorank", *command_of(name, lists, out)]
    num_killed, num_rows = 0, 0
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and num_rows >= (len(rows(out)) if out.exists() else 0):
            time.sleep(0.02)
        process.kill()
        num_killed += process.wait() == -signal.SIGKILL
        num_rows = out.read_bytes().count(b"\n")
    assert num_killed
    assert subprocess.run(command, check=False).returncode == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("name", ["xcomet", "embedding"])
def test_a_cache_holds_ids_of_pairs_and_vectors_of_texts(name: str, tmp_path: Path) -> None:
    lists = write(tmp_path / "lists.jsonl", *odd_lists()[:3])
    plain = tmp_path / "plain.jsonl"
    assert main(command_of(name, lists, plain)) == 0
    for run in ("cold", "warm"):
        out = tmp_path / f"{run}.jsonl"
        cache = ["--cache", str(tmp_path / "cache")]
        assert main([*command_of(name, lists, out), *cache]) == 0
        assert out.read_bytes() == plain.read_bytes()
    timings = json.loads(Path(f"{tmp_path}/warm.jsonl.run.json").read_text())
    assert "cached_texts" in json.dumps(timings)
    metric = load_metric(COMMANDS[name][2])
    assert isinstance(metric, Metric)
    shared = Cache(tmp_path / "cache")
    for _ in range(2):
        store = Store(metric.scorer, shared)
        store.add([metric.comparison(TEXTS, TEXTS, SOURCE, NO_CONTEXT)])
        columns = store.reps.columns
        if name == "embedding":
            assert columns.keys() == {"embedding", "norm"}
        else:
            assert columns.keys() - {"text", "cut"} == {"ids"}
    assert store.meter.take().cached_texts >= len(TEXTS)
    shared.close()
