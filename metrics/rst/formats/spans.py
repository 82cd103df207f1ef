"""Trees given as labelled spans of EDUs: DMRST's strings.

    (1:Satellite=Contrast:4,5:Nucleus=span:6) (1:Nucleus=Same-Unit:3,4:Nucleus=Same-Unit:4) ...

One item per inner node, in any order: first and last EDU, role and relation of its left and of its right part.
``;prob=...`` and the like behind a relation are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...errors import InputError, excerpt
from ...text.texts import RSTTree
from ..trees import Tree

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
