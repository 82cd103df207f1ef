"""The all-subtree kernel of two trees (Collins and Duffy 2002), of all pairs of many trees at once.

A fragment is a connected part of a tree with at least one expanded node, all children of a node or none;
    K(a, b) = sum_f decay^|f| c_f(a) c_f(b)             |f| expanded nodes, c_f(t) occurrences of f in t
            = sum_{u in a, v in b} D(u, v)
    D(u, v) = 0 if their productions (label and labels of the children) differ, else decay * prod_k (1 + D(u_k, v_k))
with D = 0 for terminals. Normalised: K(a, b) / sqrt(K(a, a) K(b, b)), 0 where a self-kernel is 0.

All pairs of many trees at once:

    K(a, b) = sum_{u, v} c_u(a) c_v(b) D(u, v)      over the distinct subtrees u of a and v of b
with D once per pair of distinct subtrees of one production, from the children up:
    leaves (words, properties) have D = decay where they are equal: a product of count matrices;
    inner nodes are summed pair by pair in an order that the two trees' contents alone decide,
so that a value is the same to the last bit whatever other trees are in the call. In log space (`log=True`) sums are
logarithms of sums, for trees whose kernels a float64 cannot hold.

Trees are columns, a row each. The entries of a row are its distinct complete subtrees in post-order:
    sub     digest of the subtree, prod   digest of its production (label and labels of the children)
    count   how often it occurs,   height 1 where all children are terminals
    arity   number of children;    kids   entry of each child within the row, -1 for terminals
Digests (64 bits of BLAKE2b) mean the same in every process and give an order that depends on content alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ..representations import Array, Block, FloatArray, IntArray, Ragged
from .trees import Labelled


class Node(NamedTuple):
    """An expanded node: its production and the places of its children in post-order, -1 for terminals."""

    production: tuple[str, ...]
    children: tuple[int, ...]


def nodes(tree: Labelled) -> list[Node]:
    """The expanded nodes in post-order, without recursion.

    >>> nodes(("A", (("B", ("x",)), "y")))[-1]
    Node(production=('A', 'B', 'y'), children=(0, -1))
    """
    expanded_nodes: list[Node] = []
    done: list[int] = []  # places of finished subtrees that no parent has taken yet
    stack: list[tuple[Labelled, bool]] = [(tree, False)]
    while stack:
        node, expanded = stack.pop()
        if isinstance(node, str):
            done.append(-1)
            continue
        label, children = node
        if not expanded:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children))
            continue
        first = len(done) - len(children)
        places = tuple(done[first:])
        del done[first:]
        done.append(len(expanded_nodes))
        labels = [child if isinstance(child, str) else child[0] for child in children]
        expanded_nodes.append(Node((label, *labels), places))
    return expanded_nodes


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


COLUMNS = ("sub", "prod", "count", "height", "arity", "kids")
TERMINAL = bytes(8)


def digest(data: bytes) -> bytes:
    """8 bytes that stand for the data."""
    return blake2b(data, digest_size=8).digest()


@lru_cache(1 << 16)
def _production_digest(labels: tuple[str, ...]) -> bytes:
    """The digest of a label and the labels of its children."""
    text = "".join(f"{len(label)}:{label}" for label in labels)
    return digest(text.encode("utf-8", "surrogatepass"))


def columns(trees: Sequence[Labelled]) -> tuple[dict[str, Ragged], IntArray]:
    """The columns of some trees, and the number of expanded nodes of each, [rows]."""
    rows = [_row(tree) for tree in trees]
    sizes = np.array([sum(row["count"]) for row in rows], np.int64)
    return {name: _column(name, rows) for name in COLUMNS}, sizes


def _column(name: str, rows: Sequence[dict[str, list[int]]]) -> Ragged:
    dtype = np.uint64 if name in ("sub", "prod") else np.int64
    values = [value for row in rows for value in row[name]]
    lengths = [len(row[name]) for row in rows]
    return Ragged.of_lengths(np.array(values, dtype), np.array(lengths, np.int64))


def _row(tree: Labelled) -> dict[str, list[int]]:
    """The entries of one tree, by column."""
    row: dict[str, list[int]] = {name: [] for name in COLUMNS}
    entry_of: dict[bytes, int] = {}  # by digest
    places: list[int] = []  # entry of every node
    subs: list[bytes] = []  # digest of every node
    for node in nodes(tree):
        production = _production_digest(node.production)
        below = [TERMINAL if kid < 0 else subs[kid] for kid in node.children]
        sub = digest(production + b"".join(below))
        subs.append(sub)
        if sub in entry_of:
            row["count"][entry_of[sub]] += 1
        else:
            entry_of[sub] = len(entry_of)
            kids = [-1 if kid < 0 else places[kid] for kid in node.children]
            heights = [row["height"][kid] for kid in kids if kid >= 0]
            row["sub"].append(int.from_bytes(sub, "little"))
            row["prod"].append(int.from_bytes(production, "little"))
            row["count"].append(1)
            row["height"].append(1 + max(heights, default=0))
            row["arity"].append(len(kids))
            row["kids"] += kids
        places.append(entry_of[sub])
    return row


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
