"""The regression head of COMET and SEScore2 over all pairs of many lists, its first layer split by columns.

    ff([h, r, h*r, |h-r|, h*s, |h-s|]);   first layer:  A(h, s) + B(r) + C(h, r)
    A = W_h h + W_hs (h*s) + W_ds |h-s| + bias,   B = W_r r,   C = W_hr (h*r) + W_d |h-r|

SEScore2 reads no source: its head has neither W_hs nor W_ds. A and B are computed once per text; C, which is symmetric,
once per unordered pair of a square block, and of a block that is followed by the same one turned. Without references
the head is ff([h, s, h*s, |h-s|]), once per text. Every product has a multiple of 16 rows and columns: then a row's
bytes do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...representations import Block, FloatArray, IntArray, by_block, turned
from ..models.packed_attention import ROWS

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
        self.layers = list(_widened(layers))
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


def _widened(layers: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Weights [in, out] and biases [out] with outputs that are always 0 before the activation, to a multiple of 16."""
    from torch.nn.functional import pad

    width = layers[0][0].shape[1]
    for weight, bias in layers:
        out, into = weight.shape
        more = -out % ROWS
        yield pad(weight.T, (0, more, 0, width - into)).contiguous(), pad(bias, (0, more))
        width = out + more


class PairHead:
    """The head of metrics with a reference: 6 d features per pair, 4 d without a source.

    Args:
        head: the head.
        sourced: whether it reads the source.
    """

    def __init__(self, head: Head, sourced: bool = True) -> None:
        import torch

        self.head, self.sourced = head, sourced
        weight, self.bias = head.layers[0]
        w_h, w_r, w_hr, w_d, *of_source = weight.chunk(6 if sourced else 4)
        self.w_h, self.w_r, self.w_pair = (
            torch.cat((w_h, *of_source)),
            w_r.contiguous(),
            torch.cat((w_hr, w_d)),
        )

    def compare(self, e: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block; e: vectors [rows, d]."""
        import torch

        def on_device(rows: IntArray) -> Any:
            return torch.from_numpy(rows).to(e.device)

        h = e[on_device(np.concatenate([b.hypotheses for b in blocks]))]
        r = e[on_device(np.concatenate([b.references for b in blocks]))]
        own = h
        if self.sourced:
            s = e[
                on_device(
                    np.repeat([b.source for b in blocks], [len(b.hypotheses) for b in blocks])
                )
            ]
            own = torch.cat((h, h * s, (h - s).abs_()), 1)
        of_h = product(own, self.w_h).add_(self.bias)
        of_r = product(r, self.w_r)
        values = np.empty(sum(b.cells for b in blocks))
        for pairs in _Pairs.of(blocks).parts(CPU_PAIRS if e.device.type == "cpu" else GPU_PAIRS):
            i, j, turned_i, turned_j = map(
                on_device, (pairs.h, pairs.r, pairs.turned_h, pairs.turned_r)
            )
            a, b = h[i], r[j]
            both = product(torch.cat((a * b, a.sub_(b).abs_()), 1), self.w_pair)
            if len(turned_i):
                turned = (both[: len(turned_i)] + of_h[turned_i]).add_(of_r[turned_j])
                values[pairs.turned_cell] = self.head.rest(turned)
            values[pairs.cell] = self.head.rest(both.add_(of_h[i]).add_(of_r[j]))
        return by_block(values, blocks)


class _Pairs(NamedTuple):
    """Pairs to compute, of a square block only those of one half, of a block and the same turned one, and their places.

    Those that are wanted the other way round too come first, so that the last three columns are shorter.
    """

    h: IntArray  # place among the hypotheses of all blocks
    r: IntArray  # place among the references of all blocks
    cell: IntArray
    turned_h: IntArray  # the same pair the other way round
    turned_r: IntArray
    turned_cell: IntArray

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> _Pairs:
        twice: list[Any] = [np.empty((6, 0), np.int64)]
        once: list[Any] = [np.empty((3, 0), np.int64)]
        at_h, at_r, at = 0, 0, 0
        again = [*turned(blocks), False]
        for k, block in enumerate(blocks):
            high, wide = len(block.hypotheses), len(block.references)
            if again[k]:
                i, j = np.empty((2, 0), np.int64)
            elif again[k + 1]:  # the next block follows with `wide` rows and `high` columns
                i, j = np.indices((high, wide)).reshape(2, -1)
                next_h, next_r, next_at = at_h + high, at_r + wide, at + block.cells
                twice.append(
                    [
                        i + at_h,
                        j + at_r,
                        at + i * wide + j,
                        j + next_h,
                        i + next_r,
                        next_at + j * high + i,
                    ]
                )
                i, j = i[:0], j[:0]
            elif block.square:
                i, j = np.triu_indices(high, 1)
                twice.append(
                    [i + at_h, j + at_r, at + i * wide + j, j + at_h, i + at_r, at + j * wide + i]
                )
                i = j = np.arange(high)
            else:
                i, j = np.indices((high, wide)).reshape(2, -1)
            once.append([i + at_h, j + at_r, at + i * wide + j])
            at_h, at_r, at = at_h + high, at_r + wide, at + block.cells
        columns, more = np.concatenate(twice, axis=1), np.concatenate(once, axis=1)
        return cls(*np.concatenate((columns[:3], more), axis=1), *columns[3:])

    def parts(self, size: int) -> Iterator[_Pairs]:
        """At most `size` pairs at a time."""
        for start in range(0, len(self.cell), size):
            yield _Pairs(*(column[start : start + size] for column in self))


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
