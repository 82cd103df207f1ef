"""Trees of isanlp_rst: its ``DiscourseUnit`` objects, or the same attributes as JSON.

A unit has ``left``, ``right``, ``relation``, ``nuclearity`` ("NS", "SN" or "NN") and ``text``; a leaf has no children.
isanlp_rst itself is never imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InputError, excerpt
from ...text.texts import RSTTree
from ..tokens import words
from ..trees import Tree

_FIX = "Expected left, right, relation and nuclearity, or a text"


def read_isanlp(unit: Any, where: str = "isanlp") -> Tree:
    """The tree of a unit.

    Raises:
        InputError: one child only, an unknown nuclearity, a leaf without text.
    """
    left, right = _get(unit, "left"), _get(unit, "right")
    if left is None and right is None:
        text = _get(unit, "text")
        if not isinstance(text, str):
            raise InputError(f"found {excerpt(text)} as the text of an EDU", where=where, fix=_FIX)
        return tuple(words(text))
    if left is None or right is None:
        raise InputError("a unit with one child", where=where, fix=_FIX)
    nuc, rel = _get(unit, "nuclearity"), _get(unit, "relation")
    if nuc not in ("NS", "SN", "NN") or not isinstance(rel, str):
        problem = f"found nuclearity {excerpt(nuc)}, relation {excerpt(rel)}"
        raise InputError(problem, where=where, fix=_FIX)
    left_tree = read_isanlp(left, f"{where}.left")
    right_tree = read_isanlp(right, f"{where}.right")
    return RSTTree(nuc, rel, (left_tree, right_tree))


def _get(unit: Any, name: str) -> Any:
    if isinstance(unit, Mapping):
        return unit.get(name)
    return getattr(unit, name, None)
