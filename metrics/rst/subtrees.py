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
        found = self.known.get(labels)
        if found is None:
            text = "".join(f"{len(label)}:{label}" for label in labels)
            found = self.known[labels] = digest(text.encode("utf-8", "surrogatepass"))
        return found


def digest(data: bytes) -> bytes:
    """8 bytes that stand for the data."""
    return blake2b(data, digest_size=8).digest()


def columns(trees: Sequence[Labelled]) -> tuple[dict[str, Ragged], IntArray]:
    """The columns of some trees, and the number of expanded nodes of each, [rows]."""
    digests = Digests()
    rows = [_row(tree, digests) for tree in trees]
    sizes = np.array([sum(row["count"]) for row in rows], np.int64)
    kinds = {"sub": np.uint64, "prod": np.uint64}
    return {
        name: Ragged.of_lengths(
            np.array([value for row in rows for value in row[name]], kinds.get(name, np.int64)),
            np.array([len(row[name]) for row in rows], np.int64),
        )
        for name in COLUMNS
    }, sizes


def _row(tree: Labelled, digests: Digests) -> dict[str, list[int]]:
    row: dict[str, list[int]] = {name: [] for name in COLUMNS}
    number = count()
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
            entry_of[sub] = next(number)
            kids = [-1 if kid < 0 else places[kid] for kid in node.children]
            row["sub"].append(int.from_bytes(sub, "little"))
            row["prod"].append(int.from_bytes(production, "little"))
            row["count"].append(1)
            row["height"].append(
                1 + max((row["height"][kid] for kid in kids if kid >= 0), default=0)
            )
            row["arity"].append(len(kids))
            row["kids"] += kids
        places.append(entry_of[sub])
    return row
