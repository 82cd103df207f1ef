"""The tables of a comparison: system scores and ranks, systems against a baseline, pairs, metrics against people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..rerank.selection.kept_comparison import KeptComparison, KeptHuman, KeptScores
from ..tables import Table, number
from .summary_text import cut, is_tested, lead, short_names


def baseline_tables(comparison: KeptComparison, width: int = 100) -> list[Table]:
    """The systems' scores minus those of the baseline, in tables of at most `width` columns; none without baseline."""
    baseline = comparison.settings.get("baseline")
    if baseline not in comparison.systems:
        return []
    every = [*(human.scores for human in comparison.human), *comparison.metrics]
    systems = [name for name in ordered(comparison) if name != baseline]
    names = short_names([metric.name for metric in comparison.metrics])
    columns = [[cut(name) for name in ("system", *systems)]]
    groups = [
        _baseline_columns(
            scores, systems, baseline, names.get(scores.name, scores.name), comparison.level
        )
        for scores in every
        if baseline in scores.systems
    ]
    return packed(columns, groups, width, f"Differences from {baseline}")


def _baseline_columns(
    scores: KeptScores, systems: Sequence[str], baseline: str, name: str, level: float
) -> list[list[str]]:
    """Difference, interval and p; the difference alone where nothing can be tested."""
    arrow = "" if scores.higher_is_better else " ↓"
    head = [f"{name}{arrow}", f"{100 * (1 - level):g} % interval", "p"]
    rows = [list(_cells(scores, system, baseline)) for system in systems]
    columns = [list(column) for column in zip(head, *rows, strict=True)]
    return columns if is_tested(scores, level) else columns[:1]


def _cells(scores: KeptScores, system: str, baseline: str) -> Iterator[str]:
    """The cells of one system; dashes without a score."""
    pairs = {(scores.systems[pair.a], scores.systems[pair.b]): pair for pair in scores.pairs}
    # a pair has the score of its first system minus that of its second
    pair, sign = pairs.get((system, baseline)), 1.0
    if pair is None:
        pair, sign = pairs.get((baseline, system)), -1.0
    if pair is None or pair.difference is None:
        yield from ("-", "-", "-")
        return
    low, high = (pair.low, pair.high) if sign > 0 else (_negative(pair.high), _negative(pair.low))
    yield _signed(sign * pair.difference + 0.0)  # no -0
    yield f"{_signed(low)} to {_signed(high)}"
    yield f"{pair.p:.2g}"


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _signed(value: float | None) -> str:
    """A number with its sign.

    >>> _signed(1.5), _signed(-0.25), _signed(None)
    ('+1.5', '-0.25', '-')
    """
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


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
