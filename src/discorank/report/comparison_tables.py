"""The tables of a comparison: system scores, pairs, and metrics against people."""

from __future__ import annotations

import re

from ..rerank.selection.comparison_folder import KeptComparison, KeptHuman, KeptScores
from ..tables import Table, number

STATISTICS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "pairwise_accuracy": "pairwise accuracy",
    "soft_pairwise_accuracy": "soft pairwise accuracy",
}
OF_SEGMENTS = {"accuracy": "accuracy, ties calibrated", "kendall_b": "tau-b", "pearson": "Pearson"}
_NUMBER = re.compile(r"[-+−<]? ?[\d.]+(e[-+]\d+)?( .*)?|-?", re.ASCII)


def of_words(one: Table) -> list[bool]:
    """Which columns hold words; numbers, intervals and p stand on the right.

    >>> of_words(Table("", ["", "by", "x", "y"], [["a", "b", "-0.5", "1 .. 2"], ["a", "c", "-", "+ 1e-05"]]))
    [True, True, False, False]
    """
    columns = zip(one.head, *one.rows, strict=True)
    return [not all(map(_NUMBER.fullmatch, cells)) for _, *cells in columns]


def systems(found: KeptComparison, lead: KeptScores) -> Table:
    """Every system's score, interval and rank by every metric and by people, in the order of `lead`."""
    columns = [*(human.scores for human in found.human), *found.metrics]
    judged = {id(human.scores) for human in found.human}
    head = ["system"]
    for one in columns:
        about = ("(human) " if id(one) in judged else "") + ("↑" if one.higher_is_better else "↓")
        head += [f"{one.name} {about}", f"{100 * (1 - found.level):g} % interval", "rank"]
    first = [lead.systems[s] for s in lead.order]
    rows = []
    for system in [*first, *(name for name in found.systems if name not in first)]:
        rows.append([system])
        for one in columns:
            rows[-1] += _cells(one, system)
    title = (
        f"Systems, best first by {lead.name}; ↑ higher is better, ↓ lower is better; one rank where no line can be "
        f"drawn at p < {found.level:g}"
    )
    return Table(title, head, rows)


def _cells(one: KeptScores, system: str) -> list[str]:
    if system not in one.systems:
        return ["-", "-", "-"]
    s = one.systems.index(system)
    return [
        number(one.scores[s]),
        f"{number(one.low[s])} to {number(one.high[s])}",
        str(one.clusters[s]),
    ]


def pairs(one: KeptScores, level: float) -> Table:
    """p of every pair, the row against the column."""
    order = one.order
    rows = [[one.systems[a], *(_pair(one, a, b, level) for b in order)] for a in order]
    title = f"{one.name}: p of each pair; + the row is better at p < {level:g}, − worse"
    return Table(title, ["", *(one.systems[b] for b in order)], rows)


def _pair(one: KeptScores, a: int, b: int, level: float) -> str:
    if a == b:
        return ""
    p, x, y = one.p(a, b), one.scores[a], one.scores[b]
    if p >= level or x is None or y is None or x == y:
        return f"{p:.3f}"
    return ("+ " if (x > y) == one.higher_is_better else "− ") + (
        f"{p:.3f}" if p >= 0.0005 else "<0.001"
    )


def agreement(human: KeptHuman) -> Table:
    """Every metric against people: whole systems, then segments or documents."""
    head = ["metric", *STATISTICS.values(), "by", *OF_SEGMENTS.values()]
    rows = [
        [one.metric, *(number(one.systems.get(name)) for name in STATISTICS), one.unit]
        + [number(one.segments.get(name)) for name in OF_SEGMENTS]
        for one in human.agreement
    ]
    n = len(human.scores.systems)
    return Table(
        f"Metrics against {human.scores.name}: {n} systems, then single segments or documents",
        head,
        rows,
    )


def metric_tests(human: KeptHuman) -> Table:
    """p that two metrics agree equally well with people."""
    head = ["metric", "other metric", "p Pearson", "p pairwise accuracy", "p Williams"]
    rows = [
        [t.a, t.b, number(t.p_pearson), number(t.p_accuracy), number(t.p_williams)]
        for t in human.tests
    ]
    return Table(
        f"Do two metrics agree equally well with {human.scores.name}? PERM-BOTH and Williams",
        head,
        rows,
    )
