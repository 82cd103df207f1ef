"""Requests and results of a plan for a part of a utility matrix.

A plan is a generator. It yields a `Request`, is sent the utilities [rows, columns] of that block (higher is better),
and returns an `Estimate` when it needs no more or its budget is used up. It never asks for a pair twice.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.representations import FloatArray, IntArray
from ..choice import Spent
from .statement import Evidence

BoolArray = NDArray[np.bool_]


class Request(NamedTuple):
    """A block of pairs: all of these hypotheses with all of these pseudo-references."""

    rows: IntArray  # [h]
    columns: IntArray  # [r]


class Estimate(NamedTuple):
    """Expected utilities of a list, and what is known of them.

    Args:
        values: estimated expected utilities [H], higher is better; NaN for hypotheses that were given up.
        pairs: how many pairs were computed; of a symmetric utility, two texts are one pair.
        of: how many the whole matrix has.
        confidence: the probability that the whole matrix would choose the same hypothesis, or with `nbest` the same
            set of them.
        at_least: what the confidence is also of utilities of a kind that is not known.
        regret: the expected loss by that in expected utility, on average over the places.
        at_most: what the regret is also of utilities of a kind that is not known.
        spread: the standard deviation of the list's expected utilities, as estimated.
        utilities: what was computed, NaN elsewhere, [H, R].
        computed: which pairs were, [H, R]; of a symmetric utility both ways round.
        steps: what was known of the choice at every step, of which the last made the statement; none where all or
            next to nothing was computed.
    """

    values: FloatArray
    pairs: int
    of: int
    confidence: float
    at_least: float
    regret: float
    at_most: float
    spread: float
    utilities: FloatArray
    computed: BoolArray
    steps: tuple[Evidence, ...] = ()

    @property
    def spent(self) -> Spent:
        """The fields of a row."""
        return Spent(
            self.pairs,
            self.of,
            self.confidence,
            self.at_least,
            self.regret,
            self.at_most,
            self.spread,
            self.computed,
            self.steps,
        )


class Found(NamedTuple):
    """The result of a method.

    Args:
        values: [H], NaN for those given up.
        steps: what was known of the choice at every step at which a target was looked at, and at the end; none if the
            method knows of none.
        stopped: whether a target was met before the budget was used up.
    """

    values: FloatArray
    steps: tuple[Evidence, ...] = ()
    stopped: bool = False


Plan = Generator[Request, FloatArray, Estimate]
Asking = Generator[Request, FloatArray, None]
Search = Generator[Request, FloatArray, Found]
