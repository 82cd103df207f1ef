"""What a chooser learns: against plain loops, at its limits, and where nothing is judged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser import chooser_fit
from discorank.rerank.chooser.chooser_fit import (
    SHIP,
    STRENGTHS,
    Defaults,
    clustered_mean,
    cross_fitted,
    effects,
    fit,
    folds,
    ridge,
    shrunk_losses,
)
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.segment_values import standard
from discorank.rerank.selection.shrinkage import shrunk

K = len(STRENGTHS)


def made(
    seed: int, segments: int = 40, systems: int = 4, features: int = 2, missing: float = 0.0
) -> MeasuredTexts:
    """Random segments of documents of four; the first system is the best, the first feature tells errors."""
    random = np.random.default_rng(seed)
    utilities = random.uniform(0, 100, (segments, systems, systems))
    utilities = (utilities + utilities.transpose(0, 2, 1)) / 2
    utilities[:, range(systems), range(systems)] = 100.0
    columns = standard_columns(random.normal(size=(segments, systems, features)))
    errors = 3 + 0.5 * np.arange(systems) + 0.8 * columns[:, :, 0]
    errors = np.abs(errors + random.normal(size=errors.shape))
    errors[random.random(errors.shape) < missing] = np.nan
    return MeasuredTexts(utilities, columns, errors, np.arange(segments) // 4, errors**2)


def standard_columns(values: FloatArray) -> FloatArray:
    return np.stack([standard(values[:, :, f]) for f in range(values.shape[2])], axis=2)


def plain_defaults(features: int, spread: float = 0.1) -> Defaults:
    weights = np.zeros((K, 1 + features))
    weights[:, 0] = 0.2
    losses = np.full(K, 0.1)
    losses[STRENGTHS.index(6.0)] = 0.0
    spreads = np.where(losses > 0, spread, 0.0)
    return Defaults(weights, losses, spreads)


def test_nothing_judged_is_plain_consensus() -> None:
    data = made(0)
    learned = fit(data._replace(errors=np.full_like(data.errors, np.nan)), plain_defaults(2))
    assert learned.strength == 0.0
    assert learned.weights.tolist() == [0.2, 0.0, 0.0]
    assert learned.choices(data).tolist() == data.utilities.sum(axis=2).argmax(axis=1).tolist()


def test_a_feature_that_tells_errors_is_learned() -> None:
    data = made(1, segments=400)
    learned = fit(data, plain_defaults(2), pseudo=100.0)
    assert learned.weights[1] < -0.3
    assert abs(learned.weights[2]) < 0.1
    by_features = data.errors[np.arange(400), learned.choices(data)].mean()
    plain = learned._replace(weights=np.array([0.2, 0.0, 0.0]))
    assert by_features < data.errors[np.arange(400), plain.choices(data)].mean()


def test_more_belief_in_the_defaults_is_nearer_to_them() -> None:
    data = made(2)
    weights = [fit(data, plain_defaults(2), pseudo).weights[1] for pseudo in (1.0, 100.0, 1e12)]
    assert abs(weights[0]) > abs(weights[1]) > abs(weights[2])
    assert weights[2] == pytest.approx(0.0, abs=1e-6)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3]))
def test_ridge_against_the_sum_it_minimises(seed: int, missing: float) -> None:
    data = made(seed, segments=12, missing=missing)
    data = data.rows(data.judged)
    consensus = standard(data.utilities.sum(axis=2))
    default = np.array([0.2, 0.0, -0.1])

    def loss(b: FloatArray) -> float:
        total = 50.0 * data.errors.shape[1] * float(((b - default) ** 2).sum())
        for i in range(len(data.errors)):
            judged = [s for s in range(data.errors.shape[1]) if not np.isnan(data.errors[i, s])]
            x = [[consensus[i, s], *data.columns[i, s]] for s in judged]
            y = [-data.errors[i, s] / 1.5 for s in judged]
            centred_x: FloatArray = np.array(x) - np.mean(x, axis=0)
            centred_y = np.array(y) - np.mean(y)
            total += float(((centred_y - centred_x @ b) ** 2).sum())
        return float(total)

    b = ridge(data, 1.5, consensus, default, pseudo=50.0)
    for step in 1e-3 * np.eye(3):
        assert loss(b) <= min(loss(b + step), loss(b - step))


def test_a_segment_is_valued_with_means_of_other_documents() -> None:
    data = made(3)
    before = cross_fitted(data)
    fold = folds(data.document)
    held = fold == fold[0]
    changed = data._replace(errors=np.where(held[:, None], data.errors[:, ::-1] * 9, data.errors))
    after = cross_fitted(changed)
    assert np.array_equal(before[:, held], after[:, held])
    assert not np.array_equal(before[:, ~held], after[:, ~held])


def test_folds_hold_whole_documents() -> None:
    document = np.repeat([3, 1, 7, 2, 2, 9, 4], 5)
    fold = folds(document)
    assert all(len(set(fold[document == name])) == 1 for name in set(document.tolist()))
    assert set(fold.tolist()) == set(range(5))
    assert len(set(folds(np.zeros(30, int)).tolist())) == 3  # blocks of one document


def test_effects_are_those_of_the_prior_and_unjudged_systems_have_the_mean() -> None:
    data = made(4)
    means, sigma = effects(data.errors, data.document)
    estimates = shrunk(data.errors, data.document)
    assert np.array_equal(means, estimates.means)
    assert sigma == estimates.sigma
    errors = np.concatenate([data.errors, np.full((40, 1), np.nan)], axis=1)
    with_another, _ = effects(errors, data.document)
    assert with_another.tolist() == [*means.tolist(), 0.0]


@pytest.mark.parametrize(
    "table", [[[np.nan] * 3], [[1.0, np.nan, np.nan]], [[1.0, 2.0, np.nan], [np.nan, np.nan, 1.0]]]
)
def test_too_few_judgements_say_nothing(table: list[list[float]]) -> None:
    means, sigma = effects(np.array(table), np.arange(len(table)))
    assert means.tolist() == [0.0] * 3
    assert sigma == 1.0


def test_few_documents_leave_the_default_strength() -> None:
    differences = np.zeros((K, 30))
    differences[-1] = -5.0 + 0.01 * np.arange(30)  # to ship would be far better
    defaults = plain_defaults(0)
    of_three = shrunk_losses(differences, np.arange(30) // 10, defaults)
    assert STRENGTHS[int(of_three.argmin())] == 6.0
    of_many = shrunk_losses(differences, np.arange(30), defaults)
    assert STRENGTHS[int(of_many.argmin())] == SHIP


def test_a_mean_and_its_variance_by_documents() -> None:
    values = np.array([1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 3.0, 3.0, 2.0, 2.0])
    document = np.arange(10) // 2
    mean, variance = clustered_mean(values, document)
    sums = [2 * (1 - 2.8), 2 * (3 - 2.8), 2 * (5 - 2.8), 2 * (3 - 2.8), 2 * (2 - 2.8)]
    clustered = 5 / 4 * sum(x * x for x in sums) / 100
    assert mean == pytest.approx(2.8)
    assert variance == pytest.approx(clustered * 4 / 2)  # five documents: Student's t
    assert clustered_mean(values, np.arange(10) // 4)[1] == np.inf


def test_where_features_are_of_no_use_shipping_ignores_them() -> None:
    data = made(5, segments=200)
    losses = np.where(np.array(STRENGTHS) == SHIP, -9.0, 0.0)
    defaults = plain_defaults(2, spread=0.0)._replace(losses=losses)
    learned = fit(data, defaults)
    assert learned.strength == SHIP
    assert set(learned.choices(data).tolist()) == {int(learned.means.argmin())}


def test_a_fit_that_is_told_to_ship() -> None:
    data = made(5, segments=200)
    learned = fit(data, plain_defaults(2), ship=True)
    assert learned.strength == SHIP
    assert set(learned.choices(data).tolist()) == {int(learned.means.argmin())}
    assert learned.means.tolist() == fit(data, plain_defaults(2)).means.tolist()


def test_differences_whose_squares_vanish_are_none() -> None:
    assert standard(np.array([[0.0, 5e-324, 0.0]])).tolist() == [[0.0] * 3]


def test_the_order_of_segments_does_not_matter_much(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(6)
    order = np.random.default_rng(0).permutation(40)
    learned, other = fit(data, plain_defaults(2)), fit(data.rows(order), plain_defaults(2))
    assert learned.strength == other.strength
    assert learned.weights == pytest.approx(other.weights, abs=1e-9)


def test_defaults_of_sets_where_the_feature_tells_errors() -> None:
    defaults = defaults_of([made(seed, segments=80) for seed in (7, 8, 9)])
    assert defaults.losses.min() == 0.0
    assert (defaults.weights[:-1, 1] < -0.1).all()
    assert defaults.weights[-1].tolist() == [1.0, 0.0, 0.0]
    assert (defaults.spreads >= 0).all()
    assert defaults.spreads[defaults.best] == 0.0


def test_the_best_strength_is_the_least_loss() -> None:
    assert chooser_fit.STRENGTHS[plain_defaults(1).best] == 6.0


def test_texts_that_are_missing_count_for_nothing() -> None:
    """A system without texts: the others' values are as if it were not there."""
    data = made(3)
    gone = np.full(40, 2)  # the number of the system that lacks the first twenty
    utilities, columns, errors = data.utilities.copy(), data.columns.copy(), data.errors.copy()
    utilities[:20, 2], utilities[:20, :, 2] = np.nan, np.nan
    columns[:20, 2], errors[:20, 2] = np.nan, np.nan
    kept = [0, 1, 3]
    present = standard_columns(columns[:20][:, kept])
    columns[:20, kept] = present
    lacking = data._replace(utilities=utilities, columns=columns, errors=errors)
    learned = fit(lacking, plain_defaults(2))
    assert np.isfinite(learned.weights).all()
    assert np.isfinite(learned.means).all()
    picks = learned.choices(lacking)
    assert not (picks[:20] == gone[:20]).any()
    alone = learned._replace(means=learned.means[kept])
    without = data._replace(
        utilities=data.utilities[:20][:, kept][:, :, kept],
        columns=present,
        errors=errors[:20, kept],
    )
    assert learned.values(lacking)[:20, kept] == pytest.approx(alone.values(without))
    everything = learned._replace(strength=SHIP, weights=np.array([1.0, 0.0, 0.0]))
    assert set(everything.choices(lacking)[:20].tolist()) == {
        kept[int(learned.means[kept].argmin())]
    }
