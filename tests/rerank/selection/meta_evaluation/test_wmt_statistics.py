"""The statistics of the WMT metrics task: worked by hand from their definitions, and fast paths against plain ones."""

from __future__ import annotations

from itertools import combinations, product
from math import nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from discorank.metrics.errors import InputError
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.meta_evaluation.coefficients import (
    SOFT,
    Agreement,
    Averaged,
    Coefficient,
    SoftAccuracy,
    row_values,
)
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
from discorank.rerank.selection.statistics import PairDifferences, pair_counts

HUMAN = np.array([[1.0, 2, nan], [2, 2, 5], [3, nan, 4]])  # [systems, segments]
METRIC = np.array([[1.0, 1, 9], [3, 2, 2], [2, 8, 1]])


def array(*rows: list[float]) -> FloatArray:
    return np.array(rows, float)


def averaged(coefficient: Coefficient, human: FloatArray, metric: FloatArray) -> Averaged:
    return Agreement(coefficient, [human]).averaged([metric])


def rows_of(averaging: Any, human: FloatArray, metric: FloatArray) -> list[list[list[float]]]:
    """The scores of people and of the metric in every row."""
    agreement = Agreement(Coefficient("pearson", averaging), [human])
    cells = agreement.cells([metric])
    return [[agreement.people[row].tolist(), cells[row].tolist()] for row in agreement.rows]


def values_of(coefficient: Coefficient, human: FloatArray, metrics: FloatArray) -> list[float]:
    """The coefficient of a row with each of many."""
    pairs = zip(*row_values(coefficient, human, metrics), strict=True)
    return [numerator / denominator if denominator else nan for numerator, denominator in pairs]


# -- worked by hand --


def test_rows_lose_what_people_did_not_score() -> None:
    by_item = [[[1, 2, 3], [1, 3, 2]], [[2, 2], [1, 2]], [[5, 4], [2, 1]]]
    assert rows_of("item", HUMAN, METRIC) == by_item
    assert [human for human, _ in rows_of("sys", HUMAN, METRIC)] == [[1, 2], [2, 2, 5], [3, 4]]
    assert [human for human, _ in rows_of("none", HUMAN, METRIC)] == [[1, 2, 2, 2, 5, 3, 4]]
    # a row of one text is none
    assert rows_of("item", array([1, nan], [nan, 2]), array([1, 2], [3, 4])) == []


def test_pearson_is_averaged_over_rows_where_it_is_defined() -> None:
    # segments: (1,2,3)x(1,3,2) has 1/2, (2,2) none, (5,4)x(2,1) has 1
    plain = averaged(Coefficient("pearson", "item"), HUMAN, METRIC)
    assert plain[:2] == pytest.approx((0.75, 2), abs=1e-12)


def test_a_constant_metric_has_no_correlation() -> None:
    human, metric = array([1], [2], [3]), array([7], [7], [7])
    assert averaged(Coefficient("pearson"), human, metric) == Averaged(None, 0)


def test_counts_of_pairs() -> None:
    human, metric = np.array([1.0, 2, 2, 3]), np.array([1.0, 1, 1, 0])
    # 1-2 and 1-2: metric ties; 2-2: both tie; each with 3: the other way round
    assert tuple(pair_counts(human, metric[None])) == (1, -3, 3, 5, 6)
    # ties reach epsilon, inclusive
    assert tuple(pair_counts(human, metric[None], epsilon=1)) == (1, 0, 0, 5, 6)
    for statistic, epsilon, value in (("acc23", 0, 1 / 6), ("tau23", 0, -4 / 6)):
        coefficient = Coefficient(statistic, epsilon=epsilon)  # type: ignore[arg-type]
        assert values_of(coefficient, human, metric[None]) == pytest.approx([value])


def test_tie_calibration_takes_one_epsilon_for_all_rows() -> None:
    human = array([1, 1], [1, 2])
    metric = array([0.1, 0.1], [0.2, 0.9])
    found = averaged(Coefficient("acc_opt", "item"), human, metric)
    assert found.value == 1
    assert found.epsilon == pytest.approx(0.1)
    tau = averaged(Coefficient("tau_opt", "item"), human, metric)
    assert (tau.value, tau.counted) == (1, 2)


def test_calibration_within_segments_is_that_of_compare() -> None:
    draw = np.random.default_rng(3)
    human, metric = draw.integers(3, size=(5, 20)).astype(float), draw.random((5, 20))
    found = averaged(Coefficient("acc_opt", "item"), human, metric)
    accuracy, epsilon = PairDifferences.within_segments(metric, human).calibrated() or (0, 0)
    assert found.value == pytest.approx(accuracy, abs=1e-12)
    assert found.epsilon == pytest.approx(epsilon, abs=1e-12)


def test_soft_pairwise_accuracy_of_two_segments() -> None:
    # differences of people are (1, 1): their signed sums are 2, 0, 0, -2, and one of four reaches 2
    # differences of the metric are (1, -1): signed sums 0, 2, -2, 0, and three of four reach 0
    human, metric = array([2, 2], [1, 1]), array([2, 0], [1, 1])
    found = averaged(Coefficient(SOFT), human, metric)
    assert found.value == pytest.approx(1 - abs(1 / 4 - 3 / 4), abs=0.06)  # of 1000 draws


def test_equal_systems_are_each_better() -> None:
    equal = array([1, 2, 3], [1, 2, 3])
    assert SoftAccuracy(equal).p(equal[None]).tolist() == [[1]]


def test_soft_accuracy_needs_two_systems_and_a_segment() -> None:
    for human, metric in (
        (array([1, 2]), array([1, 2])),
        (array([nan, 1], [1, nan]), array([1, 2], [3, 4])),
    ):
        assert averaged(Coefficient(SOFT), human, metric).value is None


def test_perm_both_exchanges_scores_of_systems() -> None:
    human = array([1], [2], [3])
    better, worse = array([1], [2], [3]), array([1], [3], [2])
    found = permutation_test(Agreement(Coefficient("accuracy"), [human]), [better], [worse])
    assert found is not None
    # 8 assignments by hand: standardised, better is (-s, 0, s) and worse (-s, s, 0), so that systems 2 and 3 decide
    draws = []
    for swaps in product((False, True), repeat=3):
        one = [worse[i, 0] if swap else better[i, 0] for i, swap in enumerate(swaps)]
        other = [better[i, 0] if swap else worse[i, 0] for i, swap in enumerate(swaps)]
        draws.append(_accuracy(one) - _accuracy(other))
    observed = 1 - 2 / 3
    assert found.exact
    assert found.difference == pytest.approx(observed)
    assert found.p == np.mean([draw >= observed - 1e-9 for draw in draws])


def _accuracy(scores: list[float]) -> float:
    return float(np.mean([scores[a] < scores[b] for a, b in combinations(range(3), 2)]))


def test_a_constant_metric_has_no_test() -> None:
    human, varied, constant = array([1], [2]), array([1], [3]), array([1], [1])
    agreement = Agreement(Coefficient("pearson"), [human])
    assert permutation_test(agreement, [varied], [constant]) is None


def test_a_test_stops_where_p_is_clear() -> None:
    draw = np.random.default_rng(1)
    human = draw.random((5, 40))
    good, bad = human + 0.01 * draw.random((5, 40)), draw.random((5, 40))
    agreement = Agreement(Coefficient("pearson"), [human])
    stopped = permutation_test(agreement, [good], [bad], DrawSettings(1000, 0, 100))
    whole = permutation_test(agreement, [good], [bad], DrawSettings(1000))
    assert stopped is not None
    assert whole is not None
    assert (stopped.draws, whole.draws) == (100, 1000)
    # the same draws, as far as they go
    assert stopped.differences.tolist() == pytest.approx(whole.differences[:100].tolist())


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(0, 1 << 30))


@pytest.mark.parametrize("block", [None, 7])
@given(size=SIZES)
@bounded(max_examples=25, deadline=None)
def test_sums_that_pairs_share_give_the_plain_test(
    block: int | None, size: tuple[int, int, int]
) -> None:
    num_systems, num_segments, seed = size
    draw = np.random.default_rng(seed)
    human = draw.integers(4, size=(num_systems, num_segments)).astype(float)
    human[draw.random(human.shape) < 0.2] = nan
    metrics = {
        name: [draw.integers(spread, size=human.shape) + shift * np.nan_to_num(human)]
        for name, spread, shift in (("a", 3, 1.0), ("b", 3, 0.0), ("c", 9, 0.5), ("constant", 1, 0))
    }
    drawn, agreement = DrawSettings(40, 3, block), Agreement(Coefficient("pearson"), [human])
    test_of = paired_tests(agreement, metrics, drawn)
    for better, worse in combinations(metrics, 2):
        plain = permutation_test(agreement, metrics[better], metrics[worse], drawn)
        found = test_of(better, worse)
        assert (found is None) == (plain is None)
        if plain is not None and found is not None:
            assert (found.p, found.draws, found.exact) == (plain.p, plain.draws, plain.exact)
            assert found.difference == pytest.approx(plain.difference, abs=1e-12)
            assert found.differences == pytest.approx(plain.differences, abs=1e-9)


def test_joint_accuracy_counts_pairs_within_a_language_pair() -> None:
    human = array([1], [2], [3])
    good, bad = array([1], [2], [3]), array([3], [2], [1])
    agreement = Agreement(Coefficient("accuracy"), [human, human[:2]])
    assert agreement.averaged([good, bad[:2]]).value == 3 / 4
    found = permutation_test(agreement, [good, good[:2]], [bad, bad[:2]])
    assert found is not None
    assert found.difference == 1


def test_ranks_of_metrics() -> None:
    values = {"B": 0.5, "A": 0.5, "C": 0.4}
    assert metric_ranks(values) == {"A": 1, "B": 2, "C": 3}
    p_values = {("A", "B"): 0.05, ("A", "C"): 0.9, ("B", "C"): 0.9}
    assert metric_ranks(values, p_values) == {"A": 1, "B": 2, "C": 2}
    assert metric_ranks(values, p_values, level=0.04) == {"A": 1, "B": 1, "C": 1}


def test_draws_of_tasks_are_added_up_in_the_order_of_the_average() -> None:
    # A is better in one task, B in the other; on average A, by 0.05
    results = []
    for better, worse, values, drawn in [
        ("A", "B", (0.9, 0.7), [0.2, -0.2, -0.4, 0.2, -0.2, -0.4]),
        ("B", "A", (0.6, 0.5), [0.0, -0.4, -0.3]),  # repeated: it ended early
    ]:
        task = MetricsTask(("x",), "sys", Coefficient("accuracy"), False, 0.5)
        of_pair = {(better, worse): np.array(drawn)}
        by_metric = dict(zip((better, worse), values, strict=True))
        results.append(TaskResult(task, by_metric, {}, {(better, worse): 0.5}, of_pair))
    found = average_results(results)
    assert found.average == pytest.approx({"A": 0.7, "B": 0.65})
    # A less B: 0.2 / 2, (-0.2 + 0.4) / 2, (-0.4 + 0.3) / 2, and again
    assert found.p_values is not None
    assert dict(found.p_values) == pytest.approx({("A", "B"): 4 / 6})
    assert found.ranks == {"A": 1, "B": 1}


def test_what_does_not_fit_a_task_set() -> None:
    with pytest.raises(InputError, match="unknown task set 'wmt22'"):
        task_set("wmt22")
    with pytest.raises(InputError, match="no language pairs"):
        task_set("wmt25")
    with pytest.raises(InputError, match="no test set"):
        run_tasks(task_set("wmt24"), {})
    assert sum(task.weight for task in task_set("wmt23").tasks) == pytest.approx(1)
    # with three language pairs, a quarter and nine twelfths
    assert [task.weight for task in task_set("wmt23").tasks] == pytest.approx(
        [1 / 4] + 9 * [1 / 12]
    )


# -- refusals --


def test_a_text_that_people_scored_needs_the_metrics_score() -> None:
    with pytest.raises(InputError, match="no score of system 1, segment 0"):
        averaged(Coefficient("pearson"), array([1], [2]), array([1], [nan]))
    # what people did not score may lack it
    assert averaged(Coefficient("accuracy"), array([1], [2], [nan]), array([1], [2], [nan]))


def test_tables_have_one_shape() -> None:
    with pytest.raises(InputError, match="tables of the same systems"):
        averaged(Coefficient("pearson"), np.ones((2, 3)), np.ones((3, 2)))


def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discorank.rerank.selection.statistics.MAX_PAIRS", 5)
    with pytest.raises(InputError, match="6 pairs, at most 5"):
        averaged(Coefficient("acc_opt", "none"), np.ones((2, 2)), np.ones((2, 2)))


# -- fast paths against plain ones --

FEW = st.integers(0, 3).map(float)  # so that there are ties
ROWS = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.lists(FEW, min_size=n, max_size=n),
        st.lists(st.lists(FEW, min_size=n, max_size=n), min_size=1, max_size=4),
    )
)
PEERS: dict[str, Any] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall_b": stats.kendalltau,
}
COEFFICIENTS = [
    Coefficient("pearson"),
    Coefficient("spearman"),
    Coefficient("kendall_b"),
    Coefficient("accuracy"),
    Coefficient("tau23", epsilon=1),
    Coefficient("acc23", epsilon=1),
]


@pytest.mark.parametrize("coefficient", COEFFICIENTS, ids=str)
@given(rows=ROWS)
def test_many_rows_at_once_are_each_row(
    coefficient: Coefficient, rows: tuple[list[float], list[list[float]]]
) -> None:
    human, metrics = np.array(rows[0]), np.array(rows[1])
    found = values_of(coefficient, human, metrics)
    plain = [plain_value(coefficient, human, metric) for metric in metrics]
    assert found == pytest.approx(plain, abs=1e-9, nan_ok=True)


def plain_value(coefficient: Coefficient, human: FloatArray, metric: FloatArray) -> float:
    """A coefficient by scipy, or pair by pair."""
    name, right, total = coefficient.statistic, 0, 0
    if name in PEERS:
        if np.ptp(human) == 0 or np.ptp(metric) == 0:
            return nan
        return float(PEERS[name](human, metric).statistic)
    for a, b in combinations(range(len(human)), 2):
        h, m = human[a] - human[b], metric[a] - metric[b]
        m = 0.0 if abs(m) <= coefficient.epsilon else m
        total += 1
        right += np.sign(h) == np.sign(m)
    share = right / total if total else nan
    return 2 * share - 1 if name == "tau23" else share


def test_long_rows_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    human, *rows = draw.integers(4, size=(3, 30)).astype(float)
    metrics = np.array(rows)
    whole = [values_of(one, human, metrics) for one in COEFFICIENTS]
    name = "discorank.rerank.selection"
    monkeypatch.setattr(f"{name}.statistics.BLOCK_CELLS", 70)
    monkeypatch.setattr(f"{name}.statistics.MAX_SIGNS", 12)
    monkeypatch.setattr(f"{name}.meta_evaluation.coefficients.MAX_SIGNS", 12)
    for coefficient, values in zip(COEFFICIENTS, whole, strict=True):
        assert values_of(coefficient, human, metrics) == pytest.approx(values)


@given(rows=ROWS)
def test_calibration_is_the_best_of_all_epsilons(
    rows: tuple[list[float], list[list[float]]],
) -> None:
    table = [(np.array(rows[0]), np.array(metric)) for metric in rows[1]]
    pairs = PairDifferences.within_rows(table)
    candidates = sorted({0.0, *np.abs(pairs.metric).tolist()})
    accuracies = [pairs.accuracy(epsilon) or 0.0 for epsilon in candidates]
    accuracy, epsilon = pairs.calibrated() or (nan, nan)
    assert accuracy == pytest.approx(max(accuracies), abs=1e-12)
    first = next(i for i, a in enumerate(accuracies) if a >= max(accuracies) - 1e-12)
    assert epsilon == candidates[first]


def test_exchanged_pairs_are_those_of_every_assignment() -> None:
    draw = np.random.default_rng(24)
    human = draw.integers(3, size=(3, 3)).astype(float)
    first, second = draw.random((3, 3)), draw.random((3, 3))
    agreement = Agreement(Coefficient("acc_opt", "item"), [human])
    metrics = {"first": [first], "second": [second]}
    found = paired_tests(agreement, metrics, DrawSettings(200_000))("first", "second")
    assert found is not None
    # every pair changes places or not; epsilons stay
    sides = []
    weights = np.zeros(0)
    for metric in (first, second):
        pairs = agreement.pairs(agreement.cells([metric]))
        _, epsilon = pairs.calibrated() or (0, 0)
        sides.append(pairs.right(epsilon).astype(float))
        weights = pairs.weights()
    gains = (sides[0] - sides[1]) * weights
    differences = [float(np.dot(signs, gains)) for signs in product((1, -1), repeat=len(gains))]
    exact = float(np.mean([d >= found.difference - 1e-9 for d in differences]))
    assert 0.1 < exact < 0.9
    assert found.difference == pytest.approx(gains.sum())
    assert found.p == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / 200_000) + 1e-9)


def test_soft_accuracy_of_many_metrics_is_that_of_each() -> None:
    draw = np.random.default_rng(2)
    human = draw.integers(5, size=(4, 30)).astype(float)
    metrics = draw.random((3, 4, 30))
    found = SoftAccuracy(human).values(metrics.reshape(3, -1))
    plain = [averaged(Coefficient(SOFT), human, metric).value for metric in metrics]
    assert found.tolist() == pytest.approx(plain)


def test_a_test_of_soft_accuracy_finds_what_differs() -> None:
    draw = np.random.default_rng(4)
    quality = np.linspace(0, 2, 6)[:, None]
    human = quality + draw.random((6, 30))
    good, bad = human + 0.1 * draw.random((6, 30)), draw.random((6, 30))
    agreement = Agreement(Coefficient(SOFT), [human])
    found = permutation_test(agreement, [good], [bad], DrawSettings(100))
    assert found is not None
    assert found.difference > 0
    assert found.p < 0.05
