"""COMET's regression head over all pairs of many lists, its first layer split by columns.

    ff([h, r, h*r, |h-r|, h*s, |h-s|]);   first layer:  A(h, s) + B(r) + C(h, r)
    A = W_h h + W_hs (h*s) + W_ds |h-s| + bias,   B = W_r r,   C = W_hr (h*r) + W_d |h-r|

A and B are computed once per text; C, which is symmetric, once per unordered pair of a square block. Without references
the head is ff([h, s, h*s, |h-s|]), once per text. Every product has a multiple of 16 rows: then a row's bytes do not
depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..reps import Block, FloatArray, IntArray, by_block
from .packed import ROWS

CPU_PAIRS, GPU_PAIRS = 1024, 1 << 15  # pairs of one product


class Head:
    """Linear layers with activations between them, and one at the end if wanted.

    Args:
        layers: (weight [out, in], bias [out]) of every layer.
        activation: between layers, in place or not.
        final: after the last, if anything.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Any, Any]],
        activation: Callable[[Any], Any],
        final: Callable[[Any], Any] | None,
    ) -> None:
        self.layers = [(weight.T.contiguous(), bias) for weight, bias in layers]
        self.activation, self.final = activation, final

    def whole(self, features: Any) -> FloatArray:
        """Values [n] of features [n, in]."""
        weight, bias = self.layers[0]
        return self.rest(product(features, weight).add_(bias))

    def rest(self, x: Any) -> FloatArray:
        """Values [n] from the first layer's output [n, hidden] before its activation, which is used up."""
        for weight, bias in self.layers[1:]:
            x = product(self.activation(x), weight).add_(bias)
        x = x[:, 0] if self.final is None else self.final(x[:, 0])
        return x.double().cpu().numpy()  # type: ignore[no-any-return]


class PairHead:
    """The head of metrics with a reference: 6 d features per pair."""

    def __init__(self, head: Head) -> None:
        import torch

        self.head = head
        weight, self.bias = head.layers[0]
        w_h, w_r, w_hr, w_d, w_hs, w_ds = weight.chunk(6)
        self.w_h, self.w_r, self.w_pair = torch.cat((w_h, w_hs, w_ds)), w_r.contiguous(), torch.cat((w_hr, w_d))

    def compare(self, e: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block; e: vectors [rows, d]."""
        import torch

        def on_device(rows: Sequence[IntArray]) -> Any:
            return torch.from_numpy(np.concatenate(rows)).to(e.device)

        h = e[on_device([b.hypotheses for b in blocks])]
        s = e[on_device([np.full(len(b.hypotheses), b.source) for b in blocks])]
        r = e[on_device([b.references for b in blocks])]
        of_h = product(torch.cat((h, h * s, (h - s).abs_()), 1), self.w_h).add_(self.bias)
        of_r = product(r, self.w_r)
        pairs = _Pairs.of(blocks)
        values = np.empty(sum(b.cells for b in blocks))
        step = CPU_PAIRS if e.device.type == "cpu" else GPU_PAIRS
        for start in range(0, len(pairs.cell), step):
            part = slice(start, start + step)
            i, j = on_device([pairs.h[part]]), on_device([pairs.r[part]])
            a, b = h[i], r[j]
            both = product(torch.cat((a * b, a.sub_(b).abs_()), 1), self.w_pair)
            back = np.flatnonzero(pairs.turned_cell[part] >= 0)
            turned = on_device([back])
            again = both[turned] if len(back) < len(i) else both
            j_as_h, i_as_r = on_device([pairs.turned_h[part][back]]), on_device([pairs.turned_r[part][back]])
            turned_sum = (again + of_h[j_as_h]).add_(of_r[i_as_r]) if len(back) else None
            values[pairs.cell[part]] = self.head.rest((both + of_h[i]).add_(of_r[j]))
            if turned_sum is not None:
                values[pairs.turned_cell[part][back]] = self.head.rest(turned_sum)
        return by_block(values, blocks)


class _Pairs(NamedTuple):
    """Pairs to compute, of a square block only those of the upper half, and where their values go."""

    h: IntArray  # place among the hypotheses of all blocks
    r: IntArray  # place among the references of all blocks
    cell: IntArray
    turned_h: IntArray  # the same pair the other way round; its cell is -1 where there is none
    turned_r: IntArray
    turned_cell: IntArray

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> _Pairs:
        found, at_h, at_r, at = [], 0, 0, 0
        for block in blocks:
            high, wide = len(block.hypotheses), len(block.references)
            i, j = np.triu_indices(high) if block.square else np.indices((high, wide)).reshape(2, -1)
            turned = np.where((i != j) & block.square, at + j * wide + i, -1)
            found.append((i + at_h, j + at_r, at + i * wide + j, j + at_h, i + at_r, turned))
            at_h, at_r, at = at_h + high, at_r + wide, at + block.cells
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True)))


def source_features(h: Any, s: Any) -> Any:
    """[h, s, h*s, |h-s|], [n, 4 d]: what the head of a metric without references reads."""
    import torch

    return torch.cat((h, s, h * s, (h - s).abs()), 1)


def product(x: Any, weight: Any) -> Any:
    """x [n, in] @ weight [in, out], its rows padded to a multiple of 16."""
    missing = -len(x) % ROWS
    if not missing:
        return x @ weight
    import torch

    return (torch.nn.functional.pad(x, (0, 0, 0, missing)) @ weight)[: len(x)]
