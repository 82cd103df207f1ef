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

# Tokens of the texts that are rows, and of those that are columns, of one product.
CPU_TILE, GPU_TILE = (512, 4096), (8192, 16384)


class _SortedTexts(NamedTuple):
    """Texts one after the other, the shortest first."""

    places: IntArray  # [n] in the block
    lengths: IntArray  # [n]
    vectors: Any  # [tokens and spare rows, to a multiple of 16, d]
    shares: Any  # [tokens]; they sum to 1 in each text that has any weight

    @classmethod
    def of(
        cls,
        device: Any,
        vectors: Ragged,
        weights: Ragged,
        rows: IntArray,
    ) -> Self:
        """The texts in these rows [n] that have tokens; vectors: [tokens, d] per text, weights: [tokens] per text."""
        import torch

        # Empty texts are the shortest; they are left out.
        lengths = vectors.lengths[rows]  # [all texts]
        num_empty = np.count_nonzero(lengths == 0)
        places = np.argsort(lengths, kind="stable")[num_empty:]
        lengths, texts = lengths[places], rows[places]

        # At least 16 spare rows of vectors: the shortest text, again and again.
        shortest = max(1, lengths[:1].sum())
        repeats = -(-ROWS // shortest)
        spare = texts[:1].repeat(repeats)
        tokens = vectors[np.append(texts, spare)].values  # [tokens and spare rows, d]

        # The share of a token in the weight of its text.
        weight = weights[texts].values  # [tokens]
        text = np.repeat(np.arange(len(texts)), lengths)  # [tokens]
        totals = np.bincount(text, weight, len(texts))  # [n], added in order
        total = totals[text]  # [tokens]
        share = np.zeros(len(total))
        np.divide(weight, total, out=share, where=total > 0)
        return cls(
            places=places,
            lengths=lengths,
            vectors=torch.from_numpy(tokens).to(device),
            shares=torch.from_numpy(share).to(device),
        )

    def parts(self, tokens: int, start: int = 0) -> Iterator[tuple[int, Self]]:
        """Where they begin, and texts of at most so many tokens together (one may be longer), from text `start` on."""
        ends = self.lengths.cumsum()
        while start < len(ends):
            first = int(ends[start] - self.lengths[start])
            within_budget = int(np.searchsorted(ends, first + tokens, "right"))
            stop = max(start + 1, within_budget)
            last = int(ends[stop - 1])
            # Rows of the next texts, or the spare ones, fill up to a multiple of 16.
            end = last + (first - last) % ROWS
            part = type(self)(
                places=self.places[start:stop],
                lengths=self.lengths[start:stop],
                vectors=self.vectors[first:end],
                shares=self.shares[first:last],
            )
            yield start, part
            start = stop


def best_matches(
    device: Any,
    vectors: Ragged,
    weights: Ragged,
    block: Block,
) -> tuple[FloatArray, FloatArray]:
    """P and R of every pair, [H, R] each; vectors: [tokens, d] per text, weights: [tokens] per text."""
    shape = len(block.hypotheses), len(block.references)
    p, r = np.zeros(shape), np.zeros(shape)
    rows = _SortedTexts.of(device, vectors, weights, block.hypotheses)
    columns = rows
    if not block.square:
        columns = _SortedTexts.of(device, vectors, weights, block.references)
    row_tokens, column_tokens = CPU_TILE if device.type == "cpu" else GPU_TILE
    for start, a in rows.parts(row_tokens):
        # Of a square block, what is left of the diagonal has been computed as its mirror image.
        for _, b in columns.parts(column_tokens, start if block.square else 0):
            of_a, of_b = _match(a, b)  # [n_a, n_b] each
            where = np.ix_(a.places, b.places)
            p[where], r[where] = of_a, of_b
            if block.square:
                mirrored = where[::-1]  # indexed as [column, row]
                p[mirrored], r[mirrored] = of_b, of_a
    return p, r


def _match(a: _SortedTexts, b: _SortedTexts) -> tuple[FloatArray, FloatArray]:
    """Weighted means of the best matches of the tokens of `a` in `b`, and of those of `b` in `a`, [n_a, n_b] each."""
    cosines = a.vectors @ b.vectors.T  # [tokens of a, tokens of b], spare ones included
    slabs_a = slabs_of(a.lengths.tolist())
    slabs_b = slabs_of(b.lengths.tolist())
    of_a = _mean(_best(cosines.T, slabs_b), a.shares, slabs_a)  # [n_b, n_a]
    of_b = _mean(_best(cosines, slabs_a), b.shares, slabs_b)  # [n_a, n_b]
    return of_a.T, of_b


def _best(cosines: Any, slabs: list[Slab]) -> Any:
    """The largest number in each text, [texts, other tokens], of [tokens, other tokens]."""
    import torch

    return torch.cat([slab.rows(cosines).amax(1) for slab in slabs])


def _mean(
    best: Any,
    shares: Any,
    slabs: list[Slab],
) -> FloatArray:
    """Weighted means over the tokens of each text, [other texts, texts].

    best: the largest numbers, [other texts, tokens and spare ones]. shares: of the tokens in their texts, [tokens].
    """
    import torch

    weighted = best[:, : len(shares)].double() * shares  # [other texts, tokens]
    by_text = [slab.rows(weighted.T).sum(1) for slab in slabs]  # [texts of the slab, other texts]
    return torch.cat(by_text).T.cpu().numpy()
