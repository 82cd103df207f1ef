"""Greedy matching of the token vectors of all pairs of a list.

    P(h, r) = sum_i a_i max_j h_i.r_j / sum_i a_i,   R(h, r) = P(r, h)

The tokens of many texts stand one after the other, so that the products of all their pairs are one matrix product, some
rows at a time; of a square block about half is computed. Every product has a multiple of 16 rows and columns: then no
number's bytes depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged
from ..models.packed_attention import ROWS, Slab, slabs_of

CPU_TILE, GPU_TILE = (
    (512, 4096),
    (8192, 16384),
)  # tokens of the texts that are rows and columns of one product


class _Texts(NamedTuple):
    """Texts one after the other, the shortest first."""

    places: IntArray  # [n] in the block
    lengths: IntArray  # [n]
    vectors: Any  # [tokens and some more, to a multiple of 16, d]
    shares: Any  # [tokens]; they sum to 1 in each text that has any weight

    @classmethod
    def of(cls, device: Any, vectors: Ragged, weights: Ragged, rows: IntArray) -> Self:
        """The texts in these rows that have tokens."""
        import torch

        every = vectors.lengths[rows]
        places = np.argsort(every, kind="stable")[np.count_nonzero(every == 0) :]
        lengths, texts = every[places], rows[places]
        more = texts[:1].repeat(-(-ROWS // max(1, lengths[:1].sum())))
        tokens = torch.from_numpy(vectors[np.append(texts, more)].values).to(device)
        weight, text = weights[texts].values, np.repeat(np.arange(len(texts)), lengths)
        total = np.bincount(text, weight, len(texts))[text]  # adds in order
        share = np.divide(weight, total, out=np.zeros(len(total)), where=total > 0)
        return cls(places, lengths, tokens, torch.from_numpy(share).to(device))

    def parts(self, tokens: int, start: int = 0) -> Iterator[tuple[int, Self]]:
        """Where they begin, and texts of at most so many tokens together (one may be longer), from text `start` on."""
        ends = self.lengths.cumsum()
        while start < len(ends):
            first = int(ends[start] - self.lengths[start])
            stop = max(start + 1, int(np.searchsorted(ends, first + tokens, "right")))
            last = int(ends[stop - 1])
            rows = slice(first, last + (first - last) % ROWS)
            own = (
                self.places[start:stop],
                self.lengths[start:stop],
                self.vectors[rows],
                self.shares[first:last],
            )
            yield start, type(self)(*own)
            start = stop


def best_matches(
    device: Any, vectors: Ragged, weights: Ragged, block: Block
) -> tuple[FloatArray, FloatArray]:
    """P and R of every pair, [H, R] each; vectors: [tokens, d] per text, weights: [tokens] per text."""
    shape = len(block.hypotheses), len(block.references)
    p, r = np.zeros(shape), np.zeros(shape)
    rows = _Texts.of(device, vectors, weights, block.hypotheses)
    columns = rows if block.square else _Texts.of(device, vectors, weights, block.references)
    high, wide = CPU_TILE if device.type == "cpu" else GPU_TILE
    for start, a in rows.parts(high):
        for _, b in columns.parts(wide, start if block.square else 0):
            of_a, of_b = _match(a, b)
            where = np.ix_(a.places, b.places)
            p[where], r[where] = of_a, of_b
            if block.square:
                p[where[::-1]], r[where[::-1]] = of_b, of_a  # indexed as [column, row]
    return p, r


def _match(a: _Texts, b: _Texts) -> tuple[FloatArray, FloatArray]:
    """Weighted means of the best matches of the tokens of `a` in `b`, and of those of `b` in `a`, [n_a, n_b] each."""
    cosines = a.vectors @ b.vectors.T
    slabs_a, slabs_b = slabs_of(a.lengths.tolist()), slabs_of(b.lengths.tolist())
    of_a = _mean(_best(cosines.T, slabs_b), a.shares, slabs_a)
    of_b = _mean(_best(cosines, slabs_a), b.shares, slabs_b)
    return of_a.T, of_b


def _best(cosines: Any, slabs: list[Slab]) -> Any:
    """The largest number in each text, [texts, other tokens], of [tokens, other tokens]."""
    import torch

    return torch.cat([slab.rows(cosines).amax(1) for slab in slabs])


def _mean(best: Any, shares: Any, slabs: list[Slab]) -> FloatArray:
    """Weighted means over the tokens of each text, [other texts, texts], of [other texts, tokens]."""
    import torch

    weighted = best[:, : len(shares)].double() * shares
    return torch.cat([slab.rows(weighted.T).sum(1) for slab in slabs]).T.cpu().numpy()
