"""Systems best first in one table: scores, intervals, the ranks that each may have, and how many it beats."""

from __future__ import annotations

from collections.abc import Sequence

from ..rerank.selection.kept_comparison import KeptComparison, KeptScores
from ..tables import Table, number
from .summary_text import is_tested, lead
from .words import cut, short_names


def ranking_tables(comparison: KeptComparison, width: int = 100) -> list[Table]:
    """The systems in the order of people's scores, or of the first metric, in tables of at most `width` columns.

    All of them name the systems; the first has the scores that order them.
    """
    first = lead(comparison)
    others = [human.scores for human in comparison.human if human.scores is not first]
    others += [scores for scores in comparison.metrics if scores is not first]
    systems = ordered(comparison)
    names = short_names([metric.name for metric in comparison.metrics])
    columns = [[cut(name) for name in ("system", *systems)]]
    groups = [_lead_columns(first, systems, names, comparison.level)]
    groups += [_columns(scores, systems, names, comparison.level) for scores in others]
    return packed(
        columns, groups, width, f"Systems, best first by {names.get(first.name, first.name)}"
    )


def ordered(comparison: KeptComparison) -> list[str]:
    """The systems, best first by what orders them, those without a score last."""
    first = lead(comparison)
    judged = [first.systems[s] for s in first.order]
    return judged + [name for name in comparison.systems if name not in judged]


def _lead_columns(
    scores: KeptScores, systems: Sequence[str], names: dict[str, str], level: float
) -> list[list[str]]:
    """Score, interval, ranks, and how many systems each one beats; score alone where nothing can be tested."""
    columns = _columns(scores, systems, names, level)
    if not is_tested(scores, level):
        return columns[:1]
    intervals, wins = [f"{100 * (1 - level):g} % interval"], ["beats"]
    for system in systems:
        s = scores.systems.index(system) if system in scores.systems else None
        intervals.append(
            "-" if s is None else f"{number(scores.low[s])} to {number(scores.high[s])}"
        )
        beaten = (
            sum(scores.is_better(s, o, level) for o in range(len(scores.systems)))
            if s is not None
            else None
        )
        wins.append("-" if beaten is None else str(beaten))
    return [columns[0], intervals, columns[1], wins]


def _columns(
    scores: KeptScores, systems: Sequence[str], names: dict[str, str], level: float
) -> list[list[str]]:
    """Score and ranks; score alone where nothing can be tested."""
    arrow = "" if scores.higher_is_better else " ↓"
    values, ranks = [f"{names.get(scores.name, scores.name)}{arrow}"], ["rank"]
    for system in systems:
        s = scores.systems.index(system) if system in scores.systems else None
        values.append("-" if s is None else number(scores.scores[s]))
        ranks.append("-" if s is None else rank_range(scores, s, level))
    return [values, ranks] if is_tested(scores, level) else [values]


def rank_range(scores: KeptScores, system: int, level: float) -> str:
    """The ranks a system may have, as "1" or "3-7"; a dash without a score."""
    if scores.scores[system] is None or not is_tested(scores, level):
        return "-"
    best, worst = scores.ranks(system, level)
    return str(best) if best == worst else f"{best}-{worst}"


def packed(
    first: list[list[str]], groups: Sequence[list[list[str]]], width: int, title: str
) -> list[Table]:
    """As many groups of columns beside each other as fit."""
    tables, columns = [], list(first)
    for group in groups:
        if len(columns) > len(first) and _width(columns + group) > width:
            tables.append(_table(columns, title))
            columns = list(first)
        columns += group
    return [*tables, _table(columns, title)]


def _width(columns: Sequence[Sequence[str]]) -> int:
    """Of the columns printed beside each other, two spaces apart."""
    return sum(max(map(len, column)) for column in columns) + 2 * (len(columns) - 1)


def _table(columns: Sequence[Sequence[str]], title: str) -> Table:
    head, *rows = map(list, zip(*columns, strict=True))
    return Table(title, head, rows)
