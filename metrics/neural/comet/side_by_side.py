"""Texts side by side in one sequence, as unified COMET models and XCOMET read them.

FIRST mt LAST LAST src LAST,   FIRST mt LAST LAST ref LAST,   FIRST mt LAST LAST src LAST LAST ref LAST
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...representations import Block, IntArray, Ragged, cell_rows


def sequences(ids: Ragged, parts: Sequence[IntArray], max_tokens: int) -> Ragged:
    """Sequences made of one row of each part, n rows of ids.

    Args:
        ids: of single texts, each with FIRST and LAST.
        parts: rows of the texts, [n] each.
        max_tokens: what is longer loses its right end, the last token too, as in the released code.
    """
    rows_of_ids = [_joined(ids, rows)[:max_tokens] for rows in zip(*parts, strict=True)]
    return Ragged.of_rows(rows_of_ids)


def _joined(ids: Ragged, rows: Sequence[int]) -> IntArray:
    """The whole sequence of some texts."""
    first, *others = [ids.values[ids.offsets[row] : ids.offsets[row + 1]] for row in rows]
    last = first[-1:]
    pieces = [first]
    for other in others:
        # LAST takes the place of FIRST.
        pieces += [last, other[1:]]
    return np.concatenate(pieces)


def sequence_lengths(
    lengths: IntArray,
    block: Block,
    with_source: bool,
    with_reference: bool,
) -> IntArray:
    """Lengths of all sequences of a block before any truncation, from those of its texts.

    One for every hypothesis with the source, and with references one or two for every pair.
    """
    of_sequences: list[IntArray] = []
    of_source = lengths[block.source] if with_source else 0
    if with_source:
        of_sequences.append(lengths[block.hypotheses] + of_source)
    if with_reference:
        h, r = cell_rows([block])
        of_sequences.append(lengths[h] + lengths[r])
        if with_source:
            of_sequences.append(lengths[h] + lengths[r] + of_source)
    return np.concatenate(of_sequences)
