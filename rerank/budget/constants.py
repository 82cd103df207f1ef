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


PAIRS = Constants(
    Line(
        (
            -0.5104,
            0.2927,
            -0.1282,
            -0.2276,
            0.1536,
            0.3412,
            0.0000,
            -0.1181,
            0.2016,
            -0.0718,
            0.0351,
            0.2256,
            -0.1363,
            -0.6641,
            1.8716,
            0.8429,
            0.0000,
        ),
        {"kernel": (-0.1880, 0.1493), "ter": (0.3498, 0.3933)},
    ),
    Line(
        (
            -1.9429,
            0.0084,
            0.1982,
            -0.0859,
            -0.2555,
            -0.4162,
            0.0000,
            0.5627,
            -0.3138,
            -0.2539,
            -0.1352,
            0.5911,
            0.0050,
            0.1409,
            -2.0050,
            -0.4410,
            0.0000,
        ),
        {"kernel": (0.7289, 0.2554), "ter": (-0.2730, 0.4403)},
    ),
    Line(
        (
            -0.3113,
            0.2767,
            -0.3681,
            -0.0951,
            0.0946,
            -0.1587,
            0.0000,
            0.0281,
            0.1697,
            -0.4112,
            -0.1029,
            -0.0615,
            -0.2516,
            -0.0584,
            0.8546,
            0.6567,
            0.0000,
        ),
        {"kernel": (-0.0512, -0.4639), "ter": (0.3037, 0.7461)},
    ),
    Line(
        (
            -0.4545,
            0.0612,
            0.6414,
            -0.0230,
            0.1166,
            0.2411,
            0.0000,
            0.1463,
            -0.0370,
            0.1927,
            0.0231,
            0.3280,
            0.1697,
            0.1188,
            -0.7342,
            -0.0627,
            0.0000,
        ),
        {"kernel": (0.1986, -0.5477), "ter": (-0.1933, 0.6000)},
    ),
    0.54,
    1.53,
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
