"""The XML formats ``.rs3`` and ``.rs4`` of RSTTool, rstWeb and GUM.

A segment or group points to its parent. A child is a nucleus if its relation is "span", or if its parent is a
multinuclear group and the header types the relation as such; otherwise it is a satellite of its parent. Several
satellites of one nucleus are folded nearest first, left before right, one binary level each. Secondary edges and
signals are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from ...errors import InputError, excerpt
from ...text.texts import RSTTree
from ..trees import Tree

_FIX = "Expected a finished tree in the rs3 format of RSTTool or rstWeb"


@dataclass(slots=True)
class _Node:
    kind: str  # "segment", "span" or "multinuc"
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
    nodes, multinuclear = _nodes(text, where)
    roots = [name for name, node in nodes.items() if node.parent is None]
    if len(roots) != 1:
        problem = f"{len(roots)} nodes without a parent, expected one root"
        raise InputError(problem, where=where, fix=_FIX)
    reached: set[str] = set()
    span = _built(roots[0], nodes, multinuclear, where, reached)
    missing = nodes.keys() - reached
    if missing:
        problem = f"node {min(missing)} does not lead to the root (parents in a circle)"
        raise InputError(problem, where=where, fix=_FIX)
    return span.tree


def _nodes(text: str, where: str) -> tuple[dict[str, _Node], set[str]]:
    """The nodes by id with their children, and the relations that the header types as multinuclear."""
    body = _xml(text, where)
    typed = [relation for relation in body.iter("rel") if relation.get("type") == "multinuc"]
    multinuclear = {str(relation.get("name")) for relation in typed}
    nodes: dict[str, _Node] = {}
    elements = (element for element in body.iter() if element.tag in ("segment", "group"))
    for position, element in enumerate(elements):
        name = element.get("id")
        if not name or name in nodes:
            raise InputError(f"id {name!r} is missing or comes twice", where=where, fix=_FIX)
        nodes[name] = _node(element, position)
    for name, node in nodes.items():
        if node.parent is not None:
            if node.parent not in nodes:
                problem = f"node {name} has the parent {node.parent!r}, which is none"
                raise InputError(problem, where=where, fix=_FIX)
            nodes[node.parent].children.append(name)
    return nodes, multinuclear


def _node(element: Any, position: int) -> _Node:
    """A node without its children, from its XML element."""
    kind = "segment" if element.tag == "segment" else element.get("type", "span")
    text = "".join(element.itertext()) if kind == "segment" else ""
    return _Node(
        kind=kind,
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
        raise InputError(f"no XML: {error}", where=where, fix=_FIX) from None


def _built(
    name: str,
    nodes: dict[str, _Node],
    multinuclear: set[str],
    where: str,
    reached: set[str],
) -> _Span:
    """The tree below a node, its satellites included."""
    node = nodes[name]
    reached.add(name)
    nuclei: list[str] = []
    satellites: list[str] = []
    for child in node.children:
        relation = nodes[child].relation
        if relation == "span" or (node.kind == "multinuc" and relation in multinuclear):
            nuclei.append(child)
        else:
            satellites.append(child)

    place = f"{where}: node {name}"
    nucleus_spans = [_built(child, nodes, multinuclear, where, reached) for child in nuclei]
    relations = [nodes[child].relation for child in nuclei]
    core = _core(node, list(map(_Part, relations, nucleus_spans)), place)
    satellite_spans = [_built(child, nodes, multinuclear, where, reached) for child in satellites]
    relations = [nodes[child].relation for child in satellites]
    return _with_satellites(core, list(map(_Part, relations, satellite_spans)), place)


def _core(node: _Node, nuclei: list[_Part], where: str) -> _Span:
    """The tree of a node without its satellites."""
    if node.kind == "segment":
        if nuclei:
            raise InputError("a segment with a nucleus below it", where=where, fix=_FIX)
        return _Span(node.words, node.position, node.position)
    if not nuclei:
        raise InputError("a group without a nucleus", where=where, fix=_FIX)
    nuclei.sort(key=lambda nucleus: nucleus.span.first)
    if len(nuclei) == 1:
        return nuclei[0].span
    if node.kind != "multinuc":
        problem = f"{len(nuclei)} nuclei below a group of type {excerpt(node.kind)}"
        raise InputError(problem, where=where, fix=_FIX)
    spans = [nucleus.span for nucleus in nuclei]
    for left, right in pairwise(spans):
        _check_adjacent(left, right, where)
    children = tuple(span.tree for span in spans)
    tree = RSTTree("N" * len(spans), nuclei[0].relation, children)
    return _Span(tree, spans[0].first, spans[-1].last)


def _with_satellites(core: _Span, satellites: list[_Part], where: str) -> _Span:
    """The tree of a node from that of its nuclei: satellites nearest first, left before right."""
    left = [satellite for satellite in satellites if satellite.span.last < core.first]
    left.sort(key=lambda satellite: -satellite.span.last)
    right = [satellite for satellite in satellites if satellite.span.first > core.last]
    right.sort(key=lambda satellite: satellite.span.first)
    if len(left) + len(right) < len(satellites):
        raise InputError("a satellite inside its nucleus", where=where, fix=_FIX)
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
        raise InputError(problem, where=where, fix=_FIX)
