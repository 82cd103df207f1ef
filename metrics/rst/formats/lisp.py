"""The ``.dis`` bracket format of RST-DT, GUM (lisp_binary, lisp_nary) and CODRA, read and written.

    ( Root (span 1 2) ( Nucleus (leaf 1) (rel2par span) (text _!It fell_!) ) ( Satellite (leaf 2) (rel2par Cause) ...))

The relation of a node is that of its first satellite, or of its nuclei. A file may hold several trees (CODRA's trees of
sentences, leaves counted on); ``( DUMMY (leaf 6) ...)`` is a sentence of one EDU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import InputError, excerpt
from ...texts import RSTTree
from ..trees import Tree, unescaped

_TOKEN = re.compile(r"_!(?P<text>.*?)_!|(?P<mark>[()])|(?P<word>[^\s()]+)", re.DOTALL)
_ATTRIBUTES = {"span", "leaf", "rel2par", "text"}
_ROLES = {"root": "R", "dummy": "R", "nucleus": "N", "satellite": "S"}


@dataclass(slots=True)
class _Open:
    """A bracket that is being read."""

    place: int  # line of its opening
    words: list[str] = field(default_factory=list)
    text: str | None = None
    attributes: dict[str, _Open] = field(default_factory=dict)
    children: list[tuple[str, str, Tree]] = field(default_factory=list)  # role letter, rel2par, tree


def read_lisp(text: str, where: str = "dis") -> list[Tree]:
    """The trees of a file's text, in order.

    Raises:
        InputError: brackets that do not match, unknown roles, nodes without relation, leaves out of order; the error
            names the line.
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
    line, last = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last = token.start()
        yield token, line


class _Leaves:
    """Checks that leaves are counted on."""

    last: int | None = None

    def next(self, number: str, where: str, line: int) -> None:
        """Takes the number of the next leaf."""
        if not number.isdecimal() or (self.last is not None and int(number) != self.last + 1):
            expected = f"leaf {self.last + 1}" if self.last is not None else "a number"
            raise _error(f"found leaf {number!r}, expected {expected}", where, line)
        self.last = int(number)


def _close(stack: list[_Open], trees: list[Tree], leaves: _Leaves, where: str) -> None:
    """Ends the innermost bracket: an attribute of the one around it, a child, or a tree."""
    done = stack.pop()
    kind = done.words[0] if done.words else ""
    if kind in _ATTRIBUTES and stack:
        stack[-1].attributes[kind] = done
        if kind == "leaf":
            leaves.next(" ".join(done.words[1:]), where, done.place)
        return
    role = _ROLES.get(kind.lower())
    if role is None:
        raise _error(f"found ({kind} ...), expected Root, Nucleus, Satellite or DUMMY", where, done.place)
    relation = done.attributes.get("rel2par")
    name = " ".join(relation.words[1:]) if relation else ""
    if stack:
        stack[-1].children.append((role, name, _tree(done, where)))
    else:
        trees.append(_tree(done, where))


def _tree(done: _Open, where: str) -> Tree:
    if not done.children:
        if "text" not in done.attributes:
            raise _error("a node with neither text nor children", where, done.place)
        return _words(done.attributes["text"])
    if len(done.children) == 1:  # DUMMY and other nodes that only wrap another
        return done.children[0][2]
    nuc = "".join(role for role, _, _ in done.children)
    if "N" not in nuc or "R" in nuc:
        raise _error(f"children {nuc}, expected at least one Nucleus beside Satellites", where, done.place)
    names = [name for role, name, _ in done.children if name and (role == "S" or "S" not in nuc)]
    named = next((name for name in names if name.lower() != "span"), "")
    if not named:
        raise _error("a node without a relation", where, done.place)
    return RSTTree(nuc, named, tuple(tree for _, _, tree in done.children))


def _words(attribute: _Open) -> tuple[str, ...]:
    text = attribute.text if attribute.text is not None else " ".join(attribute.words[1:])
    return tuple(unescaped(word) for word in re.sub(r"<P>\s*$", "", text.replace('\\"', '"').strip()).split())


def write_lisp(tree: Tree) -> str:
    """A tree as one ``.dis`` text; `read_lisp` gives it back, words that hold ``_!`` aside.

    >>> read_lisp(write_lisp(RSTTree("NS", "Cause", (("it", "fell"), ("since",)))))[0].rel
    'Cause'
    """
    counter = iter(range(1, 1 << 62))
    lines: list[str] = []
    _write(tree, "Root", None, 0, counter, lines)
    return "\n".join(lines) + "\n"


def _write(tree: Tree, role: str, rel: str | None, depth: int, leaf: Iterator[int], lines: list[str]) -> None:
    indent, relation = "  " * depth, f" (rel2par {rel})" if rel else ""
    if isinstance(tree, tuple):
        lines.append(f"{indent}( {role} (leaf {next(leaf)}){relation} (text _!{' '.join(tree)}_!) )")
        return
    lines.append(f"{indent}( {role}{relation}")
    for letter, child in zip(tree.nuc, tree.children, strict=True):
        own = tree.rel if letter == "S" or "S" not in tree.nuc else "span"
        _write(child, "Satellite" if letter == "S" else "Nucleus", own, depth + 1, leaf, lines)
    lines.append(f"{indent})")


def _error(found: str, where: str, line: int) -> InputError:
    return InputError(found, where=f"{where}:{line}", fix="Expected the .dis format of RST-DT, GUM or CODRA")
