"""Sequential halving (Jinnai and Ariu 2024): the better half stays, and is compared with twice as many references.

In each of ceil(log2 H) rounds an equal part of the budget T goes to the candidates S that are left:
    t = floor(T / (|S| ceil(log2 H)))  new pseudo-references, drawn without replacement
and the half with the higher mean over all pseudo-references so far remains. Nothing is to be set.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from .observed import Observed
from .requests import Found, Search
from .survivors import affordable_rows, best, only


def halving(observed: Observed) -> Search:
    """The means [H] of the last survivors; stops when `nbest` of them or no pseudo-references are left."""
    problem = observed.problem
    order = problem.random().permutation(problem.columns)
    survivors = affordable_rows(observed)
    rounds = max(1, ceil(log2(problem.num_rows)))
    used = 0
    while len(survivors) > problem.nbest and used < len(order):
        affordable = observed.left // len(survivors)
        wanted = max(1, problem.pairs // (len(survivors) * rounds))
        count = min(wanted, affordable, len(order) - used)
        if count == 0:
            break
        yield from observed.ask(survivors, np.sort(order[used : used + count]))
        used += count
        half = max(problem.nbest, ceil(len(survivors) / 2))
        survivors = best(observed.sample_means(), survivors, half)
    if not used:  # the budget is for one hypothesis alone: a pair says what it is worth
        yield from observed.ask(survivors[:1], order[problem.shares[0, order] > 0][:1])
    return Found(only(observed.sample_means(), survivors))
