"""Neural metrics from the command line: presets, models that move, caches, what is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from discorank import Context, load_metric
from discorank.cli.main import main
from discorank.metrics.execution.cache import FILE, Cache

from ..support.lists import different_texts, write_lists

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "golden" / "docmetrics" / "models"
DEMO = str(ROOT / "examples" / "demo.jsonl")
ENCODER = ["--encoder-path", str(MODELS / "tiny-xlmr")]
COMET = ["--model", str(MODELS / "tiny-comet-ref"), *ENCODER]
QE = ["--model", str(MODELS / "tiny-comet-qe"), *ENCODER]
BERT = [
    "--model",
    str(MODELS / "tiny-bert"),
    "--utility",
    f'doc-bertscore(model="{MODELS}/tiny-bert",layer=2)',
]
GOLDEN = ROOT / "tests" / "golden"
METRICX = [
    "--model",
    str(GOLDEN / "metricx" / "models" / "tiny-metricx-24"),
    "--tokenizer-path",
    str(GOLDEN / "metricx" / "models" / "tiny-mt5-tokenizer"),
]
TINY = "version=24,regression_token_id=11"
XCOMET = [
    "--model",
    str(GOLDEN / "xcomet" / "models" / "tiny-xcomet"),
    "--encoder-path",
    str(GOLDEN / "xcomet" / "models" / "tiny-xlmr-xl"),
]
Captured = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    return main([*arguments, "--quiet"])


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def learned(family: str, name: str) -> list[str]:
    return ["--model", str(GOLDEN / family / "models" / name)]


@pytest.mark.parametrize(
    ("command", "preset", "more"),
    [
        ("decode", "mbr-doc-comet", COMET),
        ("rerank", "rerank-doc-comet-qe", QE),
        ("decode", "mbr-doc-bertscore", BERT),
        ("decode", "mbr-metricx", [*METRICX, "-u", f"metricx({TINY})"]),
        ("rerank", "rerank-metricx-qe", [*METRICX, "-m", f"metricx-qe({TINY})"]),
        ("decode", "mbr-xcomet", XCOMET),
        ("rerank", "best-of-n", learned("classifiers", "tiny-llama-reward")),
        ("decode", "mbr-bleurt", learned("bleurt", "tiny-bleurt-20")),
        ("decode", "mbr-embedding", learned("sentence_embedding", "tiny-st-mean")),
    ],
)
def test_presets_run(command: str, preset: str, more: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run(command, DEMO, "--config", preset, "-o", str(out), *more) == 0
    about = json.loads(Path(f"{out}.run.json").read_text())
    name = "reward" if preset == "best-of-n" else preset.partition("-")[2].removeprefix("doc-")
    assert name in str(about["signature"])
    if "-doc-" in preset:
        assert about["settings"]["strategy"] == "sequential"
        assert "context=2" in str(about["signature"])
    assert len(rows(out)) == len(Path(DEMO).read_text(encoding="utf-8").splitlines())


def test_a_run_goes_on_with_a_model_that_has_moved(tmp_path: Path, capsys: Captured) -> None:
    out, lists = tmp_path / "out.jsonl", tmp_path / "lists.jsonl"
    first, *rest = Path(DEMO).read_text(encoding="utf-8").splitlines(keepends=True)
    lists.write_text(first + "{broken\n" + "".join(rest), encoding="utf-8")
    for name in ("here", "there", "changed"):
        shutil.copytree(MODELS / "tiny-comet-ref", tmp_path / name)
    command = ["decode", str(lists), "-u", "doc-comet", *ENCODER, "-o", str(out)]
    assert run(*command, "--model", str(tmp_path / "here")) == 3
    lists.write_text(first + "".join(rest), encoding="utf-8")
    assert run(*command, "--model", str(tmp_path / "there")) == 0
    whole = tmp_path / "whole.jsonl"
    assert run(*command[:-1], str(whole), "--model", str(tmp_path / "here")) == 0
    assert whole.read_bytes() == out.read_bytes()
    with open(tmp_path / "changed" / "hparams.yaml", "a", encoding="utf-8") as settings:
        settings.write("# other bytes\n")
    assert run(*command, "--model", str(tmp_path / "changed")) == 4
    assert "utility" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", DEMO, "-u", "comet", *QE], "comet-qe"),
        (["rerank", DEMO, "-m", "comet-qe", *COMET], "comet(model"),
        (["decode", DEMO, "-u", "comet", *COMET[:2], "--encoder-path", BERT[1]], "tiny-bert"),
        (["decode", DEMO, "-u", "bertscore", *BERT[:2]], "layer"),
        (["decode", DEMO, "-u", "comet", *COMET, "--device", "cuda:99"], "cuda:99"),
        (["decode", DEMO, "-u", "comet", *COMET, "--cache", DEMO], "demo.jsonl"),
    ],
)
def test_refusals_name_the_cause(
    arguments: list[str], message: str, tmp_path: Path, capsys: Captured
) -> None:
    assert run(*arguments, "-o", str(tmp_path / "out")) in (1, 2)
    assert message in capsys.readouterr().err


LM = str(GOLDEN / "causal" / "models" / "tiny-gemma3")


def in_documents() -> list[dict[str, Any]]:
    """Three sentences of each of two documents, with six short candidates each."""
    texts = different_texts(36)
    return [
        {
            "id": f"{number}",
            "document": f"{number // 3}",
            "position": number % 3,
            "candidates": texts[6 * number : 6 * number + 6],
        }
        for number in range(6)
    ]


@pytest.mark.parametrize("normalize", ["none", "zscore"])
def test_fluency_in_context_beside_consensus(normalize: str, tmp_path: Path) -> None:
    lists, out = in_documents(), tmp_path / "out.jsonl"
    source = write_lists(tmp_path / "lists.jsonl", lists)
    features = ["-u", "chrf", "-m", "expected", "-m", "doc-lm*0.25", "--model", LM]
    more = ["--normalize", normalize, "--nbest", "6", "-o", str(out)]
    assert run("rerank", str(source), *features, *more) == 0
    consensus, fluency = load_metric("chrf"), load_metric("doc-lm", model=LM)
    chosen: list[Any] = []
    moved = 0
    for given, row in zip(lists, rows(out), strict=True):
        if not given["position"]:
            chosen = []
        texts: list[str] = given["candidates"]
        expected = consensus.pairwise(texts, texts).mean(axis=1)
        likely = fluency.pairwise(texts, [], None, Context(target=chosen[-2:]))[:, 0]
        if normalize == "zscore":
            expected = (expected - expected.mean()) / expected.std()
            likely = (likely - likely.mean()) / likely.std()
        values = expected + 0.25 * likely
        ranking: Any = row["ranking"]
        found = {entry["index"]: entry["utility"] for entry in ranking}
        assert [found[i] for i in range(6)] == pytest.approx(values.tolist(), rel=1e-6, abs=1e-6)
        assert row["index"] == values.argmax()
        moved += int((expected.argsort() != values.argsort()).any())
        chosen.append(str(row["text"]))
    # standardised, a quarter of it changes rankings
    assert moved or normalize == "none"


CACHING = {
    "decode": ["decode", DEMO, "-u", "doc-comet", *COMET],
    "rerank": ["rerank", DEMO, "-m", "doc-comet-qe", *QE],
    "explain": ["explain", DEMO, "-u", "comet", *COMET, "--id", "ferry:1"],
}


@pytest.mark.parametrize("name", CACHING)
def test_a_command_closes_its_caches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was damaged is told at the end of the command, not when the garbage collector comes by."""
    opened = []

    class Recorded(Cache):
        def __init__(self, folder: str, max_bytes: int) -> None:
            super().__init__(folder, max_bytes)
            opened.append(self)  # so that it is not collected

    monkeypatch.setattr("discorank.metrics.execution.cache.Cache", Recorded)
    command = [*CACHING[name], "--cache", str(tmp_path)]
    assert run(*command) == 0
    assert [cache.usable for cache in opened] == [False]
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as base:
        base.execute("UPDATE entries SET value = value || x'00' WHERE rowid = 1")
    with pytest.warns(RuntimeWarning, match="1 entries were damaged"):
        assert run(*command) == 0
    assert [cache.usable for cache in opened] == [False, False]


def test_a_command_that_fails_closes_its_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def failing(folder: str, max_bytes: int) -> Cache:
        opened.append(Cache(folder, max_bytes))
        return opened[0]

    monkeypatch.setattr("discorank.metrics.execution.cache.Cache", failing)
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": "1", "candidates": []}\n', encoding="utf-8")
    command = ["decode", str(lists), "-u", "comet", *COMET, "--cache", str(tmp_path / "cache")]
    assert run(*command) != 0
    assert [cache.usable for cache in opened] == [False]
