"""Discourse trees as values: their words, their checks, their binary form, and joining them.

A tree is an `RSTTree` node or a leaf, the tuple of an elementary discourse unit's (EDU's) words. Formats, kernels and
the parser are built on this module; it needs none of them.

Words of English are split as in GUM and the Penn Treebank: punctuation, ``n't`` and ``'s`` apart, hyphens between words
apart.
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
    without_spaces = "".join(text.split())
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], without_spaces)


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
            problem = f"found {excerpt(node)}"
            raise InputError(problem, where=place, fix="A leaf is a tuple of words")
        if depth >= MAX_LEVELS:
            problem = f"more than {MAX_LEVELS} levels"
            raise InputError(problem, where=where, fix="Give a tree of fewer levels")
        _check_node(node, place)
        for i, child in enumerate(node.children):
            stack.append((child, f"{place}.children[{i}]", depth + 1))
    return tree  # type: ignore[no-any-return]


def _check_node(node: RSTTree, where: str) -> None:
    """Raises InputError unless a node has two or more children and a letter for each, one of them N."""
    num_children = len(node.children)
    if num_children < 2:
        problem = f"{num_children} children"
        raise InputError(problem, where=where, fix="A node has two or more; a leaf is words")
    if len(node.nuc) != num_children or not {"N"} <= set(node.nuc) <= {"N", "S"}:
        problem = f"nuc={excerpt(node.nuc)} over {num_children} children"
        raise InputError(problem, where=where, fix="One letter N or S per child, at least one N")


def check_words(tree: Tree, text: str, where: str = "rst") -> None:
    """Raises InputError unless the tree's words are those of the text, however either is split into words."""
    in_tree, in_text = letters_of(tree), letters(text)
    if in_tree == in_text:
        return
    letter_pairs = zip(in_tree, in_text, strict=False)
    differences = (i for i, (a, b) in enumerate(letter_pairs) if a != b)
    first = next(differences, min(len(in_tree), len(in_text)))
    tree_reads = in_tree[first : first + 20]
    text_reads = in_text[first : first + 20]
    raise InputError(
        f"the tree reads {tree_reads!r} where the text reads {text_reads!r}",
        where=f"{where}, character {first + 1} without spaces",
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
    rest = "N" if "N" in nuc[1:] else "S"
    return 1, nuc[0] + rest


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
    children = " ".join(map(shown, tree.children))
    return f"({tree.nuc}-{tree.rel} {children})"


def plain(tree: Tree) -> Any:
    """The tree as JSON data, as `Document(rst=...)` takes it.

    >>> plain(RSTTree("NS", "Cause", (("a",), ("b",))))
    {'nuc': 'NS', 'rel': 'Cause', 'children': [['a'], ['b']]}
    """
    if isinstance(tree, tuple):
        return list(tree)
    children = [plain(child) for child in tree.children]
    return {"nuc": tree.nuc, "rel": tree.rel, "children": children}


_WORD = re.compile(
    r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.]+"  # addresses
    r"|(?:[A-Za-z]\.){2,}"  # U.S.
    r"|\d+(?:[.,:/]\d+)*\w*"
    r"|(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|Jr|Sr|No|Vol|Fig|al|e\.g|i\.e)\.(?=\s|,|$)"
    r"|\b(?:non|pro|anti|re|pre|post|cross|co|multi)-\w+"
    r"|\b[Cc]an(?=not\b)|[A-Za-z]+(?=n['’]t\b)|n['’]t\b"  # can not, is n't
    r"|['’](?:s|S|re|ve|ll|d|m|RE|VE|LL|D|M)\b"
    r"|\w+|\.{2,}|-{2,}|[^\w\s]",
    re.UNICODE,
)


def words(text: str) -> list[str]:
    """The words of a text; joined, they are its letters without white space.

    >>> words("She didn't say: the cat's well-known.")
    ['She', 'did', "n't", 'say', ':', 'the', 'cat', "'s", 'well', '-', 'known', '.']
    """
    return _WORD.findall(text)
