"""Margin-based nearest neighbours of sentence vectors (Schwenk et al. 2021; Xu et al. 2023, appendix B).

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact: tiles of a matrix product, or a flat index of faiss where that is installed and there are many vectors.
A text is no neighbour of itself, neither by number nor by text; the released code counts it among its own k neighbours
(``count_self``). A margin compares a pair with what is usual around both, so k has to be large against the number of
texts that say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..representations import Array, FloatArray, IntArray

Floats = NDArray[np.float32]
NEIGHBOUR = np.dtype([("id", "<i4"), ("cosine", "<f4")])
TILE = 1 << 24  # similarities computed at a time
FAISS_FROM = 1 << 20  # vectors from which on faiss pays


def unit(vectors: Floats) -> Floats:
    """Vectors [n, d] of length 1; raises InputError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(norms) & (norms > 0))[:, 0])[0])
        raise InputError(
            "its vector is zero or not finite", where=f"text {bad}", fix="Leave the text out"
        )
    return np.ascontiguousarray(vectors / norms, np.float32)


class Search:
    """Finds the k most similar vectors, without those of equal texts.

    Args:
        vectors: unit length, float32 [n, d].
        texts: the text of each; equal texts (but for space around them) are not neighbours.
        k: how many; at most n - 1 are found.
        count_self: whether a row and its equals are among its neighbours, as in the released code.
        device: where products are computed.

    Raises:
        InputError: there is only one vector.
    """

    def __init__(
        self,
        vectors: Floats,
        texts: Sequence[str],
        k: int,
        *,
        count_self: bool = False,
        device: Any = "cpu",
    ) -> None:
        import torch

        self.torch, self.vectors, self.k = torch, vectors, min(k, len(vectors) - (not count_self))
        if self.k < 1:
            raise InputError(
                f"{len(vectors)} texts",
                where="neighbours",
                fix="Give more texts: neighbours are others",
            )
        self.equals = {} if count_self else _equals(texts)
        self.index: Any = _faiss_index(vectors) if len(vectors) >= FAISS_FROM else None
        self.known: Any = None if self.index is not None else torch.from_numpy(vectors).to(device)

    def __call__(self, rows: IntArray) -> Array:
        """The neighbours of some rows, the most similar first, `NEIGHBOUR` [rows, k]; id -1 where there are fewer."""
        step = max(1, TILE // len(self.vectors))
        parts: list[Array] = [np.empty((0, self.k), NEIGHBOUR)]
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            cosines, ids = (
                self._flat(part, self.k) if self.index is None else self._faiss(part, self.k)
            )
            found: Array = np.empty(cosines.shape, NEIGHBOUR)
            found["cosine"], found["id"] = cosines, np.where(np.isfinite(cosines), ids, -1)
            parts.append(found)
        return np.concatenate(parts)

    def _flat(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        torch, known = self.torch, self.known
        cosines = known[torch.from_numpy(rows).to(known.device)] @ known.T
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                cosines[place, self.equals[row]] = -torch.inf
        values, ids = cosines.topk(k, dim=1)
        return values.cpu().numpy(), ids.cpu().numpy()

    def _faiss(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        more = max((len(self.equals.get(row, ())) for row in rows.tolist()), default=0)
        values, ids = self.index.search(self.vectors[rows], min(k + more, len(self.vectors)))
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                values[place, np.isin(ids[place], self.equals[row])] = -np.inf
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)


def means(found: Array) -> FloatArray:
    """The mean cosine of every row's neighbours [rows], from `NEIGHBOUR` [rows, k]."""
    there = found["id"] >= 0
    total = np.where(there, found["cosine"], 0).sum(axis=1, dtype=float)
    mean: FloatArray = total / np.maximum(there.sum(axis=1), 1)
    return mean


def margins(found: Array, own: FloatArray, every: FloatArray) -> FloatArray:
    """The margin of every neighbour [rows, k]; -inf where there is none.

    Args:
        found: neighbours of some rows, `NEIGHBOUR` [rows, k].
        own: the mean of each of these rows [rows], as `means` gives it.
        every: the mean of all rows [n].
    """
    there = found["id"] >= 0
    around = (own[:, None] + every[found["id"]]) / 2
    margin: FloatArray = np.full(found.shape, -np.inf)
    np.divide(found["cosine"], around, out=margin, where=there & (around > 0))
    return margin


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
