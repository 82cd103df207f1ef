"""Kendall's tau as WMT counts it, and correlations, against golden values."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats  # type: ignore[import-untyped]

from discorank.rerank.selection.statistics import (
    Correlation,
    RankedPairs,
    correlation,
    false_discovery_control,
    two_sided_t,
)

from ...support.trees import GOLDEN

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
PEERS: dict[Correlation, Any] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "tau_b": stats.kendalltau,
}
VARIANTS: tuple[Literal["wmt12", "wmt13", "wmt14"], ...] = ("wmt12", "wmt13", "wmt14")


@pytest.mark.parametrize("case", GOLDEN["kendall"]["cases"], ids=lambda case: case["name"])
def test_golden_kendall(case: Any) -> None:
    human = np.array([{"<": -1, "=": 0, ">": 1}[pair["human"]] for pair in case["pairs"]])
    gaps = [pair["metric_first"] - pair["metric_second"] for pair in case["pairs"]]
    counts = RankedPairs.of(np.sign(gaps), human)
    assert counts == RankedPairs(*(case[name] for name in counts._fields))
    for variant in VARIANTS:
        tau = counts.tau(variant)
        assert tau == (None if case[variant] is None else pytest.approx(case[variant], abs=1e-15))


def test_golden_system_level() -> None:
    golden = GOLDEN["system_level"]
    ratios = golden["win_ratio"]
    systems = sorted(ratios)
    human = [ratios[name] or 0.0 for name in systems]
    metric = [golden["metric"][name] for name in systems]
    for name in ("spearman", "pearson"):
        found = correlation(name, human, metric)
        assert found == pytest.approx(golden[name], abs=1e-12)
    tied = golden["spearman_with_ties"]
    found = correlation("spearman", tied["human"], tied["metric"])
    assert found == pytest.approx(tied["spearman"], abs=1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_correlations_of_rows_that_do_not_vary(name: Any) -> None:
    for x, y in (([], []), ([1], [2]), ([1, 1], [2, 3]), ([2, 3], [1, 1])):
        assert np.isnan(correlation(name, x, y))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_pearson_of_very_small_and_large_numbers(scale: float) -> None:
    x, y = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    scaled = correlation("pearson", [scale * v for v in x], y)
    assert scaled == pytest.approx(correlation("pearson", x, y), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40))
def test_correlations_are_those_of_scipy(rows: list[tuple[float, float]]) -> None:
    x, y = np.array(rows).T
    for name, peer in PEERS.items():
        value = correlation(name, x, y)
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert np.isnan(value)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # values that hardly vary
            expected = peer(x, y).statistic
        assert value == pytest.approx(expected, abs=1e-6 if name == "pearson" else 1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_correlations_of_long_rows(name: Correlation) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=3000).round(2)
    y = (x + random.normal(size=3000)).round(1)
    assert correlation(name, x, y) == pytest.approx(PEERS[name](x, y).statistic, abs=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 60), st.integers(1, 80), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_tails_and_false_discoveries_are_those_of_scipy(
    t: float, degrees: int, p: list[float]
) -> None:
    # its tail is off by 3e-13 near t = 0, its incomplete beta function is not
    inside = special.betainc(0.5, degrees / 2, t * t / (degrees + t * t))
    assert two_sided_t(t, degrees) == pytest.approx(1 - inside, abs=1e-13)
    raised = false_discovery_control(np.array(p)).tolist()
    assert raised == pytest.approx(stats.false_discovery_control(p).tolist(), abs=1e-15)
