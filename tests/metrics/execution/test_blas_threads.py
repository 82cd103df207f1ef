"""Products of numpy are made on one thread, through Python too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from discorank import MBRDecoder, load_metric
from discorank.metrics.execution import evaluate
from discorank.metrics.lexical.chrf import ChrFScorer

LISTS = [["a cat sat", "the cat sat", "a dog"], ["one", "two words"]]


class Controller:
    """What a library has of threads."""

    threads = 2

    def select(self, user_api: str) -> Controller:
        assert user_api == "blas"
        return self

    @contextmanager
    def limit(self, limits: int) -> Iterator[None]:
        before, self.threads = self.threads, limits
        try:
            yield
        finally:
            self.threads = before


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    one = Controller()
    module = SimpleNamespace(ThreadpoolController=lambda: one)
    monkeypatch.setitem(sys.modules, "threadpoolctl", module)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    evaluate._controller.cache_clear()
    yield one
    evaluate._controller.cache_clear()


def test_lists_are_compared_on_one_thread(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    compare = ChrFScorer.compare

    def watched(self: ChrFScorer, *arguments: object) -> object:
        seen.append(controller.threads)
        return compare(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ChrFScorer, "compare", watched)
    list(MBRDecoder(utility="chrf").decode(LISTS))
    load_metric("chrf").pairwise(LISTS[0], LISTS[0])
    assert set(seen) == {1}
    assert controller.threads == 2


def test_values_are_the_same_without_the_library(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = load_metric("chrf").pairwise(LISTS[0], LISTS[0])
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    evaluate._controller.cache_clear()
    assert np.array_equal(load_metric("chrf").pairwise(LISTS[0], LISTS[0]), limited)


def test_an_environment_of_one_thread_needs_no_library(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with evaluate.one_blas_thread():
        assert controller.threads == 2
