"""Laws of plans."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.plan import num_pairs, plan
from discorank.rerank.budget.posterior import Request

from .lists import blocks_of, drive, estimate_of, matrices, regret_of

BOUNDED = bounded(max_examples=60, deadline=None, database=None, print_blob=True)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 80),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 3),
)
@BOUNDED
def test_no_plan_exceeds_its_budget_or_asks_twice(
    num_rows: int,
    num_columns: int,
    pairs: int,
    nbest: int,
    without_self: bool,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(num_rows, num_columns))
    weights = random.integers(0, 3, num_columns).astype(np.float64)
    weights[0] = 2.0
    own = np.minimum(weights, 1.0) if without_self and num_rows == num_columns else None
    prior = matrix + random.normal(size=(2, *matrix.shape))
    asked = np.zeros(matrix.shape, np.int64)

    def answered(request: Request) -> FloatArray:
        asked[np.ix_(request.rows, request.columns)] += 1
        return matrix[np.ix_(request.rows, request.columns)]

    steps = plan(weights, num_rows, own, prior, pairs=pairs, nbest=nbest)
    estimate = drive(steps, answered)
    assert asked.max() <= 1
    assert asked.sum() == estimate.spent.pairs <= pairs
    assert estimate.spent.computed.tolist() == (asked > 0).tolist()
    assert estimate.spent.of == matrix.size
    assert 0 <= estimate.spent.confidence <= 1
    assert not estimate.spent.regret < 0
    assert not asked[:, weights == 0].any()


@given(
    st.integers(2, 9),
    st.integers(1, 45),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 3),
)
@BOUNDED
def test_two_texts_of_a_symmetric_utility_are_one_pair(
    size: int, pairs: int, nbest: int, has_addend: bool, seed: int
) -> None:
    """It is asked for one way round; both have its value, and what is known beside it is added to either."""
    random = np.random.default_rng(seed)
    matrix, prior = random.normal(size=(2, size, size))
    matrix = matrix + matrix.T
    addend = random.normal(size=(size, size)) if has_addend else np.zeros((size, size))
    weights = random.integers(1, 3, size).astype(np.float64)
    asked = np.zeros(matrix.shape, np.int64)

    def answered(request: Request) -> FloatArray:
        block = np.ix_(request.rows, request.columns)
        if request.rows.tolist() == request.columns.tolist():  # as an engine computes it
            asked[block] += np.tri(len(request.rows), dtype=np.int64)
        else:
            asked[block] += 1
        return np.asarray(matrix[block])

    steps = plan(
        weights,
        size,
        None,
        prior[None],
        pairs=pairs,
        nbest=nbest,
        square=True,
        symmetric=True,
        addend=addend if has_addend else None,
    )
    estimate = drive(steps, answered)
    both = asked + asked.T - np.diag(asked.diagonal())
    assert estimate.spent.of == num_pairs(size, size, True) == size * (size + 1) // 2
    assert both.max() <= 1
    assert asked.sum() == estimate.spent.pairs <= pairs
    assert estimate.spent.computed.tolist() == (both > 0).tolist()
    computed = estimate.spent.computed
    np.testing.assert_array_equal(estimate.utilities[computed], (matrix + addend)[computed])
    assert np.isnan(estimate.utilities[~computed]).all()


def test_the_same_every_time() -> None:
    matrix, cheap = matrices(3)
    first, second = (estimate_of(matrix, cheap, 60) for _ in range(2))
    assert first.values.tobytes() == second.values.tobytes()
    assert first.spent.computed.tobytes() == second.spent.computed.tobytes()
    assert first.spent[:5] == second.spent[:5]


@pytest.mark.parametrize(
    ("without_self", "is_symmetric"), [(False, False), (True, False), (False, True)]
)
def test_permuted_candidates_choose_the_same_text(without_self: bool, is_symmetric: bool) -> None:
    """Values, statements and computed pairs go with the texts, to the last bit."""
    for seed in range(6):
        matrix, cheap = matrices(seed)
        size = len(matrix)
        random = np.random.default_rng(seed)
        weights = random.integers(1, 3, size).astype(np.float64)
        order = random.permutation(size)
        block = np.ix_(order, order)
        own = np.ones(size) if without_self else None
        settings: dict[str, Any] = {
            "pairs": 50,
            "nbest": 2,
            "square": True,
            "symmetric": is_symmetric,
        }
        if is_symmetric:
            matrix = matrix + matrix.T
        plain = plan(weights, size, own, cheap[None], **settings)
        permuted = plan(
            weights[order], size, own, cheap[None][:, order[:, None], order], **settings
        )
        ours = drive(plain, blocks_of(matrix))
        theirs = drive(permuted, blocks_of(matrix[block]))
        assert ours.values[order].tobytes() == theirs.values.tobytes()
        assert ours.spent.computed[block].tolist() == theirs.spent.computed.tolist()
        assert ours.spent[:5] == theirs.spent[:5]


def test_more_budget_loses_no_more() -> None:
    """On average over lists, within two standard errors of the difference."""
    budgets = (16, 64, 250)
    losses = []
    for pairs in budgets:
        lists = [matrices(seed) for seed in range(16)]
        losses.append([regret_of(estimate_of(u, c, pairs), u) for u, c in lists])
    for few, more in pairwise(np.array(losses)):
        difference = more - few
        assert difference.mean() <= 2 * difference.std() / np.sqrt(len(difference))
    assert np.mean(losses[-1]) < 0.5 * np.mean(losses[0])


def test_what_is_not_a_number_is_never_chosen() -> None:
    matrix, cheap = matrices(2)
    best = int(np.argmax(matrix.mean(axis=1)))
    matrix[best] = np.nan
    matrix[(best + 1) % 16] = np.inf
    estimate = estimate_of(matrix, cheap, 100, square=True)
    assert np.isfinite(estimate.values).any()
    broken = [best, (best + 1) % 16]
    seen = [row for row in broken if estimate.spent.computed[row].any()]
    assert np.isnan(estimate.values[seen]).all()
    assert 0 <= estimate.spent.confidence <= 1


def test_places_of_a_ranking_all_have_values() -> None:
    """More places than survivors would otherwise remain: as many hypotheses as places stay to the end."""
    matrix, cheap = matrices(4, noise=0.1)
    estimate = estimate_of(matrix, cheap, 150, nbest=9, square=True)
    assert np.isfinite(estimate.values).sum() >= 9


def test_equal_utilities_are_no_trouble() -> None:
    estimate = estimate_of(np.ones((6, 6)), np.ones((6, 6)), 12, square=True)
    assert np.nanmax(estimate.values) == pytest.approx(1.0)
