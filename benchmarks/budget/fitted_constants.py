"""Fits the constants of statements to replayed steps, and writes their file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.budget.replayed_steps import Steps
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.statement import (
    LOSS,
    ODDS,
    SCORES_OF_TEXTS,
    SLOPE_UNIT,
    Constants,
    Line,
    on_line,
)
from discorank.rerank.budget_audit import ROUNDS, SMALL, SURE, first

STOP_BUDGETS = (0.25, 0.5)
RIDGE, KIND_RIDGE = 3.0, 4.0
WEIGHT = 1200.0  # replays that a set counts for at most
SHIPPED = ("ter", "kernel")  # kinds of which the replays have the utility that users have


def design(signs: FloatArray, kind: str, kinds: Sequence[str], sloped: int) -> FloatArray:
    """Signs with a shift and a slope of each kind."""
    own = np.zeros((len(signs), 2 * len(kinds)))
    if kind in kinds:
        place = 2 * kinds.index(kind)
        own[:, place], own[:, place + 1] = 1.0, signs[:, sloped] / SLOPE_UNIT
    return np.hstack([signs, own])


def regression(
    designs: list[FloatArray],
    responses: list[FloatArray],
    weights: list[FloatArray],
    kinds: Sequence[str],
    of_odds: bool,
) -> Line:
    """A logistic or a quasi-Poisson regression with ridge, by Newton's method."""
    design, response = np.concatenate(designs), np.concatenate(responses)
    weight = np.concatenate(weights)
    width = design.shape[1]
    ridge = np.full(width, RIDGE)
    ridge[0] = 1e-6
    ridge[width - 2 * len(kinds) :] = KIND_RIDGE
    ours = np.zeros(width)
    for _ in range(100):
        line = design @ ours
        mean = 1 / (1 + np.exp(-line)) if of_odds else np.exp(np.clip(line, -12, 1))
        size = mean * (1 - mean) if of_odds else mean
        hessian = design.T @ ((weight * size)[:, None] * design) + np.diag(ridge)
        step = np.linalg.solve(hessian, design.T @ (weight * (response - mean)) - ridge * ours)
        ours += np.clip(step, -0.5, 0.5)
        if np.abs(step).max() < 1e-7:
            break
    own = ours[width - 2 * len(kinds) :].reshape(-1, 2)
    return Line(
        tuple(map(float, ours[: width - 2 * len(kinds)])),
        {kind: (float(a), float(b)) for kind, (a, b) in zip(kinds, own, strict=True)},
    )


def at_end(sets: Sequence[Steps], kinds: Sequence[str], of_odds: bool) -> Line:
    """A line for the end of a budget: the last step of a replay counts as much as all before it."""
    weights = []
    for steps in sets:
        _, inverse, counts = np.unique(steps.replay, return_inverse=True, return_counts=True)
        weight = np.where(steps.is_last, 1.0, 1 / counts[inverse])
        weights.append(weight * min(1.0, 2 * WEIGHT / weight.sum()))
    return _line(sets, weights, kinds, of_odds)


def at_stop(sets: Sequence[Steps], kinds: Sequence[str], of_odds: bool, line: Line) -> Line:
    """A line for the first step that meets a target, which is what the line itself says."""
    sets = [steps.of(np.isin(steps.truth[:, 1], STOP_BUDGETS)) for steps in sets]
    sets = [steps for steps in sets if len(steps.truth)]
    for _ in range(ROUNDS):
        chosen, weights = [], []
        for steps in sets:
            said = on_line(line, steps.signs, ODDS if of_odds else LOSS, steps.kind)
            bounds = np.log([t / (1 - t) for t in SURE]) if of_odds else np.log(SMALL)
            firsts = [first(steps.replay, said >= b if of_odds else said <= b) for b in bounds]
            rows = np.concatenate(firsts)
            chosen.append(steps.of(rows))
            num_replays = steps.replay.max() + 1
            weights.append(np.full(len(rows), min(1.0, WEIGHT / num_replays) / len(bounds)))
        line = _line(chosen, weights, kinds, of_odds)
    return line


def _line(
    sets: Sequence[Steps], weights: list[FloatArray], kinds: Sequence[str], of_odds: bool
) -> Line:
    sloped = ODDS if of_odds else LOSS
    designs = [design(steps.signs, steps.kind, kinds, sloped) for steps in sets]
    responses = [steps.same if of_odds else steps.regret for steps in sets]
    return regression(designs, responses, weights, kinds, of_odds)


def fitted(sets: Sequence[Steps]) -> Constants:
    """The constants of some lists; margins are set apart."""
    kinds = sorted({steps.kind for steps in sets} - {SCORES_OF_TEXTS})
    sure, loss = (at_end(sets, kinds, of_odds) for of_odds in (True, False))
    return Constants(
        sure, loss, at_stop(sets, kinds, True, sure), at_stop(sets, kinds, False, loss), 0.0, 0.0
    )


def written(pairs: Constants, scores: Constants) -> str:
    """The text of the file of constants."""
    constants = {"pairs": _rounded(pairs), "scores": _rounded(scores)}
    return json.dumps(constants, indent=1) + "\n"


def _rounded(constants: Constants) -> dict[str, Any]:
    """Constants to four digits, with the kinds of which users have the utility."""
    lines = []
    for line in constants.four_lines:
        kinds = {
            kind: (round(shift, 4), round(slope, 4))
            for kind, (shift, slope) in line.kinds.items()
            if kind in SHIPPED
        }
        lines.append(Line(tuple(round(value, 4) for value in line.coefficients), kinds))
    one, two, three, four = lines
    return Constants(
        one, two, three, four, round(constants.margin, 2), round(constants.factor, 2)
    ).as_json()
