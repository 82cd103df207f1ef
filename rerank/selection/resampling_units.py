"""What the draws of tests take: whole documents, or blocks of segments where there are few documents.

Segments of one document are not independent: they share a subject, a style and a translation of every name. Draws of
blocks take them for independent, so intervals come out too narrow and p too small, the more so the shorter the blocks.
Only the draws change: metrics read their documents as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...metrics.errors import InputError, excerpt
from ...metrics.representations import IntArray
from .system_scores import Part, Scored


def segments_of_unit(unit: str | int) -> int | None:
    """How many segments a unit has, None for a document.

    Raises:
        InputError: it is neither "document" nor "segment" nor a number above 0.

    >>> segments_of_unit("document"), segments_of_unit("segment"), segments_of_unit("10"), segments_of_unit(5)
    (None, 1, 10, 5)
    """
    if unit == "document":
        return None
    if unit == "segment":
        return 1
    if isinstance(unit, int) or (unit.isascii() and unit.isdigit()):
        size = int(unit)
        if size > 0 and not isinstance(unit, bool):
            return size
    raise InputError(
        f"found {excerpt(unit)}",
        where="unit",
        fix="Give document, segment, or a number of segments",
    )


def unit_of(unit: str | int, documents: int, level: float) -> str | int:
    """The unit meant by "auto": documents, or segments where no p could be below the level with so few documents."""
    if unit != "auto":
        return unit
    return "segment" if least_p(documents) >= level else "document"


def least_p(units: int) -> float:
    """The smallest p of this number of units: of all 2^units assignments, two differ as much as the one at hand.

    >>> least_p(5)
    0.0625
    """
    return float(min(1.0, 2.0 ** (1 - units)))


def in_units(scored: Scored, segments: Sequence[int], size: int | None) -> Scored:
    """The same scores, drawn by blocks of `size` successive segments; the last block of a document may be shorter.

    What scores whole documents is drawn by document whatever the size; `Scored.unit` tells.

    Args:
        scored: by document.
        segments: how many each document has, [D].
        size: of a block; None for documents.
    """
    if size is None:
        return scored
    for part in scored.parts:
        rows_of_documents = np.bincount(part.owner)
        if not np.array_equal(rows_of_documents, segments):
            return scored
    owner = blocks(segments, size)
    parts = tuple(Part(part.weight, part.scorer, part.rows, owner) for part in scored.parts)
    return replace(scored, parts=parts, unit=unit_name(size))


def unit_name(size: int) -> str:
    """A unit of `size` segments in words."""
    return "segment" if size == 1 else f"{size} segments"


def blocks(segments: Sequence[int], size: int) -> IntArray:
    """The block of every segment, [segments].

    >>> blocks([3, 1], 2).tolist()
    [0, 0, 1, 2]
    """
    num_blocks = -(-np.asarray(segments) // size)  # of every document, rounded up
    first_blocks = np.cumsum(num_blocks) - num_blocks
    numbers = []
    for first, num_segments in zip(first_blocks, segments, strict=True):
        numbers.append(first + np.arange(num_segments) // size)
    return np.asarray(np.concatenate(numbers), np.int64)
