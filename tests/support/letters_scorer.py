"""A scorer that represents a text by its letters, for toy metrics without references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discorank.metrics.representations import IntArray, Ragged, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.text.texts import Item


class LettersScorer(Scorer):
    """The column "letters" of every text, [rows], ragged; what is made of them is the subclass's."""

    def __init__(self, info: Info) -> None:
        self.info = info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        rows = [np.frombuffer(f"{item.text} ".encode(), np.uint8) for item in items]
        letters = Ragged.of_rows(rows)
        return Reps({"letters": letters}), letters.lengths
