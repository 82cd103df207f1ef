"""Discourse trees as values: their words, their checks, their binary form, and joining them.

A tree is an `RSTTree` node or a leaf, the tuple of an elementary discourse unit's (EDU's) words. It knows no formats,
no kernels and no parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InputError, excerpt
from ..text.texts import MAX_LEVELS, RSTTree

Tree = RSTTree | tuple[str, ...]
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_QUOTES, _SLASHED = {"``": '"', "''": '"'}, {"\\/": "/", "\\*": "*"}
_ESCAPES = _BRACKETS | _QUOTES | _SLASHED
_ESCAPED = re.compile("|".join(map(re.escape, _ESCAPES)))


def edus(tree: Tree) -> list[tuple[str, ...]]:
    """The leaves from left to right.

    >>> edus(RSTTree("NS", "Cause", (("it", "fell"), ("since", "I", "left"))))
    [('it', 'fell'), ('since', 'I', 'left')]
    """
    return [node for node in walk(tree) if isinstance(node, tuple)]


def walk(tree: Tree) -> Iterator[Tree]:
    """Every node, parents before children, left to right."""
    stack: list[Tree] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, RSTTree):
            stack.extend(reversed(node.children))


def unescaped(word: str) -> str:
    r"""A word of a treebank as it stands in a text: ``-LRB-`` is a bracket, two quotes are one, ``\/`` is a slash.

    >>> unescaped("-LRB-"), unescaped("said"), unescaped("1\\/2")
    ('(', 'said', '1/2')
    """
    return _ESCAPES.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def letters(text: str) -> str:
    """A text without white space and treebanks' ways of writing brackets, quotes, slashes and asterisks: equal for any
    tokenisation of it.
    """
    return _ESCAPED.sub(lambda found: _ESCAPES[found.group()], "".join(text.split()))


def letters_of(tree: Tree) -> str:
    """`letters` of the text that a tree stands over."""
    return letters("".join(word for edu in edus(tree) for word in edu))


def check_tree(tree: Any, where: str = "rst") -> Tree:
    """The tree, if it is whole: leaves of words; nodes of two or more children, one letter for each, a nucleus.

    Raises:
        InputError: it is not, or it is nested more than `MAX_LEVELS` deep.
    """
    stack: list[tuple[Any, str, int]] = [(tree, where, 0)]
    while stack:
        node, place, depth = stack.pop()
        if isinstance(node, tuple) and all(isinstance(word, str) for word in node):
            continue
        if not isinstance(node, RSTTree):
            raise InputError(
                f"found {excerpt(node)}", where=place, fix="A leaf is a tuple of words"
            )
        if depth >= MAX_LEVELS:
            raise InputError(
                f"more than {MAX_LEVELS} levels", where=where, fix="Give a tree of fewer levels"
            )
        _check_node(node, place)
        stack += [
            (child, f"{place}.children[{i}]", depth + 1) for i, child in enumerate(node.children)
        ]
    return tree  # type: ignore[no-any-return]


def _check_node(node: RSTTree, where: str) -> None:
    if len(node.children) < 2:
        raise InputError(
            f"{len(node.children)} children",
            where=where,
            fix="A node has two or more; a leaf is words",
        )
    if len(node.nuc) != len(node.children) or not {"N"} <= set(node.nuc) <= {"N", "S"}:
        found = f"nuc={excerpt(node.nuc)} over {len(node.children)} children"
        raise InputError(found, where=where, fix="One letter N or S per child, at least one N")


def check_words(tree: Tree, text: str, where: str = "rst") -> None:
    """Raises InputError unless the tree's words are those of the text, however either is split into words."""
    own, wanted = letters_of(tree), letters(text)
    if own == wanted:
        return
    at = next(
        (i for i, (a, b) in enumerate(zip(own, wanted, strict=False)) if a != b),
        min(len(own), len(wanted)),
    )
    raise InputError(
        f"the tree reads {own[at : at + 20]!r} where the text reads {wanted[at : at + 20]!r}",
        where=f"{where}, character {at + 1} without spaces",
        fix="A tree holds the words of its text, in order",
    )


def split_right(nuc: str) -> tuple[int, str]:
    """Where a node of more than two children is cut in two, and the letters of both parts.

    The first child is cut off (right-branching), but trailing satellites of a leading nucleus are cut off first.

    >>> split_right("NNN"), split_right("NSS"), split_right("SNN")
    ((1, 'NN'), (2, 'NS'), (1, 'SN'))
    """
    if nuc[0] == "N" and nuc[-1] == "S":
        return len(nuc) - 1, "NS"
    return 1, nuc[0] + ("N" if "N" in nuc[1:] else "S")


def joined(trees: Sequence[Tree], rel: str = "Joint") -> Tree:
    """One tree over the trees of consecutive sentences: a multinuclear node; the tree itself if there is one.

    >>> joined([("a",), ("b",)]).nuc
    'NN'
    """
    if len(trees) == 1:
        return trees[0]
    return RSTTree("N" * len(trees), rel, tuple(trees)) if trees else ()


def shown(tree: Tree) -> str:
    """The tree in one line for people.

    >>> shown(RSTTree("NS", "Cause", (("it", "fell"), ("since",))))
    '(NS-Cause [it fell] [since])'
    """
    if isinstance(tree, tuple):
        return f"[{' '.join(tree)}]"
    return f"({tree.nuc}-{tree.rel} {' '.join(shown(child) for child in tree.children)})"


def plain(tree: Tree) -> Any:
    """The tree as JSON data, as `Document(rst=...)` takes it.

    >>> plain(RSTTree("NS", "Cause", (("a",), ("b",))))
    {'nuc': 'NS', 'rel': 'Cause', 'children': [['a'], ['b']]}
    """
    if isinstance(tree, tuple):
        return list(tree)
    return {"nuc": tree.nuc, "rel": tree.rel, "children": [plain(child) for child in tree.children]}
