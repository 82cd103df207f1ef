"""Statements on a choice from a part of the matrix, and the target at which a plan stops.

    logit confidence = c . x,   log(regret / spread) = r . x,   x the features of the evidence
Features are the posterior's own figures and what tells how far to trust them: how many pairs they come from, how much
of the utility is explained, heavy tails. A list that stops does so as its features look good, so c and r are others
at a stop than where the whole budget is used. Some kinds of utilities, on whose lists all was fitted, have a shift and
a slope of their own; of others less is said to be sure by a margin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...metrics.representations import FloatArray

DRAWS = 1000  # of the posterior, of which a confidence is a share
SMALLEST, LARGEST = 1e-3, 3.0  # regrets in spreads that are told apart
MAX_STEP, MAX_GAP = 5.0, 10.0
SLOPE_UNIT = 3.0  # of the sign on which kinds have a slope of their own
ODDS, LOSS = 1, 2  # indices of these features
SCORES_OF_TEXTS = "scores"  # in place of a kind


class Line(NamedTuple):
    """A linear function of features, with shift and slope of known kinds of utilities."""

    coefficients: tuple[float, ...]
    kinds: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Line:
        """The line in a file of constants."""
        kinds = {kind: (shift, slope) for kind, (shift, slope) in data["kinds"].items()}
        return cls(tuple(data["coefficients"]), kinds)


class Constants(NamedTuple):
    """Lines for the lists of a budget.

    Args:
        confidence, regret: where the whole budget is used.
        confidence_at_stop, regret_at_stop: at a stop.
        margin: logits by which the confidence was too high on a kind that it was not fitted on.
        factor: log by which the regret was too low on such a kind.
    """

    confidence: Line
    regret: Line
    confidence_at_stop: Line
    regret_at_stop: Line
    margin: float
    factor: float

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Constants:
        """The constants in a file."""
        one, two, three, four = (Line.of(data[name]) for name in cls._fields[:4])
        return cls(one, two, three, four, data["margin"], data["factor"])

    def lines(self, stopped: bool) -> tuple[Line, Line]:
        """Those of confidence and regret."""
        if stopped:
            return self.confidence_at_stop, self.regret_at_stop
        return self.confidence, self.regret


FITTED = Path(__file__).with_name("constants.json")


@cache
def fitted_constants(file: Path = FITTED) -> Mapping[str, Constants]:
    """Constants of "pairs" and of "scores", fitted on replays (docs/results/budget.md)."""
    data = json.loads(file.read_text(encoding="utf-8"))
    return {name: Constants.of(constants) for name, constants in data.items()}


class Evidence(NamedTuple):
    """Evidence for a choice, of which its statement is made.

    Args:
        confidence: the posterior's probability that they are the best.
        regret: the posterior's expected loss in expected utility, on average over the places.
        spread: the standard deviation of the list's expected utilities, by the posterior.
        pairs: how many were computed.
        share: of all pairs, how many are known.
        candidates: H.
        places: k.
        noise: share of the variance of pairs that nothing explains.
        row: share of the variance of pairs that is the candidates' own.
        column: share of the variance of pairs that is the references' own.
        tails: mean fourth power of the computed pairs in standard deviations.
        ties: share of them that have the value of another one.
        self_gap: how much higher a text with itself is, in standard deviations; 0 where it is not known.
        settled: share of the chosen ones' expectations that is computed.
        gap: how much better the last of them is than the next one by the means, in spreads.
        step: of the scale that scores are on, in their standard deviations; 0 where they are on none.
    """

    confidence: float
    regret: float
    spread: float
    pairs: int
    share: float
    candidates: int
    places: int
    noise: float
    row: float
    column: float
    tails: float
    ties: float
    self_gap: float
    settled: float
    gap: float
    step: float


class Statement(NamedTuple):
    """The statement on a choice.

    Args:
        confidence: the probability that all pairs would choose the same.
        at_least: what that is also of a kind of utilities that is not known.
        regret: the expected loss in expected utility, on average over the places.
        at_most: what that is also of a kind of utilities that is not known.
        spread: the standard deviation of the list's expected utilities.
    """

    confidence: float
    at_least: float
    regret: float
    at_most: float
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

    def met(self, evidence: Evidence, kind: str) -> bool:
        """Whether a choice may be left as it is."""
        said = stated(evidence, kind, stopped=True)
        is_sure = self.confidence is None or said.at_least >= self.confidence
        is_small = self.regret is None or said.at_most <= self.regret * said.spread
        return is_sure and is_small


def stated(evidence: Evidence, kind: str, *, stopped: bool) -> Statement:
    """The statement on a choice.

    Args:
        evidence: what is known of it.
        kind: of the utility, one of those in the constants or any other; SCORES_OF_TEXTS where texts have one score.
        stopped: whether the plan stops here, or has used up its budget.
    """
    constants = fitted_constants()["scores" if kind == SCORES_OF_TEXTS else "pairs"]
    sure, loss = constants.lines(stopped)
    features = features_of(evidence)
    odds = on_line(sure, features, ODDS, kind)
    log_loss = on_line(loss, features, LOSS, kind)
    margin, factor = (0.0, 0.0) if kind in sure.kinds else (constants.margin, constants.factor)
    return Statement(
        _probability(odds),
        _probability(odds - margin),
        evidence.spread * exp(min(log_loss, 1.0)),
        evidence.spread * exp(min(log_loss + factor, 1.0)),
        evidence.spread,
    )


def features_of(evidence: Evidence) -> FloatArray:
    """The features [n]."""
    inside = (evidence.confidence * DRAWS + 0.5) / (DRAWS + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.divide(evidence.regret, evidence.spread)
    loss = np.clip(np.nan_to_num(loss, nan=LARGEST, posinf=LARGEST), SMALLEST, LARGEST)
    features = [
        1.0,
        np.log(inside / (1 - inside)),
        np.log(loss),
        np.log(np.divide(evidence.pairs, 100)),
        np.log(evidence.share),
        np.log(np.divide(evidence.candidates, 16)),
        np.log(evidence.places),
        np.log(evidence.noise),
        np.log(evidence.row),
        np.log(evidence.column),
        np.log(np.maximum(evidence.tails, 1)),
        evidence.ties,
        np.log1p(np.maximum(evidence.self_gap, 0)),
        np.equal(evidence.self_gap, 0),
        evidence.settled,
        np.log1p(np.clip(evidence.gap, 0, MAX_GAP)),
        np.minimum(evidence.step, MAX_STEP),
    ]
    return np.array(features, np.float64)


def on_line(line: Line, features: FloatArray, sloped: int, kind: str) -> float:
    """The value of a line at features [n]; `sloped` is the feature on which kinds have a slope of their own."""
    shift, slope = line.kinds.get(kind, (0.0, 0.0))
    value = features @ np.array(line.coefficients) + shift + slope * features[sloped] / SLOPE_UNIT
    return float(value)


def _probability(odds: float) -> float:
    return 1 / (1 + exp(-odds)) if odds > 0 else exp(odds) / (1 + exp(odds))
