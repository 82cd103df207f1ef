"""The posterior against conditioning the whole matrix's normal distribution, and what it states on such matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.posterior import (
    USUAL,
    Observed,
    Problem,
    Regressors,
    coefficients,
    posterior,
    regressors_of,
    scale_of,
)
from discorank.rerank.budget.searches import adaptive, figures_of, leaders
from discorank.rerank.budget.statement import Target

from .lists import blocks_of, drive, estimate_of, matrices


def problem_of(cheap: FloatArray, shares: FloatArray) -> Problem:
    return Problem(shares, cheap[None], np.arange(len(shares)), shares.size, Target(), 1)


def observed_of(problem: Problem, matrix: FloatArray, share: float, seed: int) -> Observed:
    """A random part of a matrix as computed."""
    observed = Observed(problem)
    observed.seen[:] = np.random.default_rng(seed).random(matrix.shape) < share
    observed.utilities[observed.seen] = matrix[observed.seen]
    return observed


def conditioned(observed: Observed, features: Regressors) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the expected utilities, from the joint distribution of all pairs."""
    num_rows, num_columns = observed.seen.shape
    rows, columns = (grid.ravel() for grid in np.indices(observed.seen.shape))
    seen = observed.seen.ravel()
    values = observed.utilities.ravel()[seen]
    is_self = features.selves[rows] == columns
    scale = scale_of(values, is_self[seen])
    centres = np.where(is_self, scale.of_selves, scale.centre)
    known = coefficients(USUAL)
    means, sizes = np.transpose([known[kind] for kind in features.kinds])
    regressors = features.of(rows, columns)
    mean = regressors @ means
    covariance = regressors * sizes @ regressors.T
    covariance += USUAL.row * (rows[:, None] == rows)
    covariance += USUAL.column * (columns[:, None] == columns)
    covariance += USUAL.noise * np.eye(len(rows))
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    after = mean + gain @ ((values - centres[seen]) / scale.unit - mean[seen])
    spread = covariance - gain @ covariance[seen]
    weights = np.zeros((num_rows, num_rows * num_columns))
    weights[rows, np.arange(len(rows))] = observed.problem.shares.ravel()
    return weights @ (centres + scale.unit * after), scale.unit**2 * weights @ spread @ weights.T


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_equals_conditioning(share: float) -> None:
    """With the variances as they are at first, where every reference was used at least once or all count alike."""
    matrix, cheap = matrices(1, 9)
    weights = np.random.default_rng(0).uniform(0.5, 2, 9)
    problem = problem_of(cheap, np.tile(weights / weights.sum(), (9, 1)))
    observed = observed_of(problem, matrix, share, 3)
    assert observed.seen.any(axis=0).all()
    features = regressors_of(problem)
    mean, covariance = conditioned(observed, features)
    ours = posterior(observed, features, steps=0)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-7)
    found = ours.factor @ ours.factor.T + np.diag(ours.deviation**2)
    np.testing.assert_allclose(found, covariance, rtol=1e-5, atol=1e-9)


def test_a_whole_row_is_known() -> None:
    matrix, cheap = matrices(2)
    problem = problem_of(cheap, np.full(matrix.shape, 1 / 16))
    observed = observed_of(problem, matrix, 0.3, 0)
    observed.seen[5] = True
    observed.utilities[5] = matrix[5]
    known = posterior(observed, regressors_of(problem))
    assert known.mean[5] == pytest.approx(matrix[5].mean(), rel=1e-12)
    assert known.deviation[5] == 0
    assert np.abs(known.factor[5]).max() < 1e-9
    assert known.deviation[4] > 0


def test_draws_have_mean_and_spread() -> None:
    matrix, cheap = matrices(3)
    problem = problem_of(cheap, np.full(matrix.shape, 1 / 16))
    known = posterior(observed_of(problem, matrix, 0.3, 0), regressors_of(problem))
    draws = known.draws(40_000)
    spread = known.factor @ known.factor.T + np.diag(known.deviation**2)
    np.testing.assert_allclose(draws.mean(axis=0), known.mean, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), spread, atol=0.03 * spread.max())
    assert draws.tobytes() == known.draws(40_000).tobytes()


def test_figures_by_hand() -> None:
    """Of four draws, 0 and 1 are the best two in two; the others lose 1 / 2 and 3 / 2 a place."""
    draws = np.array([[3.0, 2, 1], [3, 2, 1], [3, 2, 3], [0, 2, 3]])
    chosen = leaders(np.array([0.3, 0.2, np.nan]), 2)
    assert figures_of(draws, chosen) == pytest.approx((0.5, (0.5 + 1.5) / 4))
    assert figures_of(draws, np.array([0, 1, 2])) == (1.0, 0.0)
    assert figures_of(draws, chosen[:1]) == pytest.approx((0.75, 3 / 4))


@pytest.mark.parametrize("target", [Target(confidence=0.8), Target(regret=0.2)])
def test_a_list_stops_when_its_target_is_met(target: Target) -> None:
    """And says so of itself with the very figures; a list that could not stop uses its whole budget."""
    num_stopped = 0
    for seed in range(20):
        matrix, cheap = matrices(seed)
        estimate = estimate_of(matrix, cheap, 200, square=True, target=target)
        if estimate.spent.pairs == 200:
            continue
        num_stopped += 1
        if target.confidence is not None:
            assert estimate.spent.confidence >= target.confidence
        if target.regret is not None:
            assert estimate.spent.regret <= target.regret * estimate.spent.spread
    assert num_stopped > 5


def test_both_targets_take_as_much_as_the_later_one() -> None:
    for seed in range(6):
        matrix, cheap = matrices(seed)
        pairs = [
            estimate_of(matrix, cheap, 220, square=True, target=target).spent.pairs
            for target in (Target(0.8), Target(None, 0.1), Target(0.8, 0.1))
        ]
        assert pairs[2] >= max(pairs[:2])


def test_pairs_that_are_all_the_same_are_finite() -> None:
    """A kernel of texts without a common fragment: 0 of all pairs that were computed, 1 of a text with itself."""
    matrix, cheap = matrices(6)
    nothing = np.eye(len(matrix))
    estimate = estimate_of(nothing, cheap, 60, square=True, symmetric=True)
    assert np.isfinite(estimate.values).all()
    assert 0 < estimate.spent.confidence < 1
    assert 0 <= estimate.spent.regret < 1


def test_a_kernel_is_worth_more_against_itself_than_anything() -> None:
    """1 against values near 1e-8, as of tree kernels on long texts: what is said is of the size of these."""
    matrix, cheap = matrices(5)
    small = 1e-8 * (matrix - matrix.min())
    np.fill_diagonal(small, 1.0)
    estimate = estimate_of(small, cheap, 60, square=True)
    assert 0 <= estimate.spent.regret < 1e-7
    exact = small.mean(axis=1)
    assert abs(np.nanmax(estimate.values) - exact.max()) < 1e-7


def test_what_the_posterior_says_is_true_of_synthetic_lists() -> None:
    """Over lists: the share of choices that are those of the whole matrix, and their regret, within their errors.

    These are the posterior's own figures: the constants are those of real lists, of which it knows less.
    """
    same, losses, stated = [], [], []
    for seed in range(60):
        matrix, cheap = matrices(seed, 12)
        problem = problem_of(cheap, np.full(matrix.shape, 1 / 12))
        values, evidence, _ = drive(
            adaptive(Observed(replace(problem, pairs=40))), blocks_of(matrix)
        )
        assert evidence is not None
        exact = matrix.mean(axis=1)
        chosen = int(np.argmax(values))
        same.append(chosen == int(np.argmax(exact)))
        losses.append(exact.max() - exact[chosen])
        odds, loss = np.exp(evidence.features[1:3])
        stated.append((odds / (1 + odds), loss * evidence.spread))
    confidence, regret = np.mean(stated, axis=0)
    assert 0.3 < np.mean(same) < 0.95
    assert abs(np.mean(same) - confidence) < 0.08
    assert abs(np.mean(losses) - regret) < 3 * np.std(losses) / np.sqrt(len(losses)) + 0.3 * regret
