"""Discourse trees for tests: the golden cases, and random trees."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from discorank.metrics.rst.kernel_matrix import Node
from discorank.metrics.rst.trees import Labelled, Tree
from discorank.metrics.text.texts import RSTTree

GOLDEN: Any = json.loads(
    (Path(__file__).parents[1] / "golden" / "discotk" / "cases.json").read_text(encoding="utf-8")
)

leaves = st.lists(
    st.sampled_from(["he", "left", "she", "(", "EDU", "no", "*", "Said"]), max_size=4
).map(tuple)


def _node(children: Any) -> Any:
    def with_children(some: list[Tree]) -> Any:
        letters = st.lists(st.sampled_from("NS"), min_size=len(some), max_size=len(some)).map(
            "".join
        )
        names = st.sampled_from(["Elaboration", "Joint", "cause", "my own"])
        return st.builds(
            RSTTree, letters.filter(lambda nuc: "N" in nuc), names, st.just(tuple(some))
        )

    return st.lists(children, min_size=2, max_size=4).flatmap(with_children)


trees = st.recursive(leaves, _node, max_leaves=7)


def dis(tree: Tree) -> str:
    """A tree in the .dis format."""
    return _dis(tree, "Root", count(1)) + "\n"


def _dis(tree: Tree, role: str, leaf: Iterator[int], relation: str = "") -> str:
    above = f" (rel2par {relation})" if relation else ""
    if isinstance(tree, tuple):
        return f"( {role} (leaf {next(leaf)}){above} (text _!{' '.join(tree)}_!) )"
    parts = []
    for letter, child in zip(tree.nuc, tree.children, strict=True):
        carries = letter == "S" or "S" not in tree.nuc
        part = "Satellite" if letter == "S" else "Nucleus"
        parts.append(_dis(child, part, leaf, tree.rel if carries else "span"))
    inside = "\n".join(parts)
    return f"( {role}{above}\n{inside} )"


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


def plain(tree: Tree) -> Any:
    """The tree as JSON data, as `Document(rst=...)` takes it.

    >>> plain(RSTTree("NS", "Cause", (("a",), ("b",))))
    {'nuc': 'NS', 'rel': 'Cause', 'children': [['a'], ['b']]}
    """
    if isinstance(tree, tuple):
        return list(tree)
    children = [plain(child) for child in tree.children]
    return {"nuc": tree.nuc, "rel": tree.rel, "children": children}


def bracketed(node: Labelled) -> str:
    """The representation in brackets, words bare and their brackets escaped.

    >>> bracketed(("NGRAM", (("'(", ("*",)), ("'he", ("*",)))))
    '(NGRAM (-LRB- *) (he *))'
    """
    if isinstance(node, str):
        return _shown(node)
    label, children = node
    parts = [_shown(label), *map(bracketed, children)]
    return f"({' '.join(parts)})"


def _shown(label: str) -> str:
    return label.removeprefix("'").replace("(", "-LRB-").replace(")", "-RRB-")
