"""``compare --statistics wmt`` and ``compare --tasks``: metrics against people by the names of the WMT metrics task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from ....integrations.formats.format_table import is_eval_set_folder
from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.wmt.eval_set_folder import (
    EvalSetOptions,
    language_pairs,
    read_eval_set,
    standards_of,
)
from ....integrations.formats.wmt.eval_set_rows import eval_set_of_rows, missing_texts
from ....metrics.errors import InputError
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import Field, Rare, settings
from ....rerank.selection.meta_evaluation.eval_set import LEVELS, EvalSet, score_eval_set
from ....rerank.selection.meta_evaluation.metric_tests import DrawSettings
from ....rerank.selection.meta_evaluation.metrics_tasks import (
    TESTED,
    AgreementOptions,
    LevelAgreement,
    TaskSetResult,
    folder_of,
    level_agreement,
    num_steps,
    run_tasks,
    task_set,
)
from ....tables import Column, Table, decimals, number, of_set, text_table, whole, words
from ...options.system_outputs import EvalSetTexts, checked_rows
from ...terminal.console import Counted, say
from ...terminal.watching import judged_line
from .compared_sets import SetPlace

if TYPE_CHECKING:
    from ....metrics.execution.cache import Cache

BLOCK = 100  # draws between looks at p
NO_PAIR = "-"  # of a test set that names no languages


@settings
class TaskOptions:
    """The parts of the WMT metrics task that are computed.

    Args:
        input_format: how the systems are kept: {formats:documents}; what the first line shows need not be named.
        statistics: discorank's, or those of the WMT metrics task under its names, for metrics with scores in the folder
            too.
        tasks: a task set instead, of the folder that holds the test sets: wmt23, wmt24, wmt24-on-wmt23 or wmt25.
        every_task: whether the metrics of every task, and the tests behind the ranks, are shown too.
        task_draws: how many times the tests of the metrics task draw; 0: no tests.
        with_human: whether references that people judged are systems; task sets know themselves.
        with_outliers: whether outliers are systems.
    """

    heading: ClassVar = "statistics"

    input_format: str = "systems"
    statistics: Literal["discorank", "wmt"] = "discorank"
    tasks: str | None = None
    every_task: bool = False
    task_draws: Annotated[int, Field(ge=0), Rare()] = 1000
    with_human: Annotated[bool, Rare()] = False
    with_outliers: Annotated[bool, Rare()] = False

    @property
    def have_scores(self) -> bool:
        """Whether metrics come with scores of their own, so that none need be named."""
        return bool(self.tasks) or self.statistics == "wmt"


class TaskReading(NamedTuple):
    """How test sets are read and tested, and the metrics that score them."""

    options: TaskOptions
    texts: EvalSetTexts
    reading: EvalSetOptions
    human: tuple[str, ...]  # the keys of human scores of documents
    metrics: Sequence[Utility]
    cache: Cache | None
    level: float  # of significance
    seed: int  # of draws

    def eval_set(self, place: SetPlace) -> EvalSet:
        """A test set, of a folder in a language pair or else of documents, with the scores of the metrics.

        Raises:
            InputError: as the readers of folders and documents.
        """
        if place.language_pair is not None:
            eval_set = read_eval_set(place.path, place.language_pair, self.reading)
        else:
            keys = [HumanKey.read(key) for key in self.human]
            rows = checked_rows(place.path, self.options.input_format, None, keys)
            lower = [key.name for key in keys if key.lower]
            eval_set = eval_set_of_rows(rows, place.name, NO_PAIR, lower)
            eval_set = replace(eval_set, standards=standards_of(eval_set, self.reading))
        if lacking := missing_texts(eval_set):
            say(f"{place.name}: {lacking} texts were not supplied, and count as empty")
        return self._scored(eval_set)

    def _scored(self, eval_set: EvalSet) -> EvalSet:
        """The set with the scores of the metrics."""
        meter = Meter()
        num_readings = len(eval_set.documents) * sum(len(metric.parts) for metric in self.metrics)
        with Counted("documents", num_readings) as reading:
            for metric in self.metrics:
                eval_set = score_eval_set(
                    metric, eval_set, cache=self.cache, progress=reading.more, meter=meter
                )
        if judged := judged_line(meter.now):
            say(judged)
        return eval_set

    @property
    def drawn(self) -> DrawSettings | None:
        """How tests draw, None for no tests."""
        draws = self.options.task_draws
        return DrawSettings(draws, self.seed, BLOCK) if draws else None


def only_folder(paths: Sequence[str]) -> str:
    """The folder of a task set; raises InputError if there are several."""
    if len(paths) != 1:
        raise InputError(
            f"found {len(paths)} paths",
            where="--tasks",
            fix="Give the folder that holds the test sets",
        )
    return paths[0]


def statistics_tables(places: Sequence[SetPlace], task: TaskReading) -> list[Table]:
    """Every metric's agreement with people at the levels of the scores there are."""
    tables: list[Table] = []
    for place in places:
        for agreement in _agreements(task.eval_set(place), place, task):
            tables += of_set(place.name, agreement_tables(agreement, task.level))
    return tables


def task_set_tables(path: str, name: str, task: TaskReading) -> list[Table]:
    """A task set's values, ranks and averages."""
    folder = Path(path)
    if not is_eval_set_folder(folder):
        folder = folder / folder_of(name)
    pairs = task.texts.language_pair
    tasks = task_set(name, pairs or (language_pairs(folder) if name == "wmt25" else ()))
    eval_sets = {}
    for pair in tasks.language_pairs:
        eval_sets[pair] = task.eval_set(SetPlace(str(folder), f"{folder.name} {pair}", pair))
    total = num_steps(tasks, eval_sets, task.drawn)
    with Counted("metrics and tests", total) as progress:
        result = run_tasks(tasks, eval_sets, task.drawn, task.level, progress.more)
    return task_tables(tasks.name, result, task.level, task.options.every_task)


def _agreements(eval_set: EvalSet, place: SetPlace, task: TaskReading) -> list[LevelAgreement]:
    """The agreement at every level that has people's and metrics' scores."""
    options = AgreementOptions(
        human=task.options.with_human,
        outliers=task.options.with_outliers,
        drawn=task.drawn,
        level=task.level,
    )
    known = eval_set.standards.human_scores.values()
    names = task.reading.human_scores or tuple(dict.fromkeys(known))
    agreements = []
    for name in (each.rpartition(":")[2] for each in names):
        for level in LEVELS:
            metrics = eval_set.metrics_scored(level)
            if (name, level) not in eval_set.human_scores or not metrics:
                continue
            num_tests = len(list(combinations(metrics, 2))) * len(TESTED) // 2
            total = len(metrics) + (num_tests if options.drawn else 0)
            with Counted("metrics and tests", total) as progress:
                agreements.append(level_agreement(eval_set, name, level, options, progress.more))
    if not eval_set.human_scores:
        raise InputError("no human scores", where=place.name, fix="Give some, or name their key")
    if not agreements:
        problem = "no metric has scores where people have"
        raise InputError(problem, where=place.name, fix="Give -m METRIC")
    return agreements


def agreement_tables(agreement: LevelAgreement, level: float) -> list[Table]:
    """Values with ranks, then p of every pair for each coefficient that was tested."""
    about = {"human_scores": agreement.human_scores, "level": agreement.level}
    keys = list(dict.fromkeys(key for values in agreement.values.values() for key in values))
    columns, lines, rows = [words("metric", "metric")], [], []
    for key in keys:
        columns.append(Column(key, (key,)))
        if key in agreement.ranks:
            columns.append(Column("rank", (f"rank {key}",)))
    for metric, values in agreement.values.items():
        line: dict[str, Any] = {"metric": metric}
        for key in keys:
            line[key] = values[key].value if key in values else None
            rank = line[f"rank {key}"] = agreement.ranks.get(key, {}).get(metric)
            if key in values:
                row = {**about, "coefficient": key, "metric": metric, "value": values[key].value}
                further = {"epsilon": values[key].epsilon, "rank": rank}
                row |= {name: value for name, value in further.items() if value is not None}
                rows.append({**row, "counted": values[key].counted})
        lines.append(line)
    named = f"{agreement.human_scores} at level {agreement.level}"
    title = f"{named}, {len(agreement.systems)} systems, as the WMT metrics task counts"
    value_keys = ("human_scores", "level", "coefficient", "metric")
    tables = [Table(title, columns, lines), Table("", (), rows, "values", value_keys)]
    for key, p_values in agreement.p_values.items():
        ranks = agreement.ranks[key]
        of_pairs = {**about, "coefficient": key}
        tables += _p_tables(f"{named}: {key}", ranks, p_values, level, of_pairs)
    systems = [{**about, "system": system} for system in agreement.systems]
    system_keys = ("human_scores", "level", "system")
    return [*tables, Table("", (), systems, "systems", system_keys)]


def _p_tables(
    about: str,
    ranks: Mapping[str, int],
    p_values: Mapping[tuple[str, str], float],
    level: float,
    of_pairs: Mapping[str, str],
) -> list[Table]:
    """One-sided p that the row is better than the column, best first; and as it is written, beside `of_pairs`."""
    order = list(ranks)
    lines = []
    for a, better in enumerate(order):
        cells = [number(p_values[better, worse]) if b > a else "" for b, worse in enumerate(order)]
        lines.append([better, str(ranks[better]), *cells])
    title = f"{about}: one-sided p that the row is better; ranks at p <= {level:g}"
    rows = [
        {**of_pairs, "better": better, "worse": worse, "p": p}
        for (better, worse), p in p_values.items()
    ]
    keys = (*of_pairs, "better", "worse")
    return [
        text_table(title, ["metric", "rank", *order], lines),
        Table("", (), rows, "p", keys),
    ]


def task_tables(
    name: str, result: TaskSetResult, level: float, every_task: bool = False
) -> list[Table]:
    """The weighted average by metric with its ranks, and, shown or only written, every task's values and all tests."""
    tested = result.p_values is not None
    about = f"ranks at p <= {level:g}" if tested else "ranks without tests"
    average = [
        {"task": "average", "metric": metric, "value": result.average[metric], "rank": rank}
        for metric, rank in result.ranks.items()
    ]
    columns = [words("metric", "metric"), whole("rank", "rank"), decimals("average", "value", 3)]
    tables = [Table(f"Tasks of {name}: {about}", columns, average, "values", ("task", "metric"))]
    if result.p_values is not None:
        of_average = {"task": "average"}
        tests = _p_tables(f"{name}: average", result.ranks, result.p_values, level, of_average)
        tables += tests if every_task else tests[1:]
    tasks = []
    for each in result.results:
        task = each.task
        of_task: dict[str, Any] = {
            "language_pairs": " ".join(task.language_pairs),
            "level": task.level,
        }
        of_task |= {
            "statistic": task.coefficient.statistic,
            "human": task.human,
            "weight": task.weight,
        }
        tasks.append({"task": task.name, **of_task})
        rows = [
            {"task": task.name, "metric": metric, "value": each.values[metric], "rank": rank}
            for metric, rank in each.ranks.items()
        ]
        shown = [*columns[:2], Column("value", ("value",))] if every_task else ()
        title = f"{task.name}, weight {task.weight:.3g}: {about}"
        tables.append(Table(title, shown, rows, "values", ("task", "metric")))
        if each.p_values is not None:
            of_pairs = {"task": task.name}
            # the matrix of a task is only written
            tables += _p_tables("", each.ranks, each.p_values, level, of_pairs)[1:]
    return [*tables, Table("", (), tasks, "tasks", ("task",))]
