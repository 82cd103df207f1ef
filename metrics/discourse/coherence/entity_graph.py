"""EntityGraph (Guinaudeau and Strube 2013) and LexicalGraph (Mesgar and Strube 2016), as Zhao et al. 2023 use them.

    value = sum(A) / n       the mean out-degree of the graph of n sentences
    value = sum(A) / n^2     the mean of the matrix, with ``mean="matrix"``

The first is what Guinaudeau and Strube define and Zhao et al. computed, the second what the paper of Zhao et al. says.
A is A_u, or A_w if ``weighted`` (see `foci`). Sentences are joined by a noun that they share (EntityGraph), with
``focus="entity"`` by nouns that mean about the same (LexicalGraph). Similar nouns are chained into components, as in
the code of Zhao et al. (see `entities`); Mesgar and Strube join two sentences only by a pair of similar nouns, so that
their graph has fewer edges. Both read the hypothesis alone. 0 for a text of one sentence, without nouns or without
sentences; at most 1/2 + ... + 1/n for A_u: it grows with the length of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Literal, Self

from ...representations import Reps
from ...scorer import Info
from ...spec.checked_settings import settings
from .ds_sent import grid_of_occurrences
from .entities import named_by_members, read_vectors
from .foci import Grid, adjacency, conn
from .focus_scorer import FocusModelMetric, FocusScorer, row_of, states_of
from .grid_scorer import GridScorer, GridValues, represented

MODEL_SETTINGS = ("model", "revision", "max_tokens", "dtype")


@settings
class EntityGraph(FocusModelMetric):
    """Mean out-degree of the graph of sentences that share nouns, or hold similar ones (``focus="entity"``).

    Args:
        weighted: how many nouns two sentences share counts, not only whether.
        mean: over sentences, the mean out-degree, or over the cells of the matrix.
    """

    weighted: bool = False
    mean: Literal["sentences", "matrix"] = "sentences"
    default_model: ClassVar[str | None] = None
    default_threshold: ClassVar[float] = 0.7
    name: ClassVar[str] = "entity-graph"
    info: ClassVar[Info] = Info(
        summary="how near sentences that share nouns are; focus=entity: similar nouns",
        reasons=(
            "shared: each focus of several sentences with the numbers of these, counted from 0"
        ),
        papers=("guinaudeau2013graph", "zhao2023discoscore"),
        unit="document",
        needs_references=False,
        bounds=(0, inf),
        version=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.focus == "entity":
            object.__setattr__(self, "info", replace(self.info, bucketed=True, version=3))
        if self.has_model and self.model is None:
            object.__setattr__(self, "model", "minilm")

    @property
    def has_model(self) -> bool:
        """Whether an encoder says which nouns are similar."""
        return self.focus == "entity" and not self.vectors

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files: shared nouns need none, and word vectors no model."""
        return ("model",) if self.has_model else ("vectors",) if self.vectors else ()

    def with_defaults(self, **values: Any) -> Self:
        """As every metric; an encoder that is not read stays as it is."""
        if not self.has_model:
            values = {name: value for name, value in values.items() if name not in MODEL_SETTINGS}
        return super().with_defaults(**values)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers; of similar nouns those of LexicalGraph."""
        is_lexical = settings.get("focus") == "entity"
        return (
            ("mesgar2016lexical", "zhao2023discoscore") if is_lexical else super().cited(settings)
        )

    def load(self) -> GridScorer | LexicalGraphScorer:
        """The finder of nouns, and word vectors or the encoder."""
        if self.has_model:
            return LexicalGraphScorer(self, placed=True)
        if not self.vectors:
            return GridScorer(self)
        self.check_files()
        vectors = read_vectors(self.vectors)
        return GridScorer(self, lambda keys: named_by_members(keys, vectors, self.cosine()))

    def value(self, grid: Grid, sentences: int) -> float:
        """The mean out-degree of the graph of so many sentences, or the mean of its matrix."""
        graph = adjacency(grid, sentences, self.weighted)
        return conn(graph) if self.mean == "matrix" else float(graph.sum()) / max(1, sentences)

    def shown(self, grid: Grid) -> list[str]:
        """Each focus of several sentences with these, as "name TAB numbers"."""
        lines = []
        for name, places in grid.items():
            different = sorted(set(places))
            if len(different) > 1:
                numbers = " ".join(map(str, different))
                lines.append(f"{name}\t{numbers}")
        return lines

    def described(self, lines: Sequence[str]) -> dict[str, Any]:
        """The graph of a hypothesis: foci that come back, with their sentences."""
        shared = {}
        for line in lines:
            name, _, places = line.rpartition("\t")
            shared[name] = [int(place) for place in places.split()]
        return {"shared": shared}


class LexicalGraphScorer(GridValues, FocusScorer):
    """Represents a text by its value, from the vectors that its nouns have in it."""

    metric: EntityGraph

    def represent(self, prepared: Reps) -> Reps:
        """As `GridScorer.prepare`."""
        grids = []
        for row, states in enumerate(states_of(self.encoder, prepared)):
            names, key, _ = self.focus_vectors(prepared, row, states)
            sentence = row_of(prepared["at"], row)
            grids.append(grid_of_occurrences(names, key, sentence))
        return represented(self.metric, grids, prepared["sentences"].values.tolist())
