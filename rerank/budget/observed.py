"""One list while its plan runs: what is known beforehand, the budget, and the pairs that were computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .requests import Asking, BoolArray, Request


@dataclass(frozen=True, eq=False)
class Problem:
    """What is known of a list before a pair is computed.

    Args:
        shares: of each pseudo-reference in each hypothesis' expectation, [H, R]; rows sum to 1, or to 0 where nothing
            counts.
        prior: cheap utilities, [K, H, R]; None if there are none.
        selves: which column is the hypothesis itself, [H], -1 for none.
        pairs: how many may be computed.
        confidence: the plan may stop when its confidence is this high; None to use the whole budget.
        nbest: how many places are ranked.
        seed: of random draws.
    """

    shares: FloatArray
    prior: FloatArray | None
    selves: IntArray
    pairs: int
    confidence: float | None
    nbest: int
    seed: int

    @property
    def num_rows(self) -> int:
        """H."""
        return len(self.shares)

    @cached_property
    def columns(self) -> IntArray:
        """The pseudo-references that count for some hypothesis."""
        return np.flatnonzero(self.shares.any(axis=0))

    def random(self) -> np.random.Generator:
        """Draws that are the same in every run."""
        return np.random.default_rng(self.seed)


@dataclass(eq=False)
class Observed:
    """The pairs of a problem that were computed; those that were not are NaN."""

    problem: Problem
    utilities: FloatArray = field(init=False)  # [H, R]
    seen: BoolArray = field(init=False)  # [H, R]

    def __post_init__(self) -> None:
        shape = self.problem.shares.shape
        self.utilities = np.full(shape, np.nan)
        self.seen = np.zeros(shape, bool)

    @property
    def pairs(self) -> int:
        """How many were computed."""
        return int(self.seen.sum())

    @property
    def left(self) -> int:
        """How many may still be computed."""
        return self.problem.pairs - self.pairs

    @property
    def known(self) -> BoolArray:
        """Which pairs were computed and are numbers, [H, R]."""
        return self.seen & np.isfinite(self.utilities)

    @property
    def broken(self) -> BoolArray:
        """The rows with a pair that counts and is no number: they have no expectation, and are never chosen."""
        missing = self.seen & ~np.isfinite(self.utilities) & (self.problem.shares > 0)
        return np.asarray(missing.any(axis=1))

    def ask(self, rows: IntArray, columns: IntArray) -> Asking:
        """Has a block of pairs computed, none of which was; blocks without a pair are not asked for."""
        if not len(rows) or not len(columns):
            return
        block = np.ix_(rows, columns)
        self.utilities[block] = yield Request(rows, columns)
        self.seen[block] = True

    def sample_means(self) -> FloatArray:
        """The mean of every row's computed pairs by their shares, [H]; NaN of rows that have none or are broken."""
        shares = np.where(self.seen, self.problem.shares, 0.0)
        total = shares.sum(axis=1)
        with np.errstate(invalid="ignore"):  # rows of infinities have no mean
            sums = (np.where(shares > 0, self.utilities, 0.0) * shares).sum(axis=1)
        has_mean = (total > 0) & ~self.broken
        return np.where(has_mean, sums / np.where(total > 0, total, 1.0), np.nan)
