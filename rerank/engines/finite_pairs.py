"""How many pairs of a list have a finite value: a list without any is an error, one where some have none is flagged.

A part of weight 0 is no part of a sum: nothing of it is looked at. Of a matrix every pair is, whatever its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from ...metrics.errors import MetricError
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray

FLAG = "not-finite"


class PairCounts(NamedTuple):
    """The pairs of a list under one metric that are finite, and those that are not, by what they are."""

    finite: int = 0
    nan: int = 0
    inf: int = 0
    negative_inf: int = 0

    @classmethod
    def of(cls, matrix: FloatArray) -> Self:
        """The counts of a matrix of any shape."""
        finite = int(np.isfinite(matrix).sum())
        if finite == matrix.size:
            return cls(finite)
        return cls(
            finite,
            nan=int(np.isnan(matrix).sum()),
            inf=int(np.isposinf(matrix).sum()),
            negative_inf=int(np.isneginf(matrix).sum()),
        )

    def plus(self, other: PairCounts) -> PairCounts:
        """Those of two parts of a matrix."""
        return PairCounts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def not_finite(self) -> int:
        """How many pairs have no finite value."""
        return self.nan + self.inf + self.negative_inf

    def __str__(self) -> str:
        """Counts of values that are not finite, in words: ``3 nan, 1 inf``."""
        counts = {"nan": self.nan, "inf": self.inf, "-inf": self.negative_inf}
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n)


def pairs_error(utility: Utility, counts: Sequence[PairCounts]) -> MetricError | None:
    """The error of a list in which a part of the utility has no finite pair; None where every part has one."""
    for (weight, part), of_part in zip(utility.parts, counts, strict=True):
        if weight and of_part.not_finite and not of_part.finite:
            problem = f"no pair has a finite value, found {of_part}"
            fix = "Look at the metric's model and at the texts of the list"
            return MetricError(problem, where=part.signature(), fix=fix)
    return None


def pairs_flags(utility: Utility, counts: Sequence[PairCounts]) -> tuple[str, ...]:
    """The flag of a list in which some pairs have no finite value."""
    for (weight, _), of_part in zip(utility.parts, counts, strict=True):
        if weight and of_part.not_finite:
            return (FLAG,)
    return ()
