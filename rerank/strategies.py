"""Strategies: where the context of a list comes from, and whether a document is searched for its best choices."""

from __future__ import annotations

from typing import Literal

from ..metrics.errors import InputError

Strategy = Literal["sequential", "one-best", "independent", "beam", "joint"]
StrategySetting = Literal["auto", "sequential", "one-best", "independent", "beam", "joint"]
SEARCHES = ("beam", "joint")
BEAM = 4
MAX_BEAM = 1024


def resolve(strategy: StrategySetting, width: int, beam: int = BEAM) -> Strategy:
    """The strategy that a setting stands for, for metrics that read `width` preceding sentences.

    Without context no choice depends on another, so there is nothing to search for; a beam of one history is what
    "sequential" does.

    Raises:
        InputError: metrics that read context cannot decide lists independently.
    """
    if strategy == "auto":
        return "sequential" if width else "independent"
    if strategy in SEARCHES and not width:
        return "independent"
    if strategy == "beam" and beam == 1:
        return "sequential"
    if width and strategy == "independent":
        raise InputError(
            "the metric reads context, which independent lists do not have",
            where="strategy",
            fix='Choose "sequential" or "one-best", or set context=0 in the metric',
        )
    return strategy


def check_searched(strategy: str, has_budget: bool, is_diverse: bool = False) -> None:
    """Raises InputError for a search beside what leaves out candidates."""
    for name, is_there in (("budget", has_budget), ("diverse", is_diverse)):
        if is_there:
            problem = f"beside strategy {strategy!r}, which needs the value of every candidate"
            raise InputError(problem, where=name, fix="Leave one of them out")
