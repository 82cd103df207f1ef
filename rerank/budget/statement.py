"""Statements on a choice from a part of the matrix, and the target at which a plan stops.

    logit confidence = c . x,   log(regret / spread) = r . x,   x the features of the evidence
Features are the posterior's own figures and what tells how far to trust them: how many pairs they come from, how much
of the utility is explained, heavy tails. A list that stops does so as its features look good, so c and r are others
at a stop than where the whole budget is used. They were fitted on lists of some metrics; a margin covers all others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray

Coefficients = tuple[float, ...]


class Constants(NamedTuple):
    """Coefficients of statements on the lists of a budget.

    Args:
        confidence, regret: where the whole budget is used.
        confidence_at_stop, regret_at_stop: at a stop.
        margin: logits by which the confidence was too high on metrics that it was not fitted on.
        factor: log by which the regret was too low on these.
    """

    confidence: Coefficients
    regret: Coefficients
    confidence_at_stop: Coefficients
    regret_at_stop: Coefficients
    margin: float
    factor: float


FITTED = Path(__file__).with_name("constants.json")


@cache
def fitted_constants() -> Constants:
    """Constants that were fitted on replays (docs/results/budget.md)."""
    return Constants(**json.loads(FITTED.read_text(encoding="utf-8")))


class Evidence(NamedTuple):
    """Evidence for a choice, of which its statement is made.

    Args:
        spread: the standard deviation of the list's expected utilities, by the posterior.
        features: x, [n].
    """

    spread: float
    features: FloatArray


class Statement(NamedTuple):
    """The statement on a choice.

    Args:
        confidence: the least probability that all pairs would choose the same.
        regret: the most that is expected to be lost in expected utility, on average over the places.
        spread: the standard deviation of the list's expected utilities.
    """

    confidence: float
    regret: float
    spread: float


@dataclass(frozen=True)
class Target:
    """The target that stops a plan before its budget is used up: every bound that is given must be met.

    Args:
        confidence: the choice is that of all pairs with at least this probability.
        regret: the expected loss is at most so many standard deviations of the list's expected utilities.
    """

    confidence: float | None = None
    regret: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is anything to meet."""
        return self.confidence is not None or self.regret is not None

    def met(self, evidence: Evidence) -> bool:
        """Whether a choice may be left as it is."""
        said = stated(evidence, stopped=True)
        is_sure = self.confidence is None or said.confidence >= self.confidence
        is_small = self.regret is None or said.regret <= self.regret * said.spread
        return is_sure and is_small


def stated(evidence: Evidence, *, stopped: bool) -> Statement:
    """The statement on a choice.

    Args:
        evidence: what is known of it.
        stopped: whether the plan stops here, or has used up its budget.
    """
    constants = fitted_constants()
    sure = constants.confidence_at_stop if stopped else constants.confidence
    loss = constants.regret_at_stop if stopped else constants.regret
    odds = float(evidence.features @ np.array(sure)) - constants.margin
    log_loss = float(evidence.features @ np.array(loss)) + constants.factor
    return Statement(_probability(odds), evidence.spread * exp(min(log_loss, 1.0)), evidence.spread)


def _probability(odds: float) -> float:
    return 1 / (1 + exp(-odds)) if odds > 0 else exp(odds) / (1 + exp(odds))
