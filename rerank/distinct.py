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
        texts = [candidate.text for candidate in candidates]
        self.texts: tuple[Text, ...] = tuple(dict.fromkeys(texts))
        self.of: IntArray = np.arange(len(texts))  # [N] number of each candidate's text
        self.first: IntArray = self.of  # [D] index of the first copy
        if len(self.texts) < len(texts):
            number = {text: i for i, text in enumerate(self.texts)}
            self.of = np.array([number[text] for text in texts], np.int64)
            first = {text: i for i, text in reversed([*enumerate(texts)])}
            self.first = np.array([first[text] for text in self.texts], np.int64)

    def __len__(self) -> int:
        return len(self.texts)

    def pooled(self, weights: FloatArray) -> FloatArray:
        """Summed weights of each text's copies, [D]."""
        return np.asarray(np.bincount(self.of, weights, minlength=len(self)), np.float64)
