"""All metrics of a test set against one kind of human scores at one level, by the names of the WMT metrics task.

A coefficient is called ``STATISTIC`` at level sys and ``STATISTIC/AVERAGING`` at the others. Ranks are those of
`metric_ranks` over one-sided tests of all pairs, as in the task sets: metrics are walked down from the highest value
(by name where values are equal), and one opens the next rank if any metric of the present rank beats it at p <= level.
Without tests every metric has its own rank, 1, 2, 3 ..., even among equals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from ....metrics.representations import FloatArray
from .averaged_correlations import AVERAGINGS, Averaged, Coefficient, averaged
from .cell_permutation import (
    DrawSettings,
    Permutation,
    Test,
    paired_tests,
    soft_accuracy_test,
)
from .eval_set import EvalSet, Level
from .soft_accuracy import soft_pairwise_accuracy

LEVEL = 0.05
SOFT = "soft_pairwise_accuracy"
SYSTEM_STATISTICS = ("pearson", "spearman", "kendall_b", "kendall_c", "accuracy", "tau23")
ITEM_STATISTICS = (
    "tau23",
    "acc23",
    "tau_opt",
    "acc_opt",
    "kendall_like",
    "pearson_pairwise_differences",
)
TESTED = ("pearson", "accuracy", SOFT, "pearson/none", "kendall_b/item", "acc_opt/item")


@dataclass(frozen=True)
class AgreementOptions:
    """The systems and segments that count, and how they are counted.

    Args:
        human: whether references that are judged are systems.
        outliers: whether outliers are.
        references: the main references; the standard one if not given.
        domain: the only one that counts; all if not given.
        nan_as_zero: whether rows without a correlation count as 0.
        drawn: how tests draw; None: no tests.
        level: of significance.
    """

    human: bool = False
    outliers: bool = False
    references: tuple[str, ...] = ()
    domain: str | None = None
    nan_as_zero: bool = False
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
        p_values: one-sided, that the first metric of a pair is better, by name of the coefficient.
    """

    human_scores: str
    level: Level
    systems: tuple[str, ...]
    values: Mapping[str, Mapping[str, Averaged]]
    ranks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    p_values: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)


def coefficients_of(level: Level, nan_as_zero: bool = False) -> dict[str, Coefficient]:
    """The coefficients of a level by name, but for soft pairwise accuracy.

    >>> list(coefficients_of("sys"))[:2]
    ['pearson', 'spearman']
    """
    if level == "sys":
        return {name: _coefficient(name, "none", nan_as_zero) for name in SYSTEM_STATISTICS}
    by_name = {}
    for name in ("pearson", "spearman", "kendall_b"):
        for averaging in AVERAGINGS:
            by_name[f"{name}/{averaging}"] = _coefficient(name, averaging, nan_as_zero)
    for name in ITEM_STATISTICS:
        by_name[f"{name}/item"] = _coefficient(name, "item", nan_as_zero)
    return by_name


def _coefficient(statistic: str, averaging: str, nan_as_zero: bool) -> Coefficient:
    # names of tables, which the constructor checks
    return Coefficient(statistic, averaging, nan_as_zero=nan_as_zero)  # type: ignore[arg-type]


def level_agreement(
    eval_set: EvalSet,
    human_scores: str,
    level: Level,
    options: AgreementOptions | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> LevelAgreement:
    """The metrics that have scores at a level.

    Args:
        eval_set: the test set.
        human_scores: the name of people's scores.
        level: of all scores.
        options: what counts.
        progress: told of every metric and every test that is done.

    Raises:
        InputError: there are no such scores, or a metric lacks one.
    """
    chosen = options or AgreementOptions()
    systems = eval_set.systems_scored(
        human_scores,
        level,
        human=chosen.human,
        outliers=chosen.outliers,
        references=chosen.references,
        domain=chosen.domain,
    )
    human = eval_set.human_table(human_scores, level, systems, chosen.domain)
    soft_human = _segment_table(eval_set, human_scores, systems, chosen) if level == "sys" else None
    tables: dict[str, FloatArray] = {}
    soft: dict[str, FloatArray] = {}
    values: dict[str, dict[str, Averaged]] = {}
    coefficients = coefficients_of(level, chosen.nan_as_zero)
    for metric in eval_set.metrics_scored(level, references=chosen.references):
        name = str(metric)
        tables[name] = eval_set.metric_table(metric, level, systems, chosen.domain)
        values[name] = {
            key: averaged(coefficient, human, tables[name])
            for key, coefficient in coefficients.items()
        }
        if soft_human is not None and (metric, "seg") in eval_set.metric_scores:
            soft[name] = eval_set.metric_table(metric, "seg", systems, chosen.domain)
            value = soft_pairwise_accuracy(soft_human, soft[name])
            values[name][SOFT] = Averaged(value, len(systems))
        progress(1)
    agreement = LevelAgreement(human_scores, level, systems, values)
    if chosen.drawn is None:
        return agreement
    return _tested(agreement, human, tables, soft_human, soft, chosen, progress)


def _segment_table(
    eval_set: EvalSet, human_scores: str, systems: Sequence[str], chosen: AgreementOptions
) -> FloatArray | None:
    """People's scores of segments, where there are any."""
    if (human_scores, "seg") not in eval_set.human_scores:
        return None
    return eval_set.human_table(human_scores, "seg", systems, chosen.domain)


def _tested(
    agreement: LevelAgreement,
    human: FloatArray,
    tables: Mapping[str, FloatArray],
    soft_human: FloatArray | None,
    soft: Mapping[str, FloatArray],
    chosen: AgreementOptions,
    progress: Callable[[int], None],
) -> LevelAgreement:
    """The same with tests of all pairs and ranks."""
    coefficients = coefficients_of(agreement.level, chosen.nan_as_zero)
    drawn = chosen.drawn or DrawSettings()
    ranks: dict[str, dict[str, int]] = {}
    p_values: dict[str, dict[tuple[str, str], float]] = {}
    for key in TESTED:
        scores = values_of(agreement, key)
        if not scores:
            continue
        if key == SOFT and soft_human is not None:
            test_of = _soft_test(soft_human, soft, drawn)
        else:
            tested = {name: tables[name] for name in scores}
            test_of = paired_tests(human, tested, coefficients[key], drawn)
        tests = tests_of_pairs(scores, test_of, progress)
        p_values[key] = {pair: 1.0 if test is None else test.p for pair, test in tests.items()}
        ranks[key] = metric_ranks(scores, p_values[key], chosen.level)
    return replace(agreement, ranks=ranks, p_values=p_values)


def tests_of_pairs(
    values: Mapping[str, float], test_of: Test, progress: Callable[[int], None]
) -> dict[tuple[str, str], Permutation | None]:
    """The tests of all pairs of metrics, those of the higher values (by name where these are equal) first."""
    order = sorted(values, key=lambda name: (-values[name], name))
    tests = {}
    for better, worse in combinations(order, 2):
        tests[better, worse] = test_of(better, worse)
        progress(1)
    return tests


def values_of(agreement: LevelAgreement, key: str) -> dict[str, float]:
    """The values of one coefficient by metric, where it is defined."""
    values = {name: by_key.get(key) for name, by_key in agreement.values.items()}
    return {
        name: value.value
        for name, value in values.items()
        if value is not None and value.value is not None
    }


def _soft_test(human: FloatArray, metrics: Mapping[str, FloatArray], drawn: DrawSettings) -> Test:
    """The test of soft pairwise accuracy."""
    return lambda better, worse: soft_accuracy_test(human, metrics[better], metrics[worse], drawn)


def metric_ranks(
    values: Mapping[str, float],
    p_values: Mapping[tuple[str, str], float] | None = None,
    level: float = LEVEL,
) -> dict[str, int]:
    """The rank of every metric, the best first.

    Args:
        values: agreement by metric.
        p_values: one-sided p that the first of a pair is better, at least of every pair in order of value; None: no
            tests were made.
        level: of significance, inclusive.

    >>> metric_ranks({"A": 0.9, "B": 0.8, "C": 0.7}, {("A", "B"): 0.2, ("A", "C"): 0.01, ("B", "C"): 0.3})
    {'A': 1, 'B': 1, 'C': 2}
    """
    order = sorted(values, key=lambda name: (-values[name], name))
    if p_values is None:
        return {name: number for number, name in enumerate(order, 1)}
    ranks: dict[str, int] = {}
    of_rank: list[str] = []
    rank = 1
    for name in order:
        if any(p_values[better, name] <= level for better in of_rank):
            rank += 1
            of_rank = []
        of_rank.append(name)
        ranks[name] = rank
    return ranks
