"""What is compared with what in two documents that are aligned, or read in windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..scorer import Scoring
from ..text.texts import Comparison
from .aligned_plan import AlignedPlan, OwnMeans
from .evaluate import compared_blocks
from .failures import failures_named
from .folded_blocks import Folded
from .store import Store
from .window_plan import WindowPiece, WindowPlan


class Link(NamedTuple):
    """Two units that belong together, their share of the value of their documents, and their own value."""

    comparison: Comparison
    share: float
    value: float


def links_of_pair(metric: Scoring, pair: Comparison, store: Store) -> list[Link]:
    """What is compared with what in one document and one reference or its source; of aligned ones, or of windows."""
    is_windowed = metric.documents.windows is not None
    plan = WindowPlan(metric, pair).of_pair if is_windowed else AlignedPlan(metric, pair)
    (piece,) = plan.pieces
    if isinstance(piece, OwnMeans):
        return []
    with failures_named(metric.signature()):
        spreads = [Folded.of(block) for block in store.add(piece.comparisons)]
        compared = compared_blocks(metric.scorer, store, [spread.block for spread in spreads])
        of_units = [spread.spread(u) for spread, u in zip(spreads, compared, strict=True)]
    if isinstance(piece, WindowPiece):
        values = [float(matrix[0, 0]) for matrix in of_units]
        return list(map(Link, piece.comparisons, piece.weights, values))
    links, matrix = piece.links(of_units), piece.matrix(of_units)
    result = []
    for row, column, share in zip(links.row_unit, links.column_unit, links.share, strict=True):
        comparison = piece.sides.comparison(np.array([row]), np.array([column]))
        result.append(Link(comparison, float(share), float(matrix[row, column])))
    return result
