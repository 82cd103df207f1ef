"""Runs the tasks of the WMT metrics task: every metric's value and rank in each, and the weighted average with ranks.

A metric's score is sum_t weight_t (value_t - low_t) / (high_t - low_t), of the metrics that are in all tasks. Ranks
come from one-sided tests of all pairs, the better metric first (`cell_permutation`); the test of averages adds up the
weighted differences of the tasks' draws, lists that ended early repeated to the length of the longest. Without draws
every metric has its own rank. A value that is not defined is 0.

WMT23 (L language pairs): accuracy of systems over all pairs, weight 1/4; per pair Pearson of systems, Pearson of
segments, and calibrated accuracy of segments, 1/4L each. WMT24, WMT24 on WMT23 and WMT25: per pair soft pairwise
accuracy of systems and calibrated accuracy of segments, equally weighted. Correlations count on a scale of -1 to 1,
shares on 0 to 1. References are systems ("human") where a pair has several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.representations import FloatArray
from .averaged_correlations import Coefficient, averaged, pair_counts
from .cell_permutation import (
    DrawSettings,
    Test,
    joint_accuracy_test,
    paired_tests,
    share_as_large,
    soft_accuracy_test,
)
from .eval_set import EvalSet, Level, MetricName
from .level_agreement import LEVEL, metric_ranks, tests_of_pairs
from .soft_accuracy import soft_pairwise_accuracy

Tables = list[FloatArray]  # scores [S, units], one per language pair


@dataclass(frozen=True)
class TaskResult:
    """The metrics in one task.

    Args:
        task: what was asked.
        values: by the metric's name in tables.
        ranks: of the same metrics, the best first.
        p_values: one-sided p that the first of a pair is better, of pairs in order of value; None without tests.
        differences: of the same pairs, of every draw.
    """

    task: MetricsTask
    values: Mapping[str, float]
    ranks: Mapping[str, int]
    p_values: Mapping[tuple[str, str], float] | None = None
    differences: Mapping[tuple[str, str], FloatArray] | None = None


@dataclass(frozen=True)
class TaskSetResult:
    """All tasks, and the average over them by metric: values, ranks and p as in `TaskResult`."""

    results: tuple[TaskResult, ...]
    average: Mapping[str, float]
    ranks: Mapping[str, int]
    p_values: Mapping[tuple[str, str], float] | None = None


def run_tasks(
    tasks: TaskSet,
    eval_sets: Mapping[str, EvalSet],
    drawn: DrawSettings | None = None,
    level: float = LEVEL,
    progress: Callable[[int], None] = lambda done: None,
) -> TaskSetResult:
    """The tasks over test sets by language pair.

    Args:
        tasks: what is asked.
        eval_sets: by language pair.
        drawn: how tests draw; None: no tests.
        level: of significance.
        progress: told of every value and every test that is done, of `num_steps` in all.

    Raises:
        InputError: a language pair or score is missing, or no metric is in all tasks.
    """
    for pair in tasks.language_pairs:
        if pair not in eval_sets:
            raise InputError("no test set", where=pair, fix="Give the data of all language pairs")
    results = []
    for task in tasks.tasks:
        results.append(run_task(task, eval_sets, drawn, level, progress))
    return average_results(results, level)


def num_steps(
    tasks: TaskSet, eval_sets: Mapping[str, EvalSet], drawn: DrawSettings | None = None
) -> int:
    """How many values and tests `run_tasks` computes."""
    total = 0
    for task in tasks.tasks:
        sets = [eval_sets[pair] for pair in task.language_pairs if pair in eval_sets]
        names = [{shown for shown, _ in _displayed(task, one)} for one in sets]
        metrics = len(set.intersection(*names)) if names else 0
        total += metrics + (metrics * (metrics - 1) // 2 if drawn else 0)
    return total


def run_task(
    task: MetricsTask,
    eval_sets: Mapping[str, EvalSet],
    drawn: DrawSettings | None = None,
    level: float = LEVEL,
    progress: Callable[[int], None] = lambda done: None,
) -> TaskResult:
    """One task; errors as `run_tasks`."""
    human, metrics = _tables(task, [eval_sets[pair] for pair in task.language_pairs])
    values = {}
    for name, tables in metrics.items():
        values[name] = task_value(task, human, tables)
        progress(1)
    if drawn is None:
        return TaskResult(task, values, metric_ranks(values))
    test_of = _test_of(task, human, metrics, drawn)
    tests = tests_of_pairs(values, test_of, progress)
    # what does not vary cannot be tested
    p_values = {pair: 1.0 if test is None else test.p for pair, test in tests.items()}
    differences = {
        pair: np.zeros(1) if test is None else test.differences for pair, test in tests.items()
    }
    ranks = metric_ranks(values, p_values, level)
    return TaskResult(task, values, ranks, p_values, differences)


def _tables(task: MetricsTask, eval_sets: Sequence[EvalSet]) -> tuple[Tables, dict[str, Tables]]:
    """People's scores, and every metric's by its name in tables."""
    level = _level(task)
    human: Tables = []
    metrics: dict[str, Tables] = {}
    for number, eval_set in enumerate(eval_sets):
        scores = eval_set.standard_human_scores(level)
        systems = eval_set.systems_scored(scores, level, human=task.human)
        human.append(eval_set.human_table(scores, level, systems))
        for displayed, name in _displayed(task, eval_set):
            tables = metrics.setdefault(displayed, [])
            _check_once(tables, number, name, eval_set)
            tables.append(eval_set.metric_table(name, level, systems))
    complete = {name: tables for name, tables in metrics.items() if len(tables) == len(human)}
    if not complete:
        raise InputError("no metric has scores", where=task.name, fix="Add metric scores")
    return human, complete


def _level(task: MetricsTask) -> Level:
    """The level whose scores a task reads."""
    return "seg" if task.coefficient is None else task.level


def _displayed(task: MetricsTask, eval_set: EvalSet) -> list[tuple[str, MetricName]]:
    """The metrics of a language pair with their names in tables."""
    names = eval_set.metrics_scored(_level(task), primary=True)
    return [(name.displayed(eval_set.standards.primary or {name.base}), name) for name in names]


def _check_once(tables: Tables, number: int, name: MetricName, eval_set: EvalSet) -> None:
    """Raises InputError for a second metric of one name in a language pair."""
    if len(tables) > number:
        raise InputError(
            f"two metrics are called {name.base!r:.80}",
            where=f"{eval_set.name} {eval_set.language_pair}",
            fix="Rename one, or give other main references",
        )


def task_value(task: MetricsTask, human: Tables, metric: Tables) -> float:
    """A metric's value in a task, 0 where it is not defined; tables of every language pair."""
    if task.coefficient is None:
        return soft_pairwise_accuracy(human[0], metric[0]) or 0.0
    if len(human) == 1:
        return averaged(task.coefficient, human[0], metric[0]).value or 0.0
    agreed = total = 0
    for people, scores in zip(human, metric, strict=True):
        is_scored = ~np.isnan(people)
        counts = pair_counts(people[is_scored], scores[is_scored][None])
        agreed += int(counts.agreed[0])
        total += counts.pairs
    return agreed / total if total else 0.0


def _test_of(
    task: MetricsTask, human: Tables, metrics: Mapping[str, Tables], drawn: DrawSettings
) -> Test:
    """The test of any two metrics in a task."""
    if task.coefficient is None:
        return lambda better, worse: soft_accuracy_test(
            human[0], metrics[better][0], metrics[worse][0], drawn
        )
    if len(human) > 1:
        return lambda better, worse: joint_accuracy_test(
            list(zip(human, metrics[better], metrics[worse], strict=True)), drawn
        )
    tables = {name: of_metric[0] for name, of_metric in metrics.items()}
    return paired_tests(human[0], tables, task.coefficient, drawn)


def average_results(results: Sequence[TaskResult], level: float = LEVEL) -> TaskSetResult:
    """The weighted average of tasks, of the metrics that are in all of them.

    Raises:
        InputError: there are no tasks, or no metric is in all.
    """
    names = _in_all(results)
    average = {
        name: sum(_scaled(result.task, result.values[name]) for result in results) for name in names
    }
    if any(result.p_values is None for result in results):
        return TaskSetResult(tuple(results), average, metric_ranks(average))
    order = sorted(average, key=lambda name: (-average[name], name))
    p_values = {
        (better, worse): _average_p(results, better, worse, average[better] - average[worse])
        for better, worse in combinations(order, 2)
    }
    ranks = metric_ranks(average, p_values, level)
    return TaskSetResult(tuple(results), average, ranks, p_values)


def _in_all(results: Sequence[TaskResult]) -> list[str]:
    """The metrics that are in all tasks."""
    if not results:
        raise InputError("no tasks", where="tasks", fix="Give at least one")
    names = set(results[0].values).intersection(*(result.values for result in results))
    if not names:
        raise InputError(
            "no metric is in all tasks",
            where="tasks",
            fix="Give scores of systems and segments in every language pair",
        )
    return sorted(names)


def _scaled(task: MetricsTask, value: float) -> float:
    """A value's share of the average."""
    low, high = task.bounds
    return task.weight * (value - low) / (high - low)


def _average_p(results: Sequence[TaskResult], better: str, worse: str, observed: float) -> float:
    """p that one metric's average is better, from the draws of the tasks."""
    drawn = []
    for result in results:
        differences = result.differences or {}
        of_pair = differences.get((better, worse))
        if of_pair is None:
            of_pair = -differences[worse, better]
        low, high = result.task.bounds
        drawn.append(result.task.weight / (high - low) * of_pair)
    longest = max(map(len, drawn))
    total = sum(np.resize(of_task, longest) for of_task in drawn)
    return share_as_large(np.asarray(total), observed)


Year = Literal["wmt23", "wmt24", "wmt24-on-wmt23", "wmt25"]


@dataclass(frozen=True, slots=True)
class MetricsTask:
    """One comparison of metrics with people.

    Args:
        language_pairs: whose systems are compared; several: by the accuracy of all pairs within one of them.
        level: of the scores, "sys" or "seg".
        coefficient: what is computed; None: soft pairwise accuracy, of scores of segments.
        human: whether the other references are systems.
        weight: in the average.
    """

    language_pairs: tuple[str, ...]
    level: Level
    coefficient: Coefficient | None
    human: bool
    weight: float

    @property
    def statistic(self) -> str:
        """The name of what is computed."""
        return "soft_pairwise_accuracy" if self.coefficient is None else self.coefficient.statistic

    @property
    def name(self) -> str:
        """The name in tables."""
        averaging = "none" if self.coefficient is None else self.coefficient.averaging
        by = {"none": "", "item": " by segment", "sys": " by system"}[averaging]
        return f"{','.join(self.language_pairs)} {self.level} {self.statistic}{by}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        shares = ("accuracy", "acc23", "acc_opt", "soft_pairwise_accuracy")
        return (0.0, 1.0) if self.statistic in shares else (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a year.

    Args:
        name: of the set.
        test_set: the folder of its data.
        tasks: whose weights add up to 1.
    """

    name: str
    test_set: str
    tasks: tuple[MetricsTask, ...]

    @property
    def language_pairs(self) -> tuple[str, ...]:
        """Those whose data is needed, sorted."""
        return tuple(sorted({pair for task in self.tasks for pair in task.language_pairs}))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the tasks of a year are made of its language pairs."""

    test_set: str
    language_pairs: tuple[str, ...]
    human: frozenset[str]
    tasks: Callable[[Sequence[str], frozenset[str]], list[MetricsTask]]


def _wmt23(pairs: Sequence[str], human: frozenset[str]) -> list[MetricsTask]:
    joint = Coefficient("accuracy")
    weight = 1 / (4 * len(pairs))
    tasks = [MetricsTask(tuple(pairs), "sys", joint, bool(human & set(pairs)), 1 / 4)]
    kinds: list[tuple[Level, Coefficient]] = [
        ("sys", Coefficient("pearson")),
        ("seg", Coefficient("pearson")),
        ("seg", Coefficient("acc_opt", "item")),
    ]
    for pair in pairs:
        for level, coefficient in kinds:
            tasks.append(MetricsTask((pair,), level, coefficient, pair in human, weight))
    return tasks


def _wmt24(pairs: Sequence[str], human: frozenset[str]) -> list[MetricsTask]:
    weight = 1 / (2 * len(pairs))
    kinds: list[tuple[Level, Coefficient | None]] = [
        ("sys", None),
        ("seg", Coefficient("acc_opt", "item")),
    ]
    return [
        MetricsTask((pair,), level, coefficient, pair in human, weight)
        for pair in pairs
        for level, coefficient in kinds
    ]


_HEBREW = frozenset({"he-en", "en-he"})
_WMT23_PAIRS = ("en-de", "he-en", "zh-en")
_PLANS: dict[str, _Plan] = {
    "wmt23": _Plan("wmt23", _WMT23_PAIRS, _HEBREW, _wmt23),
    "wmt24": _Plan("wmt24", ("en-de", "en-es", "ja-zh"), frozenset({"en-de"}), _wmt24),
    "wmt24-on-wmt23": _Plan("wmt23", _WMT23_PAIRS, _HEBREW, _wmt24),
    "wmt25": _Plan("wmt25", (), frozenset(), _wmt24),
}
TASK_SETS = tuple(_PLANS)


def task_set(name: str, language_pairs: Sequence[str] = ()) -> TaskSet:
    """The tasks of a year, of other language pairs if any are given; "wmt25" has none of its own.

    Raises:
        InputError: an unknown set, or no language pairs.

    >>> [task.weight for task in task_set("wmt24", ["en-de"]).tasks]
    [0.5, 0.5]
    """
    if name not in _PLANS:
        raise unknown("task set", name, _PLANS, where="tasks")
    plan = _PLANS[name]
    pairs = sorted(set(language_pairs)) or sorted(plan.language_pairs)
    if not pairs:
        raise InputError("no language pairs", where=f"tasks {name}", fix="Name them")
    return TaskSet(name, plan.test_set, tuple(plan.tasks(pairs, plan.human)))


def folder_of(name: str) -> str:
    """The folder that has the data of a set; errors as `task_set`."""
    if name not in _PLANS:
        raise unknown("task set", name, _PLANS, where="tasks")
    return _PLANS[name].test_set
