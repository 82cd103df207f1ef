"""A loaded metric in one process (`Scorer`), and what is known of a metric before it is loaded (`Info`, `Reading`).

A scorer speaks the paper's language: a distance stays a distance. It knows no files, lists, weights, caches or Ray.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np

from .representations import Block, FloatArray, IntArray, Reps
from .text.texts import Item, Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Facts of a metric for engines and documentation, known without loading it."""

    summary: str  # one line for people
    papers: tuple[str, ...] = ()  # where it comes from: keys of papers.bib
    reasons: str = ""  # what `describe` says, for people: each of its words, and scale and direction of its numbers
    unit: Literal["segment", "document"] = "segment"
    needs_source: bool = False
    # reads the source where there is one, and goes without where there is none
    takes_source: bool = False
    needs_references: bool = True
    higher_is_better: bool = True
    bounds: tuple[float, float] = (-inf, inf)  # of the paper's number
    symmetric: bool = False  # with default settings u(h, r) = u(r, h)
    multi_reference: Literal["best", "mean", "custom"] = "best"  # custom: by `compare_multi`
    linear: bool = False  # the scorer implements `expected`
    # `represent` runs a model: it wants batches of similar length under a budget
    bucketed: bool = False
    # comparing two texts takes more than algebra over their representations: a forward pass, a search, a call
    costly_pairs: bool = False
    may_lack: bool = False  # a text may have no score (nan): it is left out of means
    version: int = 1  # raised whenever a score changes, or the columns of a representation


class Reading(NamedTuple):
    """How many preceding sentences an item carries, and whose target context a hypothesis is read in.

    In whole documents that are compared pairwise it is the hypothesis's own, unless `everywhere`: then every hypothesis
    is read in the context of every reference.
    """

    context: int = 0
    context_from: str = "reference"
    everywhere: bool = False

    @classmethod
    def of_setting(cls, context: int, context_from: str | None) -> Reading:
        """As a setting has it: whose context; None is the reference's but for whole documents compared pairwise."""
        return cls(context, context_from or "reference", context_from == "reference")


class WrittenAnswer(NamedTuple):
    """The answer that a text ends in: as it is written, and a key that is that of every answer it agrees with."""

    text: str
    key: str


class Passes(NamedTuple):
    """Forward passes of a model: the tokens of each, [n], and the floating point operations of all."""

    lengths: IntArray
    flops: float


class Requested(NamedTuple):
    """Requests to a server: about how many tokens each has, by its key, and what counts those already answered."""

    tokens: Mapping[bytes, int]
    num_answered: Callable[[Sequence[bytes]], int]


class Scorer(ABC):
    """A loaded metric in one process."""

    info: Info
    # where `info.bucketed`: summed lengths of one `represent` batch
    batch_tokens: int = 4096
    # where `info.bucketed`: all that representations depend on beside the item, as part of a cache's keys
    identity: str = ""

    @abstractmethod
    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Reads items on the CPU (tokenise, count, label): columns, and the length of each item.

        A column `TRUNCATION_COLUMN` says what was left out of each text, a `Truncation`; none means nothing.
        """

    def represent(self, prepared: Reps) -> Reps:
        """The expensive step; where `info.bucketed`, on batches in order of length.

        Row i depends on row i alone, to the last bit on a CPU. The engine keeps the `TRUNCATION_COLUMN`.
        """
        return prepared

    @abstractmethod
    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block ([H, 1] when reference-free); blocks arrive by the hundred.

        A value depends on its pair alone, to the last bit: not on the other pairs or blocks of the call.
        """

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H] of every block: each hypothesis against all references of its block together.

        A hypothesis has no finite value where it has none against one of them.
        """
        matrices = self.compare(reps, blocks)
        if self.info.multi_reference == "mean":
            return [matrix.mean(axis=1) for matrix in matrices]
        best = np.max if self.info.higher_is_better else np.min
        results = []
        for matrix in matrices:
            is_finite = np.isfinite(matrix).all(axis=1)
            results.append(np.where(is_finite, best(matrix, axis=1), np.nan))
        return results

    def expected(
        self,
        reps: Reps,
        blocks: Sequence[Block],
        weights: Sequence[FloatArray],
    ) -> list[FloatArray]:
        """Values [H] averaged under reference weights [R] that sum to one, without the matrix (if `info.linear`)."""
        raise TypeError(f"{type(self).__name__} has no linear form")

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of the forward passes that `compare` needs for a block; 0 where pairs are plain algebra."""
        return 0

    def passes(self, reps: Reps, block: Block) -> Passes:
        """The forward passes that the texts of a block and its pairs need, from what `prepare` made of the texts."""
        return Passes(np.empty(0, np.int64), 0.0)

    def requested(self, reps: Reps, block: Block) -> Requested | None:
        """The requests to a server that a block needs, from what `prepare` made of the texts; None: no server."""
        return None

    def spent(self) -> Mapping[str, int]:
        """Amounts of `Metered` that the scorer alone knows, since this was last asked: what a server was asked."""
        return {}

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """The most that is left out of any pair of a block, where pairs are read together."""
        return Truncation.NONE

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Statistics [n, columns] of n one-hypothesis blocks, from which `aggregate` makes corpus scores."""
        compare = self.compare_multi if self.info.needs_references else self.compare
        values = compare(reps, blocks)
        return np.concatenate([value.ravel() for value in values])[:, None]

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """Values [n] of n one-hypothesis blocks as `compare_multi` has them, and their `statistics` [n, columns].

        For scorers that have both of one comparison; by default those of two.
        """
        compare = self.compare_multi if self.info.needs_references else self.compare
        values = np.array([value.item() for value in compare(reps, blocks)], np.float64)
        if type(self).statistics is Scorer.statistics:
            return values, values[:, None]
        return values, self.statistics(reps, blocks)

    def aggregate(self, statistics: FloatArray) -> float:
        """The corpus score of some rows of `statistics`; by default the mean of segment scores."""
        return float(statistics[:, 0].mean())

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray | None:
        """Corpus scores [b] from b sums of rows of `statistics` [b, columns] and how many rows each sums up [b].

        Equal to `aggregate` of those rows up to rounding; None where the score does not follow from sums.
        """
        is_mean = type(self).aggregate is Scorer.aggregate
        return sums[:, 0] / rows if is_mean else None

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Why a pair (positions in the block) got its value, as JSON data for `explain` and `report`."""
        return {}
