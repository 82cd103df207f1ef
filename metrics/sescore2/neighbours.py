"""Margin-based nearest neighbours of sentence vectors (Schwenk et al. 2021; Xu et al. 2023, appendix B).

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact: tiles of a matrix product, or a flat index of faiss where that is installed and there are many vectors.
A text is no neighbour of itself, neither by number nor by text; the released code counts it among its own k neighbours
(``count_self``). A margin compares a pair with what is usual around both, so k has to be large against the number of
texts that say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..reps import FloatArray, IntArray

Floats = NDArray[np.float32]
Search = Callable[[IntArray, int], tuple[Floats, IntArray]]
TILE = 1 << 24  # similarities computed at a time
FAISS_FROM = 1 << 20  # vectors from which on faiss pays


class Nearest(NamedTuple):
    """The k nearest neighbours of some rows, the most similar first; -1 and -inf where there are fewer."""

    ids: IntArray  # [rows, k]
    cosines: Floats  # [rows, k]
    margins: Floats  # [rows, k]


def unit(vectors: Floats) -> Floats:
    """Vectors [n, d] of length 1; raises InputError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(norms) & (norms > 0))[:, 0])[0])
        raise InputError("its vector is zero or not finite", where=f"text {bad}", fix="Leave the text out")
    return np.ascontiguousarray(vectors / norms, np.float32)


def nearest(
    vectors: Floats,
    texts: Sequence[str],
    rows: IntArray,
    k: int,
    *,
    count_self: bool = False,
    device: Any = "cpu",
    on_progress: Callable[[int], None] = lambda done: None,
) -> Nearest:
    """The k nearest neighbours among all vectors of the given rows, and the margin of each.

    Args:
        vectors: unit length, float32 [n, d].
        texts: the text of each; equal texts (but for space around them) are not neighbours.
        rows: which rows' neighbours are wanted.
        k: how many; at most n - 1 are used.
        count_self: whether a row and its equals are among its neighbours, as in the released code.
        device: where products are computed.
        on_progress: called with the number of rows done; a neighbour that is no row counts as one, too.
    """
    k = min(k, len(vectors) - (not count_self))
    if k < 1:
        raise InputError(f"{len(vectors)} texts", where="neighbours", fix="Give more texts: neighbours are among them")
    search = _Search(vectors, () if count_self else texts, device)
    cosines, ids = search(rows, k, on_progress)
    mean = np.full(len(vectors), np.nan)  # of the k nearest
    mean[rows] = _means(cosines)
    others = np.flatnonzero(np.isnan(mean) & np.isin(np.arange(len(vectors)), ids))
    if len(others):
        mean[others] = _means(search(others, k, lambda done: on_progress(len(rows) + done))[0])
    around = (mean[rows][:, None] + np.where(ids < 0, np.nan, mean[ids])) / 2
    margins = np.divide(cosines, around, out=np.full(ids.shape, -np.inf), where=around > 0)
    return Nearest(ids, cosines, margins.astype(np.float32))


def _means(cosines: Floats) -> FloatArray:
    """The mean of the neighbours there are."""
    there = np.isfinite(cosines)
    found: FloatArray = np.where(there, cosines, 0).sum(axis=1, dtype=float) / np.maximum(there.sum(axis=1), 1)
    return found


class _Search:
    """The k most similar vectors of rows, without those of equal texts."""

    def __init__(self, vectors: Floats, texts: Sequence[str], device: Any) -> None:
        import torch

        self.torch, self.vectors = torch, vectors
        self.equals = _equals(texts)
        self.index: Any = _faiss_index(vectors) if len(vectors) >= FAISS_FROM else None
        self.known: Any = None if self.index is not None else torch.from_numpy(vectors).to(device)

    def __call__(self, rows: IntArray, k: int, on_progress: Callable[[int], None]) -> tuple[Floats, IntArray]:
        step = max(1, TILE // len(self.vectors))
        parts = []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            parts.append(self._flat(part, k) if self.index is None else self._faiss(part, k))
            on_progress(start + len(part))
        if not parts:
            return np.empty((0, k), np.float32), np.empty((0, k), np.int64)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _flat(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        torch, known = self.torch, self.known
        cosines = known[torch.from_numpy(rows).to(known.device)] @ known.T
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                cosines[place, self.equals[row]] = -torch.inf
        values, ids = cosines.topk(k, dim=1)
        values, ids = values.cpu().numpy(), ids.cpu().numpy()
        return values, np.where(np.isfinite(values), ids, -1)

    def _faiss(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        more = max((len(self.equals.get(row, ())) for row in rows.tolist()), default=0)
        values, ids = self.index.search(self.vectors[rows], min(k + more, len(self.vectors)))
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                values[place, np.isin(ids[place], self.equals[row])] = -np.inf
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        values, ids = np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)
        return values, np.where(np.isfinite(values), ids, -1)


def _equals(texts: Sequence[str]) -> dict[int, list[int]]:
    """The rows that have the text of a row, itself among them."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        groups.setdefault(text.strip(), []).append(row)
    return {row: rows for rows in groups.values() for row in rows}


def _faiss_index(vectors: Floats) -> Any | None:
    if find_spec("faiss") is None:
        return None
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index
