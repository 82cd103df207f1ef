"""Damage to the cache: whatever bits are flipped, utilities keep their bytes, and a warning says what was made anew."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import InputError, Metric, load_metric
from discorank.metrics.execution.cache import (
    ASIDE,
    FILE,
    Cache,
    key,
    read_entry,
    written_entry,
)
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Ragged, Reps
from discorank.metrics.text.texts import NO_CONTEXT

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
TEXTS = ["the old mill", "a mill", "the mill turns near the river", "rivers", "windmill"]
NUM_FLIPS = 25
DAMAGED = "{} entries were damaged and were made anew"


@pytest.fixture(scope="module")
def metric() -> Metric:
    metric = load_metric("bertscore", model=str(MODELS / "tiny-bert"), layer=2)
    assert isinstance(metric, Metric)
    return metric


def utilities(metric: Metric, cache: Cache | None) -> bytes:
    store = Store(metric.scorer, cache)
    comparison = metric.comparison(TEXTS, TEXTS, None, NO_CONTEXT)
    return matrices(metric, [comparison], store)[0].tobytes()


def run(metric: Metric, folder: Path) -> tuple[bytes, list[str]]:
    """The utilities of a run with this cache, and its warnings; others may come of what is collected meanwhile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache = Cache(folder)
        values = utilities(metric, cache)
        cache.close()
    messages = [str(warning.message) for warning in caught]
    return values, [message for message in messages if str(folder) in message]


@pytest.fixture
def filled(metric: Metric, tmp_path: Path) -> Path:
    """The folder of a cache that holds all texts."""
    assert run(metric, tmp_path / "cache")[1] == []
    assert run(metric, tmp_path / "cache")[1] == []
    return tmp_path / "cache"


@pytest.fixture
def entries(filled: Path) -> Iterator[sqlite3.Connection]:
    base = sqlite3.connect(filled / FILE, isolation_level=None)
    yield base
    base.close()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flips_without_change(metric: Metric, folder: Path, bits: list[int]) -> int:
    """How many flips of a bit gave a warning; each gives the values without one, as does the run after it."""
    expected, data, warned = utilities(metric, None), (folder / FILE).read_bytes(), 0
    for bit in bits:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / FILE).write_bytes(flipped(data, bit))
        values, problems = run(metric, folder)
        assert values == expected, f"bit {bit}: {problems}"
        assert len(problems) <= 2, problems
        warned += bool(problems)
        assert run(metric, folder)[0] == expected, bit
    return warned


def test_no_flipped_bit_changes_a_utility(metric: Metric, filled: Path) -> None:
    size = 8 * (filled / FILE).stat().st_size
    bits = random.Random(1).sample(range(size), NUM_FLIPS)
    assert flips_without_change(metric, filled, bits) > 3, "bits of the entries were among them"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_flipped_bit_of_hundreds_changes_a_utility(metric: Metric, filled: Path) -> None:
    size = 8 * (filled / FILE).stat().st_size
    spread = random.Random(2).sample(range(size), 600)
    header = random.Random(3).sample(range(8 * 200), 300)
    assert flips_without_change(metric, filled, [*header, *spread]) > 100


def last_number(value: bytes) -> bytes:
    return flipped(value, 8 * len(value) - 9)


def cut(value: bytes) -> bytes:
    return value[:-3]


@pytest.mark.parametrize(
    "damaged",
    [last_number, cut, b"", b"xx", bytes(range(256)) * 4, b"\xff" * 16, None, "text", 5],
)
def test_damaged_entries_are_counted_and_replaced(
    damaged: Any, metric: Metric, filled: Path, entries: sqlite3.Connection
) -> None:
    rows = entries.execute("SELECT key, value FROM entries LIMIT 3").fetchall()
    for name, value in rows:
        changed = damaged(value) if callable(damaged) else damaged
        entries.execute("UPDATE entries SET value = ? WHERE key = ?", (changed, name))
    cache = Cache(filled)
    store = Store(metric.scorer, cache)
    comparison = metric.comparison(TEXTS, TEXTS, None, NO_CONTEXT)
    matrices(metric, [comparison], store)
    work = store.meter.take()
    assert (work.texts, work.cached_texts, work.damaged_entries) == (3, 2, 3)
    with pytest.warns(RuntimeWarning, match=DAMAGED.format(3)):
        cache.close()
    assert {*entries.execute("SELECT key, value FROM entries")} >= {*rows}
    assert run(metric, filled) == (utilities(metric, None), [])


@pytest.mark.parametrize(
    "content",
    [b"no database at all " * 100, b"SQLite format 3\x00" + b"\xff" * 5000, b"\0" * 9000],
)
def test_a_file_that_is_no_database_is_moved_aside(
    content: bytes, metric: Metric, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(content)
    values, problems = run(metric, tmp_path)
    assert values == utilities(metric, None)
    assert len(problems) == 1
    assert f"it was moved to {ASIDE}, and what it held is made anew" in problems[0]
    assert (tmp_path / ASIDE).read_bytes() == content
    assert run(metric, tmp_path) == (values, [])


def test_a_database_that_breaks_under_a_run_is_moved_aside(metric: Metric, filled: Path) -> None:
    cache = Cache(filled)
    cache.base.execute("DROP TABLE entries")
    with pytest.warns(RuntimeWarning, match=r"is damaged \(no such table: entries\)"):
        assert utilities(metric, cache) == utilities(metric, None)
    assert utilities(metric, cache) == utilities(metric, None)
    assert cache.base.execute("SELECT count(*) FROM entries").fetchone()[0] == len(TEXTS)
    # a second time it does without
    cache.base.execute("DROP TABLE entries")
    with pytest.warns(RuntimeWarning, match="no such table"):
        assert utilities(metric, cache) == utilities(metric, None)
    cache.close()


def test_a_database_that_another_process_has_begun_anew_is_used(
    metric: Metric, filled: Path, tmp_path: Path
) -> None:
    cache = Cache(filled)
    shutil.move(filled / FILE, tmp_path / "old")
    for log in ("-wal", "-shm"):
        (filled / f"{FILE}{log}").unlink(missing_ok=True)
    run(metric, filled)
    cache.base.execute("DROP TABLE entries")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        cache.get([key("a")])
    assert not (filled / ASIDE).exists()
    assert cache.base.execute("SELECT count(*) FROM entries").fetchone()[0] == len(TEXTS)
    cache.close()


@pytest.mark.parametrize("column", ["used", "size"])
def test_damaged_times_and_sizes_change_nothing(
    column: str, metric: Metric, filled: Path, entries: sqlite3.Connection
) -> None:
    for when in (-5, 2**63 - 1, 1e300, "soon", b"soon"):
        entries.execute(f"UPDATE entries SET {column} = ? WHERE rowid = 2", (when,))
        assert run(metric, filled) == (utilities(metric, None), [])


def test_a_cache_that_vanishes_under_a_run_changes_nothing(metric: Metric, filled: Path) -> None:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        cache = Cache(filled)
        shutil.rmtree(filled)
        assert utilities(metric, cache) == utilities(metric, None)
        cache.close()


def no_folder(path: Path, kind: str) -> Path:
    """Something of this kind in the place of a cache's folder or file."""
    if kind == "file":
        path.write_text("")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "folder for a file":
        (path / FILE).mkdir(parents=True)
    elif kind == "loop for a file":
        path.mkdir()
        (path / FILE).symlink_to(FILE)
    elif kind == "NUL":
        return Path(f"{path}\0")
    return path


@pytest.mark.parametrize("kind", ["file", "loop", "folder for a file", "loop for a file", "NUL"])
def test_what_cannot_be_a_cache_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cache"):
        Cache(no_folder(tmp_path / "cache", kind))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(filled: Path) -> None:
    for path in (filled / FILE, filled):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        with pytest.raises(InputError, match="cache"):
            Cache(filled)
    finally:
        filled.chmod(0o755)


AT_THE_END = """
import sys
from discorank.metrics.execution.cache import Cache, key
cache = Cache(sys.argv[1])
cache.damage.elsewhere += 2
"""


def test_who_does_not_close_a_cache_is_told_at_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AT_THE_END, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stderr.count(DAMAGED.format(2)) == 1


def test_an_entry_comes_back() -> None:
    reps = Reps({"a": np.ones((1, 3)), "b": Ragged.of_rows([np.arange(4)])})
    read = read_entry(key("a"), written_entry(key("a"), reps))
    assert read is not None
    assert read["b"].values.tolist() == [0, 1, 2, 3]
    assert read_entry(key("b"), written_entry(key("a"), reps)) is None
    for damaged in (b"", b"\0" * 4, b"\0" * 16, None, 5, "text"):
        assert read_entry(key("a"), damaged) is None
    assert read_entry(None, b"") is None
