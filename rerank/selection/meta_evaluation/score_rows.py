"""Tables of people's and a metric's scores, [S, N] by system and segment, as the rows over which agreement is averaged.

Averaging "none" takes all texts as one row, "sys" a row per system (over segments), "item" a row per segment (over
systems). What people did not score (nan) goes, with the metric's score of it; a row of fewer than two texts is none.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ....metrics.errors import InputError, unknown
from ....metrics.representations import FloatArray, IntArray

Averaging = Literal["none", "sys", "item"]
AVERAGINGS = ("none", "sys", "item")
Row = tuple[FloatArray, FloatArray]  # people's scores [n], the metric's [n]


def row_cells(human: FloatArray, averaging: Averaging) -> list[IntArray]:
    """The cells of a table [S, N] that make each row, as indices into the flattened table.

    Raises:
        InputError: an unknown averaging.
    """
    if averaging not in AVERAGINGS:
        raise unknown("averaging", averaging, AVERAGINGS, where="averaging")
    cells = np.arange(human.size).reshape(human.shape)
    groups = {"none": [cells.ravel()], "sys": list(cells), "item": list(cells.T)}[averaging]
    is_scored = ~np.isnan(human.ravel())
    rows = [group[is_scored[group]] for group in groups]
    return [row for row in rows if len(row) > 1]


def score_rows(human: FloatArray, metric: FloatArray, averaging: Averaging) -> list[Row]:
    """The rows of two tables; errors as `check_tables` and `row_cells`."""
    check_tables(human, metric)
    flat_human, flat_metric = human.ravel(), metric.ravel()
    return [(flat_human[row], flat_metric[row]) for row in row_cells(human, averaging)]


def check_tables(human: FloatArray, *metrics: FloatArray) -> None:
    """Raises InputError unless tables are of one shape [S, N] and metrics score whatever people scored."""
    for metric in metrics:
        if human.ndim != 2 or metric.shape != human.shape:
            raise InputError(
                f"people's scores {human.shape}, the metric's {metric.shape}",
                where="agreement",
                fix="Give tables of the same systems and segments",
            )
        lacking = ~np.isnan(human) & ~np.isfinite(metric)
        if lacking.any():
            system, segment = np.argwhere(lacking)[0]
            raise InputError(
                f"the metric has no score of system {system}, segment {segment}, but people have",
                where="agreement",
                fix="Score every text, or leave the system out",
            )
