"""Batches under a budget and halving where memory runs out: the same values, and no other error is swallowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discorank import MBRDecoder, Metric, MetricError, Scorer
from discorank.metrics.errors import is_out_of_memory
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store, in_batches, in_halves
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import NO_CONTEXT, Item
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import read_list

from ...support.examples import examples

BOUNDED = examples(10)
SHORTAGES: dict[str, tuple[type[Exception], str]] = {
    "gpu": (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB"),
    "numpy": (MemoryError, "Unable to allocate 3 TiB"),
    "cpu": (
        RuntimeError,
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried",
    ),
}
every_shortage = pytest.mark.parametrize("kind", SHORTAGES)


@settings
class Narrow(Metric):
    """u(h, r) = 100 |h| + |r|, with memory for so many rows of `represent` and so many cells of `compare`."""

    rows: int = 1 << 30
    cells: int = 1 << 30
    error: str = "numpy"
    name: ClassVar[str] = f"{__name__}:Narrow"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True, multi_reference="mean")

    def load(self) -> NarrowScorer:
        return NarrowScorer(self)


class NarrowScorer(Scorer):
    info = Narrow.info

    def __init__(self, metric: Narrow) -> None:
        self.metric = metric
        self.calls: list[int] = []

    def error(self) -> Exception:
        kind, text = SHORTAGES.get(self.metric.error, (RuntimeError, self.metric.error))
        return kind(text)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        lengths = np.array([len(str(item.text)) for item in items], np.int64)
        return Reps({"length": lengths}), lengths

    def represent(self, prepared: Reps) -> Reps:
        self.calls.append(len(prepared))
        if len(prepared) > self.metric.rows:
            raise self.error()
        return prepared

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        if sum(block.cells for block in blocks) > self.metric.cells:
            raise self.error()
        value = reps["length"].astype(float)
        return [100 * value[b.hypotheses][:, None] + value[b.references][None, :] for b in blocks]


LISTS = [
    ["a", "bbb", "cc", "dddd", "a"],
    ["bb"],
    ["ccccc", "a", "bbb"],
    ["x" * i for i in range(1, 12)],
]


def values(metric: Metric) -> list[bytes]:
    comparisons = [metric.comparison(texts, texts, None, NO_CONTEXT) for texts in LISTS]
    return [u.tobytes() for u in matrices(metric, comparisons)]


@every_shortage
@pytest.mark.parametrize(
    "limits", [{"rows": 1}, {"rows": 3}, {"cells": 11}, {"cells": 30}, {"rows": 2, "cells": 12}]
)
def test_little_memory_gives_the_same_values(kind: str, limits: dict[str, Any]) -> None:
    assert values(Narrow(error=kind, **limits)) == values(Narrow())


@every_shortage
@pytest.mark.parametrize("cells", [1, 3, 11, 40])
def test_little_memory_gives_the_same_scores(kind: str, cells: int) -> None:
    """Aligned segments, several references each, and corpus scores."""
    hypotheses = ["a", "bbb", "cc", "dddd"] * 3
    one, several = ["bb", "a", "ccc", "x"] * 3, [["bb", "a"], ["a"], ["ccc"], ["x"]] * 3
    narrow, wide = Narrow(error=kind, cells=max(cells, 2)), Narrow()
    assert narrow.score(hypotheses, several).tobytes() == wide.score(hypotheses, several).tobytes()
    narrow = Narrow(error=kind, cells=cells)
    assert narrow.score(hypotheses, one).tobytes() == wide.score(hypotheses, one).tobytes()
    assert narrow.corpus(hypotheses, one) == wide.corpus(hypotheses, one)
    assert (
        narrow.pairwise(hypotheses[:1], one[:1]).tobytes()
        == wide.pairwise(hypotheses[:1], one[:1]).tobytes()
    )


@every_shortage
def test_little_memory_gives_the_same_choices(kind: str) -> None:
    records = [{"id": str(i), "candidates": texts} for i, texts in enumerate(LISTS)]
    choices = [
        [(r.index, r.utility, r.gap) for r in MBRDecoder(metric, nbest=None).decode(records)]
        for metric in (Narrow(), Narrow(error=kind, rows=2, cells=11))
    ]
    assert choices[0] == choices[1]


@every_shortage
@pytest.mark.parametrize("limits", [{"rows": 0}, {"cells": 10}])
def test_a_list_that_does_not_fit_fails_alone(kind: str, limits: dict[str, Any]) -> None:
    """No row of the last list fits, eleven cells; its neighbours are decided."""
    metric = Narrow(error=kind, **limits)
    decoder, engine = MBRDecoder(metric), LocalEngine()
    engine.load(decoder.metrics)
    records = [(i, read_list({"id": str(i), "candidates": texts})) for i, texts in enumerate(LISTS)]
    outcomes = dict(decoder.outcomes(records, engine))
    failed = [i for i, outcome in outcomes.items() if isinstance(outcome, MetricError)]
    assert failed == ([0, 1, 2, 3] if "rows" in limits else [3])
    assert SHORTAGES[kind][1] in str(outcomes[3])
    wanted = list(
        MBRDecoder(Narrow()).decode(
            [{"id": str(i), "candidates": texts} for i, texts in enumerate(LISTS)]
        )
    )
    for i in set(outcomes) - set(failed):
        assert getattr(outcomes[i], "utility", None) == wanted[i].utility


@pytest.mark.parametrize("limits", [{"rows": 1}, {"cells": 3}])
def test_other_errors_are_not_swallowed(limits: dict[str, Any]) -> None:
    metric = Narrow(error="shapes cannot be multiplied", **limits)
    for call in (lambda: metric.pairwise(["a", "bb"], ["a", "bb"]), lambda: values(metric)):
        with pytest.raises(MetricError, match="RuntimeError: shapes cannot be multiplied"):
            call()
    assert isinstance(metric.scorer, NarrowScorer)
    assert 1 not in metric.scorer.calls, "nothing was halved"


def test_after_a_shortage_the_store_goes_on() -> None:
    metric = Narrow(rows=0)
    store = Store(metric.scorer)
    comparison = metric.comparison(["a", "bb"], ["ccc"], None, NO_CONTEXT)
    with pytest.raises(MemoryError):
        store.add([comparison])
    assert not store.row
    assert isinstance(metric.scorer, NarrowScorer)
    metric.scorer.metric = Narrow()
    (block,) = store.add([comparison])
    assert store.reps["length"][block.hypotheses].tolist() == [1, 2]


@given(
    lengths=st.lists(st.integers(0, 50), max_size=40),
    budget=st.integers(1, 120),
    memory=st.integers(1, 9),
)
@BOUNDED
def test_batches_hold_every_row_once(lengths: list[int], budget: int, memory: int) -> None:
    seen: list[list[int]] = []

    def run(rows: IntArray) -> list[int]:
        if len(rows) > memory:
            raise MemoryError
        seen.append(rows.tolist())
        return list(rows)

    parts, places = in_batches(np.array(lengths, np.int64), budget, run)
    flat = [row for part in parts for row in part]
    assert [flat[place] for place in places] == list(range(len(lengths)))
    assert [lengths[row] for row in flat] == sorted(lengths)
    assert flat == [row for part in seen for row in part]
    for part in seen:
        assert len(part) == 1 or (
            sum(lengths[row] for row in part) <= budget and len(part) <= memory
        )


def test_halves_keep_the_order_and_end_with_one_piece() -> None:
    sizes: list[int] = []

    def run(work: Sequence[int]) -> list[int]:
        sizes.append(len(work))
        if len(work) > 3:
            raise MemoryError
        return [2 * piece for piece in work]

    assert in_halves(run, range(10)) == [2 * i for i in range(10)]
    assert sizes == [10, 5, 2, 3, 5, 2, 3]

    def never(work: Sequence[int]) -> list[int]:
        sizes.append(len(work))
        raise MemoryError("full")

    sizes.clear()
    with pytest.raises(MemoryError, match="full"):
        in_halves(never, range(8))
    assert sizes == [8, 4, 2, 1]
    assert in_halves(run, []) == []


def test_which_errors_are_shortages() -> None:
    assert all(is_out_of_memory(kind(text)) for kind, text in SHORTAGES.values())
    for other in (
        RuntimeError("mat1 and mat2 shapes"),
        ValueError("can allocate"),
        KeyError("memory"),
    ):
        assert not is_out_of_memory(other)
