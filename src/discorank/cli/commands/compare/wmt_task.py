"""The options of ``compare`` that follow the WMT metrics task: what is asked of metrics.

``compare --statistics wmt`` and ``compare --tasks``: metrics against people by the names of the WMT metrics task.

What ``compare --statistics wmt`` and ``compare --tasks`` print: tables, JSON, or CSV.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from ....integrations.formats.mtme.eval_set_folder import is_eval_set_folder, language_pairs
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import Field, Rare, settings
from ....rerank.runs.rows import as_line
from ....rerank.selection.meta_evaluation.cell_permutation import DrawSettings
from ....rerank.selection.meta_evaluation.eval_set import LEVELS, EvalSet
from ....rerank.selection.meta_evaluation.level_agreement import (
    TESTED,
    AgreementOptions,
    LevelAgreement,
    level_agreement,
)
from ....rerank.selection.meta_evaluation.task_results import (
    TaskSetResult,
    folder_of,
    run_tasks,
    task_set,
)
from ....tables import Table, comma_separated, latex, markdown, number, text
from ...options.system_outputs import eval_set_at, with_own_metrics
from ...terminal.console import Counted
from .compared_sets import SetPlace

BLOCK = 100  # draws between looks at p


@settings
class TaskOptions:
    """What of the WMT metrics task is computed.

    Args:
        input_format: how the systems are kept: systems, mtme, wmt-xml, wmt-jsonl, sacrebleu or summeval.
        statistics: discorank's, or those of the WMT metrics task under its names, for metrics with scores in the folder
            too.
        tasks: a task set instead, of the folder that holds the test sets: wmt23, wmt24, wmt24-on-wmt23 or wmt25.
        task_draws: how many times the tests of the metrics task draw; 0: no tests.
        with_human: whether references that people judged are systems; task sets know themselves.
        with_outliers: whether outliers are systems.
        domain: the only domain that counts.
        nan_as_zero: whether segments without a correlation count as 0.
    """

    heading: ClassVar = "statistics"

    input_format: str = "systems"
    statistics: Literal["discorank", "wmt"] = "discorank"
    tasks: str | None = None
    task_draws: Annotated[int, Field(ge=0), Rare()] = 1000
    with_human: Annotated[bool, Rare()] = False
    with_outliers: Annotated[bool, Rare()] = False
    domain: Annotated[str | None, Rare()] = None
    nan_as_zero: Annotated[bool, Rare()] = False


def has_metric_scores(values: Mapping[str, Any]) -> bool:
    """Whether metrics come with scores of their own, so that none need be named."""
    return bool(values["tasks"]) or values["statistics"] == "wmt"


def only_folder(paths: Sequence[str]) -> str:
    """The folder of a task set; raises InputError if there are several."""
    if len(paths) != 1:
        raise InputError(
            f"found {len(paths)} paths",
            where="--tasks",
            fix="Give the folder that holds the test sets",
        )
    return paths[0]


def run_statistics(
    places: Sequence[SetPlace], metrics: Sequence[Utility], values: Mapping[str, Any]
) -> int:
    """Prints every metric's agreement with people at the levels of the scores there are; returns the exit code."""
    by_set: dict[str, list[LevelAgreement]] = {}
    for place in places:
        eval_set = with_own_metrics(_eval_set(place, values), metrics, values)
        by_set[place.name] = _agreements(eval_set, place, values)
    sys.stdout.write(printed_agreement(by_set, values["format"], values["level"]))
    return 0


def run_task_set(path: str, metrics: Sequence[Utility], values: Mapping[str, Any]) -> int:
    """Prints a task set's values, ranks and averages; returns the exit code."""
    name = values["tasks"]
    folder = Path(path)
    if not is_eval_set_folder(folder):
        folder = folder / folder_of(name)
    pairs = tuple(values["language_pair"])
    tasks = task_set(name, pairs or _pairs_there(name, folder))
    eval_sets = {}
    for pair in tasks.language_pairs:
        place = SetPlace(str(folder), f"{folder.name} {pair}", pair)
        eval_sets[pair] = with_own_metrics(_eval_set(place, values), metrics, values)
    with Counted("tasks", len(tasks.tasks), values["quiet"]) as progress:
        result: TaskSetResult = run_tasks(
            tasks, eval_sets, _drawn(values), values["level"], progress.more
        )
    sys.stdout.write(printed_tasks(tasks.name, result, values["format"], values["level"]))
    return 0


def _pairs_there(name: str, folder: Path) -> tuple[str, ...]:
    """The language pairs of a folder, for a set that has none of its own."""
    return language_pairs(folder) if name == "wmt25" else ()


def _eval_set(place: SetPlace, values: Mapping[str, Any]) -> EvalSet:
    return eval_set_at(place.path, place.name, place.language_pair, values)


def _drawn(values: Mapping[str, Any]) -> DrawSettings | None:
    """How tests draw, None for no tests."""
    draws = values["task_draws"]
    return DrawSettings(draws, values["seed"], BLOCK) if draws else None


def _agreements(
    eval_set: EvalSet, place: SetPlace, values: Mapping[str, Any]
) -> list[LevelAgreement]:
    """The agreement at every level that has people's and metrics' scores."""
    options = AgreementOptions(
        human=values["with_human"],
        outliers=values["with_outliers"],
        domain=values["domain"],
        nan_as_zero=values["nan_as_zero"],
        drawn=_drawn(values),
        level=values["level"],
    )
    names = tuple(values["human_scores"]) or tuple(
        dict.fromkeys(eval_set.standards.human_scores.values())
    )
    agreements = []
    for name in (each.rpartition(":")[2] for each in names):
        for level in LEVELS:
            metrics = eval_set.metrics_scored(level)
            if (name, level) not in eval_set.human_scores or not metrics:
                continue
            num_tests = len(list(combinations(metrics, 2))) * len(TESTED) // 2
            total = len(metrics) + (num_tests if options.drawn else 0)
            with Counted("metrics and tests", total, values["quiet"]) as progress:
                agreements.append(level_agreement(eval_set, name, level, options, progress.more))
    if not eval_set.human_scores:
        raise InputError("no human scores", where=place.name, fix="Give some, or name their key")
    if not agreements:
        raise InputError(
            "no metric has scores where people have", where=place.name, fix="Give -m METRIC"
        )
    return agreements


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
