"""Audit of a run's statements on some of its lists, decided from all of their pairs and under the budget.

The constants of statements were fitted on a few kinds of utilities (`budget/constants.json`); of another
they are off by more. Whether the choices of the audited lists are those of all pairs corrects what is said of all.
It is learned once, before the run, and stands in the run file.

How the statements on a utility are corrected by lists of which all pairs were computed.

    logit confidence = c . x + s + t x_1 / 3,   log(regret / spread) = r . x + s' + t' x_2 / 3
c and r are the constants, x the features of a step of a plan (`statement`). s and t are fitted to whether the choice at
this step is that of all pairs, and to what it loses, under a normal prior: few lists change little. At a stop they are
fitted to the first step of each list at which one of several targets is met, in turns with these steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..metrics.errors import DiscorankError, InputError
from ..metrics.registry import load_metric
from ..metrics.representations import FloatArray, IntArray
from .budget.requests import BoolArray
from .budget.settings import Budget, kind_of, load_budget
from .budget.statement import (
    LOSS,
    NEVER_MET,
    NO_CORRECTION,
    ODDS,
    OTHER_METHODS,
    SLOPE_UNIT,
    Constants,
    Correction,
    Evidence,
    Line,
    Shift,
    constants_of,
    features_of,
    on_line,
    shifted,
)
from .choice import TIE, Ranking
from .engines.interface import Engine
from .lists import CandidateList, Distinct
from .mbr import MBRDecoder

FEWEST = 10  # lists that say anything


def sampled_lists(lists: Iterable[CandidateList], number: int, seed: int) -> list[CandidateList]:
    """So many lists of an iterable, any of which is as likely to be drawn as any other; in input order."""
    random = np.random.default_rng(seed)
    drawn: list[tuple[int, CandidateList]] = []
    for i, record in enumerate(record for record in lists if not record.context_only):
        if i < number:
            drawn.append((i, record))
            continue
        place = int(random.integers(i + 1))
        if place < number:
            drawn[place] = (i, record)
    return [record for _, record in sorted(drawn, key=lambda numbered: numbered[0])]


def correction_of(
    decoder: MBRDecoder, records: Sequence[CandidateList], engine: Engine
) -> Correction:
    """The correction that some lists show; each costs its whole matrix, and its budget once more.

    Args:
        decoder: with a budget; a target and a correction of it are left aside.
        records: the lists, each by itself: the context of a document is what stands first.
        engine: what values them.

    Raises:
        InputError: the decoder has no budget, or too few lists could be decided.
    """
    budget = load_budget(decoder.estimator.budget)
    if budget is None:
        raise InputError("a decoder without a budget", where="audit", fix="Give it one")
    if decoder.width:
        decoder = decoder.with_settings(strategy="one-best")
    engine.load(decoder.metrics)
    audits = [
        _audited(exact, estimated, decoder.choice.nbest or 1)
        for exact, estimated in zip(
            _decided(decoder, _whole(budget), None, records, engine),
            _decided(decoder, _watched(budget), decoder.choice.nbest, records, engine),
            strict=True,
        )
    ]
    of_lists = [one for one in audits if one is not None]
    if len(of_lists) < FEWEST:
        problem = f"{len(of_lists)} of {len(records)} lists have more candidates than places and pairs left out"
        raise InputError(problem, where="audit", fix=f"Audit at least {FEWEST} such lists")
    kind = OTHER_METHODS
    if budget.method == "adaptive":
        kind = kind_of(load_metric(decoder.utility), budget.force)
    return corrected(_stacked(of_lists), constants_of(kind), kind)


def _whole(budget: Budget) -> Budget:
    return replace(budget, share=1.0, confidence=None, regret=None, correction=NO_CORRECTION)


def _watched(budget: Budget) -> Budget:
    """The whole budget is used, with a look at every step where the method has targets."""
    target = NEVER_MET if budget.method == "adaptive" else None
    return replace(budget, confidence=target, regret=None, correction=NO_CORRECTION)


def _decided(
    decoder: MBRDecoder,
    budget: Budget,
    nbest: int | None,
    records: Sequence[CandidateList],
    engine: Engine,
) -> list[Ranking | None]:
    """The rankings of lists under a budget; None of lists that fail, of which the run says why."""
    deciding = decoder.with_settings(budget=budget, nbest=nbest)
    numbered = [replace(record, id=str(i)) for i, record in enumerate(records)]
    rankings: list[Ranking | None] = [None] * len(records)
    for i, outcome in deciding.outcomes(enumerate(numbered), engine):
        if outcome is not None and not isinstance(outcome, DiscorankError):
            rankings[i] = outcome
    return rankings


class _AuditedList(NamedTuple):
    steps: tuple[Evidence, ...]
    same: list[float]  # at every step
    regret: list[float]


def _audited(exact: Ranking | None, estimated: Ranking | None, nbest: int) -> _AuditedList | None:
    """The audit of one list; None where it could not be decided, or nothing was left out."""
    if exact is None or estimated is None or estimated.budget is None or not estimated.budget.steps:
        return None
    number = Distinct(exact.candidates).of
    utility = {int(number[ranked.index]): _or_worst(ranked.utility) for ranked in exact.ranking}
    values = np.array([utility[text] for text in sorted(utility)])  # by row of the plan
    # candidates of which no pair has a value are behind all others
    known = values[np.isfinite(values)]
    if len(known) <= nbest or not known.std() > 0:
        return None
    spread = float(known.std())
    steps = estimated.budget.steps
    reached = [float(values[step.chosen].mean()) for step in steps]
    # at the end the list's own order decides between equal estimates, as in the row
    last = [utility[int(number[ranked.index])] for ranked in estimated.ranking[:nbest]]
    reached[-1] = float(np.mean(last))
    best = float(np.sort(known)[-nbest:].mean())
    same = [float(value >= best - TIE * abs(best)) for value in reached]
    return _AuditedList(steps, same, [(best - value) / spread for value in reached])


def _or_worst(utility: float | None) -> float:
    return -np.inf if utility is None else utility


def _stacked(lists: Sequence[_AuditedList]) -> AuditedSteps:
    """The steps of all lists."""
    counts = [len(one.steps) for one in lists]
    is_last = np.zeros(sum(counts), bool)
    is_last[np.cumsum(counts) - 1] = True
    return AuditedSteps(
        np.stack([features_of(step) for one in lists for step in one.steps]),
        np.repeat(np.arange(len(lists)), counts),
        is_last,
        np.concatenate([one.same for one in lists]),
        np.concatenate([one.regret for one in lists]),
    )


PRECISION = 2.0  # of the prior of s and t
SURE = (0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)  # targets
SMALL = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
MAX_REGRET = 5.0
ROUNDS = 3  # of stops and shifts
UNSEEN = Shift(error=1e3)  # where no step says anything: it narrows no margin
MAX_STEPS, MAX_NEWTON_STEP, MIN_STEP = 50, 0.5, 1e-9  # of Newton's method


class AuditedSteps(NamedTuple):
    """Steps of plans on lists whose pairs are all known.

    Args:
        features: [n, S].
        replay: the number of the list of each step, [n].
        is_last: whether its budget was then used up, [n].
        same: whether the choice is that of all pairs, [n].
        regret: what it loses, in standard deviations of the list's expected utilities, [n].
    """

    features: FloatArray
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
    said, shift = on_line(line, steps.features, sloped, kind), Shift()
    for _ in range(ROUNDS):
        now = said + shifted(shift, steps.features, sloped)
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
    features = steps.features[rows]
    truth = steps.same[rows] if of_odds else np.minimum(steps.regret[rows], MAX_REGRET)
    said = on_line(line, features, sloped, kind)
    design = np.stack([np.ones(len(rows)), features[:, sloped] / SLOPE_UNIT], axis=1)
    ours, prior = np.zeros(2), np.diag([PRECISION] * 2)
    information = prior
    for _ in range(MAX_STEPS):
        now = said + design @ ours
        mean = 1 / (1 + np.exp(-now)) if of_odds else np.exp(np.clip(now, -12, 1))
        size = mean * (1 - mean) if of_odds else mean
        information = design.T @ ((weights * size)[:, None] * design) + prior
        step = np.linalg.solve(information, design.T @ (weights * (truth - mean)) - prior @ ours)
        ours += np.clip(step, -MAX_NEWTON_STEP, MAX_NEWTON_STEP)
        if np.abs(step).max() < MIN_STEP:
            break
    error = float(np.sqrt(np.linalg.inv(information)[0, 0]))
    return Shift(float(ours[0]), float(ours[1]), error)
