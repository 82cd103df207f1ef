"""The constants of statements, as `benchmarks/budget/calibration.py` fitted them on the replays in docs/budget.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Line(NamedTuple):
    """A linear function of signs, with shift and slope of known kinds of utilities."""

    coefficients: tuple[float, ...]
    kinds: Mapping[str, tuple[float, float]]


class Constants(NamedTuple):
    """What is said of the lists of a budget.

    Args:
        confidence, regret: where the whole budget is used.
        confidence_at_stop, regret_at_stop: at a stop.
        margin: logits by which the confidence was too high on a kind that it was not fitted on.
        factor: log by which the regret was too low on such a kind.
    """

    confidence: Line
    regret: Line
    confidence_at_stop: Line
    regret_at_stop: Line
    margin: float
    factor: float

    def lines(self, stopped: bool) -> tuple[Line, Line]:
        """Those of confidence and regret."""
        if stopped:
            return self.confidence_at_stop, self.regret_at_stop
        return self.confidence, self.regret


_ODDS = Line((0.0, 1.0, *[0.0] * 15), {})
_LOSS = Line((0.0, 0.0, 1.0, *[0.0] * 14), {})
# the posterior's own figures, for methods on whose replays nothing was fitted
PLAIN = Constants(_ODDS, _LOSS, _ODDS, _LOSS, 1.0, 1.0)

PAIRS = Constants(
    Line(
        (
            -0.5480,
            0.3002,
            -0.1557,
            -0.2674,
            0.2019,
            0.4178,
            -0.3572,
            -0.0380,
            0.2003,
            -0.1510,
            0.0207,
            0.0649,
            -0.1350,
            -0.5377,
            1.8496,
            0.8612,
            0.0000,
        ),
        {"kernel": (-0.0938, 0.0836), "ter": (0.5115, 0.2389)},
    ),
    Line(
        (
            -1.6732,
            -0.0151,
            0.1724,
            -0.1121,
            -0.1956,
            -0.3146,
            -0.3777,
            0.4979,
            -0.3003,
            -0.2017,
            -0.1446,
            0.5247,
            0.0057,
            0.1256,
            -2.1494,
            -0.4276,
            0.0000,
        ),
        {"kernel": (0.5979, 0.2278), "ter": (-0.3786, 0.2331)},
    ),
    Line(
        (
            -0.0671,
            0.2613,
            -0.3396,
            -0.1033,
            0.1447,
            -0.0897,
            -0.5142,
            0.1678,
            0.1542,
            -0.5679,
            -0.1009,
            -0.2370,
            -0.2550,
            -0.0297,
            0.8644,
            0.6189,
            0.0000,
        ),
        {"kernel": (0.0063, -0.3430), "ter": (0.2667, 0.7065)},
    ),
    Line(
        (
            -0.5650,
            0.0029,
            0.5642,
            -0.0432,
            -0.0083,
            0.2446,
            -0.1405,
            0.1857,
            0.0107,
            0.2110,
            -0.0337,
            0.4483,
            0.1870,
            -0.2359,
            -0.8601,
            -0.1197,
            0.0000,
        ),
        {"kernel": (0.1392, -0.5082), "ter": (-0.2379, 0.5171)},
    ),
    0.43,
    1.43,
)
SCORES = Constants(
    Line(
        (
            5.5815,
            0.2701,
            0.1654,
            -0.0293,
            1.7383,
            -1.7676,
            0.0000,
            0.7967,
            0.0886,
            -0.3029,
            -0.1907,
            0.2301,
            0.0000,
            0.0000,
            0.0000,
            0.7511,
            -0.3245,
        ),
        {},
    ),
    Line(
        (
            -3.1956,
            -0.2648,
            -0.1416,
            0.5826,
            -1.7216,
            2.3042,
            0.0000,
            -0.8244,
            0.5007,
            0.5085,
            0.0296,
            -0.2628,
            0.0000,
            -0.0000,
            -0.0000,
            -0.8316,
            0.7104,
        ),
        {},
    ),
    Line(
        (
            6.3538,
            0.1592,
            0.1303,
            0.4841,
            0.8149,
            -0.3308,
            0.0000,
            0.4856,
            0.3014,
            -0.0558,
            -0.0837,
            0.2371,
            0.0000,
            0.0000,
            0.0000,
            0.5867,
            -0.1935,
        ),
        {},
    ),
    Line(
        (
            -4.5314,
            -0.0724,
            0.2141,
            -0.2538,
            -0.3669,
            0.1130,
            0.0000,
            -0.2373,
            -0.0871,
            0.0061,
            -0.0056,
            -0.2105,
            0.0000,
            -0.0000,
            -0.0000,
            -0.3624,
            0.2490,
        ),
        {},
    ),
    0.70,
    0.59,
)
