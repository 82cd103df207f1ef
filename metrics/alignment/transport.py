"""Exact optimal transport between the units of two texts, for many pairs of texts at once.

    min over P >= 0 of sum_ij P_ij c_ij   with sum_j P_ij = a_i and sum_i P_ij = b_j

Masses are whole numbers, so that flows are exact. Solved by successive shortest paths (Busacker and Gowen 1960; Ford
and Fulkerson 1962): flow is sent on the cheapest way from a row with supply to a column with demand, which may take
back flow that was sent before, until none is left. Pairs go side by side, each at its own pace; a pair's plan depends
on its own costs and masses alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..representations import FloatArray, IntArray

ROUNDING = 1e-13  # of the largest cost: ways that are cheaper by less are equally cheap


class _Ways(NamedTuple):
    """The cheapest ways from rows with supply; -1 where one begins."""

    costs: FloatArray  # [P, M], to every column
    row_before: IntArray  # [P, M], the row that a way reaches a column from
    column_before: IntArray  # [P, N], the column whose flow from a row is taken back


def transport(costs: FloatArray, supply: IntArray, demand: IntArray) -> IntArray:
    """The cheapest flows, int64 [P, N, M].

    Args:
        costs: finite costs of P pairs, [P, N, M].
        supply: the masses of the rows, [P, N]; 0 for rows that are no units.
        demand: the masses of the columns, [P, M], with the sums of `supply`.
    """
    flow, left, lack = _begun(costs, supply, demand)
    flows = np.empty_like(flow)
    pairs = np.arange(len(costs))
    while len(pairs):
        has_more = left.any(axis=1)
        if not has_more.all():
            done = ~has_more
            flows[pairs[done]] = flow[done]
            pairs, costs, flow = pairs[has_more], costs[has_more], flow[has_more]
            left, lack = left[has_more], lack[has_more]
            continue
        _send(_cheapest_ways(costs, flow > 0, left > 0), flow, left, lack)
    return flows


def _begun(
    costs: FloatArray, supply: IntArray, demand: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The flow that rows can send to their cheapest columns, and what supply and demand it leaves."""
    left, lack = supply.copy(), demand.copy()
    flow = np.zeros(costs.shape, np.int64)
    pairs = np.arange(len(costs))
    nearest = costs.argmin(axis=2)
    for row in range(costs.shape[1]):
        column = nearest[:, row]
        amount = np.minimum(left[:, row], lack[pairs, column])
        flow[pairs, row, column] = amount
        left[:, row] -= amount
        lack[pairs, column] -= amount
    return flow, left, lack


def _cheapest_ways(
    costs: FloatArray, can_take_back: NDArray[np.bool_], has_supply: NDArray[np.bool_]
) -> _Ways:
    """The cheapest ways from any row with supply, by Bellman and Ford."""
    smallest_step = ROUNDING * np.abs(costs).max(axis=(1, 2), initial=0.0)[:, None]
    row_costs = np.where(has_supply, 0.0, np.inf)  # [P, N]
    column_costs = np.full((len(costs), costs.shape[2]), np.inf)
    column_before = np.full(row_costs.shape, -1)
    row_before = np.full(column_costs.shape, -1)
    back = np.where(can_take_back, costs, -np.inf)
    while True:
        # a way counts as cheaper only if it is more so than rounding: what is before what has no circles then
        onwards = row_costs[:, :, None] + costs
        row = onwards.argmin(axis=1)
        reached = np.take_along_axis(onwards, row[:, None], 1)[:, 0]
        is_cheaper = reached < column_costs - smallest_step
        column_costs = np.where(is_cheaper, reached, column_costs)
        row_before = np.where(is_cheaper, row, row_before)

        returned = column_costs[:, None, :] - back
        column = returned.argmin(axis=2)
        reached = np.take_along_axis(returned, column[:, :, None], 2)[:, :, 0]
        is_cheaper = reached < row_costs - smallest_step
        if not is_cheaper.any():
            return _Ways(column_costs, row_before, column_before)
        row_costs = np.where(is_cheaper, reached, row_costs)
        column_before = np.where(is_cheaper, column, column_before)


def _send(ways: _Ways, flow: IntArray, left: IntArray, lack: IntArray) -> None:
    """Sends as much as possible on the cheapest ways to every column with demand, one column after the other.

    All these ways have reduced costs of 0 under one set of prices, so that the flow stays the cheapest of its amount.
    """
    for end in range(lack.shape[1]):
        pairs = np.flatnonzero((lack[:, end] > 0) & (ways.row_before[:, end] >= 0))
        if len(pairs):
            _send_to(pairs, end, ways, flow, left, lack)


def _send_to(
    pairs: IntArray, end: int, ways: _Ways, flow: IntArray, left: IntArray, lack: IntArray
) -> None:
    """Sends as much as possible to one column, in some pairs."""
    # 1. The way, from its end: steps of (pairs still on it, row, column reached from it, column taken back or -1).
    amount = np.zeros(len(flow), np.int64)
    amount[pairs] = lack[pairs, end]
    start = np.empty(len(flow), np.int64)
    steps = []
    on_way, column = pairs, np.full(len(pairs), end)
    while len(on_way):
        row = ways.row_before[on_way, column]
        before = ways.column_before[on_way, row]
        steps.append((on_way, row, column, before))
        start[on_way] = row
        goes_on = before >= 0
        on_way, row, column = on_way[goes_on], row[goes_on], before[goes_on]
        amount[on_way] = np.minimum(amount[on_way], flow[on_way, row, column])
    amount[pairs] = np.minimum(amount[pairs], left[pairs, start[pairs]])

    # 2. The flow along it.
    for on_way, row, column, before in steps:
        flow[on_way, row, column] += amount[on_way]
        goes_on = before >= 0
        flow[on_way[goes_on], row[goes_on], before[goes_on]] -= amount[on_way[goes_on]]
    left[pairs, start[pairs]] -= amount[pairs]
    lack[pairs, end] -= amount[pairs]
