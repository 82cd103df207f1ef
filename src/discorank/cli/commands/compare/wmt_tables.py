"""What ``compare --statistics wmt`` and ``compare --tasks`` print: tables, JSON, or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ....rerank.runs.rows import as_line
from ....rerank.selection.meta_evaluation.level_agreement import LevelAgreement
from ....rerank.selection.meta_evaluation.task_results import TaskSetResult
from ....tables import Table, comma_separated, latex, markdown, number, text

AGREEMENT_HEAD = ("set", "human scores", "level", "statistic", "metric", "other", "value", "kind")
TASK_HEAD = ("tasks", "task", "metric", "other", "value", "kind")
BySet = Mapping[str, Sequence[LevelAgreement]]


def printed_agreement(by_set: BySet, format: str, level: float) -> str:
    """Agreement by set as table, markdown, latex, csv or json."""
    if format == "json":
        sets = {name: [_json(each) for each in agreements] for name, agreements in by_set.items()}
        return as_line({"sets": sets, "level": level}).decode()
    if format == "csv":
        return comma_separated(AGREEMENT_HEAD, _facts(by_set))
    tables: list[Table] = []
    for name, agreements in by_set.items():
        for agreement in agreements:
            tables += _tables(name, agreement, level)
    return _as_text(tables, format)


def _as_text(tables: Iterable[Table], format: str) -> str:
    return {"table": text, "markdown": markdown, "latex": latex}[format](tables)


def _json(agreement: LevelAgreement) -> dict[str, Any]:
    return {
        "human_scores": agreement.human_scores,
        "level": agreement.level,
        "systems": list(agreement.systems),
        "values": {
            metric: {
                key: {k: v for k, v in value._asdict().items() if k != "epsilon" or v is not None}
                for key, value in values.items()
            }
            for metric, values in agreement.values.items()
        },
        "ranks": agreement.ranks,
        "p": {key: _pairs(p_values) for key, p_values in agreement.p_values.items()},
    }


def _pairs(p_values: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    return [{"better": a, "worse": b, "p": p} for (a, b), p in p_values.items()]


def _facts(by_set: BySet) -> Iterator[tuple[Any, ...]]:
    """Every number on a line of its own."""
    for name, agreements in by_set.items():
        for each in agreements:
            for fact in _level_facts(each):
                yield name, each.human_scores, each.level, *fact


def _level_facts(agreement: LevelAgreement) -> Iterator[tuple[Any, ...]]:
    for metric, values in agreement.values.items():
        for key, value in values.items():
            yield key, metric, "", value.value, "value"
            yield key, metric, "", value.counted, "count"
            if value.epsilon is not None:
                yield key, metric, "", value.epsilon, "epsilon"
    for key, ranks in agreement.ranks.items():
        for metric, rank in ranks.items():
            yield key, metric, "", rank, "rank"
    for key, p_values in agreement.p_values.items():
        for (better, worse), p in p_values.items():
            yield key, better, worse, p, "p"


def _tables(name: str, agreement: LevelAgreement, level: float) -> list[Table]:
    """Values with ranks, then p of every pair for each coefficient that was tested."""
    keys = list(dict.fromkeys(key for values in agreement.values.values() for key in values))
    head = ["metric"]
    for key in keys:
        head += [key, "rank"] if key in agreement.ranks else [key]
    rows = []
    for metric, values in agreement.values.items():
        row = [metric]
        for key in keys:
            value = values.get(key)
            row.append(number(None if value is None else value.value))
            if key in agreement.ranks:
                rank = agreement.ranks[key].get(metric)
                row.append("-" if rank is None else str(rank))
        rows.append(row)
    about = f"{name}: {agreement.human_scores} at level {agreement.level}"
    title = f"{about}, {len(agreement.systems)} systems, as the WMT metrics task counts"
    tables = [Table(title, head, rows)]
    for key, p_values in agreement.p_values.items():
        tables.append(_p_table(f"{about}: {key}", agreement.ranks[key], p_values, level))
    return tables


def _p_table(
    about: str,
    ranks: Mapping[str, int],
    p_values: Mapping[tuple[str, str], float],
    level: float,
) -> Table:
    """One-sided p that the row is better than the column, best first."""
    order = list(ranks)
    rows = []
    for a, better in enumerate(order):
        cells = [number(p_values[better, worse]) if b > a else "" for b, worse in enumerate(order)]
        rows.append([better, str(ranks[better]), *cells])
    title = f"{about}: one-sided p that the row is better; ranks at p <= {level:g}"
    return Table(title, ["metric", "rank", *order], rows)


def printed_tasks(name: str, result: TaskSetResult, format: str, level: float) -> str:
    """A task set as table, markdown, latex, csv or json."""
    if format == "json":
        return as_line(_tasks_json(name, result, level)).decode()
    if format == "csv":
        return comma_separated(TASK_HEAD, _task_facts(name, result))
    order = list(result.ranks)
    head = ["metric", "rank", "average"]
    for each in result.results:
        head += [each.task.name, "rank"]
    rows = []
    for metric in order:
        row = [metric, str(result.ranks[metric]), number(result.average[metric])]
        for each in result.results:
            row += [number(each.values[metric]), str(each.ranks[metric])]
        rows.append(row)
    tests = f"ranks at p <= {level:g}" if result.p_values else "ranks without tests"
    tables = [Table(f"Tasks of {name}: {tests}", head, rows)]
    if result.p_values is not None:
        tables.append(_p_table(f"{name}: average", result.ranks, result.p_values, level))
    return _as_text(tables, format)


def _tasks_json(name: str, result: TaskSetResult, level: float) -> dict[str, Any]:
    tasks = [
        {
            "name": each.task.name,
            "language_pairs": list(each.task.language_pairs),
            "level": each.task.level,
            "statistic": each.task.statistic,
            "human": each.task.human,
            "weight": each.task.weight,
            "values": each.values,
            "ranks": each.ranks,
            "p": None if each.p_values is None else _pairs(each.p_values),
        }
        for each in result.results
    ]
    p_values = None if result.p_values is None else _pairs(result.p_values)
    average = {"values": result.average, "ranks": result.ranks, "p": p_values}
    return {"tasks": name, "level": level, "results": tasks, "average": average}


def _task_facts(name: str, result: TaskSetResult) -> Iterator[tuple[Any, ...]]:
    """Every number on a line of its own."""
    for metric, value in result.average.items():
        yield name, "average", metric, "", value, "value"
        yield name, "average", metric, "", result.ranks[metric], "rank"
    for (better, worse), p in (result.p_values or {}).items():
        yield name, "average", better, worse, p, "p"
    for each in result.results:
        for metric, value in each.values.items():
            yield name, each.task.name, metric, "", value, "value"
            yield name, each.task.name, metric, "", each.ranks[metric], "rank"
        for (better, worse), p in (each.p_values or {}).items():
            yield name, each.task.name, better, worse, p, "p"
