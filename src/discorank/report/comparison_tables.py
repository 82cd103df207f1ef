"""The tables of a comparison: system scores, pairs, and metrics against people."""

from __future__ import annotations

import re

from ..rerank.selection.kept_comparison import KeptComparison, KeptHuman, KeptScores
from ..tables import Table, number
from .summary_text import is_tested
from .system_ranking import rank_range

STATISTICS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "pairwise_accuracy": "pairwise accuracy",
    "soft_pairwise_accuracy": "soft pairwise accuracy",
}
OF_SEGMENTS = {"accuracy": "accuracy, ties calibrated", "kendall_b": "tau-b", "pearson": "Pearson"}
_NUMBER = re.compile(r"[-+−<]? ?[\d.]+(e[-+]\d+)?( .*)?|-?", re.ASCII)


def of_words(table: Table) -> list[bool]:
    """Which columns hold words; numbers, intervals and p stand on the right.

    >>> of_words(Table("", ["", "by", "x", "y"], [["a", "b", "-0.5", "1 .. 2"], ["a", "c", "-", "+ 1e-05"]]))
    [True, True, False, False]
    """
    columns = zip(table.head, *table.rows, strict=True)
    return [not all(map(_NUMBER.fullmatch, cells)) for _, *cells in columns]


def systems(comparison: KeptComparison, lead: KeptScores) -> Table:
    """Every system's score, interval and rank by every metric and by people, in the order of `lead`."""
    percent = f"{100 * (1 - comparison.level):g} %"
    judged = [human.scores for human in comparison.human]
    head = ["system"]
    for scores in judged:
        head += [f"{scores.name} (human) {_arrow(scores)}", f"{percent} interval", "rank"]
    for scores in comparison.metrics:
        head += [f"{scores.name} {_arrow(scores)}", f"{percent} interval", "rank"]
    ordered = [lead.systems[s] for s in lead.order]
    ordered += [name for name in comparison.systems if name not in ordered]
    rows = []
    for system in ordered:
        row = [system]
        for scores in (*judged, *comparison.metrics):
            row += _score_cells(scores, system, comparison.level)
        rows.append(row)
    title = (
        f"Systems, best first by {lead.name}; ↑ higher is better, ↓ lower is better; ranks that a system may have "
        f"at p < {comparison.level:g}"
    )
    return Table(title, head, rows)


def _arrow(scores: KeptScores) -> str:
    return "↑" if scores.higher_is_better else "↓"


def _score_cells(scores: KeptScores, system: str, level: float) -> list[str]:
    """Score, interval and ranks; dashes where the system has none, and no interval where nothing can be tested."""
    if system not in scores.systems:
        return ["-", "-", "-"]
    s = scores.systems.index(system)
    interval = f"{number(scores.low[s])} to {number(scores.high[s])}"
    tested = [interval, rank_range(scores, s, level)] if is_tested(scores, level) else ["-", "-"]
    return [number(scores.scores[s]), *tested]


def pairs(scores: KeptScores, level: float) -> Table:
    """p of every pair, the row against the column."""
    order = scores.order
    rows = []
    for a in order:
        rows.append([scores.systems[a], *(_pair_cell(scores, a, b, level) for b in order)])
    title = f"{scores.name}: p of each pair; + the row is better at p < {level:g}, − worse"
    return Table(title, ["", *(scores.systems[b] for b in order)], rows)


def _pair_cell(scores: KeptScores, a: int, b: int, level: float) -> str:
    """p, with the sign of a significant difference; empty on the diagonal."""
    if a == b:
        return ""
    p, score_a, score_b = scores.p(a, b), scores.scores[a], scores.scores[b]
    if p >= level or score_a is None or score_b is None or score_a == score_b:
        return f"{p:.3f}"
    sign = "+" if (score_a > score_b) == scores.higher_is_better else "−"
    rounded = f"{p:.3f}" if p >= 0.0005 else "<0.001"
    return f"{sign} {rounded}"


def agreement(human: KeptHuman) -> Table:
    """Every metric against people: whole systems, then segments or documents."""
    head = ["metric", *STATISTICS.values(), "by", *OF_SEGMENTS.values()]
    rows = []
    for metric in human.agreement:
        by_system = [number(metric.systems.get(name)) for name in STATISTICS]
        by_segment = [number(metric.segments.get(name)) for name in OF_SEGMENTS]
        rows.append([metric.metric, *by_system, metric.unit, *by_segment])
    num_systems = len(human.scores.systems)
    title = (
        f"Metrics against {human.scores.name}: {num_systems} systems, "
        "then single segments or documents"
    )
    return Table(title, head, rows)


def metric_tests(human: KeptHuman) -> Table:
    """p that two metrics agree equally well with people."""
    head = ["metric", "other metric", "p Pearson", "p pairwise accuracy", "p Williams"]
    rows = []
    for test in human.tests:
        p_values = (test.p_pearson, test.p_accuracy, test.p_williams)
        rows.append([test.a, test.b, *map(number, p_values)])
    title = f"Do two metrics agree equally well with {human.scores.name}? PERM-BOTH and Williams"
    return Table(title, head, rows)
