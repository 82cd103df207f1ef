"""The all-subtree kernel of two trees (Collins and Duffy 2002), as it is defined.

A fragment is a connected part of a tree with at least one expanded node, all children of a node or none;
    K(a, b) = sum_f decay^|f| c_f(a) c_f(b)             |f| expanded nodes, c_f(t) occurrences of f in t
            = sum_{u in a, v in b} D(u, v)
    D(u, v) = 0 if their productions (label and labels of the children) differ, else decay * prod_k (1 + D(u_k, v_k))
with D = 0 for terminals. Normalised: K(a, b) / sqrt(K(a, a) K(b, b)), 0 where a self-kernel is 0.

Here nodes are visited production by production with a table of D: O(pairs of nodes of one production).
`kernel_matrix` computes all pairs of many trees at once, and equals this.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from .labelled_trees import Labelled


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


def kernel(a: list[Node], b: list[Node], decay: float = 1.0) -> float:
    """K(a, b); exact integers where `decay` is the integer 1."""
    nodes_of_production = defaultdict(list)
    for j, node in enumerate(b):
        nodes_of_production[node.production].append(j)
    table: dict[tuple[int, int], float] = {}  # D of the nodes (i, j)
    total: float = 0
    for i, node in enumerate(a):
        for j in nodes_of_production.get(node.production, ()):
            similarity = decay
            for pair in zip(node.children, b[j].children, strict=True):
                similarity *= 1 + table.get(pair, 0)
            table[i, j] = similarity
            total += similarity
    return total
