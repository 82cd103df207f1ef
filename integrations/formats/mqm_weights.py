"""What an error of MQM counts, by severity and category.

An error counts as the longest entry that it has: SEVERITY/CATEGORY/SUBCATEGORY, SEVERITY/CATEGORY or SEVERITY, where
``*`` stands for every severity and gives way to a severity of the same length; case does not matter. What has no entry
counts 0. The score of a text is minus the sum over its errors, so that 0 is best, as WMT and mt-metrics-eval have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from ...metrics.errors import InputError, excerpt

# Freitag et al. 2021, and what the organisers of WMT24 take for categories of their own
WMT_WEIGHTS: Mapping[str, float] = {
    "critical": 5.0,
    "major": 5.0,
    "minor": 1.0,
    "minor/fluency/punctuation": 0.1,
    "*/non-translation!": 25.0,
    "*/source issue": 0.0,
    "*/source error": 0.0,
    "*/reinterpretation": 0.0,
}


def read_mqm_weights(given: Iterable[str]) -> dict[str, float]:
    """The task's weights, changed by entries such as ``major=10`` or ``minor/style=0``.

    Raises:
        InputError: an entry without a number.

    >>> read_mqm_weights(["Major=10"])["major"]
    10.0
    """
    weights = dict(WMT_WEIGHTS)
    for entry in given:
        name, mark, number = entry.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not mark or not name.strip() or not isfinite(weight):
            raise InputError(
                f"found {excerpt(entry)}",
                where="--mqm-weights",
                fix="Expected SEVERITY=NUMBER or SEVERITY/CATEGORY=NUMBER, such as major=10",
            )
        weights[name.strip().lower()] = weight
    return weights


def weight_of(severity: str, category: str, weights: Mapping[str, float]) -> float:
    """What one error counts.

    >>> weight_of("Minor", "Fluency/Punctuation", WMT_WEIGHTS), weight_of("Major", "Non-translation!", WMT_WEIGHTS)
    (0.1, 25.0)
    """
    parts = [part.strip().lower() for part in category.split("/") if part.strip()]
    for length in range(len(parts), -1, -1):
        for first in (severity.strip().lower(), "*"):
            name = "/".join([first, *parts[:length]])
            if name in weights:
                return weights[name]
    return 0.0
