"""How the statements on a utility are corrected by lists of which all pairs were computed.

    logit confidence = c . x + s + t x_1 / 3,   log(regret / spread) = r . x + s' + t' x_2 / 3
c and r are the constants, x the signs of a step of a plan (`statement`). s and t are fitted to whether the choice at
this step is that of all pairs, and to what it loses, under a normal prior: few lists change little. At a stop they are
fitted to the first step of each list at which one of several targets is met, in turns with these steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .requests import BoolArray
from .statement import (
    LOSS,
    ODDS,
    SLOPE_UNIT,
    Constants,
    Correction,
    Line,
    Shift,
    on_line,
    shifted,
)

PRECISION = 2.0  # of the prior of s and t
SURE = (0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)  # targets
SMALL = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
MAX_REGRET = 5.0
ROUNDS = 3  # of stops and shifts
UNSEEN = Shift(error=1e3)  # where no step says anything: it narrows no margin
MAX_STEPS, MAX_STEP, MIN_STEP = 50, 0.5, 1e-9  # of Newton's method


class AuditedSteps(NamedTuple):
    """Steps of plans on lists whose pairs are all known.

    Args:
        signs: [n, S].
        replay: the number of the list of each step, [n].
        is_last: whether its budget was then used up, [n].
        same: whether the choice is that of all pairs, [n].
        regret: what it loses, in standard deviations of the list's expected utilities, [n].
    """

    signs: FloatArray
    replay: IntArray
    is_last: BoolArray
    same: FloatArray
    regret: FloatArray


def corrected(steps: AuditedSteps, constants: Constants, kind: str) -> Correction:
    """The correction of constants that steps show of a utility of a kind."""
    at_end, at_stop = constants.lines(False), constants.lines(True)
    return Correction(
        _at_end(steps, at_end[0], kind, of_odds=True),
        _at_end(steps, at_end[1], kind, of_odds=False),
        _at_stop(steps, at_stop[0], kind, of_odds=True),
        _at_stop(steps, at_stop[1], kind, of_odds=False),
    )


def _at_end(steps: AuditedSteps, line: Line, kind: str, *, of_odds: bool) -> Shift:
    """The shift where the budget is used up: the last step of a list counts as much as all before it."""
    _, inverse, counts = np.unique(steps.replay, return_inverse=True, return_counts=True)
    weights = np.where(steps.is_last, 0.5, 0.5 / counts[inverse])
    return _shift(steps, np.arange(len(weights)), weights, line, kind, of_odds=of_odds)


def _at_stop(steps: AuditedSteps, line: Line, kind: str, *, of_odds: bool) -> Shift:
    """The shift at the first steps that meet targets, which is what the shifted line itself says."""
    sloped = ODDS if of_odds else LOSS
    bounds = np.log([t / (1 - t) for t in SURE]) if of_odds else np.log(SMALL)
    said, shift = on_line(line, steps.signs, sloped, kind), Shift()
    for _ in range(ROUNDS):
        now = said + shifted(shift, steps.signs, sloped)
        firsts = [first(steps.replay, now >= b if of_odds else now <= b) for b in bounds]
        rows = np.concatenate(firsts)
        weights = np.full(len(rows), 1 / len(bounds))
        shift = _shift(steps, rows, weights, line, kind, of_odds=of_odds)
    return shift


def first(replay: IntArray, is_met: BoolArray) -> IntArray:
    """The first step of each replay [n] at which something is met, as places."""
    met = np.flatnonzero(is_met)
    _, places = np.unique(replay[met], return_index=True)
    return np.asarray(met[places], np.int64)


def _shift(
    steps: AuditedSteps,
    rows: IntArray,
    weights: FloatArray,
    line: Line,
    kind: str,
    *,
    of_odds: bool,
) -> Shift:
    """A logistic or a quasi-Poisson regression on two numbers, by Newton's method; of no rows, nothing."""
    if not len(rows):
        return UNSEEN
    sloped = ODDS if of_odds else LOSS
    signs = steps.signs[rows]
    truth = steps.same[rows] if of_odds else np.minimum(steps.regret[rows], MAX_REGRET)
    said = on_line(line, signs, sloped, kind)
    design = np.stack([np.ones(len(rows)), signs[:, sloped] / SLOPE_UNIT], axis=1)
    ours, prior = np.zeros(2), np.diag([PRECISION] * 2)
    information = prior
    for _ in range(MAX_STEPS):
        now = said + design @ ours
        mean = 1 / (1 + np.exp(-now)) if of_odds else np.exp(np.clip(now, -12, 1))
        size = mean * (1 - mean) if of_odds else mean
        information = design.T @ ((weights * size)[:, None] * design) + prior
        step = np.linalg.solve(information, design.T @ (weights * (truth - mean)) - prior @ ours)
        ours += np.clip(step, -MAX_STEP, MAX_STEP)
        if np.abs(step).max() < MIN_STEP:
            break
    error = float(np.sqrt(np.linalg.inv(information)[0, 0]))
    return Shift(float(ours[0]), float(ours[1]), error)
