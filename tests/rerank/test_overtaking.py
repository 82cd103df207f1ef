"""The chance that another answer has the most votes at the cap: against every order of draws, and the closed form."""

from __future__ import annotations

from functools import cache
from math import comb, exp, lgamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.rerank import stopping_rule as module
from discorank.rerank.stopping_rule import AnswerModel, Rival, models, overtaking


def by_every_order(
    counts: list[int], weights: list[float], can_win: list[bool], cap: int, model: AnswerModel
) -> float:
    """The chance by drawing one by one; answers in the order in which they came, new ones behind."""
    new_weight = float(np.mean(weights))
    present = winner(counts, weights, can_win)

    @cache
    def chance(drawn: tuple[int, ...]) -> float:
        if sum(drawn) == cap:
            all_weights = [*weights, *[new_weight] * (len(drawn) - len(weights))]
            may_win = [*can_win, *[True] * (len(drawn) - len(can_win))]
            return float(winner(list(drawn), all_weights, may_win) != present)
        total = sum(drawn) + model.kinds * model.concentration
        value = 0.0
        for j, count in enumerate(drawn):
            more = (*drawn[:j], count + 1, *drawn[j + 1 :])
            value += (count + model.concentration) / total * chance(more)
        unseen = model.kinds - len(drawn)
        if unseen:
            value += unseen * model.concentration / total * chance((*drawn, 1))
        return value

    return chance(tuple(counts))


def winner(counts: list[int], weights: list[float], can_win: list[bool]) -> int:
    votes = [c * w if can else -1.0 for c, w, can in zip(counts, weights, can_win, strict=True)]
    return next(i for i, vote in enumerate(votes) if vote >= max(votes) - 1e-9)


@given(
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    further=st.integers(1, 5),
    kinds=st.integers(0, 3),
    concentration=st.sampled_from([0.1, 0.3, 1.0]),
    weights=st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=3, max_size=3),
    last_wins=st.booleans(),
)
@settings(deadline=None, database=None, max_examples=20)
def test_it_is_the_chance_over_all_orders(
    counts: list[int],
    further: int,
    kinds: int,
    concentration: float,
    weights: list[float],
    last_wins: bool,
) -> None:
    model = AnswerModel(len(counts) + kinds, concentration)
    cap = sum(counts) + further
    used = weights[: len(counts)]
    can_win = [True, *[True] * (len(counts) - 2), last_wins][: len(counts)]
    lead = winner(counts, used, can_win)
    rivals = [
        Rival(counts[j], used[j], j < lead, can_win[j]) for j in range(len(counts)) if j != lead
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "models", lambda counts, cap: [(1.0, model)])
        found = overtaking.__wrapped__((counts[lead], used[lead]), tuple(rivals), cap)
    assert found == pytest.approx(
        by_every_order(counts, used, can_win, cap, model), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize(("ahead", "behind", "cap"), [(3, 2, 16), (4, 2, 12), (5, 3, 9), (6, 2, 8)])
def test_two_answers_change_places_by_the_closed_form(ahead: int, behind: int, cap: int) -> None:
    """The tail of a beta-binomial distribution, of two answers whose shares are anything."""
    k = cap - ahead - behind

    def log_beta(a: float, b: float) -> float:
        return lgamma(a) + lgamma(b) - lgamma(a + b)

    exact = 0.0
    for more in range(k + 1):
        if behind + more > ahead + k - more:
            tail = log_beta(behind + 1 + more, ahead + 1 + k - more)
            exact += comb(k, more) * exp(tail - log_beta(behind + 1, ahead + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "models", lambda counts, cap: [(1.0, AnswerModel(2, 1.0))])
        rivals = (Rival(behind, 1.0, is_earlier=False),)
        assert overtaking.__wrapped__((ahead, 1.0), rivals, cap) == pytest.approx(exact, abs=1e-12)


def test_models_are_weighed_by_what_was_seen() -> None:
    for counts in ((4,), (3, 1), (1, 1, 1, 1)):
        likely = models(counts, 16)
        assert sum(chance for chance, _ in likely) == pytest.approx(1)
        assert all(model.kinds >= len(counts) for _, model in likely)
    many = {
        counts: sum(chance for chance, model in models(counts, 16) if model.kinds > 16)
        for counts in ((4,), (2, 1, 1), (1, 1, 1, 1))
    }
    assert many[(1, 1, 1, 1)] > many[(2, 1, 1)]
    # the evidence is the chance of the counts, drawn one by one, up to what all models share
    two, three = (AnswerModel(k, 1.0).log_evidence((2, 1)) for k in (2, 3))
    in_order = [1 * 2 / 3 * 1 / 4, 1 * 2 / 4 * 2 / 5]
    assert exp(three - two) == pytest.approx(in_order[1] / in_order[0])


def test_a_lead_that_cannot_be_passed_is_certain() -> None:
    assert overtaking((8, 1.0), (Rival(0, 1.0, is_earlier=False),), 16) == 0
    assert overtaking((9, 1.0), (Rival(3, 1.0, is_earlier=True),), 14) == 0
    assert overtaking((2, 1.0), (), 2) == 0
    assert overtaking((2, 1.0), (Rival(2, 1.0, is_earlier=False, can_win=False),), 5) < 0.5


def test_many_draws_are_left() -> None:
    chances = [
        overtaking((6, 1.0), (Rival(2, 1.0, is_earlier=False),), cap) for cap in (16, 64, 2000)
    ]
    assert chances == sorted(chances)
    assert 0 < chances[0] < chances[-1] < 0.2
