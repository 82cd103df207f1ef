"""What choosing gains over the best single system: differences of scores, and what too few documents cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discorank.rerank.chooser.chooser_fit import SHIP, STRENGTHS, Defaults, clustered_mean
from discorank.rerank.chooser.gains import (
    ENOUGH,
    UNKNOWN,
    ErrorRatio,
    ScoreGain,
    deviation_within,
    held_out,
    measured_difference,
    tells_nothing,
)
from discorank.rerank.chooser.measured import MeasuredTexts
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.chooser.training import learn, learn_by_scores


@dataclass(frozen=True)
class Crowd:
    """Consensus is of three systems alike; the fourth stands apart, and is `apart` points better on average."""

    apart: float
    documents: int = 15
    noise: float = 0.3

    def measured(self) -> MeasuredTexts:
        """Four segments a document; scores are negative, as those of which higher is better become."""
        random = np.random.default_rng(0)
        size = 4 * self.documents
        utilities = np.full((size, 4, 4), 50.0) + random.uniform(0, 1, (size, 4, 4))
        utilities[:, 3], utilities[:, :, 3] = 10.0, 10.0
        utilities[:, range(4), range(4)] = 100.0
        means = np.array([-4.0, -4.0, -4.0, -4.0 - self.apart])
        scores = means + random.normal(0, self.noise, (size, 4))
        columns = np.zeros((size, 4, 0))
        return MeasuredTexts(utilities, columns, scores, np.arange(size) // 4, scores)


def stubborn() -> Defaults:
    """Who believes in consensus, and nothing of systems."""
    losses = np.where(np.arange(len(STRENGTHS)) == 0, -1.0, 1.0)
    weights = np.full((len(STRENGTHS), 1), 5.0)
    return Defaults(weights, losses, np.zeros(len(STRENGTHS)))


def test_a_difference_is_in_deviations_within_segments() -> None:
    data = Crowd(1.0).measured()
    chosen, single = held_out(data, stubborn())
    unit = np.sqrt(np.mean([np.var(row) for row in data.scores]))
    assert deviation_within(data.scores) == pytest.approx(unit)
    mean, variance = clustered_mean((single - chosen) / unit, data.document)
    gain = measured_difference(data, stubborn())
    assert gain == pytest.approx((mean, variance**0.5))
    assert gain.difference < -1
    low, high = gain.interval
    assert (low + high) / 2 == pytest.approx(gain.difference)
    assert high - low == pytest.approx(2 * 1.96 * gain.deviation)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_scale_and_the_zero_of_scores_do_not_matter(scale: float) -> None:
    data = Crowd(0.2).measured()
    other = data._replace(errors=scale * data.errors + 7, scores=scale * data.scores + 7)
    defaults = shipped().defaults(0)
    assert measured_difference(other, defaults) == pytest.approx(
        measured_difference(data, defaults), abs=1e-9
    )


def test_texts_that_nobody_judged_are_no_deviation() -> None:
    assert deviation_within(np.array([[1.0, 3.0, np.nan], [np.nan, 5.0, 5.0]])) == pytest.approx(
        0.5**0.5
    )


def test_where_choosing_is_worse_by_scores_the_best_system_is_taken() -> None:
    data = Crowd(1.0).measured()
    learned, gain = learn_by_scores(data, stubborn())
    assert gain.is_worse
    assert gain.as_good
    assert learned.strength == SHIP
    assert set(learned.choices(data).tolist()) == {3}


def test_where_choosing_is_as_good_it_stays() -> None:
    """All systems are alike: no single system is better than what the crowd agrees on."""
    learned, gain = learn_by_scores(Crowd(0.0, documents=100).measured(), stubborn())
    assert not gain.is_worse
    assert learned.strength == 0.0


@pytest.mark.parametrize(
    ("gain", "is_worse", "as_good"),
    [
        (ScoreGain(-0.05, 1.0), True, True),
        (ScoreGain(-0.04, 1.0), False, False),
        (ScoreGain(0.0, 0.01), False, True),
        (ScoreGain(0.02, 0.01), False, False),
        (ScoreGain(0.0, np.inf), False, False),
    ],
)
def test_limits_of_a_difference(gain: ScoreGain, is_worse: bool, as_good: bool) -> None:
    assert gain.is_worse == is_worse
    assert gain.as_good == as_good


def test_three_documents_tell_no_difference() -> None:
    data = Crowd(1.0, documents=3).measured()
    learned, gain = learn_by_scores(data, stubborn())
    assert np.isinf(gain.deviation)
    assert learned.strength == 0.0
    nobody = data._replace(errors=np.full_like(data.errors, np.nan))
    assert np.isinf(learn_by_scores(nobody, stubborn())[1].deviation)


@pytest.mark.parametrize(("documents", "told"), [(6, False), (ENOUGH - 1, False), (ENOUGH, True)])
def test_few_documents_that_all_say_the_same_tell_nothing(documents: int, told: bool) -> None:
    """The fourth system is far better, and whoever knows of systems always takes it, as the single system."""
    data = Crowd(2.0, documents).measured()
    always = stubborn()._replace(losses=np.where(np.array(STRENGTHS) == SHIP, -1.0, 1.0))
    learned, gain = learn_by_scores(data, always)
    assert set(learned.choices(data).tolist()) == {3}
    assert (gain == (0.0, 0.0)) == told
    assert gain.as_good == told
    positive = np.abs(data.scores - data.scores.max() - 1)
    errors = data._replace(errors=np.sqrt(positive[:, ::-1]), scores=positive[:, ::-1])
    _, ratio = learn(errors, always, shipped().gain)
    assert (ratio == (0.0, 0.0)) == told
    assert (ratio == UNKNOWN) == (not told)


def test_a_deviation_is_knowledge() -> None:
    data = Crowd(1.0, documents=6).measured()
    assert tells_nothing(ErrorRatio(0.0, 0.0), data)
    assert not tells_nothing(ErrorRatio(0.0, 0.1), data)
