"""RC and LC (Wong and Kit 2012), as Zhao et al. 2023 use them: how much a text repeats its nouns.

    LC = number of nouns with count >= 2 / number of different nouns
    RC = sum of the counts of nouns with count >= 2 / number of different nouns

Both read the hypothesis alone and are 0 for a text without nouns; RC may exceed 1, and is FREQ times LC. More
repetition goes with lower human scores in the summaries of SummEval: as utilities both reward what readers do not like.

Beside them stand the features that Zhao et al. 2023 (section 6) read off foci:

    FREQ = sum of the counts of foci with count >= 2 / how many these are      CONN = sum(A) / n^2, A of n sentences
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item, Text
from .foci import FocusMetric, FocusReader, Grid, adjacency, conn, freq, grid_of, repeated
from .focus_scorer import packed, row_of, unpacked


@settings
class Cohesion(FocusMetric):
    """How much a text repeats its nouns.

    Args:
        measure: lc, the share of nouns that come back, or rc, the occurrences of these per noun.
    """

    measure: Literal["lc", "rc"] = "lc"
    name: ClassVar[str] = "cohesion"
    info: ClassVar[Info] = Info(
        summary="share of nouns that are repeated; measure=rc: occurrences of these per noun",
        reasons="repeated: the nouns that come more than once",
        papers=("wong2012extending", "zhao2023discoscore"),
        unit="document",
        needs_references=False,
        bounds=(0, 1),
        version=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measure == "rc":
            object.__setattr__(self, "info", replace(self.info, bounds=(0, inf)))

    def load(self) -> CohesionScorer:
        """The finder of nouns."""
        return CohesionScorer(self)

    def value(self, grid: Grid) -> float:
        """LC or RC of a grid."""
        counts = [len(places) for places in repeated(grid).values()]
        return (len(counts) if self.measure == "lc" else sum(counts)) / max(1, len(grid))


class CohesionScorer(Scorer):
    """Represents a text by its value and by the nouns that it repeats."""

    def __init__(self, metric: Cohesion) -> None:
        self.info = metric.info
        self.metric = metric
        self.foci = FocusReader(metric)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Columns "value" [rows] and "repeated", names of nouns; lengths in sentences."""
        values = []
        names = []
        lengths = []
        for item in items:
            foci = self.foci.read(item.text)
            grid = grid_of(foci.keys_by_sentence())
            values.append(self.metric.value(grid))
            names.append(packed(list(repeated(grid))))
            lengths.append(len(foci.sentences))
        value = np.array(values, np.float64)
        reps = Reps({"value": value, "repeated": Ragged.of_rows(names)})
        return reps, np.array(lengths, np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every hypothesis, [H, 1]."""
        return [reps["value"][block.hypotheses][:, None] for block in blocks]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The nouns that the hypothesis repeats."""
        row = int(block.hypotheses[hypothesis])
        return {"repeated": unpacked(row_of(reps["repeated"], row))}


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
