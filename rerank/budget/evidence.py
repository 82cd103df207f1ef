"""How sure a choice from a part of the matrix is: the posterior's figures, and what tells how far to trust them."""

from __future__ import annotations

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .posterior import Observed, Posterior, scale_of
from .requests import BoolArray, Found
from .statement import Evidence, Statement, stated

FEWEST = 3  # pairs of which anything is said
UNIT_OF_EQUAL = 1e-6  # of equal scores: the step of their scale, as a share of them


def state(observed: Observed, result: Found) -> Statement:
    """The statement on the `nbest` hypotheses with the highest values; after too few pairs the regret is NaN."""
    problem = observed.problem
    if problem.nbest == problem.num_rows:
        return Statement(1.0, 0.0, np.nan)
    if result.evidence is None or observed.known.sum() < FEWEST:
        chance = problem.nbest / problem.num_rows
        return Statement(chance, np.nan, np.nan)
    return stated(result.evidence, problem.of_scores, stopped=result.stopped)


def possible(draws: FloatArray, broken: BoolArray) -> FloatArray:
    """Draws [n, H] in which hypotheses without an expectation are no better than the worst."""
    if broken.any() and not broken.all():
        draws[:, broken] = draws[:, ~broken].min(axis=1, keepdims=True)
    return draws


def leaders(values: FloatArray, count: int) -> IntArray:
    """The hypotheses with the highest values [H]; NaN comes last."""
    return np.argsort(-values, kind="stable")[:count]


def evidence_of(
    observed: Observed, known: Posterior, draws: FloatArray, chosen: IntArray
) -> Evidence:
    """Evidence on the chosen ones [k], by draws [n, H] of the expected utilities."""
    rows, columns = np.nonzero(observed.known)
    values = observed.utilities[rows, columns]
    is_self = columns == observed.problem.selves[rows]
    scale = scale_of(values, is_self)
    others = values if is_self.all() else values[~is_self]
    step = smallest_step(others) if observed.seen.shape[1] == 1 else 0.0
    confidence, regret = figures_of(draws, chosen, step / 2)
    spread = float(draws.std(axis=1).mean())
    shares = np.where(observed.known, observed.problem.shares, 0.0)[chosen]
    return Evidence(
        confidence,
        regret,
        spread,
        observed.pairs,
        float(observed.seen.mean()),
        len(known.mean),
        len(chosen),
        known.variances.noise,
        known.variances.row,
        known.variances.column,
        float((((others - scale.centre) / scale.unit) ** 4).mean()),
        1 - len(np.unique(others)) / len(others),
        float((scale.of_selves - scale.centre) / scale.unit) if is_self.any() else 0.0,
        float(shares.sum() / len(chosen)),
        _gap(known.mean, chosen) / max(spread, 1e-300),
        step / scale.unit,
    )


def smallest_step(scores: FloatArray) -> float:
    """How far apart different scores are at least, if some are equal, as a judge's on a scale; otherwise 0."""
    different = np.unique(scores)
    if len(different) == len(scores):
        return 0.0
    if len(different) > 1:
        return float(np.diff(different).min())
    return UNIT_OF_EQUAL * max(1.0, float(np.abs(scores).max()))


def figures_of(draws: FloatArray, chosen: IntArray, tie: float = 0.0) -> tuple[float, float]:
    """How often the chosen ones [k] are the best in draws [n, H] of expected utilities, and what they lose a place.

    Others that are better by no more than `tie` are as good.
    """
    count = len(chosen)
    is_chosen = np.zeros(draws.shape[1], bool)
    is_chosen[chosen] = True
    if is_chosen.all():
        return 1.0, 0.0
    worst, best = draws[:, is_chosen].min(axis=1), draws[:, ~is_chosen].max(axis=1)
    top = np.maximum(worst, best)
    if count > 1:
        top = -np.partition(-draws, count - 1, axis=1)[:, :count].sum(axis=1)
    regret = (top - draws[:, is_chosen].sum(axis=1)) / count
    return float((worst >= best - tie).mean()), max(0.0, float(regret.mean()))


def _gap(mean: FloatArray, chosen: IntArray) -> float:
    """How much better the last of the chosen ones [k] is than the best of the others, by their means [H]."""
    others = np.delete(mean, chosen)
    return float(np.nanmin(mean[chosen]) - np.nanmax(others, initial=-np.inf))
