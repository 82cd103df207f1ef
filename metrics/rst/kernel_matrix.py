"""The all-subtree kernel of all pairs of many trees at once, equal to `kernel`.

Equal subtrees of a list are one (hash-consing), so D(u, v) is computed once per pair of distinct subtrees of one
production, in arrays, by height. Then K = sum_{u, v} c_u(a) c_v(b) D(u, v):
    subtrees of height 1 (words, properties) have D = decay where they are equal: a product of count matrices;
    the rest is summed pair by pair in an order that the two trees' contents alone decide,
so that a value is the same to the last bit whatever other trees are in the call. In log space (`log=True`) sums are
logarithms of sums, for trees whose kernels a float64 cannot hold.

O(pairs of distinct subtrees of one production) for D, O(pairs of entries of one production) for K.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged

STEP = 1 << 18  # pairs of subtrees worked on at once, so that buffers stay in cache
MAX_PAIRS = 1 << 24  # pairs of distinct subtrees held at once; larger calls are cut
MAX_BLOCKS = 512


def kernels(
    columns: Mapping[str, Ragged], blocks: Sequence[Block], decay: float, log: bool = False
) -> list[FloatArray]:
    """K [H, R] of every block, or its natural logarithm (-inf where nothing matches)."""
    if len(blocks) > MAX_BLOCKS:
        step = range(0, len(blocks), MAX_BLOCKS)
        return [k for i in step for k in kernels(columns, blocks[i : i + MAX_BLOCKS], decay, log)]
    if not blocks:
        return []
    pairs = _Pairs(columns, blocks)
    if pairs.total > MAX_PAIRS:
        if len(blocks) > 1:
            half = len(blocks) // 2
            return kernels(columns, blocks[:half], decay, log) + kernels(
                columns, blocks[half:], decay, log
            )
        if len(blocks[0].hypotheses) > 1:
            rows, references = blocks[0].hypotheses, blocks[0].references.copy()
            half = len(rows) // 2
            parts = [Block(rows[:half], references), Block(rows[half:], references)]
            return [np.concatenate([kernels(columns, [part], decay, log)[0] for part in parts])]
    return _Sums(pairs, pairs.filled(decay, log), decay, log).of_blocks()


@dataclass(slots=True)
class _Side:
    """All hypotheses, or all references, of some blocks: their entries, and the distinct subtrees of each block."""

    block: IntArray  # [rows]
    place: IntArray  # [rows] within the block
    row: IntArray  # [entries]
    count: IntArray  # [entries]
    subtree: IntArray  # [entries] number of the distinct subtree
    group: IntArray  # [subtrees] number of block and production, ascending
    height: IntArray  # [subtrees]
    arity: IntArray  # [subtrees]
    first_kid: IntArray  # [subtrees] where its children are in `kids`
    kids: IntArray  # number of the child's subtree, -1 for terminals


class _Pairs:
    """The pairs of distinct subtrees (u of a hypothesis, v of a reference) of one block and production.

    The partners of u are numbers first[u] to first[u] + width[u], its pairs are start[u] to start[u] + width[u].
    """

    def __init__(self, columns: Mapping[str, Ragged], blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        square = all(block.square for block in blocks)
        sides = [[block.hypotheses for block in blocks]]
        sides += [] if square else [[block.references for block in blocks]]
        taken = [
            {name: column[np.concatenate(rows)] for name, column in columns.items()}
            for rows in sides
        ]
        names = _ranked(taken)
        most = 1 + max(int(numbers.max(initial=0)) for name in names for numbers in name)
        made = [
            _side(rows, own, *name, most)
            for rows, own, name in zip(sides, taken, names, strict=True)
        ]
        self.h, self.r = made[0], made[-1]
        self.first = np.searchsorted(self.r.group, self.h.group, "left")
        self.width = np.searchsorted(self.r.group, self.h.group, "right") - self.first
        self.start = self.width.cumsum() - self.width
        self.total = int(self.width.sum())

    def filled(self, decay: float, log: bool) -> FloatArray:
        """D of every pair (or its logarithm), [total]; where both sides are one, of each pair one way round."""
        d = np.full(self.total, np.log(decay) if log else decay)
        u = np.repeat(np.arange(len(self.width)), self.width)
        v = np.arange(self.total) - (self.start - self.first)[u]
        level = np.maximum(self.h.height[u], self.r.height[v])
        once = self.h is self.r
        high = np.flatnonzero((level > 1) & (u <= v) if once else level > 1)
        high = high[np.argsort(level[high], kind="stable")]
        ends = np.flatnonzero(np.diff(level[high], append=-1)) + 1
        begin = 0
        with np.errstate(over="ignore"):
            for end in ends.tolist():
                for i in range(begin, end, STEP):
                    cells = high[i : min(i + STEP, end)]
                    a, b = u[cells], v[cells]
                    d[cells] = found = self._above(d, a, b, decay, log)
                    if once:
                        d[self.start[b] + a - self.first[b]] = found
                begin = end
        return d

    def _above(
        self, d: FloatArray, u: IntArray, v: IntArray, decay: float, log: bool
    ) -> FloatArray:
        """D of pairs whose children's are known."""
        value = np.full(len(u), np.log(decay) if log else decay)
        arity = self.h.arity[u]
        for k in range(int(arity.max())):
            at = slice(None) if k < arity.min() else np.flatnonzero(arity > k)
            x = self.h.kids[self.h.first_kid[u[at]] + k]
            y = self.r.kids[self.r.first_kid[v[at]] + k]
            same = (x >= 0) & (y >= 0) & (self.h.group[x] == self.r.group[y])
            below = d[np.where(same, self.start[x] + y - self.first[x], 0)]
            if log:
                value[at] += np.logaddexp(0, np.where(same, below, -np.inf))
            else:
                value[at] *= 1 + np.where(same, below, 0)
        return value


def _ranked(sides: Sequence[Mapping[str, Ragged]]) -> list[tuple[IntArray, IntArray]]:
    """Every entry's subtree and production as numbers, in the order of (production, subtree) digests, per side."""
    subs = np.concatenate([side["sub"].values for side in sides])
    prods = np.concatenate([side["prod"].values for side in sides])
    distinct, where, of = np.unique(subs, return_index=True, return_inverse=True)
    order = np.lexsort((distinct, prods[where]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    production = np.unique(prods, return_inverse=True)[1]
    ends = np.cumsum([len(side["sub"].values) for side in sides])[:-1]
    return list(zip(np.split(rank[of], ends), np.split(production, ends), strict=True))


def _side(
    rows: Sequence[IntArray],
    taken: Mapping[str, Ragged],
    sub: IntArray,
    production: IntArray,
    most: int,
) -> _Side:
    sizes = np.array([len(some) for some in rows])
    block = np.repeat(np.arange(len(rows)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes.tolist()])
    row = np.repeat(np.arange(len(block)), taken["sub"].lengths)
    where, subtree = np.unique(block[row] * most + sub, return_index=True, return_inverse=True)[1:]
    arity = taken["arity"].values
    first_kid = arity.cumsum() - arity
    shift = np.repeat(taken["sub"].offsets[:-1], taken["kids"].lengths)
    local = taken["kids"].values
    kids = (
        np.where(local < 0, -1, subtree[np.where(local < 0, 0, local + shift)])
        if len(local)
        else local
    )
    return _Side(
        block,
        place,
        row,
        taken["count"].values,
        subtree,
        (block[row] * most + production)[where],
        taken["height"].values[where],
        arity[where],
        first_kid[where],
        kids,
    )


class _Sums:
    """K of every cell of every block from D."""

    def __init__(self, pairs: _Pairs, d: FloatArray, decay: float, log: bool) -> None:
        self.pairs, self.d, self.decay, self.log = pairs, d, decay, log
        self.cells = np.array([block.cells for block in pairs.blocks])
        self.base = self.cells.cumsum() - self.cells

    def of_blocks(self) -> list[FloatArray]:
        """K [H, R] of every block, or its logarithm."""
        low = np.concatenate([self._low(b).ravel() for b in range(len(self.pairs.blocks))])
        with np.errstate(divide="ignore", over="ignore"):
            k = (
                self._logarithms(np.log(low) + np.log(self.decay))
                if self.log
                else self._plain(low * self.decay)
            )
        parts = np.split(k, self.base[1:])
        shapes = [(len(block.hypotheses), len(block.references)) for block in self.pairs.blocks]
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _plain(self, k: FloatArray) -> FloatArray:
        for cell, value, counts in self._high():
            np.add.at(k, cell, value * counts)  # one after the other, so that the order decides
        return k

    def _logarithms(self, k: FloatArray) -> FloatArray:
        most = k.copy()
        for cell, value, counts in self._high():
            np.maximum.at(most, cell, value + np.log(counts))
        shift = np.where(np.isfinite(most), most, 0)
        total = np.exp(k - shift)
        for cell, value, counts in self._high():
            np.add.at(total, cell, np.exp(value + np.log(counts) - shift[cell]))
        return np.asarray(np.log(total) + shift)

    def _low(self, b: int) -> FloatArray:
        """Shared subtrees of height 1 of a block, [H, R]: whole numbers, so that any order is exact."""
        block = self.pairs.blocks[b]
        sides = [self.pairs.h] if block.square else [self.pairs.h, self.pairs.r]
        groups = [self._low_entries(side, b) for side in sides]
        names = np.unique(np.concatenate([group for _, _, group in groups]))
        found = []
        for (row, count, group), rows in zip(
            groups, (block.hypotheses, block.references), strict=False
        ):
            matrix = np.zeros((len(rows), len(names)))
            matrix[row, np.searchsorted(names, group)] = count
            found.append(matrix)
        return np.asarray(found[0] @ found[-1].T)

    def _low_entries(self, side: _Side, b: int) -> tuple[IntArray, IntArray, IntArray]:
        """Rows, counts and productions of the entries of height 1 of a block; their production is all they are."""
        first, last = np.searchsorted(side.row, np.searchsorted(side.block, [b, b + 1]))
        at = np.arange(first, last)
        at = at[side.height[side.subtree[at]] == 1]
        return side.place[side.row[at]], side.count[at], side.group[side.subtree[at]]

    def _high(self) -> Iterator[tuple[IntArray, FloatArray, Array]]:
        """(cell, D or its logarithm, product of the counts) of all pairs of entries above height 1, some at a time."""
        h, r, p = self.pairs.h, self.pairs.r, self.pairs
        of_h = np.flatnonzero(h.height[h.subtree] > 1)
        of_h = of_h[np.argsort(h.subtree[of_h], kind="stable")]
        of_r = np.argsort(r.subtree, kind="stable")
        group_r = r.group[r.subtree[of_r]]
        lo = np.searchsorted(group_r, h.group[h.subtree[of_h]], "left")
        wide = np.searchsorted(group_r, h.group[h.subtree[of_h]], "right") - lo
        width = np.array([len(block.references) for block in p.blocks])
        row_base = self.base[h.block] + h.place * width[h.block]  # first cell of every row
        ends = wide.cumsum()
        shift = lo - (ends - wide)
        begin = 0
        while begin < len(of_h):
            done = int(ends[begin] - wide[begin])
            end = max(begin + 1, int(np.searchsorted(ends, done + STEP, "right")))
            at = np.repeat(np.arange(begin, end), wide[begin:end])
            e, f = of_h[at], of_r[np.arange(done, done + len(at)) + shift[at]]
            u, v = h.subtree[e], r.subtree[f]
            d = self.d[p.start[u] + v - p.first[u]]
            yield row_base[h.row[e]] + r.place[r.row[f]], d, h.count[e] * r.count[f]
            begin = end
