"""Files of discourse trees: which format a file is in, and its trees.

| format | a file holds |
|---|---|
| `lisp` | trees in brackets (``.dis``) |
| `rs3` | one tree (``.rs3``, ``.rs4``) |
| `json` | a JSON value per line, or one over all lines; see `read_plain` |

The ``.dis`` bracket format of RST-DT, GUM (lisp_binary, lisp_nary) and CODRA, read and written.

    ( Root (span 1 2) ( Nucleus (leaf 1) (rel2par span) (text _!It fell_!) ) ( Satellite (leaf 2) (rel2par Cause) ...))

The relation of a node is that of its first satellite, or of its nuclei. A file may hold several trees (CODRA's trees of
sentences), whose leaves are counted on or from 1 again; ``( DUMMY (leaf 6) ...)`` is a sentence of one EDU.

The XML formats ``.rs3`` and ``.rs4`` of RSTTool, rstWeb and GUM.

A segment or group points to its parent. A child of a group is a nucleus if its relation is "span", or if the header
types the relation as multinuclear. The type of the group does not matter: isanlp_rst writes "span" for multinuclear
groups too. A relation that the header types both ways is multinuclear where the group has no other nucleus. Every other
child is a satellite of its parent. Several satellites of one nucleus are folded nearest first, left before right, one
binary level each. Secondary edges and signals are not read.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, excerpt, unknown
from ...storage.bounded_files import read_small_file
from ...storage.bounded_inflation import inflated
from ...storage.json_and_yaml import parse_small_json
from ...text.texts import RSTTree
from ..trees import Tree, check_tree, unescaped

FORMATS = ("auto", "lisp", "rs3", "json")
_FORMAT_OF = {"(": "lisp", "<": "rs3", "{": "json", "[": "json"}  # by the first character


def read_trees(path: str | Path, format: str = "auto") -> list[Tree]:
    """The trees of a file (.gz too), in order; "auto" looks at how it begins.

    Raises:
        InputError: the file cannot be read, or a tree in it is broken; the error names the place.
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS, where="read_trees")
    where = str(path)
    text = _text(Path(path))
    if format == "auto":
        format = _guessed(text, where)
    try:
        if format == "lisp":
            trees = read_lisp(text, where)
        elif format == "rs3":
            trees = [read_rs3(text, where)]
        else:
            trees = []
            for place, value in _values(text, where):
                trees += read_plain(value, place)
    except RecursionError:
        raise InputError("nested too deep", where=where, fix="Give trees of fewer levels") from None
    return [check_tree(tree, f"{where}, tree {i}") for i, tree in enumerate(trees, 1)]


def read_plain(value: Any, where: str = "rst") -> list[Tree]:
    """The trees of one JSON value or of all in ``{"rst": ...}``.

    A leaf is a list of words, a node ``{"nuc": "NS", "rel": "Cause", "children": [...]}``.
    """
    if isinstance(value, Mapping) and "rst" in value:
        units = _units(value["rst"])
        parts = [read_plain(unit, f"{where}: rst[{i}]") for i, unit in enumerate(units)]
        return [tree for part in parts for tree in part]
    return [RSTTree.read(value, where)]


def _units(inner: Any) -> list[Any]:
    """The values inside ``{"rst": ...}``: a list of objects is several trees, all else is one."""
    if isinstance(inner, list) and inner and all(isinstance(unit, Mapping) for unit in inner):
        return inner
    return [inner]


def _text(path: Path) -> str:
    """The text of a file, gzip or plain."""
    fix = "Name a UTF-8 file of trees"
    data = read_small_file(path, fix)
    try:
        if path.suffix == ".gz":
            data = inflated(data)
        return data.decode("utf-8-sig")
    except InputError as error:
        raise error.inside(str(path)) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(f"cannot be read: {reason}", where=str(path), fix=fix) from None


def _guessed(text: str, where: str) -> str:
    """The format of a text, by its first character."""
    start = text.lstrip()[:20]
    format = _FORMAT_OF.get(start[:1])
    if format is None:
        problem = f"begins with {excerpt(start)}" if start else "is empty"
        fix = "Expected ( for .dis, < for rs3, { or [ for JSON"
        raise InputError(problem, where=where, fix=fix)
    return format


def _values(text: str, where: str) -> Iterable[tuple[str, Any]]:
    """(place, JSON value) of every line, or of the whole text if its first line is no JSON value by itself."""
    numbered = enumerate(text.splitlines(), 1)
    lines = [(f"{where}:{number}", line) for number, line in numbered if line.strip()]
    try:
        json.loads(lines[0][1])
    except ValueError:
        lines = [(where, text)]
    for place, line in lines:
        data = line.encode("utf-8", "surrogatepass")
        yield place, parse_small_json(data, place, "Give one JSON value per line")


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
    tree = _tree_lisp(done, where)
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


def _tree_lisp(done: _Open, where: str) -> Tree:
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


_FIX_rs3 = "Expected a finished tree in the rs3 format of RSTTool or rstWeb"


@dataclass(slots=True)
class _Node:
    is_segment: bool
    parent: str | None
    relation: str
    words: tuple[str, ...] = ()
    position: int = 0  # of a segment
    children: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Span:
    tree: Tree
    first: int  # positions of its first and last segment
    last: int


class _Part(NamedTuple):
    """A nucleus or satellite of a node."""

    relation: str
    span: _Span


def read_rs3(text: str, where: str = "rs3") -> Tree:
    """The tree of one file's text.

    Raises:
        InputError: no XML, parents that do not exist or go in circles, no root or several, crossing spans.
    """
    nodes, types = _nodes(text, where)
    roots = [name for name, node in nodes.items() if node.parent is None]
    if len(roots) != 1:
        problem = f"{len(roots)} nodes without a parent, expected one root"
        raise InputError(problem, where=where, fix=_FIX_rs3)
    reached: set[str] = set()
    span = _built(roots[0], nodes, types, where, reached)
    missing = nodes.keys() - reached
    if missing:
        problem = f"node {min(missing)} does not lead to the root (parents in a circle)"
        raise InputError(problem, where=where, fix=_FIX_rs3)
    return span.tree


def _nodes(text: str, where: str) -> tuple[dict[str, _Node], dict[str, set[str]]]:
    """The nodes by id with their children, and the types of every relation in the header."""
    body = _xml(text, where)
    types: dict[str, set[str]] = {}
    for relation in body.iter("rel"):
        types.setdefault(str(relation.get("name")), set()).add(str(relation.get("type")))
    nodes: dict[str, _Node] = {}
    position = 0
    for element in body.iter():
        if element.tag not in ("segment", "group"):
            continue
        name = element.get("id")
        if not name or name in nodes:
            raise InputError(f"id {name!r} is missing or comes twice", where=where, fix=_FIX_rs3)
        nodes[name] = _node(element, position)
        position += element.tag == "segment"
    for name, node in nodes.items():
        if node.parent is not None:
            if node.parent not in nodes:
                problem = f"node {name} has the parent {node.parent!r}, which is none"
                raise InputError(problem, where=where, fix=_FIX_rs3)
            nodes[node.parent].children.append(name)
    return nodes, types


def _node(element: Any, position: int) -> _Node:
    """A node without its children, from its XML element."""
    is_segment = element.tag == "segment"
    text = "".join(element.itertext()) if is_segment else ""
    return _Node(
        is_segment=is_segment,
        parent=element.get("parent"),
        relation=element.get("relname", "span"),
        words=tuple(text.split()),
        position=position,
    )


def _xml(text: str, where: str) -> Any:
    """The root element; what stands around it is left out."""
    from xml.etree import ElementTree

    end = text.find("</rst>")
    body = text[text.find("<") : end + len("</rst>")] if end >= 0 else text
    if "<!DOCTYPE" in body or "<!ENTITY" in body:
        fix = "Take it out: plain rs3 has none"
        raise InputError("a document type or entity", where=where, fix=fix)
    try:
        return ElementTree.fromstring(body)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"no XML: {error}", where=where, fix=_FIX_rs3) from None


def _built(
    name: str,
    nodes: dict[str, _Node],
    types: Mapping[str, set[str]],
    where: str,
    reached: set[str],
) -> _Span:
    """The tree below a node, its satellites included."""
    node = nodes[name]
    reached.add(name)
    nuclei = _nuclei(node, nodes, types)
    of_nuclei: list[_Part] = []
    of_satellites: list[_Part] = []
    for child in node.children:
        span = _built(child, nodes, types, where, reached)
        parts = of_nuclei if child in nuclei else of_satellites
        parts.append(_Part(nodes[child].relation, span))
    place = f"{where}: node {name}"
    return _with_satellites(_core(node, of_nuclei, place), of_satellites, place)


def _nuclei(node: _Node, nodes: Mapping[str, _Node], types: Mapping[str, set[str]]) -> set[str]:
    """The children of a node that are its nuclei."""
    typed = {} if node.is_segment else types
    of_children = {child: nodes[child].relation for child in node.children}
    certain = {
        child
        for child, relation in of_children.items()
        if relation == "span" or typed.get(relation) == {"multinuc"}
    }
    return certain or {
        child for child, relation in of_children.items() if "multinuc" in typed.get(relation, ())
    }


def _core(node: _Node, nuclei: list[_Part], where: str) -> _Span:
    """The tree of a node without its satellites."""
    if node.is_segment:
        if nuclei:
            raise InputError("a segment with a nucleus below it", where=where, fix=_FIX_rs3)
        return _Span(node.words, node.position, node.position)
    if not nuclei:
        raise InputError("a group without a nucleus", where=where, fix=_FIX_rs3)
    nuclei.sort(key=lambda nucleus: nucleus.span.first)
    if len(nuclei) == 1:
        return nuclei[0].span
    relations = [nucleus.relation for nucleus in nuclei if nucleus.relation != "span"]
    if not relations:
        problem = f"{len(nuclei)} nuclei without a relation"
        raise InputError(problem, where=where, fix=_FIX_rs3)
    spans = [nucleus.span for nucleus in nuclei]
    for left, right in pairwise(spans):
        _check_adjacent(left, right, where)
    children = tuple(span.tree for span in spans)
    tree = RSTTree("N" * len(spans), relations[0], children)
    return _Span(tree, spans[0].first, spans[-1].last)


def _with_satellites(core: _Span, satellites: list[_Part], where: str) -> _Span:
    """The tree of a node from that of its nuclei: satellites nearest first, left before right."""
    left = [satellite for satellite in satellites if satellite.span.last < core.first]
    left.sort(key=lambda satellite: -satellite.span.last)
    right = [satellite for satellite in satellites if satellite.span.first > core.last]
    right.sort(key=lambda satellite: satellite.span.first)
    if len(left) + len(right) < len(satellites):
        raise InputError("a satellite inside its nucleus", where=where, fix=_FIX_rs3)
    for i in range(max(len(left), len(right))):
        for relation, span in left[i : i + 1]:
            _check_adjacent(span, core, where)
            tree = RSTTree("SN", relation, (span.tree, core.tree))
            core = _Span(tree, span.first, core.last)
        for relation, span in right[i : i + 1]:
            _check_adjacent(core, span, where)
            tree = RSTTree("NS", relation, (core.tree, span.tree))
            core = _Span(tree, core.first, span.last)
    return core


def _check_adjacent(left: _Span, right: _Span, where: str) -> None:
    if right.first != left.last + 1:
        left_end, right_begin = left.last + 1, right.first + 1
        problem = f"spans that do not meet: up to segment {left_end}, then from {right_begin}"
        raise InputError(problem, where=where, fix=_FIX_rs3)
