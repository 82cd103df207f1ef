"""What is stated, from evidence and constants, by hand."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from discorank.rerank.budget import statement
from discorank.rerank.budget.statement import (
    Constants,
    Evidence,
    Target,
    features_of,
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


def line(of: int, size: float) -> tuple[float, ...]:
    """Coefficients of one feature."""
    return tuple(size if i == of else 0.0 for i in range(NUM_FEATURES))


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the posterior says, and half of its odds at a stop."""
    ours = Constants(line(1, 1.0), line(2, 1.0), line(1, 0.5), line(2, 1.0), 1.0, log(3))
    monkeypatch.setattr(statement, "fitted_constants", lambda: {"pairs": ours})


def odds(share: float) -> float:
    return log(share / (1 - share))


@pytest.mark.usefixtures("constants")
def test_a_statement_by_hand() -> None:
    raw = odds((0.9 * 1000 + 0.5) / 1001)
    said = stated(EVIDENCE, of_scores=False, stopped=False)
    assert odds(said.confidence) == pytest.approx(raw - 1)
    assert (said.regret, said.spread) == pytest.approx((0.06, 0.5))
    at_stop = stated(EVIDENCE, of_scores=False, stopped=True)
    assert odds(at_stop.confidence) == pytest.approx(raw / 2 - 1)


@pytest.mark.usefixtures("constants")
def test_every_bound_of_a_target_is_met() -> None:
    """The confidence at a stop is 0.525, and the regret 0.12 spreads."""
    for target, is_met in (
        (Target(0.52), True),
        (Target(0.53), False),
        (Target(regret=0.121), True),
        (Target(regret=0.119), False),
        (Target(0.52, 0.119), False),
        (Target(0.52, 0.121), True),
    ):
        assert target.met(EVIDENCE, of_scores=False) is is_met


@pytest.mark.parametrize("of_scores", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
def test_the_constants_say_more_where_more_is_known(of_scores: bool, stopped: bool) -> None:
    before = stated(EVIDENCE._replace(confidence=0.5, regret=0.1), of_scores, stopped=stopped)
    after = stated(EVIDENCE._replace(confidence=0.99, regret=0.001), of_scores, stopped=stopped)
    assert 0 < before.confidence < after.confidence < 1
    assert after.regret < before.regret


def test_regrets_have_a_most() -> None:
    """Of evidence unlike any other a loss is not said to be more than a few spreads."""
    strange = EVIDENCE._replace(tails=1e12, noise=1e-8, candidates=4000, regret=np.inf, gap=0.0)
    assert stated(strange, of_scores=False, stopped=False).regret <= exp(1) * strange.spread
