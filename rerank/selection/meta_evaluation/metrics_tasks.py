"""The tasks of the WMT metrics task: metrics of test sets against people, and the average over the tasks of a year.

A task computes one coefficient in some language pairs. Of several tasks, a metric's score is
sum_t weight_t (value_t - low_t) / (high_t - low_t), of the metrics that are in all tasks. Ranks come from one-sided
tests of all pairs, the better metric first (`metric_tests`): metrics are walked down from the highest value (by name
where values are equal), and one opens the next rank if any metric of the present rank beats it at p <= level. The test
of averages adds up the weighted differences of the tasks' draws, lists that ended early repeated to the length of the
longest. Without tests every metric has its own rank, 1, 2, 3 ..., even among equals. A value that is not defined is 0.

WMT23 (L language pairs): accuracy of systems over all pairs, weight 1/4; per pair Pearson of systems, Pearson of
segments, and calibrated accuracy of segments, 1/4L each. WMT24, WMT24 on WMT23 and WMT25: per pair soft pairwise
accuracy of systems and calibrated accuracy of segments, equally weighted. Correlations count on a scale of -1 to 1,
shares on 0 to 1. References are systems ("human") where a pair has several.

`level_agreement` has all coefficients of one test set at one level, ``STATISTIC`` of systems and
``STATISTIC/AVERAGING`` of segments and documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.representations import FloatArray
from .coefficients import AVERAGINGS, SOFT, Agreement, Averaged, Coefficient, Statistic, Tables
from .eval_set import EvalSet, Level, MetricName
from .metric_tests import DrawSettings, Test, paired_tests, share_as_large

LEVEL = 0.05
Progress = Callable[[int], None]
P = Mapping[tuple[str, str], float]  # one-sided p that the first metric of a pair is better
OF_SYSTEMS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall_b", "accuracy", "tau23")
OF_ROWS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall_b")
OF_ITEMS: tuple[Statistic, ...] = ("tau23", "acc23", "tau_opt", "acc_opt")
TESTED = ("pearson", "accuracy", SOFT, "pearson/none", "kendall_b/item", "acc_opt/item")


@dataclass(frozen=True, slots=True)
class MetricsTask:
    """One comparison of metrics with people.

    Args:
        language_pairs: whose systems are compared; several: by the accuracy of all pairs within one of them.
        level: of the scores, "sys" or "seg".
        coefficient: what is computed; soft pairwise accuracy of systems is of the scores of their segments.
        human: whether the other references are systems.
        weight: in the average.
    """

    language_pairs: tuple[str, ...]
    level: Level
    coefficient: Coefficient
    human: bool
    weight: float

    @property
    def name(self) -> str:
        """The name in tables."""
        by = {"none": "", "item": " by segment", "sys": " by system"}[self.coefficient.averaging]
        return f"{','.join(self.language_pairs)} {self.level} {self.coefficient.statistic}{by}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        is_share = self.coefficient.statistic in ("accuracy", "acc23", "acc_opt", SOFT)
        return (0.0, 1.0) if is_share else (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a year.

    Args:
        name: of the set.
        tasks: whose weights add up to 1.
    """

    name: str
    tasks: tuple[MetricsTask, ...]

    @property
    def language_pairs(self) -> tuple[str, ...]:
        """Those whose data is needed, sorted."""
        return tuple(sorted({pair for task in self.tasks for pair in task.language_pairs}))


# by the name of a task set: the folder of its data, its language pairs, and those where references are systems
_PLANS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "wmt23": ("wmt23", ("en-de", "he-en", "zh-en"), ("he-en", "en-he")),
    "wmt24": ("wmt24", ("en-de", "en-es", "ja-zh"), ("en-de",)),
    "wmt24-on-wmt23": ("wmt23", ("en-de", "he-en", "zh-en"), ("he-en", "en-he")),
    "wmt25": ("wmt25", (), ()),
}
_PER_PAIR: dict[str, list[tuple[Level, Coefficient]]] = {
    "wmt23": [
        ("sys", Coefficient("pearson")),
        ("seg", Coefficient("pearson")),
        ("seg", Coefficient("acc_opt", "item")),
    ],
    "later": [("sys", Coefficient(SOFT)), ("seg", Coefficient("acc_opt", "item"))],
}


def task_set(name: str, language_pairs: Sequence[str] = ()) -> TaskSet:
    """The tasks of a year, of other language pairs if any are given; "wmt25" has none of its own.

    Raises:
        InputError: an unknown set, or no language pairs.

    >>> [task.weight for task in task_set("wmt24", ["en-de"]).tasks]
    [0.5, 0.5]
    """
    folder_of(name)
    _, own_pairs, with_human = _PLANS[name]
    pairs = sorted(set(language_pairs) or own_pairs)
    if not pairs:
        raise InputError("no language pairs", where=f"tasks {name}", fix="Name them")
    tasks = []
    weight = 1 / (2 * len(pairs))
    if name == "wmt23":
        weight = 1 / (4 * len(pairs))
        human = bool(set(with_human) & set(pairs))
        tasks.append(MetricsTask(tuple(pairs), "sys", Coefficient("accuracy"), human, 1 / 4))
    kinds = _PER_PAIR["wmt23" if name == "wmt23" else "later"]
    tasks += [
        MetricsTask((pair,), level, coefficient, pair in with_human, weight)
        for pair in pairs
        for level, coefficient in kinds
    ]
    return TaskSet(name, tuple(tasks))


def folder_of(name: str) -> str:
    """The folder that has the data of a set; errors as `task_set`."""
    if name not in _PLANS:
        raise unknown("task set", name, _PLANS, where="tasks")
    return _PLANS[name][0]


@dataclass(frozen=True)
class TaskResult:
    """The metrics in one task.

    Args:
        task: what was asked.
        values: by the metric's name in tables.
        ranks: of the same metrics, the best first.
        p_values: of pairs in order of value; None without tests.
        differences: of the same pairs, of every draw.
    """

    task: MetricsTask
    values: Mapping[str, float]
    ranks: Mapping[str, int]
    p_values: P | None = None
    differences: Mapping[tuple[str, str], FloatArray] | None = None


@dataclass(frozen=True)
class TaskSetResult:
    """All tasks, and the average over them by metric: values, ranks and p as in `TaskResult`."""

    results: tuple[TaskResult, ...]
    average: Mapping[str, float]
    ranks: Mapping[str, int]
    p_values: P | None = None


def run_tasks(
    tasks: TaskSet,
    eval_sets: Mapping[str, EvalSet],
    drawn: DrawSettings | None = None,
    level: float = LEVEL,
    progress: Progress = lambda done: None,
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
        agreement, metrics = _tables(task, [eval_sets[pair] for pair in task.language_pairs])
        values = {}
        for name, tables in metrics.items():
            values[name] = agreement.averaged(tables).value or 0.0
            progress(1)
        if drawn is None:
            results.append(TaskResult(task, values, metric_ranks(values)))
            continue
        tested = _tested(values, paired_tests(agreement, metrics, drawn), progress)
        p_values = {pair: p for pair, (p, _) in tested.items()}
        differences = {pair: drawn_ones for pair, (_, drawn_ones) in tested.items()}
        ranks = metric_ranks(values, p_values, level)
        results.append(TaskResult(task, values, ranks, p_values, differences))
    return average_results(results, level)


def num_steps(
    tasks: TaskSet, eval_sets: Mapping[str, EvalSet], drawn: DrawSettings | None = None
) -> int:
    """How many values and tests `run_tasks` computes."""
    total = 0
    for task in tasks.tasks:
        names = [{*_displayed(task, eval_sets[pair])} for pair in task.language_pairs]
        metrics = len(set.intersection(*names))
        total += metrics + (metrics * (metrics - 1) // 2 if drawn else 0)
    return total


def _tables(
    task: MetricsTask, eval_sets: Sequence[EvalSet]
) -> tuple[Agreement, dict[str, list[FloatArray]]]:
    """The coefficient with people's scores, and every metric's scores by its name in tables."""
    level = _level_of_scores(task)
    human: list[FloatArray] = []
    metrics: dict[str, list[FloatArray]] = {}
    for eval_set in eval_sets:
        scores = eval_set.standard_human_scores(level)
        systems = eval_set.systems_scored(scores, level, human=task.human)
        human.append(eval_set.human_table(scores, level, systems))
        for displayed, name in _displayed(task, eval_set).items():
            table = eval_set.metric_table(name, level, systems)
            metrics.setdefault(displayed, []).append(table)
    complete = {name: tables for name, tables in metrics.items() if len(tables) == len(human)}
    if not complete:
        raise InputError("no metric has scores", where=task.name, fix="Add metric scores")
    return Agreement(task.coefficient, human), complete


def _level_of_scores(task: MetricsTask) -> Level:
    return "seg" if task.coefficient.statistic == SOFT else task.level


def _displayed(task: MetricsTask, eval_set: EvalSet) -> dict[str, MetricName]:
    """The metrics of a language pair by their names in tables; raises InputError for two of one name."""
    displayed: dict[str, MetricName] = {}
    for name in eval_set.metrics_scored(_level_of_scores(task), primary=True):
        shown = name.displayed(eval_set.standards.primary or {name.base})
        if shown in displayed:
            fix = "Rename one, or give other main references"
            where = f"{eval_set.name} {eval_set.language_pair}"
            raise InputError(f"two metrics are called {name.base!r:.80}", where=where, fix=fix)
        displayed[shown] = name
    return displayed


def _in_order(values: Mapping[str, float]) -> list[str]:
    """The metrics, those of the higher values first, by name where these are equal."""
    return sorted(values, key=lambda name: (-values[name], name))


def _tested(
    values: Mapping[str, float], test_of: Test, progress: Progress
) -> dict[tuple[str, str], tuple[float, FloatArray]]:
    """p and the differences of all draws of every pair in order; 1 and 0 where a metric does not vary."""
    tests: dict[tuple[str, str], tuple[float, FloatArray]] = {}
    for better, worse in combinations(_in_order(values), 2):
        test = test_of(better, worse)
        tests[better, worse] = (1.0, np.zeros(1)) if test is None else (test.p, test.differences)
        progress(1)
    return tests


def metric_ranks(
    values: Mapping[str, float], p_values: P | None = None, level: float = LEVEL
) -> dict[str, int]:
    """The rank of every metric, the best first.

    Args:
        values: agreement by metric.
        p_values: at least of every pair in order of value; None: no tests were made.
        level: of significance, inclusive.

    >>> metric_ranks({"A": 0.9, "B": 0.8, "C": 0.7}, {("A", "B"): 0.2, ("A", "C"): 0.01, ("B", "C"): 0.3})
    {'A': 1, 'B': 1, 'C': 2}
    """
    ranks: dict[str, int] = {}
    of_rank: list[str] = []
    rank = 1
    for number, name in enumerate(_in_order(values), 1):
        if p_values is None:
            rank = number
        elif any(p_values[better, name] <= level for better in of_rank):
            rank += 1
            of_rank = []
        of_rank.append(name)
        ranks[name] = rank
    return ranks


def average_results(results: Sequence[TaskResult], level: float = LEVEL) -> TaskSetResult:
    """The weighted average of tasks, of the metrics that are in all of them.

    Raises:
        InputError: there are no tasks, or no metric is in all.
    """
    in_all = set(results[0].values).intersection(*(result.values for result in results))
    if not in_all:
        fix = "Give scores of systems and segments in every language pair"
        raise InputError("no metric is in all tasks", where="tasks", fix=fix)
    average = {
        name: sum(_scaled(result.task, result.values[name]) for result in results)
        for name in sorted(in_all)
    }
    if any(result.p_values is None for result in results):
        return TaskSetResult(tuple(results), average, metric_ranks(average))
    p_values = {
        (better, worse): _average_p(results, better, worse, average[better] - average[worse])
        for better, worse in combinations(_in_order(average), 2)
    }
    ranks = metric_ranks(average, p_values, level)
    return TaskSetResult(tuple(results), average, ranks, p_values)


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


@dataclass(frozen=True)
class AgreementOptions:
    """The systems that count, and how metrics are tested.

    Args:
        human: whether references that are judged are systems.
        outliers: whether outliers are.
        drawn: how tests draw; None: no tests.
        level: of significance.
    """

    human: bool = False
    outliers: bool = False
    drawn: DrawSettings | None = None
    level: float = LEVEL


@dataclass(frozen=True)
class LevelAgreement:
    """Every metric against people at one level.

    Args:
        human_scores: the name of people's scores.
        level: of all scores.
        systems: those that count, sorted.
        values: coefficient by name, by metric and name of the coefficient.
        ranks: of the metrics, by name of a coefficient that is tested.
        p_values: by name of the coefficient.
    """

    human_scores: str
    level: Level
    systems: tuple[str, ...]
    values: Mapping[str, Mapping[str, Averaged]]
    ranks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    p_values: Mapping[str, P] = field(default_factory=dict)


def coefficients_of(level: Level) -> dict[str, Coefficient]:
    """The coefficients of a level by name.

    >>> list(coefficients_of("sys"))[:2]
    ['pearson', 'spearman']
    """
    if level == "sys":
        return {name: Coefficient(name) for name in (*OF_SYSTEMS, SOFT)}
    kinds = [(name, averaging) for name in OF_ROWS for averaging in AVERAGINGS]
    kinds += [(name, "item") for name in OF_ITEMS]
    return {f"{name}/{averaging}": Coefficient(name, averaging) for name, averaging in kinds}


def level_agreement(
    eval_set: EvalSet,
    human_scores: str,
    level: Level,
    options: AgreementOptions | None = None,
    progress: Progress = lambda done: None,
) -> LevelAgreement:
    """The metrics that have scores at a level.

    Args:
        eval_set: the test set.
        human_scores: the name of people's scores.
        level: of all scores; soft pairwise accuracy of systems is of segments, where there are such scores.
        options: what counts.
        progress: told of every metric and every test that is done.

    Raises:
        InputError: there are no such scores, or a metric lacks one.
    """
    chosen = options or AgreementOptions()
    systems = eval_set.systems_scored(
        human_scores, level, human=chosen.human, outliers=chosen.outliers
    )
    names = eval_set.metrics_scored(level)
    values: dict[str, dict[str, Averaged]] = {str(name): {} for name in names}
    ranks: dict[str, dict[str, int]] = {}
    all_p: dict[str, P] = {}
    for key, coefficient in coefficients_of(level).items():
        own_level: Level = "seg" if key == SOFT else level
        if (human_scores, own_level) not in eval_set.human_scores:
            continue
        human = eval_set.human_table(human_scores, own_level, systems)
        agreement = Agreement(coefficient, [human])
        tables: dict[str, Tables] = {
            str(name): [eval_set.metric_table(name, own_level, systems)]
            for name in names
            if (name, own_level) in eval_set.metric_scores
        }
        defined = {}
        for name, table in tables.items():
            average = values[name][key] = agreement.averaged(table)
            if average.value is not None:
                defined[name] = average.value
        if chosen.drawn is not None and key in TESTED and defined:
            tests = paired_tests(agreement, {name: tables[name] for name in defined}, chosen.drawn)
            all_p[key] = {pair: p for pair, (p, _) in _tested(defined, tests, progress).items()}
            ranks[key] = metric_ranks(defined, all_p[key], chosen.level)
    progress(len(names))
    return LevelAgreement(human_scores, level, systems, values, ranks, all_p)
