"""Scorer of the metrics that read the focus grid of a hypothesis alone: a value, and lines that explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Scorer
from ...text.texts import Item
from .foci import FocusReader, Grid, grid_of, merged
from .focus_scorer import packed, row_of, unpacked


class GridMetric(Protocol):
    """The value that a metric computes from a grid."""

    def value(self, grid: Grid, sentences: int) -> float:
        """The value of a text of so many sentences."""

    def shown(self, grid: Grid) -> list[str]:
        """The lines that explain the value."""

    def described(self, lines: Sequence[str]) -> dict[str, Any]:
        """The reasons of a value, from these lines."""


class GridValues(Scorer):
    """Compares and explains texts that are represented by "value" and "shared"."""

    metric: Any  # a GridMetric

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every hypothesis, [H, 1]."""
        return [reps["value"][block.hypotheses][:, None] for block in blocks]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The reasons of the hypothesis' value."""
        row = int(block.hypotheses[hypothesis])
        described: dict[str, Any] = self.metric.described(unpacked(row_of(reps["shared"], row)))
        return described


class GridScorer(GridValues):
    """Represents a text by its value and the lines that explain it.

    Args:
        metric: the settings.
        entities: the entity of every key of a text; keys stand for themselves if not given.
    """

    def __init__(
        self,
        metric: Any,
        entities: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    ) -> None:
        self.info = metric.info
        self.metric = metric
        self.entities = entities
        self.foci = FocusReader(metric)
        self.identity = f"{metric.signature()} {metric.info.version} {self.foci.identity}"

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Columns "value" [rows] and "shared", the lines; lengths in sentences."""
        grids = []
        lengths = []
        for item in items:
            foci = self.foci.read(item.text)
            grid = grid_of(foci.keys_by_sentence())
            grids.append(merged(grid, self.entities(list(grid))) if self.entities else grid)
            lengths.append(len(foci.sentences))
        return represented(self.metric, grids, lengths), np.array(lengths, np.int64)


def represented(metric: GridMetric, grids: Sequence[Grid], sentences: Sequence[int]) -> Reps:
    """The values of texts of so many sentences, and the lines that explain them."""
    values = [metric.value(grid, n) for grid, n in zip(grids, sentences, strict=True)]
    shown = Ragged.of_rows([packed(metric.shown(grid)) for grid in grids])
    return Reps({"value": np.array(values, np.float64), "shared": shown})
