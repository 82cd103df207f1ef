"""What people judged in several respects, as one score of every text, by weights.

    v_is = sum_d w_d (y_isd - mean_d) / sd_d / sum_d w_d,       sd_d^2 = mean_is (y_isd - mean_s y_isd)^2
for text s of segment i, over the texts that were judged in every dimension d, y turned so that higher is better. sd is
the deviation within segments: how far the texts of one segment lie apart, which is what a choice among them sees, and
not how segments differ. A dimension in which no two texts of a segment differ adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray
from ...metrics.storage.limits import limits
from ..selection.document_outputs import DocumentOutputs
from ..selection.system_prior import MAX_ERROR
from .gains import deviation_within
from .scored_texts import ScoredText, only_of_documents, score_of, texts_of, with_scores


class Dimension(NamedTuple):
    """One respect in which people judged.

    Args:
        name: of its scores.
        weight: above 0.
        lower: whether lower is better.
    """

    name: str
    weight: float = 1.0
    lower: bool = False


class Weighted(NamedTuple):
    """What became of some dimensions.

    Args:
        dimensions: in their order.
        deviations: sd of each.
        texts: how many were judged in all of them.
        partly: how many in some of them alone, which count as not judged.
    """

    dimensions: tuple[Dimension, ...]
    deviations: tuple[float, ...]
    texts: int
    partly: int


def with_weighted_score(
    documents: Sequence[DocumentOutputs], dimensions: Sequence[Dimension], name: str
) -> tuple[list[DocumentOutputs], Weighted]:
    """The documents with one dimension `name`, higher is better, in place of several.

    Raises:
        InputError: no text was judged in all of them, a score too large for sums of squares, or too many dimensions.
    """
    limits().check("metrics", len(dimensions), "dimensions")
    names = [dimension.name for dimension in dimensions]
    is_whole = only_of_documents(documents, names)
    texts = texts_of(documents, is_whole)
    y = np.array([[score_of(*text, own) for text in texts] for own in names])
    known = ~np.isnan(y).any(axis=0)
    if not known.any():
        problem = f"no text has a score in all of {', '.join(names)}"
        raise InputError(problem, where="human", fix="Name the keys that texts have together")
    if float(np.nanmax(np.abs(y))) > MAX_ERROR:
        problem = f"a score beyond {MAX_ERROR:g}"
        raise InputError(problem, where="human", fix="Give scores on another scale")
    partly = int((~np.isnan(y)).any(axis=0).sum() - known.sum())
    y[:, ~known] = np.nan
    tables = [in_segments(own, texts) for own in y]
    deviations = [deviation_within(table[(~np.isnan(table)).any(axis=1)]) for table in tables]
    values = np.zeros(len(texts))
    for dimension, own, deviation in zip(dimensions, y, deviations, strict=True):
        sign = -1.0 if dimension.lower else 1.0
        unit = deviation or np.inf  # what does not differ adds nothing
        values += sign * dimension.weight * (own - np.nanmean(own)) / unit
    values /= sum(dimension.weight for dimension in dimensions)
    weighted = Weighted(tuple(dimensions), tuple(deviations), int(known.sum()), partly)
    return with_scores(documents, texts, values, name, is_whole), weighted


def in_segments(values: FloatArray, texts: Sequence[ScoredText]) -> FloatArray:
    """Values [n] of texts by segment, [segments, systems]; nan of texts that are missing."""
    rows: dict[tuple[int, int], int] = {}
    columns: dict[str, int] = {}
    places = []
    for document, system, i in texts:
        row = rows.setdefault((id(document), i), len(rows))
        places.append((row, columns.setdefault(system, len(columns))))
    table = np.full((len(rows), len(columns)), np.nan)
    table[tuple(np.array(places).T)] = values
    return table
