"""Optimal transport: as a linear program or the plain iteration has it, whatever stands beside a pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from scipy.optimize import linprog  # type: ignore[import-untyped]

from discorank.metrics.alignment.sinkhorn import sinkhorn
from discorank.metrics.alignment.transport import transport
from discorank.metrics.representations import FloatArray, IntArray

BOUNDED = bounded(max_examples=40, deadline=None, database=None, print_blob=True)
Problem = tuple[FloatArray, IntArray, IntArray]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Costs [P, N, M], often equal, and masses, often 0."""
    num_pairs, n, m = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    r = np.random.default_rng(draw(st.integers(0, 10**6)))
    costs = r.random((num_pairs, n, m))
    if draw(st.booleans()):
        costs = costs.round(1)
    rows, columns = r.integers(0, 5, (num_pairs, n)), r.integers(0, 5, (num_pairs, m))
    rows[:, 0] += 1
    columns[:, -1] += 1
    row_sums, column_sums = rows.sum(axis=1, keepdims=True), columns.sum(axis=1, keepdims=True)
    return costs, rows * column_sums, columns * row_sums


def by_program(costs: FloatArray, supply: IntArray, demand: IntArray) -> float:
    """The smallest cost of one pair."""
    n, m = costs.shape
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    program = linprog(costs.ravel(), A_eq=sums, b_eq=np.concatenate([supply, demand]))
    return float(program.fun)


@given(problem=problems())
@BOUNDED
def test_flows_cost_as_little_as_a_linear_program_finds(problem: Problem) -> None:
    costs, supply, demand = problem
    flows = transport(costs, supply, demand)
    assert flows.min() >= 0
    assert (flows.sum(axis=2) == supply).all()
    assert (flows.sum(axis=1) == demand).all()
    for p in range(len(costs)):
        cost = (flows[p] * costs[p]).sum()
        expected = by_program(costs[p], supply[p], demand[p])
        assert cost == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_larger_problems() -> None:
    r = np.random.default_rng(1)
    costs = r.random((4, 20, 24))
    rows, columns = r.integers(1, 90, (4, 20)), r.integers(1, 90, (4, 24))
    supply, demand = rows * columns.sum(1)[:, None], columns * rows.sum(1)[:, None]
    all_costs = (transport(costs, supply, demand) * costs).sum(axis=(1, 2))
    expected = [by_program(*one) for one in zip(costs, supply, demand, strict=True)]
    np.testing.assert_allclose(all_costs, expected, rtol=1e-9)


@given(problem=problems())
@BOUNDED
def test_a_flow_is_that_of_its_pair_alone(problem: Problem) -> None:
    costs, supply, demand = problem
    together = transport(costs, supply, demand)
    for p in range(len(costs)):
        alone = transport(costs[[p]], supply[[p]], demand[[p]])
        assert (alone[0] == together[p]).all()
    # rows and columns that are no units change nothing
    wide = np.pad(costs, ((0, 0), (0, 2), (0, 1)), constant_values=1.0)
    padded = transport(wide, np.pad(supply, ((0, 0), (0, 2))), np.pad(demand, ((0, 0), (0, 1))))
    assert (padded[:, :-2, :-1] == together).all()


def plain_sinkhorn(costs: FloatArray, a: FloatArray, b: FloatArray, entropy: float) -> FloatArray:
    """The plan of one pair, in logarithms, after many steps."""
    f, g = np.zeros(len(a)), np.zeros(len(b))
    with np.errstate(divide="ignore"):
        log_a, log_b = np.log(a), np.log(b)
    for _ in range(20_000):
        f = entropy * (log_a - np.logaddexp.reduce((g - costs) / entropy, axis=1))
        g = entropy * (log_b - np.logaddexp.reduce((f[:, None] - costs) / entropy, axis=0))
    plan: FloatArray = np.exp((f[:, None] + g - costs) / entropy)
    return plan


def test_entropic_plans_are_those_of_the_plain_iteration() -> None:
    r = np.random.default_rng(3)
    costs = r.random((5, 4, 3))
    a, b = r.dirichlet(np.ones(5), 3).T, r.dirichlet(np.ones(4), 3).T
    plans = sinkhorn(costs, a, b, 0.1)
    for p in range(3):
        expected = plain_sinkhorn(costs[:, :, p], a[:, p], b[:, p], 0.1)
        np.testing.assert_allclose(plans[:, :, p], expected, atol=1e-8)


@given(seed=st.integers(0, 10**6), num_pairs=st.integers(1, 6))
@BOUNDED
def test_an_entropic_plan_is_that_of_its_pair_alone(seed: int, num_pairs: int) -> None:
    r = np.random.default_rng(seed)
    n, m = r.integers(1, 9, 2)
    costs = r.random((n, m, num_pairs))
    a, b = r.dirichlet(np.ones(n), num_pairs).T, r.dirichlet(np.ones(m), num_pairs).T
    together = sinkhorn(costs, a, b, 0.05)
    for p in range(num_pairs):
        alone = sinkhorn(costs[:, :, [p]], a[:, [p]], b[:, [p]], 0.05)
        assert alone.tobytes() == np.ascontiguousarray(together[:, :, [p]]).tobytes()
    wide = np.pad(costs, ((0, 1), (0, 3), (0, 0)), constant_values=1.0)
    padded = sinkhorn(wide, np.pad(a, ((0, 1), (0, 0))), np.pad(b, ((0, 3), (0, 0))), 0.05)
    assert np.ascontiguousarray(padded[:n, :m]).tobytes() == together.tobytes()


def test_little_entropy_is_near_the_exact_plan() -> None:
    r = np.random.default_rng(5)
    costs = r.random((6, 6, 1))
    masses = np.ones((6, 1)) / 6
    exact = transport(costs[None, :, :, 0], np.ones((1, 6), int), np.ones((1, 6), int))[0] / 6
    smooth = sinkhorn(costs, masses, masses, 0.005)[:, :, 0]
    assert (smooth * costs[:, :, 0]).sum() == pytest.approx(
        (exact * costs[:, :, 0]).sum(), abs=1e-3
    )
