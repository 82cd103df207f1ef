"""The options of a budget, and what an audit before the run corrects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Annotated, Any, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...rerank.budget.settings import CHEAP, Budget, Method, load_cheap_utility
from ...rerank.budget.statement import Correction, Shift
from ...rerank.capabilities import SINGLE_LISTS, Needs
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ...rerank.runs.run_file import earlier_settings
from ..terminal.console import say
from . import build
from .inputs import adapted, open_input

MAX_AUDITED = 100_000  # lists
_OF_A_BUDGET = (
    "budget_method",
    "confidence",
    "regret",
    "cheap_utility",
    "budget_seed",
    "force_budget",
)


@settings
class BudgetOptions:
    """A budget of pairs for utilities whose pairs are costly.

    Args:
        budget: compute at most this share of the pairs of each list, such as 0.1, or in rerank read this share of its
            candidates; discorank docs choosing.
        budget_method: which pairs are computed.
        confidence: stop with a list when its choice is that of all pairs with at least this probability, such as 0.95.
        regret: stop with a list when its choice is expected to lose at most so many standard deviations of the list's
            expected utilities, such as 0.01; beside --confidence, when both are met.
        cheap_utility: a utility all of whose pairs are computed first and guide the method, or a sum, each part of
            which guides it; none for none.
        budget_seed: of the method's random draws.
        force_budget: allow a budget where pairs cost next to nothing, as with chrf or bertscore.
    """

    heading: ClassVar = "estimator"

    budget: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    budget_method: Annotated[Method, Rare()] = "adaptive"
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    regret: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Rare()] = None
    cheap_utility: Annotated[str, Rare()] = CHEAP
    budget_seed: Annotated[int, Field(ge=0), Rare()] = 0
    force_budget: Annotated[bool, Rare()] = False


@settings
class AuditOptions:
    """An audit of what is said under a budget.

    Args:
        budget_audit: before the run, decide so many lists drawn at random, 10 or more, from all of their pairs and
            under the budget, and correct what rows say by what these show: for utilities of which nothing is known; 0
            for none.
    """

    heading: ClassVar = "estimator"

    budget_audit: Annotated[int, Field(ge=0, le=MAX_AUDITED), Needs(SINGLE_LISTS), Rare()] = 0


def budget_in(values: Mapping[str, Any]) -> Budget | None:
    """The budget that the options name; None without one.

    Raises:
        InputError: an option of budgets without a budget.
    """
    share = values["budget"]
    if share is None:
        check_without_budget(values)
        return None
    cheap = load_cheap_utility(values["cheap_utility"])
    return Budget(
        share,
        method=values["budget_method"],
        confidence=values["confidence"],
        regret=values["regret"],
        cheap_utility=None if cheap is None else adapted(cheap, {**values, **_NO_MODEL}),
        seed=values["budget_seed"],
        force=values["force_budget"],
    )


# a model that is named is that of the utility
_NO_MODEL = {"model": None, "encoder_path": None, "tokenizer_path": None}


def check_without_budget(values: Mapping[str, Any]) -> None:
    """Raises InputError for an option of budgets where there is none."""
    defaults = build(BudgetOptions, {})
    for name in _OF_A_BUDGET:
        if values[name] != getattr(defaults, name):
            where = f"--{name.replace('_', '-')}"
            raise InputError("is for a budget", where=where, fix="Add --budget SHARE")


def audited(values: Mapping[str, Any], decoder: MBRDecoder, engine: Engine) -> MBRDecoder:
    """The decoder with the correction for --budget-audit: that of the resumed run, or as it shows now.

    Args:
        values: the options.
        decoder: the decoder.
        engine: what values lists.

    Raises:
        InputError: there is no budget, the input is read once, or too few lists could be decided.
    """
    from ...rerank.budget_audit import FEWEST, correction_of, sampled_lists

    budget = decoder.estimator.loaded_budget
    if budget is None:
        raise InputError("is for a budget", where="--budget-audit", fix="Add --budget SHARE")
    correction = _earlier_correction(values["output"])
    if correction is None:
        if values["input"] in ("-", None):
            raise InputError("the input is read twice", where="--budget-audit", fix="Give a file")
        number = max(FEWEST, values["budget_audit"])
        with open_input(values) as lists:
            records = (entry.record for entry in lists if entry.record is not None)
            drawn = sampled_lists(records, number, budget.seed)
        correction = correction_of(decoder, drawn, engine)
        say(f"{len(drawn)} lists were decided from all of their pairs too", values["quiet"])
    return decoder.with_settings(budget=replace(budget, correction=correction))


def _earlier_correction(output: str | None) -> Correction | None:
    """The correction of the run that stands at an output."""
    shifts = _earlier_budget(output).get("correction")
    if not isinstance(shifts, list) or len(shifts) != len(Correction._fields):
        return None
    if not all(isinstance(shift, list) and _are_numbers(shift) for shift in shifts):
        return None
    return Correction(*(Shift(*shift) for shift in shifts))


def _are_numbers(shift: list[Any]) -> bool:
    """Whether these are what a shift is made of."""
    return len(shift) == len(Shift._fields) and all(
        isinstance(value, float) and isfinite(value) for value in shift
    )


def _earlier_budget(output: str | None) -> Mapping[str, Any]:
    """The budget of the run that stands at an output, empty without one."""
    budget = earlier_settings(output).get("budget")
    return budget if isinstance(budget, Mapping) else {}
