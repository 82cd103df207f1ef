"""The labelled trees that the kernels compare, made from discourse trees (Joty et al. 2017, section 3.1).

    SN-Attribution("he said", NS-Explanation("she left", "since it rained"))
DR          (ROOT (Attribution (Satellite EDU) (Nucleus (Explanation (Nucleus EDU) (Satellite EDU)))))
DR-LEX      (SPAN (NUC Root) (REL Attribution) (EDU (NUC Satellite) (NGRAM (he *) (said *))) (SPAN (NUC Nucleus) ...))
no_rel      DR-LEX with (REL *);  no_nuc  with (NUC *);  no_nuc_no_rel  both;  no_discourse  (NGRAM (he *) (said *) ...)
DR-LEX1.1   the leaf below a word is the EDU's nuclearity, so that words match under the same nuclearity only;
DR-LEX2     the leaf is the relation of the parent span;  DR-LEX2.1  both, ``Satellite/Attribution``.
The constrained variants of the paper are only described by what they do; these are ours of that description. ROOT gives
a text of one EDU one production, so that every self-kernel is positive.

A representation is a tree of ``(label, children)``; a terminal is a plain label. Labels of words begin with ``'``, so
that a word is never taken for a tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..text.texts import RSTTree
from .relations import coarse
from .trees import Tree, edus, split_right

Labelled = tuple[str, tuple[Any, ...]] | str  # a node or a terminal
_NUCLEARITY = {"N": "Nucleus", "S": "Satellite"}


class Lexical(NamedTuple):
    """A lexicalised representation: which labels stand for themselves and what stands below a word."""

    nuc: bool = True
    rel: bool = True
    leaf_nuc: bool = False
    leaf_rel: bool = False


REPRESENTATIONS: dict[str, Lexical | Literal["bare", "words"]] = {
    "DR": "bare",
    "no_discourse": "words",
    "DR-LEX": Lexical(),
    "no_rel": Lexical(rel=False),
    "no_nuc": Lexical(nuc=False),
    "no_nuc_no_rel": Lexical(nuc=False, rel=False),
    "DR-LEX1.1": Lexical(leaf_nuc=True),
    "DR-LEX2": Lexical(leaf_rel=True),
    "DR-LEX2.1": Lexical(leaf_nuc=True, leaf_rel=True),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a discourse tree is read: words in lower case, nodes made binary, relations as coarse classes."""

    lowercase: bool = True
    binary: bool = True
    coarse: bool = True


def represent(tree: Tree, how: Lexical | Literal["bare", "words"], reading: Reading) -> Labelled:
    """The representation of a tree: one of `REPRESENTATIONS`, or a `Lexical` of one's own."""
    if how == "words":
        return _ngram([word for edu in edus(tree) for word in edu], "*", reading)
    if how == "bare":
        top = "EDU" if isinstance(tree, tuple) else _bare(tree, reading)
        return ("ROOT", (top,))
    return _lexical(tree, how, reading, "Root", "Root")


def _rel(tree: RSTTree, reading: Reading) -> str:
    return coarse(tree.rel) if reading.coarse else tree.rel


def _bare(tree: RSTTree, reading: Reading) -> Labelled:
    """A relation node of DR; what a long node is cut into is built from the inside out, without recursion."""
    label = _rel(tree, reading)
    below: list[Labelled] = [
        "EDU" if isinstance(child, tuple) else _bare(child, reading) for child in tree.children
    ]
    for start, stop, pair in _cuts(tree.nuc, reading.binary):
        inner = (
            label,
            tuple((_NUCLEARITY[n], (c,)) for n, c in zip(pair, below[start:stop], strict=True)),
        )
        below[start:stop] = [inner]
    return below[0]


def _lexical(tree: Tree, how: Lexical, reading: Reading, nuc: str, rel: str) -> Labelled:
    """A SPAN or EDU of DR-LEX that is a `nuc` of a span of relation `rel`."""
    if isinstance(tree, tuple):
        context = "/".join(
            label for label, used in ((nuc, how.leaf_nuc), (rel, how.leaf_rel)) if used
        )
        return ("EDU", (_property("NUC", nuc, how.nuc), _ngram(tree, context or "*", reading)))
    label = _rel(tree, reading)
    below = [
        _lexical(child, how, reading, _NUCLEARITY[letter], label)
        for letter, child in zip(tree.nuc, tree.children, strict=True)
    ]
    cuts = _cuts(tree.nuc, reading.binary)
    for i, (start, stop, _) in enumerate(cuts):
        # a part cut off keeps its first or last child beside the rest, which is the nucleus of the cut around it
        own = nuc if i == len(cuts) - 1 else _rest_letter(cuts, i)
        properties = (_property("NUC", own, how.nuc), _property("REL", label, how.rel))
        below[start:stop] = [("SPAN", (*properties, *below[start:stop]))]
    return below[0]


def _rest_letter(cuts: list[tuple[int, int, str]], i: int) -> str:
    """The nuclearity of a part of a long node within the part around it."""
    start, _, pair = cuts[i + 1]
    return _NUCLEARITY[pair[cuts[i][0] - start]]


def _cuts(nuc: str, binary: bool) -> list[tuple[int, int, str]]:
    """How the children of a node are folded, innermost first: (start, stop, letters) of what becomes one node.

    >>> _cuts("NNN", True)
    [(1, 3, 'NN'), (0, 2, 'NN')]
    """
    if not binary:
        return [(0, len(nuc), nuc)]
    start, stop, found = 0, len(nuc), []
    while stop - start > 1:
        letters = nuc[start:stop]
        if len(letters) == 2:
            found.append((start, start + 2, letters))
            break
        at, pair = split_right(letters)
        found.append((start, start + 2, pair))
        start, stop = (start + 1, stop) if at == 1 else (start, stop - 1)
    return found[::-1]


def _property(kind: str, label: str, shown: bool) -> Labelled:
    return (kind, (label if shown else "*",))


def _ngram(words: Any, leaf: str, reading: Reading) -> Labelled:
    labels = [f"'{word.lower() if reading.lowercase else word}" for word in words]
    return ("NGRAM", tuple((label, (leaf,)) for label in labels)) if labels else "NGRAM"


def bracketed(node: Labelled) -> str:
    """The representation in brackets, words bare and their brackets escaped.

    >>> bracketed(("NGRAM", (("'(", ("*",)), ("'he", ("*",)))))
    '(NGRAM (-LRB- *) (he *))'
    """
    if isinstance(node, str):
        return _shown(node)
    label, children = node
    return f"({' '.join([_shown(label), *map(bracketed, children)])})"


def _shown(label: str) -> str:
    return label.removeprefix("'").replace("(", "-LRB-").replace(")", "-RRB-")
