"""Confidence pruning (Cheng and Vlachos 2023): hypotheses go as soon as the bootstrap gives them no chance.

All that are left, S, are compared with 8, 16, 32, ... pseudo-references (fewer at first under a small budget), drawn
without replacement. h goes if, over bootstrap samples of these,
    P( mean(h) >= mean(h*) ) < 1 - alpha,   h* the best so far, or the k-th best where k places are ranked
"""

from __future__ import annotations

import numpy as np

from ...metrics.representations import IntArray
from .observed import Observed
from .requests import Found, Search
from .survivors import affordable_rows, only

ALPHA = 0.99  # as in the paper
FIRST = 8  # pseudo-references of the first step
SAMPLES = 500  # of the bootstrap


def pruning(observed: Observed) -> Search:
    """The means [H] of the survivors; stops when `nbest` of them or no pseudo-references are left."""
    problem = observed.problem
    random = problem.random()
    order = random.permutation(problem.columns)
    survivors = affordable_rows(observed)
    size, used = max(1, min(FIRST, problem.pairs // len(survivors))), 0
    while len(survivors) > problem.nbest and used < len(order):
        count = min(size - used, len(order) - used, observed.left // len(survivors))
        if count == 0:
            break
        yield from observed.ask(survivors, np.sort(order[used : used + count]))
        used += count
        size = 2 * used
        survivors = _with_a_chance(observed, survivors, np.sort(order[:used]), random)
    if not used:  # the budget is for one hypothesis alone: a pair says what it is worth
        yield from observed.ask(survivors[:1], order[problem.shares[0, order] > 0][:1])
    return Found(only(observed.sample_means(), survivors))


def _with_a_chance(
    observed: Observed, rows: IntArray, columns: IntArray, random: np.random.Generator
) -> IntArray:
    """The hypotheses that reach the k-th best in enough bootstrap samples of the pseudo-references."""
    block = np.ix_(rows, columns)
    shares = observed.problem.shares[block]
    # how often each pseudo-reference is in each sample, [samples, columns]
    each = np.full(len(columns), 1 / len(columns))
    copies = random.multinomial(len(columns), each, SAMPLES).astype(np.float64)
    counting = np.where((shares > 0) & observed.known[block], observed.utilities[block], 0.0)
    total = shares @ copies.T
    means = (counting * shares) @ copies.T / np.where(total > 0, total, 1.0)  # [rows, samples]
    means[observed.broken[rows]] = -np.inf
    nbest = observed.problem.nbest
    ranked = np.argsort(-observed.sample_means()[rows], kind="stable")
    rival = ranked[min(nbest, len(rows)) - 1]
    chance = (means >= means[rival]).mean(axis=1)
    keeps = chance >= 1 - ALPHA
    keeps[ranked[:nbest]] = True
    kept: IntArray = rows[keeps]
    return kept
