"""Rules that learn from few judgements, ceilings in hindsight, and second opinions, on texts whose best is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.choice_quality.sampled_choices import taught
from benchmarks.choosers.few_judgements import (
    Beliefs,
    KeptTallies,
    compared,
    picks,
    scaled,
    tallied,
)
from benchmarks.choosers.hindsight_weights import ScoredFeatures, hindsight_weights
from benchmarks.choosers.judged_choices import agreeing
from benchmarks.choosers.summary_chooser import by_other_dimensions
from benchmarks.choosers.unseen_sets import Believed, with_judgements
from benchmarks.support.measured_sets import MeasuredSet
from benchmarks.support.text_values import consensus
from discorank.metrics.representations import FloatArray
from discorank.rerank.choice import in_order
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.segment_values import first_best, standard
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.normalization import normalized

SEGMENTS = 70


def measured(errors: FloatArray) -> MeasuredSet:
    """A segment per document, whose first two texts agree with each other and with nothing else."""
    size, systems = errors.shape
    u = np.eye(systems)
    u[0, 1] = u[1, 0] = 0.9
    columns = np.zeros((size, systems, 1))
    numbers = np.arange(size)
    data = MeasuredTexts(np.tile(u, (size, 1, 1)), columns, errors, numbers, errors)
    names = [str(i) for i in range(systems)]
    return MeasuredSet("made", data, numbers, names, [str(i) for i in numbers], np.zeros((size, 4)))


@pytest.fixture
def clear() -> MeasuredSet:
    """The third system is far better than the others, and nearly alone."""
    noise = np.random.default_rng(0).normal(size=(SEGMENTS, 3)) * 0.1
    return measured(np.array([2.0, 2.0, 0.0]) + noise)


def test_judgements_outvote_consensus_where_systems_differ(clear: MeasuredSet) -> None:
    train, test = np.arange(20), np.arange(20, SEGMENTS)
    chosen = picks(clear.data, train, test, Beliefs(shipped().defaults(1)))
    assert (chosen["mbr"] == 0).all()
    for rule in ("single", "prior", "chooser", "hindsight", "oracle"):
        assert (chosen[rule] == 2).all(), rule


def test_a_chooser_may_ship_whether_or_not_scores_have_a_ratio(clear: MeasuredSet) -> None:
    train, test = np.arange(20), np.arange(20, SEGMENTS)
    errors = np.abs(clear.data.errors)
    data = clear.data._replace(errors=np.sqrt(errors), scores=errors)
    unknown = picks(data, train, test, Beliefs(shipped().defaults(1)))
    known = picks(data, train, test, Beliefs(shipped().defaults(1), shipped().gain))
    assert (unknown["careful"] == 2).all()
    assert (known["careful"] == 2).all()
    assert (known["chooser"] == unknown["chooser"]).all()


def test_nothing_judged_is_consensus_alone(clear: MeasuredSet) -> None:
    nothing, everything = np.arange(0), np.arange(SEGMENTS)
    chosen = picks(clear.data, nothing, everything, Beliefs(shipped().defaults(1)))
    assert set(chosen) == {"hindsight", "mbr", "oracle"}


def test_tallies_are_means_over_draws_and_are_kept(clear: MeasuredSet, tmp_path: Path) -> None:
    opinions = np.stack([-clear.data.scores, np.ones((SEGMENTS, 3))], axis=2)
    beliefs = Beliefs(shipped().defaults(1))
    found = tallied(clear, opinions, "20", beliefs, 4)
    tested = ~np.isnan(found["single"]).any(axis=1)
    assert found["single"][tested, 0] == pytest.approx(-clear.data.scores[tested, 2])
    assert (found["chooser"][tested, 1] == 1).all()
    assert found["random"][tested, 0] == pytest.approx(-clear.data.scores[tested].mean(axis=1))
    kept = KeptTallies(tmp_path)
    first = kept.tallied(clear, opinions, "20", beliefs, 4)
    assert len(list(tmp_path.iterdir())) == 1
    again = kept.tallied(clear, opinions, "20", beliefs, 4)
    for rule, values in first.items():
        assert np.array_equal(values, again[rule], equal_nan=True)
        assert np.array_equal(values, found[rule], equal_nan=True)
    kept.tallied(clear, opinions * 2, "20", beliefs, 4)
    assert len(list(tmp_path.iterdir())) == 2


def test_sets_count_where_enough_is_left(clear: MeasuredSet, tmp_path: Path) -> None:
    errors = np.sqrt(np.abs(clear.data.errors))
    data = clear._replace(data=clear.data._replace(errors=errors, scores=errors**2))
    own = Believed(data, Beliefs(shipped().defaults(1), shipped().gain))
    over_random, over_single = with_judgements([own], KeptTallies(tmp_path), ["20", "50"], 3)
    assert [row[0] for row in over_random] == ["20 (1 sets)"] * 6
    chooser = next(row for row in over_single if row[1] == "chooser")
    assert chooser[2:] == ["1.000 [1.000, 1.000]", "0 of 1, 1.00"]


def test_gains_are_compared_on_what_both_chose() -> None:
    columns = {"a": np.array([1.0, 2.0, np.nan]), "b": np.array([0.0, 1.0, 9.0])}
    cells = compared(columns, ["x", "y", "z"], "b", "seed")
    assert cells["a"][0].startswith("+1.50")
    assert cells["a"][1] == "+1.00 [+1.00, +1.00]"
    assert cells["b"][1] == ""


def test_scores_are_scaled_within_segments() -> None:
    opinions = np.array([[[1.0], [3.0]], [[10.0], [12.0]]])
    assert scaled(opinions)[:, :, 0].tolist() == [[-1, 1], [-1, 1]]


def test_weights_in_hindsight_find_the_feature_that_tells() -> None:
    random = np.random.default_rng(1)
    scores = random.normal(size=(60, 5))
    noise = random.normal(size=(60, 5, 2))
    columns = np.concatenate([noise[:, :, :1], -scores[:, :, None], noise[:, :, 1:]], axis=2)
    data = ScoredFeatures(columns, scores)
    weights = hindsight_weights([data])
    assert (data.choices(weights) == scores.argmin(axis=1)).all()
    # two sets that need opposite weights have no good vector together
    opposite = ScoredFeatures(columns, -scores)
    together = hindsight_weights([data, opposite])
    assert data.loss(together) + opposite.loss(together) > data.loss(weights) / 2


def test_a_dimension_is_chosen_by_the_others() -> None:
    # the first column is a mean; the first two dimensions like the first text, the third the second, more
    scores = np.array([[[0, 1, 1, 0], [0, 0, 0, 3]]], float)
    # by the second and third: the second text; by the first and third: the same; by the first two: the first
    assert by_other_dimensions(scores)[0].tolist() == [0, 0, 0, 0]
    scores[0, 1, 3] = 0.5
    assert by_other_dimensions(scores)[0].tolist() == pytest.approx([2 / 3, 1, 1, 0])


def test_opinions_agree_on_pairs_of_rules() -> None:
    order = {"random": 0.0, "mbr": 1.0, "single": 2.0, "prior": 3.0, "chooser": 4.0}
    assert agreeing(order, order) == 1
    swapped = order | {"mbr": 2.0, "single": 1.0}
    assert agreeing(order, swapped) == 0.9


def test_a_ridge_learns_from_other_documents() -> None:
    random = np.random.default_rng(2)
    columns = standard(random.normal(size=(50, 6)))[:, :, None]
    fold = [i % 5 for i in range(50)]
    values = taught(columns, columns[:, :, 0] * 3, fold)
    assert (values.argmax(axis=1) == columns[:, :, 0].argmax(axis=1)).all()
    # what one fold's own scores say does not count for it
    scores = columns[:, :, 0] * 3
    scores[::5] *= -1
    assert (taught(columns, scores, fold)[::5] == values[::5]).all()


def test_values_of_many_segments_are_those_of_one() -> None:
    random = np.random.default_rng(3)
    u = random.normal(size=(20, 4, 4)).round(1)
    u[0] = 1.0
    values = consensus(u)
    for own, row in zip(u, values, strict=True):
        assert row == pytest.approx(normalized(own.mean(axis=1), "zscore"))
    assert first_best(values).tolist() == [next(in_order(row)) for row in values]
    assert first_best(np.array([[1.0, 1.0 + 1e-12]])).tolist() == [0]
