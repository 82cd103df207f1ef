"""Pairs in which the preferred text is as often the longer one as the shorter one.

A utility may like long texts, and who learns from its choices learns to write long ones. Pairs are sorted by the ratio
of their lengths, a quarter of an octave to a class; of every class, as many pairs are kept whose preferred text is
longer as pairs whose preferred text is shorter, drawn without replacement from the more numerous ones. Pairs of like
length are kept all.
"""

from __future__ import annotations

import random
from collections import Counter
from math import log2

from .preference_pairs import PreferencePair

CLASSES_PER_OCTAVE = 4


class LengthBalance:
    """Counts all pairs first, and then says of each, in the same order, whether it is kept.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self._draw = random.Random(seed)
        self._left: Counter[int] = Counter()  # by class: pairs still to come
        self._wanted: Counter[int] = Counter()  # and how many of them are kept

    def count(self, pair: PreferencePair) -> None:
        """Counts a pair."""
        self._left[length_class(pair)] += 1

    def counted(self) -> None:
        """Ends the counting."""
        for number, count in self._left.items():
            self._wanted[number] = min(count, self._left.get(-number, 0))

    def keeps(self, pair: PreferencePair) -> bool:
        """Whether the next pair is kept."""
        number = length_class(pair)
        is_kept = self._draw.random() * self._left[number] < self._wanted[number]
        self._left[number] -= 1
        self._wanted[number] -= is_kept
        return is_kept


def length_class(pair: PreferencePair) -> int:
    """How much longer the preferred text is, in quarters of an octave; below 0 where it is shorter."""
    chosen, rejected = len(pair.chosen.text) + 1, len(pair.rejected.text) + 1
    return round(CLASSES_PER_OCTAVE * log2(chosen / rejected))
