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
        spent: how many pairs were computed and which, and the statement on the choice.
        utilities: what was computed, NaN elsewhere, [H, R].
    """

    values: FloatArray
    spent: Spent
    utilities: FloatArray


class Found(NamedTuple):
    """The result of a search.

    Args:
        values: [H], NaN for those given up.
        evidence: for the choice; None where no pair is a number.
        stopped: whether a target was met before the budget was used up.
    """

    values: FloatArray
    evidence: Evidence | None
    stopped: bool


Plan = Generator[Request, FloatArray, Estimate]
Asking = Generator[Request, FloatArray, None]
Search = Generator[Request, FloatArray, Found]
