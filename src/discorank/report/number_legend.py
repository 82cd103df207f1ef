"""What the numbers of choices mean: scale and direction, in the words of each metric, for `explain` and the page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from textwrap import wrap

from ..metrics.base import Metric
from ..metrics.scorer import Info
from ..tables import aligned

NUMBERS = 'expected utility, higher is better; before "with" the utility against that text alone'
ON_A_PAGE = "expected utility, higher is better; beside a pseudo-reference the utility against that text alone"
FEATURES = "the weighted sum of the features, higher is better"
SCALED = "each metric is brought to one scale within the list, then they are added up"
ADDED = "they are sums of the values of these metrics, by their weights"
WIDTH = 85  # of the text, so that the whole fits 100 columns


def legend(metrics: Sequence[Metric], is_scaled: bool = False) -> str:
    """The lines about the numbers and about every metric.

    Args:
        metrics: the parts of the utility.
        is_scaled: the numbers are of parts brought to one scale within each list.
    """
    rows = []
    for name, about in meanings(metrics, is_scaled).items():
        lines = [line for text in about for line in wrap(text, WIDTH)]
        rows += [[f"  {name}" if i == 0 else "", line] for i, line in enumerate(lines)]
    return f"what the numbers mean\n{aligned(rows)}\n"


def meanings(
    metrics: Sequence[Metric], is_scaled: bool = False, about_numbers: str = NUMBERS
) -> dict[str, list[str]]:
    """Sentences on the numbers of places, and on every metric by its name.

    Args:
        metrics: the parts of the utility, or the features that are metrics.
        is_scaled: the numbers are of parts brought to one scale within each list.
        about_numbers: what the numbers are.
    """
    numbers = [about_numbers]
    if is_scaled:
        numbers.append(SCALED)
    elif len(metrics) > 1 and about_numbers != FEATURES:
        numbers.append(ADDED)
    return {"numbers": numbers, **{metric.name: _about(metric.info) for metric in metrics}}


def _about(info: Info) -> list[str]:
    """What a metric measures, on which scale, and what it gives as reasons."""
    reasons = info.reasons.split("; ") if info.reasons else []
    return [f"{info.summary}: {scale(info.bounds)}, {_direction(info)}", *reasons]


def _direction(info: Info) -> str:
    if info.higher_is_better:
        return "higher is better"
    return "lower is better, so its utility is its negative"


def scale(bounds: tuple[float, float]) -> str:
    """Bounds in words.

    >>> scale((0, float("inf")))
    '0 and above'
    """
    low, high = bounds
    if isinf(low) and isinf(high):
        return "any number"
    if isinf(high):
        return f"{low:g} and above"
    if isinf(low):
        return f"{high:g} and below"
    return f"{low:g} to {high:g}"
