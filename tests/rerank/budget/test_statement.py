"""What is stated, from evidence and constants, by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from discorank.rerank.budget import statement
from discorank.rerank.budget.statement import (
    SCORES_OF_TEXTS,
    Constants,
    Evidence,
    Line,
    Target,
    features_of,
    fitted_constants,
    stated,
)

EVIDENCE = Evidence(
    confidence=0.9,
    regret=0.02,
    spread=0.5,
    pairs=100,
    share=0.25,
    candidates=16,
    places=1,
    noise=0.2,
    row=0.1,
    column=0.3,
    tails=3.0,
    ties=0.0,
    self_gap=2.0,
    settled=0.5,
    gap=0.4,
    step=0.0,
)
NUM_FEATURES = len(features_of(EVIDENCE))


def line(of: int, size: float, **kinds: tuple[float, float]) -> Line:
    """A line on one sign."""
    coefficients = [0.0] * NUM_FEATURES
    coefficients[of] = size
    return Line(tuple(coefficients), kinds)


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> Constants:
    """What the posterior says, and half of its odds at a stop."""
    ours = Constants(
        line(1, 1.0, known=(0.5, 0.0)),
        line(2, 1.0, known=(log(2), 0.0)),
        line(1, 0.5, known=(0.0, 1.5)),
        line(2, 1.0, known=(0.0, 0.0)),
        1.0,
        log(3),
    )
    monkeypatch.setattr(statement, "fitted_constants", lambda: {"pairs": ours})
    return ours


def odds(share: float) -> float:
    return log(share / (1 - share))


@pytest.mark.usefixtures("constants")
def test_a_statement_by_hand() -> None:
    """Of a kind that is not known, the bounds are wider; of one that is, the figures are the bounds."""
    of_new = stated(EVIDENCE, "new", stopped=False)
    raw = odds((0.9 * 1000 + 0.5) / 1001)
    assert odds(of_new.confidence) == pytest.approx(raw)
    assert odds(of_new.at_least) == pytest.approx(raw - 1)
    assert (of_new.regret, of_new.at_most, of_new.spread) == pytest.approx((0.02, 0.06, 0.5))
    of_known = stated(EVIDENCE, "known", stopped=False)
    assert odds(of_known.confidence) == pytest.approx(raw + 0.5)
    assert of_known.at_least == of_known.confidence
    assert of_known.regret == of_known.at_most == pytest.approx(0.04)


@pytest.mark.usefixtures("constants")
def test_a_stop_is_judged_by_itself() -> None:
    raw = odds((0.9 * 1000 + 0.5) / 1001)
    assert odds(stated(EVIDENCE, "new", stopped=True).confidence) == pytest.approx(raw / 2)
    # a slope of 1.5 for every three of the sign
    assert odds(stated(EVIDENCE, "known", stopped=True).confidence) == pytest.approx(raw)


@pytest.mark.usefixtures("constants")
def test_every_bound_of_a_target_is_met() -> None:
    assert Target(0.89).met(EVIDENCE, "known")
    assert not Target(0.89).met(EVIDENCE, "new")
    assert Target(regret=0.041).met(EVIDENCE, "known")
    assert not Target(regret=0.039).met(EVIDENCE, "known")
    assert not Target(regret=0.041).met(EVIDENCE, "new")
    assert not Target(0.89, 0.039).met(EVIDENCE, "known")
    assert Target(0.89, 0.041).met(EVIDENCE, "known")
    assert not replace(Target(), confidence=0.95).met(EVIDENCE, "known")


@pytest.mark.parametrize(
    ("kind", "name"), [("", "pairs"), ("ter", "pairs"), (SCORES_OF_TEXTS, "scores")]
)
@pytest.mark.parametrize("stopped", [False, True])
def test_the_constants_say_more_where_more_is_known(kind: str, name: str, stopped: bool) -> None:
    """A posterior that is surer says so, and the bounds are the figures of known kinds alone."""
    ours = fitted_constants()[name]
    before = stated(EVIDENCE._replace(confidence=0.5, regret=0.1), kind, stopped=stopped)
    after = stated(EVIDENCE._replace(confidence=0.99, regret=0.001), kind, stopped=stopped)
    assert 0 < before.confidence < after.confidence < 1
    assert after.regret < before.regret
    assert (before.at_least == before.confidence) == (kind in ours.confidence.kinds)
    assert before.at_least <= before.confidence
    assert before.regret <= before.at_most
    for of_kind in ours.lines(stopped):
        assert len(of_kind.coefficients) == NUM_FEATURES


def test_regrets_have_a_most() -> None:
    """Of evidence unlike any other a loss is not said to be more than a few spreads."""
    strange = EVIDENCE._replace(tails=1e12, noise=1e-8, candidates=4000, regret=np.inf, gap=0.0)
    assert stated(strange, "", stopped=False).at_most <= exp(1) * strange.spread
