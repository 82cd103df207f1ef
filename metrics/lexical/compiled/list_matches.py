"""Clipped n-gram matches of many small lists by the kernel in C.

It knows neither characters nor scores: texts arrive as integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged
from .. import compiled
from ..word_columns import PLAIN_SYMBOLS, dense, ranges

MAX_TEXTS = 512  # of a list: matrix products are as fast for larger ones


def list_matches(symbols: Ragged, blocks: Sequence[Block], order: int) -> FloatArray | None:
    """For n = 1..order the clipped n-gram matches of all pairs of all blocks, each block's [H, R] flat, [order, cells].

    None where there is no kernel, a block is large, or n-grams do not fit into its keys.
    """
    if compiled.kernels is None:
        return None
    rows: list[IntArray] = []
    hypotheses = []
    references = []  # of a square block -1
    cells = 0
    for block in blocks:
        hypotheses.append(len(block.hypotheses))
        rows.append(block.hypotheses)
        if not block.square:
            rows.append(block.references)
        references.append(-1 if block.square else len(block.references))
        cells += block.cells
    if max(hypotheses) > MAX_TEXTS or max(references) > MAX_TEXTS:
        return None
    texts = np.concatenate(rows)
    lengths = symbols.lengths[texts]
    offsets = np.concatenate(([0], lengths.cumsum()))
    numbers = symbols.values[ranges(symbols.offsets[texts], lengths)].astype(np.int64)
    num_symbols = int(numbers.max(initial=0))
    if num_symbols > PLAIN_SYMBOLS:
        numbers, num_symbols = dense(numbers)
    matches = np.empty((order, cells))
    fits = compiled.kernels.ngram_matches(
        numbers,
        offsets,
        np.array(hypotheses, np.int64),
        np.array(references, np.int64),
        num_symbols,
        order,
        matches,
    )
    return matches if fits else None
