"""Corrections of statements, fitted to truths that were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.statement import LOSS, ODDS, SLOPE_UNIT, Constants, Line
from discorank.rerank.budget_audit import PRECISION, UNSEEN, AuditedSteps, corrected, first

WIDTH = 17


def line(sign: int, kinds: dict[str, tuple[float, float]] | None = None) -> Line:
    """A line that is one sign."""
    coefficients = [0.0] * WIDTH
    coefficients[sign] = 1.0
    return Line(tuple(coefficients), kinds or {})


CONSTANTS = Constants(line(ODDS), line(LOSS), line(ODDS), line(LOSS), 0.5, 1.0)


def steps_of(number: int, shift: float, slope: float, seed: int = 0) -> AuditedSteps:
    """Lists of three steps each, whose truths are by that much other than the lines say."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(3 * number, WIDTH))
    chance = 1 / (1 + np.exp(-_shifted(features[:, ODDS], shift, slope)))
    loss = np.exp(np.minimum(_shifted(features[:, LOSS] - 2, shift, slope), 1))
    features[:, LOSS] -= 2
    return AuditedSteps(
        features,
        np.repeat(np.arange(number), 3),
        np.tile([False, False, True], number),
        (random.random(3 * number) < chance).astype(np.float64),
        loss,
    )


def _shifted(said: FloatArray, shift: float, slope: float) -> FloatArray:
    return said + shift + slope * said / SLOPE_UNIT


def test_what_lines_are_off_by_is_found() -> None:
    correction = corrected(steps_of(6000, -0.8, 0.6), CONSTANTS, "")
    assert correction.confidence[:2] == pytest.approx((-0.8, 0.6), abs=0.15)
    assert correction.regret[:2] == pytest.approx((-0.8, 0.6), abs=0.15)
    # stops are where much is said, so that shift and slope are told apart less well than their sum
    at_stop = correction.confidence_at_stop
    assert at_stop.shift + at_stop.slope * 2 / SLOPE_UNIT == pytest.approx(
        -0.8 + 0.6 * 2 / 3, abs=0.1
    )


def test_what_no_list_shows_changes_nothing() -> None:
    """No step meets a target of regret: the line at a stop, and its margin, stay."""
    steps = steps_of(50, 0.0, 0.0)
    steps.features[:, LOSS] = 1.0
    correction = corrected(steps._replace(regret=np.full(150, 4.0)), CONSTANTS, "")
    assert correction.regret_at_stop == UNSEEN
    assert UNSEEN.error > max(CONSTANTS.margin, CONSTANTS.factor)
    assert correction.confidence_at_stop.error < UNSEEN.error


def test_lines_that_are_true_stay() -> None:
    correction = corrected(steps_of(6000, 0.0, 0.0), CONSTANTS, "")
    for shift in (correction.confidence, correction.regret):
        assert shift[:2] == pytest.approx((0.0, 0.0), abs=0.15)
    at_stop = correction.confidence_at_stop
    assert at_stop.shift + at_stop.slope * 2 / SLOPE_UNIT == pytest.approx(0.0, abs=0.1)


def test_few_lists_say_little() -> None:
    """The more there are, the more of what they show is believed, and the smaller is the error."""
    found = [corrected(steps_of(n, -2.0, 0.0), CONSTANTS, "").confidence for n in (2, 20, 2000)]
    assert 0 > found[0].shift > found[1].shift > found[2].shift > -2.3
    assert PRECISION**-0.5 > found[0].error > found[1].error > found[2].error


def test_the_kind_s_own_line_is_corrected() -> None:
    """Truths as a known kind's line says leave nothing to correct."""
    of_kind = CONSTANTS._replace(confidence=line(ODDS, {"known": (-0.8, 0.6)}))
    steps = steps_of(6000, -0.8, 0.6)
    assert corrected(steps, of_kind, "known").confidence.shift == pytest.approx(0, abs=0.15)
    assert corrected(steps, of_kind, "").confidence.shift == pytest.approx(-0.8, abs=0.15)


def test_no_steps_are_no_correction() -> None:
    none = steps_of(0, 0.0, 0.0)
    for shift in corrected(none, CONSTANTS, ""):
        assert shift == UNSEEN


def test_the_first_step_that_meets() -> None:
    replays = np.array([0, 0, 0, 1, 1, 2])
    met = np.array([False, True, True, False, False, True])
    assert first(replays, met).tolist() == [1, 5]
