"""The all-subtree kernel of all pairs of many trees at once, equal to `kernel`.

    K(a, b) = sum_{u, v} c_u(a) c_v(b) D(u, v)      over the distinct subtrees u of a and v of b
with D from `subtree_pairs`, once per pair of distinct subtrees of one production:
    leaves (words, properties) have D = decay where they are equal: a product of count matrices;
    inner nodes are summed pair by pair in an order that the two trees' contents alone decide,
so that a value is the same to the last bit whatever other trees are in the call. In log space (`log=True`) sums are
logarithms of sums, for trees whose kernels a float64 cannot hold.

O(pairs of distinct subtrees of one production) for D, O(pairs of entries of one production) for K.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged
from .subtree_pairs import STEP, Side, SubtreePairs

MAX_PAIRS = 1 << 24  # pairs of distinct subtrees held at once; larger calls are cut
MAX_BLOCKS = 512


def kernels(
    columns: Mapping[str, Ragged],
    blocks: Sequence[Block],
    decay: float,
    log: bool = False,
) -> list[FloatArray]:
    """K [H, R] of every block, or its natural logarithm (-inf where nothing matches)."""
    if len(blocks) > MAX_BLOCKS:
        matrices = []
        for first in range(0, len(blocks), MAX_BLOCKS):
            matrices += kernels(columns, blocks[first : first + MAX_BLOCKS], decay, log)
        return matrices
    if not blocks:
        return []
    pairs = SubtreePairs(columns, blocks)
    if pairs.total > MAX_PAIRS:
        if len(blocks) > 1:
            half = len(blocks) // 2
            first_half = kernels(columns, blocks[:half], decay, log)
            return first_half + kernels(columns, blocks[half:], decay, log)
        if len(blocks[0].hypotheses) > 1:
            parts = [kernels(columns, [part], decay, log)[0] for part in _halves(blocks[0])]
            return [np.concatenate(parts)]
    return _KernelSums(pairs, decay, log).matrices()


def _halves(block: Block) -> list[Block]:
    """Half of the hypotheses each, against all references."""
    hypotheses = block.hypotheses
    references = block.references.copy()
    half = len(hypotheses) // 2
    return [Block(hypotheses[:half], references), Block(hypotheses[half:], references)]


class _KernelSums:
    """K of every cell of every block from the similarities D: first the leaves, then the inner nodes."""

    def __init__(self, pairs: SubtreePairs, decay: float, log: bool) -> None:
        self.pairs, self.decay, self.log = pairs, decay, log
        self.similarities = pairs.similarities(decay, log)  # [pairs]
        num_cells = np.array([block.cells for block in pairs.blocks])
        self.first_cell = num_cells.cumsum() - num_cells  # [blocks]

    def matrices(self) -> list[FloatArray]:
        """K [H, R] of every block, or its logarithm."""
        blocks = self.pairs.blocks
        leaf_counts = [self._shared_leaves(b) for b in range(len(blocks))]
        leaves = np.concatenate([counts.ravel() for counts in leaf_counts])
        with np.errstate(divide="ignore", over="ignore"):
            if self.log:
                k = self._with_inner_nodes_in_logarithms(np.log(leaves) + np.log(self.decay))
            else:
                k = self._with_inner_nodes(leaves * self.decay)
        parts = np.split(k, self.first_cell[1:])
        shapes = [(len(block.hypotheses), len(block.references)) for block in blocks]
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _with_inner_nodes(self, k: FloatArray) -> FloatArray:
        """K [cells] from what leaves give to it, [cells]."""
        for cell, similarity, counts in self._inner_terms():
            # one after the other, so that the order decides
            np.add.at(k, cell, similarity * counts)
        return k

    def _with_inner_nodes_in_logarithms(self, k: FloatArray) -> FloatArray:
        """Logarithms of K [cells] from those of what leaves give to it, [cells]."""
        # the largest term of every cell, so that none of the exponentials below overflows
        largest = k.copy()
        for cell, similarity, counts in self._inner_terms():
            np.maximum.at(largest, cell, similarity + np.log(counts))
        shift = np.where(np.isfinite(largest), largest, 0)
        # the sum of exp(term - shift)
        total = np.exp(k - shift)
        for cell, similarity, counts in self._inner_terms():
            term = similarity + np.log(counts)
            np.add.at(total, cell, np.exp(term - shift[cell]))
        return np.asarray(np.log(total) + shift)

    def _shared_leaves(self, b: int) -> FloatArray:
        """Pairs of equal leaves of the trees of a block, [H, R]: whole numbers, so that any order is exact."""
        block, pairs = self.pairs.blocks[b], self.pairs
        sides = [pairs.hypotheses] if block.square else [pairs.hypotheses, pairs.references]
        entries_of_sides = [_leaf_entries(side, b) for side in sides]
        # a column per production: two leaves of one production are equal
        productions = np.unique(np.concatenate([entries[2] for entries in entries_of_sides]))
        counts_of_sides = []  # [H, productions], [R, productions]
        num_trees = (len(block.hypotheses), len(block.references))
        for entries, height in zip(entries_of_sides, num_trees, strict=False):
            place, count, production = entries
            counts = np.zeros((height, len(productions)))
            counts[place, np.searchsorted(productions, production)] = count
            counts_of_sides.append(counts)
        return np.asarray(counts_of_sides[0] @ counts_of_sides[-1].T)

    def _inner_terms(self) -> Iterator[tuple[IntArray, FloatArray, Array]]:
        """(cell, D or its logarithm, product of the counts) of all pairs but two leaves, about `STEP` at a time.

        A leaf may have the production of an inner node, whose child is named like its terminal.
        """
        pairs, h, r = self.pairs, self.pairs.hypotheses, self.pairs.references
        # productions of inner nodes
        groups_of_sides = [side.group[side.height > 1] for side in (h, r)]
        has_inner = np.isin(h.group, np.concatenate(groups_of_sides))  # [subtrees]
        # entries of hypotheses with these and all entries of references, those of one subtree side by side
        entries_h = np.flatnonzero(has_inner[h.subtree])
        entries_h = entries_h[np.argsort(h.subtree[entries_h], kind="stable")]
        entries_r = np.argsort(r.subtree, kind="stable")
        # the run of `entries_r` that shares the production of each of `entries_h`
        group_h = h.group[h.subtree[entries_h]]
        group_r = r.group[r.subtree[entries_r]]
        first_partner = np.searchsorted(group_r, group_h, "left")
        num_partners = np.searchsorted(group_r, group_h, "right") - first_partner
        # terms are numbered through; `shift` leads from a term's number to its place in `entries_r`
        end_term = num_partners.cumsum()
        shift = first_partner - (end_term - num_partners)
        # the first cell of every hypothesis
        width = np.array([len(block.references) for block in pairs.blocks])
        first_cell = self.first_cell[h.block] + h.place * width[h.block]  # [trees]
        begin = 0
        while begin < len(entries_h):
            # as many of `entries_h` as have `STEP` terms, at least one
            done = int(end_term[begin] - num_partners[begin])
            fitting = int(np.searchsorted(end_term, done + STEP, "right"))
            end = max(begin + 1, fitting)
            # both entries of every term  # [terms]
            at = np.repeat(np.arange(begin, end), num_partners[begin:end])
            term = np.arange(done, done + len(at))
            of_h = entries_h[at]
            of_r = entries_r[term + shift[at]]
            # two leaves are counted already
            is_inner = (h.height[h.subtree[of_h]] > 1) | (r.height[r.subtree[of_r]] > 1)
            if not is_inner.all():
                of_h, of_r = of_h[is_inner], of_r[is_inner]
            # the similarity of their subtrees, the cell of their trees, and how often it comes
            pair = pairs.number(h.subtree[of_h], r.subtree[of_r])
            cell = first_cell[h.tree[of_h]] + r.place[r.tree[of_r]]
            counts = h.count[of_h] * r.count[of_r]
            yield cell, self.similarities[pair], counts
            begin = end


def _leaf_entries(side: Side, b: int) -> tuple[IntArray, IntArray, IntArray]:
    """Place of the tree, count and production of every leaf entry of a block, [entries] each."""
    # blocks, and so the trees and the entries of each, stand one after the other
    trees = np.searchsorted(side.block, [b, b + 1])
    first, last = np.searchsorted(side.tree, trees)
    entries = np.arange(first, last)
    height = side.height[side.subtree[entries]]
    leaves = entries[height == 1]
    place = side.place[side.tree[leaves]]
    production = side.group[side.subtree[leaves]]
    return place, side.count[leaves], production
