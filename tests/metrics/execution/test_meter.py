"""What an engine counts of its work, and that counting changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import load_metric
from discorank.metrics.execution.cache import Cache
from discorank.metrics.execution.meter import STAGES, Meter, Metered
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.status import WorkerMeter, amounts, work_of
from discorank.rerank.mbr import MBRDecoder

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
LISTS = [
    {"id": "a", "candidates": ["the cat sat", "a cat sat", "the cat sat"]},
    {
        "id": "b",
        "candidates": ["a cat sat", "no dog"],
        "pseudo_references": ["one", "two", "the three"],
    },
]


def status_of(utility: Any, cache: Cache | None = None) -> Metered:
    engine = LocalEngine(cache)
    list(MBRDecoder(utility=utility).decode(LISTS, engine))
    return engine.status().work


def test_amounts_of_a_matrix() -> None:
    work = status_of("ter")
    assert work.texts == 6  # distinct over both lists
    assert work.tokens == 3 + 3 + 2 + 1 + 1 + 2  # words
    assert work.pairs == 2 * 2 + 2 * 3  # the repeated candidate once
    assert list(work.seconds) == ["prepare", "represent", "compare", "choose"]
    assert work.all_seconds > 0


def test_a_linear_form_counts_its_pairs() -> None:
    work = status_of("chrf")
    assert work.pairs == 10


def test_parts_of_a_mix_add_up() -> None:
    both, one = status_of("ter + chrf"), status_of("ter")
    assert both.pairs == 20
    assert both.texts == 2 * one.texts


def test_the_cache_is_counted(tmp_path: Path) -> None:
    metric = load_metric("bertscore", model=str(MODELS / "tiny-bert"), layer=2)
    cache = Cache(tmp_path)
    first, second = status_of(metric, cache), status_of(metric, cache)
    cache.close()
    assert (first.texts, first.cached_texts) == (6, 0)
    assert (second.texts, second.cached_texts, second.tokens) == (0, 6, 0)
    assert first.tokens > 6
    assert "cache" in second.seconds
    assert "represent" not in second.seconds


def test_stages_count_what_fails() -> None:
    meter = Meter()
    with pytest.raises(ZeroDivisionError), meter.stage("compare"):
        1 / 0  # noqa: B018
    assert meter.take().seconds["compare"] > 0
    assert meter.take() == Metered()


def test_work_adds_up_and_goes_through_json() -> None:
    one, two = (
        Metered(1, 2, 3, 4, {"prepare": 0.25}),
        Metered(10, 20, 30, 40, {"compare": 1.5, "prepare": 1.0}),
    )
    both = one + two
    assert both == Metered(11, 22, 33, 44, {"prepare": 1.25, "compare": 1.5})
    assert work_of(amounts(both)) == both
    assert work_of({}) == Metered()
    assert set(both.seconds) <= set(STAGES)
    assert both.all_seconds == 2.75


def test_a_worker_and_its_successor_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(np.arange(0.0, 100.0, 10.0).tolist())
    monkeypatch.setattr("discorank.rerank.engines.status.monotonic", lambda: next(now))
    meter = WorkerMeter("actor 1")
    assert not meter.status().alive
    meter.loaded()  # at 0
    meter.add(Metered(pairs=3), 5.0)
    assert meter.status().busy == 0.5  # at 10
    meter.lost()  # at 20
    assert (meter.status().alive, meter.status().died, meter.status().loaded_seconds) == (
        False,
        1,
        20.0,
    )
    meter.loaded()  # at 30
    meter.add(Metered(pairs=4), 3.0)
    status = meter.status()  # at 40
    assert (status.work.pairs, status.busy_seconds, status.loaded_seconds) == (7, 8.0, 30.0)
    assert status.row()["died"] == 1
