"""Expected values of many lists at once: the same bits as of each list alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.base import Metric
from discorank.metrics.execution.meter import Meter
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.engines import local as part_values
from discorank.rerank.engines.expectation import (
    combined_values,
    expected_utilities,
    expected_utility,
)
from discorank.rerank.engines.interface import Result, Task
from discorank.rerank.engines.local import reduced, reduced_lists

VALUES = st.sampled_from([0.0, -0.0, 1.0, 99.9, 1e-300, 1e308, -1e308, np.nan, np.inf, -np.inf])


@bounded(deadline=None, max_examples=20)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 200), st.integers(0, 9))
def test_expectations_of_lists_together_are_those_of_each(
    num_lists: int, num_rows: int, num_columns: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    stacked: FloatArray = 100 * random.random((num_lists, num_rows, num_columns))
    weights = random.choice([0, 0.1, 1, 3.7], (num_lists, num_columns))
    weights[:, 0] = 1
    together = expected_utilities(stacked, weights)
    for values, matrix, of_list in zip(together, stacked, weights, strict=True):
        assert values.tobytes() == expected_utility(matrix, of_list).tobytes()


def task_of(metric: Metric, num_texts: int, *, keep: bool, own: bool) -> Task:
    texts = tuple(map(str, range(num_texts)))
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    weights = np.arange(num_texts, dtype=float) + 1
    return Task("id", metric, (comparison,), weights, np.ones(num_texts) if own else None, keep)


@bounded(deadline=None, max_examples=20)
@given(st.data())
def test_lists_of_every_shape_and_value_are_reduced_as_alone(data: st.DataObject) -> None:
    (_, metric), meter = load_metric("chrf").parts[0], Meter()
    tasks, whole = [], []
    for size in data.draw(st.lists(st.integers(1, 5), max_size=9)):
        keep, own = data.draw(st.booleans()), data.draw(st.booleans())
        tasks.append(task_of(metric, size, keep=keep, own=own))
        cells = data.draw(st.lists(VALUES, min_size=size**2, max_size=size**2))
        whole.append(np.array(cells).reshape(size, size))
    together = reduced_lists(metric, tasks, whole, meter)
    for task, matrix, expectation in zip(tasks, whole, together, strict=True):
        alone = reduced(metric, task, matrix, meter)
        assert expectation.values.tobytes() == alone.values.tobytes()
        assert expectation.pairs == alone.pairs
        assert (expectation.matrix is None) == (alone.matrix is None) == (not task.keep_matrix)


def test_small_finite_lists_are_not_reduced_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _, metric = load_metric("chrf").parts[0]
    tasks = [task_of(metric, size, keep=False, own=False) for size in (3, 4, 3)]
    monkeypatch.setattr(part_values, "reduced", None)
    whole = [np.ones((len(task.weights),) * 2) for task in tasks]
    expectations = reduced_lists(metric, tasks, whole, Meter())
    assert [len(expectation.values) for expectation in expectations] == [3, 4, 3]


@pytest.mark.parametrize("values", [[0.0, -0.0, 2.0], [np.nan, np.inf, -1e308]])
@pytest.mark.parametrize("name", ["chrf", "ter"])
def test_one_part_has_the_bits_of_a_sum_of_one(name: str, values: list[float]) -> None:
    utility = load_metric(name)
    factors = np.array([[weight * part.utility_sign] for weight, part in utility.parts])
    of_sum = (factors * np.array([values])).sum(axis=0)
    assert combined_values(utility, Result(np.array([values]))).tobytes() == of_sum.tobytes()
