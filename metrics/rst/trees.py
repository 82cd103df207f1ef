"""Discourse trees as values: their words, their checks, their binary form, and joining them.

A tree is an `RSTTree` node or a leaf, the tuple of an elementary discourse unit's (EDU's) words. Formats, kernels and
the parser are built on this module; it needs none of them.

Words of English are split as in GUM and the Penn Treebank: punctuation, ``n't`` and ``'s`` apart, hyphens between words
apart.

The labelled trees that the kernels compare, made from discourse trees (Joty et al. 2017, section 3.1).

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

Names of relations are folded to the 18 coarse classes of the RST Discourse Treebank (Carlson and Marcu 2001). The
table covers RST-DT's own names, those of GUM and of classic RST (Mann and Thompson 1988). Names are compared without
regard to case, ``_`` or ``-``, and without the suffixes of RST-DT (``-e``, ``-n``, ``-s``) and of GUM's dependencies
(``_r``, ``_m``). A name that is none of them is a class of its own, so folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

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


_NAMES = {
    "Attribution": "attribution attribution-positive attribution-negative",
    "Background": "background circumstance context-background context-circumstance",
    "Cause": "cause result consequence cause-result causal-cause causal-result volitional-cause volitional-result "
    "nonvolitional-cause nonvolitional-result",
    "Comparison": "comparison preference analogy proportion",
    "Condition": "condition hypothetical contingency otherwise unless unconditional contingency-condition",
    "Contrast": "contrast concession antithesis adversative-antithesis adversative-concession adversative-contrast",
    "Elaboration": "elaboration elaboration-additional elaboration-attribute elaboration-general-specific "
    "elaboration-part-whole elaboration-process-step elaboration-object-attribute elaboration-set-member example "
    "definition",
    "Enablement": "enablement purpose purpose-attribute purpose-goal",
    "Evaluation": "evaluation interpretation conclusion comment evaluation-comment",
    "Explanation": "explanation evidence explanation-argumentative reason justify motivation explanation-evidence "
    "explanation-justify explanation-motivation",
    "Joint": "joint list disjunction conjunction joint-list joint-other joint-disjunction",
    "Manner-Means": "manner-means manner means mode-manner mode-means",
    "Same-Unit": "same-unit same-unite",
    "Summary": "summary restatement restatement-partial restatement-repetition",
    "Temporal": "temporal temporal-before temporal-after temporal-same-time sequence inverted-sequence joint-sequence",
    "Textual-Organization": "textual-organization organization-heading organization-phatic organization-preparation "
    "preparation heading phatic",
    "Topic-Change": "topic-change topic-shift topic-drift",
    "Topic-Comment": "topic-comment comment-topic problem-solution question-answer statement-response solutionhood "
    "rhetorical-question topic-question topic-solutionhood",
}
CLASSES = tuple(_NAMES)


def _folded(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).lower()


_CLASS_OF = {_folded(name): kind for kind, names in _NAMES.items() for name in names.split()}


@cache
def coarse(name: str) -> str:
    """The class of a relation; the name without case, ``_``, ``-``, white space and suffix if it is not known.

    >>> coarse("elaboration-object-attribute-e"), coarse("TextualOrganization"), coarse("My-own")
    ('Elaboration', 'Textual-Organization', 'myown')
    """
    short = re.sub(r"(?<=\w)(-[ens]|_[rm])$", "", name)
    return _CLASS_OF.get(_folded(name)) or _CLASS_OF.get(_folded(short)) or _folded(short) or name


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
class Preprocessing:
    """Preprocessing of a discourse tree: words in lower case, nodes made binary, relations as coarse classes."""

    lowercase: bool = True
    binary: bool = True
    coarse: bool = True


def represent(
    tree: Tree,
    representation: Lexical | Literal["bare", "words"],
    preprocessing: Preprocessing,
) -> Labelled:
    """The representation of a tree: one of `REPRESENTATIONS`, or a `Lexical` of one's own."""
    if representation == "words":
        words = [word for edu in edus(tree) for word in edu]
        return _ngram(words, "*", preprocessing)
    if representation == "bare":
        top = "EDU" if isinstance(tree, tuple) else _bare(tree, preprocessing)
        return ("ROOT", (top,))
    return _lexical(tree, representation, preprocessing, "Root", "Root")


def _relation(tree: RSTTree, preprocessing: Preprocessing) -> str:
    return coarse(tree.rel) if preprocessing.coarse else tree.rel


def _bare(tree: RSTTree, preprocessing: Preprocessing) -> Labelled:
    """A relation node of DR; what a long node is cut into is built from the inside out, without recursion."""
    relation = _relation(tree, preprocessing)
    below: list[Labelled] = []
    for child in tree.children:
        below.append("EDU" if isinstance(child, tuple) else _bare(child, preprocessing))
    for start, stop, letters in _cuts(tree.nuc, preprocessing.binary):
        pairs = zip(letters, below[start:stop], strict=True)
        parts = [(_NUCLEARITY[letter], (child,)) for letter, child in pairs]
        below[start:stop] = [(relation, tuple(parts))]
    return below[0]


def _lexical(
    tree: Tree,
    lexical: Lexical,
    preprocessing: Preprocessing,
    nuclearity: str,
    around: str,
) -> Labelled:
    """A SPAN or EDU of DR-LEX that has this nuclearity in a span of the relation `around`."""
    if isinstance(tree, tuple):
        leaf = _leaf(lexical, nuclearity, around)
        ngram = _ngram(tree, leaf, preprocessing)
        return ("EDU", (_property("NUC", nuclearity, lexical.nuc), ngram))
    relation = _relation(tree, preprocessing)
    below: list[Labelled] = []
    for letter, child in zip(tree.nuc, tree.children, strict=True):
        below.append(_lexical(child, lexical, preprocessing, _NUCLEARITY[letter], relation))
    cuts = _cuts(tree.nuc, preprocessing.binary)
    for i, (start, stop, _) in enumerate(cuts):
        # a part cut off keeps its first or last child beside the rest, which is the nucleus of the cut around it
        outermost = i == len(cuts) - 1
        part_nuclearity = nuclearity if outermost else _rest_nuclearity(cuts, i)
        properties = (
            _property("NUC", part_nuclearity, lexical.nuc),
            _property("REL", relation, lexical.rel),
        )
        below[start:stop] = [("SPAN", (*properties, *below[start:stop]))]
    return below[0]


def _leaf(lexical: Lexical, nuclearity: str, relation: str) -> str:
    """The nodes below the words of an EDU."""
    labels = []
    if lexical.leaf_nuc:
        labels.append(nuclearity)
    if lexical.leaf_rel:
        labels.append(relation)
    return "/".join(labels) or "*"


def _rest_nuclearity(cuts: list[tuple[int, int, str]], i: int) -> str:
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
    start, stop = 0, len(nuc)
    cuts = []
    while stop - start > 1:
        letters = nuc[start:stop]
        if len(letters) == 2:
            cuts.append((start, start + 2, letters))
            break
        at, pair = split_right(letters)
        cuts.append((start, start + 2, pair))
        if at == 1:
            start += 1
        else:
            stop -= 1
    return cuts[::-1]


def _property(kind: str, label: str, shown: bool) -> Labelled:
    return (kind, (label if shown else "*",))


def _ngram(words: Sequence[str], leaf: str, preprocessing: Preprocessing) -> Labelled:
    if not words:
        return "NGRAM"
    forms = [word.lower() for word in words] if preprocessing.lowercase else words
    return ("NGRAM", tuple((f"'{form}", (leaf,)) for form in forms))
