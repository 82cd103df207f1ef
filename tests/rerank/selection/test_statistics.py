"""Agreement with people: golden values by hand, scipy as the peer of tau-b's parts, and the randomisation test."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import InputError
from discorank.rerank.selection.statistics import (
    VARIANTS,
    Agreement,
    agreement,
    kendall,
    pearson,
    randomisation,
    spearman,
    system_scores,
)

from ...support.trees import GOLDEN

BOUNDED = bounded(max_examples=40, deadline=None, database=None)


@pytest.mark.parametrize("case", GOLDEN["kendall"]["cases"], ids=lambda case: case["name"])
def test_golden_kendall(case: Any) -> None:
    columns = [
        [pair[name] for pair in case["pairs"]]
        for name in ("human", "metric_first", "metric_second")
    ]
    counts = agreement(*columns)
    names = ("concordant", "discordant", "metric_ties", "human_ties")
    assert counts == Agreement(*(case[name] for name in names))
    for variant in VARIANTS:
        tau = kendall(counts, variant)  # type: ignore[arg-type]
        assert tau == (None if case[variant] is None else pytest.approx(case[variant], abs=1e-15))


def test_ties_are_relative() -> None:
    assert agreement([">"], [1e9 + 1e-5], [1e9]).metric_ties == 1
    assert agreement([">"], [1e-9 + 1e-14], [1e-9]).concordant == 1
    assert agreement([">", "<"], [0.0, -2.0], [0.0, -1.0]) == Agreement(1, 0, 1)


def test_golden_system_level() -> None:
    golden = GOLDEN["system_level"]
    ratios = golden["win_ratio"]
    systems = sorted(ratios)
    human, metric = (
        [ratios[name] or 0.0 for name in systems],
        [golden["metric"][name] for name in systems],
    )
    assert spearman(human, metric) == pytest.approx(golden["spearman"], abs=1e-12)
    assert pearson(human, metric) == pytest.approx(golden["pearson"], abs=1e-12)
    tied = golden["spearman_with_ties"]
    assert spearman(tied["human"], tied["metric"]) == pytest.approx(tied["spearman"], abs=1e-12)


def test_correlations_of_nothing() -> None:
    for correlation in (pearson, spearman):
        assert correlation([], []) is None
        assert correlation([1], [2]) is None
        assert correlation([1, 1], [2, 3]) is None
        with pytest.raises(InputError, match="2 and 1 values"):
            correlation([1, 2], [3])
    assert system_scores({"A": [1, 2]}) == {"A": 1.5}


def sides() -> tuple[list[Agreement], list[Agreement]]:
    golden = GOLDEN["randomisation"]
    return tuple([Agreement(*row) for row in golden[f"segments_{side}_[C,D,T]"]] for side in "AB")  # type: ignore[return-value]


@pytest.mark.parametrize("variant", ["wmt12", "wmt14"])
def test_golden_randomisation(variant: Any) -> None:
    golden = GOLDEN["randomisation"]["results"][variant]
    result = randomisation(*sides(), variant)
    assert (result.first, result.second) == pytest.approx(
        (golden["tau_A"], golden["tau_B"]), abs=1e-15
    )
    assert result.p == golden["exact_p_two_sided"]


counts = st.builds(Agreement, st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))


@given(
    st.lists(st.tuples(counts, counts), min_size=1, max_size=6), st.sampled_from(["wmt12", "wmt14"])
)
@BOUNDED
def test_the_exact_test_enumerates(pairs: list[tuple[Agreement, Agreement]], variant: Any) -> None:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))

    def tau(rows: list[Agreement]) -> float | None:
        return kendall(Agreement(*(sum(row[i] for row in rows) for i in range(3))), variant)

    a, b = tau(first), tau(second)
    if a is None or b is None:
        with pytest.raises(InputError, match="no pair that people rank"):
            randomisation(first, second, variant)
        return
    large = 0
    for swap in product([False, True], repeat=len(pairs)):
        x, y = (
            tau([pair[side != own] for pair, own in zip(pairs, swap, strict=True)])
            for side in (False, True)
        )
        large += x is None or y is None or abs(x - y) >= abs(a - b) - 1e-12
    assert randomisation(first, second, variant).p == pytest.approx(large / 2 ** len(pairs))


def test_draws_are_seeded_and_near_the_exact_value() -> None:
    first, second = sides()
    exact = randomisation(first * 3, second * 3).p
    drawn = randomisation(first * 3, second * 3, draws=400)
    assert drawn == randomisation(first * 3, second * 3, draws=400)
    assert drawn.p == pytest.approx(exact, abs=0.08)
    assert randomisation(first * 40, second * 40, draws=1000).p == pytest.approx(1 / 1001)
    assert randomisation(first, first).p == 1


def test_errors() -> None:
    with pytest.raises(InputError, match="1 verdicts, 2 and 1 scores"):
        agreement([">"], [1, 2], [1])
    with pytest.raises(InputError, match="found the verdict '!'"):
        agreement(["!"], [1], [1])
    with pytest.raises(InputError, match="1 and 0 segments"):
        randomisation([Agreement(1, 0, 0)], [])
    with pytest.raises(InputError, match="unknown variant 'wmt15'"):
        kendall(Agreement(1, 0, 0), "wmt15")  # type: ignore[arg-type]
