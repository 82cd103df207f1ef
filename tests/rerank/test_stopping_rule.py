"""The stopping rule: worked values, the closed form for two answers, kinds, and what cannot be chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from discorank import InputError, MBRDecoder, Metric, StoppingRule, load_metric, use_limits
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.stopping_rule import Outlook, Rival, _Seen, models, outlook, overtaking

TWO_ANSWERS = np.eye(2)


def of_answers(*counts: int) -> tuple[FloatArray, IntArray]:
    """The utilities of answers that agree with themselves alone, and their counts."""
    return np.eye(len(counts)), np.array(counts)


def test_the_risk_is_what_the_choice_loses_to_the_references_themselves() -> None:
    u = np.array([[10.0, 4.0, 1.0], [4.0, 10.0, 2.0], [1.0, 2.0, 10.0]])
    # mu = (10 * 2 + 4 + 1, 4 * 2 + 10 + 2, 2 + 2 + 10) / 4; the first is chosen, and loses 0, 0, 6 and 9
    assert outlook(u, np.array([2, 1, 1]), 8).risk == pytest.approx(15 / 4)


def test_what_all_agree_on_is_safe_at_once() -> None:
    rule = StoppingRule(cap=16)
    agreed = rule.outlook(*of_answers(4))
    assert 0 < agreed.probability < 0.01
    assert rule.is_safe(agreed)
    assert not rule.is_safe(rule.outlook(*of_answers(3, 1)))


def test_answers_that_differ_are_never_safe() -> None:
    """An answer that was seen once may come again."""
    rule = StoppingRule()
    for each in ((1, 1), (1, 1, 1), (1, 1, 1, 1), (2, 1), (2, 2), (2, 1, 1)):
        differing = rule.outlook(*of_answers(*each))
        assert differing.is_of_answers
        assert differing.probability > 0.1
        assert not rule.is_safe(differing)
    # nor texts of which a little is alike
    u, counts = of_answers(1, 1, 1, 1)
    alike = rule.outlook(0.99 * u + 0.01, counts)
    assert not alike.is_of_answers
    assert not rule.is_safe(alike)


def test_a_text_without_an_answer_takes_a_draw_and_wins_none() -> None:
    u = np.diag([1.0, 1.0, 0.0])
    with_none = outlook(u, np.array([3, 1, 2]), 16)
    assert with_none.is_of_answers
    assert with_none.probability == pytest.approx(
        overtaking(
            (3, 1.0),
            (Rival(1, 1.0, is_earlier=False), Rival(2, 1.0, is_earlier=False, can_win=False)),
            16,
        )
    )
    nothing = outlook(np.zeros((1, 1)), np.array([4]), 16)
    assert nothing.risk == 0
    # an answer may still come
    assert not StoppingRule().is_safe(nothing)


def test_different_texts_of_one_kind_are_one() -> None:
    apart = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    apart = np.vstack((apart, apart[-1])).astype(float)
    together = outlook(*of_answers(3, 2), 16)
    assert outlook(apart, np.ones(5, int), 16) == together
    assert outlook(apart[[0, 1, 3]][:, [0, 1, 3]], np.array([1, 2, 2]), 16) == together


def test_one_candidate_says_nothing_and_a_full_list_everything() -> None:
    utilities, counts = of_answers(1)
    assert outlook(utilities, counts, 16).probability == 1
    assert outlook(utilities, counts, 1).probability == 0
    assert outlook(*of_answers(3, 2), 5).probability == 0


def test_more_to_come_is_more_risk_of_a_change() -> None:
    texts = ["a cat sat here", "the cat sat", "a dog sat there", "my cat sat on a mat", "no"]
    u = load_metric("chrf").pairwise(texts, texts)
    chances = [outlook(u, np.ones(5, int), cap).probability for cap in (6, 8, 16, 64)]
    assert chances == sorted(chances)
    assert chances[0] > 0
    is_safe = [outlook(u, np.ones(5, int), 16, margin=m).probability for m in (0, 0.02, 0.1, 1)]
    assert is_safe == sorted(is_safe, reverse=True)
    assert is_safe[-1] == 0


def test_the_scale_of_weights_and_utilities_does_not_count() -> None:
    u, counts = of_answers(3, 2)
    plain = outlook(u, counts, 16)
    assert outlook(u, counts, 16, weights=np.array([3.0, 2.0]) * 7).probability == plain.probability
    assert outlook(u * 100, counts, 16).probability == plain.probability
    # a first answer of little weight is not chosen
    light = outlook(u, counts, 16, weights=np.array([0.1, 2.0]))
    assert light.risk == pytest.approx(0.1 / 2.1)
    assert light.probability < plain.probability


def test_what_has_no_finite_utility_is_never_chosen() -> None:
    u = np.array([[np.nan, 9.0, 9.0], [1.0, 5.0, 2.0], [1.0, 2.0, 5.0]])
    forecast = outlook(u, np.array([1, 2, 1]), 8)
    assert forecast.risk == pytest.approx((0 * 2 + 3) / 3)
    assert np.isfinite(forecast.probability)
    of_others = outlook(u, np.array([2, 1, 1]), 8, weights=np.array([2.0, 0.0, 0.0]))
    assert np.isfinite(of_others.probability)
    nothing = outlook(np.full((2, 2), np.nan), np.array([1, 1]), 8)
    assert nothing.probability == 1


@pytest.mark.parametrize(("drawn", "cap"), [(4, 16), (8, 16), (12, 16)])
def test_choices_change_about_as_often_as_predicted(drawn: int, cap: int) -> None:
    """Lists of a known distribution: normal qualities, and normal noise of pairs."""
    random = np.random.default_rng(5)
    predicted, changes = [], []
    for _ in range(300):
        quality = random.normal(0, 3, cap)
        pairs = random.normal(0, 2, (cap, cap))
        u = 50 + quality[:, None] + quality + (pairs + pairs.T) / 2
        np.fill_diagonal(u, 100)
        seen = u[:drawn, :drawn]
        changes.append(u.sum(axis=1).argmax() != seen.sum(axis=1).argmax())
        predicted.append(outlook(seen, np.ones(drawn, int), cap, margin=0).probability)
    assert np.mean(predicted) == pytest.approx(np.mean(changes), abs=0.1)


def test_draws_come_as_often_as_the_models_say() -> None:
    counts = np.array([6, 2, 1, 1])
    texts = ["a cat sat", "the cat sat", "my cat", "dogs"]
    seen = _Seen.of(load_metric("chrf").pairwise(texts, texts), counts, counts.astype(float))
    random = np.random.default_rng(0)
    drawn, new = seen.coming(11, 40_000, random)
    likely = models((6, 2, 1, 1), 11)
    again = np.array(
        [
            sum(p * (c + m.concentration) / (10 + m.kinds * m.concentration) for p, m in likely)
            for c in counts
        ]
    )
    assert drawn.mean(axis=0) == pytest.approx(again, abs=0.01)
    assert new.sum(axis=1).mean() == pytest.approx(1 - again.sum(), abs=0.01)
    # a new text is like one that was seen once
    assert new[:, :2].sum() == 0
    best = seen.best_new(seen.values_with(drawn, new), new.sum(axis=1), random)
    assert np.isfinite(best).mean() == pytest.approx(1 - again.sum(), abs=0.01)


def test_rounds_end_at_the_cap() -> None:
    rule = StoppingRule(cap=11, first=5, step=4)
    rounds = [5, 4, 2, 0]
    drawn = [0, *accumulate(rounds[:-1])]
    assert [rule.next_round(n) for n in drawn] == rounds
    for is_of_answers, bound in ((True, 0.03), (False, 0.3)):
        assert not rule.is_safe(Outlook(bound, 1, is_of_answers))
        assert rule.is_safe(Outlook(bound * 0.99, 1, is_of_answers))
        assert replace(rule, bound=0.5).is_safe(Outlook(0.4, 1, is_of_answers))


def test_a_ranking_says_what_its_matrix_says() -> None:
    texts = ["a cat", "the cat", "a cat", "dogs bark"]
    (ranking,) = MBRDecoder(utility="chrf", keep_matrix=True).decode(
        [{"id": "x", "candidates": texts}]
    )
    distinct = ["a cat", "the cat", "dogs bark"]
    u = load_metric("chrf").pairwise(distinct, distinct)
    rule = StoppingRule(seed=3)
    assert rule.outlook_of(ranking) == rule.outlook(u, np.array([2, 1, 1]))
    assert rule.outlook_of(ranking, np.array([1.0, 1, 0, 1])) == rule.outlook(
        u, np.array([2, 1, 1]), np.ones(3)
    )


UTILITIES, COUNTS = of_answers(3, 2)
(WITHOUT_MATRIX,) = MBRDecoder(utility="chrf").decode([{"id": "x", "candidates": ["a", "b"]}])


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: outlook(TWO_ANSWERS, np.array([1, 1, 1]), 8), "3 candidates"),
        (lambda: outlook(TWO_ANSWERS, np.array([1, 0]), 8), "2 candidates"),
        (lambda: StoppingRule().outlook_of(WITHOUT_MATRIX), "ranking"),
        (lambda: StoppingRule(first=1), "first"),
        # before memory is taken
        (lambda: outlook(UTILITIES, COUNTS, 10**18), "cap.* 32768"),
        (lambda: StoppingRule(cap=10**18), "cap.* 32768"),
    ],
)
def test_mistakes(call: Callable[[], object], found: str) -> None:
    with pytest.raises(InputError, match=found):
        call()


def test_the_cap_has_the_bound_of_a_list() -> None:
    """The bound in force counts."""
    assert StoppingRule(cap=32_768).cap == 32_768
    with use_limits(candidates=8):
        assert outlook(UTILITIES, COUNTS, 8).probability >= 0
        with pytest.raises(InputError, match="cap: 9 candidates, at most 8"):
            outlook(UTILITIES, COUNTS, 9)
    with use_limits(candidates=40_000):
        rule = StoppingRule(cap=40_000)
    with pytest.raises(InputError, match="cap: 40000"):
        rule.outlook(UTILITIES, COUNTS)


GOLDEN = Path(__file__).parents[1] / "golden"
TINY_BERT = f'bertscore(model="{GOLDEN / "docmetrics" / "models" / "tiny-bert"}",layer=2)'


def recorded(orders: int) -> list[list[str]]:
    """Lists of 16 samples of a small model, which answers questions, in some orders."""
    lines = (GOLDEN / "recorded_samples.jsonl").read_text().splitlines()
    random = np.random.default_rng(0)
    lists = [json.loads(line)["candidates"] for line in lines]
    return [[texts[i] for i in random.permutation(16)] for texts in lists for _ in range(orders)]


def simulated(number: int) -> list[list[str]]:
    """Lists of answers, of which there are 2 to 7 with shares from a flat Dirichlet distribution."""
    random = np.random.default_rng(0)
    lists = []
    for _ in range(number):
        shares = random.dirichlet(np.ones(random.integers(2, 8)))
        lists.append([str(i) for i in random.choice(len(shares), 16, p=shares)])
    return lists


def stopped(texts: list[str], metric: Metric, bounds: list[float]) -> list[tuple[int, bool]]:
    """For each bound, after how many draws a list stops, and whether its choice is then another than that of all."""
    first = {text: texts.index(text) for text in texts}
    distinct = list(first)
    u = metric.pairwise(distinct, distinct)
    full = u @ np.array([texts.count(text) for text in distinct]) / len(texts)
    results: dict[float, tuple[int, bool]] = {}
    for drawn in range(4, len(texts)):
        counts = np.array([texts[:drawn].count(text) for text in distinct])
        seen = np.flatnonzero(counts)
        now = outlook(u[np.ix_(seen, seen)], counts[seen], len(texts))
        chosen = seen[int(np.argmax(u[np.ix_(seen, seen)] @ counts[seen]))]
        lost = full.max() - full[chosen]
        is_other = lost > (1e-9 if now.is_of_answers else 0.01 * now.risk + 1e-9)
        for bound in bounds:
            if now.probability < bound:
                results.setdefault(bound, (drawn, bool(is_other)))
    return [results.get(bound, (len(texts), False)) for bound in bounds]


@pytest.mark.parametrize(
    ("name", "lists", "orders"),
    [
        ("vote", "simulated", 150),
        ("vote", "recorded", 2),
        ("chrf", "recorded", 2),
        (TINY_BERT, "recorded", 1),
    ],
)
def test_at_bound_b_at_most_b_of_lists_are_chosen_otherwise(
    name: str, lists: str, orders: int
) -> None:
    """The law of the rule; the share of lists may pass the bound by chance, by three standard errors."""
    metric: Metric = load_metric(name)  # type: ignore[assignment]
    bounds = [0.03, 0.1, 0.3]
    texts = simulated(orders) if lists == "simulated" else recorded(orders)
    results = [stopped(each, metric, bounds) for each in texts]
    num_lists = len(texts) if lists == "simulated" else len(texts) // orders
    for bound, of_bound in zip(bounds, zip(*results, strict=True), strict=True):
        share = np.mean([is_other for _, is_other in of_bound])
        saved = 1 - np.mean([drawn for drawn, _ in of_bound]) / 16
        assert share <= bound + 3 * (bound * (1 - bound) / num_lists) ** 0.5
        assert saved > 0.1
