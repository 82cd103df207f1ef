"""How sure a choice from a part of the matrix is: its confidence and its expected regret."""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Observed
from .posterior import posterior
from .regressors import regressors_of
from .requests import BoolArray

DRAWS = 2000
FEWEST = 3  # pairs of which anything is said
MARGIN = (
    1.3  # logits by which the confidence was too high on the worst set that it was not fitted on
)


class Statement(NamedTuple):
    """Confidence (a probability) and expected regret (in expected utility, on average over the places)."""

    confidence: float
    regret: float

    @property
    def at_least(self) -> float:
        """What the confidence is also of lists and utilities on which it is too high."""
        if not 0 < self.confidence < 1:
            return self.confidence
        return 1 / (1 + exp(MARGIN) * (1 / self.confidence - 1))


class Calibration(NamedTuple):
    """Makes the posterior's figures true on average; x = log(computed pairs / 100).

        logit confidence = shift + slope logit p + by_pairs x,   regret = r exp(level + growth x)
    The posterior is too sure after few pairs, of which it takes too much for known, and too doubtful after many.
    """

    shift: float
    slope: float
    by_pairs: float
    level: float
    growth: float

    def applied(self, statement: Statement, pairs: int, draws: int) -> Statement:
        """The figures of a posterior after so many pairs, from so many draws."""
        x = log(max(1, pairs) / 100)
        # neither none nor all of the draws are certainty
        inside = (statement.confidence * draws + 0.5) / (draws + 1)
        odds = self.shift + self.slope * log(inside / (1 - inside)) + self.by_pairs * x
        regret = statement.regret * exp(self.level + self.growth * x)
        return Statement(1 / (1 + exp(-odds)), regret)


# fitted by benchmarks/budget/calibration.py on the replays in docs/budget.md
CALIBRATION = Calibration(0.569, 0.703, -0.052, -0.390, 0.152)


def state(observed: Observed, values: FloatArray) -> Statement:
    """What is known of the `nbest` hypotheses with the highest `values` [H]; after too few pairs the regret is NaN."""
    nbest, num_rows = observed.problem.nbest, observed.problem.num_rows
    if nbest == num_rows:
        return Statement(1.0, 0.0)
    if observed.known.sum() < FEWEST:
        return Statement(nbest / num_rows, np.nan)
    known = posterior(observed, regressors_of(observed.problem))
    draws = possible(known.draws(DRAWS), observed.broken)
    return CALIBRATION.applied(state_of(draws, leaders(values, nbest)), observed.pairs, DRAWS)


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
