"""The XML formats ``.rs3`` and ``.rs4`` of RSTTool, rstWeb and GUM.

A segment or group points to its parent. A child is a nucleus if its relation is "span", or if its parent is a
multinuclear group and the header types the relation as such; otherwise it is a satellite of its parent. Several
satellites of one nucleus are folded nearest first, left before right, one binary level each. Secondary edges and
signals are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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
    first: int
    last: int


def read_rs3(text: str, where: str = "rs3") -> Tree:
    """The tree of one file's text.

    Raises:
        InputError: no XML, parents that do not exist or go in circles, no root or several, crossing spans.
    """
    nodes, multinuclear = _nodes(text, where)
    roots = [name for name, node in nodes.items() if node.parent is None]
    if len(roots) != 1:
        raise InputError(
            f"{len(roots)} nodes without a parent, expected one root", where=where, fix=_FIX
        )
    reached: set[str] = set()
    found = _built(roots[0], nodes, multinuclear, where, reached)
    if missing := nodes.keys() - reached:
        circle = f"node {min(missing)} does not lead to the root (parents in a circle)"
        raise InputError(circle, where=where, fix=_FIX)
    return found.tree


def _nodes(text: str, where: str) -> tuple[dict[str, _Node], set[str]]:
    """The nodes by id with their children, and the relations that the header types as multinuclear."""
    body = _xml(text, where)
    multinuclear = {
        str(rel.get("name")) for rel in body.iter("rel") if rel.get("type") == "multinuc"
    }
    nodes: dict[str, _Node] = {}
    for position, element in enumerate(e for e in body.iter() if e.tag in ("segment", "group")):
        name = element.get("id")
        if not name or name in nodes:
            raise InputError(f"id {name!r} is missing or comes twice", where=where, fix=_FIX)
        kind = "segment" if element.tag == "segment" else element.get("type", "span")
        words = tuple("".join(element.itertext()).split()) if kind == "segment" else ()
        nodes[name] = _Node(
            kind, element.get("parent"), element.get("relname", "span"), words, position
        )
    for name, node in nodes.items():
        if node.parent is not None:
            if node.parent not in nodes:
                raise InputError(
                    f"node {name} has the parent {node.parent!r}, which is none",
                    where=where,
                    fix=_FIX,
                )
            nodes[node.parent].children.append(name)
    return nodes, multinuclear


def _xml(text: str, where: str) -> Any:
    from xml.etree import ElementTree

    end = text.find("</rst>")
    body = text[text.find("<") : end + len("</rst>")] if end >= 0 else text
    if "<!DOCTYPE" in body or "<!ENTITY" in body:
        raise InputError(
            "a document type or entity", where=where, fix="Take it out: plain rs3 has none"
        )
    try:
        return ElementTree.fromstring(body)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"no XML: {error}", where=where, fix=_FIX) from None


def _built(
    name: str, nodes: dict[str, _Node], multinuclear: set[str], where: str, reached: set[str]
) -> _Span:
    """The tree below a node, its satellites included."""
    node = nodes[name]
    reached.add(name)
    nuclei: list[str] = []
    satellites: list[str] = []
    for child in node.children:
        relation = nodes[child].relation
        own = relation == "span" or (node.kind == "multinuc" and relation in multinuclear)
        (nuclei if own else satellites).append(child)
    place = f"{where}: node {name}"
    core = _core(
        node, [(c, _built(c, nodes, multinuclear, where, reached)) for c in nuclei], nodes, place
    )
    rest = [(nodes[c].relation, _built(c, nodes, multinuclear, where, reached)) for c in satellites]
    return _with_satellites(core, rest, place)


def _core(
    node: _Node, nuclei: list[tuple[str, _Span]], nodes: dict[str, _Node], where: str
) -> _Span:
    if node.kind == "segment":
        if nuclei:
            raise InputError("a segment with a nucleus below it", where=where, fix=_FIX)
        return _Span(node.words, node.position, node.position)
    if not nuclei:
        raise InputError("a group without a nucleus", where=where, fix=_FIX)
    nuclei.sort(key=lambda pair: pair[1].first)
    if len(nuclei) == 1:
        return nuclei[0][1]
    if node.kind != "multinuc":
        raise InputError(
            f"{len(nuclei)} nuclei below a group of type {excerpt(node.kind)}",
            where=where,
            fix=_FIX,
        )
    spans = [span for _, span in nuclei]
    for left, right in pairwise(spans):
        _adjacent(left, right, where)
    relation = nodes[nuclei[0][0]].relation
    tree = RSTTree("N" * len(spans), relation, tuple(span.tree for span in spans))
    return _Span(tree, spans[0].first, spans[-1].last)


def _with_satellites(core: _Span, satellites: list[tuple[str, _Span]], where: str) -> _Span:
    left = sorted(
        (pair for pair in satellites if pair[1].last < core.first), key=lambda pair: -pair[1].last
    )
    right = sorted(
        (pair for pair in satellites if pair[1].first > core.last), key=lambda pair: pair[1].first
    )
    if len(left) + len(right) < len(satellites):
        raise InputError("a satellite inside its nucleus", where=where, fix=_FIX)
    for i in range(max(len(left), len(right))):
        for relation, span in left[i : i + 1]:
            _adjacent(span, core, where)
            core = _Span(RSTTree("SN", relation, (span.tree, core.tree)), span.first, core.last)
        for relation, span in right[i : i + 1]:
            _adjacent(core, span, where)
            core = _Span(RSTTree("NS", relation, (core.tree, span.tree)), core.first, span.last)
    return core


def _adjacent(left: _Span, right: _Span, where: str) -> None:
    if right.first != left.last + 1:
        found = (
            f"spans that do not meet: up to segment {left.last + 1}, then from {right.first + 1}"
        )
        raise InputError(found, where=where, fix=_FIX)
