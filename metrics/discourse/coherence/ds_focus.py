"""DS-FOCUS (Zhao et al. 2023, Eq. 1 and 2): how differently two texts write about their common foci.

    F_v = sum_u z_u,  z_u the unit vector at the last token of occurrence u of focus v
    DS-FOCUS(h, r) = (1 / N) sum_{v in V(h) & V(r)} ||F_v^h - F_v^r||^2

A distance of at least 0; the utility is its negative. What a focus costs that only one side has is told by ``missing``:

    union      its F_v is 0 on the other side: ||F_v||^2; N = |V(h) | V(r)|. Symmetric, and 0 only for equal tables.
    penalise   the same for foci that the side lacks by which `aggregate` divides; N = |V(h)| (P), |V(r)| (R)
    ignore     nothing, as in the paper; N as above

    P, R as above, F = (P + R) / 2

Without any common focus `ignore` would give the best value, 0, to texts that share nothing; here it gives the mean
||F_v||^2 of both sides' foci, as does a side without foci. Two texts without foci are at distance 0. With
``compat="reference"`` such pairs are at distance 0, as in the released code.

For single occurrences a shared focus costs 2 - 2 cos and a missing one 1, so that sharing pays where cos > 1/2, which
holds for usual encoders and not for random ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...errors import InputError
from ...papers import ZHAO_2023
from ...representations import Array, Block, FloatArray, IntArray, Ragged, Reps, cell_rows
from ...scorer import Info
from ...spec.checked_settings import settings
from .focus_scorer import FocusModelMetric, FocusScorer, key_id, packed, products, row_of, unpacked
from .token_vectors import states_of

ROUNDING = (
    1e-12  # squared distances below this share of the squared lengths are rounding: they count as 0
)


@settings
class DSFocus(FocusModelMetric):
    """Distance of focus vectors.

    Args:
        missing: union, penalise or ignore (see above). Default: union, ignore under compat.
        norm: squared, as in the released code, or l2, as in Eq. 2.
        aggregate: P, R or F; not with union.
        min_count: foci that occur less often in a text are left out of it.
    """

    missing: Literal["union", "ignore", "penalise"] | None = None
    norm: Literal["squared", "l2"] = "squared"
    aggregate: Literal["P", "R", "F"] | None = None
    min_count: Annotated[int, Field(ge=1)] = 1
    name: ClassVar[str] = "ds-focus"
    info: ClassVar[Info] = Info(
        summary="distance of the vectors of the foci of two texts",
        papers=(ZHAO_2023,),
        unit="document",
        higher_is_better=False,
        bounds=(0, inf),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate and self.policy == "union":
            fix = 'missing="penalise" and missing="ignore" have P, R and F'
            raise InputError("union is symmetric and has no P and R", where="aggregate", fix=fix)

    @property
    def policy(self) -> str:
        """The treatment of missing foci in force."""
        return self.missing or ("ignore" if self.compat else "union")

    def load(self) -> DSFocusScorer:
        """The encoder and the finder of foci."""
        return DSFocusScorer(self, placed=True)


class _Table(NamedTuple):
    """The foci of the texts of one side of a block, sorted by focus."""

    text: IntArray  # [foci]
    key: IntArray  # [foci]
    vectors: Array  # [foci, d]
    squares: FloatArray  # [foci], ||F_v||^2

    @classmethod
    def of(cls, reps: Reps, rows: IntArray) -> _Table:
        keys, vectors = reps["keys"][rows], reps["vectors"][rows]
        order = np.argsort(keys.values, kind="stable")
        text = np.repeat(np.arange(len(rows)), keys.lengths)[order]
        found = vectors.values[order].astype(np.float64)
        return cls(text, keys.values[order], found, np.einsum("fd,fd->f", found, found))

    def total(self, texts: int, norm: str) -> FloatArray:
        """The summed lengths of each text's foci, [texts]."""
        return np.bincount(self.text, _norm(self.squares, norm), texts).astype(np.float64)


class DSFocusScorer(FocusScorer):
    """Represents a text by the vectors of its foci."""

    metric: DSFocus

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "keys" [foci], numbers that stand for the foci, ascending; their "vectors" [foci, d] and "names"."""
        keys, vectors, names = [], [], []
        for row, states in enumerate(states_of(self.encoder, prepared)):
            own, occurrence, table = self.focus_vectors(prepared, row, states)
            token = row_of(prepared["token"], row)
            counts = np.bincount(occurrence[token >= 0], minlength=len(own))
            kept = np.flatnonzero(counts >= self.metric.min_count)
            keys.append(np.array([key_id(own[i]) for i in kept], np.int64))
            vectors.append(table[kept].astype(np.float32))
            names.append(packed([own[i] for i in kept]))
        return Reps(
            {
                n: Ragged.of_rows(rows)
                for n, rows in (("keys", keys), ("vectors", vectors), ("names", names))
            }
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Distances of every pair, [H, R]."""
        return [self._distances(reps, block) for block in blocks]

    def _distances(self, reps: Reps, block: Block) -> FloatArray:
        h = _Table.of(reps, block.hypotheses)
        r = h if block.square else _Table.of(reps, block.references)
        shape = len(block.hypotheses), len(block.references)
        norm = self.metric.norm
        at_h, at_r, inner = _shared(h, r)
        squares = h.squares[at_h] + r.squares[at_r]
        between = np.maximum(squares - 2 * inner, 0)
        between[between < ROUNDING * squares] = 0
        pair = h.text[at_h] * shape[1] + r.text[at_r]

        def summed(values: FloatArray | None = None) -> FloatArray:
            """Sums over the shared foci of every pair, in the order of the foci, [H, R]."""
            return np.bincount(pair, values, shape[0] * shape[1]).reshape(shape).astype(np.float64)

        shared, distance = summed(), summed(_norm(between, norm))
        all_h, all_r = h.total(shape[0], norm)[:, None], r.total(shape[1], norm)[None, :]
        n_h = reps["keys"].lengths[block.hypotheses].astype(np.float64)[:, None]
        n_r = reps["keys"].lengths[block.references].astype(np.float64)[None, :]
        if self.metric.policy == "ignore":
            missing_h = missing_r = np.zeros(shape)
        else:
            missing_h = all_h - summed(_norm(h.squares[at_h], norm))
            missing_r = all_r - summed(_norm(r.squares[at_r], norm))
        if self.metric.policy == "union":
            return _divided(distance + missing_h + missing_r, n_h + n_r - shared)
        p, q = _divided(distance + missing_h, n_h), _divided(distance + missing_r, n_r)
        found = {"P": p, "R": q, "F": (p + q) / 2}[self.metric.aggregate or "P"]
        nothing = np.zeros(shape) if self.metric.compat else _divided(all_h + all_r, n_h + n_r)
        return np.where(shared > 0, found, nothing)

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over references, or the smallest, [H]."""
        reduced = np.mean if self.metric.several == "mean" else np.min
        return [np.asarray(reduced(u, axis=1)) for u in self.compare(reps, blocks)]

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The foci of a pair: "shared" with the distance of each, the farthest first; "missed" by the hypothesis and
        "added" by it, the heaviest first.
        """
        rows = np.array([block.hypotheses[hypothesis]]), np.array([block.references[reference]])
        h, r = _Table.of(reps, rows[0]), _Table.of(reps, rows[1])
        names = {
            key_id(name): name
            for row in rows
            for name in unpacked(row_of(reps["names"], int(row[0])))
        }
        at_h, at_r, inner = _shared(h, r)
        between = _norm(
            np.maximum(h.squares[at_h] + r.squares[at_r] - 2 * inner, 0), self.metric.norm
        )
        shared = {names[int(k)]: float(d) for k, d in zip(h.key[at_h], between, strict=True)}
        found = {"shared": dict(sorted(shared.items(), key=lambda item: -item[1]))}
        for label, side in (("missed", r), ("added", h)):
            weights = zip(
                side.key.tolist(), _norm(side.squares, self.metric.norm).tolist(), strict=True
            )
            only = {names[key]: weight for key, weight in weights if names[key] not in shared}
            found[label] = dict(sorted(only.items(), key=lambda item: -item[1]))
        return found


def _norm(squares: FloatArray, norm: str) -> FloatArray:
    return np.sqrt(squares) if norm == "l2" else squares


def _divided(total: FloatArray, count: FloatArray) -> FloatArray:
    """The mean; 0 of nothing."""
    return np.divide(total, count, out=np.zeros(np.broadcast(total, count).shape), where=count > 0)


def _shared(h: _Table, r: _Table) -> tuple[IntArray, IntArray, FloatArray]:
    """Every two foci of the two sides that are the same, [cells] each, ordered by focus, and their inner products."""
    keys = np.intersect1d(h.key, r.key)
    sides = []
    for side in (h, r):
        start, stop = np.searchsorted(side.key, keys), np.searchsorted(side.key, keys, "right")
        sides.append([np.arange(a, b) for a, b in zip(start, stop, strict=True)])
    groups = [Block(a, b) for a, b in zip(*sides, strict=True)]
    if not groups:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    inner = [products(h.vectors[g.hypotheses], r.vectors[g.references]).ravel() for g in groups]
    return *cell_rows(groups), np.concatenate(inner)
