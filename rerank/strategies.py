"""Strategies: where the context of a list comes from."""

from __future__ import annotations

from typing import Literal

from ..metrics.errors import InputError

Strategy = Literal["sequential", "one-best", "independent"]
StrategySetting = Literal["auto", "sequential", "one-best", "independent"]


def resolve(strategy: StrategySetting, width: int) -> Strategy:
    """The strategy that a setting stands for, for metrics that read `width` preceding sentences.

    Raises:
        InputError: metrics that read context cannot decide lists independently.
    """
    if strategy == "auto":
        return "sequential" if width else "independent"
    if width and strategy == "independent":
        raise InputError(
            "the metric reads context, which independent lists do not have",
            where="strategy",
            fix='Choose "sequential" or "one-best", or set context=0 in the metric',
        )
    return strategy
