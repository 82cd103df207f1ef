"""The benchmark of metrics against people, on small systems files: its numbers, what it keeps, what it says of gaps."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.metric_quality import metrics_against_people
from benchmarks.metric_quality.metrics_against_people import (
    Choices,
    KeptScores,
    agreement,
    mixed,
    table,
)
from benchmarks.support.judged_sets import read_set
from discorank import load_metric
from discorank.metrics.mixture import Mix
from discorank.rerank.selection.judged_systems import human_layer
from discorank.rerank.selection.system_scores import Layer, Part, score_systems

TEXT = "the cat sat on a mat and saw big dogs run by it then slept well"
WORDS = TEXT.split()
RATES = {"A": 0.1, "B": 0.3, "C": 0.5, "D": 0.7}


def spoiled(random: np.random.Generator, text: str, rate: float) -> str:
    return " ".join(
        str(random.choice(WORDS)) if random.random() < rate else word for word in text.split()
    )


def translations(path: Path, seed: int, segments: int = 3) -> None:
    """Four documents by four systems, of which D is not judged everywhere."""
    random = np.random.default_rng(seed)
    lines = []
    for d in range(4):
        reference = [" ".join(random.choice(WORDS, size=9)) for _ in range(segments)]
        systems = {
            name: [spoiled(random, text, rate) for text in reference]
            for name, rate in RATES.items()
        }
        mqm: dict[str, list[float | None]] = {
            name: [float(random.integers(3)) + 9 * rate for _ in reference]
            for name, rate in RATES.items()
        }
        mqm["D"][d % segments] = None
        source = [f"{path.name} {d} {i}" for i in range(segments)]
        found = {
            "id": f"d{d}",
            "source": source,
            "references": {"refA": reference},
            "systems": systems,
            "mqm": mqm,
        }
        lines.append(json.dumps(found) + "\n")
    path.write_bytes(gzip.compress("".join(lines).encode()))


def summaries(path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    lines = []
    for d in range(6):
        reference = " ".join(random.choice(WORDS, size=12))
        systems = {name: spoiled(random, reference, rate) for name, rate in RATES.items()}
        human = {
            name: {"coherence": 5 - rate, "fluency": float(random.random())}
            for name, rate in RATES.items()
        }
        found = {
            "id": f"d{d}",
            "source": f"{path.name} {d}",
            "references": [reference],
            "systems": systems,
            "human": human,
        }
        lines.append(json.dumps(found) + "\n")
    path.write_bytes(gzip.compress("".join(lines).encode()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(metrics_against_people, "COMBINED", ("chrf", "rouge-l"))
    found = tmp_path / "data"
    found.mkdir()
    for seed, name in enumerate(("ted.de-en", "wmt23.zh-en", "bio.en-de", "news.en-de")):
        translations(found / f"mt_mqm_{name}.jsonl.gz", seed)
    summaries(found / "summ_one.jsonl.gz", 5)
    return found


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_every_metric_on_every_set(folder: Path, tmp_path: Path) -> None:
    names = ["chrf", "bleu", "dr-lex", "pdd", "combination"]
    found = table(folder, tmp_path / "work", [], names, None, Choices(draws=50))
    lines = found.splitlines()
    into = lines.index("| into English | ted.de-en | wmt23.zh-en |")
    data = read_set(folder / "mt_mqm_ted.de-en.jsonl.gz")
    human = human_layer("mqm", True, data.documents)
    x, y = (
        score_systems(load_metric("chrf"), data.documents).system_scores(),
        -human.system_scores(),
    )
    accuracy = np.mean([(x[a] > x[b]) == (y[a] > y[b]) for a in range(4) for b in range(a)])
    numbers = (accuracy, stats.pearsonr(x, y).statistic, stats.kendalltau(x, y).statistic)
    assert cells_of(lines[into + 2])[1] == " / ".join(f"{n:.2f}" for n in numbers)
    assert [cells_of(line)[0] for line in lines[into + 2 : into + 7]] == [
        f"`{name}`" for name in names
    ]
    out = lines.index("| out of English | bio.en-de | news.en-de |")
    assert cells_of(lines[out + 4]) == ["`dr-lex`", "- [2]", "- [2]"]
    assert "[2] the parser reads English only  " in lines
    assert "[1] sentences have no roles, and no classifier is given  " in lines
    assert "[3] the encoder is for English only  " in lines
    assert "[4] no other set to train on  " in lines  # the one set of summaries
    assert "| summaries | one, coherence | one, fluency |" in lines
    assert "| bio.en-de | 4 | 4 | 12 | 12 | refA |" in lines


def test_a_run_goes_on_where_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["chrf", "meteor", "combination"]
    first = table(folder, tmp_path / "work", [], names, None, Choices(draws=20))

    def never(*_: Any, **__: Any) -> Layer:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(metrics_against_people, "score_systems", never)
        assert table(folder, tmp_path / "work", [], names, None, Choices(draws=20)) == first
        with pytest.raises(AssertionError):  # fewer documents are other scores
            table(folder, tmp_path / "work", [], names, 6, Choices(draws=20))
    translations(folder / "mt_mqm_ted.de-en.jsonl.gz", 99)
    assert table(folder, tmp_path / "work", [], names, None, Choices(draws=20)) != first


def test_what_is_kept_is_what_was_scored(folder: Path, tmp_path: Path) -> None:
    data, kept = read_set(folder / "mt_mqm_wmt23.zh-en.jsonl.gz"), KeptScores(tmp_path / "kept")
    mix = load_metric("chrf + 0.5*ter")
    assert isinstance(mix, Mix)
    wanted = score_systems(mix, data.documents)
    for found in (
        kept.scored(data, mix),
        kept.scored(data, mix),
        mixed(mix, [kept.scored(data, m) for _, m in mix.parts]),
    ):
        assert found.segments is not None
        assert wanted.segments is not None
        assert found.segments.tolist() == wanted.segments.tolist()
        assert found.document_scores().tolist() == wanted.document_scores().tolist()
        assert (found.name, found.systems, found.sign) == (wanted.name, wanted.systems, wanted.sign)


def test_a_combination_is_not_trained_on_documents_that_it_is_tested_on(
    folder: Path, tmp_path: Path
) -> None:
    table(folder, tmp_path / "work", [], ["chrf", "combination"], None, Choices(draws=5))
    model = json.loads((tmp_path / "work" / "combination.ted.de-en.json").read_text())
    assert model["trained_on"] == ["wmt23.zh-en"]
    lines = gzip.decompress((folder / "mt_mqm_wmt23.zh-en.jsonl.gz").read_bytes()).splitlines()
    both = (
        gzip.decompress((folder / "mt_mqm_ted.de-en.jsonl.gz").read_bytes())
        + json.dumps({**json.loads(lines[0]), "id": "again"}).encode()
    )
    (folder / "mt_mqm_ted.de-en.jsonl.gz").write_bytes(gzip.compress(both))
    table(folder, tmp_path / "work", [], ["chrf", "combination"], None, Choices(draws=5))
    fewer = json.loads((tmp_path / "work" / "combination.ted.de-en.json").read_text())
    assert 0 < fewer["pairs"] < model["pairs"]


def test_marks_say_which_metric_is_better() -> None:
    random = np.random.default_rng(0)
    quality = np.linspace(0, 1, 6)[:, None]
    good, bad = (
        quality + 0.1 * random.normal(size=(6, 40)),
        3 * random.normal(size=(6, 40)) - quality,
    )

    class Mean:
        def aggregate(self, statistics: Any) -> float:
            return float(statistics[:, 0].mean())

        def aggregate_sums(self, sums: Any, rows: Any) -> Any:
            return sums[:, 0] / rows

    def scored(values: Any, higher: bool = True) -> Layer:
        part = Part(1.0, Mean(), values[:, :, None], np.arange(40))
        return Layer("x", higher, tuple("ABCDEF"), (part,), values)

    judged = quality + np.zeros((6, 40))
    human = scored(judged)
    assert agreement(scored(good), scored(bad), human, 100).marks == ("+", "+")
    assert agreement(scored(bad), scored(good), human, 100).marks == ("-", "-")
    alike = agreement(scored(good), scored(good), human, 100)
    assert (alike.accuracy, round(alike.kendall, 9), alike.marks) == (1, 1, ("", ""))
    distance = agreement(
        scored(-good, higher=False), scored(bad), scored(-judged, higher=False), 100
    )
    assert distance.marks == ("+", "+")
    assert distance.accuracy == 1
