"""Replays of budgets: steps as the plan has them, and constants that are found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.budget.fitted_constants import at_end
from benchmarks.budget.peers import sampled
from benchmarks.budget.replay import Case, replay
from benchmarks.budget.replayed_steps import Steps, read
from benchmarks.budget.trajectories import COLUMNS, trajectories
from discorank.rerank.budget.statement import fitted_constants
from discorank.rerank.expectation import expected_utility


def cases(number: int, size: int = 8) -> list[Case]:
    """Synthetic lists."""
    found = []
    for seed in range(number):
        random = np.random.default_rng(seed)
        points = random.normal(size=(size, 3))
        matrix = points @ points.T + 0.3 * random.normal(size=(size, size))
        cheap = (matrix + random.normal(size=(size, size)))[None]
        weights = np.ones(size)
        found.append(Case(cheap, matrix, weights, expected_utility(matrix, weights)))
    return found


def test_the_last_step_is_the_replay(tmp_path: Path) -> None:
    """What a trajectory ends with is what the plan without a target chooses and loses."""
    lists = cases(5)
    table = trajectories(lists, (0.25, 0.5), 1)
    last = table[table[:, COLUMNS.index("is_last")] == 1]
    assert len(last) == 10
    for row in last:
        one = replay(lists[int(row[0])], "adaptive", row[1], None, int(row[0]))
        assert row[COLUMNS.index("pairs")] == one.pairs
        assert row[3:5] == pytest.approx([one.regret, float(one.same)])
    np.save(tmp_path / "set.ter.1.npy", table)
    steps = read(tmp_path / "set.ter.1.npy")
    assert (steps.name, steps.kind, len(steps.truth)) == ("set.ter.1", "ter", len(table))
    assert len(steps.signs.T) == len(fitted_constants()["pairs"].confidence.coefficients)


def test_constants_are_found_again() -> None:
    """Of choices that are right with a known probability of their signs."""
    random = np.random.default_rng(0)
    width = len(fitted_constants()["pairs"].confidence.coefficients)
    signs = random.normal(size=(4000, width))
    signs[:, 0] = 1.0
    ours = np.zeros(width)
    ours[:3] = 0.5, 1.2, -0.7
    chance = 1 / (1 + np.exp(-signs @ ours))
    truth = np.zeros((4000, 6))
    truth[:, 0], truth[:, 2] = np.arange(4000), 1.0
    truth[:, 4] = random.random(4000) < chance
    line = at_end([Steps("one", "", truth, signs, np.ones(4000))], [], of_odds=True)
    np.testing.assert_allclose(line.coefficients, ours, atol=0.25)


def test_a_few_references_by_hand() -> None:
    """Four pairs for two hypotheses are two of the three references."""
    matrix = np.array([[1.0, 1, 0], [0, 0, 9]])
    peer = sampled(matrix, np.ones(3), 5, 0)
    assert peer.pairs == 4
    assert peer.values.tolist() in ([1.0, 0.0], [0.5, 4.5])
