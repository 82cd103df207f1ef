"""Bootstrap intervals by document: means of resampled groups of rows, many columns at a time.

A group is a document, or a block of ten segments where there are fewer than ten documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from discorank.metrics.representations import FloatArray, IntArray

RESAMPLES = 2000
FEW, BLOCK = 10, 10


def groups_of(documents: Sequence[str]) -> list[str]:
    """What is resampled together, for the document of every row.

    >>> groups_of(["a"] * 11)[9:]
    ['a/0', 'a/1']
    """
    if len(set(documents)) >= FEW:
        return list(documents)
    seen: dict[str, int] = {}
    blocks = []
    for document in documents:
        number = seen[document] = seen.get(document, -1) + 1
        blocks.append(f"{document}/{number // BLOCK}")
    return blocks


class Resampling:
    """Draws of groups, the same ones for every column of rows.

    Args:
        groups: of every row.
        resamples: how many draws.
        seed: of the draws.
    """

    def __init__(self, groups: Sequence[str], resamples: int = RESAMPLES, seed: int = 0) -> None:
        names, self.number = np.unique(np.asarray(groups), return_inverse=True)
        self.num_groups = len(names)
        random = np.random.default_rng(seed)
        drawn = random.integers(self.num_groups, size=(resamples, self.num_groups))
        # how often every group is in every draw, [resamples, groups]
        self.counts = np.stack([np.bincount(row, minlength=self.num_groups) for row in drawn])

    @classmethod
    def together(cls, groups: Sequence[Sequence[str]], seed: int = 0) -> list[Resampling]:
        """One for each of several sets of rows, drawing the same groups in all of them."""
        of_all = cls([group for own in groups for group in own], seed=seed)
        ends_of_sets = np.cumsum([len(own) for own in groups])[:-1]
        return [of_all._of(number) for number in np.split(of_all.number, ends_of_sets)]

    def _of(self, number: IntArray) -> Resampling:
        """The same draws for other rows, by the number of their group."""
        other = copy(self)
        other.number = number
        return other

    def sums(self, rows: FloatArray) -> FloatArray:
        """Sums of rows [n, ...] in every draw, [resamples, ...]."""
        of_groups = np.zeros((self.num_groups, *rows.shape[1:]))
        np.add.at(of_groups, self.number, rows)
        return np.asarray(np.tensordot(self.counts, of_groups, axes=1), np.float64)

    def means(self, rows: FloatArray) -> FloatArray:
        """Means of rows [n, ...] in every draw, [resamples, ...]."""
        sizes = self.sums(np.ones(len(rows)))
        sums = self.sums(rows)
        return np.asarray(sums / sizes.reshape(-1, *[1] * (sums.ndim - 1)), np.float64)


def ends(draws: FloatArray) -> tuple[float, float]:
    """The 95 % interval of the draws of one number."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def shown(value: float, draws: FloatArray, digits: int = 3, sign: str = "") -> str:
    """A number and its interval, as in ``0.31 [0.28, 0.35]``; `sign` is "+" for differences."""
    low, high = ends(draws)
    number = f"{sign}.{digits}f"
    return f"{value:{number}} [{low:{number}}, {high:{number}}]"
