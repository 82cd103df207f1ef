"""Margin-based nearest neighbours of sentence vectors (Schwenk et al. 2021; Xu et al. 2023, appendix B).

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact: tiles of a matrix product, or a flat index of faiss where that is installed and there are many vectors.
A text is no neighbour of itself, neither by number nor by text; the released code counts it among its own k neighbours
(``count_self``). A margin compares a pair with what is usual around both, so k has to be large against the number of
texts that say the same.

Vectors are means of an encoder's last layer over all tokens, of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...execution.batches import in_batches
from ...neural.comet.network import Mixer
from ...neural.models.context_tokens import Frame, Reader
from ...neural.models.encoder import Encoder
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...representations import Array, FloatArray, IntArray
from ...text.texts import Item

Floats = NDArray[np.float32]
NEIGHBOUR = np.dtype([("id", "<i4"), ("cosine", "<f4")])
TILE = 1 << 24  # similarities computed at a time
FAISS_FROM = 1 << 20  # vectors from which on faiss pays


def unit(vectors: Floats) -> Floats:
    """Vectors [n, d] of length 1; raises InputError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    good = np.isfinite(norms) & (norms > 0)  # [n, 1]
    if not good.all():
        first_bad = int(np.flatnonzero(~good[:, 0])[0])
        problem = "its vector is zero or not finite"
        raise InputError(problem, where=f"text {first_bad}", fix="Leave the text out")
    return np.ascontiguousarray(vectors / norms, np.float32)


class Search:
    """Finds the k most similar vectors, without those of equal texts.

    Args:
        vectors: unit length, float32 [n, d].
        texts: the text of each; equal texts (but for space around them) are not neighbours.
        k: the number of neighbours; there are n - 1 at most.
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

        self.torch = torch
        self.vectors = vectors
        others = len(vectors) - (not count_self)
        self.k = min(k, others)
        if self.k < 1:
            problem = f"{len(vectors)} texts"
            fix = "Give more texts: neighbours are others"
            raise InputError(problem, where="neighbours", fix=fix)
        self.equals = {} if count_self else _equals(texts)
        self.index: Any = None
        if len(vectors) >= FAISS_FROM:
            self.index = _faiss_index(vectors)
        self.known: Any = None  # the vectors on the device, where there is no index
        if self.index is None:
            self.known = torch.from_numpy(vectors).to(device)

    def __call__(self, rows: IntArray) -> Array:
        """The neighbours of some rows, the most similar first, `NEIGHBOUR` [rows, k]; id -1 where there are fewer."""
        search = self._flat if self.index is None else self._faiss
        step = max(1, TILE // len(self.vectors))
        parts: list[Array] = [np.empty((0, self.k), NEIGHBOUR)]
        for start in range(0, len(rows), step):
            cosines, ids = search(rows[start : start + step], self.k)
            neighbours: Array = np.empty(cosines.shape, NEIGHBOUR)
            neighbours["cosine"] = cosines
            neighbours["id"] = np.where(np.isfinite(cosines), ids, -1)
            parts.append(neighbours)
        return np.concatenate(parts)

    def _flat(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        """Cosines and rows of the k most similar vectors, [rows, k] each, by a matrix product."""
        torch = self.torch
        known = self.known
        queries = known[torch.from_numpy(rows).to(known.device)]
        cosines = queries @ known.T  # [rows, n]
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                cosines[place, self.equals[row]] = -torch.inf
        values, ids = cosines.topk(k, dim=1)
        return values.cpu().numpy(), ids.cpu().numpy()

    def _faiss(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        """The same by the index of faiss."""
        # equal texts are left out afterwards: ask for as many more
        num_equals = [len(self.equals.get(row, ())) for row in rows.tolist()]
        enough = k + max(num_equals, default=0)
        cosines, ids = self.index.search(self.vectors[rows], min(enough, len(self.vectors)))
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                equal = np.isin(ids[place], self.equals[row])
                cosines[place, equal] = -np.inf
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        best_cosines = np.take_along_axis(cosines, order, 1)
        best_ids = np.take_along_axis(ids, order, 1)
        return best_cosines, best_ids


def means(neighbours: Array) -> FloatArray:
    """The mean cosine of every row's neighbours [rows], from `NEIGHBOUR` [rows, k]."""
    present = neighbours["id"] >= 0
    cosines = np.where(present, neighbours["cosine"], 0)
    total = cosines.sum(axis=1, dtype=float)
    mean: FloatArray = total / np.maximum(present.sum(axis=1), 1)
    return mean


def margins(
    neighbours: Array,
    own_means: FloatArray,
    all_means: FloatArray,
) -> FloatArray:
    """The margin of every neighbour [rows, k]; -inf where there is none.

    Args:
        neighbours: of some rows, `NEIGHBOUR` [rows, k].
        own_means: the mean of each of these rows [rows], as `means` gives it.
        all_means: the mean of all rows [n].
    """
    present = neighbours["id"] >= 0
    neighbour_means = all_means[neighbours["id"]]
    around = (own_means[:, None] + neighbour_means) / 2
    margin: FloatArray = np.full(neighbours.shape, -np.inf)
    defined = present & (around > 0)
    np.divide(neighbours["cosine"], around, out=margin, where=defined)
    return margin


def _equals(texts: Sequence[str]) -> dict[int, list[int]]:
    """The rows that have the text of a row, itself among them."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        groups.setdefault(text.strip(), []).append(row)
    return {row: rows for rows in groups.values() for row in rows}


def _faiss_index(vectors: Floats) -> Any | None:
    """A flat index of inner products; None where faiss is not installed."""
    if find_spec("faiss") is None:
        return None
    import faiss  # pyright: ignore[reportMissingImports]

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


class SentenceEncoder:
    """Makes vectors of texts.

    Args:
        model: minilm, a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        batch_tokens: tokens in one batch, chosen by device if not given.

    Raises:
        ModelLoadError: it is not there, or no encoder.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        folder = files.locate(model)
        tokenizer = tokenizer_of(folder)
        self.encoder = Encoder(pretrained(folder), device, "float32")
        self.encoder.batch_tokens = batch_tokens or self.encoder.batch_tokens
        max_tokens = min(512, self.encoder.max_tokens)
        self.reader = Reader(tokenizer, Frame.of(tokenizer), max_tokens, "oldest-context")
        self.mixer = Mixer(None, None, False, "avg")

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32 [n, d]."""
        items = [Item(text) for text in texts]
        ids = self.reader.read(items)["ids"]
        width = self.encoder.config.hidden_size

        def represent(rows: IntArray) -> Floats:
            vectors = np.empty((len(rows), width), np.float32)
            for places, states in self.encoder.states(ids[rows]):
                vectors[places] = self.mixer.vectors(states, None).cpu().numpy()
            return vectors

        parts, places = in_batches(ids.lengths, self.encoder.batch_tokens, represent)
        return unit(np.concatenate(parts)[places])


def digest_of(model: str) -> str:
    """The digest of an encoder's files."""
    return files.digest(files.locate(model))
