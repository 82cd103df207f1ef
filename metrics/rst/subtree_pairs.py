"""The pairs of subtrees that share a production, and the similarity D of each, computed from the children up.

    D(u, v) = decay * prod_k (1 + D(u_k, v_k))      with D = 0 for children of different productions and for terminals
Leaves are subtrees of height 1, whose children are all terminals: for them D = decay. Equal subtrees of a list are one
(hash-consing), so D is computed once per pair of distinct subtrees, in arrays, level by level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..representations import Block, FloatArray, IntArray, Ragged

STEP = 1 << 18  # pairs of subtrees worked on at once, so that buffers stay in cache


@dataclass(slots=True)
class Side:
    """All hypotheses, or all references, of some blocks: their entries, and the distinct subtrees of each block."""

    block: IntArray  # [trees]
    place: IntArray  # [trees] within the block
    tree: IntArray  # [entries]
    count: IntArray  # [entries] how often the tree has the subtree
    subtree: IntArray  # [entries] number of the distinct subtree
    group: IntArray  # [subtrees] number of block and production, ascending
    height: IntArray  # [subtrees]
    arity: IntArray  # [subtrees]
    first_child: IntArray  # [subtrees] where its children are in `children`
    children: IntArray  # number of the child's subtree, -1 for terminals

    def child(self, subtree: IntArray, k: int) -> IntArray:
        """Child k of every subtree [n] that has one, as a subtree, -1 for terminals, [n]."""
        return np.asarray(self.children[self.first_child[subtree] + k])


class SubtreePairs:
    """The pairs of distinct subtrees (u of a hypothesis, v of a reference) of one block and production.

    | of subtree u  | are the numbers                                              |
    |---------------|--------------------------------------------------------------|
    | its partners  | first_partner[u] to first_partner[u] + num_partners[u]       |
    | its pairs     | first_pair[u] to first_pair[u] + num_partners[u]             |
    """

    def __init__(self, columns: Mapping[str, Ragged], blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        sides = _sides(columns, blocks)
        self.hypotheses, self.references = sides[0], sides[-1]  # one object if all are square
        group_h, group_r = self.hypotheses.group, self.references.group
        self.first_partner = np.searchsorted(group_r, group_h, "left")
        self.num_partners = np.searchsorted(group_r, group_h, "right") - self.first_partner
        self.first_pair = self.num_partners.cumsum() - self.num_partners
        self.total = int(self.num_partners.sum())

    def number(self, u: IntArray, v: IntArray) -> IntArray:
        """The number of the pair of every u [n] and v [n], [n]; of no meaning where they are no partners."""
        return np.asarray(self.first_pair[u] + v - self.first_partner[u])

    def similarities(self, decay: float, log: bool) -> FloatArray:
        """D of every pair, or its logarithm, [pairs]."""
        # leaves: D = decay; pairs of inner nodes are overwritten below
        d = np.full(self.total, np.log(decay) if log else decay)
        # both subtrees of every pair  # [pairs]
        u = np.repeat(np.arange(len(self.num_partners)), self.num_partners)
        v = np.arange(self.total) - (self.first_pair - self.first_partner)[u]
        # a pair's children are pairs of lower levels  # [pairs]
        level = np.maximum(self.hypotheses.height[u], self.references.height[v])
        # where both sides are one, D is symmetric: only pairs of u <= v are computed, the others copied
        mirrored = self.hypotheses is self.references
        if mirrored:
            level[u > v] = 0
        with np.errstate(over="ignore"):
            for pairs in _upwards(level):
                a, b = u[pairs], v[pairs]
                values = self._from_children(d, a, b, decay, log)
                d[pairs] = values
                if mirrored:
                    d[self.number(b, a)] = values
        return d

    def _from_children(
        self,
        d: FloatArray,
        u: IntArray,
        v: IntArray,
        decay: float,
        log: bool,
    ) -> FloatArray:
        """D [n] of the pairs of u [n] and v [n], from `d` [pairs], where that of their children is known."""
        hypotheses, references = self.hypotheses, self.references
        values = np.full(len(u), np.log(decay) if log else decay)
        arity = hypotheses.arity[u]  # that of v too: they share a production
        for k in range(int(arity.max())):
            # the pairs that have a child k
            having = slice(None) if k < arity.min() else np.flatnonzero(arity > k)
            x = hypotheses.child(u[having], k)
            y = references.child(v[having], k)
            # children of one production are a pair, whose D is known by now; of others D is 0
            paired = (x >= 0) & (y >= 0) & (hypotheses.group[x] == references.group[y])
            pair = np.where(paired, self.number(x, y), 0)
            if log:
                below = np.where(paired, d[pair], -np.inf)
                values[having] += np.logaddexp(0, below)
            else:
                below = np.where(paired, d[pair], 0)
                values[having] *= 1 + below
        return values


def _upwards(level: IntArray) -> Iterator[IntArray]:
    """The pairs above level 1, from their `level` [pairs], lowest first; at most `STEP` of one level at a time."""
    pairs = np.flatnonzero(level > 1)
    pairs = pairs[np.argsort(level[pairs], kind="stable")]
    ends = np.flatnonzero(np.diff(level[pairs], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        for first in range(begin, end, STEP):
            yield pairs[first : min(first + STEP, end)]
        begin = end


def _sides(columns: Mapping[str, Ragged], blocks: Sequence[Block]) -> list[Side]:
    """Hypotheses and references of the blocks; the hypotheses alone where those are the references of every block."""
    rows_of_sides = [[block.hypotheses for block in blocks]]
    if not all(block.square for block in blocks):
        rows_of_sides.append([block.references for block in blocks])
    columns_of_sides = []
    for rows in rows_of_sides:
        joined = np.concatenate(rows)
        columns_of_sides.append({name: column[joined] for name, column in columns.items()})
    numbers = _numbered(columns_of_sides)
    highest = [int(array.max(initial=0)) for arrays in numbers for array in arrays]
    num_names = 1 + max(highest)
    sides = []
    for rows, own, (subtree, production) in zip(
        rows_of_sides,
        columns_of_sides,
        numbers,
        strict=True,
    ):
        sides.append(_side(rows, own, subtree, production, num_names))
    return sides


def _numbered(sides: Sequence[Mapping[str, Ragged]]) -> list[tuple[IntArray, IntArray]]:
    """Subtree and production of every entry as numbers, each [entries] of a side.

    Subtrees are numbered in the order of (production, subtree) digests, productions in that of their digests.
    """
    subtrees = np.concatenate([side["sub"].values for side in sides])
    productions = np.concatenate([side["prod"].values for side in sides])
    # the distinct subtrees, sorted by their production, then by their own digest
    digests, where, inverse = np.unique(subtrees, return_index=True, return_inverse=True)
    order = np.lexsort((digests, productions[where]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    production = np.unique(productions, return_inverse=True)[1]
    # back to the sides
    lengths = [len(side["sub"].values) for side in sides]
    ends = np.cumsum(lengths)[:-1]
    subtree_of_sides = np.split(rank[inverse], ends)
    production_of_sides = np.split(production, ends)
    return list(zip(subtree_of_sides, production_of_sides, strict=True))


def _side(
    rows: Sequence[IntArray],
    columns: Mapping[str, Ragged],
    subtree_name: IntArray,
    production_name: IntArray,
    num_names: int,
) -> Side:
    """One side of some blocks.

    Args:
        rows: the trees of every block.
        columns: the columns of all these trees, one after the other.
        subtree_name: of every entry, [entries], equal for equal subtrees, whatever the block.
        production_name: of every entry, [entries].
        num_names: above every name.
    """
    # the block and the place of every tree, the tree of every entry
    sizes = np.array([len(trees) for trees in rows])
    block = np.repeat(np.arange(len(rows)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes.tolist()])
    tree = np.repeat(np.arange(len(block)), columns["sub"].lengths)
    # distinct subtrees of each block: `where` is an entry that has it, `subtree` is that of every entry
    first_name = block[tree] * num_names
    _, where, subtree = np.unique(first_name + subtree_name, return_index=True, return_inverse=True)
    group = (first_name + production_name)[where]
    # children are entries of their own tree: counted on over all trees, then named by their subtree
    arity = columns["arity"].values
    first_child = arity.cumsum() - arity
    local = columns["kids"].values
    if len(local):
        shift = np.repeat(columns["sub"].offsets[:-1], columns["kids"].lengths)
        terminal = local < 0
        entry = np.where(terminal, 0, local + shift)
        children = np.where(terminal, -1, subtree[entry])
    else:
        children = local
    return Side(
        block=block,
        place=place,
        tree=tree,
        count=columns["count"].values,
        subtree=subtree,
        group=group,
        height=columns["height"].values[where],
        arity=arity[where],
        first_child=first_child[where],
        children=children,
    )
