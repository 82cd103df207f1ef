"""Correlations and tails against scipy's, on random rows with and without ties."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from discorank import InputError
from discorank.rerank.selection.statistics import (
    false_discovery_control,
    mean_ranks,
    pearson,
    spearman,
    tau_b,
    two_sided_t,
)

BOUNDED = bounded(max_examples=60, deadline=None, database=None)
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40)
PEERS = {pearson: stats.pearsonr, spearman: stats.spearmanr, tau_b: stats.kendalltau}


@BOUNDED
@given(ROWS)
def test_correlations_are_those_of_scipy(rows: list[tuple[float, float]]) -> None:
    x, y = map(list, zip(*rows, strict=True))
    for ours, theirs in PEERS.items():
        value = ours(x, y)
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert value is None
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # values that hardly vary
            expected = theirs(x, y).statistic
        assert value == pytest.approx(expected, abs=1e-6 if ours is pearson else 1e-12)


@pytest.mark.parametrize("correlation", PEERS, ids=["pearson", "spearman", "tau_b"])
def test_correlations_of_long_rows(correlation: Any) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=3000).round(2)
    y = (x + random.normal(size=3000)).round(1)
    expected = PEERS[correlation](x, y).statistic
    assert correlation(x.tolist(), y.tolist()) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_pearson_of_very_small_and_large_numbers(scale: float) -> None:
    x, y = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    assert pearson([scale * v for v in x], y) == pytest.approx(pearson(x, y), abs=1e-12)


@pytest.mark.parametrize("correlation", PEERS, ids=["pearson", "spearman", "tau_b"])
def test_rows_of_unequal_length(correlation: Any) -> None:
    with pytest.raises(InputError, match="2 and 1 values"):
        correlation([1, 2], [3])
    assert correlation([], []) is None


@BOUNDED
@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_ranks_are_those_of_scipy(values: list[float]) -> None:
    assert mean_ranks(values).tolist() == stats.rankdata(values).tolist()


@BOUNDED
@given(st.floats(0, 60), st.integers(1, 80))
def test_tails_are_those_of_scipy(t: float, degrees: int) -> None:
    assert two_sided_t(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), abs=1e-13)


@BOUNDED
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_false_discoveries_are_those_of_scipy(p: list[float]) -> None:
    raised = false_discovery_control(np.array(p))
    assert raised.tolist() == pytest.approx(stats.false_discovery_control(p).tolist(), abs=1e-15)
