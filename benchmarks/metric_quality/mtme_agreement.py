"""How far the statistics of the WMT metrics task are from those of mt-metrics-eval, on a folder with its values.

    python -m benchmarks.metric_quality.mtme_agreement [FOLDER VALUES]

FOLDER is a test set in the form of mt-metrics-eval, VALUES what its code says of it (tests/golden/mtme has both, and
says how they were made). A line per kind of value: how many there are, and the largest difference found and allowed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from math import hypot, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discorank.integrations.formats.wmt.eval_set_folder import EvalSetOptions, read_eval_set
from discorank.metrics.representations import FloatArray
from discorank.rerank.choice import TIE
from discorank.rerank.selection.agreement import williams
from discorank.rerank.selection.meta_evaluation.coefficients import (
    CALIBRATED,
    SOFT,
    Agreement,
    Coefficient,
    SoftAccuracy,
)
from discorank.rerank.selection.meta_evaluation.eval_set import EvalSet, Level, MetricName
from discorank.rerank.selection.meta_evaluation.metric_tests import (
    DrawSettings,
    paired_tests,
    permutation_test,
)
from discorank.rerank.selection.meta_evaluation.metrics_tasks import (
    MetricsTask,
    TaskResult,
    average_results,
    metric_ranks,
    run_tasks,
    task_set,
)
from discorank.rerank.selection.statistics import pair_counts
from discorank.tables import Table, shown, text_table

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "mtme"
EXACT = 1e-9  # values have 12 digits
NEARLY = 0.002  # of soft pairwise accuracy, where rounding of single precision decides ties
PAIRS = ("en-de", "he-en")
STATISTICS = {  # names of the values by those of mt-metrics-eval
    "kendalltau": "kendall_b",
    "tau_b": "kendall_b",
    "tau_23": "tau23",
    "tau_acc23": "acc23",
    "opt_23": "tau_opt",
    "opt_acc23": "acc_opt",
}
# variants that the metrics task of no year used, which are not computed
LEFT_OUT = ("kendall_c", "kendall_like", "pearson_pairwise_differences", "nan=", "micro")
DRAWS = {"pearson/none": 4000, "tau_b/item": 1000, "pairs acc23/item": 20_000}


class Comparison(NamedTuple):
    """A value beside that of mt-metrics-eval."""

    kind: str
    case: str
    found: float
    expected: float
    tolerance: float

    @property
    def distance(self) -> float:
        """How far they are apart."""
        return abs(self.found - self.expected)


def read_sets(folder: Path, about: Mapping[str, Any]) -> dict[str, EvalSet]:
    """The test set in its language pairs, read as the values were made."""
    outliers = [f"{pair}:{name}" for pair in PAIRS for name in about["outliers"][pair]]
    options = EvalSetOptions(
        main_reference=(about["std_ref"],),
        human_scores=(about["std_gold"],),
        outliers=tuple(outliers),
        primary=tuple(about["primary"]),
        missing="zeros",
    )
    return {pair: read_eval_set(folder, pair, options) for pair in PAIRS}


def comparisons(folder: Path, values: Mapping[str, Any]) -> Iterator[Comparison]:
    """All values of mt-metrics-eval that are no draws of an unknown seed beside ours, then those that are."""
    sets = read_sets(folder, values["about"])
    for pair, eval_set in sets.items():
        of_pair = values[pair]
        for part in (_system_level, _segment_level, _soft, _tests):
            for each in part(eval_set, of_pair):
                yield each._replace(case=f"{pair} {each.case}")
    yield from _tasks(sets, values["tasks"])
    yield from _ranks(values["assign_ranks"])
    yield from _average(values["average_corr_matrix"])


def coefficient_of(name: str) -> Coefficient:
    """The coefficient of a name such as ``pearson/item``.

    >>> coefficient_of("tau_23/sys/eps=0.25").epsilon
    0.25
    """
    statistic, *parts = name.split("/")
    epsilon = sum(float(part[4:]) for part in parts if part.startswith("eps="))
    averaging: Any = next((part for part in parts if "=" not in part), "none")
    statistic_of: Any = STATISTICS.get(statistic, statistic)
    return Coefficient(statistic_of, averaging, epsilon)


def is_computed(name: str) -> bool:
    """Whether a statistic of mt-metrics-eval is one of ours."""
    return not any(part in name for part in LEFT_OUT)


def table(eval_set: EvalSet, metric: str, level: Level, systems: Any) -> FloatArray:
    """A metric's scores by its name in the folder."""
    name = MetricName.parse(metric, eval_set.references)
    return eval_set.metric_table(name, level, systems)


def _metrics(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, of_metric in values.items():
        if name != "systems":
            yield name, of_metric


def _system_level(eval_set: EvalSet, values: Mapping[str, Any]) -> Iterator[Comparison]:
    for key, of_key in values["system_level"].items():
        name, systems = key.split()[0], of_key["systems"]
        human = eval_set.human_table(name, "sys", systems)
        for metric, expected in _metrics(of_key):
            scores = table(eval_set, metric, "sys", systems)
            for statistic, number in expected.items():
                if not isinstance(number, int | float) or not is_computed(statistic):
                    continue  # an error of theirs, or none of ours
                case = f"{key} {metric} {statistic}"
                if statistic in ("agree", "pairs"):
                    counts = pair_counts(human.ravel(), scores.reshape(1, -1))
                    found = float(counts.agreed[0] if statistic == "agree" else counts.pairs)
                else:
                    agreement = Agreement(coefficient_of(statistic), [human])
                    found = agreement.averaged([scores]).value or 0.0
                yield Comparison("systems", case, found, number, EXACT)


def _segment_level(eval_set: EvalSet, values: Mapping[str, Any]) -> Iterator[Comparison]:
    for name, of_name in values["segment_level"].items():
        systems = of_name["systems"]
        human = eval_set.human_table(name, "seg", systems)
        for metric, expected in _metrics(of_name):
            scores = table(eval_set, metric, "seg", systems)
            for statistic, value in expected.items():
                case = f"{name} {metric} {statistic}"
                if statistic not in ("none_count", "spa_seed4") and is_computed(statistic):
                    yield from _of_segments(case, coefficient_of(statistic), human, scores, value)


def _of_segments(
    case: str, coefficient: Coefficient, human: FloatArray, scores: FloatArray, expected: Any
) -> Iterator[Comparison]:
    """A value and what it is averaged over, or a value with calibrated ties."""
    agreement = Agreement(coefficient, [human])
    found = agreement.averaged([scores])
    if coefficient.statistic not in CALIBRATED:
        yield Comparison("segments", case, found.value or 0.0, expected[0], EXACT)
        yield Comparison("rows averaged over", case, found.counted, expected[1], 0)
        return
    yield Comparison("tie calibration", case, found.value or 0.0, expected["value"], EXACT)
    # several epsilons may reach the maximum: ours has to reach it
    pairs = agreement.pairs(agreement.cells([scores]))
    reached = pairs.accuracy(found.epsilon or 0.0) or 0.0
    value = reached if coefficient.statistic == "acc_opt" else 2 * reached - 1
    yield Comparison("value at our epsilon", case, value, expected["value"], EXACT)


def _soft(eval_set: EvalSet, values: Mapping[str, Any]) -> Iterator[Comparison]:
    expected = values["soft_pairwise_accuracy"]
    systems = expected["systems"]
    human = eval_set.human_table("mqm", "seg", systems)
    is_rated = ~np.isnan(human).any(axis=0)
    soft = SoftAccuracy(human[:, is_rated])
    yield from _p(soft, human[:, is_rated], expected["gold_p_seed4"], "people")
    seeds = [Agreement(Coefficient(SOFT), [human], seed) for seed in range(200)]
    for metric, of_metric in expected["metrics"].items():
        scores = table(eval_set, metric, "seg", systems)
        found = Agreement(Coefficient(SOFT), [human]).averaged([scores]).value or 0.0
        yield Comparison("soft pairwise accuracy", metric, found, of_metric["seed4"], NEARLY)
        yield from _p(soft, scores[:, is_rated], of_metric["p_seed4"], metric)
        drawn = [agreement.averaged([scores]).value or 0.0 for agreement in seeds]
        tolerance = 4 * of_metric["se"]
        mean = float(np.mean(drawn))
        yield Comparison("soft, 200 seeds", metric, mean, of_metric["mean_200_seeds"], tolerance)


def _p(soft: SoftAccuracy, scores: FloatArray, expected: Any, case: str) -> Iterator[Comparison]:
    pairs = combinations(range(len(scores)), 2)
    for (a, b), found in zip(pairs, soft.p(scores[None])[0], strict=True):
        if (number := expected[a][b]) is not None:
            place = f"{case} {a} {b}"
            yield Comparison("soft, p of a pair", place, float(found), number, NEARLY)


def _tests(eval_set: EvalSet, values: Mapping[str, Any]) -> Iterator[Comparison]:
    expected = values["perm_both"]
    systems = eval_set.systems_scored("mqm", "sys")
    human = eval_set.human_table("mqm", "sys", systems)
    for key, of_key in expected["system_level_exact"].items():
        statistic, (better, worse) = _named(key)
        tables = [table(eval_set, name, "sys", systems) for name in (better, worse)]
        agreement = Agreement(coefficient_of(statistic), [human])
        found = permutation_test(agreement, tables[:1], tables[1:])
        if found is not None:
            p = of_key["p_exact_close_1e-9"]
            yield Comparison("PERM-BOTH of systems, p", key, found.p, p, EXACT)
    for key, of_key in expected["williams"].items():
        first, second = (table(eval_set, name, "sys", systems)[:, 0] for name in key.split(" vs "))
        p_williams = williams(first, second, human[:, 0])
        if p_williams is not None and of_key["two_sided"] is not None:
            yield Comparison("Williams, p", key, p_williams, of_key["two_sided"], EXACT)
    yield from _drawn_tests(eval_set, expected["segment_level_draws"])


def _named(key: str) -> tuple[str, list[str]]:
    statistic, _, names = key.partition(": ")
    return statistic, names.split(" > ")


def _drawn_tests(eval_set: EvalSet, values: Mapping[str, Any]) -> Iterator[Comparison]:
    """p of tests that draw: 4 standard errors of both sides."""
    systems = eval_set.systems_scored("mqm", "seg")
    human = eval_set.human_table("mqm", "seg", systems)
    for key, of_key in values.items():
        statistic, (better, worse) = _named(key)
        first, second = ([table(eval_set, name, "seg", systems)] for name in (better, worse))
        drawn = DrawSettings(DRAWS[statistic])
        if statistic.startswith("pairs"):
            agreement = Agreement(Coefficient("acc_opt", "item"), [human])
            found = paired_tests(agreement, {better: first, worse: second}, drawn)(better, worse)
        else:
            agreement = Agreement(coefficient_of(statistic), [human])
            found = permutation_test(agreement, first, second, drawn)
        if found is None:
            continue
        yield Comparison("differences of metrics", key, found.difference, of_key["delta"], EXACT)
        # rounding decides ties there: their p is between ours with and without ties
        without_ties = float(np.mean(found.differences > found.difference + TIE))
        nearest = float(np.clip(of_key["p"], without_ties, found.p))
        tolerance = 4 * hypot(_se(nearest, found.draws), _se(of_key["p"], of_key["draws"]))
        yield Comparison("tests of segments, p", key, nearest, of_key["p"], tolerance)


def _se(p: float, draws: int) -> float:
    """The standard error of a share; of 0 and 1, that of one draw."""
    inside = min(max(p, 1 / draws), 1 - 1 / draws)
    return sqrt(inside * (1 - inside) / draws)


def _tasks(sets: Mapping[str, EvalSet], values: Mapping[str, Any]) -> Iterator[Comparison]:
    names = {"WMT23": "wmt23", "WMT24": "wmt24", "WMT24OnWMT23": "wmt24-on-wmt23"}
    for key, name in names.items():
        expected = values[key]
        result = run_tasks(task_set(name, PAIRS), sets)
        tasks = zip(result.results, expected["values"], expected["ranks"], strict=True)
        for found, numbers, ranks in tasks:
            is_soft = found.task.coefficient.statistic == SOFT
            for metric, number in numbers.items():
                case = f"{name} {found.task.name} {metric}"
                tolerance = NEARLY if is_soft else EXACT
                yield Comparison("tasks", case, found.values[metric], number, tolerance)
                yield Comparison("ranks in tasks", case, found.ranks[metric], ranks[metric], 0)
        tolerance = EXACT if name == "wmt23" else NEARLY
        for metric, number in expected["average"].items():
            case = f"{name} {metric}"
            yield Comparison("averages of tasks", case, result.average[metric], number, tolerance)


def _ranks(values: Mapping[str, Any]) -> Iterator[Comparison]:
    names = "ABCD"
    p_values = {
        (a, b): values["matrix"][i][j]
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j
    }
    scores = {name: float(-i) for i, name in enumerate(names)}
    for key, level in (("ranks", values["pval"]), ("ranks_0.01", 0.01), ("ranks_0.009", 0.009)):
        found = metric_ranks(scores, p_values, level)
        for name, rank in zip(names, values[key], strict=True):
            yield Comparison("rank clusters", f"{key} {name}", found[name], rank, 0)


def _average(values: Mapping[str, Any]) -> Iterator[Comparison]:
    """The average over tasks whose draws are given."""
    results = []
    for task, weight in zip(values["tasks"], values["weights"], strict=True):
        order = sorted(task["values"], key=lambda name: -task["values"][name])
        pair = (order[0], order[1])
        drawn = np.array(task["draws_first_second"])
        differences = {pair: drawn[:, 0] - drawn[:, 1]}
        asked = MetricsTask(("x",), "sys", Coefficient(task["corr_fcn"]), False, weight)
        results.append(TaskResult(asked, task["values"], {}, {pair: 0.5}, differences))
    found = average_results(results)
    for name, (number, rank) in values["average_and_rank"].items():
        yield Comparison("averages of tasks", name, found.average[name], number, EXACT)
        yield Comparison("rank clusters", name, found.ranks[name], rank, 0)
    p = (found.p_values or {})["A", "B"]
    yield Comparison("test of averages, p", "A B", p, values["p"][0][1], EXACT)


def agreement_table(found: list[Comparison]) -> Table:
    """A line per kind: values, the largest difference, and what is allowed."""
    rows = []
    for kind in dict.fromkeys(each.kind for each in found):
        of_kind = [each for each in found if each.kind == kind]
        worst = max(each.distance for each in of_kind)
        allowed = {f"{each.tolerance:.2g}" for each in of_kind}
        bound = allowed.pop() if len(allowed) == 1 else "4 standard errors"
        if kind in ("tasks", "averages of tasks"):
            bound = f"{EXACT:g}; soft {NEARLY:g}"
        num_beyond = sum(each.distance > each.tolerance for each in of_kind)
        rows.append([kind, str(len(of_kind)), f"{worst:.2g}", bound, str(num_beyond)])
    head = ["values", "number", "largest difference", "allowed", "beyond"]
    return text_table("Values of mt-metrics-eval and ours", head, rows)


def main(arguments: list[str], write: Callable[[str], Any] = sys.stdout.write) -> int:
    """Prints the table; 1 if a value is beyond what is allowed."""
    folder, path = GOLDEN / "evalset" / "toy", GOLDEN / "values.json"
    if arguments:
        folder, path = Path(arguments[0]), Path(arguments[1])
    found = list(comparisons(folder, json.loads(path.read_text(encoding="utf-8"))))
    write(shown([agreement_table(found)], "markdown"))
    beyond = [each for each in found if each.distance > each.tolerance]
    for each in beyond:
        write(f"beyond: {each}\n")
    return 1 if beyond else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
