"""The distinct texts of a list of candidates: duplicates are compared once and weigh as often as they occur."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Text
from .lists import Candidate


class Distinct:
    """The distinct texts of some candidates, in order of first appearance."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        number: dict[Text, int] = {}
        first: list[int] = []
        of: list[int] = []
        for i, candidate in enumerate(candidates):
            at = number.setdefault(candidate.text, len(number))
            if at == len(first):
                first.append(i)
            of.append(at)
        self.of: IntArray = np.array(of, np.int64)  # [N] number of each candidate's text
        self.texts: tuple[Text, ...] = tuple(number)
        self.first: IntArray = np.array(first, np.int64)  # [D] index of the first copy

    def __len__(self) -> int:
        return len(self.texts)

    def pooled(self, weights: FloatArray) -> FloatArray:
        """Summed weights of each text's copies, [D]."""
        return np.asarray(np.bincount(self.of, weights, minlength=len(self)), np.float64)
