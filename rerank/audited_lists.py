"""Audit of a run's statements on some of its lists, decided from all of their pairs and under the budget.

The constants of statements were fitted on a few kinds of utilities (`budget/constants.json`); of another
they are off by more. Whether the choices of the audited lists are those of all pairs corrects what is said of all.
It is learned once, before the run, and stands in the run file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..metrics.errors import DiscorankError, InputError
from ..metrics.registry import load_metric
from .budget.correction import AuditedSteps, corrected
from .budget.settings import Budget, kind_of, load_budget
from .budget.statement import (
    NEVER_MET,
    NO_CORRECTION,
    OTHER_METHODS,
    Correction,
    Evidence,
    constants_of,
    signs_of,
)
from .choice import Ranking
from .distinct import Distinct
from .engines.interface import Engine
from .lists import CandidateList
from .mbr_decoder import MBRDecoder
from .ties import TIE

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
    budget = load_budget(decoder.budget)
    if budget is None:
        raise InputError("a decoder without a budget", where="audit", fix="Give it one")
    if decoder.width:
        decoder = replace(decoder, strategy="one-best")
    engine.load(decoder.metrics)
    audits = [
        _audited(exact, estimated, decoder.nbest or 1)
        for exact, estimated in zip(
            _decided(decoder, _whole(budget), None, records, engine),
            _decided(decoder, _watched(budget), decoder.nbest, records, engine),
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
    deciding = replace(decoder, budget=budget, nbest=nbest)
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
    utility = {int(number[place.index]): _or_worst(place.utility) for place in exact.ranking}
    values = np.array([utility[text] for text in sorted(utility)])  # by row of the plan
    # candidates of which no pair has a value are behind all others
    known = values[np.isfinite(values)]
    if len(known) <= nbest or not known.std() > 0:
        return None
    spread = float(known.std())
    steps = estimated.budget.steps
    reached = [float(values[step.chosen].mean()) for step in steps]
    # at the end the list's own order decides between equal estimates, as in the row
    last = [utility[int(number[place.index])] for place in estimated.ranking[:nbest]]
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
        np.stack([signs_of(step) for one in lists for step in one.steps]),
        np.repeat(np.arange(len(lists)), counts),
        is_last,
        np.concatenate([one.same for one in lists]),
        np.concatenate([one.regret for one in lists]),
    )
