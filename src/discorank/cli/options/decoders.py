"""The decoder that a command names, with its budget of pairs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Annotated, Any, ClassVar

from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import Composed, Field, Rare, settings
from ...rerank.budget.settings import CHEAP, Budget, load_cheap_utility
from ...rerank.capabilities import (
    ALL_PAIRS,
    EVERY_VALUE,
    FIRST_STAGE,
    PLAIN_SUMS,
    PSEUDO_REFERENCES,
    Beside,
    Costs,
    Needs,
)
from ...rerank.choice import Choice
from ...rerank.engines.part_sums import Normalize
from ...rerank.estimator import Estimator
from ...rerank.mbr import MBRDecoder
from ...rerank.order import Order
from ...rerank.pool import Pool
from .command_options import needed
from .metric_options import MetricOptions


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

    budget: Annotated[
        Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None,
        Needs(PSEUDO_REFERENCES),
        Costs(ALL_PAIRS, EVERY_VALUE),
    ] = None
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    regret: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Rare()] = None
    cheap_utility: Annotated[str, Rare()] = CHEAP
    budget_seed: Annotated[int, Field(ge=0), Rare()] = 0
    force_budget: Annotated[bool, Rare()] = False

    def __post_init__(self) -> None:
        for field in fields(self):
            if self.budget is None and getattr(self, field.name) != field.default:
                raise InputError("is for a budget", where=field.name, fix="Add --budget SHARE")

    def loaded(self, metrics: MetricOptions) -> Budget | None:
        """The budget; None without one."""
        if self.budget is None:
            return None
        cheap = load_cheap_utility(self.cheap_utility)
        return Budget(
            self.budget,
            confidence=self.confidence,
            regret=self.regret,
            cheap_utility=cheap and metrics.without_model().adapted(cheap),
            seed=self.budget_seed,
            force=self.force_budget,
        )


NO_BUDGET = BudgetOptions()


@settings
class EstimatorOptions:
    """How expected utilities come from pairs.

    Args:
        normalize_parts: what is done to the expected utilities of each part of a sum within a list before they are
            added: none, zscore, minmax (to 0..1) or rank (share of texts that are worse).
        shortlist: the utility of a first stage that keeps `top_k` distinct texts.
        top_k: how many the first stage keeps.
    """

    heading: ClassVar = "estimator"

    normalize_parts: Annotated[Normalize, Needs(ALL_PAIRS), Costs(PLAIN_SUMS)] = "none"
    shortlist: Annotated[str | None, Needs(FIRST_STAGE), Costs(EVERY_VALUE)] = None
    top_k: Annotated[int, Field(ge=1), Needs(FIRST_STAGE), Beside("shortlist")] = 16


@settings
class PriorFile:
    """The file of the prior that a `Pool` has.

    Args:
        prior: its path.
    """

    prior: str | None = None


@settings
class DecoderOptions:
    """The settings of an `MBRDecoder`.

    Args:
        utility: a metric, its name or signature, or a function u(h, r).
        pool: which texts count as pseudo-references, and how much.
        file: where the prior of the pool is.
        estimator: how expected utilities come from pairs.
        choice: what is chosen.
        order: where context comes from in lists of a document.
    """

    heading: ClassVar = "utility"

    utility: str | None = None
    pool: Annotated[Pool, Composed()] = Pool()
    file: Annotated[PriorFile, Composed()] = PriorFile()
    estimator: Annotated[EstimatorOptions, Composed()] = EstimatorOptions()
    choice: Annotated[Choice, Composed()] = Choice()
    order: Annotated[Order, Composed()] = Order()

    def loaded(
        self,
        metrics: MetricOptions,
        budget: BudgetOptions = NO_BUDGET,
        utility: Utility | None = None,
        features: Collection[Any] = (),
    ) -> MBRDecoder:
        """The decoder.

        Args:
            metrics: how its metrics are loaded.
            budget: of pairs.
            utility: the utility, where it is not that of the options.
            features: of a reranker that it is one of.

        Raises:
            InputError: the utility is missing, or settings do not go together.
        """
        if utility is None:
            utility = metrics.load(needed(self.utility, "utility"))
        shortlist = self.estimator.shortlist and metrics.load(self.estimator.shortlist)
        used = [*features, utility, *([shortlist] if shortlist else [])]
        metrics.check(used, self.order.strategy)
        estimator = Estimator(
            self.estimator.normalize_parts, shortlist, self.estimator.top_k, budget.loaded(metrics)
        )
        return MBRDecoder(utility, self.pool, estimator, self.choice, self.order)
