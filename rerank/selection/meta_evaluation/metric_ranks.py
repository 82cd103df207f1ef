"""Ranks of metrics by their agreement with people: clusters within which no test tells them apart.

Metrics are walked down from the highest value (by name where values are equal). One opens the next rank if any metric
of the present rank beats it at p <= level. Without tests every metric has its own rank, 1, 2, 3 ..., even among equals.
"""

from __future__ import annotations

from collections.abc import Mapping

LEVEL = 0.05


def metric_ranks(
    values: Mapping[str, float],
    p_values: Mapping[tuple[str, str], float] | None = None,
    level: float = LEVEL,
) -> dict[str, int]:
    """The rank of every metric, the best first.

    Args:
        values: agreement by metric.
        p_values: one-sided p that the first of a pair is better, at least of every pair in order of value; None: no
            tests were made.
        level: of significance, inclusive.

    >>> metric_ranks({"A": 0.9, "B": 0.8, "C": 0.7}, {("A", "B"): 0.2, ("A", "C"): 0.01, ("B", "C"): 0.3})
    {'A': 1, 'B': 1, 'C': 2}
    """
    order = sorted(values, key=lambda name: (-values[name], name))
    if p_values is None:
        return {name: number for number, name in enumerate(order, 1)}
    ranks: dict[str, int] = {}
    of_rank: list[str] = []
    rank = 1
    for name in order:
        if any(p_values[better, name] <= level for better in of_rank):
            rank += 1
            of_rank = []
        of_rank.append(name)
        ranks[name] = rank
    return ranks
