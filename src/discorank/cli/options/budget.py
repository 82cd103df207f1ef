"""The options of a budget of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...rerank.budget.settings import CHEAP, Budget, load_cheap_utility
from . import build
from .inputs import adapted

_OF_A_BUDGET = (
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
        confidence: stop with a list when its choice is that of all pairs with at least this probability, such as 0.95.
        regret: stop with a list when its choice is expected to lose at most so many standard deviations of the list's
            expected utilities, such as 0.01; beside --confidence, when both are met.
        cheap_utility: a utility all of whose pairs are computed first and guide the search, or a sum, each part of
            which guides it; none for none.
        budget_seed: of the random draws without a cheap utility.
        force_budget: allow a budget where pairs cost next to nothing, as with chrf or bertscore.
    """

    heading: ClassVar = "estimator"

    budget: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    regret: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Rare()] = None
    cheap_utility: Annotated[str, Rare()] = CHEAP
    budget_seed: Annotated[int, Field(ge=0), Rare()] = 0
    force_budget: Annotated[bool, Rare()] = False


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
