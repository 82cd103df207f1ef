"""Entropic optimal transport between the units of two texts (Cuturi 2013), for many pairs of texts at once.

    min over P of sum_ij P_ij c_ij - eps H(P)   with sum_j P_ij = a_i and sum_i P_ij = b_j;
    P_ij = u_i K_ij v_j,   K_ij = exp(-c_ij / eps),   u <- a / K v,   v <- b / K' u   in turn

Every pair stops by itself, when its rows have their masses but for `TOLERANCE` (its columns have them then exactly), or
after `MAX_STEPS`. Sums run over axes beside which the pairs lie, so that they are added up in one order whatever the
batch: a pair's plan depends on its own costs and masses alone, to the last bit.
"""

from __future__ import annotations

import numpy as np

from ..representations import FloatArray

TOLERANCE = 1e-10  # of a total mass of 1
MAX_STEPS = 5000
CHECKED_EVERY = 10


def sinkhorn(
    costs: FloatArray, supply: FloatArray, demand: FloatArray, entropy: float
) -> FloatArray:
    """The plans of P pairs, float64 [N, M, P].

    Args:
        costs: from 0 to 1, [N, M, P].
        supply: the masses of the rows, [N, P], in sum 1; 0 for rows that are no units.
        demand: the masses of the columns, [M, P], in sum 1.
        entropy: eps, above 0.
    """
    num_pairs = costs.shape[2]
    if num_pairs == 1:  # numpy would add up in another order
        costs, supply, demand = (np.repeat(array, 2, axis=-1) for array in (costs, supply, demand))
        return sinkhorn(costs, supply, demand, entropy)[:, :, :1]
    kernel = np.exp(costs / -entropy)
    # what has no mass adds nothing, from the first step on
    row_factors, column_factors = np.ones_like(supply), (demand > 0).astype(np.float64)
    plans = np.empty_like(kernel)
    pairs = np.arange(num_pairs)
    for step in range(1, MAX_STEPS + 1):
        row_factors = supply / (kernel * column_factors).sum(axis=1)
        column_factors = demand / (kernel * row_factors[:, None]).sum(axis=0)
        if step % CHECKED_EVERY and step < MAX_STEPS:
            continue
        plan = row_factors[:, None] * kernel * column_factors
        error = np.abs(plan.sum(axis=1) - supply).max(axis=0)
        goes_on = np.flatnonzero((error > TOLERANCE) & (step < MAX_STEPS))
        plans[:, :, pairs] = plan
        if not len(goes_on):
            break
        if len(goes_on) == 1:  # a second keeps the order of sums
            goes_on = np.repeat(goes_on, 2)
        pairs, kernel = pairs[goes_on], np.ascontiguousarray(kernel[:, :, goes_on])
        supply, demand = supply[:, goes_on], demand[:, goes_on]
        row_factors, column_factors = row_factors[:, goes_on], column_factors[:, goes_on]
    return plans
