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
    stated,
)

# a confidence of 0.9 and a regret of 0.04 spreads, 100 pairs that are a quarter of those of 16 candidates
POSTERIOR = (1, log(9), log(0.04), 0, log(0.25), 0, 0, log(0.2), log(0.1), log(0.3))
FEATURES = np.array([*POSTERIOR, log(3), 0, log(3), 0, 0.5, log(1.4)])
EVIDENCE = Evidence(0.5, FEATURES)


def changed(**values: float) -> Evidence:
    """The evidence with other features."""
    names = ["odds", "loss", "candidates", "noise", "tails", "gap"]
    features = FEATURES.copy()
    for name, value in values.items():
        features[[1, 2, 5, 7, 10, 15][names.index(name)]] = value
    return Evidence(0.5, features)


def line(of: int, size: float) -> tuple[float, ...]:
    """Coefficients of one feature."""
    return tuple(size if i == of else 0.0 for i in range(len(FEATURES)))


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the posterior says, and half of its odds at a stop."""
    ours = Constants(line(1, 1.0), line(2, 1.0), line(1, 0.5), line(2, 1.0), 1.0, log(3))
    monkeypatch.setattr(statement, "fitted_constants", lambda: ours)


def odds(share: float) -> float:
    return log(share / (1 - share))


@pytest.mark.usefixtures("constants")
def test_a_statement_by_hand() -> None:
    raw = odds(0.9)
    said = stated(EVIDENCE, stopped=False)
    assert odds(said.confidence) == pytest.approx(raw - 1)
    assert (said.regret, said.spread) == pytest.approx((0.06, 0.5))
    at_stop = stated(EVIDENCE, stopped=True)
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
        assert target.met(EVIDENCE) is is_met


@pytest.mark.parametrize("stopped", [False, True])
def test_the_constants_say_more_where_more_is_known(stopped: bool) -> None:
    before = stated(changed(odds=0.0, loss=log(0.2)), stopped=stopped)
    after = stated(changed(odds=log(99), loss=log(0.002)), stopped=stopped)
    assert 0 < before.confidence < after.confidence < 1
    assert after.regret < before.regret


def test_regrets_have_a_most() -> None:
    """Of evidence unlike any other a loss is not said to be more than a few spreads."""
    strange = changed(tails=log(1e12), noise=log(1e-8), candidates=log(250), loss=log(3), gap=0.0)
    assert stated(strange, stopped=False).regret <= exp(1) * strange.spread
