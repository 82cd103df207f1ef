"""Greedy matching of the token vectors of all pairs of a list.

    P(h, r) = sum_i a_i max_j h_i.r_j / sum_i a_i,   R(h, r) = P(r, h)

Texts are padded, once, to the next multiple of 16 tokens with copies of their own first vector, which change no maximum;
then the products of many pairs are one matrix product, a tile at a time, and of a square block one half is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..reps import Block, FloatArray, IntArray, Ragged

WIDTH = 16
CPU_CELLS, GPU_CELLS = 1 << 20, 1 << 27  # token pairs of one tile


class _Texts(NamedTuple):
    """Texts of one width."""

    places: IntArray  # [n] in the block
    vectors: Any  # [n, width, d]
    weights: Any  # [n, width]; sums to 1 in each text that has any


def best_matches(device: Any, vectors: Ragged, weights: Ragged, block: Block) -> tuple[FloatArray, FloatArray]:
    """P and R of every pair, [H, R] each; vectors: [tokens, d] per text, weights: [tokens] per text."""
    shape = len(block.hypotheses), len(block.references)
    p, r = np.zeros(shape), np.zeros(shape)
    rows = _by_width(device, vectors[block.hypotheses], weights[block.hypotheses])
    columns = rows if block.square else _by_width(device, vectors[block.references], weights[block.references])
    limit = CPU_CELLS if device.type == "cpu" else GPU_CELLS
    for i, a in enumerate(rows):
        for b in columns[i:] if block.square else columns:
            for first, second in _tiles(a, b, limit, half=block.square and a is b):
                of_first, of_second = _match(first, second)
                where = np.ix_(first.places, second.places)
                p[where], r[where] = of_first, of_second
                if block.square:
                    p[where[::-1]], r[where[::-1]] = of_second, of_first  # indexed as [column, row]
    return p, r


def _by_width(device: Any, vectors: Ragged, weights: Ragged) -> list[_Texts]:
    import torch

    lengths = vectors.lengths
    widths = np.maximum(-(-lengths // WIDTH) * WIDTH, WIDTH)
    found = []
    for width in np.unique(widths).tolist():
        places = np.flatnonzero((widths == width) & (lengths > 0))
        if not len(places):
            continue
        column = np.arange(width)
        within = column < lengths[places, None]
        token = vectors.offsets[places, None] + np.where(within, column, 0)  # [n, width]
        weight = np.where(within, weights.values[token], np.float32(0))
        total = weight.sum(axis=1, keepdims=True, dtype=np.float64)
        share = np.divide(weight, total, out=np.zeros(weight.shape), where=total > 0)
        found.append(
            _Texts(places, torch.from_numpy(vectors.values[token]).to(device), torch.from_numpy(share).to(device))
        )
    return found


def _tiles(a: _Texts, b: _Texts, limit: int, half: bool) -> Iterator[tuple[_Texts, _Texts]]:
    """Rows of `a` against columns of `b`, at most `limit` token pairs at a time if one text allows it."""
    cells = a.weights.shape[1] * b.weights.shape[1]
    wide = max(1, min(len(b.places), int((limit / cells) ** 0.5) * 4))
    high = max(1, limit // (cells * wide))
    for i in range(0, len(a.places), high):
        for j in range(i if half else 0, len(b.places), wide):
            yield _part(a, i, high), _part(b, j, wide)


def _part(texts: _Texts, start: int, count: int) -> _Texts:
    return _Texts(*(x[start : start + count] for x in texts))


def _match(a: _Texts, b: _Texts) -> tuple[FloatArray, FloatArray]:
    """Weighted means of the best matches of the tokens of `a` in `b`, and of those of `b` in `a`, [n_a, n_b] each."""
    (n, w, d), (m, v, _) = a.vectors.shape, b.vectors.shape
    cosines = (a.vectors.reshape(n * w, d) @ b.vectors.reshape(m * v, d).T).view(n, w, m, v)
    of_a = cosines.amax(3).transpose(1, 2).contiguous()  # [n, m, w]
    of_b = cosines.amax(1)  # [n, m, v]
    return _mean(of_a, a.weights[:, None]), _mean(of_b, b.weights[None])


def _mean(best: Any, shares: Any) -> FloatArray:
    return (best.double() * shares).sum(-1).cpu().numpy()  # type: ignore[no-any-return]
