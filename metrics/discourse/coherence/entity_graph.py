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

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item
from .ds_sent import grid_of_occurrences
from .entities import named_by_members, read_vectors
from .foci import FocusReader, Grid, adjacency, conn, grid_of, merged
from .focus_scorer import FocusModelMetric, FocusScorer, packed, row_of, states_of, unpacked

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

    def load(self) -> EntityGraphScorer | LexicalGraphScorer:
        """The finder of nouns, and word vectors or the encoder."""
        if self.has_model:
            return LexicalGraphScorer(self, placed=True)
        if not self.vectors:
            return EntityGraphScorer(self)
        self.check_files()
        return EntityGraphScorer(self, read_vectors(self.vectors), self.cosine())


class _GraphValues(Scorer):
    """Base of both scorers: a text is represented by its value and its graph, see `_represented`."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of every hypothesis, [H, 1]."""
        return [reps["value"][block.hypotheses][:, None] for block in blocks]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The graph of the hypothesis: foci that come back, with their sentences."""
        return _described(reps, block, hypothesis)


class EntityGraphScorer(_GraphValues):
    """Represents a text by its value and by the graph itself."""

    def __init__(
        self,
        metric: EntityGraph,
        vectors: Mapping[str, Any] | None = None,
        cosine: float = 1,
    ) -> None:
        self.info = metric.info
        self.metric = metric
        self.vectors = vectors
        self.cosine = cosine
        self.foci = FocusReader(metric)
        self.identity = f"{metric.signature()} {metric.info.version} {self.foci.identity}"

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Columns "value" [rows] and "shared" as `_represented` describes them; lengths in sentences."""
        grids = []
        lengths = []
        for item in items:
            foci = self.foci.read(item.text)
            grid = grid_of(foci.keys_by_sentence())
            if self.vectors is not None:
                entities = named_by_members(list(grid), self.vectors, self.cosine)
                grid = merged(grid, entities)
            grids.append(grid)
            lengths.append(len(foci.sentences))
        reps = _represented(grids, lengths, self.metric)
        return reps, np.array(lengths, np.int64)


class LexicalGraphScorer(_GraphValues, FocusScorer):
    """Represents a text by its value, from the vectors that its nouns have in it."""

    metric: EntityGraph

    def represent(self, prepared: Reps) -> Reps:
        """As `EntityGraphScorer.prepare`."""
        grids = []
        for row, states in enumerate(states_of(self.encoder, prepared)):
            names, key, _ = self.focus_vectors(prepared, row, states)
            sentence = row_of(prepared["at"], row)
            grids.append(grid_of_occurrences(names, key, sentence))
        return _represented(grids, prepared["sentences"].values.tolist(), self.metric)


def _represented(
    grids: Sequence[Grid],
    sentences: Sequence[int],
    metric: EntityGraph,
) -> Reps:
    """The values, and under "shared" each focus of several sentences with these, as "name TAB numbers"."""
    values = []
    shared = []
    for grid, n in zip(grids, sentences, strict=True):
        graph = adjacency(grid, n, metric.weighted)
        of_matrix = metric.mean == "matrix"
        values.append(conn(graph) if of_matrix else float(graph.sum()) / max(1, n))
        lines = []
        for name, places in grid.items():
            different = sorted(set(places))
            if len(different) > 1:
                numbers = " ".join(map(str, different))
                lines.append(f"{name}\t{numbers}")
        shared.append(packed(lines))
    value = np.array(values, np.float64)
    return Reps({"value": value, "shared": Ragged.of_rows(shared)})


def _described(reps: Reps, block: Block, hypothesis: int) -> dict[str, Any]:
    """The graph of a hypothesis, from the lines that `_represented` wrote."""
    shared = {}
    row = int(block.hypotheses[hypothesis])
    for line in unpacked(row_of(reps["shared"], row)):
        name, _, places = line.rpartition("\t")
        shared[name] = [int(place) for place in places.split()]
    return {"shared": shared}
