"""RC and LC (Wong and Kit 2012), as Zhao et al. 2023 use them: how much a text repeats its nouns.

    LC = number of nouns with count >= 2 / number of different nouns
    RC = sum of the counts of nouns with count >= 2 / number of different nouns

Both read the hypothesis alone and are 0 for a text without nouns; RC may exceed 1, and is FREQ times LC. More
repetition goes with lower human scores in the summaries of SummEval: as utilities both reward what readers do not like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Literal

from ...scorer import Info
from ...spec.checked_settings import settings
from .foci import FocusMetric, Grid, repeated
from .grid_scorer import GridScorer


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

    def load(self) -> GridScorer:
        """The finder of nouns."""
        return GridScorer(self)

    def value(self, grid: Grid, sentences: int) -> float:
        """LC or RC of a grid."""
        counts = [len(places) for places in repeated(grid).values()]
        return (len(counts) if self.measure == "lc" else sum(counts)) / max(1, len(grid))

    def shown(self, grid: Grid) -> list[str]:
        """The nouns that come back."""
        return list(repeated(grid))

    def described(self, lines: Sequence[str]) -> dict[str, Any]:
        """The nouns that the hypothesis repeats."""
        return {"repeated": list(lines)}
