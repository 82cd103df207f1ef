"""The heat map: which system is better than which, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..metrics.representations import IntArray
from ..rerank.selection.kept_comparison import KeptScores
from .plots import MAX_LETTERS_SQUARE, rows_figure
from .svg import COLOURS, drawing, inline, label

MAX_SIGNS = 40  # systems; of more, a heat map shows colours alone
LEVELS = (0.001, 0.01)  # and the level of the comparison
# the cells of a heat map are indices here: NEUTRAL + grade, or OWN on the diagonal
CELL_COLOURS = ("worse3", "worse2", "worse1", "neutral", "better1", "better2", "better3", "own")
NEUTRAL, OWN = CELL_COLOURS.index("neutral"), CELL_COLOURS.index("own")


def heat_map(scores: KeptScores, level: float, name: str) -> str:
    """Which system is better than which, by p: the row against the column, best first."""
    systems = [scores.systems[s] for s in scores.order]
    n = len(systems)
    cells = _heat_map_cells(scores, level)
    with drawing(name) as package:
        figure, axes = rows_figure(package, systems, square=True)
        for i, row in enumerate(cells):
            _draw_row(axes, i, row)
        if n <= MAX_SIGNS:
            _draw_signs(axes, cells)
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_xticks(
            range(n), [label(system, MAX_LETTERS_SQUARE) for system in systems], rotation=90
        )
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        about = f"{scores.name}: significance of every pair of systems, the row against the column"
        return inline(figure, about)


def _heat_map_cells(scores: KeptScores, level: float) -> IntArray:
    """The colour of every pair, best first, as an index into `CELL_COLOURS`, [n, n]."""
    n = len(scores.systems)
    stricter = [grade for grade in LEVELS if grade < level]
    grades = sorted({*stricter, level})[-3:]
    cells = np.full((n, n), OWN)
    for i, a in enumerate(scores.order):
        for j, b in enumerate(scores.order):
            if a != b:
                cells[i, j] = NEUTRAL + _grade(scores, a, b, grades)
    return cells


def _draw_row(axes: Any, i: int, cells: IntArray) -> None:
    """Row `i` of a heat map, one bar for every run of cells of one colour."""
    starts = [0, *(np.flatnonzero(np.diff(cells)) + 1)]
    ends = [*starts[1:], len(cells)]
    runs = [(start - 0.5, end - start) for start, end in zip(starts, ends, strict=True)]
    colours = [COLOURS[CELL_COLOURS[cells[start]]] for start in starts]
    axes.broken_barh(runs, (i - 0.5, 1), facecolors=colours, edgecolor="face")


def _draw_signs(axes: Any, cells: IntArray) -> None:
    """+ and − in the cells of systems that are told apart."""
    rows, columns = np.nonzero((cells != NEUTRAL) & (cells != OWN))
    for i, j in zip(rows, columns, strict=True):
        axes.text(
            j,
            i,
            "+" if cells[i, j] > NEUTRAL else "−",
            ha="center",
            va="center_baseline",
            color=COLOURS["ink"],
        )


def _grade(scores: KeptScores, a: int, b: int, grades: Sequence[float]) -> int:
    """0 where two systems are not told apart, else 1 to 3, negative where a is worse."""
    p, score_a, score_b = scores.p(a, b), scores.scores[a], scores.scores[b]
    steps = sum(p < grade for grade in grades)
    if not steps or score_a is None or score_b is None or score_a == score_b:
        return 0
    return steps if (score_a > score_b) == scores.higher_is_better else -steps
