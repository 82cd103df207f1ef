"""The tables of a comparison of systems, as ``compare`` prints them, JSON and CSV hold them, and the page shows them.

What orders the systems, differences from a baseline, every score with its interval and ranks, the tests of every pair,
and metrics against people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..metrics.registry import as_typed
from ..rerank.selection.comparison import MetaEvaluation, SystemComparison
from ..rerank.selection.significance import Verdicts
from ..tables import (
    CORRECTED,
    Column,
    Row,
    Table,
    between,
    metric_names,
    number,
    numbers,
    text_table,
    whole,
    words,
)
from .summary_text import cut, is_tested, lead, short_names

WIDTH = 100  # letters of a line on a terminal
SYSTEM_STATISTICS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "pairwise_accuracy": "pairwise accuracy",
    "soft_pairwise_accuracy": "soft pairwise accuracy",
}
SEGMENT_STATISTICS = {
    "accuracy": "accuracy, ties calibrated",
    "epsilon": "epsilon",
    "kendall_b": "tau-b",
    "kendall_wmt12": "tau WMT12",
    "kendall_wmt13": "tau WMT13",
    "kendall_wmt14": "tau WMT14",
    "pearson": "Pearson",
}
TESTS = {
    "p_pearson": "p Pearson",
    "p_accuracy": "p pairwise accuracy",
    "p_williams": "p Williams",
    "p_segments": "p segments",
}


def comparison_tables(comparison: SystemComparison) -> list[Table]:
    """All of a comparison, in the order in which they are printed."""
    level = comparison.level
    correction = CORRECTED[comparison.settings.get("correction", "none")]
    tables = [*ranking_tables(comparison), *baseline_tables(comparison)]
    for human in comparison.human:
        tables += _verdict_tables(human.scores, level, "human", correction)
        if comparison.metrics:
            tables += agreement_tables(human)
    for scores in comparison.metrics:
        tables += _verdict_tables(scores, level, "metric", correction)
    units = [{"metric": m.name, "unit": m.unit, "number": m.units} for m in comparison.metrics]
    return [*tables, Table("", (), units, "units", ("metric",)), *people_tables(comparison)]


def _verdict_tables(scores: Verdicts, level: float, key: str, correction: str) -> list[Table]:
    """The scores and the tests of all pairs, under a metric or people's scores."""
    pairs = [{key: scores.name, **row} for row in pair_rows(scores)]
    name = "human_pairs" if key == "human" else "pairs"
    tables = [
        scores_table(scores, level, key, correction),
        Table("", (), pairs, name, (key, "a", "b")),
    ]
    return [*tables, pairs_table(scores, level)] if len(scores.systems) > 1 else tables


def score_rows(scores: Verdicts, level: float) -> list[dict[str, Any]]:
    """Every system with its score, interval and ranks; None for what cannot be tested."""
    rows = []
    for s, system in enumerate(scores.systems):
        row: dict[str, Any] = {"system": system, "score": scores.scores[s]}
        if scores.scores[s] is None or not is_tested(scores, level):
            row |= dict.fromkeys(("low", "high", "cluster", "best_rank", "worst_rank"))
        else:
            row |= {"low": scores.low[s], "high": scores.high[s], "cluster": scores.clusters[s]}
            row["best_rank"], row["worst_rank"] = scores.ranks(s, level)
        if scores.judged is not None:
            pair = scores.pair(scores.order[0], s)
            row |= {"judged": scores.judged[s], "common": None if pair is None else pair.common}
        rows.append(row)
    return rows


def scores_table(scores: Verdicts, level: float, key: str, correction: str = "") -> Table:
    """Every system under one metric, or under people's scores (`key` "human"), best first."""
    name = as_typed(scores.name) if key == "metric" else scores.name
    rows = score_rows(scores, level)
    columns = [
        words("system", "system"),
        Column(f"{name} {_arrow(scores)}", ("score",)),
        Column(f"{_percent(level)} interval", ("low", "high"), between),
        Column("rank", ("best_rank", "worst_rank"), rank_range),
    ]
    if scores.judged is not None:
        columns += [
            whole("judged", "judged"),
            Column("in common with the first", ("common",), _count),
        ]
    ranks = f"ranks that a system may have at p < {level:g}{correction}"
    return Table(
        f"{name}: intervals by {scores.unit}; {ranks}",
        columns,
        [{key: scores.name, **rows[s]} for s in scores.order],
        {"metric": "systems"}.get(key, key),
        (key, "system"),
    )


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def rank_range(best: int | None, worst: int | None) -> str:
    """The ranks a system may have; a dash where there are none.

    >>> rank_range(1, 1), rank_range(3, 7), rank_range(None, None)
    ('1', '3-7', '-')
    """
    if best is None:
        return "-"
    return str(best) if best == worst else f"{best}-{worst}"


def ordered(comparison: SystemComparison) -> list[str]:
    """The systems, best first by what orders them, those without a score last."""
    first = lead(comparison)
    judged = [first.systems[s] for s in first.order]
    return judged + [name for name in comparison.systems if name not in judged]


def ranking_tables(comparison: SystemComparison, width: int = WIDTH) -> list[Table]:
    """The systems in the order of people's scores, or of the first metric, in tables of at most `width` columns.

    All of them name the systems; the first has the scores that order them.
    """
    first, level = lead(comparison), comparison.level
    every = [first, *(one for one in _every_scores(comparison) if one is not first)]
    names = short_names([metric.name for metric in comparison.metrics])
    rows: list[dict[str, Any]] = [{"system": cut(name)} for name in ordered(comparison)]
    groups = []
    for i, scores in enumerate(every):
        by_system = {row["system"]: row for row in score_rows(scores, level)}
        for row, system in zip(rows, ordered(comparison), strict=True):
            row[str(i)] = by_system.get(system)
        groups.append(_ranking_columns(scores, str(i), names, level, leads=i == 0))
    title = f"Systems, best first by {names.get(first.name, first.name)}"
    return packed(words("system", "system"), groups, rows, width, title)


def _ranking_columns(
    scores: Verdicts, place: str, names: Mapping[str, str], level: float, leads: bool
) -> list[Column]:
    """Score and ranks, of what leads also the interval and how many systems each beats; score alone if untested."""
    arrow = "" if scores.higher_is_better else " ↓"
    num_systems = len(scores.systems)

    def column(head: str, show: Callable[[Row], str]) -> Column:
        return Column(head, (place,), lambda row: "-" if row is None else show(row))

    head = f"{names.get(scores.name, scores.name)}{arrow}"
    score = column(head, lambda row: number(row["score"]))
    if not is_tested(scores, level):
        return [score]
    rank = column("rank", lambda row: rank_range(row["best_rank"], row["worst_rank"]))
    if not leads:
        return [score, rank]
    interval = column(f"{_percent(level)} interval", lambda row: between(row["low"], row["high"]))
    # the worst rank is the number of systems less those that it is better than
    beats = column("beats", lambda row: str(num_systems - (row["worst_rank"] or num_systems)))
    if scores.judged is None:
        return [score, interval, rank, beats]
    judged = column("judged", lambda row: str(row["judged"]))
    common = column("in common", lambda row: _count(row["common"]))
    return [score, interval, rank, beats, judged, common]


def baseline_tables(comparison: SystemComparison, width: int = WIDTH) -> list[Table]:
    """The systems' scores minus those of the baseline, in tables of at most `width` columns; none without baseline."""
    baseline = comparison.settings.get("baseline")
    if baseline not in comparison.systems:
        return []
    names = short_names([metric.name for metric in comparison.metrics])
    systems = [name for name in ordered(comparison) if name != baseline]
    rows: list[dict[str, Any]] = [{"system": cut(name)} for name in systems]
    groups = []
    for i, scores in enumerate(_every_scores(comparison)):
        if baseline not in scores.systems:
            continue
        for row, system in zip(rows, systems, strict=True):
            row |= _difference(scores, system, baseline, str(i))
        arrow = "" if scores.higher_is_better else " ↓"
        columns = [
            Column(f"{names.get(scores.name, scores.name)}{arrow}", (f"difference{i}",), _signed),
            Column(f"{_percent(comparison.level)} interval", (f"low{i}", f"high{i}"), _signed_both),
            Column("p", (f"p{i}",), lambda p: "-" if p is None else f"{p:.2g}"),
        ]
        groups.append(columns if is_tested(scores, comparison.level) else columns[:1])
    return packed(words("system", "system"), groups, rows, width, f"Differences from {baseline}")


def _difference(scores: Verdicts, system: str, baseline: str, place: str) -> dict[str, Any]:
    """Difference, interval and p of one system; None without a score."""
    values: Sequence[float | None] = (None, None, None, None)
    for pair in scores.pairs:
        # a pair has the score of its first system minus that of its second
        names = scores.systems[pair.a], scores.systems[pair.b]
        if pair.difference is None or pair.low is None or pair.high is None:
            continue
        if names == (system, baseline):
            values = (pair.difference, pair.low, pair.high, pair.p)
        elif names == (baseline, system):
            values = (0.0 - pair.difference, -pair.high, -pair.low, pair.p)  # no -0
    keys = (f"{name}{place}" for name in ("difference", "low", "high", "p"))
    return dict(zip(keys, values, strict=True))


def _signed(value: float | None) -> str:
    """A number with its sign.

    >>> _signed(1.5), _signed(-0.25), _signed(None)
    ('+1.5', '-0.25', '-')
    """
    return f"+{number(value)}" if value is not None and value > 0 else number(value)


def _signed_both(low: float | None, high: float | None) -> str:
    return "-" if low is None else f"{_signed(low)} to {_signed(high)}"


def packed(
    first: Column, groups: Sequence[list[Column]], rows: Sequence[Row], width: int, title: str
) -> list[Table]:
    """As many groups of columns beside each other as fit."""
    tables, columns = [], [first]
    for group in groups:
        if len(columns) > 1 and _width([*columns, *group], rows) > width:
            tables.append(Table(title, columns, rows))
            columns = [first]
        columns = [*columns, *group]
    return [*tables, Table(title, columns, rows)]


def _width(columns: Sequence[Column], rows: Sequence[Row]) -> int:
    """Of the columns printed beside each other, two spaces apart."""
    widths = [max(len(column.head), *(len(column.cell(row)) for row in rows)) for column in columns]
    return sum(widths) + 2 * (len(columns) - 1)


def pair_rows(scores: Verdicts) -> list[dict[str, Any]]:
    """The test of every pair of systems, to be written."""
    rows = []
    for pair in scores.pairs:
        rows.append(
            {
                "a": scores.systems[pair.a],
                "b": scores.systems[pair.b],
                "difference": pair.difference,
                "low": pair.low,
                "high": pair.high,
                "p": pair.p_uncorrected,
                "p_corrected": pair.p,
                "p_bootstrap": pair.p_bootstrap,
                **({} if pair.common is None else {"common": pair.common}),
            }
        )
    return rows


def pairs_table(scores: Verdicts, level: float) -> Table:
    """p of every pair, the row against the column, best first."""
    rows = []
    for a in scores.order:
        cells = (_pair_cell(scores, a, b, level) for b in scores.order)
        rows.append([scores.systems[a], *cells])
    title = f"{scores.name}: p of each pair; + the row is better at p < {level:g}, − worse"
    return text_table(title, ["", *(scores.systems[b] for b in scores.order)], rows)


def _pair_cell(scores: Verdicts, a: int, b: int, level: float) -> str:
    """p, with the sign of a significant difference; empty on the diagonal."""
    if a == b:
        return ""
    p = scores.p(a, b)
    if scores.is_better(a, b, level) or scores.is_better(b, a, level):
        sign = "+" if scores.is_better(a, b, level) else "−"
        return f"{sign} {p:.3f}" if p >= 0.0005 else f"{sign} <0.001"
    return f"{p:.3f}"


def agreement_tables(human: MetaEvaluation) -> list[Table]:
    """Every metric against people: whole systems, segments or documents, and whether two metrics differ in it."""
    name = human.scores.name
    by_system, by_segment = [], []
    for one in human.agreement:
        key = {"metric": one.metric, "human": name}
        by_system.append({**key, "by": "system", **vars(one.systems)})
        by_segment.append({**key, "by": one.unit, **vars(one.segments)})
    num_systems = len(human.scores.systems)
    about = f"Metrics against {name}"
    tables = [
        agreement_table(f"{about}: {num_systems} systems", by_system),
        agreement_table(f"{about}: segments or documents", by_segment),
    ]
    if human.tests:
        rows: list[Row] = []
        for test in human.tests:
            p_values = {p: getattr(test, p) for p in TESTS}
            rows.append({"human": name, "a": test.a, "b": test.b, **p_values})
        columns = [metric_names("metric", "a"), metric_names("other metric", "b"), *numbers(TESTS)]
        title = f"Do two metrics agree equally well with {name}? PERM-BOTH and Williams"
        tables.append(Table(title, columns, rows, "metrics", ("human", "a", "b")))
    return tables


def agreement_table(title: str, rows: Sequence[Row], means: bool = False) -> Table:
    """Metrics against people, by systems, or by segments or documents; `means` are over so many ``sets``."""
    columns = [metric_names("metric", "metric")]
    if means:
        columns += [words("human scores", "human"), whole("sets", "sets")]
    if any(row["by"] == "system" for row in rows):
        columns += [whole("systems", "systems")] if means else []
        columns += numbers(SYSTEM_STATISTICS)
    else:
        columns += [] if means else [words("unit", "by")]
        columns += [Column("n", ("segments",)), *numbers(SEGMENT_STATISTICS)]
    return Table(title, columns, rows, "means" if means else "meta", ("metric", "human", "by"))


def people_tables(comparison: SystemComparison) -> list[Table]:
    """Annotators of every dimension of human scores, and their agreement."""
    heads = {"pearson": "Pearson", "tau": "tau-b in segments", "span_f1": "span F1"}
    raters = [
        words("annotator", "rater"),
        whole("ratings", "ratings"),
        whole("systems", "systems"),
        *numbers({"mean": "mean", "deviation": "spread"}),
        Column("error-free", ("error_free",), _share),
        *numbers({"seconds": "seconds"}),
    ]
    pairs = [words("annotator", "a"), words("other", "b"), whole("texts", "texts"), *numbers(heads)]
    people, both = comparison.people, "agreement of annotators on the texts that both rated"
    kinds: list[tuple[str, list[Column], Sequence[Any], str, tuple[str, ...]]] = [
        ("annotators", raters, people.raters, "raters", ("rater",)),
        (both, pairs, people.agreement, "rater_agreement", ("a", "b")),
    ]
    tables: list[Table] = []
    for dimension in (human.scores.name for human in comparison.human):
        for title, columns, figures, name, keys in kinds:
            if rows := [vars(one) for one in figures if one.human == dimension]:
                named = f"{dimension}: {title}"
                tables.append(Table(named, columns, rows, name, ("human", *keys)))
    return tables


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _every_scores(comparison: SystemComparison) -> list[Verdicts]:
    """People's scores, then those of the metrics."""
    return [*(human.scores for human in comparison.human), *comparison.metrics]


def _percent(level: float) -> str:
    return f"{100 * (1 - level):g} %"


def _arrow(scores: Verdicts) -> str:
    return "↑" if scores.higher_is_better else "↓"
