"""The local engine: large lists by tiles, and memory that does not grow with the number of lists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from discorank.metrics.errors import MetricError
from discorank.metrics.execution import evaluate
from discorank.metrics.execution import evaluate as tiling
from discorank.rerank.choice import Ranking
from discorank.rerank.engines import local
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.mbr import MBRDecoder

from ...support.lists import different_texts

ROOT = Path(__file__).parents[3]


def decided(decoder: MBRDecoder, texts: list[str]) -> Ranking:
    candidates = [{"text": text, "logprob": -len(text) / 9} for text in texts]
    (ranking,) = decoder.decode([{"id": "one", "candidates": candidates}])
    return ranking


@pytest.mark.parametrize(
    ("utility", "weights", "self_pair"),
    [
        ("chrf", "logprob", False),
        ("chrf", "uniform", True),
        ("bleu + 0.1*rouge-l", "logprob", True),
        ("ter", "uniform", False),
    ],
)
def test_tiles_give_what_the_whole_matrix_gives(
    utility: str, weights: str, self_pair: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = different_texts(160)
    decoder = MBRDecoder(utility=utility, weights=weights, self_pair=self_pair, nbest=None)
    whole = decided(decoder, texts)
    for widest in (150, 130):
        monkeypatch.setattr(tiling, "WIDEST", widest)
        assert decided(decoder, texts).ranking == whole.ranking
    kept = MBRDecoder(
        utility=utility, weights=weights, self_pair=self_pair, nbest=None, keep_matrix=True
    )
    assert decided(kept, texts).ranking == whole.ranking


def test_the_matrix_of_a_large_list_is_never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "WIDEST", 200)
    texts = different_texts(1600)
    decoder = MBRDecoder(utility="rouge-l")
    decided(decoder, texts[:300])
    tracemalloc.start()
    decided(decoder, texts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 1600**2 / 2


def test_a_matrix_that_no_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "WIDEST", 200)
    monkeypatch.setattr(evaluate, "memory_bytes", lambda: 300_000)
    texts = different_texts(210)
    assert decided(MBRDecoder(utility="rouge-l"), texts).utility is not None
    with pytest.raises(MetricError, match=r"210 x 210 utilities take .* Leave out"):
        decided(MBRDecoder(utility="rouge-l", keep_matrix=True), texts)


def test_what_is_kept_of_lists_that_are_done_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast they are done: a wave has a largest size, and so has a store of what costs little to make again."""
    monkeypatch.setattr(local, "SHORT_SECONDS", 1e9)
    monkeypatch.setattr(local, "LONG_SECONDS", 1e9)
    monkeypatch.setattr(local, "LAST_WAVE", 1 << 17)
    monkeypatch.setattr(local, "STORE_BYTES", 1 << 20)
    engine = LocalEngine()
    held = []
    texts = different_texts(600)
    lists = [
        {"id": str(i), "candidates": [f"{i} {text}" for text in texts[i % 500 :][:3]]}
        for i in range(3000)
    ]
    for _ in MBRDecoder(utility="rouge-l").decode(iter(lists), engine):
        held.append(sum(store.nbytes for store in engine.stores.values()))
    assert engine.wave == 1 << 17
    # a store is emptied before the wave that follows the one which filled it: 2 MB for a wave of 130,000 characters
    assert max(held) < 4 << 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_is_flat_between_ten_and_a_hundred_thousand_lists() -> None:
    command = [sys.executable, "-m", "benchmarks.scale.flat_memory"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    ratios = re.findall(r"ratio ([\d.]+)", done.stdout)
    assert len(ratios) == 4
    assert max(map(float, ratios)) < 1.1, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_candidates_take_little_memory() -> None:
    command = [sys.executable, "-m", "benchmarks.scale.large_lists", "--utilities", "chrf"]
    done = subprocess.run(
        [*command, "--sizes", "20000"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (mebibytes,) = re.findall(r"(\d+) MiB", done.stdout)
    assert int(mebibytes) < 1500, done.stdout
