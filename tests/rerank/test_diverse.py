"""Diverse k-best lists against every subset of small lists, and what holds for all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from discorank.metrics.representations import FloatArray
from discorank.rerank.choice import diverse, objective


def a_list(seed: int, size: int = 9) -> tuple[FloatArray, FloatArray]:
    """Expected utilities and the matrix they come from."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(size, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    similarity = np.exp(-distances) + 0.05 * random.normal(size=(size, size))
    return similarity.mean(axis=1), similarity


def test_by_hand() -> None:
    """Two near copies are the best two; with a penalty the third, unlike text takes the place of one."""
    values = np.array([1.0, 0.9, 0.5])
    similarity = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    assert diverse(values, similarity, 2, 0.0).tolist() == [0, 1]
    # F({0, 1}) = 1.9 - 1/2 * 1.8 = 1.0, F({0, 2}) = 1.5 - 1/2 * 0.2 = 1.4
    assert objective(values, similarity, np.array([0, 1]), 1.0) == pytest.approx(1.0)
    assert objective(values, similarity, np.array([0, 2]), 1.0) == pytest.approx(1.4)
    assert diverse(values, similarity, 2, 1.0).tolist() == [0, 2]


@pytest.mark.parametrize("penalty", [0.0, 0.1, 0.5, 2.0])
def test_against_all_subsets(penalty: float) -> None:
    """The search finds the best subset of most lists, and never one that a swap would better."""
    num_best = 0
    for seed in range(40):
        values, similarity = a_list(seed)
        chosen = diverse(values, similarity, 3, penalty)
        ours = objective(values, similarity, chosen, penalty)
        subsets = [np.array(subset) for subset in combinations(range(len(values)), 3)]
        reached = [objective(values, similarity, subset, penalty) for subset in subsets]
        num_best += ours >= max(reached) - 1e-12
        swaps = [
            value
            for subset, value in zip(subsets, reached, strict=True)
            if len(set(subset.tolist()) & set(chosen.tolist())) == 2
        ]
        assert max(swaps) <= ours + 1e-9
    assert num_best >= 27


def test_swaps_better_the_greedy_choice() -> None:
    """The best single text is like two others, which are unlike each other and better together."""
    values = np.array([1.0, 0.95, 0.95])
    similarity = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.0], [0.9, 0.0, 1.0]])
    assert diverse(values, similarity, 2, 1.0).tolist() == [1, 2]


def test_no_penalty_is_the_plain_list() -> None:
    values, similarity = a_list(3, 30)
    assert diverse(values, similarity, 7, 0.0).tolist() == np.argsort(-values)[:7].tolist()


def test_all_texts_and_more_places_than_texts() -> None:
    values, similarity = a_list(4, 5)
    assert diverse(values, similarity, 8, 1.0).tolist() == np.argsort(-values).tolist()


def test_a_permuted_list() -> None:
    values, similarity = a_list(5, 20)
    order = np.random.default_rng(0).permutation(20)
    chosen = diverse(values, similarity, 5, 0.7)
    permuted = diverse(values[order], similarity[np.ix_(order, order)], 5, 0.7)
    assert order[permuted].tolist() == chosen.tolist()


def test_what_is_not_finite_comes_last() -> None:
    values, similarity = a_list(6, 6)
    values[2] = np.nan
    similarity[4, 1] = np.inf
    chosen = diverse(values, similarity, 6, 0.5).tolist()
    assert set(chosen[-3:]) == {1, 2, 4}
    assert len(set(chosen)) == 6
