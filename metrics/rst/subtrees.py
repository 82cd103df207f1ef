"""Trees as columns: the distinct subtrees of each, named by digests of their content.

A row is a tree. Its entries are its distinct complete subtrees in post-order:
    sub     digest of the subtree, prod   digest of its production (label and labels of the children)
    count   how often it occurs,   height 1 where all children are terminals
    arity   number of children;    kids   entry of each child within the row, -1 for terminals
Digests (64 bits of BLAKE2b) mean the same in every process and give an order that depends on content alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import count

import numpy as np

from ..representations import IntArray, Ragged
from .kernel import nodes
from .labelled_trees import Labelled

COLUMNS = ("sub", "prod", "count", "height", "arity", "kids")
TERMINAL = bytes(8)


class Digests:
    """Digests of productions, each computed once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], bytes] = {}

    def production(self, labels: tuple[str, ...]) -> bytes:
        """The digest of a label and the labels of its children."""
        known = self.known.get(labels)
        if known is None:
            text = "".join(f"{len(label)}:{label}" for label in labels)
            known = digest(text.encode("utf-8", "surrogatepass"))
            self.known[labels] = known
        return known


def digest(data: bytes) -> bytes:
    """8 bytes that stand for the data."""
    return blake2b(data, digest_size=8).digest()


def columns(trees: Sequence[Labelled]) -> tuple[dict[str, Ragged], IntArray]:
    """The columns of some trees, and the number of expanded nodes of each, [rows]."""
    digests = Digests()
    rows = [_row(tree, digests) for tree in trees]
    sizes = np.array([sum(row["count"]) for row in rows], np.int64)
    return {name: _column(name, rows) for name in COLUMNS}, sizes


def _column(name: str, rows: Sequence[dict[str, list[int]]]) -> Ragged:
    dtype = np.uint64 if name in ("sub", "prod") else np.int64
    values = [value for row in rows for value in row[name]]
    lengths = [len(row[name]) for row in rows]
    return Ragged.of_lengths(np.array(values, dtype), np.array(lengths, np.int64))


def _row(tree: Labelled, digests: Digests) -> dict[str, list[int]]:
    """The entries of one tree, by column."""
    row: dict[str, list[int]] = {name: [] for name in COLUMNS}
    next_entry = count()
    entry_of: dict[bytes, int] = {}  # by digest
    places: list[int] = []  # entry of every node
    subs: list[bytes] = []  # digest of every node
    for node in nodes(tree):
        production = digests.production(node.production)
        below = [TERMINAL if kid < 0 else subs[kid] for kid in node.children]
        sub = digest(production + b"".join(below))
        subs.append(sub)
        if sub in entry_of:
            row["count"][entry_of[sub]] += 1
        else:
            entry_of[sub] = next(next_entry)
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
