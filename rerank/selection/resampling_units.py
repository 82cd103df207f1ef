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


def segments_of_unit(given: str | int) -> int | None:
    """How many segments a unit has, None for a document.

    Raises:
        InputError: it is neither "document" nor "segment" nor a number above 0.

    >>> segments_of_unit("document"), segments_of_unit("segment"), segments_of_unit("10"), segments_of_unit(5)
    (None, 1, 10, 5)
    """
    if given == "document":
        return None
    if given == "segment":
        return 1
    if isinstance(given, int) or (given.isascii() and given.isdigit()):
        size = int(given)
        if size > 0 and not isinstance(given, bool):
            return size
    raise InputError(
        f"found {excerpt(given)}",
        where="unit",
        fix="Give document, segment, or a number of segments",
    )


def in_units(scored: Scored, segments: Sequence[int], size: int | None) -> Scored:
    """The same scores, drawn by blocks of `size` successive segments; the last block of a document may be shorter.

    What scores whole documents is drawn by document whatever the size; `Scored.unit` tells.

    Args:
        scored: by document.
        segments: how many each document has, [D].
        size: of a block; None for documents.
    """
    if size is None or not all(
        np.array_equal(np.bincount(part.owner), segments) for part in scored.parts
    ):
        return scored
    owner = blocks(segments, size)
    parts = tuple(Part(part.weight, part.scorer, part.rows, owner) for part in scored.parts)
    return replace(scored, parts=parts, unit=unit_name(size))


def unit_name(size: int) -> str:
    """A unit of some segments in words."""
    return "segment" if size == 1 else f"{size} segments"


def blocks(segments: Sequence[int], size: int) -> IntArray:
    """The block of every segment, [segments].

    >>> blocks([3, 1], 2).tolist()
    [0, 0, 1, 2]
    """
    counts = -(-np.asarray(segments) // size)
    starts = np.concatenate(([0], np.cumsum(counts)))
    found = [start + np.arange(n) // size for start, n in zip(starts, segments, strict=False)]
    return np.asarray(np.concatenate(found), np.int64)
