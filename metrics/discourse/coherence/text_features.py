"""The features of a text that Zhao et al. 2023 (section 6) read off its foci, and how well a feature tells texts apart.

FREQ = sum of the counts of foci with count >= 2 / how many these are      CONN = sum(A) / n^2, A of n sentences
D = |{pairs : R(reference) < R(hypothesis)}| / |pairs|                       (Eq. 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...text.texts import Text
from .cohesion import Cohesion
from .foci import FocusReader
from .focus_grid import adjacency, conn, freq, grid_of


class Features(NamedTuple):
    """FREQ and CONN of a text; both 0 for one without foci that come back."""

    freq: float
    conn: float


def features(
    text: Text,
    nouns: str = "hanta:en",
    sentences: str = "rule",
    weighted: bool = False,
) -> Features:
    """FREQ and CONN of a text, its foci found as by the metrics (their settings of these names); A is A_w if weighted.

    Raises:
        InputError, ModelLoadError, MetricError: as the metrics do.
    """
    foci = FocusReader(Cohesion(nouns=nouns, sentences=sentences)).read(text)
    grid = grid_of(foci.keys_by_sentence())
    graph = adjacency(grid, len(foci.sentences), weighted)
    return Features(freq(grid), conn(graph))


def discriminativeness(references: Sequence[float], hypotheses: Sequence[float]) -> float:
    """D of a feature R, given its values for the references and the hypotheses of pairs.

    Raises:
        ValueError: the lengths differ, or there are no pairs.
    """
    pairs = list(zip(references, hypotheses, strict=True))
    if not pairs:
        raise ValueError("no pairs")
    lower = [r < h for r, h in pairs]
    return sum(lower) / len(pairs)
