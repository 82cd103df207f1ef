"""DS-FOCUS (Zhao et al. 2023, Eq. 1 and 2): how differently two texts write about their common foci.

    F_v = sum_u z_u,  z_u the unit vector at the last token of occurrence u of focus v
    DS-FOCUS(h, r) = (1 / N) sum_{v in V(h) & V(r)} d(F_v^h, F_v^r)

A distance of at least 0; the utility is its negative. How far two foci are apart is told by ``norm``:

    relative   d(x, y) = ||x - y|| / (||x|| + ||y||), from 0 to 1, so that no text outweighs others by repeating itself
    l2         d(x, y) = ||x - y||, as in Eq. 2; grows with how often a focus stands
    squared    d(x, y) = ||x - y||^2, as in the released code; grows with the square of that

What a focus costs that only one side has is told by ``missing``:

    union      its F_v is 0 on the other side: d(F_v, 0); N = |V(h) | V(r)|. Symmetric, and 0 only for equal tables.
    penalise   the same for foci that the side lacks by which `aggregate` divides; N = |V(h)| (P), |V(r)| (R)
    ignore     nothing, as in the paper; N as above

    P, R as above, F = (P + R) / 2

Without any common focus `ignore` would give the best value, 0, to texts that share nothing; here it gives the mean
d(F_v, 0) of both sides' foci, as does a side without foci. Two texts without foci are at distance 0. With
``compat="reference"`` such pairs are at distance 0, as in the released code.

By default a missing focus costs 1 and a shared one at most that, sqrt((1 - cos) / 2) where it stands once in both
texts, so that sharing always pays. Squared, it costs 2 - 2 cos, and sharing pays where cos > 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import InputError
from ...neural.models.inner_products import products
from ...representations import Array, Block, FloatArray, IntArray, Ragged, Reps, cell_rows
from ...scorer import Info
from ...spec.checked_settings import Field, settings
from .focus_scorer import FocusModelMetric, FocusScorer, key_id, packed, row_of, states_of, unpacked

# squared distances below this share of the squared lengths are rounding: they count as 0
ROUNDING = 1e-12


@settings
class DSFocus(FocusModelMetric):
    """Distance of focus vectors.

    Args:
        missing: union, penalise or ignore (see above). Default: union, ignore under compat.
        norm: relative, l2 or squared (see above). Default: relative, squared under compat.
        aggregate: P, R or F; not with union.
        min_count: foci that occur less often in a text are left out of it.
    """

    missing: Literal["union", "ignore", "penalise"] | None = None
    norm: Literal["l2", "relative", "squared"] | None = None
    aggregate: Literal["P", "R", "F"] | None = None
    min_count: Annotated[int, Field(ge=1)] = 1
    name: ClassVar[str] = "ds-focus"
    info: ClassVar[Info] = Info(
        summary="distance of the vectors of the foci of two texts",
        reasons=(
            "shared: foci of both texts with the distance of their vectors, the farthest first, 0 where alike; "
            "missed and added: foci of one text alone with their distance from nothing, the heaviest first"
        ),
        papers=("zhao2023discoscore",),
        unit="document",
        higher_is_better=False,
        bounds=(0, inf),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
        version=4,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # named, so that signatures of the first version, which squared, are told apart
        if self.norm is None:
            object.__setattr__(self, "norm", "squared" if self.compat else "relative")
        if self.aggregate and self.policy == "union":
            fix = 'missing="penalise" and missing="ignore" have P, R and F'
            raise InputError("union is symmetric and has no P and R", where="aggregate", fix=fix)

    @property
    def symmetric(self) -> bool:
        """Of the foci of both sides."""
        return self.policy == "union" or self.aggregate == "F"

    @property
    def policy(self) -> str:
        """The treatment of missing foci in force."""
        return self.missing or ("ignore" if self.compat else "union")

    def load(self) -> DSFocusScorer:
        """The encoder and the finder of foci."""
        return DSFocusScorer(self, placed=True)


class _FocusTable(NamedTuple):
    """The foci of the texts of one side of a block, sorted by focus."""

    text: IntArray  # [foci]
    key: IntArray  # [foci]
    vectors: Array  # [foci, d]
    squares: FloatArray  # [foci], ||F_v||^2

    @classmethod
    def of(cls, reps: Reps, rows: IntArray) -> _FocusTable:
        """The foci of the texts of some rows."""
        keys = reps["keys"][rows]
        vectors = reps["vectors"][rows]
        order = np.argsort(keys.values, kind="stable")
        text = np.repeat(np.arange(len(rows)), keys.lengths)
        sorted_vectors = vectors.values[order].astype(np.float64)
        squares = np.einsum("fd,fd->f", sorted_vectors, sorted_vectors)
        return cls(text[order], keys.values[order], sorted_vectors, squares)

    def total(self, texts: int, norm: str) -> FloatArray:
        """The summed lengths of each text's foci, [texts]."""
        lengths = _from_nothing(self.squares, norm)
        return np.bincount(self.text, lengths, texts).astype(np.float64)


class DSFocusScorer(FocusScorer):
    """Represents a text by the vectors of its foci."""

    metric: DSFocus

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "keys" [foci], numbers that stand for the foci, ascending; their "vectors" [foci, d] and "names"."""
        keys = []
        vectors = []
        names = []
        for row, states in enumerate(states_of(self.encoder, prepared)):
            row_names, focus, row_vectors = self.focus_vectors(prepared, row, states)
            # an occurrence counts where it has a token
            placed = row_of(prepared["token"], row) >= 0
            counts = np.bincount(focus[placed], minlength=len(row_names))
            frequent = np.flatnonzero(counts >= self.metric.min_count)
            frequent_names = [row_names[i] for i in frequent]
            keys.append(np.array([key_id(name) for name in frequent_names], np.int64))
            vectors.append(row_vectors[frequent].astype(np.float32))
            names.append(packed(frequent_names))
        return Reps(
            {
                "keys": Ragged.of_rows(keys),
                "vectors": Ragged.of_rows(vectors),
                "names": Ragged.of_rows(names),
            }
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Distances of every pair, [H, R]."""
        return [self._distances(reps, block) for block in blocks]

    def _distances(self, reps: Reps, block: Block) -> FloatArray:
        """Distances [H, R] of one block."""
        h = _FocusTable.of(reps, block.hypotheses)
        r = h if block.square else _FocusTable.of(reps, block.references)
        num_hypotheses = len(block.hypotheses)
        num_references = len(block.references)
        shape = num_hypotheses, num_references
        norm = str(self.metric.norm)

        # squared distance of every two equal foci, [cells], and the pair of texts that each belongs to
        at_h, at_r, inner = _shared(h, r)
        squares = h.squares[at_h] + r.squares[at_r]
        between = np.maximum(squares - 2 * inner, 0)
        between[between < ROUNDING * squares] = 0
        pair = h.text[at_h] * num_references + r.text[at_r]

        def summed(values: FloatArray | None = None) -> FloatArray:
            """Sums over the shared foci of every pair, in the order of the foci, [H, R]."""
            sums = np.bincount(pair, values, num_hypotheses * num_references)
            return sums.reshape(shape).astype(np.float64)

        shared = summed()
        distance = summed(_distance(between, h.squares[at_h], r.squares[at_r], norm))
        total_h = h.total(num_hypotheses, norm)[:, None]
        total_r = r.total(num_references, norm)[None, :]
        num_foci = reps["keys"].lengths.astype(np.float64)
        n_h = num_foci[block.hypotheses][:, None]
        n_r = num_foci[block.references][None, :]

        # what the foci cost that only one side has
        if self.metric.policy == "ignore":
            missing_h = missing_r = np.zeros(shape)
        else:
            missing_h = total_h - summed(_from_nothing(h.squares[at_h], norm))
            missing_r = total_r - summed(_from_nothing(r.squares[at_r], norm))
        if self.metric.policy == "union":
            return _divided(distance + missing_h + missing_r, n_h + n_r - shared)

        precision = _divided(distance + missing_h, n_h)
        recall = _divided(distance + missing_r, n_r)
        by_aggregate = {"P": precision, "R": recall, "F": (precision + recall) / 2}
        values = by_aggregate[self.metric.aggregate or "P"]
        # pairs without a common focus
        nothing_shared = np.zeros(shape)
        if not self.metric.compat:
            nothing_shared = _divided(total_h + total_r, n_h + n_r)
        return np.where(shared > 0, values, nothing_shared)

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over references, or the smallest, [H]."""
        reduce = np.mean if self.metric.several == "mean" else np.min
        return [np.asarray(reduce(u, axis=1)) for u in self.compare(reps, blocks)]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The foci of a pair: "shared" with the distance of each, the farthest first; "missed" by the hypothesis and
        "added" by it, the heaviest first.
        """
        h_row = int(block.hypotheses[hypothesis])
        r_row = int(block.references[reference])
        norm = str(self.metric.norm)
        h = _FocusTable.of(reps, np.array([h_row]))
        r = _FocusTable.of(reps, np.array([r_row]))
        names: dict[int, str] = {}
        for row in (h_row, r_row):
            row_names = unpacked(row_of(reps["names"], row))
            names.update({key_id(name): name for name in row_names})
        at_h, at_r, inner = _shared(h, r)
        squares = h.squares[at_h] + r.squares[at_r]
        between = np.maximum(squares - 2 * inner, 0)
        lengths = h.squares[at_h], r.squares[at_r]
        distances = zip(h.key[at_h], _distance(between, *lengths, norm), strict=True)
        shared = {names[int(key)]: float(distance) for key, distance in distances}
        foci = {"shared": _heaviest_first(shared)}
        # what one side alone has is as heavy as its distance from nothing
        for label, side in (("missed", r), ("added", h)):
            side_names = [names[key] for key in side.key.tolist()]
            side_weights = _from_nothing(side.squares, norm).tolist()
            weights = dict(zip(side_names, side_weights, strict=True))
            only = {name: weight for name, weight in weights.items() if name not in shared}
            foci[label] = _heaviest_first(only)
        return foci


def _heaviest_first(weights: Mapping[str, float]) -> dict[str, float]:
    """The same weights in descending order."""
    return dict(sorted(weights.items(), key=lambda item: -item[1]))


def _distance(between: FloatArray, h: FloatArray, r: FloatArray, norm: str) -> FloatArray:
    """d(x, y) of foci, from ||x - y||^2, ||x||^2 and ||y||^2."""
    if norm == "squared":
        return between
    distance = np.sqrt(between)
    if norm == "l2":
        return distance
    lengths = np.sqrt(h) + np.sqrt(r)
    relative: FloatArray = np.divide(
        distance, lengths, out=np.zeros_like(distance), where=lengths > 0
    )
    return relative


def _from_nothing(squares: FloatArray, norm: str) -> FloatArray:
    """d(x, 0) of foci, from ||x||^2."""
    return _distance(squares, squares, np.zeros_like(squares), norm)


def _divided(total: FloatArray, count: FloatArray) -> FloatArray:
    """The mean; 0 of nothing."""
    mean = np.zeros(np.broadcast(total, count).shape)
    return np.divide(total, count, out=mean, where=count > 0)


def _shared(h: _FocusTable, r: _FocusTable) -> tuple[IntArray, IntArray, FloatArray]:
    """Every two foci of the two sides that are the same, [cells] each, ordered by focus, and their inner products."""
    keys = np.intersect1d(h.key, r.key)
    # the places of a focus stand together on either side, as a table is sorted by focus
    sides = []
    for side in (h, r):
        start = np.searchsorted(side.key, keys)
        stop = np.searchsorted(side.key, keys, "right")
        runs = zip(start, stop, strict=True)
        sides.append([np.arange(first, end) for first, end in runs])
    groups = [Block(of_h, of_r) for of_h, of_r in zip(*sides, strict=True)]
    if not groups:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0)
    inner = []
    for group in groups:
        matrix = products(h.vectors[group.hypotheses], r.vectors[group.references])
        inner.append(matrix.ravel())
    return *cell_rows(groups), np.concatenate(inner)
