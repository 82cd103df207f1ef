"""Which segments of a set are judged, and which others are chosen, draw by draw.

20, 50 or 100 segments are drawn by documents (sets of fewer than 25: by blocks of ten) and all others are chosen; "all"
is five folds of documents, ten draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet
from discorank.metrics.representations import IntArray

JUDGED = ("0", "20", "50", "100", "all")
FOLD_DRAWS, FOLDS = 10, 5


def splits(data: MeasuredSet, judged: str, draws: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(judged segments, others) of every draw."""
    everything = np.arange(len(data.ids))
    if judged == "0":
        yield everything[:0], everything
        return
    seed = crc32(data.name.encode())
    if judged == "all":
        document = data.data.document
        for draw in range(FOLD_DRAWS):
            random = np.random.default_rng([draw, seed])
            fold = (random.permutation(int(document.max()) + 1) % FOLDS)[document]
            for held in np.unique(fold):
                yield np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        return
    for draw in range(draws):
        random = np.random.default_rng([draw, int(judged), seed])
        order = random.permutation(int(data.units.max()) + 1)
        taken = np.concatenate([np.flatnonzero(data.units == unit) for unit in order])
        size = int(judged)
        last = data.units[taken[size - 1]]
        rest = taken[size:]
        yield np.sort(taken[:size]), np.sort(rest[data.units[rest] != last])


def single_draws(data: MeasuredSet, size: int, draws: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(judged segments, others) of every draw, segments drawn one by one over all documents."""
    for draw in range(draws):
        random = np.random.default_rng([draw, size, crc32(data.name.encode())])
        order = random.permutation(len(data.ids))
        yield np.sort(order[:size]), np.sort(order[size:])
