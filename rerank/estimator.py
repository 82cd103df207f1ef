"""The estimator: how expected utilities come from pairs, from all of them or from some.

    mu(h) = sum_r w(r) u(h, r) / sum_r w(r)
All pairs are compared unless a budget says how many are (`budget`). With a shortlist, a cheap utility or a
reference-free metric first keeps the `top_k` best texts, as candidates and pseudo-references. The expected utilities of
a sum are those of its parts, each normalised within its list if asked for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, ClassVar

import numpy as np

from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import IntArray
from ..metrics.spec.checked_settings import Converted, Field, settings
from .budget.settings import Budget, load_budget
from .capabilities import (
    ALL_PAIRS,
    EVERY_VALUE,
    FIRST_STAGE,
    PLAIN_SUMS,
    PSEUDO_REFERENCES,
    Beside,
    Costs,
    Needs,
)
from .choice import choose, with_flags
from .engines.expectation import Normalize, combined_values
from .engines.interface import Result, Task
from .lists import CandidateList, Distinct


def _optional_metric(spec: MetricLike | None) -> Utility | None:
    return None if spec is None else load_metric(spec)


@settings
class Estimator:
    """How expected utilities come from pairs.

    Args:
        normalize_parts: what is done to the expected utilities of each part of a sum within a list before they are
            added: none, zscore, minmax (to 0..1) or rank (share of texts that are worse).
        shortlist: the utility of a first stage that keeps `top_k` distinct texts.
        top_k: how many the first stage keeps.
        budget: a `Budget`, or its share alone: some of the pairs are computed; None for all.
    """

    heading: ClassVar = "estimator"

    normalize_parts: Annotated[Normalize, Needs(ALL_PAIRS), Costs(PLAIN_SUMS)] = "none"
    shortlist: Annotated[
        MetricLike | None, Converted(_optional_metric), Needs(FIRST_STAGE), Costs(EVERY_VALUE)
    ] = None
    top_k: Annotated[int, Field(ge=1), Needs(FIRST_STAGE), Beside("shortlist")] = 16
    budget: Annotated[
        Budget | float | None,
        Converted(load_budget),
        Needs(PSEUDO_REFERENCES),
        Costs(ALL_PAIRS, EVERY_VALUE),
    ] = None

    @property
    def first_stage(self) -> Utility | None:
        """The utility of a first stage; None without one."""
        return _optional_metric(self.shortlist)

    @property
    def loaded_budget(self) -> Budget | None:
        """The budget with its settings."""
        return load_budget(self.budget)

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """The utilities that are used before the one that decides."""
        budget = self.loaded_budget
        used = (self.first_stage, None if budget is None else budget.cheap)
        return tuple(metric for metric in used if metric is not None)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on, but for those of parts."""
        first, budget = self.first_stage, self.loaded_budget
        shortlist = first and f"{first.signature()}, top {self.top_k}"
        return {"shortlist": shortlist} | ({} if budget is None else {"budget": budget.identity})

    @property
    def identity_of_parts(self) -> dict[str, Any]:
        """The normalization of the parts of a sum, if any."""
        return {} if self.normalize_parts == "none" else {"normalize_parts": self.normalize_parts}

    def check(self, utility: Utility) -> None:
        """Raises InputError for a budget of a utility whose pairs cost next to nothing."""
        budget = self.loaded_budget
        if budget is not None:
            budget.check(utility)

    def shortlist_of(
        self, task: Task, record: CandidateList, distinct: Distinct, flags: tuple[str, ...]
    ) -> Generator[Task, Result, tuple[IntArray, tuple[str, ...]]]:
        """The numbers of the `top_k` best distinct texts by the task of the first stage, in order of appearance."""
        result = yield task
        values = combined_values(task.metric, result, self.normalize_parts)[distinct.of]
        best = choose(record, values, self.top_k, distinct=distinct).ranking
        kept = np.unique([distinct.of[ranked.index] for ranked in best])
        return kept, with_flags(flags, (*result.flags, "shortlisted"))
