"""How sure a choice from a part of the matrix is: its confidence and its expected regret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .features import features_of
from .observed import Observed
from .posterior import posterior
from .requests import BoolArray

DRAWS = 2000
FEWEST = 3  # pairs of which anything is said
SCALE = 1.0  # of the posterior's errors


class Statement(NamedTuple):
    """Confidence (a probability) and expected regret (in expected utility, on average over the places)."""

    confidence: float
    regret: float


def state(observed: Observed, values: FloatArray) -> Statement:
    """What is known of the `nbest` hypotheses with the highest `values` [H]."""
    if observed.known.sum() < FEWEST:
        return Statement(observed.problem.nbest / observed.problem.num_rows, np.nan)
    known = posterior(observed, features_of(observed.problem))
    draws = possible(known.draws(DRAWS, SCALE), observed.broken)
    return state_of(draws, leaders(values, observed.problem.nbest))


def possible(draws: FloatArray, broken: BoolArray) -> FloatArray:
    """Draws [n, H] in which hypotheses without an expectation are no better than the worst."""
    if broken.any() and not broken.all():
        draws[:, broken] = draws[:, ~broken].min(axis=1, keepdims=True)
    return draws


def leaders(values: FloatArray, count: int) -> IntArray:
    """The hypotheses with the highest values [H]; NaN comes last."""
    return np.argsort(-values, kind="stable")[:count]


def state_of(draws: FloatArray, chosen: IntArray) -> Statement:
    """The statement that draws [n, H] of the expected utilities make about the chosen ones [k]."""
    count = len(chosen)
    is_chosen = np.zeros(draws.shape[1], bool)
    is_chosen[chosen] = True
    if is_chosen.all():
        return Statement(1.0, 0.0)
    worst, best = draws[:, is_chosen].min(axis=1), draws[:, ~is_chosen].max(axis=1)
    top = -np.partition(-draws, count - 1, axis=1)[:, :count].sum(axis=1)
    regret = (top - draws[:, is_chosen].sum(axis=1)) / count
    return Statement(float((worst >= best).mean()), max(0.0, float(regret.mean())))
