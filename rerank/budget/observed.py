"""One list while its plan runs: what is known beforehand, the budget, and the pairs that were computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .requests import Asking, BoolArray, Request
from .statement import NO_CORRECTION, Correction, Target


@dataclass(frozen=True, eq=False)
class Problem:
    """What is known of a list before a pair is computed.

    Args:
        shares: of each pseudo-reference in each hypothesis' expectation, [H, R]; rows sum to 1, or to 0 where nothing
            counts.
        prior: cheap utilities, [K, H, R]; None if there are none.
        selves: which column is the hypothesis itself, [H], -1 for none.
        pairs: how many may be computed.
        target: what stops the plan before its budget is used up.
        nbest: how many places are ranked.
        seed: of random draws.
        symmetric: whether u(h, r) = u(r, h), so that two texts are one pair; every hypothesis has then a column.
        addend: what is known of all utilities and added to what is computed, [H, R]; None for nothing.
        kind: of the utility, for what is stated.
        correction: of what is stated.
    """

    shares: FloatArray
    prior: FloatArray | None
    selves: IntArray
    pairs: int
    target: Target
    nbest: int
    seed: int
    symmetric: bool = False
    addend: FloatArray | None = None
    kind: str = ""
    correction: Correction = NO_CORRECTION

    @property
    def num_rows(self) -> int:
        """H."""
        return len(self.shares)

    @cached_property
    def columns(self) -> IntArray:
        """The pseudo-references that count for some hypothesis."""
        return np.flatnonzero(self.shares.any(axis=0))

    @cached_property
    def rows_of(self) -> IntArray:
        """The row of the text of each column, [R], -1 where it is no hypothesis."""
        rows = np.full(self.shares.shape[1], -1)
        has_own = np.flatnonzero(self.selves >= 0)
        rows[self.selves[has_own]] = has_own
        return rows

    @property
    def weighs_selves(self) -> bool:
        """Whether hypotheses have unequal shares in their own expectations."""
        rows = np.flatnonzero(self.selves >= 0)
        shares = self.shares[rows, self.selves[rows]]
        return bool(len(shares) and np.ptp(shares) > 0)

    def random(self) -> np.random.Generator:
        """Draws that are the same in every run."""
        return np.random.default_rng(self.seed)


@dataclass(eq=False)
class Observed:
    """The pairs of a problem that were computed, or are those the other way round; the others are NaN."""

    problem: Problem
    utilities: FloatArray = field(init=False)  # [H, R]
    seen: BoolArray = field(init=False)  # [H, R]
    pairs: int = 0  # how many were computed

    def __post_init__(self) -> None:
        shape = self.problem.shares.shape
        self.utilities = np.full(shape, np.nan)
        self.seen = np.zeros(shape, bool)

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

    def new_pairs(self, rows: IntArray, columns: IntArray) -> BoolArray:
        """Which pairs of a block would be computed if its columns were asked for one after the other."""
        is_new = ~self.seen[np.ix_(rows, columns)]
        if not self.problem.symmetric:
            return is_new
        place = np.full(self.seen.shape[1], len(columns))
        place[columns] = np.arange(len(columns))
        # the other way round it is a pair of an earlier column
        is_earlier = place[self.problem.selves[rows]][:, None] < np.arange(len(columns))
        is_inner = np.isin(self.problem.rows_of[columns], rows)
        return is_new & ~(is_earlier & is_inner)

    def ask(self, rows: IntArray, columns: IntArray) -> Asking:
        """Has those pairs of a block computed that are not seen, in blocks without a pair twice."""
        if self.problem.symmetric:
            yield from self._ask_among_themselves(rows, columns)
        unseen = ~self.seen[np.ix_(rows, columns)]
        patterns, places = np.unique(unseen, axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            if pattern.any():
                yield from self._ask_block(rows[places.ravel() == i], columns[pattern])

    def _ask_among_themselves(self, rows: IntArray, columns: IntArray) -> Asking:
        """The pairs of those texts that are rows and columns of a block: of both ways round, one is computed."""
        inner = rows[np.isin(self.problem.selves[rows], columns)]
        own = self.problem.selves[inner]
        is_new = ~self.seen[np.ix_(inner, own)].any(axis=1)
        yield from self._ask_block(inner[is_new], own[is_new])
        for row in inner[~is_new].tolist():
            unseen = own[~self.seen[row, own]]
            yield from self._ask_block(np.array([row]), unseen)

    def _ask_block(self, rows: IntArray, columns: IntArray) -> Asking:
        """Has a block of unseen pairs computed; a square one of a symmetric utility has pairs of two or one text."""
        if not len(rows) or not len(columns):
            return
        block = np.ix_(rows, columns)
        utilities = yield Request(rows, columns)
        self._set(block, utilities)
        self.pairs += utilities.size
        if not self.problem.symmetric:
            return
        if np.array_equal(self.problem.selves[rows], columns):
            self.pairs -= len(rows) * (len(rows) - 1) // 2
        self._set(np.ix_(self.problem.rows_of[columns], self.problem.selves[rows]), utilities.T)

    def _set(self, block: tuple[IntArray, ...], utilities: FloatArray) -> None:
        """Takes the computed utilities of a block."""
        addend = self.problem.addend
        self.utilities[block] = utilities if addend is None else utilities + addend[block]
        self.seen[block] = True

    def sample_means(self) -> FloatArray:
        """The mean of every row's computed pairs by their shares, [H]; NaN of rows that have none or are broken."""
        shares = np.where(self.seen, self.problem.shares, 0.0)
        total = shares.sum(axis=1)
        with np.errstate(invalid="ignore"):  # rows of infinities have no mean
            sums = (np.where(shares > 0, self.utilities, 0.0) * shares).sum(axis=1)
        has_mean = (total > 0) & ~self.broken
        return np.where(has_mean, sums / np.where(total > 0, total, 1.0), np.nan)
