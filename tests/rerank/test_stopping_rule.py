"""The stopping rule: worked values, the closed form for two answers, kinds, and what cannot be chosen."""

from __future__ import annotations

from itertools import accumulate
from math import comb, exp, lgamma

import numpy as np
import pytest

from discorank import InputError, MBRDecoder, load_metric, use_limits
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.stopping_rule import Outlook, StoppingRule, _Seen, outlook

TWO_ANSWERS = np.eye(2)


def of_answers(*counts: int) -> tuple[FloatArray, IntArray]:
    """The utilities of answers that agree with themselves alone, and their counts."""
    return np.eye(len(counts)), np.array(counts)


def overtaking(ahead: int, behind: int, cap: int) -> float:
    """The chance that the smaller of two answers is the larger at the cap: a beta-binomial tail."""
    k = cap - ahead - behind

    def log_beta(a: float, b: float) -> float:
        return lgamma(a) + lgamma(b) - lgamma(a + b)

    chance = 0.0
    for more in range(k + 1):
        if behind + more > ahead + k - more:
            tail = log_beta(behind + more, ahead + k - more) - log_beta(behind, ahead)
            chance += comb(k, more) * exp(tail)
    return chance


def test_the_risk_is_what_the_choice_loses_to_the_references_themselves() -> None:
    u = np.array([[10.0, 4.0, 1.0], [4.0, 10.0, 2.0], [1.0, 2.0, 10.0]])
    # mu = (10 * 2 + 4 + 1, 4 * 2 + 10 + 2, 2 + 2 + 10) / 4; the first is chosen, and loses 0, 0, 6 and 9
    assert outlook(u, np.array([2, 1, 1]), 8).risk == pytest.approx(15 / 4)


@pytest.mark.parametrize(("ahead", "behind", "cap"), [(3, 2, 16), (4, 2, 12), (5, 3, 9), (6, 2, 8)])
def test_two_answers_change_places_by_the_closed_form(ahead: int, behind: int, cap: int) -> None:
    utilities, counts = of_answers(ahead, behind)
    probability = outlook(utilities, counts, cap, margin=0, worlds=20_000).probability
    exact = overtaking(ahead, behind, cap)
    assert probability == pytest.approx(
        exact, abs=4 * (exact * (1 - exact) / 20_000) ** 0.5 + 1e-12
    )


def test_what_all_agree_on_is_safe_at_once() -> None:
    utilities, counts = of_answers(4)
    assert outlook(utilities, counts, 64) == Outlook(0.0, 0.0, 0.0)


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
    assert outlook(*of_answers(3, 2), 5)[:2] == (0.0, 0.0)


def test_more_to_come_is_more_risk_of_a_change() -> None:
    texts = ["a cat sat here", "the cat sat", "a dog sat there", "my cat sat on a mat", "no"]
    u = load_metric("chrf").pairwise(texts, texts)
    gains = [outlook(u, np.ones(5, int), cap, worlds=2000).gain for cap in (6, 8, 16, 64)]
    assert gains == sorted(gains)
    assert gains[0] > 0
    is_safe = [outlook(u, np.ones(5, int), 16, margin=m).probability for m in (0, 0.02, 0.1, 1)]
    assert is_safe == sorted(is_safe, reverse=True)
    assert is_safe[-1] == 0


def test_the_scale_of_weights_and_utilities_does_not_count() -> None:
    u, counts = of_answers(3, 2)
    plain = outlook(u, counts, 16)
    assert outlook(u, counts, 16, weights=np.array([3.0, 2.0]) * 7).probability == plain.probability
    assert outlook(u * 100, counts, 16).probability == plain.probability
    # a first answer of little weight is not chosen
    assert outlook(u, counts, 16, weights=np.array([0.1, 2.0])).risk == pytest.approx(0.1 / 2.1)


def test_what_has_no_finite_utility_is_never_chosen() -> None:
    u = np.array([[np.nan, 9.0, 9.0], [1.0, 5.0, 2.0], [1.0, 2.0, 5.0]])
    forecast = outlook(u, np.array([1, 2, 1]), 8)
    assert forecast.risk == pytest.approx((0 * 2 + 3) / 3)
    assert np.isfinite(forecast).all()
    of_others = outlook(u, np.array([2, 1, 1]), 8, weights=np.array([2.0, 0.0, 0.0]))
    assert np.isfinite(of_others).all()
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


def test_a_draw_is_new_as_often_as_kinds_were_seen_once() -> None:
    counts = np.array([6, 2, 1, 1])
    texts = ["a cat sat", "the cat sat", "my cat", "dogs"]
    seen = _Seen.of(load_metric("chrf").pairwise(texts, texts), counts, counts.astype(float))
    random = np.random.default_rng(0)
    new = seen.best_new(seen.values_at(11, 20_000, random), 11, random)
    assert np.isfinite(new).mean() == pytest.approx(2 / 10, abs=0.01)


def test_rounds_end_at_the_cap() -> None:
    rule = StoppingRule(cap=11, first=5, step=4)
    rounds = [5, 4, 2, 0]
    drawn = [0, *accumulate(rounds[:-1])]
    assert [rule.next_round(n) for n in drawn] == rounds
    assert not rule.is_safe(Outlook(rule.bound, 0, 1))
    assert rule.is_safe(Outlook(rule.bound * 0.99, 0, 1))


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


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"utilities \[2, 2\] of 3 candidates"):
        outlook(TWO_ANSWERS, np.array([1, 1, 1]), 8)
    with pytest.raises(InputError, match="2 candidates"):
        outlook(TWO_ANSWERS, np.array([1, 0]), 8)
    (ranking,) = MBRDecoder(utility="chrf").decode([{"id": "x", "candidates": ["a", "b"]}])
    with pytest.raises(InputError, match="no utilities of the candidates with each other"):
        StoppingRule().outlook_of(ranking)
    with pytest.raises(InputError, match="first"):
        StoppingRule(first=1)


def test_a_cap_has_the_bound_of_a_list() -> None:
    """Before memory for it is taken."""
    utilities, counts = of_answers(3, 2)
    problem = r"cap: 10{18} candidates, at most 32768 are drawn\. Lower it, or raise the limit"
    with pytest.raises(InputError, match=problem):
        outlook(utilities, counts, 10**18)
    with pytest.raises(InputError, match=problem):
        StoppingRule(cap=10**18)
    assert StoppingRule(cap=32_768).cap == 32_768
    with use_limits(candidates=8):
        assert outlook(utilities, counts, 8).probability >= 0
        with pytest.raises(InputError, match="cap: 9 candidates, at most 8 are drawn"):
            outlook(utilities, counts, 9)
    with use_limits(candidates=40_000):
        rule = StoppingRule(cap=40_000)
    # the bound in force counts
    with pytest.raises(InputError, match="cap: 40000 candidates"):
        rule.outlook(utilities, counts)


def test_worlds_are_bounded() -> None:
    """Before memory for them is taken."""
    utilities, counts = of_answers(3, 2)
    for worlds in (0, -1, 10**12):
        with pytest.raises(
            InputError, match=rf"worlds: {worlds} of 8 candidates, from 1 to 8388608"
        ):
            outlook(utilities, counts, 8, worlds=worlds)
    with pytest.raises(InputError, match="worlds: 2049 of 32768 candidates, from 1 to 2048"):
        outlook(utilities, counts, 32_768, worlds=2049)
    assert outlook(utilities, counts, 8, worlds=1).probability in (0, 1)
