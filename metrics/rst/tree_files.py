"""Files of discourse trees: which format a file is in, and its trees.

| format | a file holds |
|---|---|
| `lisp` | trees in brackets (``.dis``) |
| `rs3` | one tree (``.rs3``, ``.rs4``) |
| `json` | a JSON value per line, or one over all lines; see `read_plain` |

The ``.dis`` bracket format of RST-DT, GUM (lisp_binary, lisp_nary) and CODRA.

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
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, excerpt
from ..storage.bounded_files import read_small_file
from ..storage.bounded_inflation import inflated
from ..storage.json_and_yaml import parse_small_json
from ..text.texts import RSTTree
from .trees import Tree, check_tree, unescaped

_FORMAT_OF = {"(": "lisp", "<": "rs3", "{": "json", "[": "json"}  # by the first character


def read_trees(path: str | Path) -> list[Tree]:
    """The trees of a file (.gz too), in order; its first character says which format it is in.

    Raises:
        InputError: the file cannot be read, or a tree in it is broken; the error names the place.
    """
    where = str(path)
    text = _text(Path(path))
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
    data = read_small_file(path, fix, name="text_bytes")
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
_ATTRIBUTES = {"span", "leaf", "rel2par", "text"}
_ROLES = {"root": "R", "dummy": "R", "nucleus": "N", "satellite": "S"}
_FIX_DIS = "Expected the .dis format of RST-DT, GUM or CODRA"
_FIX_RS3 = "Expected a finished tree in the rs3 format of RSTTool or rstWeb"


@dataclass(slots=True)
class _Bracket:
    """A bracket with what is in it."""

    line: int
    words: list[str] = field(default_factory=list)
    text: str | None = None
    inside: list[_Bracket] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def content(self) -> str:
        return " ".join(self.words[1:]) if self.text is None else self.text


def read_lisp(text: str, where: str = "dis") -> list[Tree]:
    """The trees of a file's text, in order.

    Raises:
        InputError: brackets that do not match, unknown roles, nodes without relation, leaves out of order
            or other than a node's span says, a text that runs into the next node; the error names the line.
    """
    reader = _LispReader(where)
    return [reader.tree(bracket) for bracket in reader.brackets(text)]


class _LispReader:
    """Reads the trees of one text; leaves are counted on, or from 1 again in a new tree."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.last: int | None = None  # leaf so far
        self.leaves: list[int] = []  # of the tree

    def brackets(self, text: str) -> list[_Bracket]:
        """The outermost brackets of a text."""
        around = _Bracket(0)
        stack = [around]
        line, at = 1, 0
        for token in _TOKEN.finditer(text):
            line += text.count("\n", at, token.start())
            at = token.start()
            if token["mark"] == "(":
                stack.append(_Bracket(line))
            elif len(stack) == 1:
                if token.group() not in ("//TT_ERR", ";"):
                    raise self._error(f"found {excerpt(token.group())}, expected (", line)
            elif token["mark"]:
                done = self._checked(stack.pop())
                stack[-1].inside.append(done)
            elif token["word"]:
                stack[-1].words.append(token.group())
            else:
                stack[-1].text = f"{stack[-1].text or ''} {token['text']}"
        if len(stack) > 1:
            raise self._error("a bracket is never closed", stack[-1].line)
        return around.inside

    def _checked(self, bracket: _Bracket) -> _Bracket:
        """The bracket, whose text must not run into the next node."""
        if bracket.kind == "text" and _NEXT.search(bracket.content):
            problem = f"a text that holds another node: {excerpt(bracket.content)}"
            raise self._error(problem, bracket.line)
        return bracket

    def tree(self, bracket: _Bracket) -> Tree:
        """The tree of an outermost bracket."""
        self.leaves = []
        return self._node(bracket)[2]

    def _node(self, node: _Bracket) -> tuple[str, str, Tree]:
        """The role letter of a node, the relation that is written at it, and its tree."""
        role = _ROLES.get(node.kind.lower())
        if role is None:
            problem = f"found ({node.kind} ...), expected Root, Nucleus, Satellite or DUMMY"
            raise self._error(problem, node.line)
        attributes = {part.kind: part for part in node.inside if part.kind in _ATTRIBUTES}
        first = len(self.leaves)
        if "leaf" in attributes:
            self._count(attributes["leaf"])
        parts = [self._node(part) for part in node.inside if part.kind not in _ATTRIBUTES]
        span = attributes.get("span")
        if span is not None and self.leaves[first:]:
            leaves = f"{self.leaves[first]} {self.leaves[-1]}"
            if span.content != leaves:
                raise self._error(f"found the span {span.content} over leaves {leaves}", span.line)
        relation = attributes["rel2par"].content if "rel2par" in attributes else ""
        if not parts:
            tree: Tree = self._leaf(node, attributes.get("text"))
        elif len(parts) == 1:  # DUMMY and other nodes that only wrap another
            tree = parts[0][2]
        else:
            tree = self._inner(node, parts)
        return role, relation, tree

    def _count(self, leaf: _Bracket) -> None:
        """Checks the number of the next leaf."""
        written = leaf.content
        number = int(written) if written.isdecimal() and len(written) < 10 else -1
        begins_tree = number == 1 and not self.leaves
        follows = self.last is None or number == self.last + 1
        if number < 0 or not (follows or begins_tree):
            expected = f"leaf {self.last + 1}" if self.last is not None else "a number"
            raise self._error(f"found leaf {written!r}, expected {expected}", leaf.line)
        self.last = number
        self.leaves.append(number)

    def _leaf(self, node: _Bracket, text: _Bracket | None) -> Tree:
        if text is None:
            raise self._error("a node with neither text nor children", node.line)
        # without the mark of a paragraph's end
        plain = re.sub(r"<P>\s*$", "", text.content.replace('\\"', '"').strip())
        return tuple(unescaped(word) for word in plain.split())

    def _inner(self, node: _Bracket, parts: list[tuple[str, str, Tree]]) -> Tree:
        nuc = "".join(role for role, _, _ in parts)
        if "N" not in nuc or "R" in nuc:
            problem = f"children {nuc}, expected at least one Nucleus beside Satellites"
            raise self._error(problem, node.line)
        # the relation is written at the satellites, or at the nuclei where all are
        carrier = "S" if "S" in nuc else "N"
        names = [name for role, name, _ in parts if role == carrier]
        relations = [name for name in names if name and name.lower() != "span"]
        if not relations:
            raise self._error("a node without a relation", node.line)
        return RSTTree(nuc, relations[0], tuple(tree for _, _, tree in parts))

    def _error(self, problem: str, line: int) -> InputError:
        return InputError(problem, where=f"{self.where}:{line}", fix=_FIX_DIS)


def read_rs3(text: str, where: str = "rs3") -> Tree:
    """The tree of one file's text.

    Raises:
        InputError: not XML, parents that do not exist or go in circles, no root or several, crossing spans.
    """
    return _RS3Reader(text, where).tree()


class _Span(NamedTuple):
    """A tree over consecutive segments, and its relation to the node above."""

    relation: str
    tree: Tree
    first: int  # positions of its first and last segment
    last: int


class _RS3Reader:
    """The nodes of one file."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        body = self._xml(text)
        self.types: dict[str | None, set[str | None]] = defaultdict(set)  # of every relation
        for relation in body.iter("rel"):
            self.types[relation.get("name")].add(relation.get("type"))
        self.nodes: dict[str, Any] = {}  # XML elements
        self.children: dict[str | None, list[str]] = defaultdict(list)
        self.position: dict[str, int] = {}  # of segments
        for element in body.iter():
            if element.tag not in ("segment", "group"):
                continue
            name = element.get("id")
            if not name or name in self.nodes:
                raise self._error(f"id {name!r} is missing or comes twice")
            self.nodes[name] = element
            self.children[element.get("parent")].append(name)
            if element.tag == "segment":
                self.position[name] = len(self.position)

    def tree(self) -> Tree:
        """The tree below the root."""
        for name, element in self.nodes.items():
            parent = element.get("parent")
            if parent is not None and parent not in self.nodes:
                raise self._error(f"node {name} has the parent {parent!r}, which does not exist")
        roots = self.children[None]
        if len(roots) != 1:
            raise self._error(f"{len(roots)} nodes without a parent, expected one root")
        reached: set[str] = set()
        tree = self._built(roots[0], reached).tree
        missing = self.nodes.keys() - reached
        if missing:
            problem = f"node {min(missing)} does not lead to the root (parents in a circle)"
            raise self._error(problem)
        return tree

    def _xml(self, text: str) -> Any:
        """The root element; what is written around it is left out."""
        from xml.etree import ElementTree

        end = text.find("</rst>")
        body = text[text.find("<") : end + len("</rst>")] if end >= 0 else text
        if "<!DOCTYPE" in body or "<!ENTITY" in body:
            raise self._error("a document type or entity, which rs3 does not have")
        try:
            return ElementTree.fromstring(body)  # noqa: S314
        except (ElementTree.ParseError, ValueError) as error:
            raise self._error(f"not XML: {error}") from None

    def _built(self, name: str, reached: set[str]) -> _Span:
        """The tree of a node with its satellites: nearest first, left before right."""
        reached.add(name)
        nuclei_names = self._nuclei(name)
        nuclei: list[_Span] = []
        satellites: list[_Span] = []
        for child in self.children[name]:
            parts = nuclei if child in nuclei_names else satellites
            parts.append(self._built(child, reached))
        span = self._core(name, sorted(nuclei, key=lambda nucleus: nucleus.first))
        left = [part for part in satellites if part.last < span.first]
        left.sort(key=lambda part: -part.last)
        right = [part for part in satellites if part.last >= span.first]
        right.sort(key=lambda part: part.first)
        for i in range(max(len(left), len(right))):
            for part in left[i : i + 1]:
                span = self._joined("SN", part.relation, [part, span], name)
            for part in right[i : i + 1]:
                span = self._joined("NS", part.relation, [span, part], name)
        return span._replace(relation=self.nodes[name].get("relname", "span"))

    def _nuclei(self, name: str) -> set[str]:
        """The children of a node that are its nuclei."""
        types = self.types if name not in self.position else {}
        relations = {
            child: self.nodes[child].get("relname", "span") for child in self.children[name]
        }
        certain = {
            child
            for child, relation in relations.items()
            if relation == "span" or types.get(relation) == {"multinuc"}
        }
        return certain or {
            child for child, relation in relations.items() if "multinuc" in types.get(relation, ())
        }

    def _core(self, name: str, nuclei: list[_Span]) -> _Span:
        """The tree of a node without its satellites."""
        place = self.position.get(name)
        if place is not None:
            if nuclei:
                raise self._error(f"node {name}: a segment with a nucleus below it")
            words = "".join(self.nodes[name].itertext()).split()
            return _Span("", tuple(words), place, place)
        if not nuclei:
            raise self._error(f"node {name}: a group without a nucleus")
        if len(nuclei) == 1:
            return nuclei[0]
        relations = [nucleus.relation for nucleus in nuclei if nucleus.relation != "span"]
        if not relations:
            raise self._error(f"node {name}: {len(nuclei)} nuclei without a relation")
        return self._joined("N" * len(nuclei), relations[0], nuclei, name)

    def _joined(self, nuc: str, relation: str, spans: list[_Span], name: str) -> _Span:
        """A node over spans, which must be next to each other."""
        for left, right in pairwise(spans):
            if right.first != left.last + 1:
                ends = f"up to segment {left.last + 1}, then from {right.first + 1}"
                raise self._error(f"node {name}: spans that do not meet: {ends}")
        tree = RSTTree(nuc, relation, tuple(span.tree for span in spans))
        return _Span("", tree, spans[0].first, spans[-1].last)

    def _error(self, problem: str) -> InputError:
        return InputError(problem, where=self.where, fix=_FIX_RS3)
