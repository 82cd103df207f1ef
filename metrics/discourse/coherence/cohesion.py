"""RC and LC (Wong and Kit 2012), as Zhao et al. 2023 use them: how much a text repeats its nouns.

    RC = sum of the counts of nouns with count >= 2 / number of different nouns
    LC = number of nouns with count >= 2 / number of different nouns

Both read the hypothesis alone and are 0 for a text without nouns; RC may exceed 1, and is FREQ times LC. More
repetition goes with lower human scores in the summaries of SummEval: as utilities both reward what readers do not like.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar

import numpy as np

from ...papers import WONG_2012, ZHAO_2023
from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item
from .foci import FocusMetric, FocusReader
from .focus_grid import Grid, grid_of
from .focus_scorer import packed, row_of, unpacked


@settings
class RC(FocusMetric):
    """Repetitions of nouns per noun."""

    name: ClassVar[str] = "rc"
    info: ClassVar[Info] = Info(
        summary="occurrences of repeated nouns per noun",
        papers=(WONG_2012, ZHAO_2023),
        unit="document",
        needs_references=False,
        bounds=(0, inf),
    )

    def load(self) -> CohesionScorer:
        """The finder of nouns."""
        return CohesionScorer(self)

    def value(self, grid: Grid) -> float:
        """RC of a grid."""
        return sum(len(places) for places in grid.values() if len(places) >= 2) / max(1, len(grid))


@settings
class LC(FocusMetric):
    """Share of nouns that come back."""

    name: ClassVar[str] = "lc"
    info: ClassVar[Info] = Info(
        summary="share of nouns that are repeated",
        papers=(WONG_2012, ZHAO_2023),
        unit="document",
        needs_references=False,
        bounds=(0, 1),
    )

    def load(self) -> CohesionScorer:
        """The finder of nouns."""
        return CohesionScorer(self)

    def value(self, grid: Grid) -> float:
        """LC of a grid."""
        return sum(len(places) >= 2 for places in grid.values()) / max(1, len(grid))


class CohesionScorer(Scorer):
    """Represents a text by its value and by the nouns that it repeats."""

    def __init__(self, metric: RC | LC) -> None:
        self.info, self.metric = metric.info, metric
        self.foci = FocusReader(metric)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Columns "value" [rows] and "repeated", names of nouns; lengths in sentences."""
        grids, lengths = [], []
        for item in items:
            foci = self.foci.read(item.text)
            grids.append(grid_of([noun.key for noun in found] for found in foci.found))
            lengths.append(len(foci.sentences))
        repeated = [
            packed([name for name, places in grid.items() if len(places) >= 2]) for grid in grids
        ]
        value = np.array([self.metric.value(grid) for grid in grids], np.float64)
        return Reps({"value": value, "repeated": Ragged.of_rows(repeated)}), np.array(
            lengths, np.int64
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every hypothesis, [H, 1]."""
        return [reps["value"][block.hypotheses][:, None] for block in blocks]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The nouns that the hypothesis repeats."""
        return {"repeated": unpacked(row_of(reps["repeated"], int(block.hypotheses[hypothesis])))}
