"""The ``.dis`` bracket format of RST-DT, GUM (lisp_binary, lisp_nary) and CODRA, read and written.

    ( Root (span 1 2) ( Nucleus (leaf 1) (rel2par span) (text _!It fell_!) ) ( Satellite (leaf 2) (rel2par Cause) ...))

The relation of a node is that of its first satellite, or of its nuclei. A file may hold several trees (CODRA's trees of
sentences), whose leaves are counted on or from 1 again; ``( DUMMY (leaf 6) ...)`` is a sentence of one EDU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import InputError, excerpt
from ...text.texts import RSTTree
from ..trees import Tree, check_tree, unescaped

_TOKEN = re.compile(r"_!(?P<text>.*?)_!|(?P<mark>[()])|(?P<word>[^\s()]+)", re.DOTALL)
_NEXT = re.compile(r"\((?:leaf\s+\d|rel2par\s)")  # in a text whose _! is missing
_NAME = re.compile(r"(?!_!)[^\s()]+(?: (?!_!)[^\s()]+)*")  # of a relation
_ATTRIBUTES = {"span", "leaf", "rel2par", "text"}
_ROLES = {"root": "R", "dummy": "R", "nucleus": "N", "satellite": "S"}


@dataclass(slots=True)
class _Open:
    """A bracket that is being read."""

    place: int  # line of its opening
    words: list[str] = field(default_factory=list)
    text: str | None = None
    attributes: dict[str, _Open] = field(default_factory=dict)
    leaves: list[int] = field(default_factory=list)  # first and last of it, or none yet
    # role letter, rel2par, tree
    children: list[tuple[str, str, Tree]] = field(default_factory=list)


def read_lisp(text: str, where: str = "dis") -> list[Tree]:
    """The trees of a file's text, in order.

    Raises:
        InputError: brackets that do not match, unknown roles, nodes without relation, leaves out of order
            or other than a node's span says, a text that runs into the next node; the error names the line.
    """
    trees: list[Tree] = []
    stack: list[_Open] = []
    leaves = _Leaves()
    for token, line in _tokens(text):
        if token.lastgroup == "mark" and token.group() == "(":
            stack.append(_Open(line))
        elif not stack:
            if token.group() not in ("//TT_ERR", ";"):
                raise _error(f"found {excerpt(token.group())}, expected (", where, line)
        elif token.lastgroup == "text":
            stack[-1].text = f"{stack[-1].text or ''} {token['text']}"
        elif token.lastgroup == "word":
            stack[-1].words.append(token.group())
        else:
            _close(stack, trees, leaves, where)
    if stack:
        raise _error("a bracket is never closed", where, stack[-1].place)
    return trees


def _tokens(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Every token and its line."""
    line, last = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last = token.start()
        yield token, line


class _Leaves:
    """Checks that leaves are counted on; a new tree may begin at 1 again."""

    last: int | None = None
    begun = False  # whether the tree has a leaf

    def next(self, number: str, where: str, line: int) -> int:
        """Takes the number of the next leaf."""
        value = int(number) if number.isdecimal() and len(number) < 10 else -1
        begins_tree = value == 1 and not self.begun
        follows = self.last is None or value == self.last + 1
        if value < 0 or not (follows or begins_tree):
            expected = f"leaf {self.last + 1}" if self.last is not None else "a number"
            raise _error(f"found leaf {number!r}, expected {expected}", where, line)
        self.last, self.begun = value, True
        return value


def _close(stack: list[_Open], trees: list[Tree], leaves: _Leaves, where: str) -> None:
    """Ends the innermost bracket: an attribute of the one around it, a child, or a tree."""
    done = stack.pop()
    around = stack[-1] if stack else None
    kind = done.words[0] if done.words else ""
    if kind in _ATTRIBUTES and around:
        around.attributes[kind] = done
        if kind == "leaf":
            number = " ".join(done.words[1:])
            around.leaves.append(leaves.next(number, where, done.place))
        return
    role = _ROLES.get(kind.lower())
    if role is None:
        problem = f"found ({kind} ...), expected Root, Nucleus, Satellite or DUMMY"
        raise _error(problem, where, done.place)
    relation = done.attributes.get("rel2par")
    name = " ".join(relation.words[1:]) if relation else ""
    tree = _tree(done, where)
    _check_span(done, where)
    if around:
        around.children.append((role, name, tree))
        if around.leaves:
            around.leaves = [around.leaves[0], *done.leaves[-1:]]
        else:
            around.leaves = done.leaves
    else:
        trees.append(tree)
        leaves.begun = False


def _check_span(done: _Open, where: str) -> None:
    """Raises InputError unless a node's span, if it has one, is that of its leaves."""
    span = done.attributes.get("span")
    if span is None or not done.leaves:
        return
    written = span.words[1:]
    leaves = [str(done.leaves[0]), str(done.leaves[-1])]
    if written != leaves:
        problem = f"found the span {' '.join(written)} over leaves {' to '.join(leaves)}"
        raise _error(problem, where, span.place)


def _tree(done: _Open, where: str) -> Tree:
    """The tree of a node whose children are read."""
    if not done.children:
        if "text" not in done.attributes:
            raise _error("a node with neither text nor children", where, done.place)
        text = done.attributes["text"]
        written = text.text if text.text is not None else " ".join(text.words[1:])
        if _NEXT.search(written):
            raise _error(f"a text that holds another node: {excerpt(written)}", where, text.place)
        return _words(written)
    if len(done.children) == 1:  # DUMMY and other nodes that only wrap another
        return done.children[0][2]
    nuc = "".join(role for role, _, _ in done.children)
    if "N" not in nuc or "R" in nuc:
        problem = f"children {nuc}, expected at least one Nucleus beside Satellites"
        raise _error(problem, where, done.place)
    # the relation stands at the satellites, or at the nuclei where all are
    carrier = "S" if "S" in nuc else "N"
    names = [name for role, name, _ in done.children if role == carrier]
    relations = [name for name in names if name and name.lower() != "span"]
    if not relations:
        raise _error("a node without a relation", where, done.place)
    children = tuple(tree for _, _, tree in done.children)
    return RSTTree(nuc, relations[0], children)


def _words(text: str) -> tuple[str, ...]:
    """The words of an EDU as it is written, without the mark of a paragraph's end."""
    plain = text.replace('\\"', '"').strip()
    without_mark = re.sub(r"<P>\s*$", "", plain)
    return tuple(unescaped(word) for word in without_mark.split())


def write_lisp(tree: Tree) -> str:
    """A tree as one ``.dis`` text; `read_lisp` gives it back.

    >>> read_lisp(write_lisp(RSTTree("NS", "Cause", (("it", "fell"), ("since",)))))[0].rel
    'Cause'

    Raises:
        InputError: a broken tree, or a word or name that would not be read back, such as ``_!`` or ``-LRB-``.
    """
    check_tree(tree)
    counter = iter(range(1, 1 << 62))
    lines: list[str] = []
    _write(tree, "Root", None, 0, counter, lines)
    return "\n".join(lines) + "\n"


def _write(
    tree: Tree,
    role: str,
    rel: str | None,
    depth: int,
    leaf: Iterator[int],
    lines: list[str],
) -> None:
    """Adds the lines of a tree, indented by its depth; `leaf` counts the leaves."""
    indent = "  " * depth
    relation = f" (rel2par {rel})" if rel else ""
    if isinstance(tree, tuple):
        written = " ".join(tree)
        if "_!" in written or _NEXT.search(written) or _words(written) != tree:
            fix = "A word has no space in it, no _!, and none of the marks that the format escapes"
            raise InputError(f"found the EDU {excerpt(tree)}", where="write_lisp", fix=fix)
        number = next(leaf)
        lines.append(f"{indent}( {role} (leaf {number}){relation} (text _!{written}_!) )")
        return
    if not _NAME.fullmatch(tree.rel) or tree.rel.lower() == "span":
        fix = "A name is words without brackets, one space between them, and not span"
        raise InputError(f"found the relation {excerpt(tree.rel)}", where="write_lisp", fix=fix)
    lines.append(f"{indent}( {role}{relation}")
    for letter, child in zip(tree.nuc, tree.children, strict=True):
        child_role = "Satellite" if letter == "S" else "Nucleus"
        carries_relation = letter == "S" or "S" not in tree.nuc
        child_relation = tree.rel if carries_relation else "span"
        _write(child, child_role, child_relation, depth + 1, leaf, lines)
    lines.append(f"{indent})")


def _error(problem: str, where: str, line: int) -> InputError:
    fix = "Expected the .dis format of RST-DT, GUM or CODRA"
    return InputError(problem, where=f"{where}:{line}", fix=fix)
