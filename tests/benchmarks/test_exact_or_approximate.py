"""What a choice is worth, and the peers of the comparison of exact with approximate MBR."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.choice_quality.exact_or_approximate import Case, case, chosen_by_us, outcome
from benchmarks.support.lists import synthetic, with_duplicates
from benchmarks.support.peers import approximate


def test_regret_is_what_a_choice_loses() -> None:
    values = [np.array([1.0, 3.0, 2.0]), np.array([4.0, 4.0, 0.0])]
    of = Case("two lists", "chrf", [["a", "b", "c"]] * 2, values)
    right, wrong = outcome("m", 1.0, [1, 1], of), outcome("m", 1.0, [2, 0], of)
    assert (right.same, right.regret, right.deviations) == (1.0, 0.0, 0.0)
    assert (wrong.same, wrong.regret) == (0.5, 0.5)
    assert wrong.deviations == pytest.approx(0.5 / np.std([1.0, 3.0, 2.0]))


def test_ours_and_all_pairs_of_fastchrf_choose_the_best() -> None:
    pytest.importorskip("fastchrf")
    lists = [synthetic(9, seed) for seed in range(3)] + [with_duplicates(9, 3)]
    of = case("small", "chrf", lists)
    for chosen in (chosen_by_us("chrf", lists), approximate.all_pairs(lists)):
        assert outcome("m", 1.0, chosen, of).same == 1.0
    assert len(approximate.aggregated(lists)) == 4
    assert "chrf fastchrf aggregate" in approximate.calls()
