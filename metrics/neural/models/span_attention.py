"""Attention of sequences that stand one after the other in a row of tokens, to others and to what is before them.

Queries and keys of a sequence are padded to the next multiple of 16 of its own numbers of them, and sequences of equal
shape attend together. So what comes out for a sequence depends on it alone, to the last bit on a CPU: a kernel rounds
differently for another shape, and, where a shape is no such multiple, from thread to thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ...representations import IntArray

WIDTH = 16


@dataclass(frozen=True, slots=True)
class Spans:
    """Sequences in a row of tokens."""

    start: IntArray  # [n]
    length: IntArray  # [n]

    @classmethod
    def of_lengths(cls, lengths: IntArray) -> Self:
        """Sequences one after the other."""
        return cls(lengths.cumsum() - lengths, lengths)

    def __getitem__(self, rows: IntArray) -> Self:
        return type(self)(self.start[rows], self.length[rows])

    @property
    def places(self) -> IntArray:
        """Place of every token in its sequence, [tokens]."""
        return np.arange(self.length.sum()) - np.repeat(
            self.length.cumsum() - self.length, self.length
        )


class _Shape(NamedTuple):
    """Sequences with equally many queries and keys, once padded."""

    queries: Any  # [count, wide] rows of the queries' matrix
    keys: Any  # [count, deep] rows of the keys' matrix
    seen: Any  # [count, 1, wide, deep] whether a query sees a key


class Attention:
    """Which token attends to which.

    Args:
        queries: the sequences, some of which may be empty.
        before: what every token of each of them sees, in the matrix of the keys.
        own: tokens also see their own sequence up to themselves; keys and queries are then rows of one matrix.
        rows: rows of the queries' matrix; those of no sequence come out as anything.
        device: where tensors are made.
    """

    def __init__(
        self, queries: Spans, before: Spans, rows: int, device: Any, *, own: bool = False
    ) -> None:
        import torch

        self.shapes = []
        place = np.zeros(rows, np.int64)
        at = 0
        for some in _alike(queries.length, before.length + own * queries.length):
            found, tokens = _shape(queries[some], before[some], own)
            self.shapes.append(_Shape(*(torch.from_numpy(x).to(device) for x in found)))
            wide = found.queries.shape[1]
            first = np.repeat(np.arange(len(some)) * wide, queries.length[some])
            place[tokens] = at + first + queries[some].places
            at += len(some) * wide
        self.place = torch.from_numpy(place).to(device)

    def __call__(self, query: Any, key: Any, value: Any, scaling: float) -> Any:
        """What the queries [rows, heads, d] see of the values [keys, heads, d], [rows, heads, d]."""
        import torch

        attention = torch.nn.functional.scaled_dot_product_attention
        found = []
        for shape in self.shapes:
            q, k, v = _at(shape.queries, query), _at(shape.keys, key), _at(shape.keys, value)
            out = attention(q, k, v, attn_mask=shape.seen, scale=scaling)  # [count, heads, wide, d]
            found.append(out.transpose(1, 2).reshape(-1, *value.shape[1:]))
        return torch.cat(found).index_select(0, self.place)


def _alike(queries: IntArray, keys: IntArray) -> Iterator[IntArray]:
    """The sequences of each shape, without the empty ones."""
    shapes = np.stack([-(-queries // WIDTH), -(-keys // WIDTH)], axis=1)
    _, kind = np.unique(shapes, axis=0, return_inverse=True)
    for number in range(int(kind.max(initial=-1)) + 1):
        some = np.flatnonzero((kind == number) & (queries > 0))
        if len(some):
            yield some


def _shape(queries: Spans, before: Spans, own: bool) -> tuple[_Shape, IntArray]:
    """Rows and mask of sequences of one shape, and the rows of all their tokens."""
    total = before.length + own * queries.length
    wide, deep = (-(-int(n.max()) // WIDTH) * WIDTH for n in (queries.length, total))
    query = np.minimum(
        np.arange(wide), queries.length[:, None] - 1
    )  # [count, wide], the last one again and again
    key = np.minimum(np.arange(deep), total[:, None] - 1)
    ahead = before.length[:, None]
    rows = np.where(key < ahead, before.start[:, None] + key, queries.start[:, None] + key - ahead)
    seen = ahead + own * (query + 1)  # [count, wide] how many of the keys
    mask = np.arange(deep) < seen[:, None, :, None]
    tokens = np.repeat(queries.start, queries.length) + queries.places
    return _Shape(queries.start[:, None] + query, rows, mask), tokens


def _at(rows: Any, x: Any) -> Any:
    """Rows [count, n] of a matrix [rows, heads, d] as [count, heads, n, d]."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, *x.shape[1:]).transpose(1, 2)
