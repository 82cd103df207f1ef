"""Files of discourse trees: which format a file is in, and its trees.

| format | a file holds |
|---|---|
| `lisp` | trees in brackets (``.dis``), see `lisp` |
| `rs3` | one tree (``.rs3``, ``.rs4``), see `rs3` |
| `json` | a JSON value per line, or one over all lines; see `read_plain` |
| `dmrst` | JSON as above whose ``tree`` is a string over ``edus``, see `spans` |
| `isanlp` | JSON as above, a unit or ``{"rst": [unit, ...]}``, see `isanlp_units` |
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError, excerpt, unknown
from ...storage.bounded_files import read_small_file
from ...storage.bounded_inflation import inflated
from ...storage.json_and_yaml import parse_small_json
from ...text.texts import RSTTree
from ..trees import Tree, check_tree
from .isanlp_units import read_isanlp
from .lisp import read_lisp
from .rs3 import read_rs3
from .spans import read_dmrst

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
