"""The cache of representations: what comes back is what was put there, bounded, shared, and damaged rows are absent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import MBRDecoder, Metric, load_metric
from discorank.metrics.execution.cache import FILE, Cache, key
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Ragged, Reps
from discorank.metrics.text.texts import Context, Document
from discorank.rerank.engines.local import LocalEngine

from ...support.waiting import PATIENCE_SECONDS

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
BERT: dict[str, Any] = {"model": str(MODELS / "tiny-bert"), "layer": 2}
COMET: dict[str, Any] = {
    "model": str(MODELS / "tiny-comet-ref"),
    "encoder_path": str(MODELS / "tiny-xlmr"),
}


def loaded(name: str, **settings: Any) -> Metric:
    metric = load_metric(name, **settings)
    assert isinstance(metric, Metric)
    return metric


METRICS: dict[str, Callable[..., Metric]] = {
    "bertscore": lambda **more: loaded("bertscore", **BERT, context=1, **more),
    "comet": lambda **more: loaded("comet", **COMET, context=2, **more),
}
every_metric = pytest.mark.parametrize("name", METRICS)
TEXTS = [
    "the old mill",
    "a mill",
    "the mill turns near the river",
    "",
    "rivers",
    "the old windmill is turning",
]
CONTEXT = Context(source=("one",), target=("the river",))


def reps(*numbers: int) -> Reps:
    rows = [np.arange(n, dtype=np.float32) for n in numbers]
    return Reps({"vector": np.array(numbers, np.float64)[:, None], "row": Ragged.of_rows(rows)})


def value(entry: Reps) -> list[list[float]]:
    return [entry["vector"].tolist(), entry["row"].values.tolist(), entry["row"].offsets.tolist()]


def made(metric: Metric, cache: Cache | None, texts: list[str] = TEXTS) -> tuple[bytes, Store]:
    """Utilities of a list, with a store of its own."""
    store = Store(metric.scorer, cache)
    return matrices(metric, [metric.comparison(texts, texts, "eine Mühle", CONTEXT)], store)[
        0
    ].tobytes(), store


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    entries = {key("a"): reps(3), key("b"): reps(0, 5)}
    cache.put(entries)
    again = Cache(tmp_path / "deep" / "cache")
    for one in (cache, again):
        entries_there = one.get([key("b"), key("c"), key("a")])
        assert {k: value(v) for k, v in entries_there.items()} == {
            k: value(v) for k, v in entries.items()
        }
    cache.put({key("a"): reps(4)})
    assert value(again.get([key("a")])[key("a")]) == value(reps(4))
    assert again.get([]) == {}
    many = {key(str(i)): reps(1) for i in range(1203)}
    cache.put(many)
    assert cache.get(list(many)).keys() == many.keys()
    cache.close()
    again.close()


def test_keys_tell_everything_apart() -> None:
    parts = [
        ("a", "b"),
        ("ab",),
        ("ab", ""),
        ("", "ab"),
        ("b", "a"),
        (),
        ("",),
        ("\ud800",),
        ("\udc00",),
        ("?",),
    ]
    assert len({key(*some) for some in parts}) == len(parts)
    assert key("a", "é") == key("a", "é")


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    size = 10_000
    entries = [{key(str(i)): Reps({"a": np.full(size // 8, float(i))})} for i in range(6)]
    cache = Cache(tmp_path, max_bytes=3 * size + 1000)
    for entry in entries[:3]:
        cache.put(entry)
    keys = [key(str(i)) for i in range(6)]
    assert list(cache.get([keys[0]])) == [keys[0]]
    cache.put(entries[3])
    assert cache.get(keys).keys() == {keys[0], keys[2], keys[3]}
    cache.close()
    cache = Cache(tmp_path, max_bytes=3 * size + 1000)
    cache.get([keys[2]])
    cache.put(entries[4])
    assert keys[2] in cache.get(keys)
    total = cache.base.execute("SELECT sum(size), sum(length(value)) FROM entries").fetchone()
    assert total[0] == total[1] <= cache.max_bytes
    cache.put({key("huge"): Reps({"a": np.zeros(size)})})
    assert not cache.get([*keys, key("huge")])
    cache.close()


def test_a_failed_write_does_not_stop_later_ones(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.base.execute(
        "CREATE TRIGGER full BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.warns(RuntimeWarning, match="disk full"):
        cache.put({key("a"): reps(1)})
    cache.base.execute("DROP TRIGGER full")
    cache.put({key("b"): reps(1)})
    assert cache.get([key("a"), key("b")]).keys() == {key("b")}
    cache.close()


@every_metric
def test_values_are_the_same_cold_warm_and_partly_warm(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric, cache = METRICS[name](), Cache(tmp_path)
    wanted = made(metric, None)[0]
    made(metric, cache, TEXTS[1:4])
    rows: list[int] = []
    represent = metric.scorer.represent

    def counted(some: Reps) -> Reps:
        rows.append(len(some))
        return represent(some)

    monkeypatch.setattr(metric.scorer, "represent", counted)
    assert made(metric, cache)[0] == wanted
    assert sum(rows) == 3, "three texts were there, the source too"
    rows.clear()
    matrix, store = made(metric, cache)
    assert matrix == wanted
    assert not rows
    assert len(store.lengths) == len(store.truncation) == len(store.row)
    again = Cache(tmp_path)
    assert made(METRICS[name](), again)[0] == wanted
    again.close()
    cache.close()


@every_metric
def test_other_settings_do_not_share_rows(name: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    made(METRICS[name](), cache)
    count = cache.base.execute("SELECT count(*) FROM entries").fetchone()[0]
    settings: list[dict[str, Any]] = [
        {"max_tokens": 9},
        {"dtype": "bfloat16"},
        {"truncation": "reference"},
    ]
    for i, more in enumerate(settings):
        other = METRICS[name](**more)
        assert made(other, cache)[0] == made(other, None)[0]
        assert cache.base.execute("SELECT count(*) FROM entries").fetchone()[0] == count * (i + 2)
    cache.close()


def test_what_was_cut_is_kept(tmp_path: Path) -> None:
    """Truncations are counted though nothing is read anew."""
    cache, records = (
        Cache(tmp_path),
        [{"id": "x", "candidates": ["a", "the old mill turns near the river"]}],
    )
    for _ in range(2):
        metric = loaded("bertscore", **BERT, max_tokens=8)
        (ranking,) = MBRDecoder(metric).decode(records, LocalEngine(cache))
        assert ranking.flags == ("truncated-text",)
    cache.close()


@pytest.mark.parametrize("text", ["\ud800 half", Document(["a mill", "turns"]), "a\x00b"])
def test_odd_texts_are_kept(text: Any, tmp_path: Path) -> None:
    metric, cache = loaded("bertscore", **BERT), Cache(tmp_path)
    others = (
        ["a mill", "turns"]
        if isinstance(text, str)
        else [Document(["turns", "a mill"]), Document(["b", "a"])]
    )
    comparison = metric.comparison([text, *others], others, None, Context())
    matrices_bytes = [
        matrices(metric, [comparison], Store(metric.scorer, c))[0].tobytes()
        for c in (None, cache, cache)
    ]
    assert len(set(matrices_bytes)) == 1
    cache.close()


def test_a_metric_without_a_model_leaves_the_cache_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    next(MBRDecoder("chrf").decode([{"id": "x", "candidates": TEXTS}], LocalEngine(cache)))
    assert cache.base.execute("SELECT count(*) FROM entries").fetchone() == (0,)
    cache.close()


SHARE = """
import sys
import numpy as np
from discorank.metrics.execution.cache import Cache, key
from discorank.metrics.representations import Reps

cache = Cache(sys.argv[1], 30000)
for i in range(30):
    keys = {key(str(j)): j for j in range(i, i + 5)}
    for found, reps in cache.get(list(keys)).items():
        assert reps["a"].tolist() == [keys[found]] * 50, "another's row"
    cache.put({k: Reps({"a": np.full(50, j)}) for k, j in keys.items()})
"""


def test_processes_share_a_cache(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARE, str(tmp_path / "cache")]
    with_errors = {"env": dict(os.environ), "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **with_errors) for _ in range(3)]  # type: ignore[call-overload]
    for process in running:
        assert process.communicate(timeout=900)[1] == ""
        assert process.returncode == 0
    cache = Cache(tmp_path / "cache")
    assert len(cache.get([key(str(j)) for j in range(34)])) == 34
    cache.close()


def test_a_file_that_another_process_begins_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discorank.metrics.execution.cache.BEGIN_SECONDS", PATIENCE_SECONDS)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE begun (number)")
    other.execute("BEGIN IMMEDIATE")  # for this lock, SQLite does not wait
    release = threading.Timer(0.3, other.rollback)
    release.start()
    Cache(tmp_path).close()
    release.join()
    other.close()
