"""Files of discourse trees: which format a file is in, and its trees.

| format | a file holds |
|---|---|
| `lisp` | trees in brackets (``.dis``), see `lisp` |
| `rs3` | one tree (``.rs3``, ``.rs4``), see `rs3` |
| `json` | a JSON value per line, or one over all lines; see `read_plain` |
| `dmrst` | JSON as above whose ``tree`` is a string over ``edus``, see below |
| `isanlp` | JSON as above, a unit or ``{"rst": [unit, ...]}``, see below |

DMRST's strings are labelled spans of EDUs:

    (1:Satellite=Contrast:4,5:Nucleus=span:6) (1:Nucleus=Same-Unit:3,4:Nucleus=Same-Unit:4) ...

One item per inner node, in any order: first and last EDU, role and relation of its left and of its right part.
``;prob=...`` and the like behind a relation are not read.

A unit of isanlp_rst, an object or the same attributes as JSON, has ``left``, ``right``, ``relation``, ``nuclearity``
("NS", "SN" or "NN") and ``text``; a leaf has no children. isanlp_rst itself is never imported.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, excerpt, unknown
from ...storage.bounded_files import read_small_file
from ...storage.bounded_inflation import inflated
from ...storage.json_and_yaml import parse_small_json
from ...text.texts import RSTTree
from ..trees import Tree, check_tree, words
from .lisp import read_lisp
from .rs3 import read_rs3

_PART = r"(\d+):(Nucleus|Satellite)=([^:,()]+?):(\d+)"
_ITEM = re.compile(rf"\({_PART},{_PART}\)")
_FIX = "Expected items such as (1:Nucleus=span:1,2:Satellite=Cause:3), one per inner node"


class _Cut(NamedTuple):
    middle: int  # first EDU of the right part, counted from 0
    nuc: str
    rel: str


def read_dmrst(text: str, edus: Sequence[Sequence[str]], where: str = "dmrst") -> Tree:
    """The tree over given EDUs.

    Raises:
        InputError: items that are no nodes, spans that do not fit, or a count of EDUs that differs.
    """
    words = [tuple(edu) for edu in edus]
    if not words:
        raise InputError("no EDUs", where=where, fix="Give the words of every EDU")
    if text.strip().upper() == "NONE" and len(words) == 1:
        return words[0]
    cuts = _cuts(text, where)
    tree = _tree(0, len(words) - 1, cuts, words, where)
    if len(cuts) != len(words) - 1:
        problem = f"{len(cuts)} inner nodes over {len(words)} EDUs"
        raise InputError(problem, where=where, fix=_FIX)
    return tree


def _cuts(text: str, where: str) -> Mapping[tuple[int, int], _Cut]:
    """The nodes by first and last EDU, counted from 0."""
    cuts: dict[tuple[int, int], _Cut] = {}
    rest = _ITEM.sub("", text).strip()
    if rest:
        raise InputError(f"found {excerpt(rest)}", where=where, fix=_FIX)
    for item in _ITEM.finditer(text):
        first, last, cut = _cut(item, where)
        if cuts.setdefault((first - 1, last - 1), cut) != cut:
            problem = f"a second node over EDUs {item[1]} to {item[8]}: {item.group()}"
            raise InputError(problem, where=where, fix=_FIX)
    return cuts


def _cut(item: re.Match[str], where: str) -> tuple[int, int, _Cut]:
    """First and last EDU of an item, counted from 1, and how it is cut."""
    first, middle, start, last = (int(item[group]) for group in (1, 4, 5, 8))
    left_role, left_relation = item[2], item[3]
    right_role, right_relation = item[6], item[7]
    nuc = left_role[0] + right_role[0]
    if start != middle + 1 or not first <= middle < last or nuc == "SS":
        raise InputError(f"found {item.group()}", where=where, fix=_FIX)
    # the relation stands at the satellite; a multinuclear node has it at both parts
    relation = right_relation if nuc == "NS" else left_relation
    return first, last, _Cut(start - 1, nuc, relation.partition(";")[0])


def _tree(
    first: int,
    last: int,
    cuts: Mapping[tuple[int, int], _Cut],
    words: Sequence[tuple[str, ...]],
    where: str,
) -> Tree:
    """The tree over the EDUs first to last."""
    if first == last:
        return words[first]
    cut = cuts.get((first, last))
    if cut is None:
        problem = f"no node over EDUs {first + 1} to {last + 1}"
        raise InputError(problem, where=where, fix=_FIX)
    left = _tree(first, cut.middle - 1, cuts, words, where)
    right = _tree(cut.middle, last, cuts, words, where)
    return RSTTree(cut.nuc, cut.rel, (left, right))


_NO_UNITS = "Expected left, right, relation and nuclearity, or a text"


def read_isanlp(unit: Any, where: str = "isanlp") -> Tree:
    """The tree of a unit.

    Raises:
        InputError: one child only, an unknown nuclearity, a leaf without text.
    """
    left, right = _get(unit, "left"), _get(unit, "right")
    if left is None and right is None:
        text = _get(unit, "text")
        if not isinstance(text, str):
            raise InputError(
                f"found {excerpt(text)} as the text of an EDU", where=where, fix=_NO_UNITS
            )
        return tuple(words(text))
    if left is None or right is None:
        raise InputError("a unit with one child", where=where, fix=_NO_UNITS)
    nuc, rel = _get(unit, "nuclearity"), _get(unit, "relation")
    if nuc not in ("NS", "SN", "NN") or not isinstance(rel, str):
        problem = f"found nuclearity {excerpt(nuc)}, relation {excerpt(rel)}"
        raise InputError(problem, where=where, fix=_NO_UNITS)
    left_tree = read_isanlp(left, f"{where}.left")
    right_tree = read_isanlp(right, f"{where}.right")
    return RSTTree(nuc, rel, (left_tree, right_tree))


def _get(unit: Any, name: str) -> Any:
    if isinstance(unit, Mapping):
        return unit.get(name)
    return getattr(unit, name, None)


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
    """The trees of one JSON value: our own form, ``{"rst": ...}`` around it, DMRST's, or isanlp_rst's.

    Our own: a leaf is a list of words, a node ``{"nuc": "NS", "rel": "Cause", "children": [...]}``.
    """
    if isinstance(value, Mapping) and "rst" in value:
        units = _units(value["rst"])
        parts = [read_plain(unit, f"{where}: rst[{i}]") for i, unit in enumerate(units)]
        return [tree for part in parts for tree in part]
    if isinstance(value, Mapping) and "tree" in value:
        spans, edus = value["tree"], value.get("edus")
        if not isinstance(spans, str) or not isinstance(edus, list):
            fix = 'Expected "tree" (a string) and "edus"'
            raise InputError(f"found {excerpt(value)}", where=where, fix=fix)
        words = [_edu(edu, where) for edu in edus]
        return [read_dmrst(spans, words, where)]
    if isinstance(value, Mapping) and ("left" in value or "nuclearity" in value):
        return [read_isanlp(value, where)]
    return [RSTTree.read(value, where)]


def _units(inner: Any) -> list[Any]:
    """The values inside ``{"rst": ...}``: a list of objects is several trees, all else is one."""
    if isinstance(inner, list) and inner and all(isinstance(unit, Mapping) for unit in inner):
        return inner
    return [inner]


def _edu(edu: Any, where: str) -> list[str]:
    words = edu.split() if isinstance(edu, str) else edu
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        problem = f"found the EDU {excerpt(edu)}"
        raise InputError(problem, where=where, fix="An EDU is a text or a list of words")
    return words


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
