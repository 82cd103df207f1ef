"""How sure a choice from a part of the matrix is: its confidence and its expected regret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .observed import Observed

DRAWS = 1000


class Statement(NamedTuple):
    """Confidence (a probability) and expected regret (in expected utility, on average over the places)."""

    confidence: float
    regret: float


def state(observed: Observed, values: FloatArray) -> Statement:
    """What is known of the `nbest` hypotheses with the highest `values` [H]."""
    shares = np.where(observed.seen, observed.problem.shares, 0.0)
    total = shares.sum(axis=1)
    means = np.where(total > 0, observed.sample_means(), np.nan)
    residuals = (observed.utilities - means[:, None])[observed.seen]
    spread = float(np.nanmean(residuals**2)) ** 0.5 + float(np.nanstd(means))
    errors = spread * np.sqrt(1 - total)
    centre = np.where(np.isnan(means), np.nanmean(means), means)
    draws = centre + errors * np.random.default_rng(0).normal(size=(DRAWS, len(means)))
    return of_draws(draws, np.argsort(-values, kind="stable")[: observed.problem.nbest])


def of_draws(draws: FloatArray, chosen: IntArray) -> Statement:
    """The statement that draws [n, H] of the expected utilities make about the chosen ones [k]."""
    count = len(chosen)
    is_chosen = np.zeros(draws.shape[1], bool)
    is_chosen[chosen] = True
    if is_chosen.all():
        return Statement(1.0, 0.0)
    worst, best = draws[:, is_chosen].min(axis=1), draws[:, ~is_chosen].max(axis=1)
    top = -np.partition(-draws, count - 1, axis=1)[:, :count].sum(axis=1)
    regret = (top - draws[:, is_chosen].sum(axis=1)) / count
    return Statement(float((worst >= best).mean()), float(regret.mean()))
